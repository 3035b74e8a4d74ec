#!/usr/bin/env python3
"""examples/conductor.py as its users run it: with a daemon, without one, and when the daemon dies."""
import json
import os
import pathlib
import signal
import subprocess
import sys

import daemon
import harness
import test_client

CONDUCTOR = pathlib.Path(__file__).resolve().parents[2] / "examples/conductor.py"


class ConductorTestCase(daemon.TestCase):
    def words(self, *words):
        return (sys.executable, str(CONDUCTOR), *words)

    def conduct(self, *words, **options):
        """Runs it to its end."""
        return self.run_program(*self.words(*words), cwd=self.directory, **options)

    def lines(self, name):
        """What the steps have written there."""
        path = self.path(name)
        return pathlib.Path(path).read_text("utf-8").split() if os.path.exists(path) else []

    def only_job(self):
        job, = self.rows("SELECT * FROM jobs")
        return job

    def sheets(self):
        return [tuple(row.values()) for row in
                self.rows("SELECT sheet_num, name, outcome FROM sheets ORDER BY sheet_num")]

    def step_events(self, run_id):
        """The starts and ends of steps among the stored events, in their order."""
        return [(row["sheet_num"], row["details"], row["exit_code"])
                for row in self.events(run_id, "spawn", "exit")
                if (row["details"] or "").startswith("Sheet ")]


