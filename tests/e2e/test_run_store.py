#!/usr/bin/env python3
"""sonde run: what it stores, and that storage errors do not affect the command."""
import contextlib
import hashlib
import os
import pathlib
import shutil
import signal
import sqlite3
import stat
import subprocess
import time
import unittest

import daemon
import harness
import small_disk

# "sond", the application id of sonde's databases.
APPLICATION_ID = 0x736F6E64


class Storing(daemon.TestCase):
    """Each test has its own state directory."""

    def setUp(self):
        super().setUp()
        self.state = self.path("own-state")
        self.environment["SONDE_STATE_DIR"] = self.state

    def await_job(self, name="%"):
        """Waits until a running job is stored."""
        harness.wait_until(lambda: self.stored(
            "SELECT 1 FROM jobs WHERE job_id LIKE ? AND outcome = 'running'", name),
            "the job is stored")

    def events(self, result, *types):
        return super().events(result.summary["run_id"], *types)

    def run_anything(self, *command, options=(), **more):
        """Runs a command without checking the result."""
        return self.run_sonde("run", *options, "--", *command, **more)

    def messages(self, result):
        """The messages of sonde without its summary."""
        return [line for line in result.stderr.splitlines() if line.startswith("sonde: run:")]

    def assert_quiet(self, result):
        self.assertEqual(self.messages(result), [], result)

    def assert_not_stored(self, result, status, *expected):
        """One line reports it, and the command's status is passed on."""
        self.assertEqual(result.status, status, result)
        lines = self.messages(result)
        self.assertEqual(len(lines), 1, result)
        self.assertIn("not stored: ", lines[0])
        for word in expected:
            self.assertIn(word, lines[0])
        self.assertEqual(result.summary["exit_code"], status)

    def run_seven(self, **more):
        return self.run_anything("sh", "-c", "exit 7", **more)


