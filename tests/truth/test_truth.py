#!/usr/bin/env python3
"""The figures of `sonde run` against independent truths: see truth.py.

    TRUTH=all SONDE=build/sonde HELPERS=build/tests/e2e tests/truth/test_truth.py [NAME…]

A short form by default; with TRUTH=all every case runs in every situation. `make truth` prints the table.
"""
import os
import pathlib
import tempfile
import time
import unittest

import expectations
import truth
from truth import case, COUNT, CPU, IO, PEAK
import harness

MANY = 1500 if truth.IS_FULL else 400
NOTHING = os.path.join(harness.HELPERS, "nothing")
UNREAPED = "CPU time, children that no process waits for"
STORED = ("cpu_seconds", "user_seconds", "system_seconds", "peak_rss_mb", "peak_total_mb", "peak_unique_mb",
          "wall_seconds", "processes", "failed_exit_count", "kill_count", "read_bytes", "write_bytes")


@truth.expand
class Cpu(truth.Case):
    """CPU time and the number of processes."""

    def check_cpu(self, run, row="CPU time", **tolerance):
        self.check(run, "cpu_seconds", row, *run.cpu(), {**CPU, **tolerance})

    def check_processes(self, run, count, source="known"):
        self.check(run, "processes", "number of processes", count, source, COUNT)

    def check_all(self, run, processes, **tolerance):
        """Of processes that were all waited for."""
        self.check_cpu(run, **tolerance)
        self.check_processes(run, processes)
        self.check_split(run, **tolerance)

    @case()
    def one_after_another(self):
        self.check_all(self.run_case(*self.shapes("children", 6, 80)), 8)

    @case(short=("root",))
    def in_the_kernel(self):
        self.check_all(self.run_case(*self.shapes("system", 3, 100)), 5)

    @case(short=("user",))
    def threads(self):
        self.check_all(self.run_case(*self.victim("burn", 250, 3)), 2)

    @case(short=())
    def leader_ends_first(self):
        self.check_all(self.run_case(*self.victim("leader-exit", 300, 60)), 2)

    @case(short=("root",))
    def last_act_is_expensive(self):
        """The kernel frees the memory of a process after the process has reported its exit."""
        self.check_all(self.run_case(*self.shapes("teardown", 4, 150)), 6)

    @case(short=("root, --exact",))
    def too_short_to_sample(self):
        self.check_all(self.run_case(*self.victim("burn", 20), options=("--interval", "10s")), 2)

    @case()
    def many_short_processes(self):
        """Each is too short to be sampled. wait4 misses the last microseconds of a process that its
        parent reaps before the scheduler has accounted for it."""
        run = self.run_case(os.path.join(harness.HELPERS, "storm"), str(MANY), "4", NOTHING)
        self.check_all(run, MANY + 2, ratio=0.005)

    @case(columns=("kernel", "late", "events"), short=("root",))
    def counted_by_accounting(self):
        """One record of process accounting for each process. The job has a pid namespace of its own."""
        run = self.run_case("sh", "-c", "i=0; while [ $i -lt 150 ]; do /bin/true; i=$((i+1)); done",
                            is_accounted=True)
        if run.ended is None:
            self.skipTest("needs process accounting")
        self.check_processes(run, run.ended + 1, "acct")  # and the witness
        self.check_cpu(run, "CPU time of a container, seen from outside", ratio=0.005)

    @case(short=("root, --exact", "user"))
    def unreaped(self):
        run = self.run_case(*self.shapes("unreaped", 3, 150))
        if run.cgroup_seconds is None:
            self.skipTest("needs a cgroup")
        self.check_cpu(run, UNREAPED)
        self.check_processes(run, 5)

    @case(short=("root", "user"))
    def orphan(self):
        run = self.run_case(*self.shapes("orphan", 200), options=("--wait",))
        if run.cgroup_seconds is None:
            self.skipTest("needs a cgroup")
        self.check_cpu(run)
        self.check_processes(run, 4)

    @case(short=())
    def sibling(self):
        run = self.run_case(*self.shapes("sibling", 200))
        if run.cgroup_seconds is None:
            self.skipTest("needs a cgroup")
        self.check_cpu(run)
        self.check_processes(run, 3)

    @case(short=("root",))
    def nested(self):
        """The outer run includes the inner one, and sonde itself."""
        inner = os.path.join(self.open_directory(), "inner")
        run = self.run_case(harness.SONDE, "run", "-q", "--no-store", "--summary", inner, "--",
                            *self.shapes("children", 3, 100))
        self.check_cpu(run)
        summary = harness.strict_json(pathlib.Path(inner).read_text(encoding="utf-8"))
        self.check_bracket("inner CPU", 0.3, summary["cpu_seconds"], 0.32, "known")

    @case()
    def ends(self):
        """Children that fail, and children that a signal kills."""
        run = self.run_case(*self.shapes("ends", 5, 3, 15))
        self.check_processes(run, 12)
        for figure in ("failed_exit_count", "kill_count"):
            self.check(run, figure, "processes that failed or were killed", 5, "known", COUNT,
                       marker=run.summary["exactness"]["processes"])

    @case(short=("user",))
    def rate(self):
        """The mean CPU use is at most the largest. That one may be more than two threads can use: if the
        processor is taken from sonde, it reads the time of the threads after the end of the interval."""
        summary = self.run_case(*self.victim("burn", 500, 2)).summary
        mean = summary["cpu_seconds"] / summary["wall_seconds"] * 100
        self.check_bracket("max_cpu_pct", mean * 0.98, summary["max_cpu_pct"], float("inf"), "mean")

    @case(short=("root, --exact",))
    def wall(self):
        """Longer than the witness saw, shorter than the caller of sonde saw."""
        began = time.monotonic()
        run = self.run_case("sleep", "0.3")
        self.check_bracket("wall_seconds", run.witness["wall_seconds"] - 0.001,
                           run.summary["wall_seconds"], time.monotonic() - began, "clock")


