/* A small server on this machine's CPU: serve serve.ejk, of
 *
 *   ejk-compile examples/serve.mlir --target=cpu -o serve.ejk
 *
 * Two requests have their states in slots of one pool. Their prompts are prefilled in pieces, side by side;
 * a state is kept as a checkpoint; tokens are drafted, and some of them rejected, without a copy of a state;
 * the rest is decoded token by token; and one request goes on from its checkpoint once more. Every row must
 * be what one call over the whole sequence gives. */
#include <ejk/runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { H = 2, D = 64, ROWS = 24, REQUESTS = 2, DRAFTS = 4, SLOTS = 16, MOST = REQUESTS * ROWS };
enum { Q, K, V, G, BETA, SEQUENCES };

static const DLDataType f32 = {kDLFloat, 32, 1}, i32 = {kDLInt, 32, 1};
/* What the projections of a model would give: of each request and row, q, k and v of H heads, and the gate and
 * rate of each. */
static float rows[SEQUENCES][REQUESTS][ROWS][H * D];
static float *pool; /* [SLOTS, H, D, D] */
static const ejk_package *package;
static const ejk_executable *executable;

static void check(ejk_error *error) {
  if (!error)
    return;
  fprintf(stderr, "serve: %s\n", ejk_error_message(error));
  ejk_error_destroy(error);
  exit(1);
}

/* Zeroed memory of a tensor. Packages ask for addresses that are multiples of 16, as calloc's are. */
static void *allocate(size_t bytes) {
  void *memory = calloc(bytes + 1, 1);
  if (!memory)
    exit(1);
  return memory;
}

static DLTensor tensor(DLDataType type, int ndim, int64_t *shape, void *data) {
  DLTensor made = {.data = data, .device = {kDLCPU, 0}, .ndim = ndim, .dtype = type, .shape = shape};
  return made;
}

/* Launches `entry` on `count` rows in the shape [first, second, ...] that it takes, and whatever comes behind the
 * pool. `o` has the outputs' rows. */
static void launch(const char *name, int64_t first, int64_t second, float *const sequences[], DLTensor *behind,
                   size_t count, float *o) {
  int64_t wide[] = {first, second, H, D}, narrow[] = {first, second, H}, states[] = {SLOTS, H, D, D};
  DLTensor tensors[SEQUENCES + 1], out = tensor(f32, 4, wide, o);
  const DLTensor *inputs[SEQUENCES + 4], *outputs[] = {&out, &tensors[SEQUENCES]};
  for (int s = 0; s < SEQUENCES; ++s)
    tensors[s] = s < G ? tensor(f32, 4, wide, sequences[s]) : tensor(f32, 3, narrow, sequences[s]);
  tensors[SEQUENCES] = tensor(f32, 4, states, pool); /* an input, and an output in its place */
  for (int s = 0; s <= SEQUENCES; ++s)
    inputs[s] = &tensors[s];
  for (size_t i = 0; i < count; ++i)
    inputs[SEQUENCES + 1 + i] = &behind[i];

  size_t entry;
  check(ejk_package_find_entry(package, name, &entry));
  ejk_launch_params params = {.struct_size = sizeof(params), .inputs = inputs, .num_inputs = SEQUENCES + 1 + count,
                              .outputs = outputs, .num_outputs = 2};
  ejk_choice choice = {.struct_size = sizeof(choice)};
  check(ejk_executable_choose(executable, entry, inputs, params.num_inputs, NULL, &choice));
  char *memory = allocate(choice.workspace_bytes + 256);
  params.workspace_bytes = choice.workspace_bytes;
  params.workspace = memory + (256 - (uintptr_t)memory % 256); /* a multiple of 256 */
  check(ejk_launch(executable, entry, &params));
  free(memory);
}

static size_t elementsOf(int sequence) { return sequence < G ? (size_t)H * D : H; }

