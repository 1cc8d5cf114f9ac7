"""A function of as many elementwise ops as asked for, one after another."""
import sys

count = int(sys.argv[1])
ops = ["math.tanh", "arith.negf", "math.sin"]
print("func.func @chain(%x: tensor<?xf32>) -> tensor<?xf32> {")
previous = "%x"
for i in range(count):
    print(f"  %{i} = {ops[i % 3]} {previous} : tensor<?xf32>")
    previous = f"%{i}"
print(f"  return {previous} : tensor<?xf32>")
print("}")
