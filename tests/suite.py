"""One tier of the test suite: builds its trees, runs their tests, adds up the points.

Used by tests/run-suite, tests/stress-suite, tests/release-check and tests/coverage. Every test program speaks TAP.
"""
import collections
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
# Points are numbered as they end, so the number is not part of the name.
POINT = re.compile(r"^(not )?ok\b\s*\d*\s*(?:- )?([^#]*)(#\s*skip\b.*)?", re.IGNORECASE)
SLOWEST_SHOWN = 5

SANITIZER_ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=1:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "halt_on_error=1:abort_on_error=1:print_stacktrace=1",
    # A child of a process with threads starts threads: some tests are about that.
    "TSAN_OPTIONS": "halt_on_error=1:die_after_fork=0",
}

# A tree and how it is built. `suites` selects tests by meson's suite names; empty: all.
Tree = collections.namedtuple("Tree", "title directory compiler options suites", defaults=((),))

TIERS = {
    "gcc": [Tree("gcc", "build", "gcc", ())],
    "sanitized": [
        Tree("clang, AddressSanitizer, UndefinedBehaviorSanitizer", "build-sanitized", "clang",
             ("-Db_sanitize=address,undefined", "-Db_lundef=false")),
        Tree("clang, ThreadSanitizer, the programs where threads meet", "build-tsan", "clang",
             ("-Db_sanitize=thread", "-Db_lundef=false"), ("threads",)),
    ],
    "without-bpf": [Tree("gcc, without the kernel collector", "build-without-bpf", "gcc",
                         ("-Dbpf=disabled",), ("unit",))],
    "coverage": [Tree("gcc, coverage", "build-coverage", "gcc",
                      ("-Db_coverage=true", "-Dbuildtype=debug",
                       "-Dc_args=-fprofile-update=atomic"))],  # threads count as well
}


def program(test):
    return test["name"].split(" / ")[-1]


