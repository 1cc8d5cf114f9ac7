/* Compiles a file of MLIR and runs what it holds, in one process.
 *
 *   compile FILE.mlir ENTRY [TARGET]
 *
 * libejk-compiler is opened only when something is compiled, as a program does that
 * keeps its packages. Prints what the compiler says and what the package holds. */

#include <dlfcn.h>
#include <ejk/compiler.h>
#include <ejk/runtime.h>
#include <stdio.h>
#include <stdlib.h>

static void *read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END) != 0)
    return NULL;
  long length = ftell(file);
  char *data = length < 0 ? NULL : malloc((size_t)length + 1);
  rewind(file);
  *size = data ? fread(data, 1, (size_t)length, file) : 0;
  fclose(file);
  return data;
}

static void print_diagnostics(const ejk_diagnostic *list, size_t count) {
  static const char *const severities[] = {"note", "remark", "warning", "error"};
  for (size_t i = 0; i < count; ++i) {
    fprintf(stderr, "%s:%d:%d: %s: %s\n", list[i].file, list[i].line, list[i].column,
            severities[list[i].severity], list[i].text);
    print_diagnostics(list[i].notes, list[i].num_notes);
  }
}

static int fail(ejk_error *error) {
  fprintf(stderr, "compile: %s\n", ejk_error_message(error));
  ejk_error_destroy(error);
  return 1;
}

/* Loads the package, and launches `name` once on sizes of 1 where there is a device for it. */
static int run(const ejk_result *compiled, const char *name) {
  ejk_package *package = NULL;
  ejk_executable *executable = NULL;
  ejk_error *error = ejk_package_load_memory(compiled->data, compiled->size, &package);
  if (error)
    return fail(error);
  ejk_entry_info info = {.struct_size = sizeof(info)};
  size_t entry;
  if ((error = ejk_package_find_entry(package, name, &entry)) ||
      (error = ejk_entry_get_info(package, entry, &info)))
    return fail(error);
  printf("%s: %zu inputs, %zu outputs, for %s\n", name, info.num_inputs, info.num_outputs,
         ejk_package_arch(package));
  error = ejk_executable_create(package, NULL, &executable);
  if (error && ejk_error_get_code(error) == EJK_ERROR_NO_DRIVER) {
    printf("not launched: %s\n", ejk_error_message(error));
    ejk_error_destroy(error);
  } else if (error) {
    return fail(error);
  } else {
    printf("ready to launch\n");
  }
  ejk_executable_destroy(executable);
  ejk_package_destroy(package);
  return 0;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: compile FILE.mlir ENTRY [TARGET]\n");
    return 2;
  }
  const char *path = getenv("EJK_COMPILER");
  void *library = dlopen(path ? path : "libejk-compiler.so", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf(stderr, "compile: %s\n", dlerror());
    return 1;
  }
  const ejk_compiler *(*get)(int32_t);
  *(void **)&get = dlsym(library, "ejk_get_compiler");
  const ejk_compiler *compiler = get ? get(EJK_COMPILER_VERSION) : NULL;
  if (!compiler) {
    fprintf(stderr, "compile: the library is of another version\n");
    return 1;
  }

  ejk_source source = {.struct_size = sizeof(source), .name = argv[1]};
  source.data = read_file(argv[1], &source.size);
  if (!source.data) {
    fprintf(stderr, "compile: cannot read %s\n", argv[1]);
    return 1;
  }
  ejk_compile_options options = {.struct_size = sizeof(options), .derivatives = 1};
  options.target = argc > 3 ? argv[3] : NULL;
  ejk_result *result = compiler->compile(&source, &options);
  if (!result)
    return 1;
  print_diagnostics(result->diagnostics, result->num_diagnostics);
  int status = result->status == EJK_DONE ? run(result, argv[2]) : 1;
  compiler->destroy(result);
  free((void *)source.data);
  return status;
}
