#!/usr/bin/env python3
"""sonde run: CPU and memory compared with the commands' own getrusage or with GNU time."""
import os
import shlex
import tempfile
import unittest

import harness

LS_LOOP = 'i=0; while [ $i -lt 1500 ]; do ls -l /var/run >/dev/null; i=$((i+1)); done'


def exact_options():
    """Without the kernel collector there are none: its own tests state why."""
    return () if harness.why_no_kernel_collector() else ("--exact",)


class Cpu(harness.TestCase):
    def assert_cpu(self, result, exactness="exact"):
        self.assert_near(result.summary["cpu_seconds"], result.figure("cpu"), what="cpu_seconds")
        self.assertEqual(result.summary["exactness"]["cpu_seconds"], exactness)

    def test_one_process(self):
        result = self.run_job(*self.victim("burn", 400))
        self.assert_cpu(result)
        # The loop uses user time, not kernel time.
        self.assertGreater(result.summary["user_seconds"], result.summary["system_seconds"])

    def test_too_short_to_be_sampled(self):
        self.assert_cpu(self.run_job(*self.victim("burn", 20), options=("--interval", "10s")))

    def test_threads(self):
        result = self.run_job(*self.victim("burn", 250, 3))
        self.assertGreaterEqual(result.summary["cpu_seconds"], 0.75)
        self.assert_processes(result.summary, 1)
        self.assert_cpu(result)

    def test_leader_that_ended_before_its_threads(self):
        result = self.run_job(*self.victim("leader-exit", 500, 60), options=("--interval", "50ms"))
        self.assert_cpu(result)
        self.assert_processes(result.summary, 1)
        self.assertGreaterEqual(result.summary["peak_rss_mb"], 60)

    def test_reaped_children(self):
        result = self.run_job(*self.victim("burn-children", 4, 150))
        self.assertGreaterEqual(result.summary["cpu_seconds"], 0.6)
        self.assert_processes(result.summary, 5)
        self.assert_cpu(result)

    def test_daemon_that_forked_twice(self):
        result = self.run_job(*self.victim("orphan", 300))
        self.assertGreaterEqual(result.summary["cpu_seconds"], 0.3)
        self.assert_processes(result.summary, 3)
        self.assert_cpu(result)

    @harness.needs_program("setsid")
    def test_new_session(self):
        result = self.run_job("setsid", "--fork", "--wait", *self.victim("burn", 200))
        self.assert_processes(result.summary, 2)
        self.assert_cpu(result)

    def test_parent_that_ignores_its_children(self):
        """The kernel discards their figures; the sampled ones remain, marked as sampled."""
        result = self.run_job(*self.victim("ignore-children", 2, 1500))
        self.assertEqual(result.figure("kernel"), 0)  # else the test would check nothing
        burned = result.figure("cpu")
        self.assertEqual(result.summary["exactness"]["cpu_seconds"], "lower_bound")
        self.assertLessEqual(result.summary["cpu_seconds"], burned * 1.02)
        self.assertGreaterEqual(result.summary["cpu_seconds"], burned * 0.80)
        self.assertIn("≥", result.stderr)

    @harness.needs_program("time")
    def test_many_short_processes(self):
        """1,500 times ls: none lives long enough to be sampled."""
        result = self.run_sonde("run", "--", "time", "-o", self.path("time"), "-f", "%U %S",
                                "sh", "-c", LS_LOOP)
        self.assertEqual(result.status, 0, result)
        truth = sum(map(float, self.read("time").split()))
        # GNU time rounds each of the two down to 10 ms.
        self.assert_near(result.summary["cpu_seconds"], truth, ratio=0.02, slack=0.025,
                         what="cpu_seconds")
        self.assertEqual(result.summary["exactness"]["cpu_seconds"], "exact")
        if harness.has_connector():
            self.assertGreaterEqual(result.summary["processes"], 1490)
        self.assertLessEqual(result.summary["processes"], 1502)  # time, sh and the ls

    def test_many_short_processes_and_many_samples(self):
        """Some are sampled at the moment they are reaped: no figure is lost."""
        summary = self.run_job("sh", "-c", LS_LOOP, options=("--interval", "10ms")).summary
        self.assertEqual(summary["exactness"]["cpu_seconds"], "exact")
        self.assertEqual(summary["exactness"]["peak_rss_mb"], "exact")

    @harness.needs_program("time")
    @harness.needs_memory(1024)
    def test_expensive_exits(self):
        """Releasing the memory is system time, most of it after the exit was reported."""
        script = "; ".join([" ".join(self.victim("alloc", 400, 0))] * 4)
        for options in ((), exact_options() or ("--interval", "10m")):
            result = self.run_sonde("run", *options, "--", "time", "-o", self.path("time"), "-f",
                                    "%U %S", "sh", "-c", script)
            self.assertEqual(result.status, 0, result)
            for name, truth in zip(("user_seconds", "system_seconds"), self.read("time").split()):
                # GNU time rounds it down to 10 ms.
                self.assert_near(result.summary[name], float(truth), slack=0.025, what=name)
                self.assertEqual(result.summary["exactness"][name], "sampled")
            self.assertIn("system ~ ", result.stderr)

    def test_killed_command(self):
        result = self.run_sonde("run", "--", "sh", "-c",
                                " ".join(self.victim("burn", 300)) + "; kill -KILL $$")
        self.assertEqual(result.status, 137, result)
        self.assert_cpu(result)

    def test_wall_time(self):
        result = self.run_job("sleep", "0.3")
        self.assertGreaterEqual(result.summary["wall_seconds"], 0.3)
        self.assertLess(result.summary["cpu_seconds"], 0.1)
        self.assertLess(result.summary["wall_seconds"], harness.DEADLINE)


