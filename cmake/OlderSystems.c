/* OlderSystems.c - what LLVM's archives and libstdc++'s use of glibc after 2.28
 *
 * With this, the wheel's libraries and programs run from glibc 2.28 on. All of it stays inside of them. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Functions that glibc has had for long, and has given a new version since: those of the old one. */
#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#define JUMP "jmp ejk_old_"
#define PLT "@PLT"
#elif defined(__aarch64__)
#define OLDEST "GLIBC_2.17"
#define JUMP "b ejk_old_"
#define PLT ""
#endif
#define OLD_OF(name, version)                                                                      \
  __asm__(".symver ejk_old_" #name ", " #name "@" version "\n"                                     \
          ".text\n.globl " #name "\n.hidden " #name "\n.type " #name ", %function\n" #name ":\n"   \
          JUMP #name PLT "\n.size " #name ", . - " #name "\n");
#define OLD(name) OLD_OF(name, OLDEST)

OLD(exp)
OLD(exp2)
OLD(log)
OLD(log2)
OLD(pow)
OLD(dladdr)
OLD(dlclose)
OLD(dlerror)
OLD(dlopen)
OLD(dlsym)
OLD(pthread_attr_setstacksize)
OLD(pthread_create)
OLD(pthread_detach)
OLD(pthread_getspecific)
OLD(pthread_join)
OLD(pthread_key_create)
OLD(pthread_key_delete)
OLD(pthread_mutex_trylock)
OLD(pthread_once)
OLD(pthread_rwlock_rdlock)
OLD(pthread_rwlock_unlock)
OLD(pthread_rwlock_wrlock)
OLD(pthread_setspecific)
OLD(pthread_sigmask)
#if defined(__x86_64__)
OLD_OF(pthread_setname_np, "GLIBC_2.12")
#else
OLD(pthread_setname_np)
#endif

/* Functions and variables that glibc 2.28 lacks. */
char __libc_single_threaded = 0; /* it may have threads */

uint32_t arc4random(void);
uint32_t arc4random(void) {
  uint32_t number;
  while (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number)) {
  }
  return number;
}

int stat(const char *path, struct stat *status) {
  return (int)syscall(SYS_newfstatat, AT_FDCWD, path, status, 0);
}

int lstat(const char *path, struct stat *status) {
  return (int)syscall(SYS_newfstatat, AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}

int fstat(int file, struct stat *status) { return (int)syscall(SYS_fstat, file, status); }

int fstat64(int file, struct stat64 *status) { return (int)syscall(SYS_fstat, file, status); }

/* LLVM shows how much memory was allocated, where it is asked for statistics. */
struct mallinfo2 {
  size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct mallinfo2 mallinfo2(void);
struct mallinfo2 mallinfo2(void) {
  struct mallinfo2 none = {0};
  return none;
}

/* A program of glibc 2.34 or newer has its constructors run by the C library. */
#ifdef EJK_OLDER_START
typedef int Main(int, char **, char **);
int ejk_old_start(Main *, int, char **, Main *, void (*)(void), void (*)(void), void *);
__asm__(".symver ejk_old_start, __libc_start_main@" OLDEST);
extern void (*__init_array_start[])(int, char **, char **) __attribute__((visibility("hidden")));
extern void (*__init_array_end[])(int, char **, char **) __attribute__((visibility("hidden")));

static int construct(int count, char **arguments, char **environment) {
  for (void (**each)(int, char **, char **) = __init_array_start; each != __init_array_end; ++each)
    (*each)(count, arguments, environment);
  return 0;
}

int __libc_start_main(Main *, int, char **, Main *, void (*)(void), void (*)(void), void *);
int __libc_start_main(Main *main, int count, char **arguments, Main *initialize,
                      void (*finalize)(void), void (*finalizeLoader)(void), void *stack) {
  (void)initialize;
  return ejk_old_start(main, count, arguments, construct, finalize, finalizeLoader, stack);
}
#endif
