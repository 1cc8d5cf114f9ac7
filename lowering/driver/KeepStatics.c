/*===- KeepStatics.c - no object of the library is destroyed at exit --------===*\
|*
|* A thread may still compile when the process ends: whoever cancels a compilation need not wait
|* for it. Objects of LLVM and MLIR that live as long as the process must then stay, so the library
|* has a function of its own where others call the C library's to register destructors.
|*
\*===------------------------------------------------------------------------===*/

int __cxa_atexit(void (*destroy)(void *), void *object, void *library);

int __cxa_atexit(void (*destroy)(void *), void *object, void *library) {
  (void)destroy, (void)object, (void)library;
  return 0;
}