/* Rows `from[n]` to `to[n]` of each request, end to end in one batch. `o[n][t]` gets row t's output. */
static void extend(const int from[REQUESTS], const int to[REQUESTS], const int32_t read[REQUESTS],
                   const int32_t write[REQUESTS], float o[REQUESTS][ROWS][H * D]) {
  int32_t *offsets = allocate((REQUESTS + 1) * sizeof(*offsets)), *slots[2];
  float *packed[SEQUENCES], *out = allocate(MOST * H * D * sizeof(float));
  for (int n = 0; n < REQUESTS; ++n)
    offsets[n + 1] = offsets[n] + to[n] - from[n];
  for (int s = 0; s < SEQUENCES; ++s) {
    size_t size = elementsOf(s);
    packed[s] = allocate(MOST * size * sizeof(float));
    for (int n = 0; n < REQUESTS; ++n)
      for (int t = from[n]; t < to[n]; ++t)
        memcpy(packed[s] + (size_t)(offsets[n] + t - from[n]) * size, rows[s][n][t], size * sizeof(float));
  }
  for (int i = 0; i < 2; ++i) {
    slots[i] = allocate(REQUESTS * sizeof(int32_t));
    memcpy(slots[i], i ? write : read, REQUESTS * sizeof(int32_t));
  }
  int64_t requests[] = {REQUESTS}, numOffsets[] = {REQUESTS + 1};
  DLTensor behind[] = {tensor(i32, 1, requests, slots[0]), tensor(i32, 1, requests, slots[1]),
                       tensor(i32, 1, numOffsets, offsets)};
  launch("extend", 1, offsets[REQUESTS], packed, behind, 3, out);
  for (int n = 0; n < REQUESTS; ++n)
    for (int t = from[n]; t < to[n]; ++t)
      memcpy(o[n][t], out + (size_t)(offsets[n] + t - from[n]) * H * D, sizeof(o[n][t]));
  for (int s = 0; s < SEQUENCES; ++s)
    free(packed[s]);
  free(slots[0]), free(slots[1]), free(offsets), free(out);
}

/* Four drafted tokens of each request from row `from` on, of which the last `wrong` are not the rows that will be
 * accepted. Each starts from the state after its row accepted[n] of `slots`, and leaves its own there. */
static void verify(int from, int wrong, const int32_t slots[REQUESTS][DRAFTS], const int32_t accepted[REQUESTS],
                   float o[REQUESTS][ROWS][H * D]) {
  float *drafted[SEQUENCES], *out = allocate(REQUESTS * DRAFTS * H * D * sizeof(float));
  for (int s = 0; s < SEQUENCES; ++s) {
    size_t size = elementsOf(s);
    drafted[s] = allocate(REQUESTS * DRAFTS * size * sizeof(float));
    for (int n = 0; n < REQUESTS; ++n)
      for (int t = 0; t < DRAFTS; ++t)
        memcpy(drafted[s] + (size_t)(n * DRAFTS + t) * size, rows[s][n][t < DRAFTS - wrong ? from + t : t],
               size * sizeof(float));
  }
  int32_t *of = allocate(REQUESTS * DRAFTS * sizeof(*of)), *kept = allocate(REQUESTS * sizeof(*kept));
  memcpy(of, slots, REQUESTS * DRAFTS * sizeof(*of));
  memcpy(kept, accepted, REQUESTS * sizeof(*kept));
  int64_t table[] = {REQUESTS, DRAFTS};
  DLTensor behind[] = {tensor(i32, 2, table, of), tensor(i32, 1, table, kept)};
  launch("verify", REQUESTS, DRAFTS, drafted, behind, 2, out);
  for (int n = 0; n < REQUESTS; ++n)
    for (int t = 0; t < DRAFTS - wrong; ++t)
      memcpy(o[n][from + t], out + (size_t)(n * DRAFTS + t) * H * D, sizeof(o[n][0]));
  for (int s = 0; s < SEQUENCES; ++s)
    free(drafted[s]);
  free(of), free(kept), free(out);
}