class Memory(harness.TestCase):
    @unittest.skipIf(harness.is_sanitized(),
                     "AddressSanitizer makes sonde large, and ru_maxrss survives exec")
    def test_small_command_is_not_charged_with_sonde(self):
        for options in sorted({(), exact_options()}):
            result = self.run_sonde("run", *options, "--", "true")
            self.assertEqual(result.status, 0, result)
            self.assertLess(result.summary["peak_rss_mb"], 4)
            self.assertGreater(result.summary["peak_rss_mb"], 0)

    @harness.needs_memory(3072)
    def test_large_and_brief(self):
        """2 GiB for 20 ms, between two samples."""
        summary = self.run_job(*self.victim("alloc", 2048, 20),
                               options=("--interval", "10m")).summary
        self.assertGreaterEqual(summary["peak_rss_mb"], 2048)
        self.assertLess(summary["peak_rss_mb"], 2048 + 16)
        self.assertEqual(summary["exactness"]["peak_rss_mb"], "exact")
        self.assertGreaterEqual(summary["peak_total_mb"], summary["peak_rss_mb"])

    @harness.needs_program("time")
    def test_peak_is_the_kernels(self):
        result = self.run_sonde("run", "--", "time", "-o", self.path("time"), "-f", "%M",
                                *self.victim("alloc", 150, 0))
        self.assertEqual(result.status, 0, result)
        truth_mb = int(self.read("time")) / 1024
        self.assertGreaterEqual(truth_mb, 150)
        self.assert_near(result.summary["peak_rss_mb"], truth_mb, ratio=0, slack=0.5,
                         what="peak_rss_mb")

    @harness.needs_program("time")
    def test_program_before_an_exec(self):
        for options in ((), exact_options() or ("--interval", "10m")):
            script = " ".join(self.victim("alloc-exec", 200, "true")) + "; true"
            result = self.run_sonde("run", *options, "--", "time", "-o", self.path("time"), "-f",
                                    "%M", "sh", "-c", script)
            self.assertEqual(result.status, 0, result)
            truth_mb = int(self.read("time")) / 1024
            self.assertGreaterEqual(truth_mb, 200)
            self.assert_near(result.summary["peak_rss_mb"], truth_mb, ratio=0, slack=1,
                             what="peak_rss_mb")

    @harness.needs_memory(1024)
    def test_two_at_once(self):
        process = self.start_sonde("--", *self.victim("overlap", 2, 200))
        harness.wait_until(lambda: self.stored(
            "SELECT 1 FROM process_metrics WHERE rss_mb >= 200 GROUP BY snapshot_id"
            " HAVING count(*) = 2"), "both are sampled")
        result = self.finish(process)
        self.assertEqual(result.status, 0, result)
        summary = result.summary
        self.assertGreaterEqual(summary["peak_total_mb"], 400)
        self.assertLess(summary["peak_total_mb"], 420)
        self.assertGreaterEqual(summary["peak_unique_mb"], 400)
        self.assertLessEqual(summary["peak_unique_mb"], summary["peak_total_mb"])
        self.assertGreaterEqual(summary["peak_rss_mb"], 200)
        self.assertLess(summary["peak_rss_mb"], 216)
        self.assertEqual(summary["exactness"]["peak_total_mb"], "sampled")
        self.assertEqual(summary["peak_processes"], 3)  # with their parent
        self.assertEqual(summary["exactness"]["peak_processes"], "sampled")

    def test_two_in_sequence(self):
        """The largest process and the largest sum, not the sum of peaks."""
        script = "; ".join(" ".join(self.victim("alloc", 120, 300)) for _ in range(2))
        summary = self.run_job("sh", "-c", script).summary
        self.assertGreaterEqual(summary["peak_rss_mb"], 120)
        self.assertLess(summary["peak_total_mb"], 150)

    def test_of_a_daemon(self):
        """The peak of a process that sonde inherits and reaps."""
        script = "(" + " ".join(self.victim("alloc", 120, 0)) + " & ) ; sleep 0.001"
        summary = self.run_job("sh", "-c", script, options=("--wait", "--interval", "10m")).summary
        self.assertGreaterEqual(summary["peak_rss_mb"], 120)


