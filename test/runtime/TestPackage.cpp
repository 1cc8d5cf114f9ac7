//===- TestPackage.cpp - packages, tensors and errors for tests -----------===//

#include "TestPackage.h"

using namespace ejk;
using nlohmann::json;

json test::glaManifest() {
  return json::parse(R"({
    "producer": "test", "arch": "sm_90",
    "entries": [{
      "name": "gla",
      "inputs": [
        {"name": "q", "dtype": "bf16", "shape": ["B", "T", "H", 128], "align": 16},
        {"name": "k", "dtype": "bf16", "shape": ["B", "T", "Hkv", 128], "align": 16, "role": "key"},
        {"name": "v", "dtype": "bf16", "shape": ["B", "T", "Hkv", 64], "align": 16},
        {"name": "g", "dtype": "f32", "shape": ["B", "T", "H", 128], "align": 16,
         "role": "log_decay"},
        {"name": "cu_seqlens", "dtype": "i32", "shape": [["+", "N", 1]],
         "align": 4, "role": "cu_seqlens", "total": "T"},
        {"name": "h0", "dtype": "f32", "shape": ["N", "H", 128, 64], "align": 16}],
      "outputs": [
        {"name": "o", "dtype": "bf16", "shape": ["B", "T", "H", 64], "align": 16},
        {"name": "ht", "dtype": "f32", "shape": ["N", "H", 128, 64], "align": 16,
         "may_alias": 5}],
      "constraints": [
        {"expr": ["mod", "H", "Hkv"], "equals": 0,
         "message": "the key/value head count Hkv must divide the query head count H"},
        {"expr": "B", "equals": 1,
         "message": "packed sequences need a batch of B = 1"}],
      "workspace": [
        {"name": "sums", "bytes": ["*", ["*", "B", "T"], 4]},
        {"name": "states", "bytes": ["*", "N", 100]}],
      "launches": [
        {"kernel": "prepare_a2", "block": [256, 1, 1], "shared_bytes": 0,
         "grid": ["ceildiv", "T", 100], "args": [{"input": 3}, {"workspace": 0}]},
        {"kernel": "scan_a6", "block": [128, 1, 1], "shared_bytes": 65536,
         "grid": ["*", ["*", "N", "H"], 2],
         "args": [{"input": 0}, {"output": 1}, {"workspace": 1}, {"i64": "T"},
                  {"i64": ["*", "B", "T"]}, {"i64": -1}]}]}]})");
}

json test::copyManifest(const std::string &kernel) {
  json manifest = json::parse(R"({
    "producer": "test", "arch": "sm_80",
    "entries": [{
      "name": "copy",
      "inputs": [{"name": "x", "dtype": "f32", "shape": ["R", 4], "align": 16}],
      "outputs": [{"name": "y", "dtype": "f32", "shape": ["R", 4], "align": 16,
                   "may_alias": 0}],
      "launches": [
        {"kernel": "", "block": [32, 1, 1], "shared_bytes": 0, "grid": "R",
         "args": [{"input": 0}, {"output": 0}, {"i64": ["*", "R", 16]}]}]}]})");
  manifest["entries"][0]["launches"][0]["kernel"] = kernel;
  return manifest;
}

json test::boxesManifest(const std::string &kernel) {
  json manifest = json::parse(R"({
    "producer": "test", "arch": "sm_90",
    "entries": [{
      "name": "copy_boxes",
      "inputs": [{"name": "x", "dtype": "f32", "shape": ["R", 32], "align": 16}],
      "outputs": [{"name": "y", "dtype": "f32", "shape": ["R", 32], "align": 16}],
      "launches": [
        {"kernel": "", "block": [64, 1, 1], "shared_bytes": 0, "grid": ["ceildiv", "R", 8],
         "args": [{"tensor_map": {"input": 0}, "dtype": "f32", "sizes": ["R", 32],
                   "strides": [32], "box": [8, 32]},
                  {"output": 0}, {"i64": "R"}]}]}]})");
  manifest["entries"][0]["launches"][0]["kernel"] = kernel;
  return manifest;
}

