"""on_terminal.py COMMAND...: runs a command whose standard output is a terminal, and prints
what it wrote and its exit status."""
import os
import pty
import sys

child, terminal = pty.fork()
if child == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
written = b""
while True:
    try:
        part = os.read(terminal, 4096)
    except OSError:  # the other side is closed
        break
    if not part:
        break
    written += part
_, status = os.waitpid(child, 0)
sys.stdout.write(written.decode(errors="replace").replace("\r\n", "\n"))
print(f"exit status {os.waitstatus_to_exitcode(status)}")
