//===- TorchAbi.h - the C functions of libtorch that ejk calls --*- C++ -*-===//
//
// These are part of PyTorch's stable ABI: a library that uses them runs with every
// PyTorch from 2.10 on. They are found in the libtorch that the process has loaded,
// so neither PyTorch nor its headers are needed to build. test/python/CheckAbi.cpp
// compares each type here with the headers of an installed PyTorch.
//
//===----------------------------------------------------------------------===//

#ifndef EJK_PYTHON_TORCH_ABI_H
#define EJK_PYTHON_TORCH_ABI_H

#include <cstddef>
#include <cstdint>

struct AtenTensorOpaque;
struct StableListOpaque;
struct StringOpaque;
class TorchLibraryOpaque;

namespace ejk::torch {

using Tensor = AtenTensorOpaque *;
using List = StableListOpaque *;
using String = StringOpaque *;
using Library = TorchLibraryOpaque *;
using StableIValue = uint64_t;
using Status = int32_t; // 0 is success
using Kernel = void (*)(StableIValue *stack, uint64_t numInputs, uint64_t numOutputs);

/// What a kernel tells torch that it was built for: PyTorch 2.10.
constexpr uint64_t abiVersion = (uint64_t(2) << 56) | (uint64_t(10) << 48);

// The result, the name and the arguments of each.
#define EJK_TORCH_FUNCTIONS(X)                                                                     \
  X(int32_t, aoti_torch_device_type_cpu, ())                                                       \
  X(int32_t, aoti_torch_device_type_cuda, ())                                                      \
  X(int32_t, aoti_torch_dtype_float32, ())                                                         \
  X(int32_t, aoti_torch_dtype_float16, ())                                                         \
  X(int32_t, aoti_torch_dtype_bfloat16, ())                                                        \
  X(int32_t, aoti_torch_dtype_float64, ())                                                         \
  X(int32_t, aoti_torch_dtype_int32, ())                                                           \
  X(int32_t, aoti_torch_dtype_int64, ())                                                           \
  X(int32_t, aoti_torch_dtype_uint8, ())                                                           \
  X(Status, aoti_torch_get_data_ptr, (Tensor, void **))                                            \
  X(Status, aoti_torch_get_dtype, (Tensor, int32_t *))                                             \
  X(Status, aoti_torch_get_device_type, (Tensor, int32_t *))                                       \
  X(Status, aoti_torch_get_device_index, (Tensor, int32_t *))                                      \
  X(Status, aoti_torch_get_dim, (Tensor, int64_t *))                                               \
  X(Status, aoti_torch_get_sizes, (Tensor, int64_t **))                                            \
  X(Status, aoti_torch_get_strides, (Tensor, int64_t **))                                          \
  X(Status, aoti_torch_empty_strided,                                                              \
    (int64_t rank, const int64_t *sizes, const int64_t *strides, int32_t dtype,                    \
     int32_t deviceType, int32_t deviceIndex, Tensor *))                                           \
  X(Status, aoti_torch_copy_, (Tensor to, Tensor from, int32_t nonBlocking))                       \
  X(Status, aoti_torch_delete_tensor_object, (Tensor))                                             \
  X(Status, aoti_torch_library_init_impl,                                                          \
    (const char *space, const char *dispatchKey, const char *file, uint32_t line, Library *))      \
  X(Status, torch_library_impl, (Library, const char *name, Kernel, uint64_t version))             \
  X(Status, torch_new_list_reserve_size, (size_t, List *))                                         \
  X(Status, torch_list_size, (List, size_t *))                                                     \
  X(Status, torch_list_get_item, (List, size_t, StableIValue *))                                   \
  X(Status, torch_list_push_back, (List, StableIValue))                                            \
  X(Status, torch_delete_list, (List))                                                             \
  X(Status, torch_get_num_threads, (uint32_t *))                                                  \
  X(Status, torch_string_length, (String, size_t *))                                               \
  X(Status, torch_string_c_str, (String, const char **))                                           \
  X(Status, torch_delete_string, (String))

#define EJK_TORCH_FIELD(result, name, arguments) result(*name) arguments = nullptr;
struct Functions {
  EJK_TORCH_FUNCTIONS(EJK_TORCH_FIELD)
  /// In the libtorch of a PyTorch with CUDA alone.
  Status (*aoti_torch_get_current_cuda_stream)(int32_t deviceIndex, void **stream) = nullptr;
};
#undef EJK_TORCH_FIELD

} // namespace ejk::torch

#endif // EJK_PYTHON_TORCH_ABI_H