json test::exampleManifest() {
  return json::parse(R"({
    "producer": "test", "arch": "sm_80",
    "entries": [{
      "name": "gla",
      "inputs": [
        {"name": "q", "dtype": "bf16", "shape": ["B", "T", "H", 64], "align": 16},
        {"name": "k", "dtype": "bf16", "shape": ["B", "T", "Hkv", 64], "align": 16},
        {"name": "v", "dtype": "bf16", "shape": ["B", "T", "Hkv", 64], "align": 16},
        {"name": "g", "dtype": "f32", "shape": ["B", "T", "H", 64], "align": 16}],
      "outputs": [
        {"name": "o", "dtype": "bf16", "shape": ["B", "T", "H", 64], "align": 16},
        {"name": "ht", "dtype": "f32", "shape": ["B", "H", 64, 64], "align": 16}],
      "launches": [
        {"kernel": "fill_u16_a3", "block": [32, 1, 1], "shared_bytes": 0,
         "grid": "B", "args": [{"output": 0},
           {"i64": ["*", ["*", "B", "T"], ["*", "H", 64]]}, {"i64": 17152}]}]}]})");
}

json test::trainManifest() {
  json inputs = json::parse(R"([
    {"name": "c", "dtype": "f32", "shape": ["B", "T", "H", 64], "align": 16},
    {"name": "b", "dtype": "f32", "shape": ["B", "T", "H", 64], "align": 16},
    {"name": "x", "dtype": "f32", "shape": ["B", "T", "H", 32], "align": 16},
    {"name": "dt", "dtype": "f32", "shape": ["B", "T", "H"], "align": 16},
    {"name": "A", "dtype": "f32", "shape": ["H"], "align": 16},
    {"name": "bias", "dtype": "f32", "shape": ["H"], "align": 16}])");
  json results = json::parse(R"([
    {"name": "o", "dtype": "f32", "shape": ["B", "T", "H", 32], "align": 16},
    {"name": "ht", "dtype": "f32", "shape": ["B", "H", 64, 32], "align": 16}])");
  json manifest = json::parse(R"({
    "producer": "test", "arch": "sm_80",
    "entries": [
      {"name": "mamba2", "launches": [
        {"kernel": "offset_a6", "block": [32, 1, 1], "shared_bytes": 0, "grid": "B",
         "args": [{"input": 4}, {"input": 5}, {"output": 0},
                  {"i64": ["*", "B", "T"]}, {"i64": "H"}, {"i64": 32}]}]},
      {"name": "mamba2_vjp",
       "outputs": [{"name": "dA", "dtype": "f32", "shape": ["H"], "align": 16},
                   {"name": "dbias", "dtype": "f32", "shape": ["H"], "align": 16}],
       "workspace": [{"name": "sums", "bytes": ["*", "H", 4]}],
       "launches": [
        {"kernel": "offset_vjp_a6", "block": [32, 1, 1], "shared_bytes": 0, "grid": "B",
         "args": [{"input": 6}, {"output": 0}, {"output": 1},
                  {"i64": ["*", "B", "T"]}, {"i64": "H"}, {"i64": 32}]}]}]})");
  json &forward = manifest["entries"][0], &backward = manifest["entries"][1];
  forward["inputs"] = backward["inputs"] = inputs;
  forward["outputs"] = results;
  for (json result : results) {
    result["name"] = "d" + result["name"].get<std::string>();
    backward["inputs"].push_back(result);
  }
  return manifest;
}

std::string test::pack(const json &manifest) {
  return serializePackage(manifest,
                          {{Image::Kind::Ptx, "fake ptx"}, {Image::Kind::Cubin, "fake cubin"}});
}

