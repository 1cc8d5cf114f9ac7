//===- Shifts.cpp - rows of other steps -----------------------------------===//
#include "dialect/reference/Shifts.h"

using namespace mlir;
using namespace ejk;
using namespace ejk::reference;

namespace {
/// The rows of a shift or of last_rows, whose sizes agree.
struct ShiftedRows {
  const Tensor *rows = nullptr, *halo = nullptr;
  std::vector<Span> spans;
  size_t rowSize = 1; // the elements of a row
};
} // namespace

template <typename Op>
static FailureOr<ShiftedRows> readRows(Op op, Operands operands) {
  ShiftedRows in;
  in.rows = operands[0];
  if (op.getHalo())
    in.halo = operands[1];
  const Tensor *cu = op.getCuSeqlens() ? operands.back() : nullptr;
  ArrayRef<int64_t> shape = in.rows->shape;
  FailureOr<std::vector<Span>> spans = sequenceSpans(op, cu, shape[0], shape[1]);
  if (failed(spans))
    return failure();
  in.spans = std::move(*spans);
  SizeCheck sizes(op);
  SmallVector<StringRef> letters = {"B", "T", "H", "C"};
  letters.resize(shape.size());
  if (failed(sizes.check(*in.rows, "rows", letters)))
    return failure();
  sizes.bind("N", in.spans.size(), cu ? "'cu_seqlens'" : "the batch");
  letters[0] = "N", letters[1] = "R";
  if (in.halo && failed(sizes.check(*in.halo, "halo", letters)))
    return failure();
  for (int64_t size : shape.drop_front(2))
    in.rowSize *= size;
  return in;
}

/// Copies row `position` of sequence `n`, counted from its first, to `to`; nothing where neither the
/// sequence nor its halo has it.
static void copyRow(const ShiftedRows &in, size_t n, int64_t position, bool zeros, double *to) {
  const Span &span = in.spans[n];
  int64_t length = span.end - span.begin, R = in.halo ? in.halo->shape[1] : 0;
  auto copy = [&](const Tensor &from, int64_t row) {
    std::copy_n(from.floats.data() + row * in.rowSize, in.rowSize, to);
  };
  if (position >= 0 && position < length) {
    if (!zeros)
      copy(*in.rows, span.batch * in.rows->shape[1] + span.begin + position);
  } else if (int64_t inHalo = position < 0 ? R + position : position - length;
             inHalo >= 0 && inHalo < R) {
    copy(*in.halo, n * R + inHalo);
  }
}

LogicalResult ejk::reference::interpretShift(ShiftOp op, Operands operands, Results &results) {
  FailureOr<ShiftedRows> in = readRows(op, operands);
  if (failed(in) || failed(addResult(op, op.getType(), in->rows->shape, results)))
    return failure();
  double *to = results.back().floats.data();
  int64_t by = op.getBy();
  for (auto [n, span] : llvm::enumerate(in->spans))
    for (int64_t t = span.begin; t < span.end; ++t)
      copyRow(*in, n, t - span.begin - by, op.getZeros(),
              to + (span.batch * in->rows->shape[1] + t) * in->rowSize);
  return success();
}

LogicalResult ejk::reference::interpretLastRows(LastRowsOp op, Operands operands,
                                                Results &results) {
  FailureOr<ShiftedRows> in = readRows(op, operands);
  if (failed(in))
    return failure();
  int64_t R = op.getType().getDimSize(1), beyond = op.getBeyond();
  SmallVector<int64_t> shape(in->rows->shape);
  shape[0] = in->spans.size(), shape[1] = R;
  if (failed(addResult(op, op.getType(), shape, results)))
    return failure();
  double *to = results.back().floats.data();
  for (auto [n, span] : llvm::enumerate(in->spans)) {
    int64_t from = op.getReverse() ? -beyond : span.end - span.begin - R + beyond;
    for (int64_t j = 0; j < R; ++j)
      copyRow(*in, n, from + j, op.getZeros(), to + (n * R + j) * in->rowSize);
  }
  return success();
}
