#!/usr/bin/env python3
"""Stored jobs, and the output of jobs, events and report about them."""
import contextlib
import os
import pathlib
import re
import signal
import sqlite3
import time

import harness
import test_ps

COLOUR = re.compile(r"\x1b\[[0-9]*m")
READERS = (["jobs"], ["events"], ["report"], ["report", "--since", "1h"])

JOB_FIELDS = ("run_id", "job_id", "job_type", "command", "cwd", "uid", "host", "started_at",
              "ended_at", "outcome", "exit_code", "signal_num", "cause", "total_sheets",
              "parent_run_id", "profile")
PROFILE_FIELDS = ("job_id", "peak_rss_mb", "total_cpu_seconds", "process_spawn_count",
                  "unique_pid_count", "syscall_hotspots", "sheet_metrics", "peak_total_mb",
                  "peak_unique_mb", "wall_seconds", "user_seconds", "system_seconds", "read_bytes",
                  "write_bytes", "syscall_counts", "exactness")
EVENT_FIELDS = ("timestamp", "pid", "event_type", "exit_code", "signal_num", "job_id", "sheet_num",
                "details", "ppid", "command", "sender_pid", "sender_command", "cpu_seconds",
                "peak_rss_mb")
REPORT_FIELDS = ("as_of", "job", "sheets", "runs_within", "events", "events_left_out", "anomalies",
                 "gaps", "earlier_runs")


class StoredTestCase(test_ps.PsTestCase):
    def setUp(self):
        super().setUp()
        self.state = self.path("state-dir")
        self.environment["SONDE_STATE_DIR"] = self.state

    def store(self, job, *command, status=0, options=()):
        """Runs a command as a job; returns its summary."""
        result = self.run_sonde("run", f"--job={job}", *options, "--", *command)
        self.assertEqual(result.status, status, result)
        return result.summary

    def ask(self, *words, status=0, **options):
        result = self.run_sonde(*words, **options)
        self.assertEqual(result.status, status, result)
        if status:
            self.assertEqual(result.stdout, b"", result)
            self.assertTrue(result.stderr.startswith("sonde: "), result)
            self.assertEqual(result.stderr.count("\n"), 1, result)
        else:
            self.assertEqual(result.stderr, "", result)
        return result

    def text(self, *words, **options):
        return self.ask(*words, **options).stdout.decode("utf-8")

    def json(self, *words, **options):
        return harness.strict_json(self.text(*words, "--json", **options))

    @contextlib.contextmanager
    def open_database(self):
        with contextlib.closing(sqlite3.connect(os.path.join(self.state, "monitor.db"))) as database:
            with database:
                yield database

    def await_job(self, name):
        """Waits until a run that was started beside the test is stored."""
        harness.wait_until(lambda: self.run_sonde("jobs", "--job", name).status == 0, name)

    def refused(self, *words):
        """The message at wrong usage."""
        result = self.ask(*words, status=2)
        self.assertIn(f"(see 'sonde {words[0]} --help')", result.stderr)
        return result.stderr


class Help(StoredTestCase):
    def test_documented_options(self):
        promised = {
            "jobs": ("--since", "--until", "--outcome", "--job", "--type", "--limit", "--json"),
            "events": ("--job", "--since", "--until", "--type", "--pid", "--limit", "--follow",
                       "--json"),
            "report": ("--since", "--until", "--json"),
        }
        overview = self.text("--help")
        for verb, options in promised.items():
            with self.subTest(verb=verb):
                self.assertRegex(overview, rf"(?m)^  {verb} ")
                text = self.text(verb, "--help")
                self.assertTrue(text.startswith(f"usage: sonde {verb}"), text)
                self.assertLessEqual(max(map(len, text.splitlines())), 100)
                for option in (*options, "--config FILE", "--state-dir DIR"):
                    self.assertIn(option, text)


