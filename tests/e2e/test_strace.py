#!/usr/bin/env python3
"""strace: attaching, detaching, no harm to the process, and the same counts as strace alone."""
import json
import os
import pathlib
import select
import signal
import subprocess
import sys

import daemon
import harness
import tmux
import tracing


@tracing.needs_strace()
class ByHand(tracing.TestCase):
    """The daemon's strace counts what an strace without the daemon counts."""

    def by_hand(self, script, *words):
        process = self.gated(script, *words)
        path = self.path("table")
        strace = self.start(tracing.STRACE, "-c", "-w", "-f", "-o", path, "-p", str(process.pid),
                            stderr=subprocess.DEVNULL)
        harness.wait_until(lambda: tracing.tracer_of(process.pid) == strace.pid,
                           "strace has attached")
        self.open_gate(process)
        process.wait(harness.DEADLINE)
        strace.wait(harness.DEADLINE)
        return tracing.table_of(pathlib.Path(path).read_text(encoding="ascii"))

    def by_daemon(self, sonde, script, *words):
        """As a job, so that the figures are stored."""
        process = self.gated(script, *words)
        run_id = sonde.rpc("job.start", job_id="x", pid=process.pid)["run_id"]
        self.attach(sonde, process.pid)
        # It may end before the next snapshot: without one there is no row for its counts.
        sonde.await_pid(process.pid, run_id)
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
        # Attaching interrupts the gate's read, which may be counted twice.
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
        # Both have a share of the time. The share differs between this process and the one that the
        # test traced, so the shares are not compared.
        shares = json.loads(job["syscall_hotspots"])
        self.assertLessEqual({"read", "write"}, set(shares))
        # Its exit event and its last row have the same figures.
        end = self.await_rows("SELECT details FROM process_events WHERE pid = ? AND event_type ="
                              " 'exit' AND details LIKE 'system calls: %'", pid)
        self.assertRegex(end[0]["details"], r"\d+ in all$")
        rows = self.rows("SELECT syscall_counts FROM process_metrics WHERE pid = ?"
                         " ORDER BY snapshot_id", pid)
        self.assertEqual(json.loads(rows[-1]["syscall_counts"]), counts)
        self.assertTrue(all(row["syscall_counts"] is None for row in rows[:-1]))

    def test_python(self):
        """Addresses differ from run to run, and with them the number of memory requests."""
        self.assert_same("exec python3 -S -c 'for i in range(200): open(\"/dev/null\").close()'",
                         leaves_out=("brk", "mmap", "munmap", "mremap", "getrandom", "futex",
                                     "rt_sigreturn"))

    @harness.needs_program("gcc")
    def test_two_hundred_descendants(self):
        """Children of a shell, and driver, compiler and assembler of a file, are followed from their
        first call on. Three counts vary: waits depend on which process is quicker, memory requests
        on addresses, and names of temporary files are random."""
        self.write("one.c", "int main(void) { return 0; }\n")
        _, job, table = self.assert_same(
            "cd $1; mkdir $$; for i in 1 2 3; do gcc -c one.c -o $$/$i.o; done;"
            " for i in $(seq 200); do $2; done; :", self.directory,
            os.path.join(harness.HELPERS, "nothing"),
            leaves_out=("wait4", "rt_sigreturn", "rt_sigsuspend", "brk", "mmap", "munmap", "mremap",
                        "getrandom", "futex"))
        self.assertGreaterEqual(json.loads(job["syscall_counts"])["execve"], 209)
        self.assertGreaterEqual(table["openat"][1], 3)  # libraries are searched in several folders


