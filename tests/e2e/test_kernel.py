#!/usr/bin/env python3
"""The kernel collector: BPF programs report every process, exit and signal; and the fallback where it
cannot be used."""
import os
import pathlib
import signal
import subprocess
import unittest

import daemon
import harness

# The ring holds the events of 4,000 processes: a test has more than that, and `make release-check`
# has more still.
STORM = int(os.environ.get("SONDE_STORM_PROCESSES", "6000"))
CAPABILITIES = "bpf,perfmon"
HUNGRY = "x = bytearray(200 << 20)"


def with_capabilities():
    """A command prefix for another user with only the capabilities that the collector needs."""
    return ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
            f"--inh-caps=+{CAPABILITIES.replace(',', ',+')}",
            f"--ambient-caps=+{CAPABILITIES.replace(',', ',+')}",
            f"--bounding-set=-all,+{CAPABILITIES.replace(',', ',+')}")


class Kernel(daemon.TestCase):
    def helper(self, name):
        return os.path.join(harness.HELPERS, name)

    def storm(self, count, program=None):
        """The command that starts this many processes, four at a time; "-": without a program."""
        return (self.helper("storm"), str(count), "4", program or self.helper("nothing"))

    def refusing(self, programs):
        """The environment of a sonde whose kernel rejects these programs."""
        return {"LD_PRELOAD": self.helper("librefuse-bpf.so"), "REFUSED_PROGRAMS": programs}

    def assert_every_end(self, run_id, count):
        """Each is reported once, or counted where a storm is folded; none lacks its CPU time."""
        job = self.job(run_id)
        self.assertEqual(job["process_spawn_count"], count)
        ends, cpu, unknown = self.ends_of(run_id)
        self.assertEqual((ends, unknown), (count, 0))
        self.assert_near(cpu, job["total_cpu_seconds"], ratio=0.01, what="sum of all ends")

    def ends_of(self, run_id):
        """The number of exits, their CPU seconds, and for how many that is unknown: single events
        and folded ones."""
        row, = self.rows("SELECT count(*) n, total(cpu_seconds) cpu, total(cpu_seconds IS NULL) "
                         "unknown FROM process_events WHERE run_id = ? AND event_type IN "
                         "('exit', 'kill')", run_id)
        folded, = self.rows("SELECT total(count) n, total(cpu_seconds) cpu, total(count - cpu_count) "
                            "unknown FROM folded_events WHERE run = (SELECT id FROM jobs WHERE "
                            "run_id = ?) AND event_type IN ('exit', 'kill')", run_id)
        return tuple(row[name] + folded[name] for name in ("n", "cpu", "unknown"))


