"""What the end-to-end tests share: the real binary in an isolated environment, and TAP.

    SONDE=build/sonde HELPERS=build/tests/e2e tests/e2e/test_run_status.py [SONDE] [-v] [NAME…]

Each test has a temporary directory, an environment without any user's configuration, and a deadline
for every process it starts; processes that it leaves behind are killed. NAME selects the tests whose names
contain it. tests/run-suite adds up the points that main() prints.
"""
import atexit
import contextlib
import ctypes
import faulthandler
import fcntl
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
import traceback
import unittest

# Long enough for a loaded machine under sanitizers; a test never waits for it unless it fails.
DEADLINE = 120
# A test that takes longer fails and shows where it hangs.
TEST_SECONDS = 240

PR_SET_CHILD_SUBREAPER = 36
UNPRIVILEGED_UID = 65534

IS_GIVEN = len(sys.argv) > 1 and os.path.isfile(sys.argv[1])
SONDE = os.path.abspath(sys.argv[1] if IS_GIVEN else os.environ.get("SONDE", "build/sonde"))
HELPERS = os.path.abspath(os.environ.get("HELPERS", "build/tests/e2e"))

# `sonde run` loads neither the kernel collector nor a GPU driver earlier (KERNEL_AFTER_MS and
# GPUS_AFTER_MS in src/run/job-run.c). The loop counts whole milliseconds of a coarse clock, so it
# may start up to 2 ms early.
KERNEL_DELAY_SECONDS = 0.04 - 0.002
GPU_DELAY_SECONDS = 0.1 - 0.002

SANITIZER_REPORT = re.compile(rb"(Address|Leak|Thread)Sanitizer|runtime error:|UndefinedBehavior")


class Result:
    """How a program ended and what it wrote."""

    def __init__(self, status, stdout, stderr, summary=None):
        self.status = status  # negative: the signal that killed it
        self.stdout = stdout
        self.stderr = stderr.decode("utf-8", "backslashreplace")
        self.summary = summary

    def __repr__(self):
        return f"status {self.status}, stdout {self.stdout!r}, stderr {self.stderr!r}"

    def figure(self, name):
        """The number on the line "NAME NUMBER" that the command itself printed."""
        for line in self.stdout.decode("utf-8", "replace").splitlines():
            arguments = line.split()
            if len(arguments) == 2 and arguments[0] == name:
                return float(arguments[1])
        raise AssertionError(f"the command printed no '{name}': {self!r}")


# ---- what the machine offers ----


def is_sanitized():
    """Whether sonde was built with a sanitizer, which uses memory and signals itself."""
    with open(SONDE, "rb") as binary:
        return re.search(rb"__[at]san_init", binary.read()) is not None


def is_counted():
    """Whether sonde was built for coverage; it then writes its counts when it ends."""
    with open(SONDE, "rb") as binary:
        return b"__gcov_init" in binary.read()


def is_root():
    return os.geteuid() == 0


def available_mb():
    with open("/proc/meminfo", encoding="ascii") as meminfo:
        for line in meminfo:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) // 1024
    return 0


def needs_program(name):
    return unittest.skipUnless(shutil.which(name), f"needs {name}")


def needs_root():
    return unittest.skipUnless(is_root(), "needs root")


def needs_memory(megabytes):
    return unittest.skipUnless(available_mb() >= megabytes, f"needs {megabytes} MB of free memory")


def unprivileged():
    """A command prefix that starts a program without any privileges."""
    if not is_root():
        return ()
    return ("setpriv", f"--reuid={UNPRIVILEGED_UID}", f"--regid={UNPRIVILEGED_UID}", "--clear-groups",
            "--bounding-set=-all", "--inh-caps=-all")


@functools.lru_cache(maxsize=None)
def has_connector(prefix=()):
    """Whether the kernel reports forks and exits to sonde here. One run without a loss shows it; on
    a busy machine the kernel's queue may overflow in another."""
    with tempfile.TemporaryDirectory(prefix="sonde-") as directory:
        os.chmod(directory, 0o1777)
        path = os.path.join(directory, "summary")
        for _ in range(5):
            subprocess.run([*prefix, SONDE, "run", "-q", "--no-store", "--summary", path, "--",
                            "true"], env=clean_environment(directory), timeout=DEADLINE, check=True)
            with open(path, encoding="utf-8") as summary:
                if saw_every_process(json.load(summary)):
                    return True
    return False


