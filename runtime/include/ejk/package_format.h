/*===-- ejk/package_format.h - the kernel package's bytes -------*- C -*-===*\
|*
|* A kernel package is one file that lowering writes and the runtime reads:
|*
|*   | header, 64 bytes | manifest, JSON in UTF-8 | payload, images end to end |
|*
|* All integers are little-endian. The manifest's fields are described in
|* docs/package-format.md. Both sides include this header and nothing else of
|* each other, so the asserts at its end are the contract between them.
|*
\*===----------------------------------------------------------------------===*/

#ifndef EJK_PACKAGE_FORMAT_H
#define EJK_PACKAGE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

/* The line end inside the magic reveals a copy that was made in text mode. */
#define EJK_PACKAGE_MAGIC "EJKPKG\r\n"
#define EJK_PACKAGE_MAGIC_SIZE 8

/* Raised whenever a reader of the previous version would launch wrongly. A new
 * manifest key that an old reader may ignore does not raise it. Version 2 brought
 * tensor maps of matrices, version 3 tensor maps of up to five dimensions, version 4
 * variants of an entry, conditions, and images of several architectures, version 5
 * compressed images. */
#define EJK_PACKAGE_VERSION 5

/* The oldest version that this runtime still reads. */
#define EJK_OLDEST_PACKAGE_VERSION 1

/* The manifest's value of "format". */
#define EJK_PACKAGE_FORMAT_NAME "ejk-package"

typedef struct ejk_package_header {
  char magic[EJK_PACKAGE_MAGIC_SIZE];
  uint32_t version;
  uint32_t header_size;   /* 64; the manifest starts here */
  uint64_t manifest_size; /* bytes of JSON, no terminating NUL needed */
  uint64_t payload_size;  /* bytes of all images, as they are stored */
  uint64_t checksum;      /* XXH3-64, seed 0, of everything after the header */
  uint8_t reserved[24];   /* zero */
} ejk_package_header;

/* A kernel's parameters, in the order of "args", are 64 bits wide: a device
 * pointer (the tensor's byte offset already added) or a signed integer. */
#define EJK_KERNEL_ARGUMENT_SIZE 8

/* Or they are tensor maps, which kernels take by value: CUtensorMap. */
#define EJK_TENSOR_MAP_SIZE 128
#define EJK_TENSOR_MAP_ALIGNMENT 64

/* A tensor map's buffer starts at a multiple of this many bytes; its strides
 * are multiples of them, too, and so is the size of a row of its box. */
#define EJK_TENSOR_MAP_ROW_ALIGNMENT 16

/* A row of a box has at most as many bytes as the swizzle is wide. */
#define EJK_TENSOR_MAP_SWIZZLE 128
#define EJK_MAX_BOX_SIZE 256 /* elements, along each dimension */
#define EJK_MAX_TENSOR_MAP_RANK 5

/* Each workspace buffer starts at a multiple of this many bytes, and so must
 * the workspace itself. */
#define EJK_WORKSPACE_ALIGNMENT 256

/* Bounds that a reader enforces before it reads or allocates as much. */
#define EJK_MAX_MANIFEST_SIZE (16 * 1024 * 1024)
#define EJK_MAX_PAYLOAD_SIZE (1024 * 1024 * 1024) /* also of all images' code */

/* Bounds that a reader enforces, so that a launch can live on the stack. */
#define EJK_MAX_RANK 8
#define EJK_MAX_TENSORS 64 /* inputs, and outputs, of one entry */
#define EJK_MAX_SYMBOLS 128 /* sizes, and the row strides of inputs */
#define EJK_MAX_IMAGES 16
#define EJK_MAX_VARIANTS 64   /* of one entry */
#define EJK_MAX_WORKSPACES 256 /* of one variant, as are the next four */
#define EJK_MAX_LAUNCHES 512
#define EJK_MAX_ARGUMENTS 8192        /* of all launches together */
#define EJK_MAX_LAUNCH_ARGUMENTS 1024 /* of one launch */
#define EJK_MAX_TENSOR_MAPS 128 /* among those arguments */
#define EJK_MAX_EXPRESSION_DEPTH 32

/* What a condition may read of the device, besides the entry's symbols. */
#define EJK_NUM_DEVICE_FACTS 3

/* A CPU's kernel is a C function in its image. It computes items [first, end) of
 * its grid, which are independent, from the launch's arguments: 64 bits each,
 * addresses of host memory or signed integers. It keeps no state, calls nothing and
 * takes at most EJK_CPU_STACK_BYTES of the thread's stack. */
typedef void (*ejk_cpu_kernel)(const void *arguments, int64_t first, int64_t end);
#define EJK_CPU_STACK_BYTES (1024 * 1024)

/* Kernels start at multiples of this many bytes of the image. The image is mapped
 * at a multiple of EJK_CPU_IMAGE_ALIGNMENT: its code may count pages. */
#define EJK_CPU_CODE_ALIGNMENT 4
#define EJK_CPU_IMAGE_ALIGNMENT 4096
#define EJK_MAX_KERNELS 65536 /* of one image */

/* Dynamic shared memory past this must be asked for when a kernel is loaded. */
#define EJK_DEFAULT_SHARED_BYTES (48 * 1024)

/* Every architecture from sm_80 on lets a block have so much (CUDA's programming guide,
 * table of technical specifications: 99 KB on sm_86, sm_89 and sm_12x). */
#define EJK_LEAST_SHARED_BYTES (99 * 1024)

#ifdef __cplusplus
#define EJK_STATIC_ASSERT(condition, text) static_assert(condition, text)
#else
#define EJK_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#endif

EJK_STATIC_ASSERT(sizeof(ejk_package_header) == 64, "header size");
EJK_STATIC_ASSERT(offsetof(ejk_package_header, magic) == 0, "magic");
EJK_STATIC_ASSERT(offsetof(ejk_package_header, version) == 8, "version");
EJK_STATIC_ASSERT(offsetof(ejk_package_header, header_size) == 12, "header_size");
EJK_STATIC_ASSERT(offsetof(ejk_package_header, manifest_size) == 16, "manifest_size");
EJK_STATIC_ASSERT(offsetof(ejk_package_header, payload_size) == 24, "payload_size");
EJK_STATIC_ASSERT(offsetof(ejk_package_header, checksum) == 32, "checksum");
EJK_STATIC_ASSERT(offsetof(ejk_package_header, reserved) == 40, "reserved");
EJK_STATIC_ASSERT(sizeof(void *) == EJK_KERNEL_ARGUMENT_SIZE, "host pointers are kernel arguments");

#endif /* EJK_PACKAGE_FORMAT_H */
