#!/usr/bin/env python3
"""sonde ps: its figures against /proc, and hostile names against its output."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
import unicodedata

import harness
import tracing

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u061c\u2028-\u202e\u2066-\u2069]")
BOLD, PLAIN = "\x1b[1m", "\x1b[0m"
TICK = 1 / os.sysconf("SC_CLK_TCK")
# The time between the two readings of a CPU share (PAUSE_NS in cli/cmd-ps.c).
PAUSE_SECONDS = 0.2
# The scheduler counts the time of a running process at least once in each of its ticks, which are
# 10 ms at most.
SLACK_SECONDS = 0.02

# name for prctl, then argv
HOSTILE = {
    "escape sequence": (b"\x1b[31mred", [b"\x1b]0;title\x07", b"\x1b[2J\x1b[H", b"\x9b31m"]),
    "invalid UTF-8": (b"\xff\xfe", [b"\xff", b"a\xc3", b"\xe2\x28\xa1", b"\xed\xa0\x80"]),
    "quotes": (b'"}],"x":["', [b'"quoted"', b"back\\slash", b'","pid":1,"', b"'"]),
    "lines": (b"a\nb\r", [b"first\nsecond", b"\n1 0 S", b"\r\n", b"\ttab"]),
    "backspaces": (b"\b\b\bx", [b"rm -rf /\b\b\b\b\b\b\b\b\bls", b"\x7f\x7f"]),
    "bidi": ("a\u202eb".encode(), ["\u202egnp.exe".encode(), "\u2066x\u2069".encode()]),
    "C1 and separators": (b"\xc2\x85", ["\u0085\u009b31m\u2028\u2029".encode()]),
    "long": (b"long", [b"x" * 2000, "ü".encode() * 1500]),
    "wide": ("漢字".encode(), ["漢字".encode() * 40, "e\u0301".encode() * 30]),
    "parenthesis": (b") R 1 1", [b") R 0 0 0", b"(("]),
    "empty words": (b"", [b"", b"", b"x", b""]),
}

SNAPSHOT_NUMBERS = ("timestamp", "daemon_pid", "system_memory_total_mb",
                    "system_memory_available_mb", "system_memory_used_mb", "daemon_rss_mb",
                    "load_avg_1", "load_avg_5", "load_avg_15", "zombie_count", "cpu_count",
                    "system_cpu_percent", "collect_ms", "process_total")
PROCESS_FIELDS = ("pid", "ppid", "command", "state", "cpu_percent", "rss_mb", "vms_mb", "threads",
                  "open_fds", "age_seconds", "job_id", "sheet_num", "syscall_counts",
                  "syscall_time_pct", "run_id", "start_time", "uid", "cpu_seconds", "shared_mb",
                  "peak_rss_mb", "fd_limit", "read_bytes", "write_bytes", "gpu_memory_mb",
                  "syscall_source")


def columns(line):
    """The number of terminal columns that a line occupies."""
    return sum(0 if unicodedata.combining(character)
               else 2 if unicodedata.east_asian_width(character) in "WF" else 1
               for character in line)


def status_of(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as status:
        return dict(line.rstrip("\n").split(":\t", 1) for line in status if ":\t" in line)


def cpu_time_of(path):
    """Seconds on a CPU, as the scheduler counts them for a thread."""
    with open(path, encoding="ascii") as schedstat:
        return int(schedstat.read().split()[0]) / 1e9


def cpu_time(pid):
    """The same for all threads of a process."""
    return sum(cpu_time_of(f"/proc/{pid}/task/{thread}/schedstat")
               for thread in os.listdir(f"/proc/{pid}/task"))


class PsTestCase(harness.TestCase):
    def ps(self, *words, **options):
        result = self.run_sonde("ps", *words, **options)
        self.assertEqual(result.status, 0, result)
        return result

    def snapshot(self, *words, **options):
        return harness.strict_json(self.ps("--json", *words, **options).stdout.decode("utf-8"))

    def process(self, pid, *words, **options):
        found = [process for process in self.snapshot(*words, **options)["processes"]
                 if process["pid"] == pid]
        self.assertEqual(len(found), 1, f"pid {pid} is there {len(found)} times")
        return found[0]

    def line_of(self, text, pid):
        lines = [line for line in text.splitlines() if re.match(rf" *{pid} ", line)]
        self.assertEqual(len(lines), 1, f"pid {pid} has {len(lines)} lines")
        return lines[0]

    def start_hostile(self, name, words):
        process = self.start(words[0], b"named", name, *words[1:],
                             executable=os.path.join(harness.HELPERS, "victim"))
        self.await_ready(process)
        return process.pid

    def await_share(self, pid):
        """The snapshot, and the process in it, once it has used the CPU between two readings: on a
        busy machine it may get no CPU in the 200 ms between them. In test_share_of_an_interval the
        pause lasts until it has."""
        def find():
            snapshot = self.snapshot("--all")
            process = next(process for process in snapshot["processes"] if process["pid"] == pid)
            return process["cpu_percent"] and (snapshot, process)
        return harness.wait_until(find, "it uses the CPU")

    def assert_share(self, snapshot, process, cores):
        """Asserts a share of at most this many cores. The processes are read one after the other:
        what one uses until it is read counts as well."""
        longer = snapshot["collect_ms"] / 1000 / PAUSE_SECONDS
        self.assertLessEqual(process["cpu_percent"], 102 * cores * (1 + longer))

    def start_asleep(self, *words):
        """A helper that is ready and has gone to sleep."""
        child, _ = self.start_victim(*words)
        harness.wait_until(lambda: harness.process_state(child.pid) == "S", "it sleeps")
        return child

    def on_terminal(self, *words, size=(24, 80), env=None):
        """What sonde writes to a terminal of that size."""
        master, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        process = self.start(harness.SONDE, *words, stdin=terminal, stdout=terminal,
                             stderr=terminal, env=env or self.environment)
        os.close(terminal)
        written = b""
        while select.select([master], [], [], harness.DEADLINE)[0]:
            try:
                chunk = os.read(master, 65536)
            except OSError:  # the other end is closed
                chunk = b""
            if not chunk:
                break
            written += chunk
        os.close(master)
        self.assertEqual(process.wait(harness.DEADLINE), 0, written)
        self.check_sanitizers(written)
        return written.decode("utf-8").replace("\r\n", "\n")


class Hostile(PsTestCase):
    def setUp(self):
        super().setUp()
        self.pids = {case: self.start_hostile(*named) for case, named in HOSTILE.items()}

    def test_json(self):
        processes = {process["pid"]: process for process in
                     self.snapshot("--all", "--instant")["processes"]}
        for case, (name, words) in HOSTILE.items():
            with self.subTest(case=case):
                raw = b" ".join([words[0], b"named", name, *words[1:]])
                command = processes[self.pids[case]]["command"]
                self.assertLessEqual(len(command.encode("utf-8")), 500)
                # Valid UTF-8 is kept; other bytes become U+FFFD.
                parts = re.split("\ufffd+", command)
                at = 0
                text = raw.decode("utf-8", "surrogateescape")
                for part in parts:
                    found = text.find(part, at)
                    self.assertGreaterEqual(found, 0, (command, raw))
                    at = found + len(part)
                if len(raw) > 500:
                    self.assertGreaterEqual(len(command.encode("utf-8")), 490)

    def test_text(self):
        text = self.ps("--all", "--instant").stdout.decode("utf-8")
        self.assertIsNone(CONTROL.search(text))
        lines = text.splitlines()
        self.assertEqual(lines, text.split("\n")[:-1])
        self.assertRegex(lines[0], r"^ *PID ")
        for line in lines[1:]:
            self.assertRegex(line, r"^ *[0-9]+ +[0-9-]+ [A-Za-z] ")
        for pid in self.pids.values():
            self.line_of(text, pid)
        self.assertIn("\\x1b]0;title\\a", self.line_of(text, self.pids["escape sequence"]))
        self.assertIn("first\\nsecond", self.line_of(text, self.pids["lines"]))
        self.assertIn("\\u202egnp.exe", self.line_of(text, self.pids["bidi"]))

    def test_tree(self):
        text = self.ps("--all", "--instant", "--tree").stdout.decode("utf-8")
        self.assertIsNone(CONTROL.search(text))
        for pid in self.pids.values():
            self.line_of(text, pid)

    def test_on_a_terminal(self):
        for width in (80, 60, 132, 250):
            with self.subTest(width=width):
                text = self.on_terminal("ps", "--all", "--instant", size=(24, width))
                self.assertEqual((text.count(BOLD), text.count(PLAIN)), (1, 1))
                bare = text.replace(BOLD, "").replace(PLAIN, "")
                self.assertIsNone(CONTROL.search(bare))
                for line in bare.splitlines():
                    self.assertLessEqual(columns(line), width, line)
                for pid in self.pids.values():
                    self.line_of(bare, pid)
        # The most important columns can be read.
        text = self.on_terminal("ps", "--all", "--instant")
        line = self.line_of(text, self.pids["wide"])
        self.assertIn("漢字漢字漢字", line)

    def test_terminal_without_colour(self):
        text = self.on_terminal("ps", "--all", "--instant",
                                env=dict(self.environment, NO_COLOR="1"))
        self.assertIsNone(CONTROL.search(text))
        self.assertNotIn("\x1b", text)


class Figures(PsTestCase):
    def test_against_proc(self):
        before = time.time()
        child = self.start_asleep("shape", 5, 7, 50)
        after = time.time()
        process = self.process(child.pid, "--all")
        now = time.time()
        status = status_of(child.pid)
        self.assertEqual(process["ppid"], os.getpid())
        self.assertEqual(process["threads"], 5)
        self.assertEqual(process["uid"], os.getuid())
        self.assertEqual(process["state"], "S")
        self.assertEqual(process["open_fds"], len(os.listdir(f"/proc/{child.pid}/fd")))
        self.assertAlmostEqual(process["vms_mb"], int(status["VmSize"].split()[0]) / 1024, places=2)
        self.assert_near(process["rss_mb"], int(status["VmRSS"].split()[0]) / 1024, slack=0.5)
        self.assertGreaterEqual(process["rss_mb"], 50)
        self.assertTrue(0 < process["shared_mb"] < process["rss_mb"] - 49)
        self.assertTrue(before - 2 * TICK <= process["start_time"] <= after + 2 * TICK,
                        (before, process["start_time"], after))
        self.assertTrue(0 <= process["age_seconds"] <= now - before + 2 * TICK)
        self.assertEqual(process["command"], " ".join(self.victim("shape", 5, 7, 50)))
        self.assertIsNone(process["job_id"])

    @harness.needs_program("ps")
    def test_against_ps(self):
        child, _ = self.start_victim("shape", 3, 1, 20)
        process = self.process(child.pid, "--all")
        words = self.run_program("ps", "-o", "ppid=,uid=,vsz=,rss=,nlwp=,etimes=", "-p",
                                 str(child.pid)).stdout.split()
        ppid, uid, vsz, rss, threads, age = map(int, words)
        self.assertEqual((process["ppid"], process["uid"], process["threads"]),
                         (ppid, uid, threads))
        self.assertAlmostEqual(process["vms_mb"], vsz / 1024, places=2)
        self.assert_near(process["rss_mb"], rss / 1024, slack=0.5)
        self.assertLessEqual(process["age_seconds"], age + 1)

    def test_busy_and_sleeping(self):
        busy, _ = self.start_victim("busy")
        asleep = self.start_asleep("named", "asleep")
        before = cpu_time(busy.pid)
        snapshot, process = self.await_share(busy.pid)
        after = cpu_time(busy.pid)
        self.assert_share(snapshot, process, 1)
        self.assertTrue(before - 0.001 <= process["cpu_seconds"] <= after + 0.001)
        shares = {process["pid"]: process["cpu_percent"] for process in snapshot["processes"]}
        self.assertEqual(shares[asleep.pid], 0)
        self.assertGreater(snapshot["system_cpu_percent"], 0)

    @tracing.needs_strace()
    def test_share_of_an_interval(self):
        """sonde is stopped as it begins to pause between its two readings, until the process has
        used a second of CPU time. The scheduler's count and the clock, around the stop and around
        the whole run of sonde, bound the share, however busy the machine is. On an idle machine the
        bounds are close together."""
        pauses = "nanosleep,clock_nanosleep"
        calls = self.write("calls", "")
        busy, _ = self.start_victim("busy")
        first, began = cpu_time(busy.pid), time.monotonic()
        strace = self.start(tracing.STRACE, "-o", calls, "-e", f"trace={pauses}", "-e",
                            f"inject={pauses}:signal=STOP:when=1", harness.SONDE, "ps", "--all",
                            "--json", env=harness.without_leak_check(self.environment))
        harness.wait_until(lambda: b"stopped by SIGSTOP" in self.read("calls"), "it pauses")
        sonde, = harness.children_of(strace.pid)
        second, paused = cpu_time(busy.pid), time.monotonic()
        harness.wait_until(lambda: cpu_time(busy.pid) > second + 1, "it uses the CPU")
        third, resumed = cpu_time(busy.pid), time.monotonic()
        os.kill(sonde, signal.SIGCONT)
        text, _ = strace.communicate(timeout=harness.DEADLINE)
        last, ended = cpu_time(busy.pid), time.monotonic()
        self.assertEqual(strace.returncode, 0)
        process, = [process for process in harness.strict_json(text.decode())["processes"]
                    if process["pid"] == busy.pid]
        self.assertGreaterEqual(process["cpu_percent"],
                                100 * (third - second - SLACK_SECONDS) / (ended - began))
        self.assertLessEqual(process["cpu_percent"],
                             100 * (last - first + SLACK_SECONDS) / (resumed - paused))

    def test_threads_add_up(self):
        """The time of every thread counts."""
        child = self.start(*self.victim("burn", 100000, 2), stdout=None)
        harness.wait_until(lambda: len(os.listdir(f"/proc/{child.pid}/task")) == 2, "both threads")
        leader = f"/proc/{child.pid}/task/{child.pid}/schedstat"
        harness.wait_until(lambda: cpu_time(child.pid) - cpu_time_of(leader) > 0.1 and
                           cpu_time_of(leader) > 0.1, "both have used some")
        before = cpu_time(child.pid)
        snapshot, process = self.await_share(child.pid)
        self.assertTrue(before - 0.001 <= process["cpu_seconds"] <= cpu_time(child.pid) + 0.001)
        self.assert_share(snapshot, process, min(2, len(os.sched_getaffinity(0))))

    def test_leader_that_ended(self):
        """The process lives on in its other threads, with its memory and its descriptors."""
        child = self.start(*self.victim("leader-exit", 100000, 30), stdout=None)
        harness.wait_until(lambda: harness.process_state(child.pid) == "Z", "the leader's end")
        snapshot, process = self.await_share(child.pid)
        self.assertNotEqual(process["state"], "Z")
        self.assertNotIn(child.pid, snapshot["zombie_pids"])
        self.assertGreaterEqual(process["rss_mb"], 30)
        self.assertGreaterEqual(process["open_fds"], 1)

    def test_instant(self):
        snapshot = self.snapshot("--all", "--instant")
        self.assertGreater(len(snapshot["processes"]), 1)
        self.assertEqual({process["cpu_percent"] for process in snapshot["processes"]}, {None})
        self.assertIsNone(snapshot["system_cpu_percent"])
        text = self.ps("--all", "--instant").stdout.decode()
        heading = text.splitlines()[0]
        end = heading.index("CPU%") + 4
        self.assertEqual({line[end - 4:end].strip() for line in text.splitlines()[1:]}, {"-"})

    def test_command_after_exec(self):
        """The command line is that of the current program."""
        child = self.start("sh", "-c", 'echo ready $$; read go; exec "$0" named after',
                           *self.victim())
        pid, _ = self.await_ready(child)
        self.assertTrue(self.process(pid, "--all", "--instant")["command"].startswith("sh -c"))
        child.stdin.write(b"go\n")
        child.stdin.flush()
        self.await_ready(child)
        self.assertEqual(self.process(pid, "--all", "--instant")["command"],
                         " ".join(self.victim("named", "after")))


class Listing(PsTestCase):
    def test_snapshot_fields(self):
        snapshot = self.snapshot()
        for name in SNAPSHOT_NUMBERS:
            self.assertIsInstance(snapshot[name], (int, float), name)
        for name in ("processes", "gpus", "zombie_pids", "job_progress", "jobs"):
            self.assertIsInstance(snapshot[name], list, name)
        for name in ("pressure_level", "running_jobs", "active_sheets", "id", "host", "psi",
                     "conductor_uptime_seconds", "daemon_cpu_percent"):
            self.assertIn(name, snapshot)
        for process in snapshot["processes"]:
            self.assertEqual(set(PROCESS_FIELDS) - set(process), set())
        self.assertAlmostEqual(snapshot["timestamp"], time.time(), delta=harness.DEADLINE)
        self.assertAlmostEqual(
            snapshot["system_memory_used_mb"],
            snapshot["system_memory_total_mb"] - snapshot["system_memory_available_mb"], places=1)
        self.assertEqual(snapshot["host"], os.uname().nodename)

    def test_all_is_all(self):
        """Processes that exist before and after are in the snapshot."""
        def pids():
            return {int(name) for name in os.listdir("/proc") if name.isdigit()}
        before = pids()
        snapshot = self.snapshot("--all", "--instant")
        after = pids()
        listed = [process["pid"] for process in snapshot["processes"]]
        self.assertEqual(len(listed), len(set(listed)))
        self.assertEqual((before & after) - set(listed), set())
        self.assertGreaterEqual(snapshot["process_total"], len(listed))

    def test_scope(self):
        """Without --all: zombies, and the 20 with most CPU and most memory."""
        quiet = [self.start_victim("named", f"quiet{i}")[0].pid for i in range(30)]
        large, _ = self.start_victim("shape", 1, 0, 200)
        busy, _ = self.start_victim("busy")
        _, (_, lines) = self.start_victim("zombies", 2)
        zombie_pids = {int(words[1]) for words in lines}
        def find():
            snapshot = self.snapshot()
            listed = {process["pid"] for process in snapshot["processes"]}
            return busy.pid in listed and (snapshot, listed)
        # on a busy machine others may use more for a while
        snapshot, listed = harness.wait_until(find, "it is among those with most CPU")
        self.assertIn(large.pid, listed)
        self.assertLessEqual(zombie_pids, listed)
        self.assertLess(len(listed & set(quiet)), 30)
        self.assertGreater(snapshot["process_total"], len(listed))

    def test_zombies(self):
        _, (_, lines) = self.start_victim("zombies", 3)
        zombie_pids = {int(words[1]) for words in lines}
        snapshot = self.snapshot("--all")
        states = {process["pid"]: process["state"] for process in snapshot["processes"]}
        self.assertEqual({states[pid] for pid in zombie_pids}, {"Z"})
        self.assertLessEqual(zombie_pids, set(snapshot["zombie_pids"]))
        self.assertEqual(snapshot["zombie_count"], len(snapshot["zombie_pids"]))

    def test_tree(self):
        child = self.start("sh", "-c", 'exec 3<&0; "$0" named below <&3 & read go',
                           *self.victim())
        below, _ = self.await_ready(child)
        text = self.ps("--all", "--instant", "--tree").stdout.decode("utf-8")
        lines = text.splitlines()
        at_parent = lines.index(self.line_of(text, child.pid))
        at_child = lines.index(self.line_of(text, below))
        self.assertEqual(at_child, at_parent + 1)
        start = lines[0].index("COMMAND")
        indents = [len(line[start:]) - len(line[start:].lstrip())
                   for line in (lines[at_parent], lines[at_child])]
        self.assertEqual(indents[1], indents[0] + 2)

    def test_kernel_threads_are_in_brackets(self):
        if not os.path.exists("/proc/2/comm") or open("/proc/2/comm").read() != "kthreadd\n":
            self.skipTest("no kernel threads in this pid namespace")
        kthreadd = self.process(2, "--all", "--instant")
        self.assertEqual(kthreadd["command"], "[kthreadd]")
        self.assertEqual(kthreadd["rss_mb"], 0)

    def test_order_is_by_use(self):
        self.start_victim("busy")
        text = self.ps("--all").stdout.decode("utf-8")
        heading = text.splitlines()[0]
        end = heading.index("CPU%") + 4
        shares = [line[end - 6:end].strip() for line in text.splitlines()[1:]]
        known = [float(share) for share in shares if share != "-"]
        self.assertEqual(known, sorted(known, reverse=True))
        self.assertEqual(shares[len(known):], ["-"] * (len(shares) - len(known)))

    def test_wrong_usage(self):
        for words in (["everything"], ["--json=yes"], ["--no-such"], ["-x"]):
            with self.subTest(words=words):
                result = self.run_sonde("ps", *words)
                self.assertEqual((result.status, result.stdout), (2, b""), result)
                self.assertIn("sonde ps --help", result.stderr)

    def test_full_or_closed_output(self):
        with open("/dev/full", "wb") as full:
            result = self.run_sonde("ps", "--instant", stdout=full)
        self.assertEqual(result.status, 1, result)
        self.assertIn("No space left on device", result.stderr)
        result = self.run_program("sh", "-c", '"$0" ps --instant >&-', harness.SONDE)
        self.assertEqual(result.status, 1, result)
        script = '"$0" ps --all --instant --json | true; echo ${PIPESTATUS[0]}'
        result = self.run_program("bash", "-c", script, harness.SONDE)
        self.assertIn(result.stdout, (b"0\n", b"141\n"))
        self.assertEqual(result.stderr, "")


class Unprivileged(PsTestCase):
    @harness.needs_root()
    @harness.needs_program("setpriv")
    def test_others_processes(self):
        """What an ordinary user may not read is unknown; public figures are there."""
        child = self.start_asleep("shape", 2, 40, 10)
        process = self.process(child.pid, "--all", prefix=harness.unprivileged())
        self.assertEqual(process["uid"], 0)
        self.assertEqual(process["threads"], 2)
        self.assertGreaterEqual(process["rss_mb"], 10)
        self.assertIsNotNone(process["cpu_seconds"])
        self.assertEqual(process["cpu_percent"], 0)
        release = tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups()))
        if release >= (6, 2):
            self.assertEqual(process["open_fds"], len(os.listdir(f"/proc/{child.pid}/fd")))
        else:
            self.assertIsNone(process["open_fds"])
        for name in ("read_bytes", "write_bytes", "gpu_memory_mb", "job_id"):
            self.assertIsNone(process[name], name)

    @harness.needs_root()
    @harness.needs_program("setpriv")
    def test_own_process(self):
        child = self.start(*harness.unprivileged(), *self.victim("named", "own"))
        self.await_ready(child)
        process = self.process(child.pid, "--all", prefix=harness.unprivileged())
        self.assertEqual(process["uid"], harness.UNPRIVILEGED_UID)
        self.assertEqual(process["open_fds"], len(os.listdir(f"/proc/{child.pid}/fd")))

    @harness.needs_namespaces()
    def test_hidden_processes(self):
        """Where /proc hides processes of other users, the list is shorter and otherwise correct."""
        prefix = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c",
                  'sleep 300 & mount -o remount,hidepid=2 /proc && exec "$0" "$@"',
                  *harness.unprivileged())
        snapshot = self.snapshot("--all", prefix=prefix)
        self.assertEqual({process["uid"] for process in snapshot["processes"]}, {harness.UNPRIVILEGED_UID})


if __name__ == "__main__":
    harness.main()
