/* OlderSystems.c - what LLVM's archives and libstdc++'s use of glibc 2.36
 *
 * With this, the wheel's libraries run from glibc 2.34 on. Their version scripts keep it inside. */
#include <stdint.h>
#include <sys/random.h>

uint32_t arc4random(void);

uint32_t arc4random(void) {
  uint32_t number;
  while (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number)) {
  }
  return number;
}