@tracing.needs_strace()
class Table(tracing.TestCase):
    def test_same_as_the_output_of_strace(self):
        """Counts, errors and percentages of the same table."""
        os.makedirs(self.path("bin"))
        self.write("bin/strace", f"""#!{sys.executable}
import signal, subprocess, sys
strace = subprocess.Popen([{tracing.STRACE!r}, *sys.argv[1:]], stderr=subprocess.PIPE)
signal.signal(signal.SIGINT, signal.SIG_IGN)  # the whole group gets it
with open({self.path("bin/said")!r}, "wb", buffering=0) as said:
    for line in strace.stderr:
        said.write(line)
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()
""", 0o755)
        sonde = self.daemon(env={"PATH": self.path("bin") + ":" + self.environment["PATH"]})
        # No child is left when strace detaches: from a tree that forks all the time, strace itself
        # may take longer than sonde waits for it.
        process = self.gated("for i in 1 2 3 4 5; do cat /nowhere; ls /; done >/dev/null 2>&1;"
                             " echo done; read end")
        self.assertTrue(sonde.rpc("strace.attach", pid=process.pid)["attached"])
        process.stdin.write(b"\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), b"done\n")
        result = sonde.rpc("strace.detach", pid=process.pid)
        table = tracing.table_of(self.read("bin/said").decode())
        self.assertGreater(len(table), 10, (result, sonde.log))
        self.assertEqual(result["syscall_counts"], {name: row[0] for name, row in table.items()})
        for name, row in table.items():
            self.assertAlmostEqual(result["syscall_time_pct"].get(name, 0), row[2], delta=0.011)


@tracing.needs_strace()
class Attaching(tracing.TestCase):
    def test_attach_twice_and_detach(self):
        sonde, process = self.daemon("profiler:\n  scope: all\n"), self.busy()
        tracer = self.attach(sonde, process.pid)
        self.assertEqual(self.attach(sonde, process.pid), tracer)
        status = sonde.rpc("daemon.status")
        self.assertEqual(status["tracer_pids"], [tracer])
        self.assertEqual(status["strace"], f"{tracing.STRACE}, on demand")
        self.await_calls(process)
        result = sonde.rpc("strace.detach", pid=process.pid)
        self.assertGreater(result["syscall_counts"]["write"], 10)
        self.assertAlmostEqual(sum(result["syscall_time_pct"].values()), 100, delta=1)
        self.assert_untouched(process)
        self.assertIsNone(sonde.rpc("strace.detach", pid=process.pid))
        sonde.await_pid(process.pid, None)
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
        self.assertEqual(tracing.tracer_of(child), tracer)

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
            self.await_calls(process)
            self.assertIn("write", sonde.rpc("strace.detach", pid=process.pid)["syscall_counts"])
        for process in processes:
            self.assert_untouched(process)

    def test_batch_and_disconnecting_client(self):
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
        harness.wait_until(lambda: tracing.tracer_of(process.pid), "it is attached all the same")
        sonde.rpc("strace.detach", pid=process.pid)
        self.assert_untouched(process)

    def test_error_messages(self):
        sonde, process = self.daemon(), self.busy()
        gone = self.start("true")
        gone.wait()
        answer = sonde.rpc("strace.attach", pid=gone.pid)
        self.assertEqual((answer["attached"], answer["reason"]),
                         (False, f"process {gone.pid} is gone"))
        by_hand = self.start(tracing.STRACE, "-o", "/dev/null", "-p", str(process.pid),
                             stderr=subprocess.DEVNULL)
        harness.wait_until(lambda: tracing.tracer_of(process.pid) == by_hand.pid,
                           "strace has attached")
        answer = sonde.rpc("strace.attach", pid=process.pid)
        self.assertFalse(answer["attached"])
        self.assertIn(f"already traced by process {by_hand.pid} (strace)", answer["reason"])
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
        self.assertIn("strace was not found in PATH", answer["reason"])
        self.assertIn("not installed", sonde.rpc("daemon.status")["strace"])

    def test_kernel_refuses(self):
        """A process that has made itself undumpable, to the strace of its own user."""
        if not harness.is_root():
            self.skipTest("needs root, to change the user")
        sonde = self.daemon()
        process = self.start(
            *harness.unprivileged(), "python3", "-c",
            "import ctypes, time; ctypes.CDLL(None).prctl(4, 0); print('ready', flush=True);"
            " time.sleep(1000)")
        self.assertEqual(process.stdout.readline(), b"ready\n")
        answer = sonde.rpc("strace.attach", pid=process.pid)
        self.assertFalse(answer["attached"])
        self.assertRegex(answer["reason"], r"may not be traced \(.*not permitted\)")
        self.assertIsNone(process.poll())
        self.assert_nothing_left(sonde)


@tracing.needs_strace()
class Ends(tracing.TestCase):
    """However sonde, strace or a parent ends, the traced process lives on."""

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
        """strace detaches, and the counts are stored with the run."""
        sonde, process = self.daemon(), self.busy()
        run_id = sonde.rpc("job.start", job_id="x", pid=process.pid)["run_id"]
        self.attach(sonde, process.pid)
        self.await_calls(process)
        sonde.await_snapshots(2)
        sonde.stop()
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
        """strace can attach to a stopped process and detach, and the process stays stopped."""
        sonde, process = self.daemon(), self.busy()
        process.send_signal(signal.SIGSTOP)
        harness.wait_until(lambda: harness.process_state(process.pid) == "T", "it stands")
        writes = tracing.writes_of(process.pid)
        self.attach(sonde, process.pid)
        sonde.rpc("strace.detach", pid=process.pid)
        harness.wait_until(lambda: tracing.tracer_of(process.pid) == 0, "it is not traced")
        # The kernel wakes it to stop it again.
        harness.wait_until(lambda: harness.process_state(process.pid) == "T", "it stands again")
        self.assertEqual(tracing.writes_of(process.pid), writes)
        process.send_signal(signal.SIGCONT)
        self.assert_untouched(process)


@tracing.needs_strace()
class Jobs(tracing.TestCase):
    """strace_enabled: every new process of a run is traced without a request."""

    CONFIG = "profiler:\n  strace_enabled: true\n"
    SCRIPT = tracing.AWAIT_TRACER + \
        "await_tracer $$; dd if=/dev/zero of=/dev/null bs=1 count=2000 status=none; exit 3"

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
        self.assertEqual(result.summary["processes"], 2)
        self.check_run(result.summary["run_id"])

    def test_run_under_a_daemon(self):
        """The daemon's configuration applies, and strace may end after the run."""
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
        """Its cause does not contain its system calls."""
        config = self.write("own.yaml", self.CONFIG)
        result = self.run_sonde("run", "--config", config, "--", "sh", "-c",
                                tracing.AWAIT_TRACER + "await_tracer $$; kill -TERM $$")
        self.assertRegex(result.summary["cause"], r"^killed by SIGTERM")
        self.assertNotIn("system calls", result.summary["cause"])

    def test_processes_left_running(self):
        """strace detaches when the run is over."""
        self.daemon(self.CONFIG)
        pid_file = self.path("pid")
        self.run_sonde("run", "--", "sh", "-c",
                       tracing.AWAIT_TRACER +
                       f"dd if=/dev/zero of=/dev/null bs=1 2>/dev/null & echo $! > {pid_file}; "
                       "await_tracer $!")
        left = int(pathlib.Path(pid_file).read_text(encoding="ascii"))
        harness.wait_until(lambda: tracing.tracer_of(left) == 0, "it is detached")
        self.assertTrue(harness.is_alive(left))

    def test_steps(self):
        sonde = self.daemon(self.CONFIG)
        process = self.busy()
        sonde.rpc("job.start", job_id="x")
        sonde.rpc("sheet.started", job_id="x", sheet_num=1, pid=process.pid)
        harness.wait_until(lambda: tracing.tracer_of(process.pid), "its step is traced")
        self.await_calls(process)
        answer = sonde.rpc("sheet.completed", job_id="x", sheet_num=1)
        self.assertIn("syscall_hotspot", answer["resource_context"])
        self.assert_untouched(process)
        self.await_rows("SELECT 1 FROM process_metrics WHERE pid = ? AND syscall_counts IS NOT NULL",
                        process.pid)

    def test_nested_runs(self):
        """The figures of a run include those of its inner runs."""
        config = self.write("own.yaml", self.CONFIG)
        result = self.run_sonde("run", "--config", config, "--", harness.SONDE, "run", "-q", "--",
                                "sh", "-c", self.SCRIPT,
                                env=harness.without_leak_check(self.environment))
        self.assertEqual(result.status, 3)
        self.assertGreaterEqual(result.summary["syscall_counts"]["write"], 2000)


@tracing.needs_strace()
class FullTraces(tracing.TestCase):
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

    def test_default_path(self):
        sonde, process = self.daemon(), self.busy()
        answer = sonde.rpc("strace.trace", pid=process.pid)
        self.assertTrue(answer["file"].startswith(os.path.join(self.state, "traces")), answer)
        self.assertEqual(os.stat(os.path.dirname(answer["file"])).st_mode & 0o777, 0o700)
        sonde.rpc("strace.detach", pid=process.pid)

    def test_not_allowed(self):
        sonde = self.daemon("profiler:\n  strace_full_on_demand: false\n")
        self.assertEqual(sonde.error("strace.trace", pid=self.busy().pid, file="/tmp/x"), -32004)


def await_full_pipe(pid):
    """Waits until the standard output of a process, a pipe without a reader, is full."""
    fd = os.open(f"/proc/{pid}/fd/1", os.O_WRONLY | os.O_NONBLOCK)
    try:
        harness.wait_until(lambda: not select.select([], [fd], [], 0)[1], "the pipe is full")
    finally:
        os.close(fd)


@tracing.needs_strace()
@harness.needs_program("tmux")
class Top(tmux.TestCase, tracing.TestCase):
    """`sonde top --trace`."""

    def test_on_a_terminal(self):
        process = self.busy()
        self.type(f"{harness.SONDE} top --trace {process.pid}; echo its status $?")
        self.await_screen("write(1, ")
        self.assertNotEqual(tracing.tracer_of(process.pid), 0)
        self.press("C-c")
        self.await_screen("its status 0")
        self.assert_untouched(process)

    def test_files_are_unchanged_on_failure(self):
        path = self.write("kept", "kept")
        gone = self.start("true")
        gone.wait()
        self.assertEqual(self.run_sonde("top", "--trace", str(gone.pid), "-o", path).status, 1)
        self.assertEqual(self.read("kept"), b"kept")

    def test_stalled_reader(self):
        """Ctrl-C ends it anyway."""
        process = self.busy()
        top = self.start(harness.SONDE, "top", "--trace", str(process.pid))
        harness.wait_until(lambda: tracing.tracer_of(process.pid), "it is traced")
        await_full_pipe(top.pid)
        top.send_signal(signal.SIGINT)
        self.assertEqual(top.wait(harness.DEADLINE), 0)
        self.assert_untouched(process)

    def is_clear(self):
        """Whether no call is on the screen; lines that have scrolled off are forgotten."""
        self.tmux("clear-history")
        return "write(1, " not in self.screen()

    def test_stops_like_any_program(self):
        process = self.busy()
        self.type(f"{harness.SONDE} top --trace {process.pid}; echo its status $?")
        self.await_screen("write(1, ")
        self.press("C-z")
        self.await_screen("Stopped")
        # A key before the shell has made it the foreground job would go to the shell.
        self.type("clear")
        harness.wait_until(self.is_clear, "the screen is clear")
        self.type("fg")
        self.await_screen("write(1, ")
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

    def test_reader_ends(self):
        process = self.busy()
        done = self.run_program("sh", "-c", f"{harness.SONDE} top --trace {process.pid} | head -3")
        self.assertEqual(len(done.stdout.splitlines()), 3)
        self.assert_untouched(process)

    def test_target_ends(self):
        done = self.run_program("sh", "-c", "sh -c \"$0\" & "
                                f"{harness.SONDE} top --trace $!; wait",
                                tracing.AWAIT_TRACER + "await_tracer $$")
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
