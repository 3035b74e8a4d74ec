"""Compares the figures of `sonde run` with what the kernel reports about the same execution.

A case runs a job in a situation (collector, user, namespace, daemon, --exact) below witness.c, which measures
it, too. Each figure is one line of the table: truth, value, deviation, marker, verdict. expectations.py says
which marker the figure must have; the marker says how the value must relate to the truth:

    exact         equal, within the tolerance that the case states with its reason
    lower_bound   not above the truth
    sampled       a peak: not above the truth
    null          no value
    interval      contains the truth (two figures)
"""
import collections
import contextlib
import glob
import json
import os
import pathlib
import shutil
import struct
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import daemon
import expectations
import harness

PROGRAMS = os.environ.get("TRUTH_PROGRAMS", os.path.join(harness.HELPERS, "..", "truth"))
IS_FULL = os.environ.get("TRUTH") == "all"

# CPU time: the truth is in nanoseconds (cgroup) or lacks the end of the witness (wait4), at most half a
# millisecond. Microseconds are lost for each process of a long job: the end of a process that the scheduler
# has not yet accounted when its parent reaps it.
CPU = {"ratio": 0.002, "slack": 0.001}
# Peak memory: the kernel keeps RSS in a counter per CPU; its high-water mark misses up to 64 pages of each
# of two kinds on each of two CPUs.
PEAK = {"ratio": 0, "slack": 0.6}
COUNT = {"ratio": 0, "slack": 0}
# I/O: the witness writes its report after it has read its own figures; a file system adds a few pages.
IO = {"ratio": 0.002, "slack": 1 << 16}
# What sonde reads for one sample of the seven processes of a shape: 7 KB with the kernel collector, 20 to 28
# KB without.
SAMPLE_MAX_BYTES = 32 << 10

Situation = collections.namedtuple("Situation", "name column collector user namespace daemon exact")
SITUATIONS = [Situation(*fields) for fields in (
    ("root, --exact", "kernel", "auto", "root", "initial", False, True),
    ("root", "late", "auto", "root", "initial", False, False),
    ("root, daemon", "events", "auto", "root", "initial", True, False),
    ("root, daemon, --exact", "kernel", "auto", "root", "initial", True, True),
    ("root, procfs", "events", "procfs", "root", "initial", False, False),
    ("root, procfs, daemon", "events", "procfs", "root", "initial", True, False),
    ("user", "events", "auto", "user", "initial", False, False),
    ("user, root's daemon", "events", "auto", "user", "initial", True, False),
    ("user, procfs daemon", "events", "procfs", "user", "initial", True, False),
    ("root in a container", "samples", "auto", "root", "own", False, False),
    ("user in a container", "samples", "auto", "user", "own", False, False),
)]
SHORT = ("root, --exact", "root", "user", "root in a container")


def situation(name):
    return next(found for found in SITUATIONS if found.name == name)


class Cgroup:
    """A cgroup in which the kernel counts the CPU time of a job to the nanosecond, or None. Its figure
    includes processes that no parent waits for and the end of each process."""

    ROOTS = (("/sys/fs/cgroup/cpuacct", "cpuacct.usage", 1e9),
             ("/sys/fs/cgroup/cpu,cpuacct", "cpuacct.usage", 1e9),
             ("/sys/fs/cgroup/unified", "cpu.stat", 1e6), ("/sys/fs/cgroup", "cpu.stat", 1e6))

    def __init__(self, path, name, unit):
        self.path, self.name, self.unit = path, name, unit

    @classmethod
    def create(cls, user):
        """v2 lets only root move a process out of the root group."""
        for root, name, unit in cls.ROOTS:
            if not os.path.exists(os.path.join(root, name)) or (user != 0 and name == "cpu.stat"):
                continue
            with contextlib.suppress(OSError):
                path = tempfile.mkdtemp(prefix="sonde-truth-", dir=root)
                try:
                    os.chmod(path, 0o755)
                    os.chown(os.path.join(path, "cgroup.procs"), user, user)
                    return cls(path, name, unit)
                except OSError:
                    os.rmdir(path)
        return None

    def cpu_seconds(self):
        text = pathlib.Path(self.path, self.name).read_text(encoding="ascii")
        return int(text.split()[1] if self.name == "cpu.stat" else text) / self.unit

    def remove(self):
        with contextlib.suppress(OSError):  # a process that was left behind
            os.rmdir(self.path)