class Outcome(Storing):
    def test_success(self):
        before = time.time()
        result = self.run_job("sh", "-c", "sleep 0.15; exit 0", "two words")
        self.assert_quiet(result)
        job = self.job(result.summary["run_id"])
        for name in ("run_id", "job_id", "job_type", "outcome", "exit_code", "signal_num", "cause"):
            self.assertEqual(job[name], result.summary[name], name)
        self.assertEqual(job["outcome"], "success")
        self.assertEqual(job["command"], "sh -c sleep 0.15; exit 0 two words")
        self.assertEqual(job["cwd"], os.getcwd())
        self.assertEqual(job["uid"], os.getuid())
        self.assertEqual(job["host"], os.uname().nodename)
        self.assertIsNone(job["total_sheets"])
        self.assertIsNone(job["parent_run_id"])
        self.assertTrue(before - 1 <= job["started_at"] <= job["ended_at"] <= time.time() + 1)
        self.assertAlmostEqual(job["started_at"], result.summary["started_at"], places=3)
        self.assertAlmostEqual(job["ended_at"] - job["started_at"],
                               result.summary["wall_seconds"], delta=0.05)
        self.assert_intact()

    def test_failure(self):
        result = self.run_anything("sh", "-c", "exit 42")
        self.assertEqual(result.status, 42, result)
        job = self.job(result.summary["run_id"])
        self.assertEqual((job["outcome"], job["exit_code"], job["signal_num"], job["cause"]),
                         ("failure", 42, None, "exit status 42"))

    def test_death_by_signal(self):
        result = self.run_anything("sh", "-c", "kill -KILL $$")
        self.assertEqual(result.status, 128 + signal.SIGKILL, result)
        job = self.job(result.summary["run_id"])
        self.assertEqual((job["outcome"], job["exit_code"], job["signal_num"], job["cause"]),
                         ("failure", None, signal.SIGKILL, "killed by SIGKILL"))
        kill, = self.events(result, "exit", "kill")
        self.assertEqual((kill["event_type"], kill["signal_num"], kill["exit_code"]),
                         ("kill", signal.SIGKILL, None))

    def test_profile_is_the_summary(self):
        result = self.run_job(*self.victim("burn-children", 2, 150))
        job, summary = self.job(result.summary["run_id"]), result.summary
        same = {"peak_rss_mb": "peak_rss_mb", "peak_total_mb": "peak_total_mb",
                "peak_unique_mb": "peak_unique_mb", "total_cpu_seconds": "cpu_seconds",
                "user_seconds": "user_seconds", "system_seconds": "system_seconds",
                "wall_seconds": "wall_seconds", "process_spawn_count": "processes",
                "failed_exit_count": "failed_exit_count", "kill_count": "kill_count",
                "peak_processes": "peak_processes", "left_running_count": "left_running_count",
                "num_samples": "num_samples", "gap_seconds": "gap_seconds"}
        for column, field in same.items():
            self.assertAlmostEqual(job[column], summary[field], places=3, msg=column)
        self.assertEqual(job["collector"], summary["collector"])
        self.assertEqual(job["left_running_count"], 0)
        # null is stored as null; only system calls can be, where none was seen in a sample
        self.assertEqual({field: job[f"exactness_{field}"] for field in summary["exactness"]},
                         summary["exactness"])
        self.assertEqual([field for field, how in summary["exactness"].items() if how is None],
                         [] if summary["syscall_hotspots"] else ["syscall_hotspots"])

    def test_left_running_is_counted(self):
        result = self.run_job("sh", "-c", "sleep 300 & sleep 300 &")
        self.assertEqual(self.job(result.summary["run_id"])["left_running_count"], 2)

    def test_command_that_cannot_start_is_not_stored(self):
        for command, status in (("no-such-program-here", 127), ("/", 126)):
            with self.subTest(command=command):
                result = self.run_anything(command)
                self.assertEqual(result.status, status, result)
                self.assertFalse(os.path.exists(self.state))

    def test_no_store_opens_nothing(self):
        result = self.run_job("true", options=("--no-store",))
        self.assert_quiet(result)
        self.assertFalse(os.path.exists(self.state))

    def test_secret_is_not_stored(self):
        result = self.run_job("sh", "-c", "sleep 0.25", "x", "--token", "hush-hush-1",
                              "password=hush-hush-2")
        self.assertIn("***", self.job(result.summary["run_id"])["command"])
        for name in os.listdir(self.state):
            content = pathlib.Path(self.state, name).read_bytes()
            self.assertNotIn(b"hush-hush", content, name)

    def test_step(self):
        result = self.run_anything("sh", "-c", "sleep 0.15; exit 3", options=("--sheet", "7"))
        sheet, = self.rows("SELECT * FROM sheets WHERE run_id = ?", result.summary["run_id"])
        self.assertEqual((sheet["sheet_num"], sheet["outcome"]), (7, "failure"))
        self.assertAlmostEqual(sheet["peak_rss_mb"], result.summary["peak_rss_mb"], places=2)
        self.assertAlmostEqual(sheet["cpu_seconds"], result.summary["cpu_seconds"], places=3)
        self.assertLess(sheet["started_at"], sheet["ended_at"])
        self.assertEqual({row["sheet_num"] for row in self.rows(
            "SELECT sheet_num FROM process_metrics WHERE run_id = ?", result.summary["run_id"])},
            {7})

    def test_long_and_hostile_command_line(self):
        word = "ü" * 400
        result = self.run_job("sh", "-c", ":", word, b"\xff\x1b[2J\n")
        command = self.job(result.summary["run_id"])["command"]
        self.assertLessEqual(len(command.encode()), 500)
        self.assertTrue(command.startswith("sh -c : üü"))

    def test_as_an_unprivileged_user(self):
        self.environment["SONDE_STATE_DIR"] = os.path.join(self.open_directory(), "state", "sonde")
        # everyone can write the parent directory, but not the one that sonde creates
        result = self.run_job("true", prefix=harness.unprivileged())
        self.assert_quiet(result)
        self.state = self.environment["SONDE_STATE_DIR"]
        self.assertEqual(self.job(result.summary["run_id"])["outcome"], "success")


