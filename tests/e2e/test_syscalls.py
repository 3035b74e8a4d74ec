#!/usr/bin/env python3
"""System calls of runs: counts compared with strace, samples compared with a known load, and no cost
where they are not requested."""
import contextlib
import json
import os
import pathlib
import re
import subprocess
import unittest

import daemon
import harness
import tracing
from test_kernel import with_capabilities

# Times vary more than counts on a shared machine: see Sampled.
POINTS = 5


def attached_programs(pid):
    """The names of the programs that a process has attached to tracepoints, as the kernel lists them."""
    found = []
    for info in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
            found += re.findall(r"^link_id:.*^prog_id:\s+(\d+)$", info.read_text(encoding="ascii"),
                                re.MULTILINE | re.DOTALL)
    programs = {program["id"]: program.get("name") for program in
                json.loads(subprocess.run(["bpftool", "-j", "prog"], check=True,
                                          stdout=subprocess.PIPE).stdout)}
    return [programs.get(int(number)) for number in found]


class Syscalls(daemon.TestCase):
    def waiter(self, *words):
        return (os.path.join(harness.HELPERS, "waiter"), *map(str, words))

    def counted(self, *words, **options):
        """The system calls that `sonde run --syscalls` reports for a command."""
        return self.run_job(*words, options=("--syscalls",), **options).summary

    def strace_counts(self, *words):
        """{name: calls} of a command and all that it starts, by strace, in the same environment."""
        path = self.path("strace")
        done = self.run_program("strace", "-c", "-w", "-f", "-o", path, "--", *words)
        self.assertEqual(done.status, 0, done)
        table = tracing.table_of(self.read("strace").decode())
        return {name: calls for name, (calls, _, _) in table.items()}

    def assert_trusted(self, summary, source, exactness):
        self.assertEqual(summary["syscall_source"], source)
        self.assertEqual(summary["exactness"]["syscall_hotspots"], exactness)

    def stored(self, run_id, column):
        return json.loads(self.job(run_id)[column])


@harness.needs_kernel_collector()
@harness.needs_program("strace")
class BesideStrace(Syscalls):
    """The same names with the same counts."""

    def assert_same_counts(self, *words):
        summary = self.counted(*words)
        self.assert_trusted(summary, "bpf", "exact")
        self.assertEqual(summary["syscall_counts"], self.strace_counts(*words))
        return summary

    def test_a_program(self):
        summary = self.assert_same_counts("dd", "if=/dev/zero", "of=/dev/null", "bs=1",
                                          "count=20000", "status=none")
        self.assertGreaterEqual(summary["syscall_counts"]["write"], 20000)
        self.assertNotIn("exit_group", summary["syscall_counts"])
        self.assertGreater(summary["syscall_errors"]["openat"], 0)

    def test_a_script(self):
        self.assert_same_counts("sh", "-c", "ls / >/dev/null; for i in 1 2 3; do /bin/true; done; "
                                            "(exec sleep 0.01); cat /nowhere 2>/dev/null; :")

    def test_threads(self):
        """The end of the program kills one of them in a call: that call never returns. The number of
        waits between threads differs from run to run."""
        words = self.waiter(4, 10, 3, 2)
        summary = self.counted(*words)
        self.assert_trusted(summary, "bpf", "exact")
        ours, theirs = summary["syscall_counts"], self.strace_counts(*words)
        self.assertNotIn("pause", ours)
        for counts in (ours, theirs):
            counts.pop("futex", None)
        self.assertEqual(ours, theirs)

    @harness.needs_program("cc")
    @harness.needs_program("setarch")
    def test_a_compile(self):
        """Without random addresses (setarch -R), which decide how often a compiler calls brk. The
        names of its temporary files stay random, so the calls of getrandom differ."""
        source = pathlib.Path(self.path("main.c"))
        source.write_text("#include <stdio.h>\nint main(void) { puts(\"x\"); return 0; }\n",
                          encoding="ascii")
        target = self.path("main.o")

        def compile_with(count):
            pathlib.Path(target).unlink(missing_ok=True)
            return count("setarch", "-R", "cc", "-O1", "-c", str(source), "-o", target)

        by_strace = compile_with(self.strace_counts)
        summary = compile_with(self.counted)
        self.assert_trusted(summary, "bpf", "exact")
        for counts in (by_strace, summary["syscall_counts"]):
            counts.pop("getrandom", None)
        self.assertEqual(summary["syscall_counts"], by_strace)

    @unittest.skipUnless(os.uname().machine == "x86_64", "needs calls by another numbering")
    @harness.needs_program("cc")
    def test_calls_of_32_bits(self):
        """getpid is 20 there, which is writev here."""
        source = pathlib.Path(self.path("old.c"))
        source.write_text("""
            static long call(long number)
            {
                long result;
                __asm__ volatile("int $0x80" : "=a"(result) : "a"(number) : "memory");
                return result;
            }
            int main(void)
            {
                for (int i = 0; i < 7; i++)
                    if (call(20) < 0) /* getpid */
                        return 77; /* this kernel has none */
                return 0;
            }""", encoding="ascii")
        program = self.path("old")
        subprocess.run(["cc", "-o", program, str(source)], check=True)
        if subprocess.run([program], check=False).returncode != 0:
            self.skipTest("this kernel takes no calls of 32 bits")
        summary = self.counted(program)
        self.assertEqual(summary["syscall_counts"]["getpid"], 7)
        self.assertNotIn("writev", summary["syscall_counts"])


