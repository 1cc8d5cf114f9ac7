// A load whose columns follow from the loop's counter is not issued ahead: the iteration that it
// would be issued for may not exist, and its columns are then past the row's last.
// RUN: ejk-fuzz-mlir %s --pipeline=ejk-specialize,ejk-to-gpu | count 0
module {
  func.func @reverse(%arg0: tensor<?x?x?x64xbf16>, %arg1: tensor<?x?x?x64xbf16>, %arg2: tensor<?x?x?x128xbf16>, %arg3: tensor<?x?x?x64xf32>, %arg4: tensor<?x?x64x128xf32>) -> (tensor<?x?x?x128xbf16> {ejk.name = "out0", ejk.shape = ["B", "T", "H", "128"]}, tensor<?x?x64x128xf32> {ejk.name = "out1", ejk.shape = ["B", "H", "64", "128"]}) attributes {ejk.constraints = [{divisor = "Hkv", message = "the heads of sequence 1, Hkv, must divide the query heads, H", size = "H"}, {divisor = "Hkv2", message = "the heads of sequence 2, Hkv2, must divide the query heads, H", size = "H"}, {divisor = "Hkv3", message = "the heads of sequence 3, Hkv3, must divide the query heads, H", size = "H"}]} {
    %outputs, %final_states = tile.program chunk 64 slices 1 sequences(%arg0, %arg1, %arg2, %arg3 : tensor<?x?x?x64xbf16>, tensor<?x?x?x64xbf16>, tensor<?x?x?x128xbf16>, tensor<?x?x?x64xf32>) initial(%arg4 : tensor<?x?x64x128xf32>) outputs(tensor<?x?x?x128xbf16>) finals(tensor<?x?x64x128xf32>) {
    ^bb0(%arg5: !tile.rows<vector<64xbf16>>, %arg6: !tile.rows<vector<64xbf16>>, %arg7: !tile.rows<vector<128xbf16>>, %arg8: !tile.rows<vector<64xf32>>, %arg9: !tile.slots<vector<64x128xf32>>, %arg10: !tile.rows<vector<128xbf16>>, %arg11: !tile.slots<vector<64x128xf32>>, %arg12: index, %arg13: index, %arg14: index, %arg15: index):
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c64 = arith.constant 64 : index
      %cst = arith.constant dense<1.250000e-01> : vector<64x128xf32>
      %cst_0 = arith.constant dense<0.000000e+00> : vector<64x64xf32>
      %cst_1 = arith.constant dense<0.000000e+00> : vector<64x128xf32>
      %0 = arith.ceildivui %arg12, %c64 : index
      %1 = tile.load_slot %arg9[%c0] at(%c0, %c0) : <vector<64x128xf32>> -> vector<64x128xf32>
      %2 = scf.for %arg16 = %c0 to %0 step %c1 iter_args(%arg17 = %1) -> (vector<64x128xf32>) {
        %3 = arith.subi %0, %c1 : index
        %4 = arith.subi %3, %arg16 : index
        %5 = arith.muli %4, %c64 : index
        %6 = tile.load %arg5[%5, %c0] : <vector<64xbf16>> -> vector<64x64xbf16>
        %7 = tile.load %arg6[%5, %5] : <vector<64xbf16>> -> vector<64x64xbf16>
        %8 = tile.load %arg7[%5, %c0] : <vector<128xbf16>> -> vector<64x128xbf16>
        %9 = tile.load %arg8[%5, %c0] : <vector<64xf32>> -> vector<64x64xf32>
        %10 = tile.cumsum reverse %9 : vector<64x64xf32>
        %11 = arith.extf %6 : vector<64x64xbf16> to vector<64x64xf32>
        %12 = arith.extf %7 : vector<64x64xbf16> to vector<64x64xf32>
        %13 = vector.extract %10[31] : vector<64xf32> from vector<64x64xf32>
        %14 = tile.broadcast %13 along 1 : vector<64xf32> -> vector<64x64xf32>
        %15 = arith.subf %10, %14 : vector<64x64xf32>
        %16 = math.exp %15 : vector<64x64xf32>
        %17 = arith.mulf %11, %16 : vector<64x64xf32>
        %18 = arith.truncf %17 : vector<64x64xf32> to vector<64x64xbf16>
        %19 = arith.subf %14, %10 : vector<64x64xf32>
        %20 = math.exp %19 : vector<64x64xf32>
        %21 = arith.mulf %12, %20 : vector<64x64xf32>
        %22 = arith.truncf %21 : vector<64x64xf32> to vector<64x64xbf16>
        %23 = tile.dot %18, %22 transposed, %cst_0 : vector<64x64xbf16>, vector<64x64xbf16>, vector<64x64xf32>
        %24 = tile.mask upper %23 else 0.000000e+00 : vector<64x64xf32>
        %25 = math.exp %10 : vector<64x64xf32>
        %26 = arith.mulf %11, %25 : vector<64x64xf32>
        %27 = arith.truncf %26 : vector<64x64xf32> to vector<64x64xbf16>
        %28 = arith.truncf %arg17 : vector<64x128xf32> to vector<64x128xbf16>
        %29 = tile.dot %27, %28, %cst_1 : vector<64x64xbf16>, vector<64x128xbf16>, vector<64x128xf32>
        %30 = vector.extract %10[0] : vector<64xf32> from vector<64x64xf32>
        %31 = tile.broadcast %30 along 1 : vector<64xf32> -> vector<64x64xf32>
        %32 = arith.subf %31, %10 : vector<64x64xf32>
        %33 = math.exp %32 : vector<64x64xf32>
        %34 = arith.mulf %12, %33 : vector<64x64xf32>
        %35 = arith.truncf %34 : vector<64x64xf32> to vector<64x64xbf16>
        %36 = math.exp %30 : vector<64xf32>
        %37 = tile.broadcast %36 along 0 : vector<64xf32> -> vector<64x128xf32>
        %38 = arith.mulf %arg17, %37 : vector<64x128xf32>
        %39 = arith.truncf %24 : vector<64x64xf32> to vector<64x64xbf16>
        %40 = tile.dot %39, %8, %29 : vector<64x64xbf16>, vector<64x128xbf16>, vector<64x128xf32>
        %41 = arith.mulf %40, %cst : vector<64x128xf32>
        %42 = arith.truncf %41 : vector<64x128xf32> to vector<64x128xbf16>
        tile.store %42, %arg10[%5, %c0] : vector<64x128xbf16>, <vector<128xbf16>>
        %43 = tile.dot %35 transposed, %8, %38 : vector<64x64xbf16>, vector<64x128xbf16>, vector<64x128xf32>
        scf.yield %43 : vector<64x128xf32>
      }
      tile.store_slot %2, %arg11[%c0] at(%c0, %c0) : vector<64x128xf32>, <vector<64x128xf32>>
      tile.end
    }
    return %outputs, %final_states : tensor<?x?x?x128xbf16>, tensor<?x?x64x128xf32>
  }
}
