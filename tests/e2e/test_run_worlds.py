#!/usr/bin/env python3
"""`sonde run` in unusual environments: no /proc, another /proc, hidepid, odd parents."""
import os
import shutil
import signal
import unittest

import harness


class Proc(harness.TestCase):
    """sonde does not make up what /proc does not show."""

    def assert_not_sampled(self, result, unknown=()):
        self.assertIn("could not sample", result.stderr)
        self.assertIn("/proc is not mounted, or shows another pid namespace", result.stderr)
        self.assertEqual(result.summary["num_samples"], 0)
        self.assertEqual(result.summary["processes"], 1)
        self.assertEqual(result.summary["left_running"], [])
        # nothing is known of system calls, so nothing can be exact
        self.assertIsNone(result.summary["syscall_hotspots"])
        self.assertEqual({name: how for name, how in result.summary["exactness"].items()
                          if how != "lower_bound"}, dict.fromkeys(("syscall_hotspots", *unknown)))

    @harness.needs_namespaces()
    def test_of_another_pid_namespace(self):
        result = self.run_job("true", prefix=("unshare", "--pid", "--fork"))
        self.assert_not_sampled(result)

    @harness.needs_namespaces()
    @unittest.skipIf(harness.is_sanitized(), "AddressSanitizer itself needs /proc")
    def test_not_mounted(self):
        world = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc; exec "$0" "$@"')
        # without /proc/self/io, it is not known whether the kernel counts I/O
        self.assert_not_sampled(self.run_job("true", prefix=world), ("read_bytes", "write_bytes"))

    @harness.needs_namespaces()
    @harness.needs_connector()
    def test_hidden_member_is_counted_once_and_named(self):
        """A setuid program under hidepid cannot be read by the user who started it."""
        self.environment = harness.without_leak_check(self.environment)
        hidden = os.path.join(self.open_directory(), "hidden")
        shutil.copy("/bin/sleep", hidden)
        os.chmod(hidden, 0o4755)
        world = ("unshare", "--mount", "sh", "-c",
                 'mkdir -p "$0/p" && mount -t proc -o hidepid=2 proc "$0/p" && '
                 'mount --move "$0/p" /proc && exec "$@"', self.directory,
                 "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        os.chmod(self.directory, 0o777)
        # Not sampled before it is hidden: files that were opened then would still show it.
        result = self.run_job("sh", "-c", f"sleep 0.3; {hidden} 300 & while [ -e /proc/$! ]; do :; done",
                              options=("--interval", "10s"), prefix=world)
        # a process whose fork was lost in a full queue can no longer be found
        if harness.saw_every_process(result.summary):
            self.assertEqual(len(result.summary["left_running"]), 1, result.summary)
            self.assertEqual(result.summary["processes"], 3)
            self.assertEqual(result.summary["exactness"]["cpu_seconds"], "lower_bound")
        result = self.run_job(hidden, "0.3", prefix=world)
        if harness.saw_every_process(result.summary):  # after a lost event it may count twice
            self.assertEqual(result.summary["processes"], 1)
        self.assertEqual(result.summary["exactness"]["cpu_seconds"], "exact")


class Parents(harness.TestCase):
    """Children with an unusual parent."""

    def test_children_thrown_away_by_a_flag(self):
        result = self.run_job(*self.victim("no-child-wait", 150, 4))
        self.assertEqual(result.summary["exactness"]["cpu_seconds"], "lower_bound")
        self.assertEqual(result.summary["exactness"]["peak_rss_mb"], "lower_bound")

    @harness.needs_connector()
    def test_sibling_by_clone_parent(self):
        # the kernel collector knows more if it is loaded in time
        self.write("config/sonde/sonde.yaml", "profiler:\n  collector: procfs\n")
        read_end, write_end = os.pipe()
        result = self.run_job(*self.victim("sibling", 60), stdin=read_end)
        self.assertEqual(result.summary["processes"], 3)
        # the times of reaped children of a living process are in ticks of 10 ms
        self.assertGreaterEqual(result.summary["cpu_seconds"], 0.04)
        self.assertEqual(result.summary["exactness"]["cpu_seconds"], "lower_bound")
        self.assertEqual(len(result.summary["left_running"]), 1)
        os.close(read_end)
        os.close(write_end)


class Waiting(harness.TestCase):
    """--wait, after the command has ended."""

    def test_wall_covers_what_was_waited_for(self):
        burn = " ".join(self.victim("burn", 300))
        result = self.run_job("sh", "-c", f"{burn} >/dev/null &", options=("--wait",))
        self.assertGreaterEqual(result.summary["wall_seconds"], 0.29)
        self.assertLessEqual(result.summary["cpu_seconds"], result.summary["wall_seconds"] * 1.2)

    def test_an_ignored_hangup_does_not_end_it(self):
        os.mkfifo(self.path("gate"))
        process = self.start("sh", "-c", "trap '' HUP; exec \"$0\" \"$@\"", harness.SONDE, "run", "-q",
                             "--wait", "--summary", self.path("summary"), "--", "sh", "-c",
                             f"(read gate <{self.path('gate')}) & echo $! >{self.path('done')}")
        left = int(harness.wait_until(
            lambda: os.path.exists(self.path("done")) and self.read("done"), "the command"))
        harness.wait_until(lambda: harness.parent_of(left) == process.pid, "the command has ended")
        process.send_signal(signal.SIGHUP)
        self.write("gate", "")  # the kernel drops a signal that is ignored when it is sent
        self.assertEqual(process.wait(harness.DEADLINE), 0)
        summary = harness.strict_json(self.read("summary").decode())
        self.assertEqual(summary["left_running"], [])


class Summary(harness.TestCase):
    """The file that the summary is written to."""

    def test_failed_start_keeps_the_old_summary(self):
        self.write("summary", "of the last run")
        result = self.run_sonde("run", "--summary", self.path("summary"), "--", "/nonexistent")
        self.assertEqual(result.status, 127)
        self.assertEqual(self.read("summary"), b"of the last run")

    def test_pipe_without_a_reader(self):
        os.mkfifo(self.path("fifo"))
        result = self.run_sonde("run", "--summary", self.path("fifo"), "--", "true")
        self.assertEqual(result.status, 125)
        self.assertIn("it is a pipe without a reader", result.stderr)

    def test_standard_output(self):
        result = self.run_sonde("run", "-q", "--summary", "-", "--", "true")
        self.assertEqual(harness.strict_json(result.stdout)["outcome"], "success")


if __name__ == "__main__":
    harness.main()
