#!/usr/bin/env python3
"""sonde run: which processes belong to the run, how many there were, and what is left running."""
import os
import signal
import subprocess

import harness


# A background job of a shell has the shell's command line until its exec.
AWAIT_EXEC = "until tr '\\0' _ </proc/$!/cmdline | grep -q ^sleep_; do :; done"


class Storm(harness.TestCase):
    @harness.needs_connector()
    def test_ten_thousand_forks(self):
        summary = self.run_job(*self.victim("fork-storm", 10000)).summary
        self.assertEqual(summary["processes"], 10001)
        self.assertEqual(summary["exactness"]["processes"], "exact")

    @harness.needs_connector()
    def test_ten_thousand_vforks(self):
        """On one CPU. With several, a parent can reap a child that still ends on another CPU: its
        figure, the truth here, then lacks up to 2 µs of each child (20 ms in all), which the kernel
        collector counts."""
        one_cpu = ("taskset", "-c", str(min(os.sched_getaffinity(0))))
        result = self.run_job(*self.victim("fork-storm", 10000, "vfork"), prefix=one_cpu)
        self.assertEqual(result.summary["processes"], 10001)
        self.assert_near(result.summary["cpu_seconds"], result.figure("cpu"))

    @harness.needs_connector(harness.unprivileged())
    @harness.needs_program("setpriv")
    def test_as_an_unprivileged_user(self):
        """The kernel's queue is smaller for an ordinary user. It holds the events of all processes
        of the machine: if it overflows, the loss is reported and no process is invented."""
        result = self.run_job(*self.victim("fork-storm", 10000), prefix=harness.unprivileged())
        if harness.saw_every_process(result.summary):
            self.assertEqual(result.summary["processes"], 10001)
        else:
            self.assertLessEqual(result.summary["processes"], 10001)
        self.assert_near(result.summary["cpu_seconds"], result.figure("cpu"))

    @harness.needs_connector()
    def test_crowd(self):
        summary = self.run_job(*self.victim("crowd", 300, 300)).summary
        self.assertEqual(summary["processes"], 301)

    @harness.needs_connector()
    def test_threads_are_no_processes(self):
        summary = self.run_job(*self.victim("burn", 30, 20)).summary
        self.assertEqual(summary["processes"], 1)

    @harness.needs_connector()
    def test_status_of_a_process_with_threads(self):
        """It is not that of another thread whose end is reported last: sonde's writer, which ends
        just before sonde."""
        self.write("config/sonde/sonde.yaml", "profiler:\n  collector: procfs\n")
        summary = self.run_job("sh", "-c", 'for i in $(seq 20); do "$@"; done; true', "sh",
                               harness.SONDE, "run", "-q", "--", "false").summary
        self.assertEqual(summary["failed_exit_count"], 40)
        self.assertEqual(summary["exactness"]["processes"], "exact")


