"""timed.py SECONDS COMMAND...: runs a command; fails if it fails or takes more processor time.

Processor time rather than a clock's, because other tests run beside.
"""
import resource
import subprocess
import sys

status = subprocess.run(sys.argv[2:]).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
taken = used.ru_utime + used.ru_stime
print(f"{taken:.2f} s")
sys.exit(status or taken > float(sys.argv[1]))
