"""A function of as many results as asked for, of one kernel."""
import sys

count = int(sys.argv[1])
types = ", ".join(["tensor<?xf32>"] * count)
names = ", ".join(f"%y{i}" for i in range(count))
print(f"func.func @many(%x: tensor<?xf32>) -> ({types}) {{")
maps = ", ".join(["affine_map<(d) -> (d)>"] * (count + 1))
print("  %c = arith.constant 0 : index")
print("  %n = tensor.dim %x, %c : tensor<?xf32>")
print("  %e = tensor.empty(%n) : tensor<?xf32>")
print(f"  {names} = linalg.generic {{indexing_maps = [{maps}],"
      f" iterator_types = [\"parallel\"]}} ins(%x : tensor<?xf32>)"
      f" outs({', '.join(['%e'] * count)} : {types}) {{")
args = ", ".join(f"%o{i}: f32" for i in range(count))
print(f"  ^bb0(%in: f32, {args}):")
for i in range(count):
    print(f"    %k{i} = arith.constant {i}.0 : f32")
    print(f"    %r{i} = arith.addf %in, %k{i} : f32")
print(f"    linalg.yield {', '.join(f'%r{i}' for i in range(count))} : {', '.join(['f32'] * count)}")
print(f"  }} -> ({types})")
print(f"  return {names} : {types}")
print("}")
