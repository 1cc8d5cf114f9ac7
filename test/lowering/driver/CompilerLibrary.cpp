//===- CompilerLibrary.cpp - libejk-compiler as a program uses it ---------===//
//
//   ejk-compiler-library LIBRARY
//
// Opens the library, calls every function of its table, and says which case fails.
//
//===----------------------------------------------------------------------===//
#include "ejk/compiler.h"
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <thread>
#include <vector>

static const ejk_compiler *compiler;
static int failures;

static void expect(bool ok, const char *what) {
  std::printf("%s: %s\n", ok ? "pass" : "FAIL", what);
  failures += !ok;
}

/// o = Σ k v over the steps so far, of one head with one channel, at a place in a file of a user's.
static const char *const kSum = R"(
func.func @sum(%q: tensor<?x?x?x1xf32>, %k: tensor<?x?x?x1xf32>, %v: tensor<?x?x?x1xf32>)
    -> (tensor<?x?x?x1xf32>, tensor<?x?x1x1xf32>) {
  %o, %ht = ejk.recurrent %q, %k, %v {softmax_scale = 1.0 : f64}
      : tensor<?x?x?x1xf32>, tensor<?x?x?x1xf32>, tensor<?x?x?x1xf32>
      -> tensor<?x?x?x1xf32>, tensor<?x?x1x1xf32>
  return %o, %ht : tensor<?x?x?x1xf32>, tensor<?x?x1x1xf32>
}
)";
/// Its key has two channels, its query one: an error of the verifier, at a place in another file.
static const char *const kWrong = R"(
func.func @wrong(%q: tensor<?x?x?x1xf32>, %k: tensor<?x?x?x2xf32>, %v: tensor<?x?x?x1xf32>)
    -> tensor<?x?x?x1xf32> {
  %o, %ht = ejk.recurrent %q, %k, %v
      : tensor<?x?x?x1xf32>, tensor<?x?x?x2xf32>, tensor<?x?x?x1xf32>
      -> tensor<?x?x?x1xf32>, tensor<?x?x1x1xf32> loc("model.py":12:7)
  return %o : tensor<?x?x?x1xf32>
}
)";

static ejk_source sourceOf(const char *text, const char *name = "test.mlir") {
  return {sizeof(ejk_source), text, std::strlen(text), name};
}

static std::string compile(const char *text, ejk_compile_options options,
                           int32_t *status = nullptr) {
  options.struct_size = sizeof(options);
  options.no_binary = 1;
  ejk_source source = sourceOf(text);
  ejk_result *result = compiler->compile(&source, &options);
  std::string bytes(static_cast<const char *>(result->data), result->size);
  if (status)
    *status = result->status;
  compiler->destroy(result);
  return bytes;
}

static void testCompile() {
  int32_t status;
  std::string package = compile(kSum, {}, &status);
  expect(status == EJK_DONE && package.size() > 100, "a package is made");
  expect(package == compile(kSum, {}), "the same source gives the same bytes");
  ejk_compile_options options = {};
  options.derivatives = 1;
  const char *wrt[] = {"q"};
  options.wrt = wrt;
  options.num_wrt = 1;
  options.emit = EJK_EMIT_SCAN;
  std::string scan = compile(kSum, options);
  expect(scan.find("@sum_vjp") != std::string::npos, "a derivative is made");
  expect(scan.find("dk") == std::string::npos, "a gradient that is not asked for is not made");
  options.derivatives = 2;
  expect(compile(kSum, options).find("@sum_vjp_vjp") != std::string::npos,
         "a second derivative is made");
  options = {};
  options.target = "sm_1";
  compile(kSum, options, &status);
  expect(status == EJK_FAILED, "a target that is none is an error");
  options = {};
  options.target = "sm_80";
  options.emit = EJK_EMIT_PTX;
  expect(compile(kSum, options).find("mma.sync") == std::string::npos,
         "f32 rows go step by step");
  options.f32_matmuls = EJK_F32_MATMULS_BF16X6;
  expect(compile(kSum, options).find("mma.sync") != std::string::npos,
         "f32 rows go to tensor cores where that is allowed");
  for (int32_t algorithm : {-1, 3, INT32_MIN}) {
    options.f32_matmuls = algorithm;
    compile(kSum, options, &status);
    expect(status == EJK_FAILED, "an algorithm that is none is an error");
  }
  options.f32_matmuls = EJK_F32_MATMULS_NONE;
  for (int32_t kind : {-1, EJK_EMIT_PTX + 1, INT32_MIN}) {
    options.emit = kind;
    compile(kSum, options, &status);
    expect(status == EJK_FAILED, "a result that is none is an error");
  }
}

