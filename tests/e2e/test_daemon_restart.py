#!/usr/bin/env python3
"""The daemon dies, stops or restarts while jobs run: the jobs are not affected, and each is stored
once, with all that was seen of it."""
import os
import pathlib
import signal
import threading
import time

import daemon
import harness

# A column of a run, and its name in `--summary`.
FIGURES = {"peak_rss_mb": "peak_rss_mb", "total_cpu_seconds": "cpu_seconds",
           "user_seconds": "user_seconds", "system_seconds": "system_seconds",
           "wall_seconds": "wall_seconds", "process_spawn_count": "processes"}


class Restarting(daemon.TestCase):
    def only_run(self):
        row, = self.await_rows("SELECT run_id FROM jobs")
        return row["run_id"]

    def running_puppet(self, sonde, *words):
        """A puppet under `sonde run` that the daemon keeps and has seen."""
        puppet = self.run_puppet(*words)
        row, = harness.wait_until(
            lambda: [process for process in sonde.processes(pid=puppet.pid) if process["run_id"]],
            "the daemon knows it")
        self.await_rows("SELECT 1 FROM process_metrics WHERE run_id = ?", row["run_id"])
        return puppet, row["run_id"]

    def sessions_of(self, run_id):
        """Pids of the sessions that have written samples of the run, oldest first."""
        return [row["pid"] for row in self.rows(
            "SELECT s.pid FROM sessions s WHERE s.id IN (SELECT session_id FROM process_metrics"
            " JOIN snapshots ON snapshots.id = snapshot_id WHERE run_id = ?)"
            " ORDER BY s.started_at", run_id)]

    def await_session(self, run_id, pid):
        harness.wait_until(lambda: pid in self.sessions_of(run_id),
                           lambda: f"samples by {pid}: {self.sessions_of(run_id)}")

    def assert_stored_once(self, summary, **wanted):
        """There is one run, with the figures that `sonde run` reported. Until the next writer
        corrects them, runs of a dead daemon may be lost, or end at the last data about them."""
        def is_stored():
            return self.rows("SELECT 1 FROM jobs WHERE run_id = ? AND outcome = ?"
                             " AND abs(wall_seconds - ?) < 0.001", summary["run_id"],
                             summary["outcome"], summary["wall_seconds"])
        harness.wait_until(is_stored, lambda: f"{summary}: {self.job(summary['run_id'])}")
        job = self.job(summary["run_id"])
        self.assertEqual([row["run_id"] for row in self.rows("SELECT run_id FROM jobs"
                                                             " WHERE job_id = ?", job["job_id"])],
                         [summary["run_id"]])
        for column, field in FIGURES.items():
            self.assertAlmostEqual(job[column], summary[field], places=3, msg=column)
        for name in ("outcome", "exit_code", "signal_num", "cause"):
            self.assertEqual(job[name], summary[name], name)
        for name, value in wanted.items():
            self.assertEqual(job[name], value, name)
        self.assert_intact()
        return job