class Samples(Storing):
    def test_snapshots_through_the_views(self):
        result = self.run_job("sh", "-c", "sleep 0.35; true")
        run_id = result.summary["run_id"]
        rows = self.rows("SELECT m.*, s.timestamp AS at FROM process_metrics m"
                         " JOIN snapshots s ON s.id = m.snapshot_id"
                         " WHERE m.run_id = ? ORDER BY m.snapshot_id", run_id)
        self.assertEqual(len({row["snapshot_id"] for row in rows}), result.summary["num_samples"])
        self.assertEqual({row["job_id"] for row in rows}, {result.summary["job_id"]})
        self.assertIn("sh -c sleep 0.35; true", {row["command"] for row in rows})
        self.assertGreater(rows[0]["rss_mb"], 0)
        for row in rows:
            self.assertGreaterEqual(row["rss_mb"], 0)  # a process that is exiting has no memory
            self.assertGreaterEqual(row["threads"], 1)
            self.assertTrue(result.summary["started_at"] - 0.1 <= row["at"] <= time.time())
        ids = [row["id"] for row in self.rows("SELECT id FROM snapshots ORDER BY timestamp")]
        self.assertEqual(ids, sorted(set(ids)))
        # including one after the command's end
        self.assertGreater(len(ids), result.summary["num_samples"])
        session, = self.rows("SELECT * FROM sessions")
        self.assertEqual(session["host"], os.uname().nodename)
        self.assertEqual(session["boot_id"],
                         pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        self.assertEqual(session["interval_seconds"], 0.1)
        self.assertIsNotNone(session["ended_at"])

    def test_left_running_is_old_enough_to_have_executed(self):
        """The last snapshot is not one of a child that has yet to execute its program."""
        result = self.run_job("sh", "-c", "sleep 300 &")
        left, = result.summary["left_running"]
        ages = self.rows("SELECT max(age_seconds) AS age, count(*) AS n FROM process_metrics"
                         " WHERE pid = ?", left["pid"])
        self.assertGreater(ages[0]["age"], 0.025)
        self.assertGreater(ages[0]["n"], 0)

    @harness.needs_program("sqlite3")
    def test_the_sqlite3_program_reads_it(self):
        result = self.run_job("sleep", "0.15")
        result = self.run_program("sqlite3", "-readonly", self.database,
                                "SELECT count(*) > 0, count(DISTINCT pid) FROM process_metrics"
                                f" WHERE job_id = '{result.summary['job_id']}'")
        self.assertEqual(result.stdout, b"1|1\n", result)

    def test_missed_time_is_a_gap(self):
        process = self.start_sonde("--", *self.victim("named", "x"))
        self.await_ready(process)
        harness.wait_until(lambda: self.stored("SELECT 1 FROM snapshots"), "it samples")
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.6)  # the length of the gap
        process.send_signal(signal.SIGCONT)
        result = self.finish(process)
        gaps = self.rows("SELECT * FROM gaps WHERE kind = 'missed_ticks'")
        self.assertGreaterEqual(sum(gap["seconds"] for gap in gaps), 0.3)
        self.assertAlmostEqual(sum(gap["seconds"] for gap in gaps), result.summary["gap_seconds"],
                               places=2)


