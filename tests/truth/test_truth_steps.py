#!/usr/bin/env python3
"""The figures of steps, and of jobs that a scheduler starts, against independent truths: see truth.py."""
import truth
from truth import case, COUNT, IO, PEAK
import harness

ROWS = {"cpu_seconds": "CPU time", "peak_rss_mb": "peak memory", "processes": "number of processes",
        "read_bytes": "I/O", "write_bytes": "I/O"}


@truth.expand
class Steps(truth.Case):
    """A scheduler reports a job with steps to a daemon. Each step is a witness, which starts when the
    daemon knows it."""

    def run_step(self, run_id, number, *command):
        """Runs a step to its end; returns what its witness saw."""
        words, *files = self.below_witness(command, False)
        step = self.start("sh", "-c", 'read -r go; exec "$@"', "sh", *words, cwd=truth.PROGRAMS)
        self.monitor.rpc("sheet.started", job_id=run_id, sheet_num=number, pid=step.pid)
        step.stdin.write(b"go\n")
        step.stdin.flush()
        self.assertEqual(step.wait(harness.DEADLINE), 0)
        self.monitor.rpc("sheet.completed", job_id=run_id, sheet_num=number)
        return self.read_witness(None, *files)

    def check_step(self, run_id, number, run, processes):
        self.case = f"steps: {number}"
        row, = self.await_rows("SELECT * FROM sheets WHERE run_id = ? AND sheet_num = ?", run_id, number)
        for figure, truths, tolerance in (
                ("cpu_seconds", run.cpu(), {"ratio": 0.005, "slack": 0.002}),
                ("peak_rss_mb", (run.witness["peak_rss_kb"] / 1024, "wait4"), PEAK),
                ("processes", (processes, "known"), COUNT),
                ("read_bytes", (int(run.witness["read_bytes"]), "/proc"), IO),
                ("write_bytes", (int(run.witness["write_bytes"]), "/proc"), IO)):
            marker = row.get(f"exactness_{figure}", row.get("exactness"))
            self.check(None, figure, f"{ROWS[figure]} of a step", *truths, tolerance,
                       value=row.get(figure), marker=marker or "none")

    def check_job(self, run_id, runs, processes):
        self.case = "steps: all"
        job = self.await_end(run_id)
        cpu = sum(run.cpu()[0] for run in runs)
        self.check(None, "cpu_seconds", "CPU time of a scheduler's job", cpu, runs[0].cpu()[1],
                   {"ratio": 0.005, "slack": 0.004}, value=job["cpu_seconds"],
                   marker=job["exactness_cpu_seconds"])
        self.check(None, "processes", "number of processes of a scheduler's job", processes, "known", COUNT,
                   value=job["processes"], marker=job["exactness_processes"])

    @case(names=("root, daemon", "root, procfs, daemon"), short=("root, daemon",))
    def steps(self):
        if self.situation.collector == "auto":
            if self.monitor.rpc("daemon.status")["collector"] != "bpf":
                self.skipTest("needs the kernel collector")
            self.column = "kernel"
        run_id = self.monitor.rpc("job.start", job_id=self.mark, total_sheets=3)["run_id"]
        first = self.run_step(run_id, 1, *self.shapes("children", 60, 15))
        second = self.run_step(run_id, 2, *self.shapes("brief", 300))
        third = self.run_step(run_id, 3, *self.shapes("io", 3, 16, 100))
        self.monitor.rpc("job.finish", job_id=run_id, outcome="success")
        self.check_step(run_id, 1, first, 62)
        self.check_step(run_id, 2, second, 2)
        self.check_step(run_id, 3, third, 4)
        self.check_job(run_id, [first, second, third], 68)


if __name__ == "__main__":
    harness.main()
