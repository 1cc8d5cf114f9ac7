"""interrupt.py EJK-COMPILE FILE FOLDER: ends a compilation by a signal while it waits for ptxas, and before."""

import os
import signal
import subprocess
import sys
import time

compiler, source, folder = sys.argv[1:]
temporary, started = os.path.join(folder, "tmp"), os.path.join(folder, "started")
os.makedirs(temporary)
ptxas = os.path.join(folder, "ptxas")
with open(ptxas, "w", encoding="utf-8") as script:
    script.write(f"#!/bin/sh\necho $$ > {started}.part; mv {started}.part {started}; exec sleep 600\n")
os.chmod(ptxas, 0o755)
ENV = dict(os.environ, EJK_PTXAS=ptxas, TMPDIR=temporary)
# A shell's background job ignores SIGINT, and so would the compiler until it has a handler of its own.
signal.signal(signal.SIGINT, signal.default_int_handler)


def start():
    return subprocess.Popen([compiler, source, "--arch=sm_90a", "--vjp", "-o", os.path.join(folder, "out.ejk")],
                            env=ENV)


def end(process, number, where):
    process.send_signal(number)
    begin = time.monotonic()
    try:
        status = process.wait(60)
    finally:
        process.kill()  # of no effect where it has ended
    left = os.listdir(temporary) + [name for name in os.listdir(folder) if name.startswith("out")]
    print(f"{where}: signal {-status}, left {left}, {'soon' if time.monotonic() - begin < 20 else 'late'}")


def is_alive(number):
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


process = start()
while not os.path.exists(started):
    time.sleep(0.02)
end(process, signal.SIGTERM, "in ptxas")
with open(started, encoding="utf-8") as file:
    print("ptxas lives:", is_alive(int(file.read())))
for part in range(1, 13):  # in LLVM's passes and in those before them, wherever that is
    process = start()
    time.sleep(0.1 * part)
    end(process, signal.SIGINT, "before it")
