"""timed.py SECONDS COMMAND...: runs a command; fails if it fails or takes longer."""
import subprocess
import sys
import time

start = time.time()
status = subprocess.run(sys.argv[2:]).returncode
taken = time.time() - start
print(f"{taken:.2f} s")
sys.exit(status or taken > float(sys.argv[1]))
