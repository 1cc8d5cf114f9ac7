/* Fits the parameters of a recurrence by gradient descent. To try it:
 *
 *   ejk-compile examples/mamba2.mlir -o mamba2_vjp.ejk --vjp --wrt=A,bias --target=cpu,cuda
 *   train mamba2_vjp.ejk
 *
 * It runs on the GPU, or on the CPU where there is none or the package has no code for it.
 *
 * The package has two entries: mamba2, and mamba2_vjp, its derivative by A and
 * bias. The outputs to fit are the layer's own, with parameters that we choose;
 * from others, the descent has to find them again. launch_explained.c says what
 * it takes to load a package and launch one entry.
 */
#include <ejk/runtime.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B = 2, T = 32, H = 4, K = 64, V = 32, STEPS = 50 };
enum { KEYS = B * T * H * K, VALUES = B * T * H * V, GATES = B * T * H, STATE = B * H * K * V };

/* What a gradient is multiplied by. The loss is a mean, so gradients are small. */
static const float rate = 16.0f;

/* Where the executable runs: kDLCUDA or kDLCPU. */
static int32_t device_type;

static void check(ejk_error *error) {
  if (!error)
    return;
  fprintf(stderr, "train: %s\n", ejk_error_message(error));
  ejk_error_destroy(error);
  exit(1);
}

/* Numbers from -size to size, the same on every machine. */
static void draw(float *to, int count, float size) {
  static uint32_t state = 1;
  for (int i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    to[i] = size * ((float)(state >> 8) / 8388608.0f - 1.0f);
  }
}

/* Every tensor here is f32, compact and on device 0. */
static size_t bytes_of(const DLTensor *tensor) {
  size_t bytes = sizeof(float);
  for (int i = 0; i < tensor->ndim; ++i)
    bytes *= (size_t)tensor->shape[i];
  return bytes;
}

/* Host memory at a multiple of 256 bytes, in any C since 1999. What malloc gave stands before it. */
static void *allocate_on_host(size_t bytes) {
  char *whole = malloc(bytes + 256 + sizeof(void *));
  if (!whole)
    abort();
  char *data = whole + sizeof(void *);
  data += (256 - (uintptr_t)data % 256) % 256;
  memcpy(data - sizeof(void *), &whole, sizeof(void *));
  return data;
}

static void *allocate(size_t bytes) {
  void *data = NULL;
  if (device_type == kDLCUDA)
    check(ejk_device_alloc(0, bytes, &data));
  else if (bytes)
    data = allocate_on_host(bytes);
  return data;
}

static void release(void *data) {
  if (device_type == kDLCUDA) {
    check(ejk_device_free(0, data));
  } else if (data) {
    void *whole;
    memcpy(&whole, (char *)data - sizeof(void *), sizeof(void *));
    free(whole);
  }
}

static DLTensor make(int32_t ndim, int64_t *shape) {
  DLTensor tensor = {.device = {(DLDeviceType)device_type, 0}, .ndim = ndim, .shape = shape};
  tensor.dtype = (DLDataType){kDLFloat, 32, 1};
  tensor.data = allocate(bytes_of(&tensor));
  return tensor;
}

static void upload(const DLTensor *tensor, const float *host) {
  if (device_type == kDLCUDA)
    check(ejk_copy_to_device(0, tensor->data, host, bytes_of(tensor)));
  else
    memcpy(tensor->data, host, bytes_of(tensor));
}

/* On a GPU, waits for what was launched on stream 0, as all is here. On a CPU a launch has
 * returned when its work is done. */
static void download(float *host, const DLTensor *tensor) {
  if (device_type == kDLCUDA)
    check(ejk_copy_to_host(0, host, tensor->data, bytes_of(tensor)));
  else
    memcpy(host, tensor->data, bytes_of(tensor));
}

/* An entry, and all that its launches are given: made once, launched at each step. */
typedef struct call {
  size_t entry;
  ejk_launch_params params;
} call;

static call prepare(const ejk_package *package, const ejk_executable *executable, const char *name,
                    const DLTensor *const *inputs, size_t num_inputs,
                    const DLTensor *const *outputs, size_t num_outputs) {
  call made = {.params = {.struct_size = sizeof(ejk_launch_params),
                          .inputs = inputs,
                          .num_inputs = num_inputs,
                          .outputs = outputs,
                          .num_outputs = num_outputs}};
  check(ejk_package_find_entry(package, name, &made.entry));
  ejk_choice choice = {.struct_size = sizeof(choice)};
  check(ejk_executable_choose(executable, made.entry, inputs, num_inputs, NULL, &choice));
  made.params.workspace_bytes = choice.workspace_bytes;
  made.params.workspace = allocate(made.params.workspace_bytes);
  return made;
}