/* Numbers between -1 and 1, the same on every machine. */
static float draw(void) {
  static uint32_t state = 1;
  state = state * 1664525u + 1013904223u;
  return (float)(state >> 8) / 8388608.0f - 1.0f;
}

static void drawRows(void) {
  for (int s = 0; s < SEQUENCES; ++s)
    for (int n = 0; n < REQUESTS; ++n)
      for (int t = 0; t < ROWS; ++t)
        for (size_t i = 0; i < elementsOf(s); ++i)
          rows[s][n][t][i] = s == G      ? -0.5f * fabsf(draw())   /* a decay is at most 1 */
                             : s == BETA ? fabsf(draw())
                             : s == K    ? draw() * 0.2f           /* keys about as long as 1 */
                                         : draw();
}

static float largestDifference(float a[REQUESTS][ROWS][H * D], float b[REQUESTS][ROWS][H * D], int from) {
  float largest = 0;
  for (int n = 0; n < REQUESTS; ++n)
    for (int t = from; t < ROWS; ++t)
      for (int i = 0; i < H * D; ++i)
        largest = fmaxf(largest, fabsf(a[n][t][i] - b[n][t][i]));
  return largest;
}

int main(int argc, char **argv) {
  static float whole[REQUESTS][ROWS][H * D], served[REQUESTS][ROWS][H * D], again[REQUESTS][ROWS][H * D];
  const int32_t none[] = {-1, -1}, own[] = {2, 7}, checkpoint[] = {12, 13}, other[] = {14, 15};
  if (argc != 2)
    return fprintf(stderr, "usage: serve serve.ejk\n"), 2;
  ejk_package *loaded;
  ejk_executable *made;
  ejk_executable_options options = {.struct_size = sizeof(options), .device_type = kDLCPU};
  check(ejk_package_load_file(argv[1], &loaded));
  check(ejk_executable_create(loaded, &options, &made));
  package = loaded, executable = made;
  pool = allocate((size_t)SLOTS * H * D * D * sizeof(float));
  drawRows();

  /* All at once. A request without any slot would be skipped. */
  extend((int[]){0, 0}, (int[]){ROWS, ROWS}, none, other, whole);

  /* The prompts, of 7 and 10 rows, in two pieces each; a request that has no slot to start from starts from zero. */
  extend((int[]){0, 0}, (int[]){3, 6}, none, own, served);
  extend((int[]){3, 6}, (int[]){7, 10}, own, own, served);
  extend((int[]){7, 10}, (int[]){10, 10}, own, own, served);
  /* A checkpoint: the state of no further rows, in another slot. */
  extend((int[]){10, 10}, (int[]){10, 10}, own, checkpoint, served);

  /* Drafts, the last two of which are wrong. The state before them is that of the slots' row 1; the states after
   * the drafts lie in four slots, of which nothing is copied back: the next call says which it starts from. */
  const int32_t slots[REQUESTS][DRAFTS] = {{2, 3, 4, 5}, {7, 8, 9, 10}};
  verify(10, 2, slots, (int32_t[]){1, 1}, served);
  verify(12, 1, slots, (int32_t[]){2, 2}, served);
  /* Three were right, so that both requests go on from the third slot, token by token. */
  const int32_t third[] = {4, 9};
  extend((int[]){15, 15}, (int[]){16, 16}, third, own, served);
  for (int t = 16; t < ROWS; ++t)
    extend((int[]){t, t}, (int[]){t + 1, t + 1}, own, own, served);
  float served_error = largestDifference(whole, served, 0);
  printf("served as drafted, against the whole: largest difference %.1e\n", served_error);

  /* From the checkpoint once more. */
  extend((int[]){10, 10}, (int[]){ROWS, ROWS}, checkpoint, own, again);
  float restored_error = largestDifference(whole, again, 10);
  printf("from the checkpoint, against the whole: largest difference %.1e\n", restored_error);

  free(pool);
  ejk_executable_destroy(made);
  ejk_package_destroy(loaded);
  return served_error <= 1e-5f && restored_error <= 1e-5f ? 0 : 1;
}
