//===- UnusedRows.cpp - rows after the last offset ------------------------===//

#include "UnusedRows.h"

#include <algorithm>

using namespace ejk;

static constexpr unsigned threads = 256;

// The offsets lie in the GPU's memory, so a kernel reads the last one. LLVM 22 compiled this from
//
//   row = min(max(*offset, 0), total);   // the offset is the caller's
//   for (i = row * row_bytes + thread * width; i < total * row_bytes; i += threads * width)
//     *(output + i) = 0;                 // width: 16 bytes where rows are such multiples, else 2
static const char *const ptx = R"(.version 7.4
.target sm_80
.address_size 64
.visible .entry ejk_zero_rows(.param .u64 output, .param .u64 offset, .param .u32 is_wide,
                              .param .u64 total, .param .u64 row_bytes)
{
  .reg .pred %p<7>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<21>;
  ld.param.b64 %rd10, [row_bytes];
  ld.param.b64 %rd9, [total];
  ld.param.b64 %rd8, [offset];
  ld.param.b32 %r1, [is_wide];
  setp.eq.b32 %p1, %r1, 0;
  @%p1 bra $narrow;
  ld.global.b64 %rd18, [%rd8];
  bra.uni $read;
$narrow:
  ld.global.s32 %rd18, [%rd8];
$read:
  ld.param.b64 %rd7, [output];
  max.s64 %rd11, %rd18, 0;
  min.s64 %rd12, %rd11, %rd9;
  mul.lo.s64 %rd1, %rd12, %rd10;
  mul.lo.s64 %rd2, %rd9, %rd10;
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %ctaid.x;
  mov.u32 %r5, %nctaid.x;
  mad.lo.s32 %r6, %r4, %r3, %r2;
  cvt.u64.u32 %rd3, %r6;
  mul.lo.s32 %r7, %r5, %r3;
  cvt.u64.u32 %rd4, %r7;
  and.b64 %rd13, %rd10, 15;
  setp.ne.b64 %p2, %rd13, 0;
  @%p2 bra $two;
  shl.b64 %rd16, %rd3, 4;
  add.s64 %rd19, %rd1, %rd16;
  setp.ge.s64 %p5, %rd19, %rd2;
  @%p5 bra $end;
  shl.b64 %rd5, %rd4, 4;
$sixteen_more:
  add.s64 %rd17, %rd7, %rd19;
  st.global.v4.b32 [%rd17], {0, 0, 0, 0};
  add.s64 %rd19, %rd19, %rd5;
  setp.lt.s64 %p6, %rd19, %rd2;
  @%p6 bra $sixteen_more;
  bra.uni $end;
$two:
  shl.b64 %rd14, %rd3, 1;
  add.s64 %rd20, %rd1, %rd14;
  setp.ge.s64 %p3, %rd20, %rd2;
  @%p3 bra $end;
  shl.b64 %rd6, %rd4, 1;
$two_more:
  add.s64 %rd15, %rd7, %rd20;
  st.global.b16 [%rd15], 0;
  add.s64 %rd20, %rd20, %rd6;
  setp.lt.s64 %p4, %rd20, %rd2;
  @%p4 bra $two_more;
$end:
  ret;
}
)";

static int findOffsets(const Entry &entry) {
  for (size_t i = 0; i < entry.inputs.size(); ++i)
    if (entry.inputs[i].role == cuSeqlensRole)
      return int(i);
  return -1;
}

bool ejk::takesOffsets(const Entry &entry) { return findOffsets(entry) >= 0; }

ejk_error *ejk::checkUnusedRows(const Entry &entry) {
  const TensorSpec *first = nullptr;
  for (const TensorSpec &spec : entry.inputs) {
    if (spec.role != cuSeqlensRole)
      continue;
    if (!spec.total.usesSymbolFrom(0))
      return makeError(ErrorCode::InvalidArgument,
                       "zero_unused_rows: entry '" + entry.name + "' has a fixed number of rows");
    if (first)
      return makeError(ErrorCode::InvalidArgument,
                       "zero_unused_rows: entry '" + entry.name + "' takes offsets twice, '" +
                           first->name + "' and '" + spec.name + "'");
    first = &spec;
  }
  return nullptr;
}

namespace {
/// An output's rows.
struct PackedRows {
  char *data;
  size_t bytes; ///< of one
};
} // namespace