class Killed(Restarting):
    def test_job_continues_without_the_daemon(self):
        sonde = self.daemon(interval=0.1)
        puppet, run_id = self.running_puppet(sonde, "--job", "x", "--sheet", "2")
        daemon_pid = sonde.pid
        puppet.order("grow", 60)
        sonde.await_snapshots(3)
        sonde.kill()
        puppet.order("busy")
        self.await_session(run_id, puppet.process.pid)
        puppet.order("idle")
        puppet.order("shrink")  # freeing memory takes CPU time: not after the query
        burned = puppet.order("cpu")
        puppet.exit(9)
        result = self.finish(puppet.process)
        self.assertEqual(result.status, 9, result)
        self.assertEqual(result.summary["run_id"], run_id)
        self.assert_near(result.summary["cpu_seconds"], burned)
        job = self.assert_stored_once(result.summary, outcome="failure", exit_code=9)
        self.assertGreaterEqual(job["peak_rss_mb"], 60)
        self.assertEqual(self.sessions_of(run_id), [daemon_pid, puppet.process.pid])
        self.assertEqual(len(self.rows("SELECT 1 FROM jobs")), 1)
        sheet, = self.rows("SELECT * FROM sheets")
        self.assertEqual((sheet["sheet_num"], sheet["outcome"]), (2, "failure"))
        self.assertGreaterEqual(sheet["peak_rss_mb"], 60)
        report = self.report("x")
        self.assertEqual((report["job"]["run_id"], report["job"]["outcome"]), (run_id, "failure"))

    def test_command_ends_right_after_the_daemon(self):
        """The daemon is killed and the command ends at once, before the run has noticed."""
        for status in (0, 4):
            with self.subTest(status=status):
                sonde = self.daemon()
                puppet, run_id = self.running_puppet(sonde, "--job", f"x{status}")
                sonde.kill()
                puppet.exit(status)
                result = self.finish(puppet.process)
                self.assertEqual(result.status, status, result)
                self.assert_stored_once(result.summary, exit_code=status)

    def test_restart_during_a_job(self):
        sonde = self.daemon(interval=0.1)
        puppet, run_id = self.running_puppet(sonde, "--job", "x")
        first_pid = sonde.pid
        sonde.kill()
        sonde.start()
        sonde.await_pid(puppet.pid, run_id)
        self.assertEqual([job["run_id"] for job in sonde.rpc("job.list", outcome="running")],
                         [run_id])
        child = puppet.fork("daemon")
        sonde.await_pid(child, run_id)
        puppet.exit(0)
        result = self.finish(puppet.process)
        self.assertEqual(result.status, 0, result)
        self.assert_stored_once(result.summary, outcome="success")
        writers = self.sessions_of(run_id)
        self.assertEqual((writers[0], writers[-1]), (first_pid, sonde.pid))
        self.assertEqual(self.report("x")["job"]["outcome"], "success")
        self.assertEqual(sonde.rpc("job.list", outcome="running"), [])

    def test_daemon_is_absent_for_a_while(self):
        """The daemon, the run itself and the next daemon keep it in turn: one stored run."""
        sonde = self.daemon(interval=0.1)
        puppet, run_id = self.running_puppet(sonde, "--job", "x")
        writers = [sonde.pid, puppet.process.pid]
        sonde.kill()
        self.await_session(run_id, puppet.process.pid)
        sonde.start()
        sonde.await_pid(puppet.pid, run_id)
        writers.append(sonde.pid)
        self.await_session(run_id, sonde.pid)
        usage, = sonde.top()["jobs"]
        self.assertEqual((usage["job_id"], usage["processes"]), ("x", 1))
        puppet.exit(0)
        result = self.finish(puppet.process)
        self.assert_stored_once(result.summary, outcome="success")
        self.assertEqual(self.sessions_of(run_id), writers)

    def test_clean_stop(self):
        """SIGTERM: jobs continue, and the next daemon keeps them."""
        sonde = self.daemon()
        puppet, run_id = self.running_puppet(sonde, "--job", "x")
        sonde.stop()
        self.await_rows("SELECT 1 FROM jobs WHERE run_id = ? AND outcome = 'running'", run_id)
        sonde.start()
        sonde.await_pid(puppet.pid, run_id)
        puppet.exit(0)
        self.assert_stored_once(self.finish(puppet.process).summary, outcome="success")

    def test_repeated_kills(self):
        """Killed at varying moments: it starts each time, and nothing is lost."""
        sonde = self.daemon(interval=0.05)
        puppet, run_id = self.running_puppet(sonde, "--job", "x")
        for i in range(8):
            time.sleep(0.013 * i)  # varies the moment of the kill
            sonde.kill()
            sonde.start()
            sonde.await_pid(puppet.pid, run_id)
        puppet.exit(0)
        self.assert_stored_once(self.finish(puppet.process).summary, outcome="success")
        self.assertEqual(len(self.rows("SELECT 1 FROM jobs")), 1)

    def test_short_runs_while_it_dies(self):
        """At any moment of the kill, each run keeps its status and is stored once with it."""
        sonde = self.daemon(interval=0.05)
        results = []
        def run_all():
            for i in range(40):
                results.append(self.run_sonde("run", "--job", f"j{i}", "--", "sh", "-c",
                                              f"exit {i}"))
        runner = threading.Thread(target=run_all)
        runner.start()
        while runner.is_alive():
            time.sleep(0.02 + 0.07 * len(results) / 40)  # varies the moment of the kill
            sonde.kill()
            sonde.start()
        runner.join()
        self.assertEqual([result.status for result in results], list(range(40)))
        for result in results:
            job = self.await_end(result.summary["run_id"])
            self.assertEqual((job["job_id"], job["exit_code"], job["outcome"]),
                             (result.summary["job_id"], result.status,
                              "failure" if result.status else "success"))
        self.assertEqual(len(self.rows("SELECT 1 FROM jobs")), 40)
        sonde.await_snapshots(2)
        self.assertEqual(sonde.top()["running_jobs"], 0)
        self.assert_intact()

    def test_names_are_kept(self):
        """Two runs of one job keep their names."""
        sonde = self.daemon()
        puppets = [self.running_puppet(sonde, "--job", "x") for _ in range(2)]
        sonde.kill()
        sonde.start()
        for puppet, run_id in puppets:
            sonde.await_pid(puppet.pid, run_id)
        self.assertEqual({job["run_id"]: job["job_id"]
                          for job in sonde.rpc("job.list", outcome="running")},
                         {puppets[0][1]: "x", puppets[1][1]: "x-2"})
        for puppet, _ in puppets:
            puppet.exit(0)
        for (puppet, _), name in zip(puppets, ("x", "x-2")):
            summary = self.finish(puppet.process).summary
            self.assertEqual(summary["job_id"], name)
            self.assert_stored_once(summary, job_id=name)

    def test_daemon_starts_after_the_run(self):
        """The daemon takes over a run that began without it."""
        puppet = self.run_puppet("--job", "x")
        run_id = self.only_run()
        self.await_session(run_id, puppet.process.pid)
        sonde = self.daemon()
        sonde.await_pid(puppet.pid, run_id)
        self.await_session(run_id, sonde.pid)
        child = puppet.fork("child")
        sonde.await_pid(child, run_id)
        puppet.exit(3)
        result = self.finish(puppet.process)
        self.assertEqual(result.status, 3)
        self.assert_stored_once(result.summary, outcome="failure", exit_code=3)


    def test_same_name_beside_one_that_began_alone(self):
        """Each has its own name, in either order of registration, and is stored under it."""
        first = self.run_puppet("--job", "x")
        self.only_run()
        sonde = self.daemon()
        second = self.run_puppet("--job", "x")
        for puppet in (first, second):
            harness.wait_until(lambda pid=puppet.pid: [process["run_id"] for process in
                                                       sonde.processes(pid=pid)
                                                       if process["run_id"]],
                               "the daemon knows it")
        names = [job["job_id"] for job in sonde.rpc("job.list", outcome="running")]
        self.assertEqual(sorted(names), ["x", "x-2"])
        for puppet in (first, second):
            puppet.exit(0)
        summaries = [self.finish(puppet.process).summary for puppet in (first, second)]
        self.assertEqual(sorted(summary["job_id"] for summary in summaries), ["x", "x-2"])
        for summary in summaries:
            self.assert_stored_once(summary, job_id=summary["job_id"], outcome="success")