class Jobs(StoredTestCase):
    def setUp(self):
        super().setUp()
        self.summaries = [self.store("good", "true", options=["--type", "quick"]),
                          self.store("bad", "sh", "-c", "exit 3", status=3),
                          self.store("killed", "sh", "-c", "kill -TERM $$", status=143)]

    def test_table(self):
        lines = self.text("jobs").splitlines()
        self.assertRegex(lines[0], r"^JOB +OUTCOME +STARTED +WALL +CPU +LARGEST")
        self.assertEqual(len(lines), 4)
        self.assertRegex(lines[1], r"^killed +failure \(SIGTERM\) +[0-9]+:[0-9]{2}:[0-9]{2} ")
        self.assertRegex(lines[2], r"^bad +failure \(3\) ")
        self.assertRegex(lines[3], r"^good +success .* MB( |$)")
        self.assertRegex(lines[3], r" quick$")

    def test_nothing_is_cut_in_a_pipe(self):
        name = "a-name-that-is-much-longer-than-a-table-has-any-room-for-" + "x" * 60
        self.store(name, "true", options=["--type", "t" * 60])
        self.assertRegex(self.text("jobs"), rf"(?m)^{name} .* t{{60}}$")

    def test_json(self):
        jobs = self.json("jobs")
        self.assertEqual([job["job_id"] for job in jobs], ["killed", "bad", "good"])
        for job, summary in zip(reversed(jobs), self.summaries):
            self.assertEqual(set(JOB_FIELDS) - set(job), set())
            self.assertEqual(set(PROFILE_FIELDS) - set(job["profile"]), set())
            for name in ("run_id", "job_id", "job_type", "outcome", "exit_code", "signal_num",
                         "cause"):
                self.assertEqual(job[name], summary[name], name)
            for name in ("wall_seconds", "user_seconds", "system_seconds", "peak_rss_mb",
                         "peak_total_mb", "peak_unique_mb", "exactness"):
                self.assertEqual(job["profile"][name], summary[name], name)
            self.assertEqual(job["profile"]["total_cpu_seconds"], summary["cpu_seconds"])
            self.assertEqual(job["profile"]["process_spawn_count"], summary["processes"])
            self.assertAlmostEqual(job["started_at"], summary["started_at"], places=3)
            self.assertGreaterEqual(job["ended_at"], job["started_at"])
            self.assertEqual(job["uid"], os.getuid())
            self.assertEqual(job["host"], os.uname().nodename)
            self.assertEqual(job["cwd"], os.getcwd())
        self.assertEqual(jobs[1]["command"], "sh -c exit 3")

    def test_filters(self):
        def ids(*words):
            return [job["job_id"] for job in self.json("jobs", *words)]
        self.assertEqual(ids("--outcome", "failure"), ["killed", "bad"])
        self.assertEqual(ids("--outcome=success"), ["good"])
        self.assertEqual(ids("--outcome=running"), [])
        self.assertEqual(ids("--job", "bad"), ["bad"])
        self.assertEqual(ids("--type", "quick"), ["good"])
        self.assertEqual(ids("--limit", "2"), ["killed", "bad"])
        self.assertEqual(ids("-n", "1", "-j", "good"), ["good"])
        self.assertEqual(ids("--since", "1h"), ["killed", "bad", "good"])
        self.assertEqual(ids("--since", "now"), [])
        self.assertEqual(ids("--until", "1h ago"), [])
        middle = self.summaries[1]["started_at"]
        self.assertEqual(ids("--until", f"{middle:.6f}")[-1], "good")
        self.assertNotIn("killed", ids("--until", f"{middle + 0.001:.6f}"))

    def test_none(self):
        result = self.ask("jobs", "--job", "missing", status=3)
        self.assertEqual(result.stderr, "sonde: jobs: no stored jobs match\n")
        self.assertEqual(self.text("jobs", "--job", "missing", "--json"), "[]\n")

    def test_default_limit(self):
        for _ in range(19):
            self.store("many", "true", options=["-q"])
        self.assertEqual(len(self.json("jobs")), 20)
        self.assertEqual(len(self.json("jobs", "--limit", "100")), 22)

    def test_wrong_usage(self):
        self.assertIn("--outcome: 'bad' is not one of running, success, failure, unknown",
                      self.refused("jobs", "--outcome", "bad"))
        for value in ("0", "-1", "x", "1.5", "1000001", "99999999999999999999", ""):
            self.assertIn(f"--limit: '{value}' is not a number",
                          self.refused("jobs", f"--limit={value}"))
        for value in ("soon", "", "25:00", "3q ago", "2026-13-01", "\x1b[31m"):
            self.assertIn("--since: ", self.refused("jobs", f"--since={value}"))
            self.assertIn("is not a time; write 14:00", self.refused("jobs", f"--until={value}"))
        self.assertIn("is before --since",
                      self.refused("jobs", "--since", "1h ago", "--until", "2h ago"))
        self.assertIn("names earlier runs", self.refused("jobs", "--job", "good~1"))
        self.assertIn("control character", self.refused("jobs", "--type", "a\nb"))
        self.assertIn("'good'", self.refused("jobs", "good"))
        self.assertIn("needs a value", self.refused("jobs", "--job"))
        self.assertIn("did you mean '--outcome'", self.refused("jobs", "--outcom=x"))

    def test_on_a_terminal(self):
        self.store("a-name-that-is-much-longer-than-a-table-has-any-room-for-" + "x" * 60, "true")
        for width in (60, 80, 132, 250):
            with self.subTest(width=width):
                text = self.on_terminal("jobs", size=(24, width))
                self.assertRegex(text, r"\x1b\[31mfailure \(3\)\x1b\[0m")
                self.assertRegex(text, r"\x1b\[32msuccess\x1b\[0m")
                for line in COLOUR.sub("", text).splitlines():
                    self.assertLessEqual(test_ps.columns(line), width, line)
        self.assertRegex(COLOUR.sub("", self.on_terminal("jobs", size=(24, 250))), r" quick\n")
        text = self.on_terminal("jobs", env=dict(self.environment, NO_COLOR="1"))
        self.assertNotIn("\x1b", text)
        self.assertIn("\x1b", self.on_terminal("jobs", env=dict(self.environment, NO_COLOR="")))

    def test_running(self):
        process = self.start_sonde("--job", "long", "--", *self.victim("named", "x"))
        self.await_ready(process)
        self.await_job("long")
        job = self.json("jobs", "--outcome", "running")[0]
        self.assertEqual((job["job_id"], job["outcome"], job["ended_at"]), ("long", "running", None))
        self.assertGreater(job["profile"]["wall_seconds"], 0)
        self.assertRegex(self.text("jobs"), r"(?m)^long +running ")
        self.assertIn("\x1b[33mrunning\x1b[0m", self.on_terminal("jobs"))
        self.assertEqual(self.finish(process).status, 0)
        self.assertEqual(self.json("jobs", "--outcome", "running"), [])