class Events(Storing):
    @harness.needs_connector()
    def test_each_fork_and_each_exit(self):
        result = self.run_job(*self.victim("fork-storm", 200))
        spawns, exits = self.events(result, "spawn"), self.events(result, "exit")
        self.assertEqual(len(spawns), 201)
        self.assertEqual({event["pid"] for event in spawns}, {event["pid"] for event in exits},
                         result)
        self.assertEqual(len(exits), 201)
        command = spawns[0]
        self.assertEqual({event["ppid"] for event in spawns[1:]}, {command["pid"]})
        self.assertEqual(exits[-1]["pid"], command["pid"])
        self.assertEqual({event["exit_code"] for event in exits}, {0})
        end = time.time()
        for event in spawns + exits:
            self.assertTrue(result.summary["started_at"] - 0.01 <= event["timestamp"] <= end)
            self.assertEqual(event["job_id"], result.summary["job_id"])
        self.assertEqual(self.rows("SELECT * FROM gaps WHERE kind = 'events'"), [])
        self.assertEqual(self.job(result.summary["run_id"])["exit_count"], 201)

    @harness.needs_connector()
    def test_a_storm_of_ten_thousand(self):
        """More than fits into one tick, and more than is stored as single events."""
        result = self.run_job(*self.victim("fork-storm", 10000), options=("--interval", "10s"))
        for kind in ("spawn", "exit"):
            folded, = self.rows("SELECT sum(count) AS n FROM folded_events WHERE event_type = ?", kind)
            self.assertEqual(len(self.events(result, kind)) + folded["n"], 10001)
        self.assertEqual(self.rows("SELECT * FROM gaps WHERE kind <> 'missed_ticks'"), [])

    @harness.needs_connector()
    def test_threads_are_no_processes(self):
        result = self.run_job(*self.victim("burn", 30, 20))
        self.assertEqual(len(self.events(result, "spawn")), 1)
        self.assertEqual(len(self.events(result, "exit")), 1)

    @harness.needs_connector()
    def test_leader_that_ends_before_its_threads(self):
        result = self.run_job(*self.victim("leader-exit", 60))
        self.assertEqual(len(self.events(result, "exit")), 1)

    @harness.needs_connector()
    def test_exact_figures_of_a_single_process(self):
        # As its parent knows them. The kernel collector counts only the memory of the program, not
        # that of sonde at the fork, and up to a few dozen pages per CPU less.
        self.write("config/sonde/sonde.yaml", "profiler:\n  collector: procfs\n")
        # No snapshot falls between the exit and its reaping, which would store the exit without the
        # figures.
        result = self.run_job(*self.victim("burn", 150), options=("--interval", "10m"))
        end, = self.events(result, "exit")
        self.assertAlmostEqual(end["cpu_seconds"], result.summary["cpu_seconds"], places=5)
        self.assertAlmostEqual(end["peak_rss_mb"], result.summary["peak_rss_mb"], places=2)

    @harness.needs_connector()
    def test_status_and_name_of_a_child(self):
        result = self.run_job("sh", "-c", "sh -c 'sleep 0.3; exit 9'; true")
        self.assertIn((9, "sh -c sleep 0.3; exit 9"),
                      {(event["exit_code"], event["command"])
                       for event in self.events(result, "exit")})

    @harness.needs_connector()
    def test_exec_is_stored_but_not_in_the_view(self):
        result = self.run_job("sh", "-c", "exec sleep 0.25")
        self.assertEqual(self.rows("SELECT * FROM process_events WHERE event_type = 'exec'"), [])
        rows = self.rows("SELECT count(*) AS n FROM event WHERE event_type = 'exec'")
        self.assertEqual(rows, [{"n": 2}])
        self.assertEqual(result.summary["processes"], 1)

    @harness.needs_namespaces()
    def test_without_the_connector_the_command_itself(self):
        result = self.run_anything("sh", "-c", "sleep 0.25; exit 5",
                                   prefix=("unshare", "--fork", "--pid", "--mount-proc"))
        self.assertEqual(result.status, 5, result)
        spawn, = self.events(result, "spawn")
        end, = self.events(result, "exit")
        self.assertEqual(spawn["pid"], end["pid"])
        self.assertEqual(end["exit_code"], 5)
        self.assertEqual(end["command"], "sh -c sleep 0.25; exit 5")

    @harness.needs_namespaces()
    def test_without_samples_the_command_itself(self):
        result = self.run_anything("sh", "-c", "exit 5", prefix=("unshare", "--pid", "--fork"))
        self.assertEqual(result.status, 5, result)
        self.assertIn("could not sample", result.stderr)
        self.assertEqual(len(self.events(result, "spawn")), 1, result)
        end, = self.events(result, "exit")
        self.assertEqual(end["exit_code"], 5)
        self.assertEqual(self.job(result.summary["run_id"])["cause"], "exit status 5")

    def test_kill_has_its_sender(self):
        process = self.start_sonde("--", *self.victim("named", "x"))
        self.await_ready(process)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(harness.DEADLINE), 128 + signal.SIGTERM)
        result = self.finish(process)
        kill, = self.events(result, "kill")
        self.assertEqual((kill["signal_num"], kill["sender_pid"]), (signal.SIGTERM, os.getpid()))
        own = pathlib.Path("/proc/self/cmdline").read_bytes().decode().replace("\0", " ")
        self.assertTrue(kill["sender_command"] and own.startswith(kill["sender_command"]), kill)
        self.assertEqual(self.events(result, "signal", "exit"), [])

    def test_signal_that_does_not_kill(self):
        received = self.path("received")
        process = self.start_sonde("--", *self.victim("count-signals", received))
        self.await_ready(process)
        process.send_signal(signal.SIGUSR1)
        harness.wait_until(lambda: self.read("received"), "the signal arrived")
        process.send_signal(signal.SIGPROF)
        result = self.finish(process)
        self.assertEqual(result.status, 0, result)
        self.assertEqual([(sent["signal_num"], sent["sender_pid"])
                          for sent in self.events(result, "signal")],
                         [(signal.SIGUSR1, os.getpid()), (signal.SIGPROF, os.getpid())])
        self.assertEqual(self.events(result, "kill"), [])
        self.assertEqual(len(self.events(result, "exit")), 1)


