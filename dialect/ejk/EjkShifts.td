//===- EjkShifts.td - rows of other steps -----------------------*- tablegen -*-===//
#ifndef EJK_DIALECT_EJK_EJKSHIFTS_TD
#define EJK_DIALECT_EJK_EJKSHIFTS_TD

include "dialect/ejk/Ejk.td"

def Ejk_ShiftOp : Ejk_BaseOp<"shift", [
    Pure, AttrSizedOperandSegments, AllTypesMatch<["rows", "result"]>]> {
  let opDocGroup = Ejk_Scans;
  let summary = "each step's row of an earlier or later step";
  let description = [{
    Row t of a sequence's result is its row t − s, where s is `by`: with s above 0 the row s steps
    earlier, with s below 0 the row −s steps later. Rows beyond the sequence's first or last one are
    rows of `halo`, or zero without it. A sequence of L rows with a halo of R rows gives

    ```
    s > 0:  result[t] = t − s ≥ 0 ? rows[t − s] : halo[R + t − s]
    s < 0:  result[t] = t − s < L ? rows[t − s] : halo[t − s − L]
    ```

    so that the halo's rows are in the order of memory, too: its last row is the sequence's
    predecessor, or its first row the sequence's successor. With `zeros`, every row counts as
    zero, and nothing of `rows` matters but its sizes.

    With `cu_seqlens`, no row crosses from one packed sequence to another. Rows that belong to no
    sequence are zero in the interpreter and mean nothing in a kernel's results.

    A scan loads its sequences where they lie: a shift that only scans use has no kernel and no
    memory of its own.

    Example, the sum of a short causal convolution of width 2:

    ```mlir
    %earlier = ejk.shift %x by 1 : tensor<?x?x?x64xbf16>
    %o = ejk.scan sequences(%xt = %x : tensor<?x?x?x64xbf16>, %et = %earlier : tensor<?x?x?x64xbf16>)
        -> (tensor<?x?x?x64xbf16>) {
      %ot = arith.addf %xt, %et : vector<64xbf16>
      ejk.yield outputs(%ot : vector<64xbf16>)
    }
    ```

    Constraints:
    - C1: rows are [B,T,H] or [B,T,H,C], with static C from 1 to 512.
    - C2: `by` is not 0, and from −2³⁰ to 2³⁰.
    - C3: the halo is [N,R,H] or [N,R,H,C], in the rows' element type, with static R, at least
      as many as `by` steps.
    - C4: cu_seqlens is [N+1], i32 or i64, and B is 1.
  }];
  let arguments = (ins Ejk_Tensor:$rows, I64Attr:$by, Optional<Ejk_Tensor>:$halo,
                       Optional<Ejk_Offsets>:$cu_seqlens, UnitAttr:$zeros);
  let results = (outs Ejk_Tensor:$result);
  let assemblyFormat = [{
    (`zeros` $zeros^)? $rows `by` $by (`halo` `(` $halo^ `:` type($halo) `)`)?
    (`cu_seqlens` `(` $cu_seqlens^ `:` type($cu_seqlens) `)`)? attr-dict `:` type($rows)
  }];
  let hasVerifier = 1;
}

def Ejk_LastRowsOp : Ejk_BaseOp<"last_rows", [Pure, AttrSizedOperandSegments]> {
  let opDocGroup = Ejk_Scans;
  let summary = "the last rows of each sequence";
  let description = [{
    The last R rows of each sequence, in the order of memory; with `reverse` its first R rows. A
    sequence with fewer rows is continued by the rows of `halo`, or by zeros without it. A sequence of
    L rows gives

    ```
    from = L − R, or 0 with reverse
    result[j] = rows[from + j]           where 0 ≤ from + j < L
              = halo[R + from + j]       where from + j < 0
              = halo[from + j − L]       where from + j ≥ L
    ```

    What a call of `ejk.shift` needs as its halo to go on where this one ends. With `beyond` b the
    window lies b rows further on: `from` is L − R + b, or −b with `reverse`, and rows that the
    sequence does not have are zero. With `zeros`, every row counts as zero.

    Example:

    ```mlir
    %last = ejk.last_rows %x halo(%first : tensor<?x3x?x64xbf16>)
        : tensor<?x?x?x64xbf16> -> tensor<?x3x?x64xbf16>
    ```

    Constraints:
    - C1: rows are [B,T,H] or [B,T,H,C], with static C from 1 to 512.
    - C2: the result is [N,R,H] or [N,R,H,C], in the rows' element type, with static R of 1 or more.
    - C3: the halo has the result's type.
    - C4: cu_seqlens is [N+1], i32 or i64, and B is 1.
    - C5: `beyond` is from 0 to R − 1, and 0 with a halo.
  }];
  let arguments = (ins Ejk_Tensor:$rows, Optional<Ejk_Tensor>:$halo,
                       Optional<Ejk_Offsets>:$cu_seqlens, UnitAttr:$reverse,
                       DefaultValuedAttr<I64Attr, "0">:$beyond, UnitAttr:$zeros);
  let results = (outs Ejk_Tensor:$result);
  let assemblyFormat = [{
    (`reverse` $reverse^)? (`zeros` $zeros^)? $rows (`beyond` $beyond^)?
    (`halo` `(` $halo^ `:` type($halo) `)`)?
    (`cu_seqlens` `(` $cu_seqlens^ `:` type($cu_seqlens) `)`)? attr-dict `:` type($rows)
    `->` type($result)
  }];
  let hasVerifier = 1;
}

#endif // EJK_DIALECT_EJK_EJKSHIFTS_TD
