//===- XlaAbi.h - what a handler of XLA's is called with --------*- C++ -*-===//
//
// The part of XLA's foreign function interface that ejk's handler reads, in version
// 0.1 of its C API, which later versions extend at the ends of structs. The layouts
// are checked against the headers of an installed jaxlib by test/python/CheckAbi.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef EJK_PYTHON_XLA_ABI_H
#define EJK_PYTHON_XLA_ABI_H

#include <cstddef>
#include <cstdint>

namespace ejk::xla {


struct Error;
struct ExecutionContext;

struct Extension {
  size_t structSize;
  int32_t type; // 1: metadata
  Extension *next;
};

struct ApiVersion {
  size_t structSize;
  Extension *extensions;
  int32_t major, minor;
};

/// What XLA asks a handler for before it is called for the first time.
struct Metadata {
  size_t structSize;
  ApiVersion version;
  uint32_t traits;
};
constexpr int32_t metadataType = 1;

struct MetadataExtension {
  Extension base;
  Metadata *metadata;
};

struct ErrorCreateArgs {
  size_t structSize;
  Extension *extensions;
  const char *message;
  int32_t code;
};
constexpr int32_t invalidArgument = 3;

struct ErrorGetMessageArgs {
  size_t structSize;
  Extension *extensions;
  Error *error;
  const char *message;
};

struct ErrorDestroyArgs {
  size_t structSize;
  Extension *extensions;
  Error *error;
};

struct StreamGetArgs {
  size_t structSize;
  Extension *extensions;
  ExecutionContext *context;
  void *stream;
};

struct MemoryAllocateArgs {
  size_t structSize;
  Extension *extensions;
  ExecutionContext *context;
  size_t size, alignment;
  void *data;
};

struct MemoryFreeArgs {
  size_t structSize;
  Extension *extensions;
  ExecutionContext *context;
  size_t size;
  void *data;
};

struct DeviceOrdinalGetArgs {
  size_t structSize;
  Extension *extensions;
  ExecutionContext *context;
  int32_t ordinal;
};

using Unused = void (*)();

struct Api {
  size_t structSize;
  Extension *extensions;
  ApiVersion version;
  const void *internal;
  Error *(*createError)(ErrorCreateArgs *);
  void (*getMessage)(ErrorGetMessageArgs *);
  void (*destroyError)(ErrorDestroyArgs *);
  Unused registerHandler;
  Error *(*getStream)(StreamGetArgs *);
  Unused registerType, getContext, setState, getState;
  Error *(*allocateMemory)(MemoryAllocateArgs *);
  Error *(*freeMemory)(MemoryFreeArgs *);
  Unused schedule, numThreads, createFuture, setAvailable, setError, getRunId;
  Error *(*getDeviceOrdinal)(DeviceOrdinalGetArgs *);
};

struct Buffer {
  size_t structSize;
  Extension *extensions;
  int32_t dtype;
  void *data;
  int64_t rank;
  int64_t *sizes;
};

struct ByteSpan {
  const char *data;
  size_t size;
};

/// Arguments, and results: kinds and the buffers.
struct Buffers {
  size_t structSize;
  Extension *extensions;
  int64_t count;
  int32_t *kinds;
  Buffer **buffers;
};

struct Attributes {
  size_t structSize;
  Extension *extensions;
  int64_t count;
  int32_t *kinds;
  ByteSpan **names; // in alphabetical order
  void **values;
};
constexpr int32_t stringKind = 4;

struct CallFrame {
  size_t structSize;
  Extension *extensions;
  const Api *api;
  ExecutionContext *context;
  int32_t stage;
  Buffers arguments, results;
  Attributes attributes;
};

enum ElementType : int32_t { S32 = 4, S64 = 5, F16 = 10, F32 = 11, F64 = 12, BF16 = 16 };

} // namespace ejk::xla

#endif // EJK_PYTHON_XLA_ABI_H
