#!/usr/bin/env python3
"""strace: attached, detached, never in the way; counts as by hand; and programs that call themselves
strace and misbehave."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

import daemon
import harness
import tmux

STRACE = shutil.which("strace")


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


def table_of(text):
    """{name: (calls, errors, percent)} of strace's own table."""
    rows = re.findall(r"^ *([\d.]+) +[\d.]+ +\d+ +(\d+)(?: +(\d+))? +(\w+)$", text, re.MULTILINE)
    return {name: (int(calls), int(errors or 0), float(share))
            for share, calls, errors, name in rows if name != "total"}


class Strace(daemon.TestCase):
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
        """Calls without end: `tell` of a puppet that is never told anything would be silent."""
        return self.start(*prefix, "dd", "if=/dev/zero", "of=/dev/null", "bs=1",
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def attach(self, sonde, pid):
        answer = sonde.rpc("strace.attach", pid=pid)
        self.assertTrue(answer["attached"], answer)
        self.assertEqual(tracer_of(pid), answer["tracer_pid"])
        return answer["tracer_pid"]

    def assert_untouched(self, process):
        """It lives, nobody traces it, and it goes on with what it does."""
        harness.wait_until(lambda: tracer_of(process.pid) == 0, "nobody traces it")
        self.assertIn(harness.process_state(process.pid), "RS")
        io = pathlib.Path(f"/proc/{process.pid}/io")
        before = io.read_text(encoding="ascii")
        harness.wait_until(lambda: io.read_text(encoding="ascii") != before, "it goes on")

    def assert_nothing_left(self, sonde):
        """No process of strace's that was the daemon's child."""
        harness.wait_until(lambda: not sonde.rpc("daemon.status")["tracer_pids"], "no tracers")
        left = [pid for pid in harness.children_of(sonde.pid)]
        self.assertEqual(left, [])


@needs_strace()
class ByHand(Strace):
    """What the daemon's strace has counted is what one that was started by hand counts."""

    def by_hand(self, script, *words):
        process = self.gated(script, *words)
        path = self.path("table")
        strace = self.start(STRACE, "-c", "-w", "-f", "-o", path, "-p", str(process.pid),
                            stderr=subprocess.DEVNULL)
        harness.wait_until(lambda: tracer_of(process.pid) == strace.pid, "strace has attached")
        self.open_gate(process)
        process.wait(harness.DEADLINE)
        strace.wait(harness.DEADLINE)
        return table_of(pathlib.Path(path).read_text(encoding="ascii"))

    def by_daemon(self, sonde, script, *words):
        """As a job, so that the figures stay."""
        process = self.gated(script, *words)
        run_id = sonde.rpc("job.start", job_id="x", pid=process.pid)["run_id"]
        self.attach(sonde, process.pid)
        self.open_gate(process)
        process.wait(harness.DEADLINE)
        harness.wait_until(lambda: not sonde.rpc("daemon.status")["tracer_pids"],
                           "strace has ended with it")
        sonde.rpc("job.finish", job_id=run_id, outcome="success")
        self.await_end(run_id)
        return process.pid, run_id

    def assert_same(self, script, *words, leaves_out=()):
        sonde = self.daemon()
        pid, run_id = self.by_daemon(sonde, script, *words)
        table = self.by_hand(script, *words)
        job = self.job(run_id)
        counts = json.loads(job["syscall_counts"])
        # Attaching interrupts the gate's read, which may or may not be counted once more.
        self.assertAlmostEqual(counts["read"], table["read"][0], delta=1)
        for name in ("read", *leaves_out):
            counts.pop(name, None)
            table.pop(name, None)
        self.assertEqual(counts, {name: row[0] for name, row in table.items()})
        self.assertEqual(job["syscall_source"], "strace")
        self.assertEqual(job["exactness_syscall_hotspots"], "lower_bound")
        self.assertAlmostEqual(sum(json.loads(job["syscall_hotspots"]).values()), 100, delta=1)
        return pid, job, table

    def test_dd(self):
        pid, job, _ = self.assert_same("exec dd if=/dev/zero of=/dev/null bs=1 count=3000 "
                                       "status=none")
        counts = json.loads(job["syscall_counts"])
        self.assertEqual(counts["write"], 3000)
        shares = json.loads(job["syscall_hotspots"])
        self.assertGreater(shares["read"] + shares["write"], 20)
        # Its end, and the last row of it, tell the same.
        end = self.await_rows("SELECT details FROM process_events WHERE pid = ? AND event_type ="
                              " 'exit' AND details LIKE 'system calls: %'", pid)
        self.assertRegex(end[0]["details"], r"\d+ in all$")
        rows = self.rows("SELECT syscall_counts FROM process_metrics WHERE pid = ?"
                         " ORDER BY snapshot_id", pid)
        self.assertEqual(json.loads(rows[-1]["syscall_counts"]), counts)
        self.assertTrue(all(row["syscall_counts"] is None for row in rows[:-1]))

    def test_python(self):
        """Addresses differ from run to run, and with them how often memory is asked for."""
        self.assert_same("exec python3 -S -c 'for i in range(200): open(\"/dev/null\").close()'",
                         leaves_out=("brk", "mmap", "munmap", "mremap", "getrandom", "futex",
                                     "rt_sigreturn"))

    @harness.needs_program("gcc")
    def test_a_compile_of_two_hundred_children(self):
        """Driver, compiler and assembler of each file are followed from their first call on. How often
        a parent waits depends on who is quicker, how often memory is asked for on addresses, and
        names of temporary files are chosen at random."""
        self.write("one.c", "int main(void) { return 0; }\n")
        _, job, table = self.assert_same(
            "cd $1; mkdir $$; for i in $(seq 67); do gcc -c one.c -o $$/$i.o; done; :", self.directory,
            leaves_out=("wait4", "rt_sigreturn", "rt_sigsuspend", "brk", "mmap", "munmap", "mremap",
                        "getrandom", "futex"))
        self.assertGreaterEqual(json.loads(job["syscall_counts"])["execve"], 201)
        self.assertGreaterEqual(table["openat"][1], 200)  # libraries that are not where they are sought


@needs_strace()
class Table(Strace):
    def test_is_what_strace_has_printed(self):
        """Counts, errors and percentages of one and the same table."""
        os.makedirs(self.path("bin"))
        self.write("bin/strace", f"""#!{sys.executable}
import signal, subprocess, sys
strace = subprocess.Popen([{STRACE!r}, *sys.argv[1:]], stderr=subprocess.PIPE)
signal.signal(signal.SIGINT, signal.SIG_IGN)  # the whole group gets it
with open({self.path("bin/said")!r}, "wb") as said:
    for line in strace.stderr:
        said.write(line)
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()
""", 0o755)
        sonde = self.daemon(env={"PATH": self.path("bin") + ":" + self.environment["PATH"]})
        process = self.start("sh", "-c", "while :; do cat /nowhere; ls / > /dev/null; done",
                             stderr=subprocess.DEVNULL)
        self.assertTrue(sonde.rpc("strace.attach", pid=process.pid)["attached"])
        harness.wait_until(lambda: pathlib.Path(f"/proc/{process.pid}/io").exists(), "it runs")
        time.sleep(0.5)  # something to count
        result = sonde.rpc("strace.detach", pid=process.pid)
        table = table_of(self.read("bin/said").decode())
        self.assertGreater(len(table), 10)
        self.assertEqual(result["syscall_counts"], {name: row[0] for name, row in table.items()})
        for name, row in table.items():
            self.assertAlmostEqual(result["syscall_time_pct"].get(name, 0), row[2], delta=0.011)


@needs_strace()
class Attaching(Strace):
    def test_attach_twice_and_detach(self):
        sonde, process = self.daemon("profiler:\n  scope: all\n"), self.busy()
        tracer = self.attach(sonde, process.pid)
        self.assertEqual(self.attach(sonde, process.pid), tracer)
        status = sonde.rpc("daemon.status")
        self.assertEqual(status["tracer_pids"], [tracer])
        self.assertEqual(status["strace"], f"{STRACE}, on demand")
        harness.wait_until(lambda: harness.process_state(process.pid) != "T", "it runs")
        time.sleep(0.2)  # something to count
        result = sonde.rpc("strace.detach", pid=process.pid)
        self.assertGreater(result["syscall_counts"]["write"], 10)
        self.assertAlmostEqual(sum(result["syscall_time_pct"].values()), 100, delta=1)
        self.assert_untouched(process)
        self.assertIsNone(sonde.rpc("strace.detach", pid=process.pid))
        context = sonde.rpc("resource.context", pid=process.pid)
        self.assertRegex(context["syscall_hotspot"], r"^(read|write) \d+%$")
        row = self.await_rows("SELECT syscall_counts FROM process_metrics WHERE pid = ? AND"
                              " syscall_counts IS NOT NULL", process.pid)
        self.assertEqual([json.loads(each["syscall_counts"]) for each in row],
                         [result["syscall_counts"]])
        self.assert_nothing_left(sonde)

    def test_descendants_are_their_tracers(self):
        sonde = self.daemon()
        puppet = self.puppet()
        tracer = self.attach(sonde, puppet.pid)
        child = puppet.fork("child")
        self.assertEqual(self.attach(sonde, child), tracer)
        self.assertIsNone(sonde.rpc("strace.detach", pid=child))
        self.assertEqual(tracer_of(child), tracer)

    def test_several_at_once(self):
        sonde = self.daemon()
        processes = [self.busy() for _ in range(6)]
        links = [sonde.connect() for _ in processes]
        for link, process in zip(links, processes):
            link.send({"jsonrpc": "2.0", "id": 1, "method": "strace.attach",
                       "params": {"pid": process.pid}})
        self.assertTrue(all(link.read()["result"]["attached"] for link in links))
        self.assertEqual(len(sonde.rpc("daemon.status")["tracer_pids"]), 6)
        for process in processes:
            self.assertIn("write", sonde.rpc("strace.detach", pid=process.pid)["syscall_counts"])
        for process in processes:
            self.assert_untouched(process)

    def test_in_a_batch_and_by_one_who_leaves(self):
        sonde, process = self.daemon(), self.busy()
        with daemon.Rpc(sonde.socket) as link:
            link.send([{"jsonrpc": "2.0", "id": n, "method": f"strace.{word}",
                        "params": {"pid": process.pid}}
                       for n, word in enumerate(("attach", "detach", "detach"))])
            first, second, third = link.read()
        self.assertTrue(first["result"]["attached"])
        self.assertIsNotNone(second["result"])
        self.assertIsNone(third["result"])
        with daemon.Rpc(sonde.socket) as link:
            link.send({"jsonrpc": "2.0", "id": 1, "method": "strace.attach",
                       "params": {"pid": process.pid}})
        harness.wait_until(lambda: tracer_of(process.pid), "it is attached all the same")
        sonde.rpc("strace.detach", pid=process.pid)
        self.assert_untouched(process)

    def test_clear_answers(self):
        sonde, process = self.daemon(), self.busy()
        gone = self.start("true")
        gone.wait()
        answer = sonde.rpc("strace.attach", pid=gone.pid)
        self.assertEqual((answer["attached"], answer["reason"]),
                         (False, f"process {gone.pid} is gone"))
        by_hand = self.start(STRACE, "-o", "/dev/null", "-p", str(process.pid),
                             stderr=subprocess.DEVNULL)
        harness.wait_until(lambda: tracer_of(process.pid) == by_hand.pid, "strace has attached")
        answer = sonde.rpc("strace.attach", pid=process.pid)
        self.assertFalse(answer["attached"])
        self.assertIn(f"traced already, by process {by_hand.pid} (strace)", answer["reason"])
        self.assertEqual(sonde.error("strace.attach"), -32602)
        self.assertFalse(sonde.rpc("strace.attach", pid=sonde.pid)["attached"])
        zombie = self.start("true")
        harness.wait_until(lambda: harness.process_state(zombie.pid) == "Z", "it has ended")
        self.assertIn("has ended", sonde.rpc("strace.attach", pid=zombie.pid)["reason"])
        thread = next(int(name) for name in os.listdir(f"/proc/{sonde.pid}/task")
                      if int(name) != sonde.pid)
        self.assertIn(f"is a thread of process {sonde.pid}",
                      sonde.rpc("strace.attach", pid=thread)["reason"])

    def test_no_strace(self):
        os.makedirs(self.path("bin"))
        sonde = self.daemon(env={"PATH": self.path("bin")})
        answer = sonde.rpc("strace.attach", pid=self.busy().pid)
        self.assertFalse(answer["attached"])
        self.assertIn("strace is not installed", answer["reason"])
        self.assertIn("not installed", sonde.rpc("daemon.status")["strace"])

    def test_kernel_refuses(self):
        """A process that has made itself undumpable, to its own user's strace."""
        if not harness.is_root():
            self.skipTest("needs root, to be somebody else")
        sonde = self.daemon()
        process = self.start(
            *harness.as_nobody(), "python3", "-c",
            "import ctypes, time; ctypes.CDLL(None).prctl(4, 0); print('ready', flush=True);"
            " time.sleep(1000)")
        self.assertEqual(process.stdout.readline(), b"ready\n")
        answer = sonde.rpc("strace.attach", pid=process.pid)
        self.assertFalse(answer["attached"])
        self.assertRegex(answer["reason"], r"may not be traced \(.*not permitted\)")
        self.assertIsNone(process.poll())
        self.assert_nothing_left(sonde)


@needs_strace()
class Ends(Strace):
    """However anybody ends, what is traced lives on."""

    def test_sonde_is_killed(self):
        sonde, process = self.daemon(), self.busy()
        tracer = self.attach(sonde, process.pid)
        sonde.kill()
        self.assert_untouched(process)
        harness.wait_until(lambda: not harness.is_alive(tracer), "strace is gone")

    def test_strace_is_killed(self):
        sonde, process = self.daemon(), self.busy()
        os.kill(self.attach(sonde, process.pid), signal.SIGKILL)
        self.assert_untouched(process)
        self.assert_nothing_left(sonde)
        self.assertIsNone(sonde.rpc("strace.detach", pid=process.pid))
        self.attach(sonde, process.pid)

    def test_sonde_stops(self):
        """Detached, and what was counted is stored with the run."""
        sonde, process = self.daemon(), self.busy()
        run_id = sonde.rpc("job.start", job_id="x", pid=process.pid)["run_id"]
        self.attach(sonde, process.pid)
        sonde.await_snapshots(2)
        self.assertLess(sonde.stop(), 10)
        self.assert_untouched(process)
        self.assertTrue(self.rows("SELECT 1 FROM process_metrics WHERE run_id = ? AND"
                                  " syscall_counts LIKE '%write%'", run_id))

    def test_target_ends(self):
        sonde, process = self.daemon(), self.busy()
        tracer = self.attach(sonde, process.pid)
        process.kill()
        process.wait()
        self.assert_nothing_left(sonde)
        self.assertFalse(harness.is_alive(tracer))

    def test_target_is_stopped(self):
        """A stopped process can be attached to and let go, and stays stopped."""
        sonde, process = self.daemon(), self.busy()
        process.send_signal(signal.SIGSTOP)
        harness.wait_until(lambda: harness.process_state(process.pid) == "T", "it stands")
        self.attach(sonde, process.pid)
        sonde.rpc("strace.detach", pid=process.pid)
        harness.wait_until(lambda: tracer_of(process.pid) == 0, "nobody traces it")
        self.assertEqual(harness.process_state(process.pid), "T")
        process.send_signal(signal.SIGCONT)
        self.assert_untouched(process)


@needs_strace()
class Jobs(Strace):
    """strace_enabled: every new process of a run, without being asked."""

    CONFIG = "profiler:\n  strace_enabled: true\n"
    SCRIPT = "sleep 0.5; dd if=/dev/zero of=/dev/null bs=1 count=2000 status=none; exit 3"

    def check_run(self, run_id):
        job = self.await_rows("SELECT * FROM jobs WHERE run_id = ? AND outcome = 'failure' AND"
                              " syscall_source = 'strace' AND syscall_counts LIKE '%write%'",
                              run_id)[0]
        counts = json.loads(job["syscall_counts"])
        self.assertGreaterEqual(counts["write"], 2000)
        self.assertEqual(counts["execve"], 1)
        self.assertEqual(job["cause"], "exit status 3")
        report = self.run_sonde("report", run_id).stdout.decode()
        self.assertIn("system calls (by strace", report)
        self.await_rows("SELECT 1 FROM process_events WHERE event_type = 'exit' AND exit_code = 3"
                        " AND details LIKE 'system calls: %'")

    def test_run_alone(self):
        config = self.write("own.yaml", self.CONFIG)
        result = self.run_sonde("run", "--config", config, "--", "sh", "-c", self.SCRIPT)
        self.assertEqual(result.status, 3)
        self.assertEqual(result.summary["syscall_source"], "strace")
        self.assertEqual(result.summary["left_running"], [])
        self.assertEqual(result.summary["processes"], 3)
        self.check_run(result.summary["run_id"])

    def test_run_under_a_daemon(self):
        """The daemon's configuration counts, and strace may be done after the run is."""
        self.daemon(self.CONFIG)
        result = self.run_sonde("run", "--", "sh", "-c", self.SCRIPT)
        self.assertEqual(result.status, 3)
        self.check_run(result.summary["run_id"])

    def test_syscalls_by_strace(self):
        sonde = self.daemon("profiler:\n  syscalls: strace\n")
        result = self.run_sonde("run", "--", "sh", "-c", self.SCRIPT)
        self.check_run(result.summary["run_id"])
        self.assertIn("system calls of runs: counted by strace, once it has attached",
                      sonde.rpc("daemon.status")["not_exact"])

    def test_killed(self):
        """Why it ended is not what it called."""
        config = self.write("own.yaml", self.CONFIG)
        result = self.run_sonde("run", "--config", config, "--", "sh", "-c",
                                "sleep 0.5; kill -TERM $$")
        self.assertRegex(result.summary["cause"], r"^killed by SIGTERM")
        self.assertNotIn("system calls", result.summary["cause"])

    def test_what_is_left_running(self):
        """It is let go when the run is over."""
        self.daemon(self.CONFIG)
        pid_file = self.path("pid")
        self.run_sonde("run", "--", "sh", "-c",
                       f"dd if=/dev/zero of=/dev/null bs=1 2>/dev/null & echo $! > {pid_file}; "
                       "sleep 1")
        left = int(pathlib.Path(pid_file).read_text(encoding="ascii"))
        harness.wait_until(lambda: tracer_of(left) == 0, "it is let go")
        self.assertTrue(harness.is_alive(left))

    def test_steps(self):
        sonde = self.daemon(self.CONFIG)
        process = self.busy()
        sonde.rpc("job.start", job_id="x")
        sonde.rpc("sheet.started", job_id="x", sheet_num=1, pid=process.pid)
        harness.wait_until(lambda: tracer_of(process.pid), "its step is traced at once", 3)
        sonde.await_snapshots(2)  # something to count
        answer = sonde.rpc("sheet.completed", job_id="x", sheet_num=1)
        self.assertIn("syscall_hotspot", answer["resource_context"])
        self.assert_untouched(process)
        self.await_rows("SELECT 1 FROM process_metrics WHERE pid = ? AND syscall_counts IS NOT NULL",
                        process.pid)

    def test_nested_runs(self):
        """A run's figures include those of the runs in it."""
        config = self.write("own.yaml", self.CONFIG)
        result = self.run_sonde("run", "--config", config, "--", harness.SONDE, "run", "-q", "--",
                                "sh", "-c", self.SCRIPT,
                                env=harness.without_leak_check(self.environment))
        self.assertEqual(result.status, 3)
        self.assertGreaterEqual(result.summary["syscall_counts"]["write"], 2000)


@needs_strace()
class FullTraces(Strace):
    def test_to_a_file(self):
        sonde, process = self.daemon(), self.busy()
        path = self.path("trace")
        answer = sonde.rpc("strace.trace", pid=process.pid, file=path)
        self.assertEqual((answer["attached"], answer["file"]), (True, path))
        harness.wait_until(lambda: b"write(" in self.read("trace"), "calls are written")
        again = sonde.rpc("strace.attach", pid=process.pid)
        self.assertFalse(again["attached"])
        self.assertEqual(sonde.rpc("strace.detach", pid=process.pid),
                         {"syscall_counts": None, "syscall_time_pct": None, "file": path,
                          "reason": None})
        self.assertRegex(self.read("trace").decode().splitlines()[0],
                         r"^\d+ +\d\d:\d\d:\d\d\.\d+ (read|write)\(")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.assert_untouched(process)

    def test_nothing_is_overwritten(self):
        sonde, process = self.daemon(), self.busy()
        path = self.write("mine", "mine")
        os.symlink(self.path("elsewhere"), self.path("link"))
        for name in ("mine", "link"):
            answer = sonde.rpc("strace.trace", pid=process.pid, file=self.path(name))
            self.assertFalse(answer["attached"])
            self.assertIn("File exists", answer["reason"])
        self.assertEqual(self.read("mine"), b"mine", path)
        self.assertFalse(os.path.exists(self.path("elsewhere")))
        self.assertEqual(sonde.error("strace.trace", pid=process.pid, file="relative"), -32602)

    def test_own_place(self):
        sonde, process = self.daemon(), self.busy()
        answer = sonde.rpc("strace.trace", pid=process.pid)
        self.assertTrue(answer["file"].startswith(os.path.join(self.state, "traces")), answer)
        self.assertEqual(os.stat(os.path.dirname(answer["file"])).st_mode & 0o777, 0o700)
        sonde.rpc("strace.detach", pid=process.pid)

    def test_not_allowed(self):
        sonde = self.daemon("profiler:\n  strace_full_on_demand: false\n")
        self.assertEqual(sonde.error("strace.trace", pid=self.busy().pid, file="/tmp/x"), -32004)


@needs_strace()
@harness.needs_root()
class Rights(Strace):
    """Tracing only its own processes; strace runs as the process's user."""

    def rpc_as_nobody(self, sonde, method, **params):
        return self.rpc_as(None, sonde, method, **params)

    def rpc_as(self, uid, sonde, method, **params):
        """As that user; None: as the one whose processes are traced here."""
        script = ("import json, socket, sys\n"
                  "link = socket.socket(socket.AF_UNIX)\n"
                  "link.connect(sys.argv[1])\n"
                  "link.sendall(sys.argv[2].encode() + b'\\n')\n"
                  "print(link.makefile().readline())\n")
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        user = harness.as_nobody() if uid is None else (
            "setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups")
        done = self.run_program(*user, "python3", "-c", script, sonde.socket, json.dumps(request))
        return json.loads(done.stdout)

    def open_daemon(self):
        """One that everybody may talk to."""
        where = self.open_directory()
        return self.daemon("daemon:\n  access: everyone\n",
                           env={"SONDE_SOCKET": os.path.join(where, "sock")})

    def test_own_and_others(self):
        sonde = self.open_daemon()
        theirs, ours = self.busy(*harness.as_nobody()), self.busy()
        harness.wait_until(lambda: os.stat(f"/proc/{theirs.pid}").st_uid != 0, "it is theirs")
        answer = self.rpc_as_nobody(sonde, "strace.attach", pid=ours.pid)
        self.assertEqual(answer["error"]["code"], -32004)
        self.assertEqual(tracer_of(ours.pid), 0)
        answer = self.rpc_as_nobody(sonde, "strace.attach", pid=theirs.pid)
        self.assertTrue(answer["result"]["attached"], answer)
        tracer = pathlib.Path(f"/proc/{answer['result']['tracer_pid']}")
        status = (tracer / "status").read_text(encoding="ascii")
        self.assertRegex(status, r"Uid:\t(\d+)\t\1\t\1\t\1\nGid:\t(\d+)\t\2\t\2\t\2")
        self.assertNotRegex(status, r"Uid:\t0\t")
        self.assertRegex(status, r"\nGroups:\t? ?\n")
        self.assertRegex(status, r"\nCapEff:\t0+\n")
        for method in ("strace.detach", "strace.trace"):
            self.assertEqual(self.rpc_as_nobody(sonde, method, pid=ours.pid)["error"]["code"],
                             -32004)
        self.assertIn("write", self.rpc_as_nobody(sonde, "strace.detach",
                                                  pid=theirs.pid)["result"]["syscall_counts"])

    def test_others_get_nothing_of_what_is_gone(self):
        """A tracer outlives its target while something lives that this has forked: it is still that
        user's."""
        sonde = self.open_daemon()
        shell = self.start(*harness.as_nobody(), "sh", "-c",
                           "read gate; dd if=/dev/zero of=/dev/null bs=1 2>/dev/null & exit")
        harness.wait_until(lambda: os.stat(f"/proc/{shell.pid}").st_uid != 0, "it is theirs")
        tracer = sonde.rpc("strace.attach", pid=shell.pid)["tracer_pid"]
        shell.stdin.write(b"\n")
        shell.stdin.close()
        shell.wait(harness.DEADLINE)
        self.assertEqual(sonde.rpc("daemon.status")["tracer_pids"], [tracer])
        self.assertIsNone(self.rpc_as(12345, sonde, "strace.detach", pid=shell.pid)["result"])
        self.assertEqual(sonde.rpc("daemon.status")["tracer_pids"], [tracer])
        own = self.rpc_as_nobody(sonde, "strace.detach", pid=shell.pid)["result"]
        self.assertIn("execve", own["syscall_counts"])

    def test_users_cannot_stall_the_daemon(self):
        """strace is theirs to stop, kill and trace: nobody waits for it."""
        sonde = self.open_daemon()
        theirs = self.busy(*harness.as_nobody())
        harness.wait_until(lambda: os.stat(f"/proc/{theirs.pid}").st_uid != 0, "it is theirs")
        for number in (signal.SIGSTOP, signal.SIGKILL):
            tracer = sonde.rpc("strace.attach", pid=theirs.pid)["tracer_pid"]
            self.run_program(*harness.as_nobody(), "kill", f"-{int(number)}", str(tracer))
            sonde.await_snapshots(3)
            sonde.rpc("strace.detach", pid=theirs.pid)
            self.assert_nothing_left(sonde)

    def test_files_by_their_rights(self):
        """The file is made as that user: root's are out of reach, whatever the daemon is."""
        sonde = self.open_daemon()
        theirs = self.busy(*harness.as_nobody())
        harness.wait_until(lambda: os.stat(f"/proc/{theirs.pid}").st_uid != 0, "it is theirs")
        answer = self.rpc_as_nobody(sonde, "strace.trace", pid=theirs.pid,
                                    file=os.path.join(self.directory, "root-only"))
        self.assertFalse(answer["result"]["attached"], answer)
        self.assertIn("Permission denied", answer["result"]["reason"])
        path = os.path.join(self.open_directory(), "theirs")
        answer = self.rpc_as_nobody(sonde, "strace.trace", pid=theirs.pid, file=path)
        self.assertTrue(answer["result"]["attached"], answer)
        self.assertEqual(os.stat(path).st_uid, os.stat(f"/proc/{theirs.pid}").st_uid)
        sonde.rpc("strace.detach", pid=theirs.pid)

    def test_other_rights_than_its_users(self):
        """A setuid program that this user has started is not this user's to look into."""
        sonde = self.open_daemon()
        program = os.path.join(self.open_directory(), "sleep")
        shutil.copy(shutil.which("sleep"), program)
        os.chmod(program, 0o4755)
        process = self.start(*harness.as_nobody(), program, "1000")
        harness.wait_until(lambda: b"sleep" in pathlib.Path(
            f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")[0], "it runs")
        answer = self.rpc_as_nobody(sonde, "strace.attach", pid=process.pid)
        self.assertIn("other rights than its user", answer["result"]["reason"])
        self.assertEqual(tracer_of(process.pid), 0)


class Impostors(Strace):
    """Programs that call themselves strace."""

    def impostor(self, script):
        os.makedirs(self.path("bin"), exist_ok=True)
        self.write("bin/strace", "#!/bin/sh\n" + script, 0o755)
        path = self.path("bin") + ":" + self.environment["PATH"]
        return self.daemon(env={"PATH": path}, interval=0.1)

    def ask(self, sonde, method="strace.attach"):
        """The loop keeps its ticks while it is answered."""
        process = self.busy()
        link = sonde.connect()
        before = sonde.rpc("daemon.status")
        link.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"pid": process.pid}})
        answer = link.read()["result"]
        after = sonde.rpc("daemon.status")
        passed = after["uptime_seconds"] - before["uptime_seconds"]
        self.assertGreaterEqual(after["snapshots"] - before["snapshots"], 0.5 * passed / 0.1 - 2)
        self.assertEqual(tracer_of(process.pid), 0)
        # What is freed is kept for a while by the sanitizers.
        self.assertLess(after["rss_mb"], before["rss_mb"] + (128 if harness.is_sanitized() else 8))
        return answer

    def test_hangs(self):
        sonde = self.impostor("trap '' INT TERM; echo $$ >> \"${0%/*}/pids\"; "
                              "while :; do sleep 0.2; done\n")
        answer = self.ask(sonde)
        self.assertFalse(answer["attached"])
        self.assertIn("did not attach", answer["reason"])
        self.assert_nothing_left(sonde)

    def test_floods(self):
        sonde = self.impostor("trap '' INT; head -c 1000000000 /dev/zero >&2\nexit 0\n")
        answer = self.ask(sonde)
        self.assertFalse(answer["attached"])
        self.assert_nothing_left(sonde)

    def test_floods_with_lines(self):
        sonde = self.impostor("trap '' INT; yes 'strace: Process 1 attached' | "
                              "head -c 1000000000 >&2\n")
        self.assertFalse(self.ask(sonde)["attached"])
        self.assert_nothing_left(sonde)

    def test_garbage(self):
        sonde = self.impostor("head -c 200000 /dev/urandom >&2; echo '% time seconds' >&2; exit 1\n")
        answer = self.ask(sonde)
        self.assertFalse(answer["attached"])
        self.assertTrue(answer["reason"].isprintable(), answer)

    def test_dies_half_way(self):
        """Attached, by its own word, and then a table that is cut."""
        sonde = self.impostor(
            "trap 'echo \"% time seconds usecs/call calls errors syscall\n"
            "------ ------ ------ ------ ------ ------\n"
            " 50.00 0.5 1 7 write\n 49.\" >&2; kill -9 $$' INT\n"
            "echo \"strace: Process ${5} attached\" >&2\n"
            "while :; do sleep 0.05; done\n")
        process = self.busy()
        self.assertTrue(sonde.rpc("strace.attach", pid=process.pid)["attached"])
        self.assertEqual(sonde.rpc("strace.detach", pid=process.pid)["syscall_counts"],
                         {"write": 7})
        self.assert_nothing_left(sonde)

    def test_leaves_children(self):
        sonde = self.impostor("sleep 1000 & echo $! > \"${0%/*}/left\"; exit 0\n")
        self.assertFalse(self.ask(sonde)["attached"])
        left = int(self.read("bin/left"))
        harness.wait_until(lambda: harness.process_state(left) in (None, "Z"), "it is gone")

    def test_does_not_detach(self):
        """Five seconds, then it is killed; what was asked for is answered."""
        sonde = self.impostor("trap '' INT; echo \"strace: Process ${5} attached\" >&2\n"
                              "while :; do sleep 0.2; done\n")
        process = self.busy()
        self.assertTrue(sonde.rpc("strace.attach", pid=process.pid)["attached"])
        began = time.monotonic()
        link = sonde.connect()
        link.send({"jsonrpc": "2.0", "id": 1, "method": "strace.detach",
                   "params": {"pid": process.pid}})
        time.sleep(3)
        answer = sonde.rpc("strace.detach", pid=process.pid)  # asked again, it has no more time
        self.assertLess(time.monotonic() - began, 7)
        self.assertIsNone(answer["syscall_counts"])
        self.assertEqual(answer["reason"], "strace did not detach in time, and was killed")
        self.assertEqual(link.read()["result"], answer)
        self.assert_nothing_left(sonde)

    def test_stopping_does_not_wait_for_it(self):
        sonde = self.impostor("trap '' INT; echo \"strace: Process ${5} attached\" >&2\n"
                              "while :; do sleep 0.2; done\n")
        process = self.busy()
        self.assertTrue(sonde.rpc("strace.attach", pid=process.pid)["attached"])
        tracer = sonde.rpc("daemon.status")["tracer_pids"][0]
        sonde.stop()
        self.assertFalse(harness.is_alive(tracer))

    @harness.needs_root()
    def test_from_where_others_can_write(self):
        """A strace that anybody could have put there is not run."""
        where = self.open_directory()
        path = os.path.join(where, "strace")
        pathlib.Path(path).write_text("#!/bin/sh\ntouch \"${0%/*}/was-run\"\n", encoding="ascii")
        os.chmod(path, 0o755)
        sonde = self.daemon(env={"PATH": where})
        self.assertFalse(sonde.rpc("strace.attach", pid=self.busy().pid)["attached"])
        self.assertFalse(os.path.exists(os.path.join(where, "was-run")))

    def test_run_waits_no_longer_than_it_must(self):
        """A job is not held up by a strace that hangs."""
        os.makedirs(self.path("bin"))
        self.write("bin/strace", "#!/bin/sh\ntrap '' INT\nwhile :; do sleep 0.2; done\n", 0o755)
        config = self.write("own.yaml", "profiler:\n  strace_enabled: true\n")
        environment = dict(self.environment,
                           PATH=self.path("bin") + ":" + self.environment["PATH"])
        result = self.run_sonde("run", "--config", config, "--", "sh", "-c", "sleep 0.3; exit 7",
                                env=environment)
        self.assertEqual(result.status, 7)
        self.assertEqual(result.summary["processes"], 2)
        self.assertEqual(result.summary["left_running"], [])