class Names(Storing):
    def start_job(self, name, *options):
        process = self.start_sonde("--job", name, *options, "--", *self.victim("named", "x"))
        self.await_ready(process)
        self.await_job(name)
        return process

    def test_second_one_at_once_gets_a_number(self):
        first = self.start_job("build")
        second = self.run_job("sleep", "0.15", options=("--job", "build"))
        third = self.run_job("true", options=("--job", "build"))
        self.assertEqual(second.summary["job_id"], "build-2")
        self.assertIn("a run of 'build' is still active: this one is called 'build-2'",
                      second.stderr)
        self.assertIn("sonde: build-2: success", second.stderr)
        self.assertEqual(third.summary["job_id"], "build-2")
        one = self.finish(first)
        self.assertEqual(one.summary["job_id"], "build")
        again = self.run_job("true", options=("--job", "build"))
        self.assertEqual(again.summary["job_id"], "build")
        self.assert_quiet(again)
        self.assertEqual(
            [(job["job_id"], job["outcome"]) for job in
             self.rows("SELECT * FROM jobs ORDER BY started_at")],
            [("build", "success"), ("build-2", "success"), ("build-2", "success"),
             ("build", "success")])
        self.assertEqual({row["job_id"] for row in self.rows(
            "SELECT job_id FROM process_metrics WHERE run_id = ?", second.summary["run_id"])},
            {"build-2"})
        self.assertEqual({event["job_id"] for event in self.events(second, "spawn", "exit")},
                         {"build-2"})

    def test_many_at_once(self):
        running = [self.start_sonde("--job", "crowd", "--", *self.victim("named", "x"))
                   for _ in range(8)]
        self.await_job("crowd")
        harness.wait_until(lambda: len(self.rows("SELECT 1 FROM jobs")) == 8, "all are stored")
        results = [self.finish(process) for process in running]
        self.assertEqual(len({result.summary["job_id"] for result in results}), 8)
        self.assertEqual({result.status for result in results}, {0})
        self.assertEqual({result.summary["job_id"] for result in results},
                         {job["job_id"] for job in self.rows("SELECT job_id FROM jobs"
                                                             " WHERE outcome = 'success'")})
        self.assert_intact()

    def test_quiet_still_prints_the_new_name(self):
        first = self.start_job("build")
        second = self.run_job("true", options=("--job", "build", "-q"))
        self.assertEqual(len(second.stderr.splitlines()), 1, second)
        self.finish(first)

    def test_killed_sonde_is_lost_and_its_command_lives(self):
        process = self.start_job("build")
        command, = harness.children_of(process.pid)
        run_id = self.rows("SELECT run_id FROM jobs")[0]["run_id"]
        process.kill()
        process.wait()
        self.assertTrue(harness.is_alive(command))
        again = self.run_job("true", options=("--job", "build"))
        self.assert_quiet(again)
        self.assertEqual(again.summary["job_id"], "build")
        lost = self.job(run_id)
        self.assertEqual((lost["outcome"], lost["cause"]), ("unknown", "lost"))
        self.assertTrue(harness.is_alive(command))
        self.assert_intact()
        self.assertGreater(len(self.rows("SELECT * FROM process_metrics WHERE run_id = ?",
                                         run_id)), 0)

    def test_stopped_sonde_does_not_lock_others_out(self):
        """Stopped as by a terminal, at any moment. It can be stopped wherever the test runs only in
        its own group."""
        process = self.start_sonde("--interval", "10ms", "--", "sh", "-c",
                                   "echo ready $$; sleep 0.2; kill -TSTP $$; sleep 0.1",
                                   preexec_fn=os.setpgrp)
        self.await_ready(process)
        harness.wait_until(lambda: harness.process_state(process.pid) == "T", "sonde has stopped")
        result = self.run_job("true")
        self.assert_quiet(result)
        os.killpg(process.pid, signal.SIGCONT)
        self.assertEqual(self.finish(process).status, 0)
        self.assertEqual(len(self.rows("SELECT * FROM jobs WHERE outcome = 'success'")), 2)