def memory_mb(pids):
    """The memory of these processes together, with shared pages counted once, as two bounds: the sum of
    PSS, which lacks the parts that belong to other processes' shares; and that plus all clean shared
    pages (programs and libraries, which other processes may map, too)."""
    low = high = 0
    for pid in pids:
        fields = collections.Counter()
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]:
            name, number = line.split()[:2]
            fields[name] += int(number)
        low += fields["Pss:"] / 1024
        high += (fields["Pss:"] + fields["Shared_Clean:"]) / 1024
    return low, high


def count_ends(path):
    """The number of processes in the records of acct(2), version 3. The kernel writes a second record for
    the process that ends the accounting."""
    data = pathlib.Path(path).read_bytes()
    return len({struct.unpack_from("=I", data, at + 16)[0] for at in range(0, len(data), 64)})


class Run:
    """One execution: what sonde reported (`summary`) and what the witness did (`witness`)."""

    def __init__(self, summary, witness, cgroup_seconds, ended):
        self.summary = summary  # of `sonde run`, or None
        self.witness = witness
        self.cgroup_seconds = cgroup_seconds
        self.ended = ended  # the number of processes by process accounting, or None

    def waited_seconds(self):
        return self.witness["user_seconds"] + self.witness["system_seconds"]

    def cpu(self):
        """The truth about CPU time of all processes, and its source."""
        if self.cgroup_seconds is not None:
            return self.cgroup_seconds + self.witness["cpu_before_seconds"], "cgroup"
        return self.waited_seconds(), "wait4"


