/*===-- ejk/runtime.h - load and launch kernel packages ---------*- C -*-===*\
|*
|* The whole interface of libejk_runtime. Load a package, create an executable
|* for a device, a GPU or this machine's CPU, launch it on DLPack tensors that
|* you own.
|*
|* Errors. Most functions return an ejk_error*: NULL is success; anything else
|* belongs to the caller, who reads it and calls ejk_error_destroy. After an
|* error, out parameters are untouched and nothing was launched or written,
|* unless the function says otherwise. No function throws, and none ends the
|* process: where host memory runs out, there is an error for that, too.
|* Messages quote what a file says only with control characters escaped.
|*
|* Ownership. Handles belong to the caller until destroyed. A const char* that a
|* function gives out lives as long as the handle it came from. Tensors, their
|* shapes and their data stay the caller's; none is kept after a call returns.
|*
|* Threads. Packages and executables never change after creation, so any number
|* of threads may use one at once; only its destruction must come after all
|* other use. Errors belong to one thread at a time.
|*
|* Structs start with struct_size, which the caller sets to sizeof the struct;
|* later versions of the library then still understand it.
|*
\*===----------------------------------------------------------------------===*/

#ifndef EJK_RUNTIME_H
#define EJK_RUNTIME_H

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#ifndef EJK_API
#define EJK_API __attribute__((visibility("default")))
#endif

#define EJK_VERSION_MAJOR 0
#define EJK_VERSION_MINOR 2
#define EJK_VERSION_PATCH 0
#define EJK_VERSION_NUMBER (EJK_VERSION_MAJOR * 10000 + EJK_VERSION_MINOR * 100 + EJK_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ejk_package ejk_package;
typedef struct ejk_executable ejk_executable;
typedef struct ejk_error ejk_error;

/*===-- Version -----------------------------------------------------------===*/

/* "0.2.0", of the library that is loaded. */
EJK_API const char *ejk_version_string(void);

/* To be compared with EJK_VERSION_NUMBER, that of the header. */
EJK_API int32_t ejk_version_number(void);

/* The newest package format version that this library reads, and the one that
 * ejk-compile writes. It reads all earlier ones, too. */
EJK_API int32_t ejk_package_format_version(void);

/*===-- Errors ------------------------------------------------------------===*/

typedef enum ejk_error_code {
  EJK_OK = 0,
  /* A call that no data could make right: NULL handle, index out of range. */
  EJK_ERROR_INVALID_ARGUMENT = 1,
  /* An operand or the workspace is not what the entry takes. */
  EJK_ERROR_INVALID_TENSOR = 2,
  /* The bytes are no package, or a damaged one. */
  EJK_ERROR_INVALID_PACKAGE = 3,
  /* This machine has no usable CUDA driver. */
  EJK_ERROR_NO_DRIVER = 4,
  /* The driver has no such device. */
  EJK_ERROR_NO_DEVICE = 5,
  /* The package was compiled for another architecture. */
  EJK_ERROR_ARCH_MISMATCH = 6,
  /* A driver call failed; the message names it and carries any JIT log. */
  EJK_ERROR_DRIVER = 7,
  /* Host or device memory ran out. */
  EJK_ERROR_OUT_OF_MEMORY = 8,
  /* A file could not be read. */
  EJK_ERROR_IO = 9
} ejk_error_code;

/* EJK_OK for NULL. */
EJK_API ejk_error_code ejk_error_get_code(const ejk_error *error);

/* UTF-8; lives as long as the error; "" for NULL. */
EJK_API const char *ejk_error_message(const ejk_error *error);

/* NULL is allowed. */
EJK_API void ejk_error_destroy(ejk_error *error);

/*===-- Packages (need no driver) -----------------------------------------===*/

/* Reads, checks and parses a package file. The file may come from anywhere: any
 * bytes give a package or an error, and nothing of it is executed before
 * ejk_executable_create hands its code to the driver. The file may be a pipe. */
EJK_API ejk_error *ejk_package_load_file(const char *path, ejk_package **package);

/* The same from memory, which is copied and may be freed at once. */
EJK_API ejk_error *ejk_package_load_memory(const void *data, size_t size, ejk_package **package);

/* Executables made from the package stay valid. NULL is allowed. */
EJK_API void ejk_package_destroy(ejk_package *package);

/* The manifest as JSON text. */
EJK_API const char *ejk_package_manifest(const ejk_package *package);

/* What its code was compiled for, for example "sm_90" or "sm_80, sm_90a". */
EJK_API const char *ejk_package_arch(const ejk_package *package);

EJK_API size_t ejk_package_entry_count(const ejk_package *package);

/* An entry's index by its name. */
EJK_API ejk_error *ejk_package_find_entry(const ejk_package *package, const char *name,
                                          size_t *entry);

typedef struct ejk_entry_info {
  size_t struct_size;
  const char *name;
  size_t num_inputs;
  size_t num_outputs;
  size_t num_kernels; /* of all variants; a call launches those of one */
  size_t num_variants;
} ejk_entry_info;

