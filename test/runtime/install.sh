#!/bin/sh
# install.sh CMAKE BUILD EXAMPLES WORK: builds the C examples against the
# installed runtime alone, through CMake and through pkg-config, and starts the
# installed tools.
set -eu
cmake=$1 build=$2 examples=$3 work=$4
rm -rf "$work" && mkdir -p "$work"
"$cmake" --install "$build" --prefix "$work/prefix" --component runtime >/dev/null

fail() { echo "install.sh: $1" >&2; exit 1; }
"$cmake" -S "$examples" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
"$cmake" --build "$work/build" >/dev/null
ldd "$work/build/launch" | grep -q libejk_runtime || fail "launch lacks the runtime"
! ldd "$work/build/launch" | grep -iE 'llvm|mlir|cuda' || fail "launch links too much"
status=0
EJK_CUDA_DRIVER=/nonexistent "$work/build/launch" x >/dev/null 2>&1 || status=$?
[ "$status" = 1 ] || fail "launch did not run"

# Nothing but the C API may be visible.
library=$(find "$work/prefix" -name 'libejk_runtime.so')
! nm -D --defined-only "$library" | grep -v ' ejk_' || fail "other symbols are visible"

# The tools that are built also run where they are installed.
"$cmake" --install "$build" --prefix "$work/all" >/dev/null
for tool in ejk-launch ejk-run ejk-compile ejk-opt; do
  [ ! -e "$build/bin/$tool" ] || "$work/all/bin/$tool" --help >/dev/null || fail "$tool did not run"
done

command -v pkg-config >/dev/null || exit 0
PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name ejk.pc)")
export PKG_CONFIG_PATH
# A function that a standard lacks would be declared by its use, and give a pointer as an int.
for standard in c99 c11 c17; do
  for example in launch launch_explained train; do
    ${CC:-cc} -std=$standard -Wall -Werror "$examples/$example.c" -o "$work/$example" \
      $(pkg-config --cflags --libs ejk) || fail "$example.c is not $standard"
  done
done
