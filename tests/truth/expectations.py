"""How exact each figure of a run is in each situation: the table of docs/EXACTNESS.md, which is generated
from here, and against which the cases of this suite check sonde.

A marker is what `--summary` states in `exactness`: exact, sampled or lower_bound; null is an unknown figure.
Where several are possible, the figure has one of them, and the note says what decides.
"""
import collections
import pathlib
import sys

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs/EXACTNESS.md"
BEGIN, END = "<!-- generated: exactness -->\n", "<!-- end -->\n"

COLUMNS = {
    "kernel": "kernel collector from the start",
    "late": "kernel collector, loaded during the run",
    "events": "process connector",
    "samples": "samples only",
}

EXACT, BOUND, SAMPLED, INTERVAL, NULL = "exact", "lower_bound", "sampled", "interval", "null"
SHOWN = {EXACT: "exact", BOUND: "≥", SAMPLED: "sampled", NULL: "unknown"}

Row = collections.namedtuple("Row", "title figures kernel late events samples note")
ROWS = {fields[0]: Row(*fields) for fields in (
    ("CPU time", "cpu_seconds", (EXACT,), (EXACT,), (EXACT,), (EXACT,),
     "A parent waits for its children, or sonde inherits them: the kernel adds their time up."),
    ("CPU time, children that no process waits for", "cpu_seconds", (EXACT,), (EXACT, BOUND), (BOUND,),
     (BOUND,),
     "With `SIGCHLD` ignored or `SA_NOCLDWAIT`, the kernel discards the time of such a child. Only the kernel "
     "collector sees it at the exit. Of a child that ends before it is loaded, sonde has the last sample."),
    ("CPU time of a container, seen from outside", "cpu_seconds", (EXACT,), (EXACT, BOUND), (EXACT, BOUND), (BOUND,),
     "The first process of a pid namespace ignores `SIGCHLD` while it ends. If a sample shows that, only the "
     "kernel collector knows that no child was discarded."),
    ("user and system time", "user_seconds, system_seconds", (SAMPLED,), (SAMPLED,), (SAMPLED, BOUND),
     (SAMPLED, BOUND),
     "The kernel samples the split at clock ticks. The sum is the CPU time."),
    ("number of processes", "processes", (EXACT,), (EXACT,), (EXACT, BOUND), (BOUND, EXACT),
     "The kernel hides forks from a container; the samples show what lives long enough. The queue of the "
     "process connector can overflow on a busy machine; then the number is a lower bound."),
    ("processes that failed or were killed", "failed_exit_count, kill_count", (EXACT,), (EXACT,),
     (EXACT, BOUND), (BOUND, NULL), "As the number of processes."),
    ("processes that the kernel killed for memory", "oom_count", (EXACT,), (EXACT, NULL), (NULL,), (NULL,),
     "Only the kernel collector sees the reason."),
    ("peak memory of the largest process", "peak_rss_mb", (EXACT,), (EXACT, BOUND), (EXACT,), (EXACT,),
     "The kernel's high-water mark. It is a lower bound where the CPU time is, and in rare runs in which the "
     "kernel collector takes over while processes start."),
    ("memory of all processes, an interval", "peak_unique_min_mb, peak_unique_mb", (SAMPLED, EXACT),
     (SAMPLED, EXACT), (SAMPLED, EXACT), (SAMPLED, EXACT, BOUND),
     "The interval contains the memory at the largest sample, with shared pages counted once. It is "
     "expensive to find out which processes share which pages; `--pss` measures it at new peaks, but not "
     "which files and shared memory processes outside the run have mapped, too. Pages that forked processes "
     "share in swap, or that KSM has merged, can make the truth smaller. A run of one process has the peak of "
     "that process."),
    ("largest number of processes at one time", "peak_processes", (SAMPLED, EXACT), (SAMPLED, EXACT),
     (SAMPLED, EXACT), (SAMPLED, BOUND), "The largest sample. One process is exact."),
    ("I/O", "read_bytes, write_bytes", (EXACT,), (EXACT, BOUND), (EXACT, BOUND), (EXACT, BOUND),
     "As CPU time: the kernel adds the I/O of a child to that of the process that waits for it. Of a process "
     "that is left running, /proc shows it only to root and to the user of the process."),
    ("system calls, with `--syscalls`", "syscall_counts", (EXACT,), (NULL,), (NULL,), (NULL,),
     "Counted in the kernel from the start of the command. Otherwise sonde samples which calls take time."),
    ("`run()` of the Python module: CPU time", "cpu_seconds", (EXACT,), (EXACT,), (EXACT,), (EXACT,),
     "From wait4, of orphans, too. A lower bound where the module cannot adopt them: see its documentation."),
    ("`run()` of the Python module: CPU time, children that no process waits for", "cpu_seconds", (BOUND,),
     (BOUND,), (BOUND,), (BOUND,), "The module does not use the kernel collector."),
    ("CPU time of a step", "cpu_seconds", (EXACT,), (), (BOUND, NULL), (BOUND, NULL),
     "Steps are reported to a daemon, whose collector decides. Without the kernel collector, a process that "
     "lives too short to be sampled counts for the run only."),
    ("peak memory of a step", "peak_rss_mb", (EXACT, BOUND), (), (BOUND, NULL), (BOUND, NULL),
     "As above. If a process outside the step started one of its processes by `vfork` or `posix_spawn`, and that "
     "executed a second program (before Linux 6.16: any), the peak of the first one may be unknown. The figure "
     "is then exact if it is at least the peak of the process outside."),
    ("number of processes of a step", "processes", (EXACT,), (), (EXACT, BOUND), (BOUND,), "As above."),
    ("I/O of a step", "read_bytes, write_bytes", (EXACT,), (), (BOUND, NULL), (BOUND, NULL), "As above."),
    ("CPU time of a scheduler's job", "cpu_seconds", (EXACT,), (), (BOUND,), (BOUND,),
     "The scheduler's own figures in `job.finish` have priority."),
    ("number of processes of a scheduler's job", "processes", (EXACT,), (), (EXACT, BOUND), (BOUND,),
     "As the number of processes."),
)}


def check_marker(title, column, marker, value):
    """Why this marker contradicts the table, or ""."""
    expected = getattr(ROWS[title], column)
    actual = NULL if value is None else marker
    return "" if actual in expected else f"marked {actual}, not {' or '.join(expected)}"


def table():
    """The table as Markdown."""
    lines = [f"| figure | {' | '.join(COLUMNS.values())} | why |", "| --- " * (len(COLUMNS) + 2) + "|"]
    for row in ROWS.values():
        cells = [" or ".join(SHOWN[marker] for marker in getattr(row, column)) or "-" for column in COLUMNS]
        names = ", ".join(f"`{name}`" for name in row.figures.split(", "))
        lines.append(f"| {row.title}: {names} | {' | '.join(cells)} | {row.note} |")
    return "\n".join(lines) + "\n"


def parts_of_document():
    """The text before the generated part, that part, and the text after it."""
    before, rest = DOCUMENT.read_text(encoding="utf-8").split(BEGIN)
    part, after = rest.split(END)
    return before, part, after


def main():
    """Writes the table into the document."""
    before, _, after = parts_of_document()
    DOCUMENT.write_text(before + BEGIN + table() + END + after, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