EJK_API ejk_error *ejk_entry_get_info(const ejk_package *package, size_t entry,
                                      ejk_entry_info *info);

/* The name of the entry's kernel number `index`, as a profiler shows it. */
EJK_API ejk_error *ejk_entry_get_kernel_name(const ejk_package *package, size_t entry, size_t index,
                                             const char **name);

/* One way to compute an entry: a schedule's kernels for one architecture. A launch
 * takes the first whose conditions hold; docs/package-format.md says more. */
typedef struct ejk_variant_info {
  size_t struct_size;
  const char *schedule; /* for example "chunk"; "" where the entry has one way alone */
  const char *arch;     /* "sm_90a"; "" for each that the package has */
  const char *needs;    /* where it can compute the entry: "H = Hkv"; "" for everywhere */
  const char *when;     /* where it is taken by itself: "T >= 16"; "" for everywhere else */
  size_t num_kernels;
} ejk_variant_info;

EJK_API ejk_error *ejk_entry_get_variant_info(const ejk_package *package, size_t entry,
                                              size_t index, ejk_variant_info *info);

typedef struct ejk_tensor_info {
  size_t struct_size;
  const char *name;
  const char *role;  /* "" for none; see docs/package-format.md */
  const char *shape; /* "[B, T, H, 128]": symbols are dynamic */
  DLDataType dtype;
  int32_t rank;
  int32_t may_alias; /* outputs: the input it may replace in place, or -1 */
  int64_t alignment; /* of data + byte_offset, in bytes */
} ejk_tensor_info;

EJK_API ejk_error *ejk_entry_get_input_info(const ejk_package *package, size_t entry, size_t index,
                                            ejk_tensor_info *info);
EJK_API ejk_error *ejk_entry_get_output_info(const ejk_package *package, size_t entry, size_t index,
                                             ejk_tensor_info *info);

/* The shape of one output for these inputs. Their types and shapes are checked;
 * their data is not looked at and may be NULL. `*rank` is the capacity of
 * `shape` on entry (8 always suffices) and the rank on return. */
EJK_API ejk_error *ejk_entry_output_shape(const ejk_package *package, size_t entry,
                                          const DLTensor *const *inputs, size_t num_inputs,
                                          size_t output_index, int64_t *shape, int32_t *rank);

/* A workspace that suffices for a launch with these inputs on any device, with no
 * schedule forced; 0 for none. It is the most that a variant needs which may be
 * taken there. ejk_executable_choose says what one device's launch needs. */
EJK_API ejk_error *ejk_entry_workspace_bytes(const ejk_package *package, size_t entry,
                                             const DLTensor *const *inputs, size_t num_inputs,
                                             size_t *bytes);

/* Checks all that a launch checks except the device and the workspace that the
 * caller will give: types, shapes, addresses, overlaps, and the formulas of
 * every grid, integer argument, tensor map and workspace size, in each variant
 * that may be taken on some device. The contents of
 * cu_seqlens are checked as well when that tensor is in host memory (kDLCPU,
 * kDLCUDAHost): first entry 0, no decrease, last entry at most T. Pass host copies to
 * check data that a launch never reads. */
EJK_API ejk_error *ejk_entry_check(const ejk_package *package, size_t entry,
                                   const DLTensor *const *inputs, size_t num_inputs,
                                   const DLTensor *const *outputs, size_t num_outputs);

/*===-- Executables -------------------------------------------------------===*/

typedef struct ejk_executable_options {
  size_t struct_size;
  int32_t device_ordinal;
  /* Nonzero: let the driver compile the PTX even if a binary for this device is
   * in the package. */
  int32_t prefer_ptx;
  /* kDLCUDA, kDLCPU, or 0: a GPU if the package has code for one and this machine
   * a driver and a device, else the CPU. */
  int32_t device_type;
} ejk_executable_options;

/* Loads the package's code on a device. `options` may be NULL.
 *
 * On a GPU, in its primary context. Uses a binary made for the device if there is
 * one, else compiles the PTX, which may take seconds; a failure carries the
 * driver's log.
 *
 * On the CPU, uses the code of the best instruction set that this process runs,
 * and starts the threads that launches share, counting the caller's: EJK_NUM_THREADS
 * of them, else OMP_NUM_THREADS, else as many as the process may run on and as the
 * quotas of its control groups allow. Another value than a number from 1 to 1024 is
 * an error. A process keeps its threads. Memory is
 * never writable and executable at once. Where the system forbids to execute
 * memory that was written, name in EJK_IMAGE_DIR a folder whose files may be. */
EJK_API ejk_error *ejk_executable_create(const ejk_package *package,
                                         const ejk_executable_options *options,
                                         ejk_executable **executable);

/* All launches must have finished on the device. NULL is allowed. */
EJK_API void ejk_executable_destroy(ejk_executable *executable);

/* 1 if the code came from a binary in the package, 0 if from PTX. */
EJK_API int32_t ejk_executable_uses_binary(const ejk_executable *executable);

/* The architecture of the code that was loaded, for example "sm_90a" or "x86-64-v4". */
EJK_API const char *ejk_executable_arch(const ejk_executable *executable);