class WithoutConnector(harness.TestCase):
    """The kernel reports no forks and exits: sonde finds processes by sampling."""

    # In a new pid namespace the kernel rejects the connector.
    namespace = ("unshare", "--fork", "--pid", "--mount-proc")

    def polled(self, *command, options=()):
        result = self.run_job(*command, options=options, prefix=self.namespace)
        self.assertEqual(result.summary["exactness"]["processes"], "lower_bound")
        return result

    def run_crowd(self, count, prefix):
        """Runs this many children at once, until a snapshot has all of them."""
        process = self.start(*prefix, harness.SONDE, "run", "--job", "crowd", "--summary",
                             self.path("summary"), "--", *self.victim("crowd", count),
                             stderr=subprocess.PIPE)
        self.await_ready(process)
        harness.wait_until(lambda: self.stored(
            "SELECT 1 FROM process_metrics WHERE job_id = 'crowd' GROUP BY snapshot_id"
            " HAVING count(*) > ?", count), "all of them are found")
        _, errors = process.communicate(timeout=harness.DEADLINE)
        self.check_sanitizers(errors)
        summary = harness.strict_json(self.read("summary").decode())
        self.assertEqual(summary["exactness"]["processes"], "lower_bound")
        self.assertEqual(summary["processes"], count + 1)
        self.assertIn("≥", errors.decode())

    @harness.needs_namespaces()
    def test_crowd_is_found(self):
        self.run_crowd(300, self.namespace)

    @harness.needs_namespaces()
    @harness.needs_connector()
    @harness.needs_program("strace")
    def test_answer_to_another_listener(self):
        """The kernel sends its answers to all listeners, also to one whose request it ignores."""
        self.environment = harness.without_leak_check(self.environment)
        self.start("sh", "-c", 'while :; do "$0" run -q --no-store -- true; done', harness.SONDE)
        # time for the other's answers, between this one's request and its wait for an answer
        late = ("strace", "-o", os.devnull, "-e", "trace=sendto", "-e",
                "inject=sendto:delay_exit=500000:when=1")
        result = self.run_job("true", prefix=self.namespace + late)
        self.assertEqual(result.summary["exactness"]["processes"], "lower_bound")

    @harness.needs_namespaces()
    def test_cpu_is_still_exact(self):
        for command in (("fork-storm", 1000), ("burn-children", 3, 150), ("orphan", 200),
                        ("burn", 100, 2)):
            with self.subTest(command=command):
                result = self.polled(*self.victim(*command))
                self.assert_near(result.summary["cpu_seconds"], result.figure("cpu"))
                self.assertEqual(result.summary["exactness"]["cpu_seconds"], "exact")

    @harness.needs_namespaces()
    def test_left_running_is_found(self):
        result = self.polled("sh", "-c", f"sleep 300 & {AWAIT_EXEC}")
        self.assertEqual([left["command"] for left in result.summary["left_running"]],
                         ["sleep 300"])

    @harness.needs_namespaces()
    def test_ignored_children(self):
        result = self.polled(*self.victim("ignore-children", 2, 1000))
        burned = result.figure("cpu")
        self.assertEqual(result.summary["exactness"]["cpu_seconds"], "lower_bound")
        self.assertGreaterEqual(result.summary["cpu_seconds"], burned * 0.75)
        self.assertLessEqual(result.summary["cpu_seconds"], burned * 1.02)

    @harness.needs_program("strace")
    def test_kernel_without_it(self):
        """The kernel has no such protocol; sonde reports only what follows from that."""
        self.environment = harness.without_leak_check(self.environment)
        traced = ("strace", "-o", self.path("trace"), "-e", "trace=socket", "-e",
                  "inject=socket:error=EPROTONOSUPPORT")
        if subprocess.run([*traced, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
            self.skipTest("strace may not trace here")
        result = self.run_job(*self.victim("burn-children", 2, 150), prefix=traced)
        self.assertIn(b"(INJECTED)", self.read("trace"))
        self.assertEqual(result.summary["exactness"]["processes"], "lower_bound")
        self.assert_near(result.summary["cpu_seconds"], result.figure("cpu"))
        # processes that live long enough to be sampled are all counted
        self.run_crowd(2, traced)


class LeftRunning(harness.TestCase):
    def test_is_named_and_lives_on(self):
        result = self.run_job("sh", "-c", f"sleep 300 & {AWAIT_EXEC}; echo left $!")
        pid = int(result.figure("left"))
        self.assertEqual(result.summary["left_running"], [{"pid": pid, "command": "sleep 300"}])
        self.assertIn(f"pid {pid} still running: sleep 300", result.stderr)
        self.assertTrue(harness.is_alive(pid))
        self.assertEqual(result.summary["outcome"], "success")

    def test_each_is_named(self):
        result = self.run_job("sh", "-c", "for i in 1 2 3 4 5 6 7 8; do "
                              f"sleep 30$i & {AWAIT_EXEC}; done")
        self.assertEqual(sorted(left["command"] for left in result.summary["left_running"]),
                         [f"sleep 30{i}" for i in range(1, 9)])
        self.assertIn("and 3 more", result.stderr)

    def test_daemon_is_named(self):
        """One that forked twice and left its session."""
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        os.mkfifo(fifo + ".end")
        process = self.start_sonde("--", *self.victim("daemon", fifo))
        with open(fifo, encoding="ascii") as lines:
            pid = int(lines.read())
        result = self.finish(process)
        self.assertEqual([left["pid"] for left in result.summary["left_running"]], [pid])
        self.assertTrue(harness.is_alive(pid))
        self.assert_processes(result.summary, 3)

    def test_hostile_name_is_clean_on_stderr(self):
        name = b"\x1b[31mred\x07\xff\xe2\x80\xae"
        script = 'exec 3<&0; "$0" named "$1" <&3 >"$2" & read line <"$2"'
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        victim = "./v"  # a short path: the command line is cut to 60 columns
        os.symlink(self.victim()[0], self.path(victim))
        read_end, write_end = os.pipe()
        with open(self.path("err"), "wb") as errors:
            process = self.start(harness.SONDE, "run", "--summary", self.path("summary"), "--",
                                 "sh", "-c", script, victim, name, fifo, stdin=read_end,
                                 stderr=errors, cwd=self.directory)
            self.assertEqual(process.wait(harness.DEADLINE), 0)
        os.close(read_end)
        os.close(write_end)
        text = self.read("err").decode("utf-8")
        self.assertIn("still running", text)
        self.assertIn("\\x1b[31mred\\a\ufffd\\u202e", text)
        self.assertNotRegex(text, r"[\x00-\x09\x0b-\x1f\x7f\u202e]")
        summary = harness.strict_json(self.read("summary").decode("utf-8"))
        self.assertIn("\x1b[31mred", summary["left_running"][0]["command"])

    def test_wait_waits_for_it(self):
        """sonde waits for processes that the command left running, and counts them."""
        burn = " ".join(self.victim("burn", 300))
        result = self.run_sonde("run", "--wait", "--", "sh", "-c", f"{burn} & exit 3")
        self.assertEqual(result.status, 3, result)
        self.assert_near(result.summary["cpu_seconds"], result.figure("cpu"))
        self.assertEqual(result.summary["left_running"], [])
        self.assert_processes(result.summary, 2)

    def test_wait_waits_for_a_daemon(self):
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        os.mkfifo(fifo + ".end")
        process = self.start_sonde("--wait", "--", *self.victim("daemon", fifo, 200))
        with open(fifo, encoding="ascii") as lines:
            pid = int(lines.read())
        with open(fifo + ".end", "wb"):
            # It lives as long as this is open; sonde waits for no other process.
            harness.wait_until(lambda: harness.children_of(process.pid) == [pid],
                               "the daemon is sonde's only child")
            self.assertIsNone(process.poll())
        result = self.finish(process)
        self.assertEqual(result.status, 0, result)
        self.assertEqual(result.summary["left_running"], [])
        self.assertGreaterEqual(result.summary["cpu_seconds"], 0.2)

    def test_waiting_can_be_ended(self):
        """A signal ends the waiting, but not the processes; the status is the command's."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number.name):
                process = self.start_sonde("--wait", "--", "sh", "-c",
                                           "sleep 300 & echo ready $!; exit 4")
                pid, _ = self.await_ready(process)
                harness.wait_until(lambda: harness.children_of(process.pid) == [pid],
                                   "the command has ended")
                process.send_signal(number)
                result = self.finish(process)
                self.assertEqual(result.status, 4, result)
                self.assertEqual([left["pid"] for left in result.summary["left_running"]], [pid])
                self.assertTrue(harness.is_alive(pid))
                os.kill(pid, signal.SIGKILL)

    def test_zombies_are_not_left_running(self):
        """Children that the command never reaped end with it and are counted."""
        result = self.run_job(*self.victim("zombies", 3))
        self.assertEqual(result.summary["left_running"], [])
        self.assert_processes(result.summary, 4)

    def test_stopped_one_is_left_running(self):
        result = self.run_job("sh", "-c", "sleep 300 & kill -STOP $!; echo left $!")
        pid = int(result.figure("left"))
        self.assertEqual([left["pid"] for left in result.summary["left_running"]], [pid])
        self.assertTrue(harness.is_alive(pid))


class Strangers(harness.TestCase):
    """Children that sonde had before its exec, as after `exec sonde run` in a script."""

    def test_do_not_count(self):
        """One that ends, and is reaped by sonde, while the command waits for that."""
        burn = " ".join(self.victim("burn", 250))
        script = f'{burn} >/dev/null & exec "$0" run --summary "$1" -- ' \
                 'tail -s 0.02 --pid=$! -f /dev/null'
        result = self.run_program("sh", "-c", script, harness.SONDE, self.path("summary"))
        self.assertEqual(result.status, 0, result)
        summary = harness.strict_json(self.read("summary").decode())
        self.assert_processes(summary, 1)
        self.assertLess(summary["cpu_seconds"], 0.2)
        self.assertEqual(summary["exactness"]["cpu_seconds"], "exact")

    def test_are_not_named(self):
        script = 'sleep 300 & exec "$0" run --summary "$1" -- sleep 0.25'
        for prefix in ((), WithoutConnector.namespace if harness.is_root() else ()):
            with self.subTest(prefix=prefix):
                result = self.run_program("sh", "-c", script, harness.SONDE, self.path("summary"),
                                          prefix=prefix)
                self.assertEqual(result.status, 0, result)
                summary = harness.strict_json(self.read("summary").decode())
                self.assertEqual(summary["left_running"], [])
                self.assertEqual(summary["processes"], 1)

    def test_are_not_waited_for(self):
        """A reader of sonde's output ends with sonde: waiting for it would be a deadlock."""
        script = 'exec "$0" run --wait -- echo hello > >(cat >"$1")'
        target = self.path("out")
        result = self.run_program("bash", "-c", script, harness.SONDE, target)
        self.assertEqual(result.status, 0, result)
        harness.wait_until(lambda: os.path.exists(target) and self.read("out") == b"hello\n",
                           "the reader's file")


if __name__ == "__main__":
    harness.main()