class InputOutput(harness.TestCase):
    @harness.needs_program("time")
    def test_each_byte_counts_once(self):
        """The kernel adds the I/O of a reaped child to that of its parent, here at three levels."""
        # the directory for temporary files may be in memory
        directory = self.enterContext(tempfile.TemporaryDirectory(dir=os.path.dirname(harness.SONDE)))
        os.chmod(directory, 0o1777)
        path = os.path.join(directory, "file")
        script = f"dd if=/dev/zero of={path} bs=1M count=32 2>/dev/null; sleep 0.15; rm -f {path}"
        for _ in range(3):
            script = "sh -c " + shlex.quote(script) + "; sleep 0.15"
        for options, prefix in sorted({((), ()), (exact_options(), ()), ((), harness.unprivileged())}):
            with self.subTest(options=options, prefix=prefix):
                truth_path = os.path.join(directory, f"time-{len(self.started)}")
                result = self.run_sonde("run", "--no-store", *options, "--", "time", "-o", truth_path,
                                        "-f", "%I %O", "sh", "-c", script, prefix=prefix,
                                        cwd=directory)
                self.assertEqual(result.status, 0, result)
                read, written = (512 * int(blocks) for blocks in self.read(truth_path).split())
                if not written:
                    self.skipTest("the build directory is in memory")
                self.assertGreaterEqual(written, 32 << 20)
                # `time` also reads its own program and writes its file.
                self.assert_near(result.summary["write_bytes"], written, ratio=0, slack=1 << 16,
                                 what="write_bytes")
                self.assert_near(result.summary["read_bytes"], read, ratio=0, slack=1 << 20,
                                 what="read_bytes")
                self.assertEqual(result.summary["exactness"]["read_bytes"], "exact")
                self.assertEqual(result.summary["exactness"]["write_bytes"], "exact")


class Nested(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.environment = harness.without_leak_check(self.environment)

    @harness.needs_program("time")
    def test_both_figures_make_sense(self):
        """The outer one includes the inner one's job and sonde itself; the inner one does not."""
        inner_path = self.path("inner")
        result = self.run_job("time", "-o", self.path("time"), "-f", "%U %S", harness.SONDE, "run",
                              "--summary", inner_path, "--", *self.victim("burn-children", 2, 200))
        inner = harness.strict_json(self.read("inner").decode())
        self.assert_near(inner["cpu_seconds"], result.figure("cpu"), what="inner cpu_seconds")
        self.assert_processes(inner, 3)
        self.assert_processes(result.summary, 5)
        # What the kernel reports for the inner sonde and all that it has reaped. GNU time rounds each
        # of the two down to 10 ms. One run had 10 ms more than that explains, for a reason that is not
        # known. The error that this test looks for is 400 ms: the job is missing, or counted twice.
        truth = sum(map(float, self.read("time").split()))
        self.assertGreater(truth, inner["cpu_seconds"])
        self.assertGreaterEqual(result.summary["cpu_seconds"], truth)
        self.assert_near(result.summary["cpu_seconds"], truth, slack=0.1, what="outer cpu_seconds")
        self.assertNotEqual(result.summary["run_id"], inner["run_id"])
        self.assertEqual(result.stderr.count("success"), 2)

    def test_status_and_signals_go_through_both(self):
        for script, status in (("exit 5", 5), ("kill -USR1 $$", 138)):
            with self.subTest(script=script):
                result = self.run_sonde("run", "--", harness.SONDE, "run", "-q", "--", "sh", "-c",
                                        script)
                self.assertEqual(result.status, status, result)

    def test_orphan_belongs_to_the_inner_run(self):
        inner_path = self.path("inner")
        result = self.run_job(harness.SONDE, "run", "-q", "--summary", inner_path, "--",
                              *self.victim("orphan", 150))
        inner = harness.strict_json(self.read("inner").decode())
        self.assert_processes(inner, 3)
        self.assert_processes(result.summary, 4)
        # The victim's figure lacks the ends of its three processes: 0.4 ms, 1 ms beside other work. One
        # run on a busy machine had 12.9 ms more, for a reason that is not known. The error that this
        # test looks for is 150 ms: the orphan is missing, or counted twice.
        self.assert_near(inner["cpu_seconds"], result.figure("cpu"), slack=0.025)


if __name__ == "__main__":
    harness.main()
