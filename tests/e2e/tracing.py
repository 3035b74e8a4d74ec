"""Processes that are traced, and what there is to check of them."""
import pathlib
import re
import shutil
import subprocess
import unittest

import daemon
import harness

STRACE = shutil.which("strace")
# For a shell script: `await_tracer PID` waits, without any other process, until that one is traced.
AWAIT_TRACER = """
is_traced() {
    while read name value; do
        if [ "$name" = TracerPid: ]; then [ "$value" != 0 ]; return; fi
    done < /proc/$1/status
}
await_tracer() { until is_traced $1; do :; done; }
"""


def can_trace():
    """Containers may forbid it, and so does whoever traces this test."""
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
    """How many calls that write have ended, its own and those of children that it has waited for,
    by the kernel's account."""
    io = pathlib.Path(f"/proc/{pid}/io").read_text(encoding="ascii")
    return int(re.search(r"^syscw: (\d+)$", io, re.MULTILINE)[1])


def table_of(text):
    """{name: (calls, errors, percent)} of strace's own table."""
    rows = re.findall(r"^ *([\d.]+) +[\d.]+ +\d+ +(\d+)(?: +(\d+))? +(\w+)$", text, re.MULTILINE)
    return {name: (int(calls), int(errors or 0), float(share))
            for share, calls, errors, name in rows if name != "total"}


class TestCase(daemon.TestCase):
    def gated(self, script, *words):
        """A shell that does nothing until open_gate(), so that whoever attaches sees all of it."""
        process = self.start("sh", "-c", "echo ready; read gate; " + script, "sh", *words)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        harness.wait_until(lambda: harness.process_state(process.pid) == "S", "it waits")
        return process

    def open_gate(self, process):
        process.stdin.write(b"\n")
        process.stdin.close()

    def busy(self, *prefix):
        """A process that reads and writes without end, and has begun to: what its start calls is
        over."""
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
        """Waits until a busy process has written so often from now on. strace has counted all of
        these calls but the first, which it may have come too late for, and the last."""
        enough = writes_of(process.pid) + count
        harness.wait_until(lambda: writes_of(process.pid) >= enough, f"{count} writes")

    def assert_untouched(self, process):
        """It lives, no process traces it, and it goes on with what it does."""
        harness.wait_until(lambda: tracer_of(process.pid) == 0, "it is not traced")
        self.await_calls(process)

    def assert_nothing_left(self, sonde):
        """No process of strace's that was the daemon's child."""
        harness.wait_until(lambda: not sonde.rpc("daemon.status")["tracer_pids"], "no tracers")
        left = [pid for pid in harness.children_of(sonde.pid)]
        self.assertEqual(left, [])
