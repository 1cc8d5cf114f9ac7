//===- ManifestSpelling.cpp - how a manifest spells IR --------------------===//
#include "lowering/host/ManifestSpelling.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace ejk;
namespace json = llvm::json;

json::Value ejk::sizeExpr(StringRef spelling) {
  int64_t number;
  if (!spelling.getAsInteger(10, number))
    return number;
  // The operator that binds loosest comes first.
  for (auto [sign, name] : {std::pair('+', "+"), std::pair('/', "floordiv"), std::pair('*', "*")})
    if (auto [left, right] = spelling.rsplit(sign); !right.empty())
      return json::Array{name, sizeExpr(left), sizeExpr(right)};
  return spelling;
}

StringRef ejk::dtypeOf(Type type) {
  return llvm::TypeSwitch<Type, StringRef>(type)
      .Case([](Float32Type) { return "f32"; })
      .Case([](Float16Type) { return "f16"; })
      .Case([](BFloat16Type) { return "bf16"; })
      .Case([](Float64Type) { return "f64"; })
      .Case([](IntegerType t) {
        return t.getWidth() == 32 ? "i32" : t.getWidth() == 64 ? "i64" : "";
      })
      .Default([](Type) { return ""; });
}

StringRef ejk::comparison(arith::CmpIPredicate predicate) {
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return "=";
  case arith::CmpIPredicate::ne:
    return "!=";
  case arith::CmpIPredicate::slt:
  case arith::CmpIPredicate::ult:
    return "<";
  case arith::CmpIPredicate::sle:
  case arith::CmpIPredicate::ule:
    return "<=";
  case arith::CmpIPredicate::sgt:
  case arith::CmpIPredicate::ugt:
    return ">";
  case arith::CmpIPredicate::sge:
  case arith::CmpIPredicate::uge:
    return ">=";
  }
  llvm_unreachable("unknown predicate");
}