class Stopped(Restarting):
    """SIGSTOP: the daemon exists and does not answer."""

    def test_run_while_stopped(self):
        sonde = self.daemon()
        with sonde.paused():
            result = self.run_sonde("run", "--job", "x", "--", "sh", "-c", "exit 6")
            self.assertEqual(result.status, 6, result)
            self.assert_stored_once(result.summary, exit_code=6)
        sonde.await_snapshots(3)
        self.assert_stored_once(result.summary, exit_code=6)
        self.assertEqual(len(self.rows("SELECT 1 FROM jobs")), 1)
        self.assertEqual(sonde.top()["running_jobs"], 0)
        self.assertEqual(sonde.rpc("job.list", outcome="running"), [])

    def test_run_from_before_the_stop(self):
        sonde = self.daemon()
        puppet, run_id = self.running_puppet(sonde, "--job", "x")
        with sonde.paused():
            puppet.exit(5)
            result = self.finish(puppet.process)
            self.assertEqual(result.status, 5, result)
        sonde.await_snapshots(3)
        self.assert_stored_once(result.summary, exit_code=5)
        self.assertEqual(len(self.rows("SELECT 1 FROM jobs")), 1)
        self.assertEqual(sonde.top()["running_jobs"], 0)

    def test_run_that_outlasts_the_stop(self):
        """The run stores itself; the daemon has it as soon as it continues."""
        sonde = self.daemon()
        pid = sonde.pid
        with sonde.paused():
            puppet = self.run_puppet("--job", "x")
            run_id = self.only_run()
            self.await_session(run_id, puppet.process.pid)
        sonde.await_pid(puppet.pid, run_id)
        self.await_session(run_id, pid)
        self.assertEqual(sonde.top()["running_jobs"], 1)
        puppet.exit(2)
        result = self.finish(puppet.process)
        self.assertEqual(result.status, 2, result)
        self.assert_stored_once(result.summary, outcome="failure", exit_code=2)
        self.assertEqual(set(self.sessions_of(run_id)), {pid, puppet.process.pid})

    def test_in_the_middle_of_a_run(self):
        """Stopped for a while: there is a gap, and the run continues."""
        sonde = self.daemon(interval=0.1)
        puppet, run_id = self.running_puppet(sonde, "--job", "x")
        with sonde.paused():
            child = puppet.fork("child")
            time.sleep(0.6)  # the length of the gap
        sonde.await_pid(child, run_id)
        self.await_rows("SELECT 1 FROM gaps WHERE kind = 'missed_ticks' AND seconds > 0.5")
        puppet.exit(0)
        self.assert_stored_once(self.finish(puppet.process).summary, outcome="success")