class Reports(StoredTestCase):
    def first_line(self, *words):
        return self.text("report", *words).splitlines()[0]

    def test_success(self):
        summary = self.store("fine", "sh", "-c", "head -c 3000000 /dev/zero | wc -c",
                             options=["--type", "copying"])
        text = self.text("report", "fine")
        self.assertEqual(text.splitlines()[0], "fine: success")
        self.assertIn(f"\n  run        {summary['run_id']}\n", text)
        self.assertIn("\n  command    sh -c head -c", text)
        self.assertIn(f"\n  where      {os.getcwd()} on {os.uname().nodename}, uid "
                      f"{os.getuid()}\n", text)
        self.assertIn("\n  type       copying\n", text)
        self.assertRegex(text, r"\n  memory     .* MB largest process\n")
        self.assertRegex(text, r"\n  CPU        .* \(user .*, system .*\)")
        self.assertRegex(text, r"\n  wall       [0-9.]+ m?s\n")
        self.assertRegex(text, r"\n  processes  (≥ )?[0-9]+ started")
        self.assertNotIn("failed", text)

    def test_json(self):
        summary = self.store("fine", "true")
        report = self.json("report", "fine")
        self.assertEqual(set(REPORT_FIELDS) - set(report), set())
        self.assertEqual(report["job"]["run_id"], summary["run_id"])
        self.assertAlmostEqual(report["as_of"], time.time(), delta=harness.DEADLINE)
        self.assertEqual((report["sheets"], report["events"], report["anomalies"]), ([], [], []))
        self.assertEqual(report["events_left_out"], 0)

    def test_failure(self):
        self.store("bad", "sh", "-c", "(exit 7); (exit 8); exit 9", status=9)
        # It is not proven that the shell ended because of the 8.
        reason = r"; failed on the way: sh \(\d+\) exited 8" if harness.has_connector() else ""
        self.assertRegex(self.first_line("bad"), rf"^bad: failure, exit status 9{reason}$")
        if harness.has_connector():
            text = self.text("report", "bad")
            self.assertRegex(text, r"\n  failed     3 with a nonzero exit status\n")
            for status in (7, 8, 9):
                self.assertRegex(text, rf"\n +[0-9:.]+  exit +[0-9]+  status {status}")

    @harness.needs_connector()
    def test_failure_before_the_exec_is_read(self):
        """A child that executes nothing has the name of its parent, even if the parent's exec event
        is read when both have ended. The report knows that a shell runs a script."""
        script = "(exit 1)\nexit $?\n"
        commands = (("sh", "-c", script), (self.write("marked", f"#!/bin/sh\n{script}", 0o755),),
                    (self.write("unmarked", script, 0o755),))
        for command in commands:
            with self.subTest(command=command):
                result = self.run_sonde("run", "--", *command, prefix=(
                    os.path.join(harness.HELPERS, "late-exec"),))
                self.assertEqual(result.status, 1, result)
                self.assertRegex(result.summary["cause"],
                                 r"^exit status 1: sh \(\d+\) exited 1 → sh exited 1$")

    def test_failures_do_not_hide_a_kill(self):
        if not harness.has_connector():
            self.skipTest("the kernel does not report each process here")
        self.store("noisy", "sh", "-c", "sh -c 'kill -9 $$'; "
                   "for i in $(seq 60); do /bin/false; done; true")
        report = self.json("report", "noisy")
        types = [event["event_type"] for event in report["events"]]
        self.assertEqual(types[0], "kill")
        self.assertEqual(set(types[1:]), {"exit"})
        self.assertEqual(report["events_left_out"], 61 - len(types))
        self.assertIn(f" (the latest; {61 - len(types)} more)\n", self.text("report", "noisy"))

    def test_killed_by_itself(self):
        self.store("dead", "sh", "-c", "kill -KILL $$", status=137)
        self.assertRegex(self.first_line("dead"), r"^dead: failure, killed by SIGKILL, sender unknown"
                                                  r"|^dead: failure, killed by SIGKILL, sent by itself")
        report = self.json("report", "dead")
        self.assertEqual((report["job"]["signal_num"], report["job"]["exit_code"]), (9, None))
        if harness.has_connector():
            kills = [event for event in report["events"] if event["event_type"] == "kill"]
            self.assertEqual([event["signal_num"] for event in kills], [9])

    def test_killed_by_someone(self):
        process = self.start_sonde("--job", "shot", "--", *self.victim("named", "x"))
        self.await_ready(process)
        process.send_signal(signal.SIGTERM)
        process.wait(harness.DEADLINE)  # before its input ends, which would end it as well
        self.assertEqual(self.finish(process).status, 143)
        self.assertRegex(self.first_line("shot"), rf"^shot: failure, killed by SIGTERM, sent by "
                                                  rf"pid {os.getpid()}\b")
        self.assertRegex(self.text("report", "shot"),
                         rf"\n +[0-9:.]+  kill +[0-9]+  SIGTERM from pid {os.getpid()} \(")
        kill = self.json("events", "--job", "shot", "--type", "kill")[0]
        self.assertEqual((kill["signal_num"], kill["sender_pid"]), (15, os.getpid()))
        self.assertIn("test_reports", kill["sender_command"])

    def test_running(self):
        process = self.start_sonde("--job", "long", "--interval", "20ms", "--",
                                   *self.victim("named", "x"))
        self.await_ready(process)
        self.await_job("long")
        report = harness.wait_until(
            lambda: (report := self.json("report", "long"))["job"]["profile"]["peak_rss_mb"] and
            report, "figures so far")
        self.assertEqual((report["job"]["outcome"], report["job"]["ended_at"]), ("running", None))
        self.assertRegex(self.first_line("long"), r"^long: running, figures as of 20[0-9]{2}-")
        self.assertEqual(self.finish(process).status, 0)
        self.assertEqual(self.first_line("long"), "long: success")

    def test_which_run(self):
        runs = [self.store("again", "sh", "-c", f"exit {number}", status=number)["run_id"]
                for number in (0, 1, 2)]
        other = self.store("other", "true")["run_id"]
        for name, run in (("again", runs[2]), ("again~0", runs[2]), ("again~1", runs[1]),
                          ("again~2", runs[0]), (runs[0], runs[0]), (None, other)):
            with self.subTest(name=name):
                report = self.json("report", *([name] if name else []))
                self.assertEqual(report["job"]["run_id"], run)
        self.assertIn("no run 'again~3'; 'sonde jobs --job again' lists",
                      self.ask("report", "again~3", status=3).stderr)

    def test_no_such_job(self):
        self.store("nightly", "true")
        for words in (["report"], ["report", "--json"], ["events", "--job"]):
            with self.subTest(words=words):
                self.assertIn("no job named 'nigthly'; did you mean 'nightly'?",
                              self.ask(*words, "nigthly", status=3).stderr)
                self.assertIn("'sonde jobs' lists them",
                              self.ask(*words, "completely-different", status=3).stderr)
        for name in ("", "~", "~1", "nightly~", "nightly~x", "nightly~-1", "nightly~1~1",
                     "nightly~99999999999999999999", "\x1b[31m", "x" * 5000,
                     "00000000-0000-7000-8000-000000000000"):
            with self.subTest(name=name):
                result = self.ask("report", name, status=3)
                self.assertNotRegex(result.stderr, r"[\x00-\x09\x0b-\x1f\x7f]")

    def test_step(self):
        self.store("steps", "true", options=["--sheet", "3"])
        report = self.json("report", "steps")
        self.assertEqual([(sheet["sheet_num"], sheet["outcome"]) for sheet in report["sheets"]],
                         [(3, "success")])
        self.assertIn("3", report["job"]["profile"]["sheet_metrics"])
        self.assertRegex(self.text("report", "steps"), r"\nsteps.*\n.*STEP.*\n +3 +success ")

    def test_run_within_a_run(self):
        outer = self.store("outer", harness.SONDE, "run", "-q", "--job", "inner", "--", "true")
        if self.json("report", "inner")["job"]["parent_run_id"] is None:
            # A scheduler names the parent; `run` need not.
            with self.open_database() as database:
                database.execute("UPDATE jobs SET parent_run_id = ? WHERE job_id = 'inner'",
                                 (outer["run_id"],))
        report = self.json("report", "outer")
        self.assertEqual([(run["job_id"], run["parent_run_id"]) for run in report["runs_within"]],
                         [("inner", outer["run_id"])])
        self.assertRegex(self.text("report", "outer"), r"\nruns started by this run\n.*\n  inner +success ")
        self.assertIn(f"\n  part of    {outer['run_id']}\n", self.text("report", "inner"))

    def test_earlier_runs(self):
        for status in (0, 1, 0, 0, 0, 0):
            self.store("usual", "sh", "-c", f"exit {status}", status=status,
                       options=["--type", "usual"])
        earlier = self.json("report", "usual")["earlier_runs"]
        self.assertEqual((earlier["runs"], earlier["failures"]), (5, 1))
        self.assertEqual(earlier["figures"], [])  # four are too few
        self.assertNotIn("compared with", self.text("report", "usual"))
        self.store("usual", *self.victim("alloc", "64", "10"), options=["--type", "usual"])
        earlier = self.json("report", "usual")["earlier_runs"]
        self.assertEqual((earlier["runs"], earlier["failures"]), (6, 1))
        memory = next(figure for figure in earlier["figures"]
                      if figure["figure"] == "peak_rss_mb")
        self.assertTrue(memory["unusual"])
        self.assertEqual(memory["sample_size"], 5)
        self.assertGreater(memory["value"], 64)
        self.assertLess(memory["median"], 16)
        self.assertRegex(self.text("report", "usual"),
                         r"\ncompared with 5 earlier successful runs of this type; 1 more failed\n"
                         r".*\n  largest process .*unusual\n")
        self.assertEqual(self.json("report", "usual~6")["earlier_runs"]["runs"], 0)

    def test_two_at_once(self):
        first = self.start_sonde("--job", "same", "--", *self.victim("named", "x"))
        self.await_ready(first)
        self.await_job("same")
        second = self.store("same", "true")
        self.assertEqual(second["job_id"], "same-2")
        self.assertEqual(self.json("report", "same-2")["job"]["run_id"], second["run_id"])
        self.assertEqual(self.finish(first).status, 0)

    def test_wrong_usage(self):
        self.assertIn("--until needs --since", self.refused("report", "--until", "now"))
        self.assertIn("omit 'x' or --since", self.refused("report", "x", "--since", "1h"))
        self.assertIn("unexpected argument 'b'", self.refused("report", "a", "b"))
        self.assertIn("is not a time", self.refused("report", "--since", "soon"))
        self.assertIn("is in the future", self.refused("report", "--since", "2199-01-01"))
        self.assertIn("is before --since",
                      self.refused("report", "--since", "1h ago", "--until", "2h ago"))
        self.assertIn("out of range", self.refused("report", "--since", "99999999999999"))
        self.assertIn("takes no value", self.refused("report", "--json=1"))
        self.assertIn("did you mean '--since'", self.refused("report", "--sinse=x"))

    def test_colour(self):
        self.store("bad", "false", status=1)
        self.assertIn("\x1b[1mbad\x1b[0m: \x1b[31mfailure\x1b[0m", self.on_terminal("report"))
        text = self.on_terminal("report", env=dict(self.environment, NO_COLOR="1"))
        self.assertNotIn("\x1b", text)
        self.assertNotIn("\x1b", self.text("report"))


