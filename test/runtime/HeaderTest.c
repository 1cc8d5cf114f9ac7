/* The headers compile as C11 and a C program can use them. */
#include "ejk/package_format.h"
#include "ejk/runtime.h"

int ejk_header_test(void) {
  ejk_launch_params params = {.struct_size = sizeof(params)};
  ejk_package *package = NULL;
  ejk_error *error = ejk_package_load_memory("", 0, &package);
  int refused = ejk_error_get_code(error) == EJK_ERROR_INVALID_PACKAGE;
  ejk_error_destroy(error);
  return refused && params.num_inputs == 0 &&
         ejk_version_number() == EJK_VERSION_NUMBER &&
         ejk_package_format_version() == EJK_PACKAGE_VERSION;
}