class Late(Restarting):
    """A daemon that learns of a run some time after its first process started: every fork, exec and
    exit is stored once, by the daemon or by the run."""

    # Short-lived children; fewer than are folded (src/store/folded-events.h).
    CHILDREN = 200
    # How long the daemon keeps events of processes that belong to no run (OTHERS_NS in
    # src/engine/lifecycle-feed.c).
    KEPT_SECONDS = 2

    def spawning(self):
        """A command that starts children one after the other and pauses in the middle."""
        half = f"for i in $(seq {self.CHILDREN // 2}); do /bin/true; done;"
        return ("sh", "-c", f"{half} echo half; read go; {half} exit 0")

    def start_run(self, *prefix, **options):
        process = self.start(*prefix, harness.SONDE, "run", "--summary", self.path("summary"),
                             "--job", "x", "--", *self.spawning(), **options)
        self.addCleanup(process.stdin.close)
        self.assertEqual(process.stdout.readline(), b"half\n")
        return process

    def asking_late(self):
        """A prefix that stops `sonde run` when it connects to the daemon, until let_ask()."""
        self.environment = harness.without_leak_check(self.environment)
        return ("strace", "-qq", "-o", self.path("trace"), "-e", "trace=connect", "-e",
                "inject=connect:signal=SIGSTOP:when=1")

    def let_ask(self, sonde, tracer):
        """Lets the run send its request when the daemon has dropped the first events of the run."""
        parent = harness.children_of(tracer.pid)[0]
        harness.wait_until(lambda: "stopped by SIGSTOP" in self.read("trace").decode(), "it is stopped")
        sonde.fresh()  # the daemon has read all events so far
        dropped = time.monotonic() + self.KEPT_SECONDS
        harness.wait_until(lambda: time.monotonic() > dropped, "the events are old")
        os.kill(parent, signal.SIGCONT)

    def finish_run(self, process):
        process.stdin.write(b"go\n")
        process.stdin.flush()
        self.assertEqual(process.wait(harness.DEADLINE), 0)
        with open(self.path("summary"), encoding="utf-8") as summary:
            return harness.strict_json(summary.read())

    def event_counts(self, run_id):
        """Forks, execs and exits; not the SIGCONT of let_ask()."""
        return {row["event_type"]: row["count"] for row in self.rows(
            "SELECT event_type, sum(count) AS count FROM (SELECT run, event_type, 1 AS count"
            " FROM event UNION ALL SELECT run, event_type, count FROM folded_events) e"
            " JOIN jobs ON jobs.id = e.run WHERE run_id = ? AND event_type <> 'signal' GROUP BY 1",
            run_id)}

    def assert_every_event(self, summary):
        count = summary["processes"]
        self.assertGreaterEqual(count, self.CHILDREN + 1)
        self.assertEqual(self.event_counts(summary["run_id"]),
                         {"spawn": count, "exec": count, "exit": count})
        self.assertEqual(self.job(summary["run_id"])["exit_count"], count)

    def await_kept(self, sonde):
        """Waits until the daemon keeps the run, and returns its id."""
        def found():
            return [job["run_id"] for job in sonde.rpc("job.list", outcome="running")
                    if sonde.pids(job["run_id"])]
        return harness.wait_until(found, "the daemon keeps it")[0]

    @harness.needs_connector()
    @harness.needs_program("strace")
    def test_late_request(self):
        """The daemon keeps events of other processes for two seconds; the request comes later."""
        sonde = self.daemon()
        process = self.start_run(*self.asking_late())
        self.let_ask(sonde, process)
        run_id = self.await_kept(sonde)
        summary = self.finish_run(process)
        self.assertEqual(summary["run_id"], run_id)
        self.assert_every_event(summary)

    @harness.needs_connector()
    @harness.needs_program("strace")
    def test_late_request_of_a_run_with_another_database(self):
        """What such a run would store is not in this database: the daemon stores what it has seen,
        and marks the counts of this run, and of no other, as too low."""
        # The run would store itself elsewhere if the daemon did not answer within a second.
        sonde = self.daemon(prefix=("nice", "-n", "-19"))
        elsewhere = self.path("elsewhere")
        process = self.start_run(*self.asking_late(), env=dict(
            self.environment, SONDE_STATE_DIR=elsewhere, SONDE_SOCKET=sonde.socket))
        self.let_ask(sonde, process)
        run_id = self.await_kept(sonde)
        other_id = sonde.rpc("job.start", job_id="other", pid=self.puppet().pid)["run_id"]
        self.finish_run(process)
        self.await_end(run_id)
        self.assertGreater(self.event_counts(run_id)["exit"], self.CHILDREN // 2)
        self.assertEqual(self.job(run_id)["exactness_processes"], "lower_bound")
        self.assertRegex(self.run_sonde("report", run_id).stdout.decode(), r"≥ [0-9]+ ended")
        sonde.rpc("job.finish", job_id=other_id, outcome="success")
        self.assertEqual(self.await_end(other_id)["exactness_processes"], "exact")
        self.assertEqual(self.rows("SELECT * FROM gaps WHERE kind = 'events'"), [])
        self.assertFalse(os.path.exists(os.path.join(elsewhere, "monitor.db")))

    @harness.needs_connector()
    def test_late_answer(self):
        """The run stores itself while the daemon does not answer; the daemon stores it later."""
        sonde = self.daemon()
        with sonde.paused():
            process = self.start_run()
            self.await_session(self.only_run(), process.pid)
        run_id = self.await_kept(sonde)
        summary = self.finish_run(process)
        self.assertEqual(summary["run_id"], run_id)
        self.assert_every_event(summary)

    @harness.needs_connector()
    def test_late_answer_to_a_run_with_another_database(self):
        """The events that the run stored meanwhile are in its own database only."""
        sonde = self.daemon()
        elsewhere = self.path("elsewhere")
        with sonde.paused():
            process = self.start_run(env=dict(self.environment, SONDE_STATE_DIR=elsewhere,
                                              SONDE_SOCKET=sonde.socket))
            harness.wait_until(lambda: self.stored("SELECT 1 FROM jobs", state=elsewhere),
                               "the run stores itself")
        run_id = self.await_kept(sonde)
        summary = self.finish_run(process)
        self.assertEqual(summary["exactness"]["processes"], "exact")
        self.await_end(run_id)
        self.assertLess(self.event_counts(run_id)["exit"], summary["processes"])
        self.assertEqual(self.job(run_id)["exactness_processes"], "lower_bound")
        self.assertRegex(self.run_sonde("report", run_id).stdout.decode(), r"≥ [0-9]+ ended")

    @harness.needs_connector()
    def test_takeover_while_processes_start(self):
        """The daemon begins to keep a run that starts processes all the time."""
        process = self.start(harness.SONDE, "run", "--summary", self.path("summary"), "--job",
                             "x", "--", "sh", "-c", "while ! test -e stop; do /bin/true; done",
                             cwd=self.directory)
        self.only_run()
        sonde = self.daemon()
        self.await_kept(sonde)
        sonde.await_snapshots(2)
        pathlib.Path(self.path("stop")).touch()
        self.assertEqual(process.wait(harness.DEADLINE), 0)
        summary = harness.strict_json(pathlib.Path(self.path("summary")).read_text("utf-8"))
        counts = self.event_counts(summary["run_id"])
        self.assertEqual((counts["spawn"], counts["exit"]),
                         (summary["processes"], summary["processes"]))

    @harness.needs_connector()
    def test_run_ends_before_the_answer(self):
        """The daemon reads the start of a run that is over: it is stored once."""
        sonde = self.daemon()
        with sonde.paused():
            process = self.start_run()
            summary = self.finish_run(process)
        sonde.await_snapshots(3)
        self.assert_every_event(summary)
        self.assertEqual(sonde.rpc("job.list", outcome="running"), [])
        self.assert_stored_once(summary, outcome="success")

    @harness.needs_connector()
    def test_sonde_run_dies(self):
        """The daemon stores the events from then on."""
        sonde = self.daemon(interval=0.1)
        process = self.start_run()
        self.await_kept(sonde)
        sonde.kill()
        sonde.start()
        run_id = self.await_kept(sonde)
        self.await_rows("SELECT 1 FROM event WHERE event_type = 'exec'")
        harness.wait_until(lambda: harness.children_of(process.pid), "the command is there")
        command, = harness.children_of(process.pid)
        process.kill()
        process.wait()
        sonde.await_snapshots(3)
        before = self.event_counts(run_id)["exit"]
        self.assertTrue(harness.is_alive(command))
        process.stdin.write(b"go\n")
        process.stdin.flush()
        self.await_end(run_id)
        # seq, and the shell itself
        self.assertEqual(self.event_counts(run_id)["exit"] - before, self.CHILDREN // 2 + 2)

    @harness.needs_connector()
    @harness.needs_program("strace")
    def test_sonde_run_that_stores_events_dies(self):
        """Events until the daemon stores them are lost: the counts are too low, and marked as
        lower bounds."""
        sonde = self.daemon(interval=0.1)
        tracer = self.start_run(*self.asking_late())
        self.let_ask(sonde, tracer)
        run_id = self.await_kept(sonde)
        self.await_rows("SELECT 1 FROM event WHERE event_type = 'exec'")
        parent, command = harness.children_of(tracer.pid)
        os.kill(parent, signal.SIGKILL)
        tracer.wait()
        sonde.await_snapshots(3)
        tracer.stdin.write(b"go\n")
        tracer.stdin.flush()
        job = self.await_end(run_id)
        self.assertFalse(harness.is_alive(command))
        self.assertEqual(job["exactness_processes"], "lower_bound")
        self.assertGreater(job["process_spawn_count"], self.CHILDREN)


class Adopted(Restarting):
    """Jobs that were reported over the socket, by a process that stays alive."""

    def test_three_jobs(self):
        sonde = self.daemon()
        builder, tester = self.puppet(), self.puppet()
        build = sonde.rpc("job.start", job_id="build", job_type="t", total_sheets=2,
                          pid=builder.pid)["run_id"]
        test = sonde.rpc("job.start", job_id="test")["run_id"]
        sonde.rpc("sheet.started", job_id="test", sheet_num=4, name="unit", pid=tester.pid)
        runner, run = self.running_puppet(sonde, "--job", "run")
        helper = builder.fork("daemon")
        family = {builder.pid: build, helper: build, tester.pid: test, runner.pid: run}
        for pid, run_id in family.items():
            sonde.await_pid(pid, run_id)
            self.await_rows("SELECT 1 FROM process_metrics WHERE pid = ? AND run_id = ?", pid,
                            run_id)
        started = {run_id: self.job(run_id)["started_at"] for run_id in (build, test, run)}

        sonde.kill()
        sonde.start()
        stream = sonde.stream("job.*", "sheet.*")
        for pid, run_id in family.items():
            sonde.await_pid(pid, run_id)
        self.assertEqual(sonde.processes(pid=tester.pid)[0]["sheet_num"], 4)
        top = sonde.top()
        self.assertEqual((top["running_jobs"], top["active_sheets"]), (3, 1))
        # processes that they start from now on belong to them too
        later = builder.fork("orphan")
        sonde.await_pid(later, build)
        self.assertEqual(sonde.error("job.start", job_id="build"), -32002)

        # Both jobs have a scheduler again, so they do not end with their processes.
        sonde.rpc("job.progress", job_id=build, status="building")
        answer = sonde.rpc("sheet.completed", job_id="test", sheet_num=4, exit_code=0)
        self.assertGreater(answer["resource_context"]["rss_mb"], 0)
        builder.exit(0)
        tester.exit(0)
        sonde.rpc("job.finish", job_id=build, outcome="success", exit_code=0)
        sonde.rpc("job.finish", job_id="test", outcome="failure", cause="test failed")
        runner.exit(0)
        result = self.finish(runner.process)
        self.assertEqual(result.status, 0, result)
        self.assert_stored_once(result.summary, outcome="success")
        jobs = {run_id: self.await_end(run_id) for run_id in (build, test)}
        self.assertEqual(len(self.rows("SELECT 1 FROM jobs")), 3)
        self.assertEqual((jobs[build]["outcome"], jobs[build]["exit_code"],
                          jobs[build]["job_type"], jobs[build]["total_sheets"]),
                         ("success", 0, "t", 2))
        self.assertEqual((jobs[test]["outcome"], jobs[test]["cause"]), ("failure", "test failed"))
        for run_id, before in started.items():
            self.assertEqual(self.job(run_id)["started_at"], before)
        sheet, = self.rows("SELECT * FROM sheets")
        self.assertEqual((sheet["run_id"], sheet["sheet_num"], sheet["name"], sheet["outcome"]),
                         (test, 4, "unit", "success"))
        self.assertEqual({stream.await_notice("job.finished")["job_id"] for _ in range(3)},
                         {"build", "test", "run"})
        self.assert_intact()

    def test_counts_continue(self):
        """What was counted before a restart is counted once."""
        sonde = self.daemon(interval=0.1)
        puppet = self.puppet()
        run_id = sonde.rpc("job.start", job_id="x", pid=puppet.pid)["run_id"]
        children = [puppet.fork("child") for _ in range(3)]
        puppet.order("busy")
        harness.wait_until(lambda: puppet.order("cpu") > 0.3, "it has used CPU time")
        puppet.order("idle")
        for pid in children:
            sonde.await_pid(pid, run_id)
            self.await_rows("SELECT 1 FROM process_metrics WHERE pid = ? AND run_id = ?", pid,
                            run_id)
        sonde.await_snapshots(2)
        sonde.kill()
        sonde.start()
        for pid in children:
            sonde.await_pid(pid, run_id)
        puppet.fork("child")
        burned = puppet.order("cpu")
        sonde.await_snapshots(3)
        sonde.rpc("job.finish", job_id="x", outcome="success")
        job = self.await_end(run_id)
        self.assertEqual(job["process_spawn_count"], 5)
        self.assert_near(job["total_cpu_seconds"], burned, ratio=0.05, slack=0.05)

    def test_processes_end_without_a_daemon(self):
        """All processes of a job have ended while there was no daemon."""
        sonde = self.daemon()
        puppet, other = self.puppet(), self.puppet()
        gone = sonde.rpc("job.start", job_id="gone", pid=puppet.pid)["run_id"]
        there = sonde.rpc("job.start", job_id="there", pid=other.pid)["run_id"]
        for pid, run_id in ((puppet.pid, gone), (other.pid, there)):
            sonde.await_pid(pid, run_id)
            self.await_rows("SELECT 1 FROM process_metrics WHERE pid = ? AND run_id = ?", pid,
                            run_id)
        sonde.kill()
        puppet.exit(0)
        sonde.start()
        job = self.await_end(gone)
        self.assertEqual((job["outcome"], job["cause"], job["exit_code"]),
                         ("unknown", "lost", None))
        self.assertGreaterEqual(job["ended_at"], job["started_at"])
        sonde.await_pid(other.pid, there)
        self.assertEqual(self.job(there)["outcome"], "running")
        self.assertEqual(sonde.error("job.finish", job_id="gone", outcome="success"), -32000)
        sonde.rpc("job.finish", job_id="there", outcome="success")
        self.assertEqual(self.await_end(there)["outcome"], "success")

    def test_nested_runs(self):
        """A parent's totals include its children's, before and after."""
        sonde = self.daemon(interval=0.1)
        puppets = [self.puppet() for _ in range(3)]
        runs = []
        for i, puppet in enumerate(puppets):
            more = {"parent_run_id": runs[-1]} if runs else {}
            runs.append(sonde.rpc("job.start", job_id=f"level-{i}", total_sheets=9, pid=puppet.pid,
                                  **more)["run_id"])
        sonde.rpc("sheet.started", job_id=runs[0], sheet_num=5)
        sonde.rpc("sheet.started", job_id=runs[0], sheet_num=3)
        def counts():
            return {usage["run_id"]: usage["processes"] for usage in sonde.top()["jobs"]}
        wanted = dict(zip(runs, (3, 2, 1)))
        harness.wait_until(lambda: counts() == wanted, lambda: counts())
        for puppet, run_id in zip(puppets, runs):
            self.await_rows("SELECT 1 FROM process_metrics WHERE pid = ? AND run_id = ?",
                            puppet.pid, run_id)
        self.await_rows("SELECT 1 FROM sheets WHERE sheet_num = 3")
        sonde.kill()
        sonde.start()
        for puppet, run_id in zip(puppets, runs):
            sonde.await_pid(puppet.pid, run_id)
        self.assertEqual(counts(), wanted)
        puppets[2].order("busy")
        def cpu():
            return {usage["run_id"]: usage["cpu_percent"] or 0 for usage in sonde.top()["jobs"]}
        harness.wait_until(lambda: min(cpu()[run_id] for run_id in runs) > 0, lambda: cpu())
        # the current step is the one that began last
        progress = {row["job_id"]: row["current_sheet"] for row in sonde.top()["job_progress"]}
        self.assertEqual(progress["level-0"], 3)
        self.assertEqual([self.job(run_id)["parent_run_id"] for run_id in runs],
                         [None, *runs[:2]])

    def test_end_is_not_reported(self):
        """Runs that only the daemon knows end like those of rules, some time after their last
        process: with the outcome of their first process, if a daemon has seen it."""
        sonde = self.daemon("jobs:\n  linger_seconds: 0.5\n")
        seen, run_id = self.running_puppet(sonde, "--job", "seen")
        first = self.start("sh", "-c", "sleep 1000 & echo $!; read line")
        child = int(first.stdout.readline())
        unseen_id = sonde.rpc("job.start", job_id="unseen", pid=first.pid)["run_id"]
        for pid in (first.pid, child):
            sonde.await_pid(pid, unseen_id)
            self.await_rows("SELECT 1 FROM process_metrics WHERE pid = ? AND run_id = ?", pid,
                            unseen_id)
        sonde.kill()
        seen.process.kill()  # kills `sonde run` as well; its command continues
        seen.process.wait()
        first.stdin.close()
        first.wait()
        sonde.start()
        for pid, its_run in ((seen.pid, run_id), (child, unseen_id)):
            sonde.await_pid(pid, its_run)
            self.await_rows("SELECT 1 FROM jobs WHERE run_id = ? AND outcome = 'running'", its_run)
        seen.exit(8)
        os.kill(child, signal.SIGKILL)
        self.reap_orphans()
        job = self.await_end(unseen_id)
        self.assertEqual((job["outcome"], job["cause"], job["exit_code"]),
                         ("unknown", "lost", None))
        job = self.await_end(run_id)
        if harness.has_connector():
            self.assertEqual((job["outcome"], job["exit_code"]), ("failure", 8))
        else:
            self.assertEqual((job["outcome"], job["cause"]), ("unknown", "lost"))
        self.assertEqual(len(self.rows("SELECT 1 FROM jobs")), 2)

    def test_scheduler_that_reports_later(self):
        """The process of a step ends, and its scheduler reports that later."""
        sonde = self.daemon(interval=0.1)
        puppet = self.puppet()
        run_id = sonde.rpc("job.start", job_id="x", total_sheets=2)["run_id"]
        sonde.rpc("sheet.started", job_id="x", sheet_num=1, pid=puppet.pid)
        sonde.await_pid(puppet.pid, run_id)
        self.await_rows("SELECT 1 FROM process_metrics WHERE run_id = ?", run_id)
        sonde.kill()
        sonde.start()
        sonde.await_pid(puppet.pid, run_id)
        puppet.exit(0)
        sonde.await_snapshots(5)
        sonde.rpc("sheet.completed", job_id=run_id, sheet_num=1, exit_code=0)
        sonde.rpc("job.finish", job_id=run_id, outcome="success")
        job = self.await_end(run_id)
        self.assertEqual((job["outcome"], job["cause"]), ("success", None))

    def test_another_writer_while_the_daemon_is_stopped(self):
        """A writer that opens the database of a stopped daemon must not end runs that continue."""
        sonde = self.daemon()
        puppet = self.puppet()
        run_id = sonde.rpc("job.start", job_id="x", total_sheets=2)["run_id"]
        sonde.rpc("sheet.started", job_id="x", sheet_num=1, pid=puppet.pid)
        sonde.await_pid(puppet.pid, run_id)
        self.await_rows("SELECT 1 FROM process_metrics WHERE run_id = ?", run_id)
        for end in (sonde.kill, sonde.stop):
            end()
            self.run_job("true")
            sonde.start()
            self.assertEqual(sonde.await_pid(puppet.pid, run_id)["sheet_num"], 1)
            self.assertEqual([job["run_id"] for job in sonde.rpc("job.list", outcome="running")],
                             [run_id])
            self.await_rows("SELECT 1 FROM jobs WHERE run_id = ? AND outcome = 'running'"
                            " AND cause IS NULL AND ended_at IS NULL", run_id)
        sonde.rpc("sheet.completed", job_id="x", sheet_num=1)
        sonde.rpc("job.finish", job_id=run_id, outcome="success")
        job = self.await_end(run_id)
        self.assertEqual((job["outcome"], job["cause"], job["total_sheets"]), ("success", None, 2))
        sheet, = self.rows("SELECT * FROM sheets WHERE run_id = ?", run_id)
        self.assertEqual(sheet["outcome"], "success")

    def test_job_by_rule(self):
        variable = f"BATCH_{self.mark}"
        sonde = self.daemon(f'jobs:\n  rules:\n    - job_id: "batch-{{{variable}}}"\n'
                            f"      env: [{variable}]\n")
        puppet = self.puppet(env=dict(self.environment, **{variable: "9"}))
        run_id = self.only_run()
        sonde.await_pid(puppet.pid, run_id)
        self.await_rows("SELECT 1 FROM process_metrics WHERE run_id = ?", run_id)
        sonde.kill()
        sonde.start()
        sonde.await_pid(puppet.pid, run_id)
        sonde.await_snapshots(3)
        self.assertEqual([row["run_id"] for row in self.rows("SELECT run_id FROM jobs")], [run_id])
        self.assertEqual(self.job(run_id)["outcome"], "running")

    def test_restart_makes_a_new_session(self):
        """There are two sessions, and the first ends with its last snapshot."""
        sonde = self.daemon(interval=0.1)
        first = sonde.pid
        self.await_rows("SELECT 1 FROM snapshots")
        sonde.kill()
        sonde.start()
        second = sonde.pid
        harness.wait_until(lambda: len(self.rows("SELECT 1 FROM sessions")) == 2, "two sessions")
        self.await_rows("SELECT 1 FROM sessions WHERE pid = ? AND ended_at IS NOT NULL", first)
        rows = self.rows("SELECT pid, ended_at FROM sessions ORDER BY started_at")
        self.assertEqual([row["pid"] for row in rows], [first, second])
        self.assertIsNone(rows[1]["ended_at"])
        sonde.stop()
        self.assertEqual(self.rows("SELECT 1 FROM sessions WHERE ended_at IS NULL"), [])


if __name__ == "__main__":
    harness.main()