class Events(StoredTestCase):
    def test_of_a_run(self):
        if not harness.has_connector():
            self.skipTest("the kernel does not report each process here")
        self.store("two", "sh", "-c", "sh -c 'exit 4'; true")
        self.store("other", "true")
        events = self.json("events", "--job", "two")
        times = [event["timestamp"] for event in events]
        self.assertEqual(times, sorted(times))
        for event in events:
            self.assertEqual(set(EVENT_FIELDS) - set(event), set())
            self.assertEqual(event["job_id"], "two")
        exits = [event for event in events if event["event_type"] == "exit"]
        self.assertEqual(sorted(event["exit_code"] for event in exits), [0, 4])
        pid = next(event["pid"] for event in exits if event["exit_code"] == 4)
        self.assertEqual({event["pid"] for event in self.json("events", "--pid", str(pid))}, {pid})
        self.assertEqual(self.json("events", "--job", "two", "--type", "exit"), exits)
        self.assertEqual(self.json("events", "--job", "two", "--limit", "1"), events[-1:])
        self.assertEqual(self.json("events", "--job", "two~0"), events)
        self.assertEqual(self.json("events", "--job", events[0]["run_id"]), events)
        self.assertEqual(self.json("events", "--job", "two", "--until", f"{times[0] - 1:.3f}"), [])
        self.assertEqual({event["job_id"] for event in self.json("events", "--since", "1m")},
                         {"two", "other"})

        lines = self.text("events", "--job", "two").splitlines()
        self.assertRegex(lines[0], r"^ *TIME  EVENT +PID  JOB +DETAILS +COMMAND$")
        self.assertEqual(len(lines), len(events) + 1)
        self.assertRegex("\n".join(lines), rf"  exit +{pid}  two +status 4")

    def test_default_limit(self):
        if not harness.has_connector():
            self.skipTest("the kernel does not report each process here")
        self.store("many", "sh", "-c", "for i in $(seq 60); do /bin/true; done")
        everything = self.json("events", "--limit", "1000")
        self.assertGreater(len(everything), 100)
        self.assertEqual(self.json("events"), everything[-50:])

    def test_none(self):
        self.store("quick", "true")
        self.assertEqual(self.ask("events", "--until", "yesterday", status=3).stderr,
                         "sonde: events: no stored events match\n")
        self.assertEqual(self.text("events", "--until", "yesterday", "--json"), "[]\n")

    def test_wrong_usage(self):
        self.assertIn("--type: 'fork' is not one of spawn, exec, exit, signal, kill, oom",
                      self.refused("events", "--type", "fork"))
        for value in ("0", "-1", "x", "1e3", "99999999999999999999", ""):
            self.assertIn("is not a process id", self.refused("events", f"--pid={value}"))
        self.assertIn("--limit", self.refused("events", "--limit", "0"))
        self.assertIn("is not a time", self.refused("events", "--since", "soon"))
        self.assertIn("is before --since",
                      self.refused("events", "--since", "1h ago", "--until", "2h ago"))
        for verb in ("events", "jobs", "report"):
            self.assertIn("is in the future", self.refused(verb, "--since", "2100-01-01"))
            self.assertIn("is in the future", self.refused(
                verb, "--since", "2100-01-01", "--until", "2101-01-01"))
        self.assertIn("'x'", self.refused("events", "x"))
        self.assertIn("--until cannot be used with --follow", self.refused("events", "--follow", "--until", "now"))
        self.assertIn("omit '~1'", self.refused("events", "--follow", "--job", "x~1"))

    def test_follow_without_a_daemon(self):
        self.assertIn("start one with: sonde daemon", self.ask("events", "-f", status=3).stderr)


