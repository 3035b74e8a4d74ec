"""What the tests of traced processes share."""
import pathlib
import re
import shutil
import subprocess
import unittest

import daemon
import harness

STRACE = shutil.which("strace")
# For a shell script: `await_tracer PID` waits, without starting a process, until PID is traced.
AWAIT_TRACER = """
is_traced() {
    while read name value; do
        if [ "$name" = TracerPid: ]; then [ "$value" != 0 ]; return; fi
    done < /proc/$1/status
}
await_tracer() { until is_traced $1; do :; done; }
"""


def can_trace():
    """A container may forbid ptrace, and a tracer of this test prevents it."""
    if not STRACE:
        return False
    done = subprocess.run([STRACE, "-o", "/dev/null", "true"], stderr=subprocess.DEVNULL, check=False)
    return done.returncode == 0


def needs_strace():
    return unittest.skipUnless(can_trace(), "needs strace, and to be allowed to trace")


def tracer_of(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    return int(re.search(r"^TracerPid:\t(\d+)$", status, re.MULTILINE)[1])


def writes_of(pid):
    """Writing system calls that have ended, of the process and of children that it has reaped, as
    the kernel counts them."""
    io = pathlib.Path(f"/proc/{pid}/io").read_text(encoding="ascii")
    return int(re.search(r"^syscw: (\d+)$", io, re.MULTILINE)[1])


def table_of(text):
    """{name: (calls, errors, percent)} of strace's own table."""
    rows = re.findall(r"^ *([\d.]+) +[\d.]+ +\d+ +(\d+)(?: +(\d+))? +(\w+)$", text, re.MULTILINE)
    return {name: (int(calls), int(errors or 0), float(share))
            for share, calls, errors, name in rows if name != "total"}


class TestCase(daemon.TestCase):
    def gated(self, script, *words):
        """A shell that does nothing until open_gate(), so that a tracer that attaches sees all of it."""
        process = self.start("sh", "-c", "echo ready; read gate; " + script, "sh", *words)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        harness.wait_until(lambda: harness.process_state(process.pid) == "S", "it waits")
        return process

    def open_gate(self, process):
        process.stdin.write(b"\n")
        process.stdin.close()

    def busy(self, *prefix):
        """A process that reads and writes in an endless loop and has entered the loop: the system
        calls of its start are over."""
        process = self.start(*prefix, "dd", "if=/dev/zero", "of=/dev/null", "bs=1",
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.await_calls(process)
        return process

    def attach(self, sonde, pid):
        answer = sonde.rpc("strace.attach", pid=pid)
        self.assertTrue(answer["attached"], answer)
        self.assertEqual(tracer_of(pid), answer["tracer_pid"])
        return answer["tracer_pid"]

    def await_calls(self, process, count=20):
        """Waits for this many further writes of a busy process. strace has counted all of these
        calls except perhaps the first, when it attached too late, and the last."""
        enough = writes_of(process.pid) + count
        harness.wait_until(lambda: writes_of(process.pid) >= enough, f"{count} writes")

    def assert_untouched(self, process):
        """It is alive, no process traces it, and it continues its work."""
        harness.wait_until(lambda: tracer_of(process.pid) == 0, "it is not traced")
        self.await_calls(process)

    def assert_nothing_left(self, sonde):
        """No strace process is a child of the daemon."""
        harness.wait_until(lambda: not sonde.rpc("daemon.status")["tracer_pids"], "no tracers")
        left = [pid for pid in harness.children_of(sonde.pid)]
        self.assertEqual(left, [])
