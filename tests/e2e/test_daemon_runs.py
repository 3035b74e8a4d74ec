#!/usr/bin/env python3
"""`sonde run` beside a daemon, which records the run; and runs whose `sonde run` or scheduler dies."""
import os
import pathlib
import signal
import time

import daemon
import harness

# A column of a run, and its name in `--summary`.
FIGURES = {"peak_rss_mb": "peak_rss_mb", "peak_total_mb": "peak_total_mb",
           "peak_unique_mb": "peak_unique_mb", "total_cpu_seconds": "cpu_seconds",
           "user_seconds": "user_seconds", "system_seconds": "system_seconds",
           "wall_seconds": "wall_seconds", "process_spawn_count": "processes",
           "peak_processes": "peak_processes", "left_running_count": "left_running_count",
           "num_samples": "num_samples", "gap_seconds": "gap_seconds"}
# `sonde run` keeps a run itself if the daemon does not answer within a second (ANSWER_NS in
# src/run/run-storage.c). No option or variable changes that, because only tests would use it.
# Instead the daemon has priority where a test needs the daemon to keep the run.
FIRST = ("nice", "-n", "-19")
NAMES = ("run_id", "job_id", "job_type", "outcome", "exit_code", "signal_num", "cause")


class Beside(daemon.TestCase):
    """`sonde run` with a daemon: the run is the parent, the daemon samples and stores."""

    def daemon(self, config="", **options):
        return super().daemon(config, prefix=FIRST, **options)

    def assert_stored_as_reported(self, summary):
        job = self.await_end(summary["run_id"])
        for name in NAMES:
            self.assertEqual(job[name], summary[name], name)
        for column, field in FIGURES.items():
            self.assertAlmostEqual(job[column], summary[field], places=3, msg=column)
        exactness = dict(summary["exactness"])
        if not summary["syscall_hotspots"]:
            # They are sampled: a run may end before a sample finds it in a call. The daemon samples
            # separately and may have found one.
            self.assertIsNone(exactness.pop("syscall_hotspots"))
        self.assertEqual({field: job[f"exactness_{field}"] for field in exactness}, exactness)
        self.assertNotIn(None, exactness.values())
        self.assertAlmostEqual(job["started_at"], summary["started_at"], places=3)
        return job

    def test_figures_and_events(self):
        sonde = self.daemon(interval=0.1)
        result = self.run_job(*self.victim("burn-children", 2, 400), options=("--job", "x"))
        self.assert_near(result.summary["cpu_seconds"], result.figure("cpu"))
        job = self.assert_stored_as_reported(result.summary)
        self.assertEqual(job["left_running_count"], 0)
        self.assertEqual(len(self.rows("SELECT 1 FROM jobs")), 1)
        # the daemon stored all of it
        session, = self.rows("SELECT * FROM sessions")
        self.assertEqual(session["pid"], sonde.pid)
        run_id = result.summary["run_id"]
        rows = self.rows("SELECT DISTINCT pid FROM process_metrics WHERE run_id = ?", run_id)
        self.assertEqual(len(rows), 3)
        if harness.has_connector():
            self.assertEqual(len(self.events(run_id, "spawn")), 3)
            self.assertEqual([event["exit_code"] for event in self.events(run_id, "exit")], [0] * 3)
            self.assertEqual(self.events(run_id, "kill"), [])
        report = self.report("x")
        self.assertEqual(report["job"]["run_id"], run_id)
        self.assertAlmostEqual(report["job"]["profile"]["total_cpu_seconds"],
                               result.summary["cpu_seconds"], places=3)

    @harness.needs_connector()
    def test_short_lived_children(self):
        self.daemon()
        script = "i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i+1)); done"
        result = self.run_job("sh", "-c", script)
        self.assertEqual(result.summary["processes"], 201)
        job = self.assert_stored_as_reported(result.summary)
        self.assertEqual((job["process_spawn_count"], job["exactness_processes"]), (201, "exact"))
        # including children that had ended before the daemon knew of their job
        for kind in ("spawn", "exit"):
            pids = [event["pid"] for event in self.events(job["run_id"], kind)]
            self.assertEqual((len(pids), len(set(pids))), (201, 201), kind)

    def test_exit_status(self):
        self.daemon()
        for script, status, wanted in (
                ("exit 0", 0, ("success", 0, None)), ("exit 7", 7, ("failure", 7, None)),
                ("kill -KILL $$", 137, ("failure", None, 9)),
                ("sleep 0.5; exit 255", 255, ("failure", 255, None))):
            with self.subTest(script=script):
                result = self.run_sonde("run", "--", "sh", "-c", script)
                self.assertEqual(result.status, status, result)
                job = self.assert_stored_as_reported(result.summary)
                self.assertEqual((job["outcome"], job["exit_code"], job["signal_num"]), wanted)
        self.assertEqual(len(self.rows("SELECT 1 FROM jobs")), 4)
        result = self.run_sonde("run", "--", "no-such-program-here")
        self.assertEqual(result.status, 127, result)
        self.assertEqual(len(self.rows("SELECT 1 FROM jobs")), 4)

    def test_while_it_runs(self):
        sonde = self.daemon()
        puppet = self.run_puppet("--job", "x", "--sheet", "6")
        run_id = self.await_rows("SELECT run_id FROM jobs")[0]["run_id"]
        process = sonde.await_pid(puppet.pid, run_id)
        self.assertEqual((process["job_id"], process["sheet_num"]), ("x", 6))
        top = sonde.top()
        self.assertEqual((top["running_jobs"], top["active_sheets"]), (1, 1))
        puppet.order("grow", 60)
        sonde.await_snapshots(2)
        before = time.time()
        report = self.report("x")
        self.assertEqual(report["job"]["outcome"], "running")
        self.assertTrue(before - 0.1 <= report["as_of"] <= time.time() + 0.1, report["as_of"])
        self.assertGreaterEqual(report["job"]["profile"]["peak_rss_mb"], 60)
        self.assertIsNone(report["job"]["ended_at"])
        puppet.exit(0)
        result = self.finish(puppet.process)
        self.assert_stored_as_reported(result.summary)
        sheet, = self.rows("SELECT * FROM sheets")
        self.assertEqual((sheet["run_id"], sheet["sheet_num"], sheet["outcome"]),
                         (run_id, 6, "success"))
        self.assertGreaterEqual(sheet["peak_rss_mb"], 60)

    def test_same_name(self):
        sonde = self.daemon()
        puppets = []
        for count in (1, 2):
            puppets.append(self.run_puppet("--job", "x"))
            harness.wait_until(lambda n=count: sonde.top()["running_jobs"] == n, "it is known")
        first, second = puppets
        for puppet in (second, first):
            puppet.exit(0)
        results = [self.finish(puppet.process) for puppet in (first, second)]
        self.assertEqual([result.summary["job_id"] for result in results], ["x", "x-2"])
        self.assertIn("'x-2'", results[1].stderr)
        for result in results:
            self.assert_stored_as_reported(result.summary)
        self.assertEqual(len(self.rows("SELECT 1 FROM jobs")), 2)

    @harness.needs_connector()
    def test_sender_of_a_signal(self):
        self.daemon()
        puppet = self.run_puppet("--job", "x")
        run_id = self.await_rows("SELECT run_id FROM jobs")[0]["run_id"]
        shell = self.start("sh", "-c", f"kill -TERM {puppet.process.pid}; read end")
        puppet.process.wait(harness.DEADLINE)
        result = self.finish(puppet.process)
        self.assertEqual(result.status, 128 + signal.SIGTERM, result)
        job = self.assert_stored_as_reported(result.summary)
        self.assertEqual(job["signal_num"], signal.SIGTERM)
        kills = self.events(run_id, "kill")
        self.assertEqual(len(kills), 1, kills)
        kill, = kills
        self.assertEqual((kill["pid"], kill["signal_num"], kill["sender_pid"]),
                         (puppet.pid, signal.SIGTERM, shell.pid))
        self.assertIn(f"kill -TERM {puppet.process.pid}", kill["sender_command"])
        self.assertEqual(self.events(run_id, "exit"), [])
        reported, = (event for event in self.report("x")["events"]
                     if event["event_type"] == "kill")
        self.assertEqual(reported["sender_pid"], shell.pid)

    @harness.needs_connector()
    def test_handled_signal(self):
        self.daemon()
        process = self.start_sonde("--job", "x", "--",
                                   *self.victim("count-signals", self.path("signals")))
        pid, _ = self.await_ready(process)
        run_id = self.await_rows("SELECT run_id FROM jobs")[0]["run_id"]
        process.send_signal(signal.SIGUSR1)
        harness.wait_until(lambda: self.read("signals"), "it has come")
        os.kill(pid, signal.SIGPROF)
        self.assertEqual(self.finish(process).status, 0)
        self.await_end(run_id)
        event, = self.events(run_id, "signal")
        self.assertEqual((event["pid"], event["signal_num"], event["sender_pid"]),
                         (pid, signal.SIGUSR1, os.getpid()))
        self.assertEqual(self.events(run_id, "kill"), [])

    def test_left_running(self):
        sonde = self.daemon("profiler:\n  scope: all\n")
        result = self.run_job("sh", "-c", "sleep 300 & echo left $!")
        pid = int(result.figure("left"))
        self.assertEqual([left["pid"] for left in result.summary["left_running"]], [pid])
        job = self.assert_stored_as_reported(result.summary)
        self.assertEqual(job["left_running_count"], 1)
        sonde.await_snapshots(1)
        self.assertEqual(sonde.await_pid(pid, None)["job_id"], None)

    def test_no_store_run_is_not_reported(self):
        sonde = self.daemon()
        puppet = self.run_puppet("--no-store")
        sonde.await_snapshots(2)
        self.assertEqual(sonde.top()["running_jobs"], 0)
        puppet.exit(3)
        self.assertEqual(self.finish(puppet.process).status, 3)
        self.assertEqual(self.rows("SELECT 1 FROM jobs"), [])

    def test_secrets(self):
        self.daemon()
        self.run_job("sh", "-c", "sleep 0.5", "x", "--token", "hush-hush-1")
        job, = self.rows("SELECT * FROM jobs")
        self.assertIn("***", job["command"])
        for name in os.listdir(self.state):
            path = os.path.join(self.state, name)
            if os.path.isfile(path):
                self.assertNotIn(b"hush-hush", pathlib.Path(path).read_bytes(), name)

    def test_many_at_once(self):
        """Ten at a time, each stored once with its own status."""
        self.daemon()
        processes = [self.start_sonde("--job", f"j{i}", "--", "sh", "-c", f"exit {i}")
                     for i in range(10)]
        results = [self.finish(process) for process in processes]
        self.assertEqual([result.status for result in results], list(range(10)))
        for result in results:
            self.assert_stored_as_reported(result.summary)
        self.assertEqual(len(self.rows("SELECT 1 FROM jobs")), 10)


