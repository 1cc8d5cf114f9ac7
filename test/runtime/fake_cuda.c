/* A CUDA driver with no device: memory is the host's, kernels are a few C
 * functions, and everything that ejk calls is recorded. */
#include "fake_cuda.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
#define MAP_MAGIC 0x70616d2d656b6166 /* "fake-map" */

enum { SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, INVALID_CONTEXT = 201, INVALID_PTX = 218, NOT_FOUND = 500 };

struct function {
  char name[32];
  int num_args;
};

EXPORT fake_state fake_cuda;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct function functions[64];
static int num_functions, capturing;
static int ready; /* fake_cuda holds a first state */
static char contexts[16]; /* their addresses are the contexts */
static _Thread_local void *stack[16];
static _Thread_local int depth;

EXPORT void fake_reset(void) {
  memset(&fake_cuda, 0, sizeof(fake_cuda));
  fake_cuda.device_count = 2;
  fake_cuda.major = 9;
  fake_cuda.l2_bytes = 1 << 20;
  fake_cuda.shared_optin = 227 * 1024;
  fake_cuda.max_alloc = (size_t)128 << 20;
  ready = 1;
}

/* Counts the calls; whether this is the one that a test wants to fail. */
static int is_to_fail(void) {
  return __atomic_add_fetch(&fake_cuda.calls, 1, __ATOMIC_RELAXED) == fake_cuda.fail_call;
}
#define CAN_FAIL                                                                                   \
  if (is_to_fail())                                                                                \
  return fake_cuda.fail_result

/* The first call may come after a test has set its own state. */
EXPORT int cuInit(unsigned flags) {
  CAN_FAIL;
  if (!ready)
    fake_reset();
  return (int)flags;
}
EXPORT int cuDriverGetVersion(int *version) {
  CAN_FAIL;
  return *version = 13000, SUCCESS;
}
EXPORT int cuGetErrorName(int result, const char **name) {
  CAN_FAIL;
  *name = result == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
          : result == INVALID_PTX ? "CUDA_ERROR_INVALID_PTX"
          : result == NOT_FOUND   ? "CUDA_ERROR_NOT_FOUND"
                                  : "CUDA_ERROR_INVALID_VALUE";
  return SUCCESS;
}
EXPORT int cuGetErrorString(int result, const char **text) {
  CAN_FAIL;
  return (void)result, *text = "fake", SUCCESS;
}

EXPORT int cuDeviceGetCount(int *count) {
  CAN_FAIL;
  return *count = fake_cuda.device_count, SUCCESS;
}
EXPORT int cuDeviceGet(int *device, int ordinal) {
  CAN_FAIL;
  return *device = ordinal, SUCCESS;
}
EXPORT int cuDeviceGetName(char *name, int size, int device) {
  CAN_FAIL;
  return (void)device, strncpy(name, "Fake", (size_t)size), SUCCESS;
}
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device) {
  CAN_FAIL;
  (void)device;
  *value = attribute == 16   ? fake_cuda.multiprocessors
           : attribute == 38 ? fake_cuda.l2_bytes
           : attribute == 75 ? fake_cuda.major
           : attribute == 76 ? fake_cuda.minor
           : attribute == 97 ? fake_cuda.shared_optin
                             : 0;
  return SUCCESS;
}

EXPORT int cuDevicePrimaryCtxRetain(void **context, int device) {
  CAN_FAIL;
  ++fake_cuda.retained;
  return *context = &contexts[device], SUCCESS;
}
EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
  (void)device, --fake_cuda.retained;
  CAN_FAIL;
  return SUCCESS;
}
EXPORT int cuCtxGetCurrent(void **context) {
  CAN_FAIL;
  return *context = depth ? stack[depth - 1] : NULL, SUCCESS;
}
EXPORT int cuCtxPushCurrent_v2(void *context) {
  CAN_FAIL;
  stack[depth++] = context;
  __atomic_add_fetch(&fake_cuda.pushes, 1, __ATOMIC_RELAXED);
  return SUCCESS;
}
EXPORT int cuCtxPopCurrent_v2(void **context) {
  *context = stack[--depth];
  __atomic_add_fetch(&fake_cuda.pops, 1, __ATOMIC_RELAXED);
  CAN_FAIL; /* what releases does so even when it reports a failure */
  return SUCCESS;
}
EXPORT int cuCtxSynchronize(void) {
  CAN_FAIL;
  return ++fake_cuda.synchronizations, SUCCESS;
}