/* kDLCUDA or kDLCPU; 0 for NULL. */
EJK_API int32_t ejk_executable_device_type(const ejk_executable *executable);

typedef struct ejk_choice {
  size_t struct_size;
  size_t variant;         /* for ejk_entry_get_variant_info, which has its conditions */
  const char *schedule;   /* its name; lives as long as the executable */
  size_t workspace_bytes; /* what the launch needs */
  size_t num_kernels;     /* that the launch makes */
} ejk_choice;

/* Which variant a launch with these inputs takes. The choice is made by the sizes
 * of the inputs, the architecture and the number of multiprocessors alone, so it
 * is the same for each call; a launch makes it again, in less than a microsecond.
 * `schedule` forces one, as in ejk_launch_params; NULL for none. Types and shapes
 * are checked; data is not looked at and may be NULL. */
EJK_API ejk_error *ejk_executable_choose(const ejk_executable *executable, size_t entry,
                                         const DLTensor *const *inputs, size_t num_inputs,
                                         const char *schedule, ejk_choice *choice);

/* Has threads of the caller's do work: calls body(data, first, end) for ranges that
 * together are [0, count), and returns when all calls have. Ranges that are
 * multiples of `grain` long are best; any give the same bits. A body throws nothing,
 * takes no lock and uses at most a megabyte of its thread's stack. */
typedef void (*ejk_parallel_for)(void *context, int64_t count, int64_t grain,
                                 void (*body)(void *data, int64_t first, int64_t end), void *data);

typedef struct ejk_launch_params {
  size_t struct_size;
  const DLTensor *const *inputs; /* in the manifest's order */
  size_t num_inputs;
  const DLTensor *const *outputs;
  size_t num_outputs;
  void *workspace; /* the device's memory, aligned to 256 bytes; NULL if 0 bytes */
  size_t workspace_bytes;
  void *stream; /* a CUstream of the executable's device; NULL is stream 0, or a CPU's */
  /* The schedule to take, for example "step"; NULL for the one that conditions give.
   * A forced schedule may need another workspace. What f_fwd saves is for f_vjp
   * under the same schedule: force it on both, or on neither. */
  const char *schedule;
  /* On the CPU: what divides the work among threads; NULL for the library's own. */
  ejk_parallel_for parallel_for;
  void *parallel_context;
  /* On the CPU, without parallel_for: how many of the library's threads share the work at
   * most, with the caller's; 0 for all. */
  uint32_t max_threads;
  /* Nonzero: rows of outputs after the last entry of cu_seqlens, which belong to no
   * sequence, are zero when the kernels have run. Else nothing is computed for them,
   * and what they hold means nothing. For entries with one cu_seqlens and any number
   * of rows. */
  int32_t zero_unused_rows;
} ejk_launch_params;

/* Enqueues the entry's kernels on the stream and returns. Before the first of
 * them everything that can be known on the host is checked: counts, types,
 * shapes, strides, devices, alignment, overlap, workspace. A successful call
 * allocates nothing, waits for nothing and reads no tensor's data, so it may be
 * captured in a CUDA graph. Two launches at once must not share a workspace or
 * outputs. The calling thread's current context is left as it was.
 *
 * Tensors must be compact and row-major, but that the slots of pools and the rows
 * of inputs with a row stride may lie apart (docs/package-format.md). They are in
 * memory of the executable's device (kDLCUDA), managed, or pinned. An output may not overlap an input, another
 * output or the workspace, except that one whose may_alias names an input may
 * be exactly that input's buffer.
 *
 * Where all outputs are empty, nothing is enqueued. When a driver call fails,
 * kernels enqueued before it still run.
 *
 * On the CPU tensors lie in host memory (kDLCPU, or pinned), the work is done when
 * the call returns, and the contents of cu_seqlens are checked, too. Several threads
 * may launch at once: one has the library's threads, the others compute alone. */
EJK_API ejk_error *ejk_launch(const ejk_executable *executable, size_t entry,
                              const ejk_launch_params *params);

/*===-- Device memory -----------------------------------------------------===*/

/* Conveniences for examples and tests, so that they need no CUDA toolkit.
 * A program with an allocator of its own has no use for them. All work in the
 * device's primary context, which they keep for the life of the process, and
 * are safe from any thread. The copies wait until they are done; they are
 * ordered after stream 0, not after work on other streams. */
/* For 0 bytes, too, `*data` is an address of its own. */
EJK_API ejk_error *ejk_device_alloc(int32_t device_ordinal, size_t bytes, void **data);
EJK_API ejk_error *ejk_device_free(int32_t device_ordinal, void *data);
EJK_API ejk_error *ejk_copy_to_device(int32_t device_ordinal, void *device, const void *host,
                                      size_t bytes);
EJK_API ejk_error *ejk_copy_to_host(int32_t device_ordinal, void *host, const void *device,
                                    size_t bytes);
EJK_API ejk_error *ejk_stream_synchronize(int32_t device_ordinal, void *stream);

#ifdef __cplusplus
}
#endif

#endif /* EJK_RUNTIME_H */