class Case(daemon.TestCase):
    """Runs jobs in a situation, which each test sets, and collects the lines of the table."""

    situation = None
    case = ""

    def setUp(self):
        super().setUp()
        self.problems = []
        where = self.situation = getattr(self, self._testMethodName).situation
        self.column = where.column  # of the table in expectations.py
        if where.user == "root" and not harness.is_root():
            self.skipTest("needs root")
        if where.namespace == "own" and not self.can_unshare():
            self.skipTest("needs to make namespaces (root, unshare)")
        if where.column in ("kernel", "late") and harness.why_no_kernel_collector():
            self.skipTest(f"needs the kernel collector: {harness.why_no_kernel_collector()}")
        if where.column == "events" and not harness.has_connector(self.as_user()):
            self.skipTest("needs the process connector (Linux 6.6, or root), in the first pid namespace")
        if where.collector == "procfs":
            self.write("config/sonde/sonde.yaml", "profiler:\n  collector: procfs\n")
        # a user who runs sonde without a daemon stores what it reports
        self.state = self.environment["SONDE_STATE_DIR"] = os.path.join(self.open_directory(), "state")
        if where.daemon:
            self.start_daemon()

    def tearDown(self):
        super().tearDown()
        if self.problems:
            self.fail("\n".join(self.problems))

    @staticmethod
    def can_unshare():
        return harness.is_root() and shutil.which("unshare") and os.system(
            "unshare --fork --pid --mount-proc true 2>/dev/null") == 0

    def start_daemon(self):
        """It has priority, because `sonde run` does without a daemon that does not answer in time."""
        self.environment["SONDE_SOCKET"] = os.path.join(self.open_directory(), "sonde.sock")
        self.monitor = self.daemon(
            f"daemon:\n  access: everyone\nprofiler:\n  collector: {self.situation.collector}\n",
            prefix=("nice", "-n", "-19") if harness.is_root() else ())

    def as_user(self):
        return harness.unprivileged() if self.situation.user == "user" else ()

    def prefix(self):
        own = ("unshare", "--pid", "--fork", "--mount-proc")
        return (*(own if self.situation.namespace == "own" else ()), *self.as_user())

    @staticmethod
    def shapes(*arguments):
        return (os.path.join(PROGRAMS, "shapes"), *map(str, arguments))

    # ---- running ----

    def options(self, more):
        where = self.situation
        return (*(("--exact",) if where.exact else ()), *more)

    def below_witness(self, command, is_accounted):
        """The command line of the witness; the files it writes; the cgroup."""
        number = len(self.started)
        out = os.path.join(self.open_directory(), f"witness-{number}")
        user = harness.UNPRIVILEGED_UID if self.situation.user == "user" and harness.is_root() else os.geteuid()
        cgroup = Cgroup.create(user)
        if cgroup:
            self.addCleanup(cgroup.remove)
        records = None
        if is_accounted and harness.is_root() and self.situation.user == "root":
            records = f"{out}-records"
            pathlib.Path(records).touch()
        words = [os.path.join(PROGRAMS, "witness"), *(("-g", cgroup.path) if cgroup else ()),
                 *(("-n", records) if records else ()), out, *command]
        return words, out, cgroup, records

    @staticmethod
    def read_witness(summary, out, cgroup, records):
        with open(out, encoding="ascii") as lines:
            witness = {name: float(number) for name, number in map(str.split, lines)}
        return Run(summary, witness, cgroup.cpu_seconds() if cgroup else None,
                   count_ends(records) if records else None)

    def run_case(self, *command, options=(), status=0, is_accounted=False, **more):
        """Runs a command below the witness and below sonde."""
        words, *files = self.below_witness(command, is_accounted)
        result = self.run_sonde("run", *self.options(options), "--", *words, prefix=self.prefix(), **more)
        self.assertEqual(result.status, status, result)
        self.check_collector(result.summary)
        return self.read_witness(result.summary, *files)

    def hold_case(self, *command, options=()):
        """The same for a shape that holds its memory: also returns what the kernel says about all
        processes at that time. The shape ends when sonde has sampled it twice more."""
        words, *files = self.below_witness(command, False)
        out, summary = os.path.join(self.open_directory(), "out"), os.path.join(self.open_directory(), "held")
        arguments = [harness.SONDE, "run", "--summary", summary, *self.options(options), "--", *words]
        with open(out, "wb") as output:
            process = self.start(*self.prefix(), *arguments, stdout=output, stderr=output)
        process.summary_path, process.errors_path = summary, out
        harness.wait_until(lambda: b"ready" in pathlib.Path(out).read_bytes(),
                           lambda: f"memory is in use: {pathlib.Path(out).read_bytes()}")
        top = next(pid for pid in [process.pid, *harness.children_of(process.pid)]
                   if self.has_program(pid, "witness"))
        truth = memory_mb([top, *harness.children_of(top)])
        self.await_samples(top)
        result = self.finish(process)
        self.assertEqual(result.status, 0, result)
        return self.read_witness(result.summary, *files), truth

    def await_samples(self, top):
        """Until sonde, the parent of `top`, has taken a whole sample that began after now: two more are
        stored. Beside a daemon, which stores its own, sonde has read more than two samples need."""
        sonde = pathlib.Path(f"/proc/{top}/stat").read_bytes().rpartition(b")")[2].split()[1].decode()
        def bytes_read():
            return int(pathlib.Path(f"/proc/{sonde}/io").read_text(encoding="ascii").split()[1])
        def last_stored():
            found = self.stored("SELECT max(id) FROM snapshots")
            return (found and found[0][0]) or 0
        count, needed = (bytes_read, 3 * SAMPLE_MAX_BYTES) if self.situation.daemon else (last_stored, 2)
        before = count()
        harness.wait_until(lambda: count() >= before + needed, "sonde takes samples")

    @staticmethod
    def has_program(pid, name):
        with contextlib.suppress(OSError):
            return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].endswith(name.encode())
        return False

    def check_collector(self, summary):
        """A situation that silently turned into another would prove nothing."""
        expected = {"kernel": "bpf", "events": "procfs", "samples": "procfs"}.get(self.situation.column)
        if expected:
            self.assertEqual(summary["collector"], expected)

    # ---- the table ----

    def line(self, figure, truth, source, value, marker, problem):
        """One line of the table; `problem` is empty if the figure is as expected."""
        where = self.situation
        if problem:
            self.problems.append(f"{self.case}, {where.name}, {figure}: {problem}")
        is_number = isinstance(truth, (int, float)) and isinstance(value, (int, float)) and truth
        deviation = f"{(value / truth - 1) * 100:+.2f} %" if is_number else ""
        def show(number):
            return f"{number:.4f}" if isinstance(number, float) else "-" if number is None else str(number)
        record = {"case": self.case, "situation": where.name, "figure": figure, "truth": show(truth),
                  "source": source, "sonde": show(value), "deviation": deviation, "marker": marker or "-",
                  "verdict": f"FAILED: {problem}" if problem else "ok"}
        print("{case:<18} {situation:<22} {figure:<18} {truth:>12} {source:<8} {sonde:>12} {deviation:>10} "
              "{marker:<12} {verdict}".format(**record))
        if "TRUTH_TABLE" in os.environ:
            with open(os.environ["TRUTH_TABLE"], "a", encoding="utf-8") as table:
                table.write(json.dumps(record) + "\n")

    def check(self, run, figure, row, truth, source, tolerance, value=None, marker=None, is_split=False):
        """A figure against the truth: of the summary of a run, or without a run `value` with `marker`.
        `row` names its line in expectations.py."""
        if run and value is None:
            value = run.summary[figure]
        if run and marker is None:
            marker = run.summary["exactness"].get(figure)
        problem = expectations.check_marker(row, self.column, marker, value)
        if not problem:
            problem = judge("exact" if is_split and marker == "sampled" else marker, value, truth, tolerance)
        self.line(figure, truth, source, value, marker, problem)

    def check_bracket(self, figure, low, value, high, source):
        """A figure without a marker that must lie between two truths."""
        is_inside = value is not None and low <= value <= high
        self.line(figure, f"{low:.3f}..{high:.3f}", source, value, None,
                  "" if is_inside else "outside of the truth")

    def check_split(self, run, ratio=CPU["ratio"], slack=CPU["slack"]):
        """User and system time: together the CPU time; each as wait4 has it, because the clock ticks that
        the kernel samples are the same for both."""
        total = run.summary["user_seconds"] + run.summary["system_seconds"]
        self.check(run, "user + system", "user and system time", run.summary["cpu_seconds"], "sonde",
                   {"ratio": 0, "slack": 0.000002}, value=total, marker=run.summary["exactness"]["user_seconds"])
        for figure in ("user_seconds", "system_seconds"):
            self.check(run, figure, "user and system time", run.witness[figure], "wait4",
                       {"ratio": max(ratio, 0.005), "slack": max(slack, 0.002)}, is_split=True)

    def check_interval(self, run, truth, slack=0.5):
        """peak_unique_min_mb to peak_unique_mb contains the truth, whose own bounds are `truth`."""
        low, high = run.summary.get("peak_unique_min_mb"), run.summary["peak_unique_mb"]
        row = "memory of all processes, an interval"
        problem = expectations.check_marker(row, self.column,
                                            run.summary["exactness"].get("peak_unique_mb"), high)
        if not problem:
            problem = judge_interval(low, high, run.summary["peak_rss_mb"], truth, slack)
        shown = f"{'-' if low is None else format(low, '.1f')}..{high:.1f}"
        self.line("peak_unique_mb", f"{truth[0]:.1f}..{truth[1]:.1f}", "smaps", shown,
                  run.summary["exactness"].get("peak_unique_mb"), problem)