EXPORT int cuModuleLoadDataEx(void **module, const void *image, unsigned count,
                              int *options, void **values) {
  CAN_FAIL;
  strncpy(fake_cuda.image, image, sizeof(fake_cuda.image) - 1);
  *module = fake_cuda.image;
  if (strstr(image, "BAD") == NULL)
    return ++fake_cuda.module_loads, SUCCESS;
  for (unsigned i = 0; i < count; ++i)
    if ((options[i] == 5 || options[i] == 3) && strstr(image, "LONG")) /* a buffer's size follows it */
      memset(values[i], options[i] == 5 ? '!' : '?', (size_t)values[i + 1]);
    else if (options[i] == 5)
      strcpy(values[i], "ptxas fatal : unexpected token");
    else if (options[i] == 3 && strstr(image, "INFO"))
      strcpy(values[i], "\x1b[31mred");
  return INVALID_PTX;
}
EXPORT int cuModuleUnload(void *module) {
  (void)module, --fake_cuda.module_loads;
  CAN_FAIL;
  return SUCCESS;
}
EXPORT int cuModuleGetFunction(void **function, void *module, const char *name) {
  CAN_FAIL;
  (void)module;
  const char *suffix = strrchr(name, 'a');
  if (strcmp(name, "missing") == 0)
    return NOT_FOUND;
  int i = 0;
  while (i < num_functions && strcmp(functions[i].name, name) != 0)
    ++i;
  if (i == num_functions)
    ++num_functions;
  strncpy(functions[i].name, name, sizeof(functions[i].name) - 1);
  functions[i].num_args = suffix ? atoi(suffix + 1) : 0;
  return *function = &functions[i], SUCCESS;
}
EXPORT int cuFuncSetAttribute(void *function, int attribute, int value) {
  CAN_FAIL;
  (void)function;
  if (attribute == 8)
    fake_cuda.max_dynamic_shared = value;
  return SUCCESS;
}

/* A layer that examples/c/train.c can train: o = (A + bias) / 4 for each head, from
 * A, bias, o; and its derivative by both, from do, dA, dbias. Rows, heads and values
 * come last. */
static void offset(const uint64_t *args) {
  const float *a = (const float *)args[0], *bias = (const float *)args[1];
  for (uint64_t i = 0; i < args[3] * args[4] * args[5]; ++i) {
    uint64_t head = i / args[5] % args[4];
    ((float *)args[2])[i] = (a[head] + bias[head]) / 4;
  }
}
static void offset_vjp(const uint64_t *args) {
  float *da = (float *)args[1], *dbias = (float *)args[2];
  memset(da, 0, args[4] * sizeof(float));
  for (uint64_t i = 0; i < args[3] * args[4] * args[5]; ++i)
    da[i / args[5] % args[4]] += ((const float *)args[0])[i] / 4;
  memcpy(dbias, da, args[4] * sizeof(float));
}

static void execute(const fake_launch *launch) {
  const uint64_t *args = launch->args;
  if (strcmp(launch->kernel, "copy_bytes_a3") == 0)
    memcpy((void *)args[1], (const void *)args[0], args[2]);
  else if (strcmp(launch->kernel, "copy_boxes_a3") == 0)
    memcpy((void *)args[1], (const void *)launch->maps[0].address, args[2] * 128);
  else if (strcmp(launch->kernel, "overrun_a3") == 0)
    memset((void *)args[1], 0, args[2] + 1);
  else if (strcmp(launch->kernel, "fill_u16_a3") == 0)
    for (uint64_t i = 0; i < args[1]; ++i)
      ((uint16_t *)args[0])[i] = (uint16_t)args[2];
  else if (strcmp(launch->kernel, "offset_a6") == 0)
    offset(args);
  else if (strcmp(launch->kernel, "offset_vjp_a6") == 0)
    offset_vjp(args);
}

EXPORT int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz,
                          unsigned bx, unsigned by, unsigned bz, unsigned shared,
                          void *stream, void **params, void **extra) {
  CAN_FAIL;
  (void)extra;
  if (fake_cuda.fail_launch)
    return fake_cuda.fail_launch;
  const struct function *f = function;
  fake_launch launch = {.grid = {gx, gy, gz}, .block = {bx, by, bz},
                        .shared_bytes = shared, .stream = stream,
                        .num_args = f->num_args};
  memcpy(launch.kernel, f->name, sizeof(launch.kernel));
  cuCtxGetCurrent(&launch.context);
  for (int i = 0; i < f->num_args; ++i) {
    memcpy(&launch.args[i], params[i], 8);
    if (launch.args[i] == MAP_MAGIC && launch.num_maps < FAKE_MAX_MAPS)
      memcpy(&launch.maps[launch.num_maps++], params[i], sizeof(fake_tensor_map));
  }
  pthread_mutex_lock(&lock);
  if (fake_cuda.num_launches < FAKE_MAX_LAUNCHES)
    fake_cuda.launches[fake_cuda.num_launches] = launch;
  ++fake_cuda.num_launches;
  fake_cuda.captured_launches += capturing;
  pthread_mutex_unlock(&lock);
  if (!capturing)
    execute(&launch);
  return SUCCESS;
}