class Machine(StoredTestCase):
    def test_report(self):
        self.store("busy", *self.victim("burn", 300, 1), options=["--interval", "20ms"])
        self.store("bad", "false", status=1)
        report = self.json("report", "--since", "5m")
        self.assertEqual([job["job_id"] for job in report["jobs"]], ["bad", "busy"])
        self.assertEqual((report["jobs_left_out"], report["events_left_out"]), (0, 0))
        self.assertAlmostEqual(report["until"] - report["since"], 300, places=1)
        use = report["use"]
        self.assertGreater(use["samples"], 3)
        self.assertTrue(report["since"] <= use["first"] <= use["last"] <= report["until"])
        for name in ("system_cpu_percent", "system_memory_used_mb", "load_avg_1"):
            self.assertLessEqual(use[name]["min"], use[name]["mean"], name)
            self.assertLessEqual(use[name]["mean"], use[name]["max"], name)
        burner = next(process for process in use["processes"] if process["job_id"] == "busy")
        future = self.json("report", "--since", "5m", "--until", "2199-01-01")
        self.assertEqual(future["until"], future["as_of"])
        self.assertTrue(0.1 < burner["cpu_seconds"] < 1, burner)

        text = self.text("report", "--since", "5m")
        self.assertRegex(text, r"^20[0-9-]+ [0-9:]+ [+-][0-9]{4} to 20.*: 5 m 00 s\n"
                               r"  samples +[0-9]+, from ")
        for heading in ("jobs", "most CPU time", "most memory"):
            self.assertIn(f"\n{heading}\n", text)
        self.assertRegex(text, r"\n  busy +success ")
        self.assertRegex(text, r"\n  CPU +[0-9.]+ % +[0-9.]+ % +[0-9.]+ % +[0-9.]+ %\n")

    def test_no_data_for_that_time(self):
        self.store("busy", "true")
        for words in ([], ["--json"]):
            result = self.ask("report", "--since", "2h ago", "--until", "1h ago", *words, status=3)
            self.assertIn("no data is stored for that time", result.stderr)