def saw_every_process(summary):
    """Whether no event was lost during a run. The queue of an ordinary user is small and may
    overflow while other programs fork."""
    how = summary["exactness"]["processes"]
    if how not in ("exact", "lower_bound"):
        raise AssertionError(f"the number of processes is {how}")
    return how == "exact"


def needs_connector(prefix=()):
    return unittest.skipUnless(has_connector(prefix),
                               "needs the process connector (Linux 6.6, or root), in the first "
                               "pid namespace")


@functools.lru_cache(maxsize=None)
def why_no_kernel_collector(prefix=()):
    """None, or why the kernel collector cannot be used, as sonde reports it."""
    with tempfile.TemporaryDirectory(prefix="sonde-") as directory:
        os.chmod(directory, 0o1777)
        done = subprocess.run([*prefix, SONDE, "run", "-q", "--no-store", "--exact", "--", "true"],
                              env=clean_environment(directory), check=False, stderr=subprocess.PIPE,
                              timeout=DEADLINE)
        return None if done.returncode == 0 else done.stderr.decode()


def needs_kernel_collector():
    return unittest.skipIf(why_no_kernel_collector(),
                           f"needs the kernel collector: {why_no_kernel_collector()}")


def needs_namespaces():
    """Root may lack the privileges of root, as in many containers."""
    arguments = ["unshare", "--fork", "--pid", "--mount-proc", "true"]
    works = is_root() and shutil.which("unshare") and \
        subprocess.run(arguments, stderr=subprocess.DEVNULL, check=False).returncode == 0
    return unittest.skipUnless(works, "needs to make namespaces (root, unshare)")


def shared(build):
    """Makes of `build(directory)` a function without arguments that all tests of a program share,
    although each test is a process: the first test that calls it builds, and others wait. It
    returns what `build` returned, as text. The directory is removed when the program ends."""
    directory = tempfile.mkdtemp(prefix="sonde-e2e-shared-")
    # The processes of tests end without running this.
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    done = pathlib.Path(directory, "done")

    @functools.wraps(build)
    def build_once():
        with open(os.path.join(directory, "lock"), "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                content = os.path.join(directory, "content")
                os.mkdir(content)
                done.write_text(build(content), encoding="utf-8")
        return done.read_text(encoding="utf-8")

    return build_once


def is_open_to_all(directory):
    """Whether every user may enter it."""
    path = pathlib.Path(directory)
    return path.is_dir() and all(part.stat().st_mode & stat.S_IXOTH
                                 for part in (path, *path.parents))


def clean_environment(home):
    # Tests start programs as other users. A directory that a user may not enter turns "not found"
    # into "permission denied".
    path = [directory for directory in os.environ.get("PATH", "/usr/bin:/bin").split(":")
            if is_open_to_all(directory)]
    environment = {
        "PATH": ":".join(path),
        "HOME": home,
        "XDG_CONFIG_HOME": f"{home}/config",
        "XDG_STATE_HOME": f"{home}/state",
        "XDG_RUNTIME_DIR": f"{home}/run",
        # for root, that of the whole machine
        "SONDE_STATE_DIR": f"{home}/sonde-state",
        "SHELL": "/bin/sh",
        "LANG": "C.UTF-8",
        "TERM": "xterm",
    }
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "GCOV_ERROR_FILE"):
        if name in os.environ:
            environment[name] = os.environ[name]
    return environment


def without_leak_check(environment):
    """LeakSanitizer does not work under ptrace, and starts a process at the end."""
    given = environment.get("ASAN_OPTIONS", "")
    return dict(environment, ASAN_OPTIONS=f"{given}:detect_leaks=0" if given else "detect_leaks=0")


# ---- processes ----


def wait_until(condition, what, timeout=DEADLINE):
    """Polls a condition that has no event to wait for, and returns its result. `what` is the message
    of the timeout, or a function that returns it."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(
                f"waited {timeout} s in vain: {what() if callable(what) else what}")
        time.sleep(0.01)


def process_state(pid):
    """The state letter of a process, or None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return stat.read().rsplit(b")", 1)[1].split()[0].decode()
    except (FileNotFoundError, ProcessLookupError):
        return None


