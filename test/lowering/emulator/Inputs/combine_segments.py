"""A function fN for each size: ejk.combine_segments of states of K×V, of three segments of two sequences. With an
argument K×V-, it does not return the final state."""
import sys

for number, size in enumerate(sys.argv[1:]):
    keys, values = size.rstrip("-").split("x")
    state, sequences = f"x3x{keys}x{values}xf32", f"tensor<2x9x3x{values}xf32>"
    # Every second one from zero, every third one from the last segment.
    starts = number % 2
    reverse = "" if number % 3 else "reverse "
    initial = f" from %h : tensor<2{state}>" if starts else ""
    ends = not size.endswith("-")
    results = "%starts, %end : " if ends else "%starts : "
    types = f"tensor<6{state}>, tensor<2{state}>" if ends else f"tensor<6{state}>"
    named = ', tensor<2%s> {ejk.name = "end"}' % state if ends else ""
    argument = f", %h: tensor<2{state}>" if starts else ""
    print(f"""func.func @f{number}(%x: tensor<6{state}>, %m: tensor<6x3x{keys}x{keys}xf32>, %v: {sequences}{argument})
    -> (tensor<6{state}> {{ejk.name = "starts"}}{named}) {{
  %starts, %end = ejk.combine_segments {reverse}%x by %m{initial} like %v
      : tensor<6{state}>, tensor<6x3x{keys}x{keys}xf32>, {sequences} -> tensor<6{state}>, tensor<2{state}>
  return {results}{types}
}}""")