@harness.needs_kernel_collector()
class Counted(Syscalls):
    def test_all_outputs(self):
        """In the summary as JSON and text, in the store, in the report, and with an exit event."""
        result = self.run_job("sh", "-c", "dd if=/dev/zero of=/dev/null bs=1 count=5000 "
                              "status=none; :", options=("--syscalls",))
        summary = result.summary
        self.assertRegex(result.stderr, r"syscalls +\w+ [\d.]+ %")
        self.assertAlmostEqual(sum(summary["syscall_hotspots"].values()), 100, delta=0.5)
        self.assertGreater(summary["syscall_seconds"]["read"], 0)
        run_id = summary["run_id"]
        self.assertEqual(self.stored(run_id, "syscall_counts"), summary["syscall_counts"])
        self.assertEqual(self.stored(run_id, "syscall_hotspots"), summary["syscall_hotspots"])
        self.assertEqual(self.job(run_id)["exactness_syscall_hotspots"], "exact")
        report = self.run_sonde("report", run_id).stdout.decode()
        self.assertIn("system calls (every call counted; without calls that wait)", report)
        self.assertRegex(report, r"write +[\d.]+ % +\S+ m?s +5,00\d")
        self.check_details_of_exits(run_id, summary["syscall_counts"])

    def check_details_of_exits(self, run_id, counts):
        """Each exit names up to three calls that took longest. Which these are cannot be predicted:
        a call during which the process does not get the CPU takes long."""
        exits = self.rows("SELECT command, details FROM process_events WHERE run_id = ? AND "
                          "event_type = 'exit'", run_id)
        self.assertEqual(sorted(row["command"].split()[0] for row in exits), ["dd", "sh"])
        in_all = 0
        for row in exits:
            words = re.fullmatch(r"system calls: (.*); (\d+) in all", row["details"])
            in_all += int(words[2])
            calls = re.findall(r"(\w+) (\d+)% \((\d+)\)", words[1])
            self.assertEqual(words[1], ", ".join(f"{name} {share}% ({count})"
                                                 for name, share, count in calls))
            self.assertLessEqual(len(calls), 3)
            shares = [int(share) for _, share, _ in calls]
            self.assertEqual(shares, sorted(shares, reverse=True))
            for name, _, count in calls:
                self.assertLessEqual(int(count), counts[name])
                if row["command"].startswith("dd") and name in ("read", "write"):
                    self.assertGreaterEqual(int(count), 5000)
        self.assertEqual(in_all, sum(counts.values()))

    def test_without_privileges(self):
        """Without privileges: an error, and nothing is run."""
        refused = self.run_sonde("run", "--syscalls", "--", "touch", self.path("made"),
                                 prefix=harness.unprivileged())
        self.assertEqual(refused.status, 125)
        self.assertIn("--syscalls needs the kernel collector", refused.stderr)
        self.assertFalse(os.path.exists(self.path("made")))

    @harness.needs_root()
    def test_with_two_capabilities(self):
        os.chmod(self.directory, 0o777)
        summary = self.run_job("true", options=("--syscalls", "--no-store"),
                               prefix=with_capabilities()).summary
        self.assert_trusted(summary, "bpf", "exact")
        self.assertEqual(summary["syscall_counts"]["execve"], 1)

    def test_with_a_daemon(self):
        """The daemon keeps the run; its parent has counted, and the parent's figures win."""
        sonde = self.daemon(interval=0.2)
        summary = self.counted("sh", "-c", "sleep 0.5; :")
        self.await_end(summary["run_id"])
        self.assert_trusted(summary, "bpf", "exact")
        self.assertEqual(self.stored(summary["run_id"], "syscall_counts"),
                         summary["syscall_counts"])
        report = sonde.rpc("report.job", job=summary["run_id"])
        self.assertEqual(report["job"]["profile"]["syscall_source"], "bpf")

    @harness.needs_program("bpftool")
    def test_attached_only_while_a_run_counts(self):
        counting = {"on_call", "on_return"}
        sonde = self.daemon(interval=0.2, config="profiler:\n  syscalls: bpf\n")

        def count():
            return len([name for name in attached_programs(sonde.pid) if name in counting])

        self.assertIn("on_fork", attached_programs(sonde.pid))
        self.assertEqual(count(), 0)
        run = self.start("sleep", "300")
        run_id = sonde.rpc("job.start", job_id="asks", pid=run.pid)["run_id"]
        self.assertEqual(count(), 2)
        run.kill()
        run.wait()
        sonde.rpc("job.finish", job_id=run_id, outcome="success")
        self.assertEqual(count(), 0)

    def test_by_configuration(self):
        """For a process that existed before, calls from then on: a lower bound."""
        sonde = self.daemon(interval=0.2, config="profiler:\n  syscalls: bpf\n")
        shell = self.start("sh", "-c", "read go; for i in 1 2 3 4 5 6 7; do /bin/true; done; "
                                       "echo done; read end")
        run_id = sonde.rpc("job.start", job_id="x", pid=shell.pid)["run_id"]
        shell.stdin.write(b"go\n")
        shell.stdin.flush()
        self.assertEqual(shell.stdout.readline(), b"done\n")

        def row():
            return next((process for process in sonde.rpc("daemon.top")["processes"]
                         if process["pid"] == shell.pid and process["syscall_counts"]
                         and process["syscall_counts"].get("write")), None)

        process = harness.wait_until(row, "figures of system calls")
        self.assertEqual(process["syscall_source"], "bpf")
        self.assertEqual(process["syscall_counts"].get("vfork", 0) +
                         process["syscall_counts"].get("clone", 0), 7)
        shell.communicate(b"\n", timeout=harness.DEADLINE)
        sonde.rpc("job.finish", job_id=run_id, outcome="success")
        self.await_end(run_id)
        counts = self.stored(run_id, "syscall_counts")
        self.assertEqual(counts["execve"], 7)
        self.assertEqual(self.job(run_id)["exactness_syscall_hotspots"], "lower_bound")


