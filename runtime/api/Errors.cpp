//===- Errors.cpp - owned errors and the version --------------------------===//

#include "Handles.h"

#include "ejk/package_format.h"

using namespace ejk;

static_assert(int(ErrorCode::InvalidArgument) == EJK_ERROR_INVALID_ARGUMENT);
static_assert(int(ErrorCode::InvalidTensor) == EJK_ERROR_INVALID_TENSOR);
static_assert(int(ErrorCode::InvalidPackage) == EJK_ERROR_INVALID_PACKAGE);
static_assert(int(ErrorCode::NoDriver) == EJK_ERROR_NO_DRIVER);
static_assert(int(ErrorCode::NoDevice) == EJK_ERROR_NO_DEVICE);
static_assert(int(ErrorCode::ArchMismatch) == EJK_ERROR_ARCH_MISMATCH);
static_assert(int(ErrorCode::Driver) == EJK_ERROR_DRIVER);
static_assert(int(ErrorCode::OutOfMemory) == EJK_ERROR_OUT_OF_MEMORY);
static_assert(int(ErrorCode::Io) == EJK_ERROR_IO);

ejk_error *ejk::makeError(ErrorCode code, std::string message) {
  return new ejk_error{code, std::move(message)};
}

// Made when the library is loaded: at the time of need there may be no memory.
static ejk_error outOfMemory{ErrorCode::OutOfMemory, "out of memory"};
static ejk_error unexpected{ErrorCode::Driver, "an unexpected C++ exception"};

ejk_error *ejk::outOfMemoryError() { return &outOfMemory; }

ejk_error *ejk::unexpectedError() { return &unexpected; }

ejk_error *ejk::checkStructSize(const char *name, size_t given, size_t needed) {
  if (given >= needed)
    return nullptr;
  return makeError(ErrorCode::InvalidArgument, std::string(name) + ".struct_size is " +
                                                   std::to_string(given) + ", expected at least " +
                                                   std::to_string(needed) + "; set it to sizeof(" +
                                                   name + ")");
}

ejk_error_code ejk_error_get_code(const ejk_error *error) {
  return error ? static_cast<ejk_error_code>(error->code) : EJK_OK;
}

const char *ejk_error_message(const ejk_error *error) {
  return error ? error->message.c_str() : "";
}

void ejk_error_destroy(ejk_error *error) {
  if (error != &outOfMemory && error != &unexpected)
    delete error;
}

#define EJK_STRING(x) #x
#define EJK_EXPAND(x) EJK_STRING(x)

const char *ejk_version_string(void) {
  return EJK_EXPAND(EJK_VERSION_MAJOR) "." EJK_EXPAND(EJK_VERSION_MINOR) "." EJK_EXPAND(
      EJK_VERSION_PATCH);
}

int32_t ejk_version_number(void) { return EJK_VERSION_NUMBER; }

int32_t ejk_package_format_version(void) { return EJK_PACKAGE_VERSION; }