class Result:
    """The points of the programs that ran: how many, and which failed."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.failures = []  # "program: point", or "program" alone if it crashed or timed out
        self.selections = []  # of each failure: the words that run it alone
        self.failed_programs = []  # the title of the tree, and the program as meson has logged it
        self.reasons = []  # why points were skipped
        self.notes = []  # what programs reported beside their points

    def add_failure(self, what):
        self.failed += 1
        self.failures.append(what)

    def add(self, title, test):
        """Adds the points of one program, as meson has logged it."""
        name = program(test)
        lines = test.get("stdout", "").splitlines()
        self.notes += [f"{name}: {line[2:]}" for line in lines if line.startswith("# ")]
        points = [POINT.match(line) for line in lines]
        points = [point for point in points if point]
        names = [point.group(2).strip() for point in points if point.group(1)]
        failed = [f"{name}: {point}" for point in names]
        self.selections += [f"{name} --test-args={point}" for point in names]
        skips = [point.group(0) for point in points if not point.group(1) and point.group(3)]
        if test["result"] == "SKIP" and not skips:
            skips = ["the whole program"]
        if test["result"] not in ("OK", "SKIP") and not failed:
            failed = [f"{name}: {test['result'].lower()}"]  # crashed, timed out or gave no plan
            self.selections.append(name)
        self.passed += max(len(points) - len(skips) - len(failed), 0)
        self.failed += len(failed)
        self.skipped += len(skips)
        self.failures += failed
        self.reasons += [f"{name}: {skip}" for skip in skips]
        if failed:
            self.failed_programs.append((title, test))


def print_failures(test):
    """Every failed point of a program, with the lines that follow it."""
    is_failed = False
    for line in test.get("stdout", "").splitlines():
        if line.startswith(("ok", "not ok", "1..")):
            is_failed = line.startswith("not ok")
        if is_failed:
            print(f"   {test['name']}: {line}")
    if test["result"] not in ("OK", "SKIP"):
        for line in test.get("stderr", "").splitlines()[-40:]:
            print(f"   {test['name']}: {line}")


def run_quietly(command, environment):
    """Shows the output of a command only if the command fails."""
    done = subprocess.run(command, env=environment, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}\n{' '.join(command)} failed with status {done.returncode}")


def has_tests(directory):
    """Whether a configured tree builds the tests; `make` alone configures it without them."""
    options = subprocess.run(["meson", "introspect", "--buildoptions", directory], check=True,
                             stdout=subprocess.PIPE).stdout
    return any(option["name"] == "tests" and option["value"] for option in json.loads(options))


def build(tree, environment):
    """Configures and builds a tree."""
    if not os.path.exists(os.path.join(tree.directory, "build.ninja")):
        run_quietly(["meson", "setup", tree.directory, "-Dtests=true", *tree.options], environment)
    elif not has_tests(tree.directory):
        run_quietly(["meson", "configure", tree.directory, "-Dtests=true"], environment)
    run_quietly(["ninja", "-C", tree.directory], environment)


@contextlib.contextmanager
def in_memory():
    """Gives a command prefix, and the temporary directory of what runs with it: a file system in
    memory, for root. A flush of a busy disk can take longer than sonde waits for it at the end, and
    then sonde rightly reports a loss. The mount ends with the processes that see it."""
    mount = ["unshare", "--mount", "sh", "-c",
             'mount -t tmpfs -o mode=1777 none "$0" && exec "$@"']
    directory = tempfile.mkdtemp(prefix="sonde-")
    try:
        mount.append(directory)
        can_mount = subprocess.run([*mount, "true"], stderr=subprocess.DEVNULL, check=False)
        yield (mount, directory) if can_mount.returncode == 0 else ([], tempfile.gettempdir())
    finally:
        os.rmdir(directory)


def run_tree(tree, words, result):
    """Runs the tests of a tree once and adds their points to the result."""
    print(f"== {tree.title}", flush=True)
    began = time.monotonic()
    environment = dict(os.environ, CC=tree.compiler, **SANITIZER_ENVIRONMENT)
    build(tree, environment)
    built = time.monotonic()
    log = os.path.join(tree.directory, "meson-logs", "testlog.json")
    if os.path.exists(log):
        os.unlink(log)
    command = ["meson", "test", "-C", tree.directory, "--quiet", "--no-rebuild", *words,
               # many of them wait
               "--num-processes", str(os.cpu_count() + 2)]
    for suite in tree.suites:
        command += ["--suite", suite]
    with in_memory() as (prefix, directory):
        status = subprocess.run([*prefix, *command], env=dict(environment, TMPDIR=directory),
                                check=False).returncode
    tests = []
    if os.path.exists(log):
        with open(log, encoding="utf-8", errors="replace") as lines:
            tests = [json.loads(line) for line in lines]
    failed_before = result.failed
    for test in tests:
        result.add(tree.title, test)
    if status and result.failed == failed_before:
        result.add_failure(f"meson test ended with status {status} after {len(tests)} programs")
        print(f"   {result.failures[-1]}")
    if not tests and not tree.suites:
        print(f"   no test matches {' '.join(words)!r}; "
              f"'meson test -C {tree.directory} --list' lists the programs")
    tests.sort(key=lambda test: -test["duration"])
    slowest = [f"{program(test)} {test['duration']:.0f} s" for test in tests[:SLOWEST_SHOWN]]
    print(f"   built in {built - began:.0f} s, tested in {time.monotonic() - built:.0f} s; "
          f"slowest: {', '.join(slowest)}", flush=True)


def run_tier(tier, words=()):
    """Builds and tests the trees of a tier. `words` go to `meson test`: names of programs, options."""
    os.chdir(ROOT)
    result = Result()
    try:
        for tree in TIERS[tier]:
            run_tree(tree, words, result)
    finally:  # a later tree may fail to build
        for reason in result.reasons:
            print(f"   skipped: {reason}")
        for title, test in result.failed_programs:  # last: a log may be cut at its beginning
            print(f"== failed: {title}")
            print_failures(test)
    return result