@harness.needs_kernel_collector()
class Sampled(Syscalls):
    """Without counting: the call of every thread at each tick."""

    def test_planted_split(self):
        """70 to 30, 16 threads, far more than 800 samples. 37 + 16 ms is no multiple of the
        interval. The program measures the real split itself, because timers fire late."""
        result = self.run_job(*self.waiter(16, 40, 37, 16), options=("--exact", "--interval",
                                                                     "10ms"))
        hotspots = result.summary["syscall_hotspots"]
        both = hotspots["poll"] + hotspots["clock_nanosleep"]
        self.assertAlmostEqual(100 * hotspots["poll"] / both, result.figure("poll_pct"),
                               delta=POINTS)
        summary = result.summary
        self.assert_trusted(summary, "sampled", "sampled")
        self.assertIsNone(summary["syscall_counts"])
        self.assertGreater(summary["num_samples"] * 16, 800)
        # A report omits calls that wait, and these two do.
        self.assertNotIn("clock_nanosleep",
                         self.run_sonde("report", summary["run_id"]).stdout.decode())

    def test_by_the_daemon(self):
        """In rows, in the context of a process, and in the profile of the run."""
        sonde = self.daemon(interval=0.05)
        waiter = self.start(*self.waiter(8, 100000, 37, 16))
        run_id = sonde.rpc("job.start", job_id="x", pid=waiter.pid)["run_id"]

        def row():
            return next((process for process in sonde.rpc("daemon.top")["processes"]
                         if process["pid"] == waiter.pid and process["syscall_time_pct"]), None)

        def hotspot():
            return sonde.rpc("resource.context", pid=waiter.pid)["syscall_hotspot"] or ""

        process = harness.wait_until(row, "figures of system calls")
        self.assertEqual(process["syscall_source"], "sampled")
        self.assertIsNone(process["syscall_counts"])
        # The first samples may be from its start, when it creates its threads.
        harness.wait_until(lambda: re.match(r"(poll|futex|clock_nanosleep) \d+%$", hotspot()),
                           hotspot)
        waiter.kill()
        waiter.wait()
        sonde.rpc("job.finish", job_id=run_id, outcome="success")
        self.await_end(run_id)
        self.assertIn("poll", self.stored(run_id, "syscall_hotspots"))
        job = self.job(run_id)
        self.assertEqual((job["syscall_source"], job["exactness_syscall_hotspots"]),
                         ("sampled", "sampled"))
        self.assertIsNone(job["syscall_counts"])
        status = sonde.rpc("daemon.status")
        self.assertIn("system calls of runs: sampled once per interval", status["not_exact"])

    def test_a_program_that_computes(self):
        """It is in no call, and its last call is not reported instead: all waiting is that of the
        other process, and of the shell at the end. It runs long, because on a busy machine a
        program also takes long to start."""
        hotspots = self.run_job("sh", "-c", "sleep 3 & i=0; while [ $i -lt 400000 ]; do i=$((i+1)); "
                                "done; wait", options=("--exact", "--interval",
                                                       "10ms")).summary["syscall_hotspots"]
        waiting = ("clock_nanosleep", "wait4", "rt_sigsuspend")  # shells wait in one of the last two
        self.assertGreater(sum(hotspots.get(name, 0) for name in waiting), 90)

    def test_off(self):
        config = self.path("off.yaml")
        pathlib.Path(config).write_text("profiler:\n  syscalls: off\n", encoding="ascii")
        summary = self.run_job(*self.waiter(2, 3, 37, 16),
                               options=("--config", config, "--exact", "--interval",
                                        "10ms")).summary
        self.assertIsNone(summary["syscall_hotspots"])
        self.assertIsNone(summary["syscall_source"])