@harness.needs_kernel_collector()
class Storms(Kernel):
    """Thousands of processes, four at a time: all of them, with status and CPU time."""

    def test_under_the_daemon(self):
        sonde = self.daemon(interval=0.5)
        result = self.run_job(*self.storm(STORM))
        run_id = result.summary["run_id"]
        self.await_end(run_id)
        self.assertEqual(result.summary["processes"], STORM + 1)
        if self.ends_of(run_id)[0] < STORM + 1:
            # Only a loss that the daemon counts and reports explains this.
            self.await_rows("SELECT 1 FROM gaps WHERE kind = 'events'")
            self.assertGreater(sonde.rpc("daemon.status")["losses"]["lost_event_batches"], 0)
            self.assertIn("events lost", self.run_sonde("report", run_id).stdout.decode())
            self.skipTest("needs a machine on which the daemon runs before the kernel's ring is full")
        self.assert_every_end(run_id, STORM + 1)
        status = sonde.rpc("daemon.status")
        self.assertEqual(status["collector"], "bpf")
        self.assertEqual(status["losses"]["lost_event_batches"], 0)

    def test_peak_before_an_exec(self):
        """The daemon's kernel collector, or that of `--exact`, reports it; otherwise it may be lost
        for a process that is left running."""
        command = " ".join(self.victim("alloc-exec", 100, "sleep", 300))
        script = f"{command} & while [ $(cat /proc/$!/comm) != sleep ]; do :; done; echo left $!"
        for options, prefix in (((), ()), (("--exact",), ()), ((), harness.unprivileged())):
            with self.subTest(options=options, prefix=prefix):
                result = self.run_sonde("run", "--no-store", *options, "--", "sh", "-c", script,
                                        prefix=prefix, cwd=self.open_directory())
                os.kill(int(result.figure("left")), signal.SIGKILL)
                exactness = result.summary["exactness"]["peak_rss_mb"]
                self.assertLess(result.summary["peak_rss_mb"], 110)
                if options or exactness == "exact":
                    self.assertEqual(exactness, "exact")
                    self.assertGreaterEqual(result.summary["peak_rss_mb"], 100)

    def test_exact(self):
        result = self.run_job(*self.storm(STORM), options=("--exact",))
        summary = result.summary
        self.assertEqual((summary["processes"], summary["collector"]), (STORM + 1, "bpf"))
        self.assertEqual(set(summary["exactness"][name] for name in
                             ("cpu_seconds", "peak_rss_mb", "processes")), {"exact"})
        self.assert_every_end(summary["run_id"], STORM + 1)

    def test_takeover_during_a_storm(self):
        """The collector is loaded during the storm: nothing is lost or counted twice."""
        for count, program in ((2 * STORM, None), (10 * STORM, "-")):
            with self.subTest(program=program):
                result = self.run_job("/usr/bin/time", "-f", "%U %S", *self.storm(count, program))
                summary = result.summary
                user, system = map(float, result.stderr.split("\n")[0].split())
                self.assertEqual((summary["collector"], summary["processes"]), ("bpf", count + 2))
                self.assertEqual(summary["exactness"]["cpu_seconds"], "exact")
                self.assertEqual(summary["left_running"], [])
                self.assert_near(summary["cpu_seconds"], user + system, ratio=0.01, slack=0.03)

    def test_a_short_command_does_not_wait(self):
        """A command that ends as soon as sonde begins to load takes as long as the delay, so a
        shorter one loads nothing. tests/unit/test-kernel-loader.c shows the order of events."""
        loads = "until grep -q bpf /proc/$PPID/maps; do sleep 0.01; done"
        summary = self.run_job("sh", "-c", loads).summary
        self.assertGreaterEqual(summary["wall_seconds"], harness.KERNEL_DELAY_SECONDS)


@harness.needs_kernel_collector()
class Ledger(Kernel):
    """The sum over all processes equals the total of wait4."""

    def test_compile(self):
        for number in range(60):
            self.write(f"f{number}.c", f"#include <stdio.h>\n#include <stdlib.h>\nint f{number}(int x)"
                       "{ return printf(\"%d\", x * atoi(\"3\")); }\n")
        self.write("Makefile", "all: $(patsubst %.c,%.o,$(wildcard *.c))\n%.o: %.c\n"
                   "\tgcc -O2 -c $< -o $@\n")
        result = self.run_job("make", "-s", "-j3", "-C", self.path("."), options=("--exact",))
        self.assertEqual(result.summary["exactness"]["cpu_seconds"], "exact")
        self.assert_every_end(result.summary["run_id"], result.summary["processes"])

    def test_takeover_during_a_build(self):
        """The collector is loaded while compilers run, and at another moment of each build: whatever
        ends just then is counted once."""
        for number in range(8):
            self.write(f"f{number}.c", "#include <stdio.h>\n#include <stdlib.h>\n" + "".join(
                f"int f{item}(int x) {{ return rand() % (x + {item}); }}\n" for item in range(30)))
        self.write("Makefile", "all: $(patsubst %.c,%.o,$(wildcard *.c))\n%.o: %.c\n"
                   "\t@gcc -O2 -c $< -o $@ && true\n")
        for number in range(6):
            with self.subTest(number=number):
                summary = self.run_job("/usr/bin/time", "-f", "%U %S", "-o", self.path("time"), "make",
                                       "-B", "-s", f"-j{1 + number % 3}", "-C", self.path(".")).summary
                with open(self.path("time"), encoding="ascii") as file:
                    truth = sum(map(float, file.read().split()))
                self.assertEqual((summary["collector"], summary["processes"]), ("bpf", 34))
                self.assertEqual(summary["exactness"]["cpu_seconds"], "exact")
                self.assertEqual(summary["exactness"]["peak_rss_mb"], "exact")
                # time rounds both figures down to 10 ms
                self.assert_near(summary["cpu_seconds"], truth, ratio=0.01, slack=0.03)

    def test_children_that_are_not_reaped(self):
        """SIGCHLD is ignored: wait4 of the parent does not include them; their exit events do."""
        script = ("import os, signal, time\n"
                  "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
                  "for _ in range(4):\n"
                  "    if os.fork() == 0:\n"
                  "        while time.process_time() < 0.25: pass\n"
                  "        os._exit(0)\n"
                  "try:\n    os.wait()\nexcept ChildProcessError: pass\n")
        result = self.run_job("python3", "-c", script, options=("--exact",))
        self.assertGreaterEqual(result.summary["cpu_seconds"], 1.0)
        self.assertEqual(result.summary["exactness"]["cpu_seconds"], "exact")
        self.assertEqual(result.summary["processes"], 5)