static void testDiagnostics() {
  ejk_source source = sourceOf(kWrong);
  ejk_result *result = compiler->compile(&source, nullptr);
  expect(result->status == EJK_FAILED && result->num_diagnostics == 1, "a wrong source fails");
  if (result->num_diagnostics) {
    const ejk_diagnostic &first = result->diagnostics[0];
    expect(first.severity == EJK_DIAGNOSED_ERROR && !std::strcmp(first.file, "model.py") &&
               first.line == 12 && first.column == 7,
           "the error stands where the source's own location says");
    expect(std::strstr(first.text, "key"), "the error names the operand");
  }
  expect(result->size == 0, "no package comes with an error");
  compiler->destroy(result);

  source = sourceOf("func.func @f(", "half.mlir");
  result = compiler->compile(&source, nullptr);
  expect(result->status == EJK_FAILED && result->num_diagnostics >= 1 &&
             !std::strcmp(result->diagnostics[0].file, "half.mlir") &&
             result->diagnostics[0].line == 1,
         "a syntax error has its file and line");
  compiler->destroy(result);
  source = sourceOf("func.func private @f()\nfunc.func private @f()\n", "twice.mlir");
  result = compiler->compile(&source, nullptr);
  expect(result->status == EJK_FAILED && result->num_diagnostics == 1 &&
             result->diagnostics[0].line == 2 && result->diagnostics[0].num_notes == 1 &&
             result->diagnostics[0].notes[0].severity == EJK_NOTE &&
             result->diagnostics[0].notes[0].line == 1,
         "an error has its notes, each with its place");
  compiler->destroy(result);
  source = {sizeof(ejk_source), nullptr, 12, nullptr};
  result = compiler->compile(&source, nullptr);
  expect(result->status == EJK_FAILED, "a source without data is an error");
  compiler->destroy(result);
  compiler->destroy(nullptr);
  // Bytes that are neither text nor bytecode.
  std::string noise(1000, '\xff');
  source = {sizeof(ejk_source), noise.data(), noise.size(), nullptr};
  result = compiler->compile(&source, nullptr);
  expect(result->status == EJK_FAILED, "noise is an error");
  compiler->destroy(result);
}