class SampledByProc(Syscalls):
    """Without BPF programs: by /proc/PID/syscall, for any user."""

    def planted(self, *prefix):
        config = self.write("procfs.yaml", "profiler:\n  collector: procfs\n")
        result = self.run_sonde("run", "--config", config, "--no-store", "--interval", "10ms", "--",
                                *self.waiter(16, 40, 37, 16), prefix=prefix)
        self.assertEqual(result.status, 0, result)
        return result

    def assert_planted(self, result):
        summary = result.summary
        hotspots = summary["syscall_hotspots"]
        both = hotspots["poll"] + hotspots["clock_nanosleep"]
        self.assertAlmostEqual(100 * hotspots["poll"] / both, result.figure("poll_pct"),
                               delta=POINTS)
        self.assert_trusted(summary, "sampled", "sampled")
        self.assertEqual(summary["collector"], "procfs")
        self.assertIsNone(summary["syscall_counts"])

    def test_planted_split(self):
        self.assert_planted(self.planted())

    @harness.needs_root()
    def test_as_any_user(self):
        self.assert_planted(self.planted(*harness.unprivileged()))

    def test_by_the_daemon(self):
        sonde = self.daemon("profiler:\n  collector: procfs\n", interval=0.05)
        waiter = self.start(*self.waiter(4, 100000, 37, 16))
        sonde.rpc("job.start", job_id="x", pid=waiter.pid)
        row = harness.wait_until(
            lambda: [row for row in sonde.processes(pid=waiter.pid) if row["syscall_time_pct"]],
            "figures of system calls")[0]
        self.assertEqual(row["syscall_source"], "sampled")
        self.assertTrue(any("from /proc" in line for line in sonde.rpc("daemon.status")["not_exact"]))


if __name__ == "__main__":
    harness.main()