class Trouble(StoredTestCase):
    def test_no_database(self):
        for words in READERS:
            for more in ([], ["--json"]):
                with self.subTest(words=words, more=more):
                    is_empty_list = words[0] in ("jobs", "events") and more
                    result = self.ask(*words, *more, status=0 if is_empty_list else 3)
                    self.assertEqual(result.stdout, b"[]\n" if is_empty_list else b"")
                    if is_empty_list:
                        continue
                    self.assertIn(f"no data yet in '{self.state}/monitor.db'",
                                  result.stderr)
        self.assertFalse(os.path.exists(self.state))

    def test_option_beats_environment(self):
        other = self.path("other")
        self.store("there", "true", options=["--state-dir", other])
        self.assertFalse(os.path.exists(self.state))
        self.assertEqual(len(self.json("jobs", "--state-dir", other)), 1)
        self.ask("jobs", status=3)

    def test_path_from_the_configuration(self):
        path = self.path("elsewhere/data.db")
        self.write("config/sonde/sonde.yaml", f"profiler:\n  storage_path: {path}\n")
        self.store("there", "true")
        self.assertTrue(os.path.exists(path))
        self.assertEqual(len(self.json("jobs")), 1)
        nowhere = {name: value for name, value in self.environment.items()
                   if name not in ("HOME", "SONDE_STATE_DIR", "XDG_STATE_HOME")}
        self.assertEqual(len(self.json("jobs", env=nowhere)), 1)

    def test_no_state_directory(self):
        if harness.is_root():
            self.skipTest("root has a place of its own")
        nowhere = {name: value for name, value in self.environment.items()
                   if name not in ("HOME", "SONDE_STATE_DIR", "XDG_STATE_HOME")}
        self.assertIn("--state-dir", self.ask("jobs", status=1, env=nowhere).stderr)

    def test_not_stored(self):
        self.store("secret", "true", options=["--no-store"])
        self.assertFalse(os.path.exists(os.path.join(self.state, "monitor.db")))

    def test_bad_configuration(self):
        self.write("config/sonde/sonde.yaml", "profiler:\n  nonsense: 1\n")
        for words in READERS:
            result = self.run_sonde(*words)
            self.assertEqual((result.status, result.stdout), (2, b""), result)
            self.assertIn("sonde.yaml:2:3", result.stderr)

    def test_foreign_file(self):
        os.makedirs(self.state, mode=0o700)
        path = pathlib.Path(self.state, "monitor.db")
        for name, content in (("text", b"this is no database\n" * 100), ("empty", b""),
                              ("cut", b"SQLite format 3\0" + b"\0" * 20),
                              ("zeros", b"\0" * 8192)):
            for words in READERS:
                with self.subTest(file=name, words=words):
                    path.write_bytes(content)
                    result = self.ask(*words, status=3 if name == "empty" else 1)
                    self.assertIn(str(path), result.stderr)
                    self.assertEqual(path.read_bytes(), content)
                    self.assertEqual(os.listdir(self.state), ["monitor.db"])

    def test_another_program_s_database(self):
        os.makedirs(self.state, mode=0o700)
        path = os.path.join(self.state, "monitor.db")
        with self.open_database() as database:
            database.execute("CREATE TABLE jobs (name TEXT)")
        before = pathlib.Path(path).read_bytes()
        for words in READERS:
            with self.subTest(words=words):
                self.assertIn(path, self.ask(*words, status=1).stderr)
        self.assertEqual(pathlib.Path(path).read_bytes(), before)

    @harness.needs_root()
    @harness.needs_program("setpriv")
    def test_another_user_s_data(self):
        self.store("private", "true")
        self.assertEqual(os.stat(self.state).st_mode & 0o777, 0o700)
        for words in READERS:
            with self.subTest(words=words):
                result = self.ask(*words, status=1, prefix=harness.unprivileged())
                self.assertIn("ermission denied", result.stderr)
                self.assertNotIn("private", result.stderr)

    def test_full_output(self):
        self.store("quick", "false", status=1)
        for words in READERS:
            for more in ([], ["--json"]):
                with self.subTest(words=words, more=more), open("/dev/full", "wb") as full:
                    result = self.run_sonde(*words, *more, stdout=full)
                    self.assertEqual(result.status, 1, result)
                    self.assertIn("No space left on device", result.stderr)