@needs_strace()
@harness.needs_program("tmux")
class Top(tmux.TestCase, Strace):
    """`sonde top --trace`."""

    def test_on_a_terminal(self):
        process = self.busy()
        self.type(f"{harness.SONDE} top --trace {process.pid}; echo its status $?")
        self.await_screen("write(1, ")
        self.assertNotEqual(tracer_of(process.pid), 0)
        self.press("C-c")
        self.await_screen("its status 0")
        self.assert_untouched(process)

    def test_files_are_left_alone_if_it_cannot_be(self):
        path = self.write("kept", "kept")
        gone = self.start("true")
        gone.wait()
        self.assertEqual(self.run_sonde("top", "--trace", str(gone.pid), "-o", path).status, 1)
        self.assertEqual(self.read("kept"), b"kept")

    def test_reader_that_does_not_read(self):
        """Ctrl-C ends it all the same."""
        process = self.busy()
        top = self.start(harness.SONDE, "top", "--trace", str(process.pid))
        harness.wait_until(lambda: tracer_of(process.pid), "it is traced")
        time.sleep(0.5)  # until the pipe is full
        top.send_signal(signal.SIGINT)
        self.assertEqual(top.wait(harness.DEADLINE), 0)
        self.assert_untouched(process)

    def test_stops_like_any_program(self):
        process = self.busy()
        self.type(f"{harness.SONDE} top --trace {process.pid}; echo its status $?")
        self.await_screen("write(1, ")
        self.press("C-z")
        self.await_screen("Stopped")
        self.type("fg")
        self.press("C-c")
        self.await_screen("detached")
        self.assert_untouched(process)

    def test_to_a_file(self):
        process = self.busy()
        path = self.path("trace")
        top = self.start(harness.SONDE, "top", "--trace", str(process.pid), "-o", path)
        harness.wait_until(lambda: os.path.exists(path) and b"write(" in self.read("trace"),
                           "calls are written")
        top.terminate()
        self.assertEqual(top.wait(harness.DEADLINE), 0)
        self.assert_untouched(process)

    def test_nobody_reads(self):
        process = self.busy()
        done = self.run_program("sh", "-c", f"{harness.SONDE} top --trace {process.pid} | head -3")
        self.assertEqual(len(done.stdout.splitlines()), 3)
        self.assert_untouched(process)

    def test_target_ends(self):
        done = self.run_program("sh", "-c", f"sleep 0.5 & {harness.SONDE} top --trace $!; wait")
        self.assertEqual(done.status, 0, done)
        self.assertIn(b"exited with 0", done.stdout)

    def test_wrong_usage(self):
        for words in (("--trace", "x"), ("--trace", "0"), ("-o", "f"), ("--trace", "1", "--json")):
            self.assertEqual(self.run_sonde("top", *words).status, 2, words)
        gone = self.start("true")
        gone.wait()
        result = self.run_sonde("top", "--trace", str(gone.pid))
        self.assertEqual((result.status, result.stderr),
                         (1, f"sonde: top: process {gone.pid} is gone\n"))


if __name__ == "__main__":
    harness.main()
