/*===-- ejk/compiler.h - the compiler as a library --------------*- C -*-===*\
|*
|* The whole interface of libejk-compiler. MLIR goes in; the bytes of a kernel
|* package come out, to be loaded with ejk/runtime.h in the same process or
|* another. The library exports one symbol, ejk_get_compiler, and holds all of
|* LLVM and MLIR that it needs. It can be opened by dlopen.
|*
|* Results. compile and interpret never return NULL for a wrong program: the
|* result says in `status` whether it worked, and carries every diagnostic as
|* data. NULL means that host memory ran out.
|*
|* Ownership. A result and all that its pointers reach belong to the caller until
|* destroy. Inputs stay the caller's; none is kept after a call returns.
|*
|* Threads. A call keeps nothing outside of its result. Any number of threads may
|* call at once, and two calls with the same arguments give the same bytes. A call
|* compiles the kernels of a package side by side, on threads of its own, as many
|* as the process may have CPUs. The process may end while a thread is in a call.
|*
|* Trust. Text that comes from others belongs in a process of its own: on a few
|* faults inside LLVM, the process ends.
|*
|* Structs start with struct_size, which the caller sets to sizeof the struct;
|* later versions of the library then still understand it.
|*
\*===----------------------------------------------------------------------===*/

#ifndef EJK_COMPILER_H
#define EJK_COMPILER_H

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#ifndef EJK_API
#define EJK_API __attribute__((visibility("default")))
#endif

/* The version of ejk_compiler that this header describes. */
#define EJK_COMPILER_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ejk_severity {
  EJK_NOTE = 0,
  EJK_REMARK = 1, /* what the compiler chose, and why */
  EJK_WARNING = 2,
  EJK_DIAGNOSED_ERROR = 3
} ejk_severity;

typedef struct ejk_diagnostic {
  int32_t severity; /* ejk_severity */
  int32_t line;     /* from 1; 0 where the place is not known */
  int32_t column;
  int32_t reserved;
  const char *file; /* as the source's own loc(...) or its name says; "" where not known */
  const char *text;
  const struct ejk_diagnostic *notes;
  size_t num_notes;
} ejk_diagnostic;

typedef enum ejk_status {
  EJK_DONE = 0,
  EJK_FAILED = 1, /* a diagnostic is an error and says why */
  EJK_CANCELLED = 2
} ejk_status;

/* A tensor that interpret gives: compact, row-major, in host memory. */
typedef struct ejk_host_tensor {
  const char *name;
  DLDataType dtype;
  int32_t rank;
  const int64_t *shape;
  const void *data;
} ejk_host_tensor;

typedef struct ejk_result {
  size_t struct_size;
  int32_t status; /* ejk_status */
  const void *data; /* of compile: the package's bytes, or text that a NUL follows */
  size_t size;
  const ejk_host_tensor *tensors; /* of interpret: the function's results */
  size_t num_tensors;
  const ejk_diagnostic *diagnostics;
  size_t num_diagnostics;
} ejk_result;

typedef struct ejk_source {
  size_t struct_size;
  const void *data; /* MLIR as text or bytecode; no NUL is needed */
  size_t size;
  const char *name; /* what diagnostics call it; NULL for "source" */
} ejk_source;

typedef enum ejk_emit {
  EJK_EMIT_PACKAGE = 0,
  EJK_EMIT_SCAN = 1, /* specialised recurrences, and with `derivatives` their derivatives */
  EJK_EMIT_GPU = 2,
  EJK_EMIT_PTX = 3
} ejk_emit;

/* How recurrences of f32 rows are computed on GPUs. */
typedef enum ejk_f32_matmuls {
  EJK_F32_MATMULS_NONE = 0, /* they go step by step */
  /* They may go chunk by chunk: tensor cores multiply bf16 terms of each operand. */
  EJK_F32_MATMULS_BF16X3 = 1, /* two terms, three matmuls */
  EJK_F32_MATMULS_BF16X6 = 2  /* three terms, six matmuls */
} ejk_f32_matmuls;

typedef struct ejk_compile_options {
  size_t struct_size;
  /* One or several of ejk_compiler.targets, with commas between them: GPU architectures and
   * CPUs. "native" is this machine's CPU, "cpu" all of them. NULL for the library's default, GPUs.
   */
  const char *target;
  int32_t emit;       /* ejk_emit */
  int32_t no_binary;  /* nonzero: PTX alone, even where ptxas is found */
  /* How often each public function F is differentiated. 1: the package holds F and its
   * vector-Jacobian product F_vjp. 2: it holds F_vjp_vjp alone, that of F_vjp. */
  int32_t derivatives;
  /* Set to nonzero by another thread, it has the call end soon, with EJK_CANCELLED. */
  const int32_t *cancel;
  /* The arguments of F that have a gradient, by name; none for every float argument. */
  const char *const *wrt;
  size_t num_wrt;
  /* Nonzero, with `derivatives` 1: where F_vjp would compute states of F again, the package
   * also holds F_fwd, which gives the results of F and then saved0, saved1, …; F_vjp takes
   * these after its cotangents. Kernels for GPUs that work by chunks do so. */
  int32_t save_states;
  int32_t f32_matmuls; /* ejk_f32_matmuls */
} ejk_compile_options;

typedef struct ejk_compiler {
  size_t struct_size;
  int32_t version;       /* EJK_COMPILER_VERSION of the library */
  const char *release;   /* "0.2.0" */
  const char *targets;   /* what packages can be compiled for: names, separated by spaces */
  const char *native;    /* which of them this machine's CPU is; "" where it is none */

  /* Compiles all public functions of `source`. `options` may be NULL. */
  ejk_result *(*compile)(const ejk_source *source, const ejk_compile_options *options);

  /* Runs function `entry` on tensors in host memory, step by step, in f64: what the program means,
   * to compare other results with. Of `options`, `derivatives`, `wrt` and, until the program runs,
   * `cancel` count. With derivatives, `entry` may be F_vjp or F_vjp_vjp. An input has its
   * argument's type, or is f64. With `native` nonzero, each op's result is rounded to its own
   * type, as in a kernel, and results have their own types; else floats are f64. */
  ejk_result *(*interpret)(const ejk_source *source, const ejk_compile_options *options,
                           const char *entry, const DLTensor *const *inputs, size_t num_inputs,
                           int32_t native);

  /* NULL is allowed. */
  void (*destroy)(ejk_result *result);
} ejk_compiler;

/* The table of functions, which lives as long as the library; NULL where the library does not
 * know `version`, EJK_COMPILER_VERSION of the caller. */
EJK_API const ejk_compiler *ejk_get_compiler(int32_t version);

#ifdef __cplusplus
}
#endif

#endif /* EJK_COMPILER_H */
