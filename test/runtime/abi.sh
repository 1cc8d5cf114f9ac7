#!/bin/sh
# abi.sh LIBRARY PRINT_ABI RELEASED: compares the exported symbols and the layouts of the C API with those of the
# last release, which stand in the file RELEASED. What was released stays; what is new may be added behind it.
set -eu
library=$1 print=$2 released=$3
now=$(mktemp) && trap 'rm -f "$now"' EXIT
{ nm -D --defined-only "$library" | sed 's/.* /symbol /'; "$print"; } | LC_ALL=C sort >"$now"
if missing=$(LC_ALL=C comm -13 "$now" "$released") && [ -n "$missing" ]; then
  echo "abi.sh: the last release has what this build lacks or has changed:" >&2
  echo "$missing" >&2
  exit 1
fi
if added=$(LC_ALL=C comm -23 "$now" "$released") && [ -n "$added" ]; then
  echo "abi.sh: not in $released yet; add these lines (in the order of LC_ALL=C sort):" >&2
  echo "$added" >&2
  exit 1
fi
