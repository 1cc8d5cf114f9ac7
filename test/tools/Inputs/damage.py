"""damage.py PACKAGE cut|flip|magic OUT: a package without its end, with a bit of its
last byte the other way round, or with another first byte."""
import sys

data = bytearray(open(sys.argv[1], "rb").read())
if sys.argv[2] == "cut":
    data = data[:-100]
elif sys.argv[2] == "flip":
    data[-2] ^= 1
else:
    data[0] ^= 0xFF
open(sys.argv[3], "wb").write(data)
