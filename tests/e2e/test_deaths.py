#!/usr/bin/env python3
"""Why a run failed: real programs that fail in many ways, without and with a daemon. The report must
be true and must not claim more than was seen."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import unittest

import daemon
import harness

# The v1 controller: the unified hierarchy often has none.
MEMORY_CGROUP = "/sys/fs/cgroup/memory"
LIMIT_MB = 64


def can_limit_memory():
    try:
        path = os.path.join(MEMORY_CGROUP, f"sonde-probe-{os.getpid()}")
        os.mkdir(path)
        os.rmdir(path)
        return os.path.exists(os.path.join(MEMORY_CGROUP, "memory.oom_control"))
    except OSError:
        return False


class Deaths(harness.TestCase):
    """Without a daemon; the class below repeats them with one."""

    def run_dead(self, *command, status, options=()):
        """Runs a command that fails; returns its summary and its report, which agree."""
        result = self.run_sonde("run", *options, "--", *command)
        self.assertEqual(result.status, status, result)
        return self.report_of(result)

    def report_of(self, result):
        summary = result.summary
        report = self.run_json("report", summary["run_id"])
        self.assertEqual(report["job"]["cause"], summary["cause"])
        self.assertEqual([link["pid"] for link in report["job"]["chain"]],
                         [link["pid"] for link in summary["chain"]])
        text = self.run_sonde("report", summary["run_id"]).stdout.decode()
        self.assertIn(summary["cause"], text)
        self.assertIn(summary["cause"], result.stderr)
        return summary, report, text

    def script(self, name, text):
        return self.write(name, f"#!/bin/sh\n{text}\n", 0o755)

    def program(self, name):
        """A program of that name, which sleeps for the time of its argument."""
        path = self.path(name)
        shutil.copy(shutil.which("sleep"), path)
        return path

    def named(self, program, pid=r"\d+"):
        """The first link of a cause, as a pattern. Until the kernel collector is loaded, names are
        read from /proc. On a busy machine a short process may end before that; then only its pid is
        known."""
        return rf"({program} \({pid}\)|pid {pid})"

    def ends(self, chain):
        return [(link["event_type"], link["exit_code"], link["signal_num"]) for link in chain]

    def assert_chain_is_a_family(self, chain, report):
        """Each process is the parent of the one before, by the stored spawn events."""
        self.assertEqual(len({link["pid"] for link in chain}), len(chain))
        events = self.run_json("events", "--job", report["job"]["run_id"], "--type", "spawn",
                               "--limit", "1000")
        parents = {event["pid"]: event["ppid"] for event in events}
        for child, parent in zip(chain, chain[1:]):
            self.assertEqual(parents[child["pid"]], parent["pid"])
            self.assertLessEqual(child["timestamp"], parent["timestamp"])

    # ---- exit statuses ----

    def test_success_has_no_cause(self):
        result = self.run_job("sh", "-c", "false; true")
        self.assertIsNone(result.summary["cause"])
        self.assertEqual(result.summary["chain"], [])
        self.assertEqual(self.run_json("report", result.summary["run_id"])["job"]["chain"], [])

    def test_exit_status(self):
        summary, report, text = self.run_dead("sh", "-c", "exit 3", status=3)
        self.assertEqual(summary["cause"], "exit status 3")
        self.assertEqual(self.ends(summary["chain"]), [("exit", 3, None)])
        self.assertNotIn("chain of failures", text)
        self.assertEqual(report["storms"], [])

    @harness.needs_connector()
    def test_status_of_a_grandchild(self):
        """Passed up through two shells."""
        inner = self.script("inner.sh", f"{self.program('work')} 0.3; sh -c 'sleep 0.2; exit 3'")
        outer = self.script("outer.sh", f"{inner}; exit $?")
        summary, report, text = self.run_dead(outer, status=3)
        self.assertEqual(self.ends(summary["chain"]), [("exit", 3, None)] * 3)
        first = summary["chain"][0]
        self.assertRegex(summary["cause"], rf"^exit status 3: {self.named('sh', first['pid'])} exited"
                                           r" 3 → (inner\.)?sh exited 3 → (outer\.)?sh exited 3$")
        self.assert_chain_is_a_family(summary["chain"], report)
        self.assertEqual(text.count(summary["cause"]), 1)
        self.assertNotIn("chain of failures", text)

    @harness.needs_connector()
    def test_failure_that_was_handled(self):
        """A failure that the command handled is no cause."""
        cases = {
            "false; sleep 0.1; exit 3": (3, "exit status 3"),
            "sh -c 'exit 3'; sleep 0.1; exit 4": (4, "exit status 4"),
            "sh -c 'exit 1'; sh -c 'exit 0'; exit 1": (1, "exit status 1"),
            "sh -c 'exit 7' || true; sleep 0.1; exit 1": (1, "exit status 1"),
        }
        for script, (status, cause) in cases.items():
            with self.subTest(script=script):
                summary, _, _ = self.run_dead("sh", "-c", script, status=status)
                self.assertEqual(summary["cause"], cause)

    @harness.needs_connector()
    def test_second_failure(self):
        """The first was handled, the second was not."""
        summary, _, _ = self.run_dead(
            "sh", "-c", "sh -c 'exit 5'; sleep 0.1; sh -c 'sleep 0.1; exit 5'; exit $?", status=5)
        self.assertEqual(len(summary["chain"]), 2)
        events = self.run_json("events", "--job", summary["run_id"], "--type", "exit")
        failed = [event for event in events if event["exit_code"] == 5]
        self.assertEqual([event["pid"] for event in failed[1:]],
                         [link["pid"] for link in summary["chain"]])

    @harness.needs_connector()
    def test_program_that_continues_after_a_failure(self):
        """The program ran on for some time: its exit status is its own."""
        summary, _, _ = self.run_dead(
            "python3", "-c", "import subprocess, sys, time\n"
                             "subprocess.run(['false'])\ntime.sleep(2.5)\nsys.exit(1)", status=1)
        self.assertEqual(summary["cause"], "exit status 1")

    def large_program(self):
        """Allocates much memory, prints that it is ready, and ends with its input."""
        return self.write("large.py", "import mmap, os, sys\n"
                                      "memory = mmap.mmap(-1, 300 << 20)\n"
                                      "memory.madvise(mmap.MADV_NOHUGEPAGE)\n"
                                      "memory.madvise(23)  # MADV_POPULATE_WRITE\n"
                                      "print('ready', flush=True)\n"
                                      "sys.stdin.read()\n"
                                      "os._exit(0)\n")

    @harness.needs_connector()
    @harness.needs_memory(1000)
    def test_exit_beside_a_slow_exit(self):
        """The exit of a process with much memory takes long; exits of others do not wait for it."""
        large = self.large_program()
        for name in ("gate", "ready"):
            os.mkfifo(self.path(name))
        summary, report, _ = self.run_dead(
            "sh", "-c", "cd $1; (python3 $2 <gate >ready &); exec 9>gate; read x <ready; exec 9>&-\n"
                        "sleep 0.02; sh -c 'sh -c \"exit 3\"; exit $?'; exit $?",
            "sh", self.directory, large, status=3)
        self.assertRegex(summary["cause"],
                         rf"^exit status 3: {self.named('sh')} exited 3 → (sh|pid \d+) exited 3 → "
                         r"sh exited 3$")
        self.assert_chain_is_a_family(summary["chain"], report)

    @harness.needs_connector()
    def test_exit_status_used_as_an_answer(self):
        """`grep -q` fails as an answer; a step that is run with check=True is a cause."""
        script = "import subprocess, sys\nsubprocess.run({}, check={})\nsys.exit(5)"
        asked = script.format(["grep", "-q", "x", "/dev/null"], False)
        summary, _, _ = self.run_dead("python3", "-c", asked, status=5)
        self.assertEqual(summary["cause"], "exit status 5")
        needed = script.format(["sh", "-c", "sleep 0.2; exit 1"], True)
        summary, report, _ = self.run_dead("python3", "-c", needed, status=1)
        self.assertRegex(summary["cause"],
                         rf"^exit status 1: {self.named('sh')} exited 1 → python3 exited 1$")
        self.assert_chain_is_a_family(summary["chain"], report)

    # ---- signals ----

    def test_segfault(self):
        summary, _, _ = self.run_dead("python3", "-c", "import ctypes; ctypes.string_at(0)",
                                      status=128 + signal.SIGSEGV)
        self.assertTrue(summary["cause"].startswith("killed by SIGSEGV"), summary["cause"])
        self.assertNotIn("sent by pid", summary["cause"])
        self.assertEqual(self.ends(summary["chain"]), [("kill", None, signal.SIGSEGV)])

    @harness.needs_connector()
    def test_segfault_below_a_shell(self):
        crash = "import ctypes, time; time.sleep(0.3); ctypes.string_at(0)"
        summary, report, _ = self.run_dead("sh", "-c", f"python3 -c '{crash}'; exit $?",
                                           status=128 + signal.SIGSEGV)
        self.assertRegex(summary["cause"],
                         rf"^exit status 139: {self.named('python3')} killed by SIGSEGV.*"
                         r" → sh exited 139$")
        self.assert_chain_is_a_family(summary["chain"], report)

    @harness.needs_connector()
    @harness.needs_program("make")
    def test_kill_of_a_compiler(self):
        """`kill -9` from a known process, far below the command: the report names the sender if it
        was seen, and otherwise none."""
        self.program("cc1")
        self.script("cc", "./cc1 300 || exit 1")
        self.write("Makefile", "all: a.o\na.o:\n\t./cc a.c\n")
        process = self.start_sonde("--", "make", "-C", self.directory)
        cc1 = harness.wait_until(lambda: self.find_below(process.pid, b"./cc1\0"), "the compiler")
        os.kill(cc1, signal.SIGKILL)
        result = self.finish(process)
        self.assertEqual(result.status, 2, result)
        summary, report, _ = self.report_of(result)
        chain = summary["chain"]
        self.assertEqual(self.ends(chain), [("kill", None, signal.SIGKILL), ("exit", 2, None)]
                         if len(chain) == 2 else
                         [("kill", None, signal.SIGKILL), ("exit", 1, None), ("exit", 2, None)])
        self.assertEqual(chain[0]["pid"], cc1)
        self.assertIn(chain[0]["sender_pid"], (None, os.getpid()))
        self.assertRegex(summary["cause"], rf"^exit status 2: {self.named('cc1', cc1)} killed by"
                                           r" SIGKILL(, sent by pid .*)? → .*make exited 2$")
        self.assertEqual("sent by" in summary["cause"], chain[0]["sender_pid"] is not None)
        self.assert_chain_is_a_family(chain, report)

    def test_signal_that_was_passed_on(self):
        process = self.start_sonde("--", "sh", "-c", "echo ready $$; exec sleep 300")
        self.await_ready(process)
        process.send_signal(signal.SIGTERM)
        summary, _, text = self.report_of(self.finish(process))
        self.assertIn(f"killed by SIGTERM, sent by pid {os.getpid()} (", summary["cause"])
        self.assertEqual(summary["chain"][0]["sender_pid"], os.getpid())
        self.assertIn("test_deaths", text)

    @harness.needs_connector()
    @harness.needs_program("timeout")
    def test_timeout(self):
        summary, _, _ = self.run_dead("timeout", "0.5", "sleep", "300", status=124)
        self.assertRegex(summary["cause"], rf"^exit status 124: {self.named('sleep')} killed by SIGTERM"
                                           r"(, sent by pid \d+ \(timeout 0\.5 sleep 300\))?"
                                           r" → timeout exited 124$")

    # ---- memory ----

    @unittest.skipUnless(can_limit_memory(), "needs the v1 memory controller, and root")
    def test_killed_for_memory(self):
        """The kernel's counter shows that it was an OOM kill. sonde reports it as certain if it has
        seen it, else as possible; the figures of the last seconds show the growth."""
        group = os.path.join(MEMORY_CGROUP, f"sonde-test-{os.getpid()}")
        os.mkdir(group)
        self.addCleanup(lambda: harness.wait_until(lambda: self.remove_group(group), group))
        pathlib.Path(group, "memory.limit_in_bytes").write_text(f"{LIMIT_MB << 20}",
                                                                encoding="ascii")
        hog = ("import time\nkept = []\nwhile True:\n    kept.append(bytearray(2 << 20))\n"
               "    time.sleep(0.03)\n")
        summary, report, text = self.run_dead(
            "sh", "-c", f"echo $$ > {group}/cgroup.procs; exec python3 -c '{hog}'",
            status=128 + signal.SIGKILL, options=("--interval", "50ms"))
        control = pathlib.Path(group, "memory.oom_control").read_text(encoding="ascii")
        self.assertIn("oom_kill 1", control)
        was_seen = bool(self.run_json("events", "--job", summary["run_id"], "--type", "oom"))
        if was_seen:
            self.assertTrue(summary["cause"].startswith("killed by the kernel for memory (OOM)"),
                            summary["cause"])
            self.assertEqual(summary["chain"][0]["event_type"], "oom")
            oom = self.run_json("report", "--since", "1m ago")["oom_kills"]
            self.assertIn(summary["chain"][0]["pid"], [event["pid"] for event in oom])
        else:
            self.assertRegex(summary["cause"], r"^killed by SIGKILL, perhaps out of memory: the "
                                               r"kernel made (1 OOM kill|\d+ OOM kills) during the"
                                               r" run$")
        points = report["last_memory"]
        self.assertGreaterEqual(len(points), 3)
        self.assertEqual(sorted(point["timestamp"] for point in points),
                         [point["timestamp"] for point in points])
        # Not the last sample: the kernel frees the memory of a process that it kills before the
        # process has ended, and a sample may be taken in between.
        largest = max(point["rss_mb"] for point in points)
        self.assertGreater(largest, points[0]["rss_mb"] + LIMIT_MB / 4)
        self.assertLessEqual(largest, LIMIT_MB + 32)
        self.assertLessEqual(points[-1]["timestamp"], report["job"]["ended_at"])
        self.assertIn("memory in the last 30 s (all processes)", text)

    def remove_group(self, path):
        try:
            os.rmdir(path)
        except OSError:
            return False
        return True

    # ---- small things ----

    def find_below(self, pid, command):
        for child in harness.children_of(pid):
            with contextlib.suppress(OSError):
                if pathlib.Path(f"/proc/{child}/cmdline").read_bytes().startswith(command):
                    return child
        return None


class DeathsUnderDaemon(Deaths):
    """The daemon sees and stores the same."""

    def setUp(self):
        super().setUp()
        self.daemon = daemon.Daemon(self, interval=0.1).start()
        self.addCleanup(self.daemon.end)

    def test_cause_of_a_scheduler_is_kept(self):
        """The cause that a scheduler reports is kept; the chain is reported beside it."""
        with self.subTest("its own words"):
            job = self.conduct(cause="the tests failed")
            self.assertEqual(job["cause"], "the tests failed")
        with self.subTest("no words"):
            job = self.conduct()
            self.assertEqual(job["exit_code"], 3)
            if harness.has_connector():
                self.assertTrue(job["cause"].startswith("exit status 3"), job["cause"])

    def conduct(self, **figures):
        process = subprocess.Popen(["sh", "-c", "read x; sh -c 'sleep 0.2; exit 3'; exit $?"],
                                   stdin=subprocess.PIPE)
        self.started.append(process)
        run_id = self.daemon.rpc("job.start", job_id="conducted", pid=process.pid)["run_id"]
        process.communicate(b"go\n")
        self.assertEqual(process.returncode, 3)
        answer = self.daemon.rpc("job.finish", job_id=run_id, outcome="failure", exit_code=3, **figures)
        job = self.run_json("report", run_id)["job"]
        self.assertEqual(answer.get("cause", figures.get("cause")), job["cause"])
        if harness.has_connector():
            self.assertEqual(self.ends(job["chain"]), [("exit", 3, None)] * 2)
        return job

    def start_kept(self, script):
        """`sonde run` of a script that begins with open_gate(), once the daemon keeps the run."""
        os.mkfifo(self.path("gate"))
        process = self.start_sonde("--interval", "100ms", "--job", "kept", "--", "sh", "-c",
                                   f"read x < gate; {script}", cwd=self.directory)
        harness.wait_until(lambda: self.daemon.processes(job_id="kept"), "the daemon keeps the run")
        return process

    def open_gate(self):
        pathlib.Path(self.path("gate")).write_text("\n", encoding="ascii")

    @harness.needs_connector()
    @harness.needs_memory(1000)
    def test_exit_beside_a_slow_exit_of_another_job(self):
        stranger = subprocess.Popen(["python3", self.large_program()], stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE)
        self.started.append(stranger)
        self.assertEqual(stranger.stdout.readline(), b"ready\n")
        # Only the daemon is sure to know the program of a process that ends at once.
        process = self.start_kept("sh -c 'exit 3'; exit $?")
        stranger.stdin.close()
        self.open_gate()
        summary, report, _ = self.report_of(self.finish(process))
        self.assertRegex(summary["cause"], r"^exit status 3: sh \(\d+\) exited 3 → sh exited 3$")
        self.assert_chain_is_a_family(summary["chain"], report)

    @harness.needs_connector()
    def test_run_that_was_handed_over(self):
        """A daemon that starts during a run has not seen how its processes began. The stored chain
        is that of `sonde run`."""
        process = self.start_kept("sh -c 'exit 3'; exit $?")
        self.daemon.kill()
        self.daemon.start()
        harness.wait_until(lambda: self.daemon.processes(job_id="kept"), "it keeps the run again")
        self.open_gate()
        summary, report, _ = self.report_of(self.finish(process))
        self.assertEqual(self.ends(summary["chain"]), [("exit", 3, None)] * 2)
        self.assertEqual(self.ends(report["job"]["chain"]), [("exit", 3, None)] * 2)

    def test_secrets_are_hidden(self):
        """In the sentence and in the chain."""
        self.run_dead("sh", "-c", "sh -c 'sleep 0.2; exit 3' --password=hunter2; exit $?", status=3)
        rows = self.stored("SELECT cause, chain FROM jobs")
        self.assertEqual(len(rows), 1)
        self.assertNotIn("hunter2", str(rows))


if __name__ == "__main__":
    harness.main()