@harness.needs_kernel_collector()
class Signals(Kernel):
    def test_sender_is_named(self):
        sonde = self.daemon()
        run_id = sonde.rpc("job.start", job_id="x", pid=(puppet := self.puppet()).pid)["run_id"]
        shell = self.start("sh", "-c", f"kill -KILL {puppet.pid}; read end")
        puppet.process.wait(harness.DEADLINE)
        kill, = self.await_rows("SELECT * FROM process_events WHERE run_id = ? AND event_type = "
                                "'kill'", run_id)
        self.assertEqual((kill["pid"], kill["signal_num"], kill["sender_pid"]),
                         (puppet.pid, signal.SIGKILL, shell.pid))
        self.assertIn("read end", kill["sender_command"])

    def test_killed_before_the_job_was_known(self):
        """Between the fork of a command and the report to the daemon that it is a job. A daemon that
        does not answer within a second is not used, and no option changes that (ANSWER_NS in
        src/run/run-storage.c): on a busy machine it has priority."""
        self.daemon(prefix=("nice", "-n", "-19"))
        for options in ((), ("--exact",)):
            result = self.run_sonde("run", *options, "--", "sh", "-c",
                                    "sleep 60 & kill -KILL $!; wait $!")
            kill, = self.events(result.summary["run_id"], "kill")
            self.assertTrue(kill["sender_command"].startswith("sh"), kill)
            self.assertIn("sent by pid", result.summary["cause"])

    def test_a_process_of_a_job_kills_another(self):
        result = self.run_sonde("run", "--exact", "--", "bash", "-c",
                                "sleep 60 & kill -TERM $!; wait $!; exit 0")
        self.assertEqual((result.status, result.summary["exactness"]["processes"]), (0, "exact"),
                         result)
        kills = self.events(result.summary["run_id"], "kill")
        self.assertEqual([kill["signal_num"] for kill in kills], [signal.SIGTERM], result)
        kill, = kills
        self.assertIn("bash", kill["sender_command"])

    def small_group(self):
        """A cgroup with too little memory for `HUNGRY`."""
        group = pathlib.Path("/sys/fs/cgroup/memory") / f"sonde-test-{os.getpid()}"
        if not group.parent.is_dir():
            self.skipTest("needs the memory controller of cgroup v1")
        group.mkdir()
        self.addCleanup(group.rmdir)
        (group / "memory.limit_in_bytes").write_text("33554432", encoding="ascii")
        return group

    def check_anomaly(self, oom, uid):
        """The event arrives soon, however long the interval."""
        anomaly, = self.await_rows("SELECT * FROM anomalies WHERE anomaly_type = 'oom_kill'"
                                   " AND pid = ?", oom["pid"])
        self.assertEqual((anomaly["run_id"], anomaly["severity"], anomaly["uid"]),
                         (oom["run_id"], "critical", uid))
        return anomaly

    @harness.needs_root()
    def test_out_of_memory(self):
        """The kernel reports which process it kills, and why. The daemon has priority: it must
        answer `sonde run` within a second (ANSWER_NS)."""
        script = f"echo $$ > {self.small_group()}/cgroup.procs; python3 -c '{HUNGRY}'"
        self.daemon(interval=3600, prefix=("nice", "-n", "-19"))
        result = self.run_sonde("run", "--job", "oom", "--", "sh", "-c", script)
        self.assertNotEqual(result.status, 0)
        run_id = result.summary["run_id"]
        oom, = self.await_rows("SELECT * FROM process_events WHERE run_id = ? AND event_type = "
                               "'oom'", run_id)
        self.assertIn("out of memory", oom["details"])
        kill, = self.events(run_id, "kill")
        self.assertEqual((kill["pid"], kill["signal_num"]), (oom["pid"], signal.SIGKILL))
        self.assertEqual(self.check_anomaly(oom, 0)["job_id"], "oom")

    @harness.needs_root()
    def test_out_of_memory_elsewhere(self):
        """A run does not count the kill of a process that is not in it."""
        group = self.small_group()
        run = self.start_sonde("--exact", "--", "sh", "-c", "echo started; cat")
        self.assertEqual(run.stdout.readline(), b"started\n")
        other = self.start("sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh", "python3", "-c",
                           HUNGRY)
        self.assertEqual(other.wait(harness.DEADLINE), -signal.SIGKILL)
        self.await_rows("SELECT 1 FROM process_events WHERE event_type = 'oom' AND pid = ?", other.pid)
        summary = self.finish(run).summary
        self.assertFalse(summary["oom_count"])
        self.assertEqual((summary["processes"], summary["kill_count"]), (2, 0))

    @harness.needs_root()
    def test_out_of_memory_without_a_job(self):
        """The daemon stops before it would report it: the event and the anomaly are stored."""
        group = self.small_group()
        sonde = self.daemon(interval=3600)
        process = self.start("sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh",
                             *harness.unprivileged(), "python3", "-c", HUNGRY)
        self.assertEqual(process.wait(harness.DEADLINE), -signal.SIGKILL)
        sonde.stop()
        oom, = self.rows("SELECT * FROM process_events WHERE event_type = 'oom' AND pid = ?",
                         process.pid)
        self.assertIsNone(oom["run_id"])
        self.check_anomaly(oom, harness.UNPRIVILEGED_UID)