def is_alive(pid):
    return process_state(pid) not in (None, "Z", "X")


def parent_of(pid):
    """The pid of a process's parent, or None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return int(stat.read().rsplit(b")", 1)[1].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def children_of(pid):
    """All descendants, parents first. Not /proc/PID/task/TID/children: not every kernel has it."""
    parents = {int(name): parent_of(name) for name in os.listdir("/proc") if name.isdigit()}
    found = [pid]
    for parent in found:
        found += [child for child, its_parent in parents.items() if its_parent == parent]
    return found[1:]


def kill_all_below():
    """Kills what is left of a test: as a subreaper, this process inherits all orphans."""
    while True:
        left = children_of(os.getpid())
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            while os.waitpid(-1, 0 if left else os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        if not left:
            return


def read_rows(path, sql, *values, row_factory=None):
    """Reads rows with plain SQLite, read-only."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True,
                                            timeout=DEADLINE)) as db:
        db.row_factory = row_factory
        return db.execute(sql, values).fetchall()


class TestCase(unittest.TestCase):
    """A test with its own directory, environment and programs."""

    def setUp(self):
        # Everyone may enter, because some tests start programs as another user.
        self.directory = tempfile.mkdtemp(prefix="sonde-e2e-")
        self.started = []
        self.addCleanup(self.clean_up)
        os.chmod(self.directory, 0o755)
        self.environment = clean_environment(self.directory)
        # An empty file, so that a configuration in /etc is not read.
        os.makedirs(self.path("config/sonde"))
        self.write("config/sonde/sonde.yaml", "")

    def clean_up(self):
        for process in self.started:
            for stream in (process.stdin, process.stdout):
                if stream:
                    stream.close()
        for process in self.started:
            if is_counted() and process.args[0] == SONDE:
                # Without a reader, one that follows events ends and writes its coverage counts.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(1)
            if process.poll() is None:
                process.kill()
        # Kill all first: a traced process can be reaped only when its tracer is gone.
        for process in self.started:
            process.wait()
        kill_all_below()
        shutil.rmtree(self.directory, ignore_errors=True)

    # ---- files ----

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, text, mode=0o644):
        path = self.path(name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def read(self, name):
        return pathlib.Path(self.path(name)).read_bytes()

    def stored(self, sql, *values, state=None):
        """Rows of the database that this test's sonde writes, or of the one in another state
        directory; none while it does not exist or is incomplete."""
        path = os.path.join(state or self.environment["SONDE_STATE_DIR"], "monitor.db")
        try:
            return read_rows(path, sql, *values)
        except sqlite3.OperationalError:
            return []

    def victim(self, *arguments):
        return (os.path.join(HELPERS, "victim"), *map(str, arguments))

    def open_directory(self):
        """A directory that an unprivileged user may write to."""
        path = self.path("open")
        os.makedirs(path, exist_ok=True)
        os.chmod(path, 0o1777)
        return path

    # ---- running ----

    def run_program(self, *arguments, stdin=b"", prefix=(), **options):
        """Runs a program to its end. Its output goes to files, because a process that it leaves
        behind must not keep the test waiting."""
        environment = options.pop("env", self.environment)
        timeout = options.pop("timeout", DEADLINE)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, \
                tempfile.TemporaryFile() as given:
            if isinstance(stdin, bytes):
                given.write(stdin)
                given.seek(0)
                stdin = given
            options.setdefault("stdout", out)
            options.setdefault("stderr", err)
            process = subprocess.Popen([*prefix, *arguments], env=environment, stdin=stdin, **options)
            self.started.append(process)
            try:
                status = process.wait(timeout)
            except subprocess.TimeoutExpired:
                err.seek(0)
                self.fail(f"{arguments} did not end within {timeout} s; stderr: {err.read()!r}")
            out.seek(0)
            err.seek(0)
            result = Result(status, out.read(), err.read())
        self.check_sanitizers(result.stderr.encode())
        return result

    def run_sonde(self, *arguments, **options):
        """Runs sonde. Adds --summary to `sonde run` unless it is given, and reads that file."""
        arguments = list(arguments)
        own = arguments[:arguments.index("--")] if "--" in arguments else arguments
        summary_path = None
        if arguments and arguments[0] == "run" and not any("--summary" in str(argument) for argument in own):
            summary_path = os.path.join(self.open_directory(), f"summary-{len(self.started)}")
            arguments[1:1] = ["--summary", summary_path]
        result = self.run_program(SONDE, *arguments, **options)
        if summary_path and os.path.exists(summary_path):
            text = pathlib.Path(summary_path).read_text(encoding="utf-8")
            result.summary = strict_json(text) if text else None
        return result

    def run_json(self, *arguments):
        """The --json output of a verb that succeeds."""
        result = self.run_sonde(*arguments, "--json")
        self.assertEqual(result.status, 0, result)
        return strict_json(result.stdout.decode())

    def run_job(self, *command, options=(), **more):
        """Runs a command that is expected to succeed under `sonde run`."""
        result = self.run_sonde("run", *options, "--", *command, **more)
        self.assertEqual(result.status, 0, result)
        self.assertIsNotNone(result.summary, result)
        return result

    def start(self, *arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options):
        """Starts a program that runs beside the test."""
        environment = options.pop("env", self.environment)
        process = subprocess.Popen(arguments, stdin=stdin, stdout=stdout, env=environment, **options)
        self.started.append(process)
        return process

    def start_victim(self, *arguments, **options):
        """Starts a helper and waits until it is ready; returns it and its earlier output."""
        process = self.start(*self.victim(*arguments), **options)
        return process, self.await_ready(process)

    def start_sonde(self, *arguments, **options):
        """Starts `sonde run` beside the test, with its output in files; `finish` ends it."""
        number = len(self.started)
        summary_path = self.path(f"summary-{number}")
        self.errors_path = self.path(f"stderr-{number}")
        with open(self.errors_path, "wb") as errors:
            process = self.start(SONDE, "run", "--summary", summary_path, *arguments, stderr=errors,
                                 **options)
        process.summary_path = summary_path
        process.errors_path = self.errors_path
        return process

    def finish(self, process, timeout=DEADLINE):
        if process.stdin:
            process.stdin.close()
        status = process.wait(timeout)
        out = b""
        if process.stdout:
            # A process that was left running may hold the other end: read only the data that has
            # arrived.
            os.set_blocking(process.stdout.fileno(), False)
            out = process.stdout.read() or b""
        errors = pathlib.Path(process.errors_path).read_bytes()
        self.check_sanitizers(errors)
        summary = None
        if os.path.exists(process.summary_path) and os.path.getsize(process.summary_path):
            summary = strict_json(pathlib.Path(process.summary_path).read_text(encoding="utf-8"))
        return Result(status, out, errors, summary)

    def await_ready(self, process):
        """Reads a helper's output up to its "ready PID"; returns the pid and the lines before."""
        lines = []
        for raw in process.stdout:
            arguments = raw.decode("utf-8", "replace").split()
            if arguments and arguments[0] == "ready":
                return int(arguments[1]), lines
            lines.append(arguments)
        self.fail(f"the helper ended before it was ready: {lines}")

    # ---- assertions ----

    def check_sanitizers(self, errors):
        self.assertIsNone(SANITIZER_REPORT.search(errors), errors.decode("utf-8", "replace"))

    def assert_processes(self, summary, count):
        """This many; or at most this many, where the kernel does not report each fork."""
        if has_connector():
            self.assertEqual(summary["exactness"]["processes"], "exact")
            self.assertEqual(summary["processes"], count)
        else:
            self.assertEqual(summary["exactness"]["processes"], "lower_bound")
            self.assertLessEqual(summary["processes"], count)

    def assert_near(self, value, truth, ratio=0.02, slack=0.010, what="value"):
        """Within the ratio or the slack, whichever allows more."""
        allowed = max(abs(truth) * ratio, slack)
        self.assertLessEqual(abs(value - truth), allowed,
                             f"{what} {value} is not within {allowed:.6f} of {truth}")


def strict_json(text):
    """Parses JSON strictly: no NaN, no duplicate key."""
    def no_constant(name):
        raise AssertionError(f"{name} is not JSON")

    def once(pairs):
        keys = [key for key, _ in pairs]
        if len(keys) != len(set(keys)):
            raise AssertionError(f"a key stands twice: {keys}")
        return dict(pairs)

    return json.loads(text, parse_constant=no_constant, object_pairs_hook=once)


# ---- TAP ----


class Outcome(unittest.TestResult):
    """How one test ended, as the lines of its TAP point."""

    def __init__(self):
        super().__init__()
        self.trace = ""
        self.skip_reason = None

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.skip_reason = reason

    def addError(self, test, err):
        super().addError(test, err)
        self.trace += self._exc_info_to_string(err, test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.trace += self._exc_info_to_string(err, test)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self.trace += f"{self._exc_info_to_string(err, test)}with {dict(subtest.params)}\n"


# Exit statuses of the process of a test; any other status means that it died.
PASSED, FAILED, SKIPPED = range(3)


def run_one(test):
    """Runs a test in this process; prints why it failed or was skipped, and returns the status."""
    faulthandler.dump_traceback_later(TEST_SECONDS, exit=True)
    # Processes that the test leaves behind become children of this one, which kills them.
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    outcome = Outcome()
    test(outcome)
    print(outcome.trace or outcome.skip_reason or "", flush=True)
    return FAILED if outcome.trace else PASSED if outcome.skip_reason is None else SKIPPED


class RunningTest:
    """A test in its own process. Its output goes to a file, so that tests that run at the same time
    do not mix their lines."""

    def __init__(self, test):
        self.name = test.id().split(".", 1)[1]
        self.began = time.monotonic()
        self.output = tempfile.TemporaryFile()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            status = FAILED
            try:
                os.dup2(self.output.fileno(), 1)
                os.dup2(self.output.fileno(), 2)
                status = run_one(test)
            except BaseException:  # pylint: disable=broad-except
                traceback.print_exc()
            finally:
                os._exit(status)

    def print_point(self, number, status, is_verbose):
        """Prints the TAP point of a test that has ended; returns whether it passed."""
        self.output.seek(0)
        text = self.output.read().decode("utf-8", "backslashreplace")
        self.output.close()
        lines = [line for line in text.splitlines() if line]
        if status not in (PASSED, FAILED, SKIPPED):
            lines.append(f"the test's process ended with status {status}")
        is_good = status in (PASSED, SKIPPED)
        reason = f" # SKIP {lines.pop()}" if status == SKIPPED else ""
        print(f"{'ok' if is_good else 'not ok'} {number} - {self.name}{reason}")
        if is_verbose:
            lines.append(f"{time.monotonic() - self.began:.2f} s")
        for line in lines:
            print(f"# {line}")
        sys.stdout.flush()
        return is_good


def select(suite, names):
    """The tests of a suite, flat, whose names contain one of the given names."""
    tests = []
    for item in suite:
        tests += select(item, names) if isinstance(item, unittest.TestSuite) else [item]
    return [test for test in tests if not names or any(name in test.id() for name in names)]


def run_all(tests, jobs, is_verbose):
    """Runs several tests at a time; returns whether all of them passed."""
    waiting = list(reversed(tests))
    running = {}
    count = failed = 0
    while waiting or running:
        while waiting and len(running) < jobs:
            test = RunningTest(waiting.pop())
            running[test.pid] = test
        pid, status = os.wait()
        if pid not in running:
            continue  # an orphan of a test whose process died
        test = running.pop(pid)
        count += 1
        if not test.print_point(count, os.waitstatus_to_exitcode(status), is_verbose):
            failed += 1
    return not failed


def main():
    arguments = sys.argv[2 if IS_GIVEN else 1:]
    is_verbose = "-v" in arguments
    names = [argument for argument in arguments if argument != "-v"]

    for path in (SONDE, os.path.join(HELPERS, "victim")):
        if not os.access(path, os.X_OK):
            print(f"Bail out! {path} is not there; set SONDE and HELPERS")
            sys.exit(1)
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # Ignored signals are inherited, for example from nohup or as a background job of a script.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    tests = select(suite, names)
    print(f"1..{len(tests)}", flush=True)
    is_good = run_all(tests, int(os.environ.get("TEST_JOBS", "3")), is_verbose)
    kill_all_below()
    sys.exit(0 if tests and is_good else 1)
