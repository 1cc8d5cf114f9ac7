// A double buffer overlaps no earlier temporary of the loop's body: a temporary of an iteration, which is
// always in the same range, and the buffer of P that the iteration uses are disjoint.
// RUN: env EJK_EMULATOR_SEED=1 EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step --arch=sm_90a --device=cuda --check --random B=1,T=330 %s
// RUN: env EJK_EMULATOR_SEED=2 EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step --arch=sm_90a --device=cuda --check --random B=1,T=330 %s
// RUN: env EJK_EMULATOR_SEED=5 EJK_CUDA_DRIVER=%emulated-cuda ejk-run --schedule=step --arch=sm_90a --device=cuda --check --random B=1,T=330 %s
func.func @f(%arg0: tensor<?x?x2x128xbf16> {ejk.name="q"}, %arg1: tensor<?x?x2x128xbf16> {ejk.name="k"}, %arg2: tensor<?x?x2x128xbf16> {ejk.name="v"}, %arg3: tensor<?x?x2xf32> {ejk.log_decay, ejk.name="g"}) -> (tensor<?x?x2x128xbf16> {ejk.name="o"}, tensor<?x2x128x128xf32> {ejk.name="ht"}) {
    %outputs_0, %final_states_1 = tile.program chunk 64 slices 1 sequences(%arg0, %arg1, %arg2, %arg3 : tensor<?x?x2x128xbf16>, tensor<?x?x2x128xbf16>, tensor<?x?x2x128xbf16>, tensor<?x?x2xf32>) outputs(tensor<?x?x2x128xbf16>) finals(tensor<?x2x128x128xf32>) attributes {tile.warpgroups, tile.warps = 8 : i64} {
    ^bb0(%arg4: !tile.rows<vector<128xbf16>>, %arg5: !tile.rows<vector<128xbf16>>, %arg6: !tile.rows<vector<128xbf16>>, %arg7: !tile.rows<f32>, %arg8: !tile.rows<vector<128xbf16>>, %arg9: !tile.slots<vector<128x128xf32>>, %arg10: index, %arg11: index, %arg12: index, %arg13: index):
      %cst = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<0.000000e+00> : vector<64x64xf32>
      %cst_2 = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<-3.500000e+00> : vector<64xf32>
      %cst_3 = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<0.000000e+00> : vector<64x128xf32>
      %cst_4 = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<1.44269502> : vector<64xf32>
      %cst_5 = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<-1.040000e+02> : vector<64xf32>
      %cst_6 = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<0.000000e+00> : vector<128x128xf32>
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c64 = arith.constant 64 : index
      %2 = arith.ceildivui %arg10, %c64 : index
      %3 = tile.convert %cst_6 to <transposed_fragments over 8 by 1> : vector<128x128xf32>
      %4 = tile.make_ring : <3 of vector<64xf32>, vector<64x128xbf16>, vector<64x128xbf16>, vector<64x128xbf16>>
      %c0_7 = arith.constant 0 : index
      %5 = arith.muli %c0, %c64 : index
      tile.acquire %4[%c0] : <3 of vector<64xf32>, vector<64x128xbf16>, vector<64x128xbf16>, vector<64x128xbf16>>
      tile.fill %4[%c0] from(%arg7, %arg5, %arg6, %arg4) at(%5, %5, %5, %5) channels(%c0, %c0, %c0, %c0) : <3 of vector<64xf32>, vector<64x128xbf16>, vector<64x128xbf16>, vector<64x128xbf16>>, !tile.rows<f32>, !tile.rows<vector<128xbf16>>, !tile.rows<vector<128xbf16>>, !tile.rows<vector<128xbf16>>
      %c1_8 = arith.constant 1 : index
      %c1_9 = arith.constant 1 : index
      %6 = arith.muli %c1_9, %c64 : index
      tile.acquire %4[%c1_9] : <3 of vector<64xf32>, vector<64x128xbf16>, vector<64x128xbf16>, vector<64x128xbf16>>
      tile.fill %4[%c1_9] from(%arg7, %arg5, %arg6, %arg4) at(%6, %6, %6, %6) channels(%c0, %c0, %c0, %c0) : <3 of vector<64xf32>, vector<64x128xbf16>, vector<64x128xbf16>, vector<64x128xbf16>>, !tile.rows<f32>, !tile.rows<vector<128xbf16>>, !tile.rows<vector<128xbf16>>, !tile.rows<vector<128xbf16>>
      %c0_10 = arith.constant 0 : index
      %7:4 = tile.take %4[%c0_10] {tile.layouts = [#tile.layout<shared>, #tile.layout<swizzled>, #tile.layout<swizzled>, #tile.layout<swizzled>]} : <3 of vector<64xf32>, vector<64x128xbf16>, vector<64x128xbf16>, vector<64x128xbf16>> -> vector<64xf32>, vector<64x128xbf16>, vector<64x128xbf16>, vector<64x128xbf16>
      %8 = tile.dot %7#3, %7#1 transposed, %cst {tile.layouts = [#tile.layout<fragments over 4 by 2>]} : vector<64x128xbf16>, vector<64x128xbf16>, vector<64x64xf32>
      %cst_11 = arith.constant {tile.layouts = [#tile.layout<uniform>]} dense<0.000000e+00> : vector<64x128xbf16>
      %9 = tile.convert %cst_11 to <swizzled> : vector<64x128xbf16>
      %10:4 = scf.for %arg14 = %c0 to %2 step %c1 iter_args(%arg15 = %3, %arg16 = %8, %arg17 = %9, %arg18 = %arg10) -> (vector<128x128xf32>, vector<64x64xf32>, vector<64x128xbf16>, index) {
        %11:4 = tile.take held %4[%arg14] {tile.layouts = [#tile.layout<shared>, #tile.layout<swizzled>, #tile.layout<swizzled>, #tile.layout<swizzled>]} : <3 of vector<64xf32>, vector<64x128xbf16>, vector<64x128xbf16>, vector<64x128xbf16>> -> vector<64xf32>, vector<64x128xbf16>, vector<64x128xbf16>, vector<64x128xbf16>
        %12 = arith.muli %arg14, %c64 : index
        %13 = tile.convert %11#0 to <lanes> : vector<64xf32>
        %14 = arith.truncf %arg15 {tile.layouts = [#tile.layout<transposed_fragments over 8 by 1>]} : vector<128x128xf32> to vector<128x128xbf16>
        %15 = tile.dot %11#3, %14, %cst_3 {tile.layouts = [#tile.layout<transposed_fragments over 8 by 1>]} : vector<64x128xbf16>, vector<128x128xbf16>, vector<64x128xf32>
        %c2 = arith.constant 2 : index
        %16 = arith.addi %arg14, %c2 : index
        %17 = arith.muli %16, %c64 : index
        %18 = arith.maximumf %13, %cst_5 {tile.layouts = [#tile.layout<lanes>]} : vector<64xf32>
        %19 = arith.mulf %18, %cst_4 {tile.layouts = [#tile.layout<lanes>]} : vector<64xf32>
        %20 = tile.cumsum %19 {tile.layouts = [#tile.layout<lanes>]} : vector<64xf32>
        %21 = arith.addf %20, %cst_2 {tile.layouts = [#tile.layout<lanes>]} : vector<64xf32>
        %22 = math.exp2 %21 {tile.layouts = [#tile.layout<lanes>]} : vector<64xf32>
        %23 = tile.broadcast %21 along 0 {tile.layouts = [#tile.layout<fragments over 4 by 2>]} : vector<64xf32> -> vector<64x64xf32>
        %24 = tile.broadcast %20 along 1 {tile.layouts = [#tile.layout<fragments over 4 by 2>]} : vector<64xf32> -> vector<64x64xf32>
        %25 = arith.subf %23, %24 {tile.layouts = [#tile.layout<fragments over 4 by 2>]} : vector<64x64xf32>
        %26 = tile.mask lower %25 else 0xFF800000 {tile.layouts = [#tile.layout<fragments over 4 by 2>]} : vector<64x64xf32>
        %27 = math.exp2 %26 {tile.layouts = [#tile.layout<fragments over 4 by 2>]} : vector<64x64xf32>
        %28 = tile.broadcast %22 along 0 {tile.layouts = [#tile.layout<transposed_fragments over 8 by 1>]} : vector<64xf32> -> vector<64x128xf32>
        %29 = arith.mulf %15, %28 {tile.layouts = [#tile.layout<transposed_fragments over 8 by 1>]} : vector<64x128xf32>
        %x1 = tile.convert %29 to <transposed_fragments over 4 by 2> : vector<64x128xf32>
        %x2 = tile.convert %x1 to <transposed_fragments over 8 by 1> : vector<64x128xf32>
        %30 = arith.mulf %arg16, %27 {tile.layouts = [#tile.layout<fragments over 4 by 2>]} : vector<64x64xf32>
        %31 = arith.truncf %30 {tile.layouts = [#tile.layout<fragments over 4 by 2>]} : vector<64x64xf32> to vector<64x64xbf16>
        %32 = tile.convert %31 to <swizzled> : vector<64x64xbf16>
        %33 = vector.extract %20[63] : f32 from vector<64xf32>
        %34 = math.exp2 %33 : f32
        %35 = vector.broadcast %34 {tile.layouts = [#tile.layout<uniform>]} : f32 to vector<128x128xf32>
        %36 = arith.mulf %arg15, %35 {tile.layouts = [#tile.layout<transposed_fragments over 8 by 1>]} : vector<128x128xf32>
        %37 = vector.broadcast %33 {tile.layouts = [#tile.layout<uniform>]} : f32 to vector<64xf32>
        %38 = arith.subf %37, %20 {tile.layouts = [#tile.layout<lanes>]} : vector<64xf32>
        %39 = math.exp2 %38 {tile.layouts = [#tile.layout<lanes>]} : vector<64xf32>
        %40 = tile.dot %32, %11#2, %x2 {tile.layouts = [#tile.layout<transposed_fragments over 8 by 1>]} : vector<64x64xbf16>, vector<64x128xbf16>, vector<64x128xf32>
        tile.store %arg17, %arg8[%arg18, %c0] : vector<64x128xbf16>, <vector<128xbf16>>
        %41 = tile.convert %11#2 to <transposed_fragments over 8 by 1> : vector<64x128xbf16>
        %42 = arith.extf %41 {tile.layouts = [#tile.layout<transposed_fragments over 8 by 1>]} : vector<64x128xbf16> to vector<64x128xf32>
        %43 = tile.broadcast %39 along 0 {tile.layouts = [#tile.layout<transposed_fragments over 8 by 1>]} : vector<64xf32> -> vector<64x128xf32>
        %44 = arith.mulf %42, %43 {tile.layouts = [#tile.layout<transposed_fragments over 8 by 1>]} : vector<64x128xf32>
        %45 = arith.truncf %44 {tile.layouts = [#tile.layout<transposed_fragments over 8 by 1>]} : vector<64x128xf32> to vector<64x128xbf16>
        %46 = tile.dot %11#1 transposed, %45, %36 {tile.layouts = [#tile.layout<transposed_fragments over 8 by 1>]} : vector<64x128xbf16>, vector<64x128xbf16>, vector<128x128xf32>
        %c1_12 = arith.constant 1 : index
        %47 = arith.addi %arg14, %c1_12 : index
        %48:4 = tile.take %4[%47] {tile.layouts = [#tile.layout<shared>, #tile.layout<swizzled>, #tile.layout<swizzled>, #tile.layout<swizzled>]} : <3 of vector<64xf32>, vector<64x128xbf16>, vector<64x128xbf16>, vector<64x128xbf16>> -> vector<64xf32>, vector<64x128xbf16>, vector<64x128xbf16>, vector<64x128xbf16>
        tile.acquire %4[%16] : <3 of vector<64xf32>, vector<64x128xbf16>, vector<64x128xbf16>, vector<64x128xbf16>>
        tile.fill %4[%16] from(%arg7, %arg5, %arg6, %arg4) at(%17, %17, %17, %17) channels(%c0, %c0, %c0, %c0) : <3 of vector<64xf32>, vector<64x128xbf16>, vector<64x128xbf16>, vector<64x128xbf16>>, !tile.rows<f32>, !tile.rows<vector<128xbf16>>, !tile.rows<vector<128xbf16>>, !tile.rows<vector<128xbf16>>
        %49 = tile.dot %48#3, %48#1 transposed, %cst {tile.layouts = [#tile.layout<fragments over 4 by 2>]} : vector<64x128xbf16>, vector<64x128xbf16>, vector<64x64xf32>
        tile.release %4[%arg14] : <3 of vector<64xf32>, vector<64x128xbf16>, vector<64x128xbf16>, vector<64x128xbf16>>
        %50 = arith.truncf %40 {tile.layouts = [#tile.layout<transposed_fragments over 8 by 1>]} : vector<64x128xf32> to vector<64x128xbf16>
        %51 = tile.convert %50 to <swizzled> : vector<64x128xbf16>
        scf.yield %46, %49, %51, %12 : vector<128x128xf32>, vector<64x64xf32>, vector<64x128xbf16>, index
      } {tile.layouts = [#tile.layout<transposed_fragments over 8 by 1>, #tile.layout<fragments over 4 by 2>, #tile.layout<swizzled>, unit]}
      tile.store %10#2, %arg8[%10#3, %c0] : vector<64x128xbf16>, <vector<128xbf16>>
      tile.store_slot %10#0, %arg9[%c0] at(%c0, %c0) : vector<128x128xf32>, <vector<128x128xf32>>
      tile.end
    }
return %outputs_0, %final_states_1 : tensor<?x?x2x128xbf16>, tensor<?x2x128x128xf32>
}
