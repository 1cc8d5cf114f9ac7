"""A kernel whose threads go to the labels of a table, on the emulator. EJK_CUDA_DRIVER names it."""
import os
import sys

import numpy as np

sys.dont_write_bytecode = True
sys.path.append(os.path.dirname(os.path.realpath(__file__)))

import driver as cuda  # noqa: E402

# Thread t writes 10, 11, 12 by t modulo 4, and 13 where no label is of that number.
KERNEL = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry choose(.param .u64 .ptr .global .align 1 choose_param_0)
{
	.reg .b32 	%r<5>;
	.reg .b64 	%rd<4>;
	ld.param.b64 	%rd1, [choose_param_0];
	mov.u32 	%r1, %tid.x;
	and.b32 	%r2, %r1, 3;
	mov.b32 	%r3, 13;
	mul.wide.u32 	%rd2, %r1, 4;
	add.s64 	%rd3, %rd1, %rd2;
	$L_table: .branchtargets
		$L_ten,
		$L_eleven,
		$L_twelve,
		$L_end;
	brx.idx 	%r2, $L_table;
$L_twelve:
	mov.b32 	%r3, 12;
	bra.uni 	$L_end;
$L_ten:
	mov.b32 	%r3, 10;
	bra.uni 	$L_end;
$L_eleven:
	mov.b32 	%r3, 11;
$L_end:
	st.global.b32 	[%rd3], %r3;
	ret;
}
"""

driver = cuda.Driver()
found = cuda.run(driver, KERNEL, "choose", 64, [], np.zeros(64, np.int32))
assert (found == 10 + np.arange(64) % 4).all(), found
try:
    cuda.run(driver, KERNEL.replace("brx.idx 	%r2, $L_table", "brx.idx 	%r2, $L_other"), "choose", 64, [],
             np.zeros(64, np.int32))
except cuda.DriverError as error:
    print("a table that is not there:", "no .branchtargets" in str(error))
print("threads go to their labels")
