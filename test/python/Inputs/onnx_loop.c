/* The loop of docs/onnx.md, on a CPU. Tokens come from standard input, each as its query, key, value,
 * decay and beta; outputs, and at the end the state, go to standard output. */
#include <ejk/runtime.h>
#include <stdio.h>
#include <stdlib.h>

enum { HQ = 4, HKV = 2, DK = 8, DV = 4, STATE = HKV * DK * DV };

static void check(ejk_error *error) {
  if (!error)
    return;
  fprintf(stderr, "%s\n", ejk_error_message(error));
  exit(1);
}

static void *allocate(size_t bytes) {
  void *data = aligned_alloc(256, (bytes + 256) / 256 * 256);
  return data ? data : (abort(), NULL);
}

static DLTensor tensor(int32_t ndim, int64_t *shape) {
  size_t bytes = sizeof(float);
  for (int32_t i = 0; i < ndim; ++i)
    bytes *= (size_t)shape[i];
  return (DLTensor){.device = {kDLCPU, 0}, .ndim = ndim, .dtype = {kDLFloat, 32, 1}, .shape = shape, .data = allocate(bytes)};
}

static void next(const DLTensor *to) {
  if (fread(to->data, sizeof(float), (size_t)to->shape[2], stdin) != (size_t)to->shape[2])
    exit(2);
}

int main(int argc, char **argv) {
  const int tokens = argc == 2 ? atoi(argv[1]) : 0;
  int64_t queries[] = {1, 1, HQ * DK}, keys[] = {1, 1, HKV * DK}, values[] = {1, 1, HKV * DV}, betas[] = {1, 1, HKV};
  int64_t outputs_[] = {1, 1, HQ * DV}, states[] = {1, HKV, DK, DV};
  DLTensor query = tensor(3, queries), key = tensor(3, keys), value = tensor(3, values), decay = tensor(3, keys);
  DLTensor beta = tensor(3, betas), output = tensor(3, outputs_), state[] = {tensor(4, states), tensor(4, states)};
  for (int i = 0; i < STATE; ++i)
    ((float *)state[0].data)[i] = 0;
  ejk_package *package;
  ejk_executable *executable;
  size_t entry, bytes;
  void *stream = NULL, *workspace;
#define read_token() (next(&query), next(&key), next(&value), next(&decay), next(&beta))
#define write_token() fwrite(output.data, sizeof(float), HQ * DV, stdout)
#include "loop.inc"
  fwrite(past->data, sizeof(float), STATE, stdout);
  return 0;
}
