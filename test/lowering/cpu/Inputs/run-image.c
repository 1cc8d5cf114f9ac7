/* Runs the kernels of a CPU image, on Linux for aarch64 and without a C library, so that
 * qemu-aarch64 runs it on any machine. The file named by the first argument is memory that is to
 * lie at MEMORY: first a table, then the image, arguments and tensors, whose addresses the
 * writer of the file has put in. What the memory holds at the end is written to the second. */
typedef unsigned long word;

#define MEMORY 0x200000000ul

struct launch {
  void (*kernel)(const void *arguments, long first, long end);
  const void *arguments;
  long count;
};
struct table {
  word bytes, launches;
  struct launch launch[64];
};

static long call(long number, long a, long b, long c, long d, long e, long f) {
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = a, x1 asm("x1") = b, x2 asm("x2") = c, x3 asm("x3") = d,
                x4 asm("x4") = e, x5 asm("x5") = f;
  asm volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
}
enum { openat = 56, close_file = 57, write_file = 64, leave = 93, map = 222, current = -100 };

static void fail(long code) { call(leave, code, 0, 0, 0, 0, 0); }

void run(word *stack) {
  char **arguments = (char **)(stack + 1);
  long file = call(openat, current, (long)arguments[1], 0 /* O_RDONLY */, 0, 0, 0);
  if (file < 0)
    fail(2);
  /* The table says how much there is. All rights at once: this is a test. */
  struct table *table = (struct table *)MEMORY;
  if (call(map, MEMORY, 4096, 7, 0x12 /* private, fixed */, file, 0) != (long)MEMORY)
    fail(3);
  word bytes = table->bytes;
  if (call(map, MEMORY, bytes, 7, 0x12, file, 0) != (long)MEMORY)
    fail(4);
  for (word i = 0; i < table->launches; ++i) {
    struct launch *launch = &table->launch[i];
    /* In two ranges, as two threads would. */
    launch->kernel(launch->arguments, 0, launch->count / 2);
    launch->kernel(launch->arguments, launch->count / 2, launch->count);
  }
  long out = call(openat, current, (long)arguments[2], 0x241 /* write, make, empty */, 0644, 0, 0);
  if (out < 0)
    fail(5);
  for (word done = 0; done < bytes;) {
    long written = call(write_file, out, MEMORY + done, bytes - done, 0, 0, 0);
    if (written <= 0)
      fail(6);
    done += written;
  }
  fail(0);
}

asm(".globl _start\n_start:\n  mov x0, sp\n  b run\n");