def judge(marker, value, truth, tolerance):
    """Why a value with this marker contradicts the truth, or ""."""
    if value is None:
        return ""
    allowed = max(abs(truth) * tolerance["ratio"], tolerance["slack"])
    if marker == "exact" and abs(value - truth) > allowed:
        return f"exact, but off by {value - truth:+.4f}"
    if marker in ("lower_bound", "sampled") and value > truth + allowed:
        return f"{marker}, but {value - truth:.4f} above the truth"
    return ""


def judge_interval(low, high, largest, truth, slack):
    """Why an interval contradicts the two bounds of the truth, or is below the largest process, or ""."""
    if low is None:
        return "no lower end"
    if low > truth[1] + slack or high < truth[0] - slack:
        return "the interval misses the truth"
    return "below the largest process" if high < largest - slack else ""


def situations_of(names=None, columns=None, short=SHORT):
    """The situations in which a case runs: all, or those with these names or in these columns; in the
    short form those of `short` among them."""
    found = [where for where in SITUATIONS if (not names or where.name in names)
             and (not columns or where.column in columns)]
    return [where for where in found if IS_FULL or where.name in short]


def case(**where):
    """Marks a method of Case's subclass as a case; it becomes one test for each situation."""
    def mark(method):
        method.situations = where
        return method
    return mark


def expand(cls):
    """Replaces each case by its tests, named after the case and the situation."""
    for name, method in list(vars(cls).items()):
        if not hasattr(method, "situations"):
            continue
        for where in situations_of(**method.situations):
            def test(self, method=method, where=where, name=name):
                self.case = name.replace("_", " ")
                method(self)
            title = "".join(letter if letter.isalnum() else "_" for letter in where.name)
            test.situation = where
            setattr(cls, f"test_{name}__{title}", test)
    return cls