class Places(Storing):
    def modes(self):
        return {name: stat.S_IMODE(os.stat(os.path.join(self.state, name)).st_mode)
                for name in os.listdir(self.state)}

    def test_files_are_for_their_owner(self):
        for umask in (0o000, 0o022, 0o077, 0o277):
            with self.subTest(umask=oct(umask)):
                process = self.start_sonde("--", *self.victim("named", "x"), umask=umask)
                self.await_ready(process)
                harness.wait_until(lambda: os.path.exists(self.database + "-wal"), "a log")
                self.assertEqual(stat.S_IMODE(os.stat(self.state).st_mode), 0o700)
                self.assertEqual({mode & ~0o600 for mode in self.modes().values()}, {0})
                # SQLite restores the mode that a umask removed just after it created the file
                harness.wait_until(lambda: set(self.modes().values()) == {0o600}, self.modes)
                result = self.finish(process)
                self.assertEqual(self.job(result.summary["run_id"])["outcome"], "success")
                self.assertEqual(set(self.modes().values()), {0o600}, self.modes())
                shutil.rmtree(self.state)

    def test_state_dir_by_option_environment_and_configuration(self):
        elsewhere = self.path("elsewhere/deeper")
        self.run_job("true", options=("--state-dir", elsewhere))
        self.assertFalse(os.path.exists(self.state))
        self.assertTrue(os.path.exists(os.path.join(elsewhere, "monitor.db")))
        named = self.path("named.db")
        self.write("config/sonde/sonde.yaml", f"profiler:\n  storage_path: {named}\n")
        self.run_job("true")
        self.assertFalse(os.path.exists(self.state))
        self.assertTrue(os.path.exists(named))

    def test_no_log_of_lines(self):
        self.run_job("true")
        self.assertFalse(os.path.exists(os.path.join(self.state, "monitor.jsonl")))

    @unittest.skipIf(harness.is_root(), "root has a state directory of its own")
    def test_no_home_of_a_user(self):
        for name in ("HOME", "SONDE_STATE_DIR", "XDG_STATE_HOME"):
            self.environment.pop(name)
        self.assert_not_stored(self.run_seven(), 7, "HOME", "--state-dir")

    @harness.needs_root()
    @harness.needs_program("setpriv")
    def test_no_home(self):
        for name in ("HOME", "SONDE_STATE_DIR", "XDG_STATE_HOME"):
            self.environment.pop(name)
        self.assert_not_stored(self.run_seven(prefix=harness.unprivileged()), 7, "HOME",
                               "--state-dir")
        # no message where it is not needed
        result = self.run_job("true", options=("--no-store",), prefix=harness.unprivileged())
        self.assert_quiet(result)

    def test_state_dir_is_a_file(self):
        path = self.write("own-state", "precious")
        self.assert_not_stored(self.run_seven(), 7, path)
        self.assertEqual(self.read("own-state"), b"precious")

    @harness.needs_program("setpriv")
    def test_read_only_state_dir(self):
        os.mkdir(self.state, 0o555)
        prefix = harness.unprivileged()
        self.assert_not_stored(self.run_seven(prefix=prefix), 7, self.database)
        self.assertEqual(os.listdir(self.state), [])

    @harness.needs_namespaces()
    def test_read_only_file_system(self):
        os.mkdir(self.state)
        world = ("unshare", "--mount", "sh", "-c",
                 'mount -t tmpfs -o ro none "$0" && exec "$@"', self.state)
        self.assert_not_stored(self.run_seven(prefix=world), 7, self.database)

    def test_dangling_and_planted_links(self):
        directory = self.open_directory()
        os.symlink(self.path("target"), os.path.join(directory, "state"))
        self.environment["SONDE_STATE_DIR"] = os.path.join(directory, "state")
        result = self.run_seven()
        self.assert_not_stored(result, 7, "open/state")
        self.assertFalse(os.path.exists(self.path("target")))


    @harness.needs_namespaces()
    def test_reading_where_nothing_can_be_written(self):
        self.run_job("true", options=("--job", "kept"))
        with contextlib.closing(sqlite3.connect(self.database)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for suffix in ("-wal", "-shm"):
            pathlib.Path(self.database + suffix).unlink(missing_ok=True)
        world = ("unshare", "--mount", "sh", "-c",
                 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"', self.state)
        result = self.run_program(*world, harness.SONDE, "jobs")
        self.assertEqual(result.status, 0, result)
        self.assertIn(b"kept", result.stdout)

    def test_path_that_others_can_change(self):
        """A user who can rename a directory of the path could redirect root's files."""
        way = self.path("way")
        os.mkdir(way)
        os.chmod(way, 0o777)
        self.environment["SONDE_STATE_DIR"] = os.path.join(way, "own", "state")
        self.assert_not_stored(self.run_seven(), 7, "others can change it")

    def test_empty_option(self):
        result = self.run_program(harness.SONDE, "run", "--state-dir", "", "--", "true")
        self.assertEqual(result.status, 125, result)
        self.assertIn("--state-dir: the value is empty", result.stderr)

    def test_deleted_while_it_is_written(self):
        """sonde reports that it stores into a deleted file."""
        process = self.start_sonde("--", "sh", "-c", "echo ready $$; read line; exit 7")
        self.await_ready(process)
        harness.wait_until(lambda: self.stored("SELECT 1 FROM snapshots"), "a snapshot is stored")
        # Moved first: a directory in which the writer creates a file meanwhile cannot be removed.
        os.rename(self.state, self.path("moved"))
        shutil.rmtree(self.path("moved"))
        harness.wait_until(lambda: b"was deleted or moved away" in
                           pathlib.Path(process.errors_path).read_bytes(), "it is reported")
        self.assertEqual(self.finish(process).status, 7)


class ForeignFiles(Storing):
    """Existing files that sonde did not write stay unchanged to the byte."""

    def content(self):
        return {name: hashlib.sha256(pathlib.Path(self.state, name).read_bytes()).hexdigest()
                for name in os.listdir(self.state)}

    def assert_untouched(self, *words):
        os.chmod(self.database, 0o600)
        before = self.content()["monitor.db"]
        result = self.run_seven()
        self.assert_not_stored(result, 7, self.database, *words)
        self.assertEqual(self.content(), {"monitor.db": before})

    def make(self, content):
        os.makedirs(self.state, mode=0o700)
        with open(self.database, "wb") as file:
            file.write(content)

    def make_ours(self):
        self.run_job("sh", "-c", "sleep 0.15")
        for name in os.listdir(self.state):
            if name != "monitor.db":
                os.unlink(os.path.join(self.state, name))

    def test_text_file(self):
        self.make(b"Dear diary,\n" * 1000)
        self.assert_untouched()

    def test_short_text_file(self):
        self.make(b"x")
        self.assert_untouched()

    def test_garbage(self):
        self.make(os.urandom(100000))
        self.assert_untouched()

    def test_database_of_another_program(self):
        os.makedirs(self.state, mode=0o700)
        with contextlib.closing(sqlite3.connect(self.database)) as db:
            db.executescript("CREATE TABLE jobs (precious TEXT); INSERT INTO jobs VALUES ('x');")
        self.assert_untouched("another program")

    def test_newer_version(self):
        self.make_ours()
        with contextlib.closing(sqlite3.connect(self.database)) as db:
            db.executescript("PRAGMA journal_mode = DELETE; PRAGMA user_version = 9999;")
        self.assert_untouched("newer")

    def test_truncated(self):
        self.make_ours()
        os.truncate(self.database, os.path.getsize(self.database) // 2)
        self.assert_untouched()

    def test_header_alone(self):
        self.make_ours()
        os.truncate(self.database, 100)
        self.assert_untouched()

    def test_damaged_pages(self):
        """In any case the command's status is passed on and nothing crashes."""
        self.make_ours()
        size = os.path.getsize(self.database)
        for page in range(1, size // 4096, 3):
            with self.subTest(page=page):
                with open(self.database, "r+b") as file:
                    file.seek(page * 4096)
                    file.write(os.urandom(4096))
                self.assertEqual(self.run_seven().status, 7)

    def test_empty_file_is_used(self):
        self.make(b"")
        os.chmod(self.database, 0o600)
        result = self.run_job("true")
        self.assert_quiet(result)
        self.assertEqual(self.job(result.summary["run_id"])["outcome"], "success")

    def test_locked_by_another(self):
        """A program holds the write lock for ever: sonde ends anyway."""
        self.run_job("true")
        with contextlib.closing(sqlite3.connect(self.database, isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            result = self.run_seven()
            db.execute("ROLLBACK")
        self.assert_not_stored(result, 7, self.database)
        result = self.run_job("true")
        self.assert_quiet(result)


class FullDisk(small_disk.TestCase, Storing):
    """On a small file system."""

    def test_from_the_start(self):
        self.fill()
        result = self.run_anything("sh", "-c", "exit 7")
        self.assertEqual(result.status, 7, result)
        # the message may come before the command has ended
        self.assertIn(len(self.messages(result)), (1, 2), result)
        self.assertIn("not stored: ", self.messages(result)[-1])
        self.assertIn("the disk is full", self.messages(result)[-1])
        self.make_room()
        process = self.start_sonde("--", *self.victim("named", "x"))
        self.await_job()
        result = self.finish(process)
        self.assertEqual(result.status, 0, result)
        self.assertNotIn("the disk is full", result.stderr)

    def test_blocks_smaller_than_pages(self):
        """There a full disk appears in shared memory, as SIGBUS."""
        image, disk = self.path("image"), self.path("small-blocks")
        os.mkdir(disk)
        with open(image, "wb") as file:
            file.truncate(8 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-b", "1024", "-m", "0", image], check=True)
        if subprocess.run(["mount", "-o", "loop", image, disk], check=False).returncode:
            self.skipTest("no loop device")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=False)
        self.disk, self.state = disk, os.path.join(disk, "state")
        self.environment["SONDE_STATE_DIR"] = self.state
        process = self.start_sonde("--", *self.victim("named", "x"))
        harness.wait_until(lambda: os.path.exists(self.database + "-ballast"), "the ballast")
        self.assertEqual(self.finish(process).status, 0)
        os.unlink(self.database + "-ballast")
        self.fill()
        process = self.start_sonde("--", "sh", "-c", "read line; exit 7")
        harness.wait_until(lambda: "the disk is full" in pathlib.Path(
            process.errors_path).read_text(encoding="utf-8"), "it is reported")
        self.assertEqual(self.finish(process).status, 7)
        result = self.run_program(harness.SONDE, "jobs")
        self.assertEqual(result.status, 1, result)
        self.assertIn("the disk is full", result.stderr)

    def test_full_during_the_run(self):
        """Sampling continues, the gap is reported and stored, and writing resumes by itself."""
        process = self.start_crowd()

        def errors():
            return pathlib.Path(process.errors_path).read_text(encoding="utf-8")
        self.fill_until(lambda: small_disk.FULL in errors(), errors)
        self.assertGreater(self.rows("SELECT count(*) AS n FROM snapshots")[0]["n"], 0)
        taken = small_disk.count_snapshots(process.pid) + small_disk.QUEUE_MAX
        harness.wait_until(lambda: small_disk.count_snapshots(process.pid) > taken,
                           "snapshots are lost")
        self.make_room()
        harness.wait_until(lambda: "writing again" in errors(), errors)
        result = self.finish(process)
        self.assertEqual(result.status, 0, result)
        self.assertEqual(result.stderr.count(small_disk.FULL), 1, result)
        self.assertIn("not stored", result.stderr)
        run_id = result.summary["run_id"]
        self.assertEqual(self.job(run_id)["outcome"], "success")
        gaps = self.rows("SELECT * FROM gaps WHERE kind = 'not_stored'")
        # a busy machine may be too slow for an interval of 10 ms, before and after
        self.assertIn("the disk was full", {gap["reason"] for gap in gaps})
        self.assertLessEqual({gap["reason"] for gap in gaps},
                             {"the disk was full", "the disk was too slow"})
        lost = sum(gap["lost"] for gap in gaps)
        self.assertGreater(lost, 0)
        # Each snapshot of the run is stored or counted. There may be two more from after the end of
        # the command: while sonde reaps it, and after that.
        stored = self.rows("SELECT count(DISTINCT snapshot_id) AS n FROM process_metrics"
                           " WHERE run_id = ?", run_id)[0]["n"]
        self.assertEqual(stored + lost, result.summary["num_samples"])
        self.assert_intact()


if __name__ == "__main__":
    harness.main()