class Secrets(StoredTestCase):
    def test_redacted_everywhere(self):
        self.store("secretive", "sh", "-c", 'sleep 0.2; "$0" -c true --password=geheim',
                   "sh", "--password=geheim", "--api-token", "geheim", "SECRET=geheim",
                   options=["--interval", "20ms"])
        place = os.path.join(self.open_directory(), "token=geheim")
        os.mkdir(place)
        self.assertEqual(self.run_sonde("run", "--job=there", "--", "true", cwd=place).status, 0)
        there = self.json("report", "there")["job"]
        self.assertTrue(there["cwd"].endswith("/token=***"), there)
        self.assertEqual(there["job_type"], "true @token=***")
        for words in (["jobs"], ["events", "--limit", "1000"], ["report"],
                      ["report", "--since", "1h"]):
            for more in ([], ["--json"]):
                with self.subTest(words=words, more=more):
                    self.assertNotIn("geheim", self.text(*words, *more))
        command = self.json("report", "secretive")["job"]["command"]
        self.assertIn("--password=***", command)
        for directory, _, files in os.walk(self.state):
            for name in files:
                content = pathlib.Path(directory, name).read_bytes()
                self.assertNotIn(b"geheim", content, name)


    def test_type_is_found_as_it_was_written(self):
        """It is stored redacted. The name of a job is not, and stands for its type."""
        written = "deploy token=geheim"
        for _ in range(2):
            self.store("token=abc", "true", options=["--type", written])
        for job in self.json("jobs", "--type", written):
            self.assertEqual(job["job_type"], "deploy token=***")
        self.assertEqual(len(self.json("jobs", "--type", written)), 2)
        for name in written, "token=abc":
            with self.subTest(name=name):
                self.assertEqual(self.json("estimate", name)["sample_size"], 2)
        self.assertIn("deploy", self.text("estimate", "--calibration", written))
        self.assertEqual(self.run_sonde("analyze", "--type", written).status, 0)

    def test_output_without_a_store(self):
        """The summary, the cause, the job type and what is left running; ps and top."""
        left = 'sh -c "sleep 60; true" sh --password=geheim >/dev/null 2>&1 </dev/null &'
        result = self.run_sonde("run", "--no-store", "--summary", "-", "--", "sh", "-c",
                                f"{left} sleep 0.2; exit 3", "sh", "--token", "geheim")
        self.assertEqual(result.status, 3, result)
        summary = harness.strict_json(result.stdout.decode())
        for process in summary["left_running"]:
            os.kill(process["pid"], signal.SIGKILL)
        self.assertNotIn("geheim", str(result))
        self.assertIn("--password=***", str(summary["left_running"]))
        self.assertIn("--token ***", summary["chain"][-1]["command"])
        for words, shown in (("env", "API_TOKEN=geheim", "true"), "env API_TOKEN=*** @"), \
                (("sh", "-c", "--", "false", "--password", "geheim"), "sh false @"), \
                (("env", "--", "sh", "--password", "geheim"), "env sh @"):
            with self.subTest(words=words):
                result = self.run_sonde("run", "--no-store", "--summary", "-", "--", *words)
                self.assertNotIn("geheim", str(result.stdout))
                job_type = harness.strict_json(result.stdout.decode())["job_type"]
                self.assertTrue(job_type.startswith(shown), job_type)

    def test_output_of_own_samples(self):
        process = self.start("sh", "-c", "echo ready; read x", "sh", "--password=geheim")
        process.stdout.readline()
        for verb in (["ps", "--all"], ["ps", "--all", "--json"], ["top", "--json", "--limit", "2"]):
            with self.subTest(verb=verb):
                shown = self.text(*verb)
                self.assertNotIn("geheim", shown)
                if "--json" in verb: # a table may cut it
                    self.assertIn("--password=***", shown)


