/* What tests see of the fake driver. Every name is looked up with dlsym in the
 * library that EJK_CUDA_DRIVER names. */
#ifndef EJK_TEST_RUNTIME_FAKE_CUDA_H
#define EJK_TEST_RUNTIME_FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

#define FAKE_MAX_LAUNCHES 4096
#define FAKE_MAX_ARGS 16
#define FAKE_MAX_MAPS 4

/* What the 128 bytes of a tensor map hold here: the arguments it was made from, in
 * fewer bits, with zeros past the rank. */
typedef struct fake_tensor_map {
  uint64_t magic, address, sizes[5], strides[4];
  void *context; /* the current one */
  uint16_t rank, box[5], element_strides[5];
  uint16_t type, interleave, swizzle, promotion, fill;
} fake_tensor_map;

typedef struct fake_launch {
  char kernel[32];
  unsigned grid[3], block[3], shared_bytes;
  void *stream, *context;
  int num_args; /* known from the kernel's name, which ends in _aN */
  uint64_t args[FAKE_MAX_ARGS];
  fake_tensor_map maps[FAKE_MAX_MAPS]; /* those arguments that are tensor maps, in order */
  int num_maps;
} fake_launch;

typedef struct fake_state {
  /* Set by tests. */
  int device_count, major, minor, l2_bytes, shared_optin, multiprocessors;
  size_t max_alloc;
  int fail_launch;   /* the result of every launch */
  int fail_encoding; /* the result of making each tensor map */
  int fail_call;     /* the number of the call that fails with fail_result; 0 for none */
  int fail_result;

  /* Recorded. */
  int calls; /* of all driver functions */
  int pushes, pops, retained, module_loads, live_allocations, synchronizations;
  int max_dynamic_shared;
  char image[64]; /* start of the last image loaded */
  int num_encodings, num_launches, captured_launches, graph_replays;
  fake_launch launches[FAKE_MAX_LAUNCHES];
} fake_state;

#endif