/* The mean square of o - target, and in `gradient` its derivative by o. */
static double loss_of(const float *o, const float *target, float *gradient) {
  const double count = VALUES;
  double loss = 0;
  for (int i = 0; i < VALUES; ++i) {
    double difference = (double)o[i] - target[i];
    loss += difference * difference / count;
    gradient[i] = (float)(2 * difference / count);
  }
  return loss;
}

static void print_row(const char *name, const float *row, const float *expected) {
  printf("%-4s", name);
  for (int h = 0; h < H; ++h)
    printf(" %7.4f", row[h]);
  printf(", to be found:");
  for (int h = 0; h < H; ++h)
    printf(" %4.1f", expected[h]);
  printf("\n");
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: train mamba2_vjp.ejk\n");
    return 2;
  }
  ejk_package *package;
  ejk_executable *executable;
  check(ejk_package_load_file(argv[1], &package));
  check(ejk_executable_create(package, NULL, &executable));
  device_type = ejk_executable_device_type(executable);

  /* 1. Tensors. The derivative takes the function's inputs and a gradient of the
   *    loss by each result, in that order, and gives one by each parameter; it
   *    recomputes what it needs of the forward pass, so nothing else is kept. */
  int64_t keys[] = {B, T, H, K}, values[] = {B, T, H, V}, gates[] = {B, T, H};
  int64_t states[] = {B, H, K, V}, heads[] = {H};
  DLTensor c = make(4, keys), b = make(4, keys), x = make(4, values), dt = make(3, gates);
  DLTensor A = make(1, heads), bias = make(1, heads), o = make(4, values), ht = make(4, states);
  DLTensor d_o = make(4, values), d_ht = make(4, states);
  DLTensor d_A = make(1, heads), d_bias = make(1, heads);
  const DLTensor *inputs[] = {&c, &b, &x, &dt, &A, &bias, &d_o, &d_ht};
  const DLTensor *results[] = {&o, &ht}, *gradients[] = {&d_A, &d_bias};
  call forward = prepare(package, executable, "mamba2", inputs, 6, results, 2);
  call backward = prepare(package, executable, "mamba2_vjp", inputs, 8, gradients, 2);

  /* 2. The data. The loss does not look at the final state: its gradient is 0. */
  static float drawn[KEYS], found[VALUES], target[VALUES], gradient[VALUES], zeros[STATE];
  draw(drawn, KEYS, 0.125f);
  upload(&c, drawn);
  draw(drawn, KEYS, 1.0f);
  upload(&b, drawn);
  draw(drawn, VALUES, 1.0f);
  upload(&x, drawn);
  draw(drawn, GATES, 1.0f);
  upload(&dt, drawn);
  upload(&d_ht, zeros);

  /* 3. What is to be fitted, and parameters that do not fit it yet. */
  const float expected_A[H] = {-2.0f, -1.5f, -1.0f, -0.5f};
  const float expected_bias[H] = {-0.5f, 0.0f, 0.5f, 1.0f};
  upload(&A, expected_A);
  upload(&bias, expected_bias);
  check(ejk_launch(executable, forward.entry, &forward.params));
  download(target, &o);
  float host_A[H] = {0}, host_bias[H] = {0}, step_A[H], step_bias[H];

  /* 4. The descent. The loss is formed on the host, where this program has no
   *    kernel to write for it; a framework would leave o and d_o on the device,
   *    and nothing here would wait. */
  double first = 0, loss = 0;
  for (int step = 0;; ++step) {
    upload(&A, host_A);
    upload(&bias, host_bias);
    check(ejk_launch(executable, forward.entry, &forward.params));
    download(found, &o);
    loss = loss_of(found, target, gradient);
    if (step == 0)
      first = loss;
    if (step % 10 == 0)
      printf("step %2d: loss %.3e\n", step, loss);
    if (step == STEPS)
      break;
    upload(&d_o, gradient);
    check(ejk_launch(executable, backward.entry, &backward.params));
    download(step_A, &d_A);
    download(step_bias, &d_bias);
    for (int h = 0; h < H; ++h) {
      host_A[h] -= rate * step_A[h];
      host_bias[h] -= rate * step_bias[h];
    }
  }
  print_row("A", host_A, expected_A);
  print_row("bias", host_bias, expected_bias);

  DLTensor *tensors[] = {&c, &b, &x, &dt, &A, &bias, &o, &ht, &d_o, &d_ht, &d_A, &d_bias};
  for (size_t i = 0; i < sizeof(tensors) / sizeof(*tensors); ++i)
    release(tensors[i]->data);
  release(forward.params.workspace);
  release(backward.params.workspace);
  ejk_executable_destroy(executable);
  ejk_package_destroy(package);
  if (!(loss < first / 1000)) {
    fprintf(stderr, "train: the loss should have fallen a thousandfold\n");
    return 1;
  }
  return 0;
}
