/* The program of launch.c, explained.
 *
 * It loads a kernel package on the GPU and runs it once. To try it:
 *
 *   ejk-compile examples/gla.mlir -o gla.ejk
 *   launch_explained gla.ejk
 *
 * It needs the ejk runtime and the NVIDIA driver; no compiler and no CUDA
 * toolkit.
 */

/* The whole runtime is this header. It brings in DLPack's DLTensor, which is how
 * tensors are described to it. */
#include <ejk/runtime.h>

#include <stdio.h>
#include <stdlib.h>

/* The kernel was compiled for K = V = 64 channels. Batch, length and head count
 * are free: the same package serves any of them. */
enum {
  B = 1,
  T = 16,
  H = 2,
  D = 64,
  ROWS = B * T * H * D,  /* elements of q, k, v, g and o */
  STATE = B * H * D * D, /* elements of the final state */
};

/* Every call that can fail returns an error that we own, or NULL. Its message
 * says what was expected and what was given; with no driver on the machine, it
 * names the remedy. */
static void check(ejk_error *error) {
  if (!error)
    return;
  fprintf(stderr, "launch_explained: %s\n", ejk_error_message(error));
  ejk_error_destroy(error);
  exit(1);
}

/* Makes a tensor in device memory. A DLTensor is a view: it owns neither its
 * shape nor its data. With strides NULL it is compact and row-major, which is
 * the one layout that kernels take.
 *
 * ejk_device_alloc is there so that this example needs no CUDA toolkit; a real
 * program hands in memory from its own allocator or from its framework. */
static DLTensor upload(DLDataType dtype, int64_t *shape, const void *host,
                       size_t bytes) {
  DLTensor tensor = {
      .device = {kDLCUDA, 0},
      .ndim = 4,
      .dtype = dtype,
      .shape = shape,
      .strides = NULL,
      .byte_offset = 0,
  };
  check(ejk_device_alloc(0, bytes, &tensor.data));
  if (host)
    check(ejk_copy_to_device(0, tensor.data, host, bytes));
  return tensor;
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: launch_explained gla.ejk\n");
    return 2;
  }

  /* 1. The inputs. With q = k = v = 1 and a gate of 0, whose decay exp(0) is 1,
   *    the result is known: the state counts the steps, so at step t (from 1)
   *    o = K^-1/2 * K * t = 8 t, and 128 at the last of 16. */
  static uint16_t ones[ROWS], o[ROWS];
  static float open_gate[ROWS];
  for (int i = 0; i < ROWS; ++i)
    ones[i] = 0x3f80; /* 1.0 in bf16 */
  const DLDataType bf16 = {kDLBfloat, 16, 1};
  const DLDataType f32 = {kDLFloat, 32, 1};

  /* Time-major inside a sequence, channels innermost. */
  int64_t rows[] = {B, T, H, D};
  int64_t states[] = {B, H, D, D};

  /* 2. Load the package: its version and checksum are verified here. This needs
   *    no GPU. An entry is one function of the MLIR file, found by its name. */
  ejk_package *package;
  check(ejk_package_load_file(argv[1], &package));
  size_t entry;
  check(ejk_package_find_entry(package, "gla", &entry));

  /* 3. Put the code on a device. NULL options mean device 0. Here the driver is
   *    opened, the architecture checked, and PTX compiled if the package has no
   *    binary for this GPU. Do it once: it may take a while. The executable may
   *    then be launched from many threads. */
  ejk_executable *executable;
  check(ejk_executable_create(package, NULL, &executable));

  /* 4. Tensors, in the order of the function's arguments and results. */
  DLTensor q = upload(bf16, rows, ones, sizeof(ones));
  DLTensor k = upload(bf16, rows, ones, sizeof(ones));
  DLTensor v = upload(bf16, rows, ones, sizeof(ones));
  DLTensor g = upload(f32, rows, open_gate, sizeof(open_gate));
  DLTensor out = upload(bf16, rows, NULL, sizeof(o));
  DLTensor ht = upload(f32, states, NULL, STATE * sizeof(float));
  const DLTensor *inputs[] = {&q, &k, &v, &g};
  const DLTensor *outputs[] = {&out, &ht};

  /* 5. A package has several schedules; a launch chooses by the inputs' sizes and
   *    the device, and here we see which one. A launch never allocates, so scratch
   *    memory is asked for ahead, too; often it is 0 bytes. */
  ejk_choice choice = {.struct_size = sizeof(choice)};
  void *workspace;
  check(ejk_executable_choose(executable, entry, inputs, 4, NULL, &choice));
  check(ejk_device_alloc(0, choice.workspace_bytes, &workspace));

  /* 6. Launch. Types, shapes, strides, alignment and overlaps are checked before
   *    anything runs. The call returns at once; the work is on the stream.
   *    struct_size tells the library which version of the struct we know. */
  ejk_launch_params params = {
      .struct_size = sizeof(params),
      .inputs = inputs,
      .num_inputs = 4,
      .outputs = outputs,
      .num_outputs = 2,
      .workspace = workspace,
      .workspace_bytes = choice.workspace_bytes,
      .stream = NULL, /* the default stream; or any CUstream of the device */
  };
  check(ejk_launch(executable, entry, &params));

  /* 7. Wait, and look. */
  check(ejk_stream_synchronize(0, NULL));
  check(ejk_copy_to_host(0, o, out.data, sizeof(o)));
  printf("o at the last step: 0x%04x, expected 0x4300 (128)\n", o[ROWS - 1]);

  /* 8. Everything that we made is ours to free. */
  void *memory[] = {q.data,   k.data,  v.data,   g.data,
                    out.data, ht.data, workspace};
  for (size_t i = 0; i < sizeof(memory) / sizeof(*memory); ++i)
    check(ejk_device_free(0, memory[i]));
  ejk_executable_destroy(executable);
  ejk_package_destroy(package);
  return o[ROWS - 1] == 0x4300 ? 0 : 1;
}