class BesideDaemon(ConductorTestCase):
    def test_success(self):
        self.daemon()
        steps = [{"name": "prepare", "command": "echo 1 >>out"}, "echo 2 >>out; /bin/true; exit 0",
                 {"name": "check", "command": "test $(wc -l <out) = 2"}]
        self.write("steps.json", json.dumps(steps))
        result = self.conduct("--job", "nightly", "--file", "steps.json", "--type", "night")
        self.assertEqual((result.status, result.stdout), (0, b""), result)
        self.assertEqual(self.lines("out"), ["1", "2"])
        job = self.only_job()
        self.assertEqual((job["job_id"], job["job_type"], job["outcome"], job["exit_code"],
                          job["cause"], job["total_sheets"], job["cwd"], job["uid"]),
                         ("nightly", "night", "success", 0, None, 3, self.directory, os.geteuid()))
        self.assertEqual(self.sheets(), [(1, "prepare", "success"), (2, None, "success"),
                                         (3, "check", "success")])
        self.assertEqual(self.step_events(job["run_id"]), [
            (number, f"Sheet {number} {word}", code) for number in (1, 2, 3)
            for word, code in (("started", None), ("completed", 0))])
        self.assertIn(f"job nightly, run {job['run_id']}", result.stderr)
        self.assertIn("step 1 of 3: prepare", result.stderr)
        self.assertIn("nightly: success: wall ", result.stderr.splitlines()[-1])
        if harness.has_connector():  # itself, three shells, /bin/true and wc
            spawned = [event for event in self.events(job["run_id"], "spawn")
                       if not event["details"]]
            self.assertEqual(len(spawned), 6)
            self.assertEqual(job["exactness_processes"], "exact")

    def test_failed_step(self):
        self.daemon()
        result = self.conduct("--job", "nightly", "echo 1 >>out", "exit 3", "echo 3 >>out")
        self.assertEqual(result.status, 3, result)
        self.assertEqual(self.lines("out"), ["1"])
        job = self.only_job()
        self.assertEqual((job["outcome"], job["exit_code"], job["cause"], job["job_type"]),
                         ("failure", 3, "step 2 failed with status 3", "nightly"))
        self.assertEqual(self.sheets(), [(1, None, "success"), (2, None, "failure")])
        self.assertEqual(self.step_events(job["run_id"])[-1], (2, "Sheet 2 failed", 3))
        self.assertIn("nightly: failure (step 2 failed with status 3): wall ", result.stderr)
        report = self.report("nightly")
        self.assertEqual([(sheet["sheet_num"], sheet["outcome"]) for sheet in report["sheets"]],
                         [(1, "success"), (2, "failure")])

    def test_continue_after_a_failure(self):
        self.daemon()
        self.write("steps.txt", "# three\n[ -f no ]\n\n  kill -KILL $$\necho 3 >>out\n")
        result = self.conduct("--keep-going", "--file", "steps.txt")
        self.assertEqual(result.status, 1, result)  # that of the first failed step
        self.assertEqual(self.lines("out"), ["3"])
        job = self.only_job()
        self.assertEqual((job["job_id"], job["outcome"], job["exit_code"], job["cause"]),
                         ("conductor", "failure", 1, "step 1 failed with status 1"))
        self.assertEqual(self.sheets(), [(1, None, "failure"), (2, None, "failure"),
                                         (3, None, "success")])
        self.assertIn((2, "Sheet 2 failed", 128 + signal.SIGKILL), self.step_events(job["run_id"]))

    def test_while_it_runs(self):
        """Its progress, the processes of its step, and a second one of the same name."""
        sonde = self.daemon()
        stream = sonde.stream("job.progress", "sheet.*")
        first = self.start(*self.words("--job", "x", "read end; exit 4", "echo never >>out"),
                           cwd=self.directory, stderr=subprocess.DEVNULL)
        started = stream.await_notice("sheet.started")
        self.assertEqual((started["job_id"], started["sheet_num"]), ("x", 1))
        run_id = started["data"]["run_id"]
        # the latest snapshot may be older than the step: then it is a child of the job
        process = sonde.await_pid(started["data"]["pid"], run_id, sheet_num=1)
        self.assertEqual(process["job_id"], "x")
        progress, = sonde.top()["job_progress"]
        self.assertEqual((progress["job_id"], progress["current_sheet"], progress["total_sheets"],
                          progress["status"]), ("x", 1, 2, "running"))
        self.assertEqual(self.conduct("--job", "x", "true").status, 0)
        first.stdin.close()
        self.assertEqual(first.wait(harness.DEADLINE), 4)
        jobs = self.rows("SELECT job_id, outcome FROM jobs ORDER BY started_at")
        self.assertEqual([tuple(job.values()) for job in jobs],
                         [("x", "failure"), ("x-2", "success")])
        self.assertEqual([(notice["event"], notice["job_id"], notice["sheet_num"])
                          for notice in stream.pending()],
                         [("job.progress", "x-2", 1), ("sheet.started", "x-2", 1),
                          ("sheet.completed", "x-2", 1), ("sheet.failed", "x", 1)])

    def test_ctrl_c(self):
        sonde = self.daemon()
        stream = sonde.stream("sheet.started")
        # a suite in the background of a script ignores SIGINT, and so would the steps
        process = self.start("env", "--default-signal=INT",
                             *self.words("--job", "x", "exec sleep 100", "echo never >>out"),
                             cwd=self.directory, stderr=subprocess.DEVNULL,
                             start_new_session=True)
        name = pathlib.Path(f"/proc/{stream.await_notice('sheet.started')['data']['pid']}/comm")
        # the shell alone would handle it and wait for its next child
        harness.wait_until(lambda: name.read_text("utf-8") == "sleep\n", "the step sleeps")
        os.killpg(process.pid, signal.SIGINT)
        self.assertEqual(process.wait(harness.DEADLINE), 128 + signal.SIGINT)
        self.assertEqual(self.lines("out"), [])
        job = self.only_job()
        self.assertEqual((job["outcome"], job["exit_code"], job["cause"]),
                         ("failure", 128 + signal.SIGINT, "interrupted"))
        self.assertEqual(self.sheets(), [(1, None, "failure")])
        self.assertEqual(self.step_events(job["run_id"])[-1],
                         (1, "Sheet 1 failed", 128 + signal.SIGINT))

    def test_daemon_dies(self):
        """The steps continue; what was stored until then is kept."""
        sonde = self.daemon()
        stream = sonde.stream("sheet.started")
        errors = self.path("errors")
        with open(errors, "wb") as file:
            process = self.start(*self.words("--job", "x", "read end", "echo 2 >>out", "exit 5"),
                                 cwd=self.directory, stderr=file)
        run_id = stream.await_notice("sheet.started")["data"]["run_id"]
        self.await_rows("SELECT 1 FROM sheets WHERE run_id = ?", run_id)
        sonde.kill()
        process.stdin.write(b"\n")
        process.stdin.close()
        self.assertEqual(process.wait(harness.DEADLINE), 5)
        self.assertEqual(self.lines("out"), ["2"])
        self.assertEqual(self.read("errors").count(b"continuing without it"), 1)
        self.assertEqual(self.job(run_id)["job_id"], "x")