@truth.expand
class Memory(truth.Case):
    """Peaks of one process and of all processes together."""

    def check_peak(self, run):
        if harness.is_sanitized():
            self.skipTest("a sanitized sonde is large, and ru_maxrss survives its exec")
        self.check(run, "peak_rss_mb", "peak memory of the largest process",
                   run.witness["peak_rss_kb"] / 1024, "wait4", PEAK)

    @case()
    def brief(self):
        """Allocated and freed between two samples."""
        self.check_peak(self.run_case(*self.shapes("brief", 200), options=("--interval", "10s")))

    @case(short=("root, --exact",))
    def before_exec(self):
        self.check_peak(self.run_case(*self.shapes("exec-after", 200, 300)))

    def check_together(self, *shape, processes):
        run, together = self.hold_case(*self.shapes(*shape))
        self.check_interval(run, together)
        self.check(run, "peak_processes", "largest number of processes at one time", processes, "known",
                   COUNT)
        self.check_peak(run)

    @case(short=("user",))
    def private(self):
        self.check_together("private", 4, 60, processes=6)

    @case(short=("root, --exact",))
    def own_shared(self):
        self.check_together("own-shared", 4, 60, processes=6)

    @case(short=())
    def common_shared(self):
        self.check_together("common-shared", 4, 60, processes=6)

    @case(short=("root", "user"))
    def inherited(self):
        self.check_together("inherited", 5, 100, 10, processes=7)

    @case(short=())
    def inherited_huge(self):
        self.check_together("inherited-huge", 5, 100, 10, processes=7)

    @case(short=())
    def mapped_file(self):
        self.check_together("mapped", 4, 60, processes=6)


@truth.expand
class Stored(truth.Case):
    @case(short=("root", "user"))
    def stored(self):
        """What `sonde report` shows later, by the daemon or from the run's own store, is the summary."""
        summary = self.run_case("sh", "-c", '"$0" children 3 100; "$0" ends 2 3 15',
                                *self.shapes()).summary
        job = self.await_end(summary["run_id"])
        for figure in STORED:
            marker = summary["exactness"].get(figure)
            problem = "" if job[figure] == summary[figure] or (
                isinstance(job[figure], float) and abs(job[figure] - summary[figure]) < 0.001) else "differs"
            if f"exactness_{figure}" in job and job[f"exactness_{figure}"] != marker:
                problem = f"stored as {job[f'exactness_{figure}']}"
            self.line(figure, summary[figure], "summary", job[figure], marker, problem)


