#!/bin/sh
# programs.sh BIN FAKE_DRIVER OLD_DRIVER WORK RUNTIME: ejk-launch and the C examples, as a user
# runs them, with the fake driver, with one of CUDA 11 and with none.
set -eu
bin=$1 fake=$2 old=$3 work=$4 runtime=$5
rm -rf "$work" && mkdir -p "$work" && cd "$work"
"$bin/ejk-write-test-package" .

fail() { echo "programs.sh: $1" >&2; exit 1; }
# expect STATUS COMMAND...: the output is left in the file 'said'.
expect() {
  wanted=$1; shift
  status=0
  "$@" >said 2>&1 || status=$?
  [ "$status" = "$wanted" ] || { cat said; fail "status $status from: $*"; }
}
says() { grep -q -- "$1" said || { cat said; fail "did not say: $1"; }; }

export EJK_CUDA_DRIVER="$fake"
expect 0 "$bin/ejk-launch" --help; says 'Exit status'
expect 2 "$bin/ejk-launch"; says 'no package'
expect 2 "$bin/ejk-launch" copy.ejk; says '--inputs or --random'
expect 2 "$bin/ejk-launch" copy.ejk --frobnicate; says "unknown option '--frobnicate'"
expect 2 "$bin/ejk-launch" copy.ejk --device=cpu --prefer-ptx --info; says '--prefer-ptx is of a GPU'
expect 0 "$bin/ejk-launch" packed.ejk --info; says 'may replace h0'; says 'N + 1'
expect 0 "$bin/ejk-launch" tensor-maps.ejk --info
says 'arguments (map of x as f32 \[R, 32\] by \[32\] in boxes of \[8, 32\], y, R)'
expect 0 "$bin/ejk-launch" tensor-maps.ejk --random=R=20 --outputs=x.npy
expect 0 "$bin/ejk-launch" tensor-maps.ejk --inputs=x=x.npy --expect=y=x.npy --rtol=0
expect 1 "$bin/ejk-launch" tensor-maps.ejk --random=R=20 --seed=9 --expect=y=x.npy
expect 0 "$bin/ejk-launch" tensor-maps.ejk --info --random=R=20; says 'moves  *0.005 MB in copy_boxes'
expect 0 "$bin/ejk-launch" copy.ejk --random=R=8 --seed=3 --outputs=y.safetensors
says 'y: f32 \[8, 4\]'
expect 0 "$bin/ejk-launch" copy.ejk --random=R=8 --seed=3 --expect=y.safetensors --rtol=0
says 'y: pass'
expect 1 "$bin/ejk-launch" copy.ejk --random=R=8 --seed=4 --expect=y.safetensors
says 'y: FAIL'
expect 0 "$bin/ejk-launch" copy.ejk --random R=8 --outputs=npy/
expect 0 "$bin/ejk-launch" copy.ejk --inputs=x=npy/y.npy --expect=npy
expect 3 "$bin/ejk-launch" copy.ejk --inputs=npy; says "input 'x' (f32 \[R, 4\]) is missing"
expect 3 "$bin/ejk-launch" copy.ejk --random=B=8; says 'needs sizes for: R'
expect 3 "$bin/ejk-launch" said --info; says 'not a usable ejk package'
expect 0 "$bin/ejk-launch" copy.ejk --random=R=8 --bench --in-place; says 'x the floor'
# Files of others: what they name stays where it belongs, and terminals see no escapes.
for package in hostile_output hostile_kernel hostile_text; do
  expect 3 "$bin/ejk-launch" $package.ejk --info; says 'not a usable ejk package: manifest: '
  expect 3 "$bin/ejk-launch" $package.ejk --random=R=8 --outputs=npy/
  ! grep -q "$(printf '\033')" said || fail "$package reached the terminal raw"
done
[ ! -e ../escaped.npy ] && [ ! -e /tmp/ejk-escaped.npy ] || fail 'a file was written outside'
expect 3 "$bin/ejk-launch" /dev/zero --info; says 'does not start with the magic bytes'
expect 3 "$bin/ejk-launch" copy.ejk --inputs=/dev/zero; says 'it is not valid JSON'
# An output that is an input, under whatever name, would be lost.
ln -s y.safetensors link.safetensors
cp y.safetensors before
for input in y.safetensors ./link.safetensors; do
  expect 3 "$bin/ejk-launch" copy.ejk --random=R=8 --expect=$input --outputs=y.safetensors
  says 'is also an input'
done
expect 3 "$bin/ejk-launch" copy.ejk --random=R=8 --outputs=copy.ejk; says 'is also an input'
expect 3 "$bin/ejk-launch" copy.ejk --inputs=y=npy/y.npy --outputs=npy/; says 'is also an input'
# With no room on the disk the old file stays. A disk of our own needs a mount namespace.
if unshare -rm true 2>/dev/null; then
  mkdir disk
  expect 3 unshare -rm sh -c 'mount -t tmpfs -o size=64k none disk && cp before disk/y.safetensors
    dd if=/dev/zero of=disk/rest 2>/dev/null
    "$0" copy.ejk --random=R=8 --seed=4 --outputs=disk/y.safetensors
    status=$?
    cmp before disk/y.safetensors && [ "$(ls -A disk | wc -l)" = 2 ] || status=9
    exit $status' "$bin/ejk-launch"
  says "cannot write 'disk/y.safetensors': No space left on device"
fi
expect 0 "$bin/ejk-launch" copy.ejk --random=R=8 --outputs=/dev/null
# More memory than there is. A sanitizer needs more addresses than this limit leaves.
[ -n "${EJK_SANITIZED:-}" ] || expect 5 sh -c "ulimit -v 1000000; exec '$bin/ejk-launch' copy.ejk --random=R=99999999999"
[ -n "${EJK_SANITIZED:-}" ] || says 'out of memory'
expect 3 "$bin/ejk-launch" copy.ejk --random=R=999999999999999999; says "size overflows 64 bits"
for example in launch launch_explained; do
  expect 0 "$bin/$example" gla.ejk; says 'o at the last step: 0x4300'
  expect 2 "$bin/$example"; says 'usage'
done
expect 0 "$bin/train" train.ejk; says 'step 50: loss'; says '^A  .*to be found: -2.0'
expect 1 "$bin/train" gla.ejk; says "mamba2"
expect 2 "$bin/train"; says 'usage'

# A program that closes the library while the threads of a CPU's kernels run.
if [ "$(uname -m)" = x86_64 ]; then
  EJK_NUM_THREADS=4 expect 0 "$bin/ejk-close-library" "$runtime" number.ejk; says '^alive'
fi

export EJK_CUDA_DRIVER="$old"
expect 0 "$bin/ejk-launch" copy.ejk --random=R=8
expect 0 "$bin/ejk-launch" tensor-maps.ejk --info
expect 4 "$bin/ejk-launch" tensor-maps.ejk --random=R=8
says 'lacks cuTensorMapEncodeTiled); install the NVIDIA driver of CUDA 12 or later'

export EJK_CUDA_DRIVER=/nonexistent
expect 4 "$bin/ejk-launch" copy.ejk --random=R=8; says 'Install the NVIDIA driver'
for example in launch launch_explained train; do
  expect 1 "$bin/$example" gla.ejk; says 'Install the NVIDIA driver'
done