class OwnerDies(daemon.TestCase):
    """`sonde run` is killed: the command continues, and the daemon sees how it ends."""

    def orphaned(self):
        sonde = self.daemon()
        puppet = self.run_puppet("--job", "x")
        run_id = self.await_rows("SELECT run_id FROM jobs")[0]["run_id"]
        sonde.await_pid(puppet.pid, run_id)
        puppet.process.send_signal(signal.SIGKILL)
        puppet.process.wait()
        sonde.await_snapshots(3)
        self.assertTrue(harness.is_alive(puppet.pid))
        sonde.await_pid(puppet.pid, run_id)
        self.assertEqual(self.job(run_id)["outcome"], "running")
        return puppet, run_id

    @harness.needs_connector()
    def test_exit_status(self):
        puppet, run_id = self.orphaned()
        puppet.order("grow", 60)
        burned = puppet.order("cpu")
        puppet.exit(5)
        self.reap_orphans()
        job = self.await_end(run_id)
        self.assertEqual((job["outcome"], job["exit_code"], job["cause"]),
                         ("failure", 5, "exit status 5"))
        self.assertEqual(len(self.rows("SELECT 1 FROM jobs")), 1)
        self.assertEqual(job["process_spawn_count"], 1)
        self.assert_near(job["total_cpu_seconds"], burned, slack=0.05)

    @harness.needs_connector()
    def test_signal(self):
        puppet, run_id = self.orphaned()
        os.kill(puppet.pid, signal.SIGKILL)
        self.reap_orphans()
        job = self.await_end(run_id)
        self.assertEqual((job["outcome"], job["exit_code"], job["signal_num"]),
                         ("failure", None, signal.SIGKILL))
        # the sender, if it could be seen
        self.assertRegex(job["cause"], rf"^killed by SIGKILL(, sent by pid {os.getpid()} .*)?$")

    @harness.needs_connector()
    def test_command_becomes_a_zombie(self):
        """As in a container without an init: the zombie no longer counts as a process."""
        puppet, run_id = self.orphaned()
        puppet.exit(6)
        job = self.await_end(run_id)
        self.assertEqual((job["outcome"], job["exit_code"]), ("failure", 6))
        self.assertEqual(harness.process_state(puppet.pid), "Z")

    @harness.needs_connector()
    def test_success(self):
        puppet, run_id = self.orphaned()
        puppet.exit(0)
        self.reap_orphans()
        job = self.await_end(run_id)
        self.assertEqual((job["outcome"], job["exit_code"]), ("success", 0))

    def test_scheduler_dies(self):
        """Its step continues; the job ends with that step."""
        sonde = self.daemon()
        puppet = self.puppet()
        script = ("import sys; sys.path.insert(0, sys.argv[1]); sys.argv[1:] = [];"
                  "import daemon;"
                  "link = daemon.Rpc(input());"
                  "print(link.call('job.start', job_id='x', pid=int(input()))['run_id'],"
                  " flush=True); input()")
        conductor = self.start("python3", "-c", script, os.path.dirname(os.path.abspath(__file__)))
        conductor.stdin.write(f"{sonde.socket}\n{puppet.pid}\n".encode())
        conductor.stdin.flush()
        run_id = conductor.stdout.readline().decode().strip()
        sonde.await_pid(puppet.pid, run_id)
        conductor.kill()
        conductor.wait()
        sonde.await_snapshots(3)
        self.assertEqual(self.job(run_id)["outcome"], "running")
        puppet.exit(2)
        puppet.process.wait()
        job = self.await_end(run_id)
        if harness.has_connector():
            self.assertEqual((job["outcome"], job["exit_code"]), ("failure", 2))
        else:
            self.assertEqual((job["outcome"], job["cause"]), ("unknown", "lost"))


if __name__ == "__main__":
    harness.main()
