/* OlderSystems.c - what LLVM's archives use of glibc 2.36 and later
 *
 * With this, the shared library runs from glibc 2.34 on. The version script keeps it inside. */
#include <stdint.h>
#include <sys/random.h>

uint32_t arc4random(void);

uint32_t arc4random(void) {
  uint32_t number;
  while (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number)) {
  }
  return number;
}
