"""Shared by the benchmarks: finding peers, compiling, running commands in rounds, tables.

Interleaving and medians reduce noise: compared commands take turns, forwards in one round and
backwards in the next, so that other load affects all of them alike. CPU time comes before wall
time.
"""
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import namedtuple

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "..", "..", "src")
PROGRAMS = os.path.join(HERE, "programs")

median = statistics.median


def fail(message):
    sys.exit(f"{os.path.basename(sys.argv[0])}: {message}")


def sonde_from_arguments():
    """The absolute path of the binary that is measured."""
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} SONDE_BINARY")
    path = os.path.abspath(sys.argv[1])
    if not os.access(path, os.X_OK):
        fail(f"{path}: not a program; build it with make")
    return path


# ---- peers ----

def peer(command, package):
    path = shutil.which(command)
    if not path:
        fail(f"{command} is missing; install the package {package}")
    return path


def python_with_psutil():
    """Packages belong to the system's Python, which may not be the one that runs this."""
    for python in (sys.executable, "/usr/bin/python3"):
        if python and subprocess.run([python, "-c", "import psutil"], stderr=subprocess.DEVNULL,
                                     check=False).returncode == 0:
            return python
    fail("Python's psutil is missing; install the package python3-psutil")


# ---- a directory to build and write in ----

# Files that the build has generated, beside the binary that is measured.
BUILT = os.path.join(os.path.dirname(os.path.abspath(sys.argv[-1])), "src")


def has_kernel_collector():
    return os.path.exists(os.path.join(BUILT, "probe", "bpf", "kernel.skel.h"))


def kernel_collector_sources():
    """The kernel collector where the build has it, else its replacement."""
    folder = os.path.join(SOURCE, "probe", "bpf")
    absent = "kernel-probe-absent.c"
    names = [file for file in sorted(os.listdir(folder))
             if file.endswith(".c") and not file.endswith(".bpf.c")
             and (file == absent) != has_kernel_collector()]
    return [os.path.join(folder, name) for name in names]


class Workshop:
    """A temporary directory in which programs are compiled, removed at the end."""

    def __enter__(self):
        self.directory = tempfile.mkdtemp(prefix="sonde-bench-")
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.directory, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.directory, name)

    def compile(self, name, layers=(), libraries=(), package="gcc"):
        """programs/NAME.c with the sources of sonde's layers; optimised as sonde is."""
        sources = [os.path.join(PROGRAMS, name + ".c")]
        for layer in layers:
            folder = os.path.join(SOURCE, layer)
            sources += [os.path.join(folder, file) for file in sorted(os.listdir(folder))
                        if file.endswith(".c")]
        if "probe" in layers:
            sources += kernel_collector_sources()
        command = [peer("cc", "gcc"), "-O2", "-g", "-std=gnu17", "-D_GNU_SOURCE",
                   '-DSONDE_VERSION="bench"', "-I", SOURCE, "-I", BUILT,
                   "-I", os.path.join(SOURCE, "..", "include"), "-o", self.path(name),
                   *sources, *(f"-l{library}" for library in libraries)]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            fail(f"{name}.c does not compile (is the package {package} installed?)\n{done.stderr}")
        return self.path(name)


# ---- commands in rounds ----

Run = namedtuple("Run", "wall cpu")  # seconds; CPU of the command and of processes it has reaped


def run_rounds(workshop, commands, rounds):
    """{name: argv} → {name: [Run, …]}, interleaved; the first round warms up and is dropped."""
    names = list(commands)
    arguments = [workshop.compile("run-rounds"), str(rounds + 1)]
    for name in names:
        arguments += ["::", *commands[name]]
    done = subprocess.run(arguments, stdout=subprocess.PIPE, text=True, cwd=workshop.directory,
                          check=False)
    if done.returncode != 0:
        fail("run-rounds failed")
    runs = {name: [] for name in names}
    for line in done.stdout.splitlines():
        index, wall_ns, cpu_ns, status = map(int, line.split())
        if status != 0:
            fail(f"{names[index]}: ended with wait status {status}")
        runs[names[index]].append(Run(wall_ns / 1e9, cpu_ns / 1e9))
    return {name: several[1:] for name, several in runs.items()}


def ratios(runs, base, which):
    """Ratio of each run to its partner of the same round."""
    return [getattr(a, which) / getattr(b, which) for a, b in zip(runs, base)]


# ---- processes to observe ----

class Zoo:
    """`count` sleeping processes, while the block lasts."""

    def __init__(self, workshop, count):
        self.arguments = [workshop.compile("zoo"), str(count)]

    def __enter__(self):
        # In its own session, so that Ctrl-C reaches it only as the end of its input.
        self.process = subprocess.Popen(self.arguments, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, start_new_session=True)
        if self.process.stdout.readline().strip() != "ready":
            self.process.wait()
            fail("cannot start that many processes (ulimit -u, /proc/sys/kernel/pid_max)")
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


# ---- output ----

def heading(name, what):
    print(f"\n== {name}: {what}", flush=True)


def table(header, rows):
    """The first column to the left, the others to the right."""
    lines = [[str(cell) for cell in line] for line in (header, *rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    for line in lines:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:])]
        print("  " + "  ".join(cells).rstrip())


def target(what, value, is_met):
    print(f"  target: {what}: {value}: {'met' if is_met else 'MISSED'}", flush=True)
