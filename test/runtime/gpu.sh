#!/bin/sh
# gpu.sh BIN WORK: loads, runs, checks and times a kernel on a real device. Exits
# with 77 where there is none.
set -eu
bin=$1 work=$2
rm -rf "$work" && mkdir -p "$work" && cd "$work"
"$bin/ejk-write-test-package" .
status=0
"$bin/ejk-launch" real_copy.ejk --random=R=1000 --outputs=y.npy || status=$?
[ "$status" != 4 ] || exit 77
[ "$status" = 0 ] || exit 1
# A copy gives its input back: fed with its output it must return the same.
"$bin/ejk-launch" real_copy.ejk --inputs=x=y.npy --expect=y=y.npy --rtol=0
"$bin/ejk-launch" real_copy.ejk --random=R=0
# Of a row count that is no multiple of a box's; two inputs give two outputs.
boxes() { "$bin/ejk-launch" real-tensor-maps.ejk "$@"; }
if boxes --random=R=1003 --outputs=boxes.npy 2>said; then
  boxes --inputs=x=boxes.npy --expect=y=boxes.npy --rtol=0
  boxes --random=R=0
  if boxes --random=R=1003 --seed=9 --expect=y=boxes.npy; then exit 1; fi
else
  cat said && grep -q 'compiled for sm_90' said
fi
for size in 1000 4000000; do
  "$bin/ejk-launch" real_copy.ejk --random=R=$size --bench
  "$bin/ejk-launch" real_copy.ejk --random=R=$size --bench --in-place
done