/* Older drivers have none. */
#ifndef FAKE_CUDA_11
_Static_assert(sizeof(fake_tensor_map) == 128, "a tensor map's size");
EXPORT int cuTensorMapEncodeTiled(void *result, int type, uint32_t rank, void *address,
                                  const uint64_t *sizes, const uint64_t *strides,
                                  const uint32_t *box, const uint32_t *element_strides,
                                  int interleave, int swizzle, int promotion, int fill) {
  CAN_FAIL;
  ++fake_cuda.num_encodings;
  if (fake_cuda.fail_encoding)
    return fake_cuda.fail_encoding;
  if (!depth)
    return INVALID_CONTEXT;
  if ((uintptr_t)result % 64 || rank < 1 || rank > 5)
    return INVALID_VALUE;
  fake_tensor_map map = {.magic = MAP_MAGIC, .address = (uint64_t)address,
                         .rank = (uint16_t)rank, .type = (uint16_t)type,
                         .interleave = (uint16_t)interleave, .swizzle = (uint16_t)swizzle,
                         .promotion = (uint16_t)promotion, .fill = (uint16_t)fill};
  for (uint32_t i = 0; i < rank; ++i) {
    if (box[i] > 256 || element_strides[i] > 8)
      return INVALID_VALUE;
    map.sizes[i] = sizes[i];
    map.box[i] = (uint16_t)box[i];
    map.element_strides[i] = (uint16_t)element_strides[i];
    if (i > 0)
      map.strides[i - 1] = strides[i - 1];
  }
  cuCtxGetCurrent(&map.context);
  return memcpy(result, &map, sizeof(map)), SUCCESS;
}
#endif

EXPORT int cuMemAlloc_v2(uint64_t *pointer, size_t bytes) {
  CAN_FAIL;
  void *memory;
  if (bytes > fake_cuda.max_alloc || posix_memalign(&memory, 512, bytes) != 0)
    return OUT_OF_MEMORY;
  ++fake_cuda.live_allocations;
  return *pointer = (uint64_t)memory, SUCCESS;
}
EXPORT int cuMemFree_v2(uint64_t pointer) {
  CAN_FAIL;
  free((void *)pointer);
  return --fake_cuda.live_allocations, SUCCESS;
}
EXPORT int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) {
  CAN_FAIL;
  return memcpy((void *)to, from, bytes), SUCCESS;
}
EXPORT int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) {
  CAN_FAIL;
  return memcpy(to, (const void *)from, bytes), SUCCESS;
}
EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) {
  CAN_FAIL;
  (void)stream;
  /* Copies this large are made to be timed, not read. */
  if (bytes < (size_t)64 << 20)
    memcpy((void *)to, (const void *)from, bytes);
  return SUCCESS;
}
EXPORT int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void *stream) {
  CAN_FAIL;
  return (void)stream, memset((void *)to, value, bytes), SUCCESS;
}

EXPORT int cuStreamCreate(void **stream, unsigned flags) {
  CAN_FAIL;
  return (void)flags, *stream = &contexts[8], SUCCESS;
}
EXPORT int cuStreamDestroy_v2(void *stream) {
  CAN_FAIL;
  return (void)stream, SUCCESS;
}
EXPORT int cuStreamSynchronize(void *stream) {
  CAN_FAIL;
  return (void)stream, ++fake_cuda.synchronizations, SUCCESS;
}
EXPORT int cuStreamBeginCapture_v2(void *stream, int mode) {
  CAN_FAIL;
  return (void)stream, (void)mode, capturing = 1, SUCCESS;
}
EXPORT int cuStreamEndCapture(void *stream, void **graph) {
  CAN_FAIL;
  return (void)stream, capturing = 0, *graph = &contexts[9], SUCCESS;
}
EXPORT int cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long flags) {
  CAN_FAIL;
  return (void)graph, (void)flags, *executable = &contexts[10], SUCCESS;
}
EXPORT int cuGraphLaunch(void *executable, void *stream) {
  CAN_FAIL;
  return (void)executable, (void)stream, ++fake_cuda.graph_replays, SUCCESS;
}
EXPORT int cuGraphExecDestroy(void *executable) {
  CAN_FAIL;
  return (void)executable, SUCCESS;
}
EXPORT int cuGraphDestroy(void *graph) {
  CAN_FAIL;
  return (void)graph, SUCCESS;
}

EXPORT int cuEventCreate(void **event, unsigned flags) {
  CAN_FAIL;
  return (void)flags, *event = calloc(1, sizeof(struct timespec)), SUCCESS;
}
EXPORT int cuEventDestroy_v2(void *event) {
  CAN_FAIL;
  return free(event), SUCCESS;
}
EXPORT int cuEventRecord(void *event, void *stream) {
  CAN_FAIL;
  return (void)stream, clock_gettime(CLOCK_MONOTONIC, event), SUCCESS;
}
EXPORT int cuEventSynchronize(void *event) {
  CAN_FAIL;
  return (void)event, SUCCESS;
}
EXPORT int cuEventElapsedTime(float *milliseconds, void *start, void *end) {
  CAN_FAIL;
  const struct timespec *a = start, *b = end;
  *milliseconds = (float)((double)(b->tv_sec - a->tv_sec) * 1e3 +
                          (double)(b->tv_nsec - a->tv_nsec) * 1e-6);
  return SUCCESS;
}