class WithoutDaemon(ConductorTestCase):
    def test_steps_run(self):
        result = self.conduct("echo 1 >>out", "echo 2 >>out")
        self.assertEqual(result.status, 0, result)
        self.assertEqual(self.lines("out"), ["1", "2"])
        self.assertEqual(result.stderr.count("no daemon"), 1)
        self.assertIn(os.path.join(self.state, "sonde.sock"), result.stderr)
        self.assertFalse(os.path.exists(self.state))

    def test_status(self):
        for steps, status in ((("true", "exit 7", "echo never >>out"), 7),
                              (("kill -TERM $$",), 128 + signal.SIGTERM),
                              (("no-such-program-here",), 127)):
            with self.subTest(steps=steps):
                self.assertEqual(self.conduct(*steps).status, status)
        self.assertEqual(self.lines("out"), [])

    def test_command_as_a_list(self):
        """A list is a program and its arguments, without a shell."""
        script = "import sys; open('out', 'a').write('|'.join(sys.argv[1:]) + '\\n')"
        steps = [{"name": "one", "command": ["python3", "-c", script, "a*;b", "$HOME", ""]},
                 ["python3", "-c", script, "'", ";"], "echo text >>out"]
        self.write("steps.json", json.dumps(steps))
        self.assertEqual(self.conduct("--file", "steps.json").status, 0)
        self.assertEqual(self.lines("out"), ["a*;b|$HOME|", "'|;", "text"])

    def test_wrong_usage(self):
        for words in ((), ("--file", "no-such-file", "echo never >>out")):
            with self.subTest(words=words):
                self.assertEqual(self.conduct(*words).status, 2)
        for wrong in ([{"name": "no command"}], 5, [5], [[]], [["echo", 5]], [None],
                      [{"command": {}}], [{"name": 5, "command": "true"}]):
            with self.subTest(wrong=wrong):
                self.write("wrong.json", json.dumps(wrong))
                result = self.conduct("--file", "wrong.json", "echo never >>out")
                self.assertEqual(result.status, 2)
                self.assertIn("--file wrong.json: ", result.stderr)
        self.assertEqual(self.lines("out"), [])


class OtherAnswers(ConductorTestCase):
    """A fake daemon with answers of the test."""

    def fake(self, **answers):
        yes = {"allowed": True, "delay_seconds": 0, "level": "none", "reason": None}
        table = {"pressure.should_accept_job": yes, "pressure.can_start_sheet": yes,
                 **{name.replace("__", "."): answer for name, answer in answers.items()}}
        fake = test_client.FakeDaemon(os.path.join(self.state, "sonde.sock"), table)
        self.addCleanup(fake.stop)
        return fake

    def test_waits_for_admission(self):
        answers = [{"allowed": False, "delay_seconds": 0.01, "level": "high",
                    "reason": f"no room {number}"} for number in (1, 2)]
        answers.append({"allowed": True, "delay_seconds": 0, "level": "none", "reason": None})
        fake = self.fake(pressure__should_accept_job=lambda params: answers.pop(0))
        result = self.conduct("--type", "night", "echo 1 >>out")
        self.assertEqual(result.status, 0, result)
        self.assertEqual(self.lines("out"), ["1"])
        self.assertEqual(fake.asked[:3], [("pressure.should_accept_job", {"job_type": "night"})] * 3)
        for words in ("no room 1; waiting 0.01 s", "no room 2; waiting 0.01 s"):
            self.assertIn(words, result.stderr)

    def test_rejected_calls_do_not_stop_the_steps(self):
        """The daemon rejects every method except the admission query."""
        self.fake()
        result = self.conduct("echo 1 >>out", "exit 6")
        self.assertEqual(result.status, 6, result)
        self.assertEqual(self.lines("out"), ["1"])
        self.assertIn("job.start: no such method", result.stderr)


if __name__ == "__main__":
    harness.main()