@truth.expand
class InputOutput(truth.Case):
    """Bytes read from and written to a disk."""

    def check_io(self, levels):
        # the temporary directory may be in memory
        with tempfile.TemporaryDirectory(prefix="sonde-truth-", dir=truth.PROGRAMS) as place:
            os.chmod(place, 0o1777)
            run = self.run_case("env", "-C", place, *self.shapes("io", levels, 32, 400))
        if run.witness["write_bytes"] < 32 << 20:
            self.skipTest("needs a disk below the build directory")
        for figure in ("read_bytes", "write_bytes"):
            self.check(run, figure, "I/O", int(run.witness[figure]), "/proc", IO)

    @case(short=())
    def io_of_one(self):
        self.check_io(1)

    @case(short=("root, --exact",))
    def io_below_parents(self):
        """The kernel adds the I/O of a child to that of the parent that waits for it."""
        self.check_io(4)


@truth.expand
class Events(truth.Case):
    """Who sent a signal, whom the kernel killed, how often a process called the kernel."""

    @case(columns=("kernel",), short=("root, --exact",))
    def sender(self):
        run = self.run_case("bash", "-c", "sleep 60 & kill -KILL $!; wait $!; exit 0")
        run_id = run.summary["run_id"]
        kill, = self.await_rows("SELECT * FROM process_events WHERE run_id = ? AND event_type = 'kill'",
                                run_id)
        self.line("sender of a signal", "bash", "known", (kill["sender_command"] or "-").split()[0], None,
                  "" if "bash" in (kill["sender_command"] or "") else "another sender")

    @case(columns=("kernel",), short=())
    def out_of_memory(self):
        group = pathlib.Path(f"/sys/fs/cgroup/memory/sonde-truth-{os.getpid()}")
        if not group.parent.is_dir() or not harness.is_root() or self.situation.user != "root":
            self.skipTest("needs root and the memory controller of cgroup v1")
        group.mkdir()
        self.addCleanup(group.rmdir)
        (group / "memory.limit_in_bytes").write_text("33554432", encoding="ascii")
        run = self.run_case("sh", "-c", f"echo $$ > {group}/cgroup.procs; \"$@\"; exit 0", "sh",
                            *self.shapes("brief", 100))
        kills = dict(line.split() for line in (group / "memory.oom_control").read_text("ascii").splitlines())
        self.check(run, "oom_count", "processes that the kernel killed for memory", int(kills["oom_kill"]),
                   "cgroup", COUNT, marker="exact")

    @case(columns=("kernel",), short=("root, --exact",))
    @harness.needs_program("strace")
    def system_calls(self):
        if self.situation.user != "root" or self.situation.daemon:
            self.skipTest("the same as without a daemon")
        table = os.path.join(self.open_directory(), "table")
        run = self.run_case("strace", "-f", "-c", "-o", table, *self.shapes("calls", 3000),
                            options=("--syscalls",))
        for line in pathlib.Path(table).read_text("ascii").splitlines():
            words = line.split()
            if words[-1] in ("getpriority", "setpgid"):
                self.check(run, words[-1], "system calls, with `--syscalls`", int(words[3]), "strace", COUNT,
                           value=run.summary["syscall_counts"].get(words[-1]),
                           marker=run.summary["exactness"]["syscall_hotspots"])


class Judgement(unittest.TestCase):
    """What the cases would report."""

    def test_values(self):
        tolerance = {"ratio": 0.01, "slack": 0}
        for marker, value, is_right in (
                ("exact", 100.5, True), ("exact", 98, False), ("exact", 102, False),
                ("lower_bound", 3, True), ("lower_bound", 102, False),
                ("sampled", 3, True), ("sampled", 102, False), ("exact", None, True)):
            with self.subTest(marker=marker, value=value):
                self.assertEqual(truth.judge(marker, value, 100, tolerance) == "", is_right)

    def test_markers(self):
        for marker, value, is_right in (("exact", 1, True), ("lower_bound", 1, False), (None, 1, False),
                                        ("exact", None, False)):
            with self.subTest(marker=marker, value=value):
                problem = expectations.check_marker("CPU time", "kernel", marker, value)
                self.assertEqual(problem == "", is_right)

    def test_intervals(self):
        for low, high, peak, is_right in ((50, 150, 60, True), (100, 100, 60, True), (50, 90, 60, False),
                                          (110, 150, 60, False), (None, 150, 60, False),
                                          (50, 150, 160, False)):
            with self.subTest(low=low, high=high):
                problem = truth.judge_interval(low, high, peak, (99, 101), 0.5)
                self.assertEqual(problem == "", is_right)


class Document(unittest.TestCase):
    def test_table(self):
        """docs/EXACTNESS.md has the table that the cases check."""
        self.assertEqual(expectations.parts_of_document()[1], expectations.table(),
                         "run tests/truth/expectations.py")


if __name__ == "__main__":
    harness.main()