class Hostile(StoredTestCase):
    def test_arguments_of_the_command(self):
        for case, (name, words) in test_ps.HOSTILE.items():
            with self.subTest(case=case):
                self.store("hostile", "sh", "-c", "exit 5", *words, status=5)
                command = self.json("report", "hostile")["job"]["command"]
                self.assertTrue(command.startswith("sh -c exit 5"), command)
                for asked in (["jobs"], ["events"], ["report"], ["report", "--since", "1h"]):
                    text = self.text(*asked)
                    self.assertIsNone(test_ps.CONTROL.search(text), (asked, text))
                    self.json(*asked)

    def test_names(self):
        for name in ("it's", '"quoted"', "back\\slash", "ünïcödé 漢字", "a b", "%s%n", "'; DROP",
                     "-", "--", "x" * 128):
            with self.subTest(name=name):
                self.store(name, "true", options=[f"--type={name}"])
                self.assertEqual(self.json("jobs", f"--job={name}")[0]["job_id"], name)
                self.assertEqual(self.json("jobs", f"--type={name}")[0]["job_type"], name)
                report = harness.strict_json(self.text("report", "--json", "--", name))
                self.assertEqual(report["job"]["job_id"], name)
                self.json("events", f"--job={name}")


if __name__ == "__main__":
    harness.main()
