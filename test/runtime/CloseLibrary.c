/* CloseLibrary.c - a program that opens the runtime, uses a CPU's threads and closes it
 *
 *   ejk-close-library LIBRARY PACKAGE
 *
 * Says "alive" in the end: the pool's threads still have their code then.
 */
#include "ejk/runtime.h"
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
  void *library = argc == 3 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!library) {
    fprintf(stderr, "%s\n", argc == 3 ? dlerror() : "usage: ejk-close-library LIBRARY PACKAGE");
    return 2;
  }
  ejk_error *(*load)(const char *, ejk_package **) =
      (ejk_error * (*)(const char *, ejk_package **)) dlsym(library, "ejk_package_load_file");
  ejk_error *(*create)(const ejk_package *, const ejk_executable_options *, ejk_executable **) =
      (ejk_error * (*)(const ejk_package *, const ejk_executable_options *, ejk_executable **))
          dlsym(library, "ejk_executable_create");
  void (*destroyExecutable)(ejk_executable *) =
      (void (*)(ejk_executable *))dlsym(library, "ejk_executable_destroy");
  void (*destroyPackage)(ejk_package *) =
      (void (*)(ejk_package *))dlsym(library, "ejk_package_destroy");
  ejk_executable_options options = {0};
  options.struct_size = sizeof(options);
  options.device_type = kDLCPU;
  ejk_package *package = NULL;
  ejk_executable *executable = NULL;
  if (load(argv[2], &package) || create(package, &options, &executable))
    return 1;
  destroyExecutable(executable);
  destroyPackage(package);
  if (dlclose(library))
    return 1;
  usleep(50000);
  puts("alive");
  return 0;
}
