#!/usr/bin/env python3
"""The figures of steps that a scheduler reports, against wait4 in the scheduler itself."""
import json
import os
import pathlib
import signal
import sys

import daemon
import harness

SCHEDULER = str(pathlib.Path(__file__).with_name("scheduler.py"))


class Steps(daemon.TestCase):
    def run_steps(self, sonde, *kinds):
        """Pairs of what sonde has stored for a step and what the scheduler saw; then the same of the job."""
        done = self.start(sys.executable, SCHEDULER, sonde.socket, *kinds)
        lines = [json.loads(line) for line in done.stdout]
        self.assertEqual(done.wait(harness.DEADLINE), 0)
        job, = self.await_rows("SELECT * FROM jobs WHERE outcome = 'success'")
        steps = self.rows("SELECT * FROM sheets ORDER BY sheet_num")
        self.assertEqual(len(steps), len(kinds))
        return list(zip(steps, lines)), (job, lines[-1])

    def check(self, row, truth, ratio, what):
        """An exact figure is near, a lower bound not above."""
        for figure, value in truth.items():
            with self.subTest(what=what, figure=figure):
                marker = row[f"exactness_{figure}"]
                self.assertIn(marker, ("exact", "lower_bound"))
                slack = {"cpu_seconds": 0.003, "peak_rss_mb": 1, "processes": 0}[figure]
                # wait4 includes the memory of Python, which the shell shared before its exec.
                if marker == "exact" and (figure != "peak_rss_mb" or what == "early-large"):
                    self.assert_near(row[figure], value, ratio=0 if figure == "processes" else ratio,
                                     slack=slack, what=figure)
                elif row[figure] is not None:
                    self.assertLessEqual(row[figure], value + slack + ratio * value)

    def check_all(self, sonde, marker):
        kinds = ("work", "early", "early-large", "zombie")
        steps, (job, used) = self.run_steps(sonde, *kinds)
        for (row, truth), kind in zip(steps, kinds):
            self.check(row, truth, 0.01, kind)
            if marker:
                self.assertEqual([row[f"exactness_{figure}"] for figure in truth], [marker] * 3, kind)
            self.assertEqual(row["starts"], 1)
        # The scheduler uses a little after job.finish, and waits for it.
        self.check(job, used, 0.03, "job")
        return job

    def test_kernel_collector(self):
        sonde = self.daemon()
        if sonde.rpc("daemon.status")["collector"] != "bpf":
            self.skipTest("needs the kernel collector")
        job = self.check_all(sonde, "exact")
        self.assertEqual([job[f"exactness_{figure}"] for figure in ("cpu_seconds", "peak_rss_mb")],
                         ["exact"] * 2)
        self.assertEqual((job["processes"], job["exactness_processes"]), (1 + 3 * 61 + 2, "exact"))

    def test_procfs(self):
        self.check_all(self.daemon("profiler:\n  collector: procfs\n"), None)

    def test_run_that_is_a_step(self):
        """`sonde run --step` beside a daemon: the step has the times and figures of the run."""
        self.daemon()
        # Longer than a daemon on a busy machine takes to accept the run.
        run = self.run_sonde("run", "-q", "--job", "x", "--step", "4", "--", "sh", "-c", "sleep 0.3; (:)")
        self.assertEqual(run.status, 0)
        job, = self.await_rows("SELECT * FROM jobs WHERE outcome = 'success'")
        step, = self.rows("SELECT * FROM sheets")
        for name in ("started_at", "ended_at", "outcome", "cpu_seconds", "peak_rss_mb", "processes",
                     "exactness_cpu_seconds", "exactness_peak_rss_mb", "exactness_processes"):
            self.assertEqual(step[name], job[name], name)
        events = self.rows("SELECT * FROM process_events WHERE details LIKE 'Sheet 4 %' ORDER BY timestamp")
        self.assertEqual([round(event["timestamp"], 3) for event in events],
                         [round(step["started_at"], 3), round(step["ended_at"], 3)])

    def test_figures_stay_after_the_end(self):
        """A step leaves a process behind; its later use counts for the job only. If the step starts again,
        its figures grow."""
        sonde = self.daemon(interval=0.1)
        puppet = self.puppet()
        run_id = sonde.rpc("job.start", job_id="x")["run_id"]
        sonde.rpc("sheet.started", job_id="x", sheet_num=1, pid=puppet.pid)
        sonde.await_pid(puppet.pid, run_id)
        sonde.rpc("sheet.completed", job_id="x", sheet_num=1)
        before, = self.await_rows("SELECT * FROM sheets WHERE outcome = 'success'")
        puppet.order("busy")
        harness.wait_until(lambda: puppet.order("cpu") >= 0.3, "it is busy")
        puppet.order("idle")
        sonde.await_snapshots(3)
        self.assertEqual(self.rows("SELECT * FROM sheets"), [before])

        other = self.puppet()
        sonde.rpc("sheet.started", job_id="x", sheet_num=1, pid=other.pid)
        sonde.await_pid(other.pid, run_id)
        other.exit(0)
        sonde.rpc("sheet.completed", job_id="x", sheet_num=1)
        sonde.rpc("job.finish", job_id="x", outcome="success")
        job = self.await_end(run_id)
        after, = self.rows("SELECT * FROM sheets")
        self.assertEqual((before["starts"], after["starts"]), (1, 2))
        self.assertEqual(after["processes"], before["processes"] + 1)
        self.assertLess(after["cpu_seconds"], 0.3)
        self.assertGreaterEqual(job["cpu_seconds"], 0.29)
        os.kill(puppet.pid, signal.SIGKILL)


if __name__ == "__main__":
    harness.main()