static void testInterpreter() {
  float k[] = {1, 2, 3}, ones[] = {1, 1, 1};
  double exact[] = {1, 2, 3};
  int64_t shape[] = {1, 3, 1, 1};
  auto tensor = [&](void *data, uint8_t bits) {
    DLTensor result = {};
    result.data = data;
    result.device = {kDLCPU, 0};
    result.ndim = 4;
    result.dtype = {kDLFloat, bits, 1};
    result.shape = shape;
    return result;
  };
  DLTensor q = tensor(ones, 32), keys = tensor(k, 32), v = tensor(exact, 64);
  const DLTensor *inputs[] = {&q, &keys, &v, &q};
  ejk_source source = sourceOf(kSum);
  ejk_result *result = compiler->interpret(&source, nullptr, "sum", inputs, 3, 0);
  bool ok = result->status == EJK_DONE && result->num_tensors == 2;
  if (ok) {
    const ejk_host_tensor &o = result->tensors[0];
    const double *numbers = static_cast<const double *>(o.data);
    ok = !std::strcmp(o.name, "o") && o.dtype.bits == 64 && o.rank == 4 && o.shape[1] == 3 &&
         numbers[0] == 1 && numbers[1] == 5 && numbers[2] == 14;
  }
  expect(ok, "the interpreter gives 1, 5, 14");
  compiler->destroy(result);
  // The same keys within another array, from its third element on and with gaps.
  float apart[] = {9, 9, 1, 9, 2, 9, 3};
  int64_t strides[] = {6, 2, 1, 1};
  keys.data = apart;
  keys.byte_offset = 2 * sizeof(float);
  keys.strides = strides;
  result = compiler->interpret(&source, nullptr, "sum", inputs, 3, 0);
  ok = result->status == EJK_DONE && result->num_tensors == 2;
  if (ok) {
    const double *numbers = static_cast<const double *>(result->tensors[0].data);
    ok = numbers[0] == 1 && numbers[1] == 5 && numbers[2] == 14;
  }
  expect(ok, "an offset in bytes and strides are followed");
  compiler->destroy(result);
  keys = tensor(k, 32);
  result = compiler->interpret(&source, nullptr, "sum", inputs, 2, 0);
  expect(result->status == EJK_FAILED, "a missing input is an error");
  compiler->destroy(result);
  ejk_compile_options options = {};
  options.struct_size = sizeof(options);
  options.derivatives = 1;
  DLTensor dht = q;
  int64_t one[] = {1, 1, 1, 1};
  float zero[] = {0};
  dht.shape = one;
  dht.data = zero;
  const DLTensor *more[] = {&q, &keys, &v, &q, &dht};
  result = compiler->interpret(&source, &options, "sum_vjp", more, 5, 1);
  // dv_t = k_t Σ_{s≥t} q_s do_s = k_t (4 - t)
  ok = result->status == EJK_DONE && result->num_tensors == 3;
  if (ok) {
    const float *dv = static_cast<const float *>(result->tensors[2].data);
    ok = result->tensors[2].dtype.bits == 32 && dv[0] == 3 && dv[1] == 4 && dv[2] == 3;
  }
  expect(ok, "its derivative gives dv = 3, 4, 3");
  compiler->destroy(result);
}

/// Of a struct from an earlier version, what follows its end is not read.
static void testEarlierVersion() {
  ejk_source source = sourceOf(kSum);
  ejk_compile_options options = {};
  options.struct_size = offsetof(ejk_compile_options, f32_matmuls);
  options.emit = EJK_EMIT_SCAN;
  options.f32_matmuls = 99;
  ejk_result *result = compiler->compile(&source, &options);
  expect(result->status == EJK_DONE, "options of an earlier version have fewer fields");
  compiler->destroy(result);
}

/// A result that says `text` in its first diagnostic; destroys it.
static bool refuses(ejk_result *result, const char *text) {
  bool ok = result->status == EJK_FAILED && result->num_diagnostics &&
            std::strstr(result->diagnostics[0].text, text);
  if (!ok)
    std::printf("%s\n", result->num_diagnostics ? result->diagnostics[0].text : "no diagnostic");
  compiler->destroy(result);
  return ok;
}