/// Calls `body(rows)` for each output with a row for each of `total` steps.
template <typename Body>
static ejk_error *forEachPacked(const Entry &entry, TensorList outputs, const Expr &total,
                                Body body) {
  for (size_t o = 0; o < outputs.count; ++o) {
    const std::vector<Dim> &dims = entry.outputs[o].dims;
    const DLTensor &tensor = *outputs.tensors[o];
    if (dims.size() < 2 || dims[1].expr.text() != total.text())
      continue;
    size_t bytes = tensor.dtype.bits / 8;
    for (int32_t d = 2; d < tensor.ndim; ++d)
      bytes *= size_t(tensor.shape[d]);
    if (bytes != 0)
      if (ejk_error *error = body({static_cast<char *>(tensor.data) + tensor.byte_offset, bytes}))
        return error;
  }
  return nullptr;
}

static int64_t totalRows(const TensorSpec &spec, const Symbols &symbols) {
  int64_t total = 0;
  spec.total.evaluate(symbols.values, total); // the plan's shapes have been evaluated with it
  return total;
}

static const char *lastOffset(const TensorSpec &spec, const DLTensor &tensor) {
  int64_t size = spec.dtype == DataType::I32 ? 4 : 8;
  return static_cast<const char *>(tensor.data) + tensor.byte_offset +
         (tensor.shape[0] - 1) * size;
}

void ejk::zeroUnusedRows(const Entry &entry, const CallArguments &arguments,
                         const Symbols &symbols) {
  int input = findOffsets(entry);
  if (input < 0)
    return;
  const TensorSpec &spec = entry.inputs[size_t(input)];
  const char *place = lastOffset(spec, *arguments.inputs.tensors[input]);
  int64_t total = totalRows(spec, symbols), last = 0;
  if (spec.dtype == DataType::I32) {
    int32_t narrow;
    std::memcpy(&narrow, place, sizeof narrow);
    last = narrow;
  } else {
    std::memcpy(&last, place, sizeof last);
  }
  if (last < total)
    forEachPacked(entry, arguments.outputs, spec.total, [&](PackedRows rows) -> ejk_error * {
      std::memset(rows.data + size_t(last) * rows.bytes, 0, size_t(total - last) * rows.bytes);
      return nullptr;
    });
}

Error ejk::loadUnusedRows(ejk_executable &executable) {
  const std::vector<Entry> &entries = executable.package->manifest.entries;
  if (std::none_of(entries.begin(), entries.end(), takesOffsets))
    return {};
  const Driver &driver = *executable.driver;
  if (CUresult r = driver.moduleLoadDataEx(&executable.rowsModule, ptx, 0, nullptr, nullptr))
    return driver.error("cuModuleLoadDataEx", r);
  if (CUresult r =
          driver.moduleGetFunction(&executable.zeroRows, executable.rowsModule, "ejk_zero_rows"))
    return driver.error("cuModuleGetFunction", r);
  return {};
}

ejk_error *ejk::enqueueUnusedRows(const Entry &entry, const CallArguments &arguments,
                                  const Symbols &symbols, void *stream) {
  int input = findOffsets(entry);
  if (input < 0)
    return nullptr;
  const ejk_executable &executable = *arguments.executable;
  const Driver &driver = *executable.driver;
  const TensorSpec &spec = entry.inputs[size_t(input)];
  uint64_t offset = reinterpret_cast<uint64_t>(lastOffset(spec, *arguments.inputs.tensors[input]));
  uint64_t total = uint64_t(totalRows(spec, symbols));
  uint32_t isWide = spec.dtype != DataType::I32;
  return forEachPacked(
      entry, arguments.outputs, spec.total, [&](PackedRows rows) -> ejk_error * {
        uint64_t output = reinterpret_cast<uint64_t>(rows.data), bytes = rows.bytes;
        void *params[] = {&output, &offset, &isWide, &total, &bytes};
        // Most calls have no such rows, so there are never more blocks than run at once.
        uint64_t blocks = total * bytes / (16 * threads) + 1;
        CUresult result = driver.launchKernel(
            executable.zeroRows,
            unsigned(std::min(blocks, uint64_t(std::max<int64_t>(executable.facts[1], 1)))), 1, 1,
            threads, 1, 1, 0, static_cast<CUstream>(stream), params, nullptr);
        return result == cudaSuccess ? nullptr
                                     : makeError(driver.error("cuLaunchKernel", result));
      });
}