@harness.needs_kernel_collector()
class Losses(Kernel):
    def test_ring_overflows(self):
        """A daemon is stopped during a storm: it reports the loss and continues."""
        sonde = self.daemon(interval=0.2)
        run_id = sonde.rpc("job.start", job_id="x", pid=(puppet := self.puppet()).pid)["run_id"]
        sonde.await_pid(puppet.pid, run_id)
        with sonde.paused():
            self.run_program(*self.storm(9000))
            child, orphan = puppet.fork("child"), puppet.fork("orphan")
        sonde.await_pid(child, run_id)
        sonde.await_pid(orphan, run_id)  # known only from the kernel's list of members
        status = sonde.rpc("daemon.status")
        self.assertGreater(status["losses"]["lost_event_batches"], 0)
        self.await_rows("SELECT 1 FROM gaps WHERE kind = 'events'")
        self.assertIn("events lost, their number is unknown", self.run_sonde("report", run_id).stdout.decode())


class Rights(Kernel):
    """A user without the privileges gets the reason and the fallback."""

    def status_of(self, config="", **options):
        return self.daemon(config, **options).rpc("daemon.status")

    @harness.needs_kernel_collector()
    def test_root(self):
        status = self.status_of()
        self.assertEqual(status["collector"], "bpf")
        self.assertIn("CPU time of runs", str(status["exact"]))
        self.assertNotIn("CAP_BPF", str(status["not_exact"]))

    def test_procfs_by_choice(self):
        status = self.status_of("profiler:\n  collector: procfs\n")
        self.assertEqual(status["collector"], "procfs")
        self.assertIn("profiler.collector is procfs", status["collector_reason"])
        text = self.run_sonde("status").stdout.decode()
        self.assertRegex(text, r"(?m)^  because    no kernel collector: profiler\.collector is procfs; "
                               r"(the process connector reports forks and exits|"
                               r"forks and exits are found by scanning)$")
        self.assertEqual(text.count("profiler.collector is procfs"), 1)

    @harness.needs_root()
    @harness.needs_kernel_collector()
    def test_two_capabilities_suffice(self):
        os.chmod(self.environment["HOME"], 0o777)
        prefix = with_capabilities()
        if harness.why_no_kernel_collector(prefix):
            self.skipTest(f"setpriv cannot give capabilities: {harness.why_no_kernel_collector(prefix)}")
        result = self.run_sonde("run", "--no-store", "--exact", "--", *self.storm(200),
                                prefix=prefix)
        self.assertEqual(result.status, 0, result)
        self.assertEqual((result.summary["collector"], result.summary["processes"]), ("bpf", 201))
        self.assertEqual(result.summary["exactness"]["cpu_seconds"], "exact")

    @harness.needs_root()
    def test_without_privileges(self):
        prefix = harness.unprivileged()
        result = self.run_sonde("run", "--no-store", "--exact", "--", "true", prefix=prefix)
        self.assertEqual(result.status, 125)
        self.assertIn("CAP_BPF", result.stderr)
        result = self.run_sonde("run", "--no-store", "--", "sleep", "0.3", prefix=prefix)
        self.assertEqual((result.status, result.summary["collector"]), (0, "procfs"))

    @harness.needs_root()
    def test_wanted_by_name(self):
        """There is no fallback for a collector that the user names."""
        sonde = daemon.Daemon(self, "profiler:\n  collector: bpf\n", env=self.refusing("*"))
        sonde.spawn()
        self.assertNotEqual(sonde.process.wait(harness.DEADLINE), 0)
        self.assertIn("no kernel collector", sonde.log)

    @harness.needs_kernel_collector()
    def test_one_program_is_refused(self):
        """Everything else works, and the status names what is missing."""
        cases = {
            "on_signal": ("signals", "bpf"),
            "on_oom": ("OOM kills", "bpf"),
            "on_switch": ("final CPU times", "bpf"),
            "read_processes": ("processes", "procfs"),
            "on_fork": ("forks and exits", "bpf"),
        }
        for program, (missing, collector) in cases.items():
            with self.subTest(program=program):
                sonde = daemon.Daemon(self, env=self.refusing(program))
                with sonde:
                    status = sonde.rpc("daemon.status")
                    self.assertEqual(status["collector"], collector)
                    words = status["collector_reason"] + str(status["not_exact"])
                    self.assertIn("rejects", words)
                    self.assertIn(missing, words)
                    result = self.run_job("sh", "-c", "/bin/true; /bin/true")
                    self.assertEqual(result.summary["processes"], 3)
                    self.await_end(result.summary["run_id"])

    @harness.needs_kernel_collector()
    def test_all_programs_are_refused(self):
        status = self.status_of(env=self.refusing("*"))
        self.assertEqual(status["collector"], "procfs")
        self.assertIn("the kernel rejects the programs", status["collector_reason"])

    @harness.needs_kernel_collector()
    @harness.needs_program("gcc")
    def test_libbpf_that_cannot_be_used(self):
        library = self.path("libbpf.so.1")
        sonde = daemon.Daemon(self, env={"LD_LIBRARY_PATH": self.directory})
        self.write("libbpf.so.1", "no library")
        with sonde:
            self.assertRegex(sonde.rpc("daemon.status")["collector_reason"],
                             r"libbpf\.so\.1 cannot be loaded .*: .*file too short")
        os.unlink(library)
        subprocess.run(["gcc", "-shared", "-o", library, "-x", "c", os.devnull], check=True)
        with sonde:
            self.assertIn("libbpf.so.1 is too old: it has no function libbpf_set_print",
                          sonde.rpc("daemon.status")["collector_reason"])


if __name__ == "__main__":
    harness.main()