std::string test::packRealCopy() {
  json manifest = copyManifest("copy_rows");
  json &launch = manifest["entries"][0]["launches"][0];
  launch["block"] = {256, 1, 1};
  launch["grid"] = {"ceildiv", "R", 256};
  // One thread copies one row of 16 bytes.
  return serializePackage(manifest, {{Image::Kind::Ptx, R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry copy_rows(.param .u64 from, .param .u64 to, .param .u64 bytes)
{
  .reg .b32 %r<4>;
  .reg .b64 %d<6>;
  .reg .f32 %f<4>;
  .reg .pred %p;
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.u32 %r3, %r0, %r1, %r2;
  mul.wide.u32 %d0, %r3, 16;
  ld.param.u64 %d1, [bytes];
  setp.ge.u64 %p, %d0, %d1;
  @%p ret;
  ld.param.u64 %d2, [from];
  ld.param.u64 %d3, [to];
  add.u64 %d4, %d2, %d0;
  add.u64 %d5, %d3, %d0;
  ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%d4];
  st.global.v4.f32 [%d5], {%f0, %f1, %f2, %f3};
  ret;
}
)"}});
}

std::string test::packRealBoxes() {
  // A block copies 8 rows; a thread, 16 bytes from where the swizzle put them.
  return serializePackage(boxesManifest("copy_boxes"), {{Image::Kind::Ptx, R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry copy_boxes(.param .align 64 .b8 from[128], .param .u64 to, .param .u64 rows)
{
  .reg .pred %p;
  .reg .b32 %thread, %tile, %bar, %row, %piece, %first, %zero, %v<4>;
  .reg .b64 %map, %to, %rows, %at;
  .shared .align 1024 .b8 memory[1032];
  mov.u32 %thread, %tid.x;
  mov.u32 %first, %ctaid.x;
  shl.b32 %first, %first, 3;
  mov.u32 %zero, 0;
  mov.u32 %tile, memory;
  add.s32 %bar, %tile, 1024;
  setp.ne.b32 %p, %thread, 0;
  @%p bra $ready;
  mbarrier.init.shared.b64 [%bar], 1;
  fence.mbarrier_init.release.cluster;
$ready:
  bar.sync 0;
  @%p bra $wait;
  mov.b64 %map, from;
  cvta.param.u64 %map, %map;
  mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 1024;
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%tile], [%map, {%zero, %first}], [%bar];
$wait:
  mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0;
  @!%p bra $wait;
  shr.u32 %row, %thread, 3;
  and.b32 %piece, %thread, 7;
  add.s32 %first, %first, %row;
  cvt.u64.u32 %at, %first;
  ld.param.u64 %rows, [rows];
  setp.ge.u64 %p, %at, %rows;
  @%p bra $end;
  xor.b32 %v0, %piece, %row;
  shl.b32 %v0, %v0, 4;
  shl.b32 %row, %row, 7;
  add.s32 %tile, %tile, %row;
  add.s32 %tile, %tile, %v0;
  shl.b32 %first, %first, 3;
  add.s32 %first, %first, %piece;
  mul.wide.u32 %at, %first, 16;
  ld.param.u64 %to, [to];
  add.s64 %to, %to, %at;
  ld.shared.v4.b32 {%v0, %v1, %v2, %v3}, [%tile];
  st.global.v4.b32 [%to], {%v0, %v1, %v2, %v3};
$end:
  ret;
}
)"}});
}

test::PackagePtr test::load(const std::string &bytes, std::string &message) {
  ejk_package *package = nullptr;
  message = take(ejk_package_load_memory(bytes.data(), bytes.size(), &package));
  return PackagePtr(package);
}

test::PackagePtr test::load(const json &manifest) {
  std::string message;
  return load(pack(manifest), message);
}

std::string test::take(ejk_error *error) {
  std::string message = ejk_error_message(error);
  ejk_error_destroy(error);
  return message;
}

test::GlaCall::GlaCall() {
  const std::vector<int64_t> valid[8] = {
      {1, 128, 4, 128}, {1, 128, 2, 128}, {1, 128, 2, 64}, {1, 128, 4, 128}, {4},
      {3, 4, 128, 64},  {1, 128, 4, 64},  {3, 4, 128, 64}};
  const DLDataType types[8] = {bf16, bf16, bf16, f32, i32, f32, bf16, f32};
  for (int i = 0; i < 8; ++i) {
    shapes[i] = valid[i];
    tensors[i] = {};
    tensors[i].data = reinterpret_cast<void *>(uintptr_t(i + 1) << 32);
    tensors[i].device = {kDLCUDA, 0};
    tensors[i].ndim = int(shapes[i].size());
    tensors[i].dtype = types[i];
    tensors[i].shape = shapes[i].data();
    (i < 6 ? inputs[i] : outputs[i - 6]) = &tensors[i];
  }
  params = {};
  params.struct_size = sizeof(params);
  params.inputs = inputs;
  params.num_inputs = 6;
  params.outputs = outputs;
  params.num_outputs = 2;
  params.workspace = reinterpret_cast<void *>(uintptr_t(100) << 32);
  params.workspace_bytes = 1024;
}

std::string test::GlaCall::check(const ejk_package *package) {
  return take(ejk_entry_check(package, 0, params.inputs, params.num_inputs, params.outputs,
                              params.num_outputs));
}