/// Pointers that are NULL, and counts that do not go with them, are errors.
static void testNull() {
  ejk_source source = sourceOf(kSum);
  expect(refuses(compiler->compile(nullptr, nullptr), "source is NULL"), "no source");
  expect(refuses(compiler->interpret(nullptr, nullptr, "sum", nullptr, 0, 0), "source is NULL"),
         "no source to interpret");
  ejk_source unsized = {};
  expect(refuses(compiler->compile(&unsized, nullptr), "ejk_source.struct_size is 0"),
         "a source of no size");
  ejk_compile_options options = {};
  expect(refuses(compiler->compile(&source, &options), "ejk_compile_options.struct_size is 0"),
         "options of no size");
  options.struct_size = sizeof(options);
  options.derivatives = 1;
  options.num_wrt = 3;
  expect(refuses(compiler->compile(&source, &options), "num_wrt is 3, but wrt is NULL"),
         "names that are not there");
  const char *names[] = {"q", nullptr};
  options.wrt = names;
  options.num_wrt = 2;
  expect(refuses(compiler->compile(&source, &options), "wrt has an element that is NULL"),
         "a name that is not there");
  expect(refuses(compiler->interpret(&source, nullptr, nullptr, nullptr, 0, 0), "entry is NULL"),
         "no entry");
  expect(refuses(compiler->interpret(&source, nullptr, "sum", nullptr, 3, 0),
                 "the array of inputs is NULL"),
         "no array of inputs");
  float one = 1;
  int64_t shape[] = {1, 1, 1, 1};
  DLTensor good = {&one, {kDLCPU, 0}, 4, {kDLFloat, 32, 1}, shape, nullptr, 0}, bad = good;
  const DLTensor *inputs[] = {&good, &bad, nullptr};
  expect(refuses(compiler->interpret(&source, nullptr, "sum", inputs, 3, 0), "'v' is NULL"),
         "an input that is not there");
  inputs[2] = &good;
  bad.shape = nullptr;
  expect(refuses(compiler->interpret(&source, nullptr, "sum", inputs, 3, 0), "'k' has no shape"),
         "an input without a shape");
  bad.ndim = -1;
  expect(refuses(compiler->interpret(&source, nullptr, "sum", inputs, 3, 0),
                 "'k' has a rank of -1"),
         "an input of negative rank");
  bad = good;
  bad.data = nullptr;
  expect(refuses(compiler->interpret(&source, nullptr, "sum", inputs, 3, 0), "'k' has no data"),
         "an input without data");
}

static void testThreads() {
  std::string alone = compile(kSum, {});
  std::vector<std::thread> threads;
  std::atomic<int> same{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] { same += compile(kSum, {}) == alone; });
  for (std::thread &thread : threads)
    thread.join();
  expect(same == 4, "four threads at once write the same bytes");
}

static void testCancellation() {
  int32_t cancel = 1, status;
  ejk_compile_options options = {};
  options.cancel = &cancel;
  options.derivatives = 1;
  std::string bytes = compile(kSum, options, &status);
  expect(status == EJK_CANCELLED && bytes.empty(), "what is cancelled at once gives nothing");
  // At any time later it is cancelled, or was done before.
  cancel = 0;
  auto start = std::chrono::steady_clock::now();
  std::string whole = compile(kSum, options);
  auto took = std::chrono::steady_clock::now() - start;
  int cancelled = 0;
  bool ok = true;
  for (int i = 1; i < 8; ++i) {
    cancel = 0;
    std::thread other([&] {
      std::this_thread::sleep_for(took * i / 8);
      __atomic_store_n(&cancel, 1, __ATOMIC_RELAXED);
    });
    bytes = compile(kSum, options, &status);
    other.join();
    cancelled += status == EJK_CANCELLED;
    ok &= status == EJK_CANCELLED ? bytes.empty() : bytes == whole;
  }
  expect(ok && cancelled > 0, "a compilation under way is cancelled");
}

int main(int argc, char **argv) {
  void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (!library) {
    std::printf("FAIL: %s\n", argc == 2 ? dlerror() : "usage: ejk-compiler-library LIBRARY");
    return 1;
  }
  auto get =
      reinterpret_cast<const ejk_compiler *(*)(int32_t)>(dlsym(library, "ejk_get_compiler"));
  expect(get && !get(EJK_COMPILER_VERSION + 1), "a later version is refused");
  compiler = get(EJK_COMPILER_VERSION);
  expect(compiler->struct_size == sizeof(ejk_compiler) && std::strstr(compiler->targets, "sm_90"),
         "the table names targets");
  testCompile();
  testDiagnostics();
  testInterpreter();
  testEarlierVersion();
  testNull();
  testThreads();
  testCancellation();
  std::printf("%d cases failed\n", failures);
  return failures != 0;
}
