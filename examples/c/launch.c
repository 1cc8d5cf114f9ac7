/* Launches the package of examples/gla.mlir: launch gla.ejk */
#include <ejk/runtime.h>
#include <stdio.h>
#include <stdlib.h>

enum { B = 1, T = 16, H = 2, D = 64, ROWS = B * T * H * D, STATE = B * H * D * D };

static void check(ejk_error *error) {
  if (!error)
    return;
  fprintf(stderr, "launch: %s\n", ejk_error_message(error));
  ejk_error_destroy(error);
  exit(1);
}

static DLTensor upload(DLDataType dtype, int64_t *shape, const void *host, size_t bytes) {
  DLTensor tensor = {.device = {kDLCUDA, 0}, .ndim = 4, .dtype = dtype, .shape = shape};
  check(ejk_device_alloc(0, bytes, &tensor.data));
  if (host)
    check(ejk_copy_to_device(0, tensor.data, host, bytes));
  return tensor;
}

int main(int argc, char **argv) {
  static uint16_t ones[ROWS], o[ROWS];
  static float open_gate[ROWS];
  int64_t rows[] = {B, T, H, D}, states[] = {B, H, D, D};
  const DLDataType bf16 = {kDLBfloat, 16, 1}, f32 = {kDLFloat, 32, 1};
  if (argc != 2)
    return fprintf(stderr, "usage: launch gla.ejk\n"), 2;
  for (int i = 0; i < ROWS; ++i)
    ones[i] = 0x3f80;

  ejk_package *package;
  ejk_executable *executable;
  size_t entry;
  check(ejk_package_load_file(argv[1], &package));
  check(ejk_package_find_entry(package, "gla", &entry));
  check(ejk_executable_create(package, NULL, &executable));

  DLTensor q = upload(bf16, rows, ones, sizeof(ones)), k = upload(bf16, rows, ones, sizeof(ones));
  DLTensor v = upload(bf16, rows, ones, sizeof(ones)), g = upload(f32, rows, open_gate, sizeof(open_gate));
  DLTensor out = upload(bf16, rows, NULL, sizeof(o)), ht = upload(f32, states, NULL, STATE * sizeof(float));
  const DLTensor *inputs[] = {&q, &k, &v, &g}, *outputs[] = {&out, &ht};

  ejk_launch_params params = {.struct_size = sizeof(params), .inputs = inputs, .num_inputs = 4, .outputs = outputs, .num_outputs = 2};
  ejk_choice choice = {.struct_size = sizeof(choice)};
  check(ejk_executable_choose(executable, entry, inputs, 4, NULL, &choice));
  params.workspace_bytes = choice.workspace_bytes;
  check(ejk_device_alloc(0, choice.workspace_bytes, &params.workspace));
  check(ejk_launch(executable, entry, &params));
  check(ejk_stream_synchronize(0, NULL));
  check(ejk_copy_to_host(0, o, out.data, sizeof(o)));
  printf("o at the last step: 0x%04x, expected 0x4300 (128)\n", o[ROWS - 1]);

  void *memory[] = {q.data, k.data, v.data, g.data, out.data, ht.data, params.workspace};
  for (size_t i = 0; i < sizeof(memory) / sizeof(*memory); ++i)
    check(ejk_device_free(0, memory[i]));
  ejk_executable_destroy(executable);
  ejk_package_destroy(package);
  return o[ROWS - 1] == 0x4300 ? 0 : 1;
}
