/* Prints the sizes, offsets and values that programs compiled against the C API have in them. */
#include "ejk/package_format.h"
#include "ejk/runtime.h"

#include <stdio.h>

#define STRUCT(type) printf("struct %s size %zu\n", #type, sizeof(type))
#define FIELD(type, field)                                                                         \
  printf("struct %s field %s offset %zu size %zu\n", #type, #field, offsetof(type, field),         \
         sizeof(((type *)0)->field))
#define VALUE(name) printf("value %s %lld\n", #name, (long long)(name))

int main(void) {
  STRUCT(ejk_entry_info);
  FIELD(ejk_entry_info, struct_size);
  FIELD(ejk_entry_info, name);
  FIELD(ejk_entry_info, num_inputs);
  FIELD(ejk_entry_info, num_outputs);
  FIELD(ejk_entry_info, num_kernels);
  FIELD(ejk_entry_info, num_variants);
  STRUCT(ejk_variant_info);
  FIELD(ejk_variant_info, struct_size);
  FIELD(ejk_variant_info, schedule);
  FIELD(ejk_variant_info, arch);
  FIELD(ejk_variant_info, needs);
  FIELD(ejk_variant_info, when);
  FIELD(ejk_variant_info, num_kernels);
  STRUCT(ejk_choice);
  FIELD(ejk_choice, struct_size);
  FIELD(ejk_choice, variant);
  FIELD(ejk_choice, schedule);
  FIELD(ejk_choice, workspace_bytes);
  FIELD(ejk_choice, num_kernels);
  STRUCT(ejk_tensor_info);
  FIELD(ejk_tensor_info, struct_size);
  FIELD(ejk_tensor_info, name);
  FIELD(ejk_tensor_info, role);
  FIELD(ejk_tensor_info, shape);
  FIELD(ejk_tensor_info, dtype);
  FIELD(ejk_tensor_info, rank);
  FIELD(ejk_tensor_info, may_alias);
  FIELD(ejk_tensor_info, alignment);
  STRUCT(ejk_executable_options);
  FIELD(ejk_executable_options, struct_size);
  FIELD(ejk_executable_options, device_ordinal);
  FIELD(ejk_executable_options, prefer_ptx);
  FIELD(ejk_executable_options, device_type);
  STRUCT(ejk_launch_params);
  FIELD(ejk_launch_params, struct_size);
  FIELD(ejk_launch_params, inputs);
  FIELD(ejk_launch_params, num_inputs);
  FIELD(ejk_launch_params, outputs);
  FIELD(ejk_launch_params, num_outputs);
  FIELD(ejk_launch_params, workspace);
  FIELD(ejk_launch_params, workspace_bytes);
  FIELD(ejk_launch_params, stream);
  FIELD(ejk_launch_params, schedule);
  FIELD(ejk_launch_params, parallel_for);
  FIELD(ejk_launch_params, parallel_context);
  FIELD(ejk_launch_params, max_threads);
  FIELD(ejk_launch_params, zero_unused_rows);
  STRUCT(ejk_package_header);
  FIELD(ejk_package_header, magic);
  FIELD(ejk_package_header, version);
  FIELD(ejk_package_header, header_size);
  FIELD(ejk_package_header, manifest_size);
  FIELD(ejk_package_header, payload_size);
  FIELD(ejk_package_header, checksum);
  FIELD(ejk_package_header, reserved);
  VALUE(EJK_OK);
  VALUE(EJK_ERROR_INVALID_ARGUMENT);
  VALUE(EJK_ERROR_INVALID_TENSOR);
  VALUE(EJK_ERROR_INVALID_PACKAGE);
  VALUE(EJK_ERROR_NO_DRIVER);
  VALUE(EJK_ERROR_NO_DEVICE);
  VALUE(EJK_ERROR_ARCH_MISMATCH);
  VALUE(EJK_ERROR_DRIVER);
  VALUE(EJK_ERROR_OUT_OF_MEMORY);
  VALUE(EJK_ERROR_IO);
  VALUE(EJK_WORKSPACE_ALIGNMENT);
  VALUE(EJK_MAX_RANK);
  return 0;
}
