//===- CheckAbi.cpp - the doors' declarations beside torch's and XLA's ----===//
//
// Compiles where python/native's declarations of other projects' functions and
// structs are those of the installed headers. .ci/python compiles it:
//
//   clang++ -fsyntax-only -I. -I TORCH/include -I JAXLIB/include CheckAbi.cpp
//
//===----------------------------------------------------------------------===//

#define USE_CUDA
#include <torch/csrc/stable/library.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <xla/ffi/api/c_api.h>

#include "python/native/TorchAbi.h"
#include "python/native/XlaAbi.h"

#include <type_traits>

using ejk::torch::Functions;

#define CHECK(result, name, arguments)                                                             \
  static_assert(std::is_same_v<decltype(Functions::name), decltype(&::name)>, #name);
EJK_TORCH_FUNCTIONS(CHECK)
static_assert(std::is_same_v<decltype(Functions::aoti_torch_get_current_cuda_stream),
                             decltype(&::aoti_torch_get_current_cuda_stream)>);
static_assert(ejk::torch::abiVersion == TORCH_VERSION_2_10_0);

namespace xla = ejk::xla;
#define SAME(own, field, theirs, theirField)                                                       \
  static_assert(offsetof(xla::own, field) == offsetof(theirs, theirField) &&                       \
                    sizeof(xla::own::field) == sizeof(theirs::theirField),                         \
                #theirField);
SAME(MetadataExtension, metadata, XLA_FFI_Metadata_Extension, metadata)
SAME(Metadata, version.major, XLA_FFI_Metadata, api_version.major_version)
SAME(Metadata, version.minor, XLA_FFI_Metadata, api_version.minor_version)
SAME(Metadata, traits, XLA_FFI_Metadata, traits)
SAME(Extension, type, XLA_FFI_Extension_Base, type)
SAME(Extension, next, XLA_FFI_Extension_Base, next)
SAME(ErrorCreateArgs, message, XLA_FFI_Error_Create_Args, message)
SAME(ErrorCreateArgs, code, XLA_FFI_Error_Create_Args, errc)
SAME(ErrorGetMessageArgs, message, XLA_FFI_Error_GetMessage_Args, message)
SAME(ErrorDestroyArgs, error, XLA_FFI_Error_Destroy_Args, error)
SAME(StreamGetArgs, stream, XLA_FFI_Stream_Get_Args, stream)
SAME(MemoryAllocateArgs, data, XLA_FFI_DeviceMemory_Allocate_Args, data)
SAME(MemoryFreeArgs, data, XLA_FFI_DeviceMemory_Free_Args, data)
SAME(DeviceOrdinalGetArgs, ordinal, XLA_FFI_DeviceOrdinal_Get_Args, device_ordinal)
SAME(Api, createError, XLA_FFI_Api, XLA_FFI_Error_Create)
SAME(Api, getMessage, XLA_FFI_Api, XLA_FFI_Error_GetMessage)
SAME(Api, destroyError, XLA_FFI_Api, XLA_FFI_Error_Destroy)
SAME(Api, getStream, XLA_FFI_Api, XLA_FFI_Stream_Get)
SAME(Api, allocateMemory, XLA_FFI_Api, XLA_FFI_DeviceMemory_Allocate)
SAME(Api, freeMemory, XLA_FFI_Api, XLA_FFI_DeviceMemory_Free)
SAME(Api, getDeviceOrdinal, XLA_FFI_Api, XLA_FFI_DeviceOrdinal_Get)
SAME(Buffer, dtype, XLA_FFI_Buffer, dtype)
SAME(Buffer, data, XLA_FFI_Buffer, data)
SAME(Buffer, rank, XLA_FFI_Buffer, rank)
SAME(Buffer, sizes, XLA_FFI_Buffer, dims)
SAME(ByteSpan, size, XLA_FFI_ByteSpan, len)
SAME(Buffers, buffers, XLA_FFI_Args, args)
SAME(Buffers, buffers, XLA_FFI_Rets, rets)
SAME(Buffers, count, XLA_FFI_Args, size)
SAME(Attributes, kinds, XLA_FFI_Attrs, types)
SAME(Attributes, names, XLA_FFI_Attrs, names)
SAME(Attributes, values, XLA_FFI_Attrs, attrs)
SAME(CallFrame, api, XLA_FFI_CallFrame, api)
SAME(CallFrame, context, XLA_FFI_CallFrame, ctx)
SAME(CallFrame, stage, XLA_FFI_CallFrame, stage)
SAME(CallFrame, arguments, XLA_FFI_CallFrame, args)
SAME(CallFrame, results, XLA_FFI_CallFrame, rets)
SAME(CallFrame, attributes, XLA_FFI_CallFrame, attrs)
static_assert(xla::metadataType == XLA_FFI_Extension_Metadata &&
              xla::stringKind == XLA_FFI_AttrType_STRING &&
              xla::invalidArgument == XLA_FFI_Error_Code_INVALID_ARGUMENT);
static_assert(int(xla::S32) == XLA_FFI_DataType_S32 && int(xla::S64) == XLA_FFI_DataType_S64 &&
              int(xla::F16) == XLA_FFI_DataType_F16 && int(xla::F32) == XLA_FFI_DataType_F32 &&
              int(xla::F64) == XLA_FFI_DataType_F64 && int(xla::BF16) == XLA_FFI_DataType_BF16);
