#!/usr/bin/env python3
"""The daemon: jobs and steps that are reported, and which job a process belongs to."""
import contextlib
import json
import os
import pathlib
import resource
import signal
import sys
import time

import daemon
import harness

CONTEXT = {"rss_mb", "cpu_pct", "syscall_hotspot", "anomalies_active", "daemon_rss_mb"}
CONTEXT_OF_MACHINE = CONTEXT | {"pressure_level", "running_jobs", "active_sheets"}

JOB_NOT_FOUND, JOB_ALREADY_RUNNING, INVALID_PARAMS = -32000, -32002, -32602


class Steps(daemon.TestCase):
    """What a scheduler reports."""

    def names_of(self, notices):
        return [(notice["event"], notice["job_id"], notice["sheet_num"]) for notice in notices]

    def assert_are_open(self, kinds):
        """Anomalies of the machine come from other tests; there are none in the jobs of this
        test."""
        harness.wait_until(lambda: set(kinds) <= {row["anomaly_type"] for row in self.rows(
            "SELECT anomaly_type FROM anomalies WHERE cleared_at IS NULL OR cleared_at > ?",
            time.time() - harness.DEADLINE)}, f"{kinds} are stored")
        self.assertEqual(self.rows("SELECT * FROM anomalies WHERE run_id IS NOT NULL"), [])

    def test_a_job_of_two_steps(self):
        sonde = self.daemon()
        stream = sonde.stream("job.*", "sheet.*")
        first, second = self.puppet(), self.puppet()
        before = time.time()
        run_id = sonde.rpc("job.start", job_id="nightly", job_type="night", command="make all",
                           cwd="/tmp", total_sheets=3)["run_id"]

        begun = sonde.rpc("sheet.started", job_id="nightly", sheet_num=1, name="build",
                          pid=first.pid)["resource_context"]
        self.assertEqual(set(begun), CONTEXT)
        process = sonde.await_pid(first.pid, run_id)
        self.assertEqual((process["job_id"], process["sheet_num"]), ("nightly", 1))
        first.order("grow", 80)
        harness.wait_until(lambda: sonde.processes(pid=first.pid)[0]["rss_mb"] >= 80, "it grows")
        top = sonde.top()
        self.assertEqual((top["running_jobs"], top["active_sheets"]), (1, 1))
        progress, = top["job_progress"]
        self.assertEqual({name: progress[name] for name in
                          ("job_id", "total_sheets", "last_completed_sheet", "current_sheet")},
                         {"job_id": "nightly", "total_sheets": 3, "last_completed_sheet": None,
                          "current_sheet": 1})
        ended = sonde.rpc("sheet.completed", job_id=run_id, sheet_num=1,
                          exit_code=0)["resource_context"]
        self.assertEqual(set(ended), CONTEXT)
        self.assert_near(ended["rss_mb"], daemon.rss_mb(first.pid), ratio=0.05, slack=1.0)
        self.assertEqual(ended["rss_mb"], round(ended["rss_mb"], 1))
        self.assert_are_open(ended["anomalies_active"])
        self.assertGreater(ended["daemon_rss_mb"], 0)

        sonde.rpc("sheet.started", job_id=run_id, sheet_num=2, pid=second.pid)
        sonde.await_pid(second.pid, run_id)
        failed = sonde.rpc("sheet.failed", job_id=run_id, sheet_num=2,
                           exit_code=3)["resource_context"]
        sonde.await_snapshots(1)
        top = sonde.top()
        self.assertEqual((top["running_jobs"], top["active_sheets"]), (1, 0))
        progress, = top["job_progress"]
        self.assertEqual((progress["last_completed_sheet"], progress["current_sheet"]), (1, None))
        finished = sonde.rpc("job.finish", job_id="nightly", outcome="failure", exit_code=3,
                             cause="step 2 failed")
        self.assertEqual(finished, {"run_id": run_id, "job_id": "nightly"})

        notices = [stream.notice() for _ in range(6)]
        self.assertEqual(self.names_of(notices), [
            ("job.started", "nightly", None), ("sheet.started", "nightly", 1),
            ("sheet.completed", "nightly", 1), ("sheet.started", "nightly", 2),
            ("sheet.failed", "nightly", 2), ("job.finished", "nightly", None)])
        self.assertEqual([notices[i]["data"]["resource_context"] for i in (1, 2, 4)],
                         [begun, ended, failed])
        self.assertEqual((notices[1]["data"]["name"], notices[1]["data"]["pid"]),
                         ("build", first.pid))
        self.assertEqual(notices[4]["data"]["exit_code"], 3)
        self.assertEqual(notices[5]["data"]["outcome"], "failure")

        job = self.await_end(run_id)
        self.assertEqual({name: job[name] for name in ("job_id", "job_type", "command", "cwd",
                                                       "outcome", "exit_code", "cause",
                                                       "total_sheets", "uid")},
                         {"job_id": "nightly", "job_type": "night", "command": "make all",
                          "cwd": "/tmp", "outcome": "failure", "exit_code": 3,
                          "cause": "step 2 failed", "total_sheets": 3, "uid": os.getuid()})
        self.assertTrue(before - 0.1 <= job["started_at"] <= job["ended_at"] <= time.time() + 0.1)
        self.assertEqual(job["process_spawn_count"], 2)  # steps are not counted again
        self.assertGreaterEqual(job["peak_rss_mb"], 80)

        steps = [event for event in self.events(run_id, "spawn", "exit")
                 if (event["details"] or "").startswith("Sheet")]
        self.assertEqual([(step["event_type"], step["pid"], step["sheet_num"], step["details"],
                           step["exit_code"]) for step in steps],
                         [("spawn", first.pid, 1, "Sheet 1 started", None),
                          ("exit", first.pid, 1, "Sheet 1 completed", 0),
                          ("spawn", second.pid, 2, "Sheet 2 started", None),
                          ("exit", second.pid, 2, "Sheet 2 failed", 3)])

        text = self.run_sonde("events", "--job", run_id).stdout.decode()
        for pid, details in ((first.pid, "1 started"), (first.pid, "1 completed"),
                             (second.pid, "2 started"), (second.pid, "2 failed, status 3")):
            self.assertRegex(text, rf"(?m)  step +{pid}  nightly  {details}( |$)")
        text += self.run_sonde("report", run_id).stdout.decode()
        self.assertNotIn("Sheet", text)
        self.assertEqual(text.count("2 failed, status 3"), 2)

        report = self.report("nightly")
        sheets = report["sheets"]
        self.assertEqual([(sheet["sheet_num"], sheet["name"], sheet["outcome"])
                          for sheet in sheets], [(1, "build", "success"), (2, None, "failure")])
        self.assertGreaterEqual(sheets[0]["peak_rss_mb"], 80)
        self.assertLess(sheets[1]["peak_rss_mb"], 20)
        for sheet in sheets:
            self.assertTrue(job["started_at"] - 0.01 <= sheet["started_at"] <= sheet["ended_at"])
        stored = self.rows("SELECT * FROM sheets WHERE run_id = ? ORDER BY sheet_num", run_id)
        self.assertEqual([(row["sheet_num"], row["outcome"]) for row in stored],
                         [(1, "success"), (2, "failure")])
        self.assertAlmostEqual(stored[0]["peak_rss_mb"], sheets[0]["peak_rss_mb"], places=2)
        self.assertEqual(set(report["job"]["profile"]["sheet_metrics"]), {"1", "2"})

    def test_step_without_a_process(self):
        sonde = self.daemon()
        run_id = sonde.rpc("job.start", job_id="x")["run_id"]
        sonde.await_snapshots(1)
        for method in ("sheet.started", "sheet.completed"):
            context = sonde.rpc(method, job_id="x", sheet_num=0)["resource_context"]
            self.assertEqual(set(context), CONTEXT_OF_MACHINE)
            self.assertEqual((context["rss_mb"], context["cpu_pct"], context["syscall_hotspot"]),
                             (None, None, None))
        sonde.rpc("job.finish", job_id="x", outcome="success")
        self.await_end(run_id)
        self.assertEqual([(event["pid"], event["details"])
                          for event in self.events(run_id, "spawn", "exit")],
                         [(0, "Sheet 0 started"), (0, "Sheet 0 completed")])
        self.assertEqual(self.job(run_id)["process_spawn_count"], 0)

        for daemon_runs in (True, False):
            if not daemon_runs:
                sonde.stop()
            marks, of_processes = (
                [event.get("is_step") for event in json.loads(
                    self.run_sonde("events", "--job", run_id, "--json", *words).stdout)]
                for words in ((), ("--type", "spawn", "--type", "exit")))
            self.assertEqual((marks, of_processes), ([True, True], []), daemon_runs)

    def test_context(self):
        sonde = self.daemon("profiler:\n  scope: all\n")
        puppet = self.puppet()
        puppet.order("grow", 50)
        puppet.order("busy")
        sonde.await_snapshots(2)  # growing uses CPU too: not a snapshot from before it ended
        def context_of_busy():
            context = sonde.rpc("resource.context", pid=puppet.pid)
            return context if (context["cpu_pct"] or 0) > 5 else None
        context = harness.wait_until(context_of_busy, "it is busy")
        self.assertEqual(set(context), CONTEXT)
        self.assert_near(context["rss_mb"], daemon.rss_mb(puppet.pid), ratio=0.05, slack=1.0)
        unknown = sonde.rpc("resource.context", pid=4194303)
        self.assertEqual(set(unknown), CONTEXT)
        self.assertEqual([unknown[name] for name in ("rss_mb", "cpu_pct", "syscall_hotspot")],
                         [None] * 3)
        machine = sonde.rpc("resource.context")
        self.assertEqual(set(machine), CONTEXT_OF_MACHINE)
        self.assertEqual((machine["running_jobs"], machine["active_sheets"]), (0, 0))
        self.assertIn(machine["pressure_level"], ("none", "low", "medium", "high", "critical"))
        self.assert_are_open(machine["anomalies_active"])

    def test_rejected_calls(self):
        sonde = self.daemon()
        for method, more in (("job.progress", {}), ("job.finish", {"outcome": "success"}),
                             ("sheet.started", {"sheet_num": 1}),
                             ("sheet.completed", {"sheet_num": 1}),
                             ("sheet.failed", {"sheet_num": 1})):
            self.assertEqual(sonde.error(method, job_id="missing", **more), JOB_NOT_FOUND, method)
        run_id = sonde.rpc("job.start", job_id="x")["run_id"]
        self.assertEqual(sonde.error("job.start", job_id="x"), JOB_ALREADY_RUNNING)
        self.assertEqual(sonde.rpc("job.start", job_id="x", unique=True)["job_id"], "x-2")
        self.assertEqual(sonde.error("sheet.completed", job_id="x", sheet_num=1), INVALID_PARAMS)
        sonde.rpc("sheet.started", job_id="x", sheet_num=1)
        self.assertEqual(sonde.error("sheet.completed", job_id="x", sheet_num=2), INVALID_PARAMS)
        self.assertEqual(sonde.error("sheet.started", job_id="x", sheet_num=-1), INVALID_PARAMS)
        self.assertEqual(sonde.error("sheet.started", job_id="x", sheet_num=2, pid=4194303),
                         INVALID_PARAMS)
        self.assertEqual(sonde.error("job.start", job_id="y", total_sheets=0), INVALID_PARAMS)
        sonde.rpc("job.finish", job_id="x", outcome="success")
        self.assertEqual(sonde.error("job.finish", job_id=run_id, outcome="success"), JOB_NOT_FOUND)
        sonde.rpc("job.finish", job_id="x-2", outcome="success")
        # the rejected calls have no effect
        self.await_rows("SELECT 1 FROM jobs WHERE job_id = 'x-2' AND outcome = 'success'")
        self.assertEqual(sorted(job["job_id"] for job in self.rows("SELECT job_id FROM jobs")),
                         ["x", "x-2"])
        self.assertEqual(len(self.rows("SELECT 1 FROM sheets")), 1)

    def test_progress(self):
        sonde = self.daemon()
        stream = sonde.stream("job.progress")
        run_id = sonde.rpc("job.start", job_id="x", total_sheets=10)["run_id"]
        sonde.rpc("job.progress", job_id="x", current_sheet=4, last_completed_sheet=3,
                  total_sheets=12, status="linking")
        wanted = {"job_id": "x", "run_id": run_id, "total_sheets": 12, "last_completed_sheet": 3,
                  "current_sheet": 4, "status": "linking"}
        notice = stream.notice()
        self.assertEqual((notice["event"], notice["job_id"], notice["data"]),
                         ("job.progress", "x", wanted))
        sonde.await_snapshots(1)
        self.assertEqual(sonde.top()["job_progress"], [wanted])

    def test_concurrent_and_unfinished_steps(self):
        """Steps whose end is not reported end with their job."""
        sonde = self.daemon()
        run_id = sonde.rpc("job.start", job_id="x")["run_id"]
        puppets = {number: self.puppet() for number in (3, 5)}
        for number, puppet in puppets.items():
            sonde.rpc("sheet.started", job_id="x", sheet_num=number, pid=puppet.pid)
        for number, puppet in puppets.items():
            self.assertEqual(sonde.await_pid(puppet.pid, run_id)["sheet_num"], number)
        self.assertEqual(sonde.top()["active_sheets"], 2)
        child = puppets[5].fork("child")
        self.assertEqual(sonde.await_pid(child, run_id)["sheet_num"], 5)
        sonde.rpc("job.finish", job_id="x", outcome="unknown", cause="given up")
        self.await_end(run_id)
        self.assertEqual([(row["sheet_num"], row["outcome"]) for row in
                          self.rows("SELECT * FROM sheets ORDER BY sheet_num")],
                         [(3, "unknown"), (5, "unknown")])
        sonde.await_snapshots(1)
        self.assertEqual(sonde.top()["active_sheets"], 0)
        self.assertEqual(sonde.pids(run_id), set())

    def test_one_process_for_two_steps(self):
        """The process moves from one step to the next; each step gets what was used in it."""
        sonde = self.daemon(interval=0.1)
        puppet = self.puppet()
        run_id = sonde.rpc("job.start", job_id="x", pid=puppet.pid)["run_id"]
        self.assertIsNone(sonde.await_pid(puppet.pid, run_id)["sheet_num"])
        used = {}
        for number, seconds in ((1, 0.3), (2, 0.9)):
            before = puppet.order("cpu")
            sonde.rpc("sheet.started", job_id="x", sheet_num=number, pid=puppet.pid)
            harness.wait_until(lambda n=number: sonde.processes(pid=puppet.pid, sheet_num=n),
                               "it is in the step")
            puppet.order("busy")
            harness.wait_until(lambda s=seconds: puppet.order("cpu") - before >= s, "it is busy")
            puppet.order("idle")
            sonde.await_snapshots(2)
            sonde.rpc("sheet.completed", job_id="x", sheet_num=number)
            used[number] = puppet.order("cpu") - before
        sonde.rpc("job.finish", job_id="x", outcome="success")
        job = self.await_end(run_id)
        self.assertEqual(job["process_spawn_count"], 1)
        self.assert_near(job["total_cpu_seconds"], puppet.order("cpu"), ratio=0.05, slack=0.03)
        for row in self.rows("SELECT * FROM sheets WHERE run_id = ?", run_id):
            self.assert_near(row["cpu_seconds"], used[row["sheet_num"]], ratio=0.10, slack=0.05,
                             what=f"CPU of step {row['sheet_num']}")
        self.assertEqual(len(used), len(self.rows("SELECT 1 FROM sheets")))

    def test_many_steps(self):
        """As fast as a scheduler can report them."""
        sonde = self.daemon()
        run_id = sonde.rpc("job.start", job_id="x", total_sheets=300)["run_id"]
        for number in range(300):
            sonde.rpc("sheet.started", job_id=run_id, sheet_num=number)
            sonde.rpc("sheet.completed" if number % 3 else "sheet.failed", job_id=run_id,
                      sheet_num=number)
        sonde.rpc("job.finish", job_id=run_id, outcome="success")
        self.await_end(run_id)
        sheets = self.rows("SELECT * FROM sheets WHERE run_id = ? ORDER BY sheet_num", run_id)
        self.assertEqual([(sheet["sheet_num"], sheet["outcome"]) for sheet in sheets],
                         [(number, "success" if number % 3 else "failure")
                          for number in range(300)])
        self.assertEqual(len(self.events(run_id, "spawn", "exit")), 600)
        self.assertEqual(self.job(run_id)["process_spawn_count"], 0)

    def test_figures_of_the_parent_win(self):
        sonde = self.daemon()
        puppet = self.puppet()
        run_id = sonde.rpc("job.start", job_id="x", pid=puppet.pid)["run_id"]
        sonde.await_pid(puppet.pid, run_id)
        sonde.rpc("job.finish", job_id="x", outcome="success", exit_code=0, user_seconds=12.5,
                  system_seconds=0.25, peak_rss_mb=777.5, processes=42)
        job = self.await_end(run_id)
        self.assertEqual((job["user_seconds"], job["system_seconds"], job["total_cpu_seconds"],
                          job["peak_rss_mb"], job["process_spawn_count"]),
                         (12.5, 0.25, 12.75, 777.5, 42))

    def test_same_name_later(self):
        sonde = self.daemon()
        runs = []
        for outcome in ("failure", "success"):
            runs.append(sonde.rpc("job.start", job_id="again")["run_id"])
            sonde.rpc("job.finish", job_id="again", outcome=outcome)
            self.await_end(runs[-1])
        self.assertEqual(self.report("again")["job"]["run_id"], runs[1])
        self.assertEqual(self.report("again~1")["job"]["run_id"], runs[0])
        self.assertEqual([job["run_id"] for job in sonde.rpc("job.list", job="again")], runs[::-1])


class StepProcesses(daemon.TestCase):
    def events(self, run_id):
        return self.rows("SELECT pid, event_type, details FROM process_events WHERE details LIKE"
                         " 'Sheet %' ORDER BY id")

    def test_active_step_is_reported_again(self):
        """A second report of an active step adds to it and does not start it again."""
        sonde = self.daemon()
        stream = sonde.stream("sheet.*")
        puppet = self.puppet()
        run_id = sonde.rpc("job.start", job_id="again")["run_id"]
        sonde.rpc("sheet.started", job_id=run_id, sheet_num=1)
        began, = self.await_rows("SELECT started_at FROM sheets")
        context = sonde.rpc("sheet.started", job_id=run_id, sheet_num=1, name="late",
                            pid=puppet.pid)["resource_context"]
        self.assertNotIn("running_jobs", context)
        sonde.rpc("sheet.started", job_id=run_id, sheet_num=1)
        sonde.await_pid(puppet.pid, run_id)
        self.assertEqual(sonde.processes(pid=puppet.pid)[0]["sheet_num"], 1)
        sonde.rpc("sheet.completed", job_id=run_id, sheet_num=1)
        self.assertEqual([notice["event"] for notice in stream.pending()],
                         ["sheet.started", "sheet.completed"])
        sonde.rpc("job.finish", job_id=run_id, outcome="success")
        sonde.stop()
        self.assertEqual(self.rows("SELECT name, started_at FROM sheets"),
                         [{"name": "late", "started_at": began["started_at"]}])
        self.assertEqual([(event["event_type"], event["pid"]) for event in self.events(run_id)],
                         [("spawn", 0), ("exit", puppet.pid)])

    def test_process_whose_end_counts(self):
        """The first process of a step, unless another is named; the event reports the same."""
        sonde = self.daemon()
        stream = sonde.stream("sheet.*")
        first, other = self.puppet(), self.puppet()
        run_id = sonde.rpc("job.start", job_id="ends")["run_id"]
        for number, (method, params) in enumerate((("sheet.completed", {}),
                                                   ("sheet.failed", {"pid": other.pid}))):
            sonde.rpc("sheet.started", job_id=run_id, sheet_num=number, pid=first.pid)
            sonde.rpc(method, job_id=run_id, sheet_num=number, **params)
        pids = [first.pid, first.pid, first.pid, other.pid]
        self.assertEqual([notice["data"]["pid"] for notice in stream.pending()], pids)
        sonde.rpc("job.finish", job_id=run_id, outcome="success")
        sonde.stop()
        self.assertEqual([event["pid"] for event in self.events(run_id)], pids)


class Secrets(daemon.TestCase):
    # So that nearly every process has an anomaly, which contains its command line.
    SUSPICIOUS = ("profiler:\n  scope: all\n  anomaly:\n    fd_exhaustion_threshold: 1\n"
                  "    fd_exhaustion_ratio: 0.0001\n")

    def test_live_data_is_redacted(self):
        sonde = self.daemon(self.SUSPICIOUS)
        stream = sonde.stream()
        words = ("sh", "-c", "echo ready; read x; exit 3", "sh", "--password=geheim",
                 "https://ada:geheim@host")
        process = self.start(*words)
        process.stdout.readline()
        run_id = sonde.rpc("job.start", job_id="secretive", pid=process.pid,
                           command=" ".join(words))["run_id"]
        sonde.await_pid(process.pid, run_id)
        found = [stream.await_notice("job.started"), stream.await_notice("process.spawn"),
                 stream.await_notice("monitor.anomaly", lambda notice: notice["job_id"])]
        shown, = sonde.processes(pid=process.pid)
        sonde.rpc("job.finish", job_id=run_id, outcome="failure", cause="--token geheim")
        found.append(stream.await_notice("job.finished"))
        for notice in (*found, shown):
            self.assertIn("***", str(notice))
        for shown in (found, stream.pending(), sonde.top(), sonde.rpc("daemon.events", limit=200),
                      sonde.rpc("report.job", job=run_id)):
            self.assertNotIn("geheim", str(shown))


    def test_reload_redacts_anew(self):
        """Other words hold for living processes, from the command line as it is, and for runs."""
        sonde = self.daemon()
        words = ("sh", "-c", "echo ready; read x; exit 3", "sh", "--password=offen",
                 "--hush=leise")
        process = self.start(*words)
        process.stdout.readline()
        run_id = sonde.rpc("job.start", job_id="talkative", pid=process.pid,
                           command=" ".join(words))["run_id"]
        shown = sonde.await_pid(process.pid, run_id)["command"]
        self.assertIn("--password=*** --hush=leise", shown)
        sonde.configure("profiler:\n  redact: [hush]\n")
        sonde.rpc("daemon.reload")
        stream = sonde.stream()

        def command():
            shown, = sonde.processes(pid=process.pid)
            return shown["command"]
        harness.wait_until(lambda: command().endswith("--password=offen --hush=***"), command)
        process.stdin.write(b"\n")
        process.stdin.flush()
        self.assertEqual(process.wait(), 3)
        if harness.has_connector():
            self.assertNotIn("leise", str(stream.await_notice("process.exit")))
        sonde.rpc("job.finish", job_id="talkative", outcome="failure", exit_code=3)
        self.assertNotIn("leise", str(stream.await_notice("job.finished")))
        job = sonde.rpc("report.job", job=run_id)["job"]
        self.assertTrue(job["command"].endswith("--hush=***"), job)
        self.assertNotIn("leise", str(job["chain"]))


# Registers a child of its own that has ended.
BRIEF_CHILD = """
import json, os, socket, sys
sys.stdin.readline()
child = os.fork()
if not child:
    os._exit(4)
os.waitpid(child, 0)
daemon = socket.socket(socket.AF_UNIX)
daemon.connect(sys.argv[1])
daemon.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "job.start",
                           "params": {"job_id": "inner", "pid": child}}).encode() + b"\\n")
print(daemon.makefile().readline(), flush=True)
sys.stdin.readline()
"""


class Attribution(daemon.TestCase):
    def test_descendants_belong_to_the_job(self):
        """Children, orphans, and daemons that fork twice and leave their session."""
        sonde = self.daemon()
        puppet = self.puppet()
        run_id = sonde.rpc("job.start", job_id="x", pid=puppet.pid)["run_id"]
        family = {puppet.pid} | {puppet.fork(word) for word in ("child", "orphan", "daemon")}
        for pid in family:
            sonde.await_pid(pid, run_id)
        # once the processes in between are gone
        harness.wait_until(lambda: sonde.pids(run_id) == family,
                           lambda: f"{sonde.pids(run_id)} are {family}")
        puppet.process.stdin.close()
        puppet.process.wait()
        self.reap_orphans()
        harness.wait_until(lambda: not sonde.pids(run_id), "all have ended")
        sonde.rpc("job.finish", job_id="x", outcome="success")
        job = self.await_end(run_id)
        # with the two processes in between
        if harness.has_connector():
            self.assertEqual((job["process_spawn_count"], job["exactness_processes"]),
                             (6, "exact"))
        else:
            self.assertGreaterEqual(job["process_spawn_count"], 4)

    @harness.needs_connector()
    def test_short_lived_children(self):
        """Two hundred children that no snapshot sees."""
        sonde = self.daemon(interval=0.5)
        shell = self.start("sh", "-c", "read go; i=0; while [ $i -lt 200 ]; do /bin/true; "
                           "i=$((i+1)); done; echo done; read end")
        run_id = sonde.rpc("job.start", job_id="x", pid=shell.pid)["run_id"]
        shell.stdin.write(b"go\n")
        shell.stdin.flush()
        self.assertEqual(shell.stdout.readline(), b"done\n")
        sonde.await_snapshots(1)  # the shell's own children are in its figures
        used = sum(map(float, pathlib.Path(f"/proc/{shell.pid}/stat").read_text()
                       .rsplit(")", 1)[1].split()[11:15])) / os.sysconf("SC_CLK_TCK")
        sonde.await_snapshots(1)
        usage, = (job for job in sonde.top()["jobs"] if job["job_id"] == "x")
        self.assert_near(usage["cpu_seconds"], used, ratio=0.10, slack=0.05)
        shell.stdin.close()
        shell.wait()
        sonde.rpc("job.finish", job_id="x", outcome="success")
        job = self.await_end(run_id)
        self.assertEqual((job["process_spawn_count"], job["exactness_processes"]), (201, "exact"))
        self.assert_near(job["total_cpu_seconds"], used, ratio=0.10, slack=0.05)
        self.assertEqual(len(self.events(run_id, "spawn")), 201)
        self.assertEqual(len(self.events(run_id, "exit", "kill")), 201)

    @harness.needs_connector()
    def test_exact_cpu(self):
        """Once all has ended and is summed up, as exact as the status claims."""
        sonde = self.daemon(interval=0.2)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        shell = self.start("sh", "-c", "read go; i=0; while [ $i -lt 50 ]; do /bin/true; "
                           "i=$((i+1)); done")
        run_id = sonde.rpc("job.start", job_id="x", pid=shell.pid)["run_id"]
        shell.stdin.close()
        shell.wait()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        sonde.await_snapshots(2)
        sonde.rpc("job.finish", job_id="x", outcome="success")
        job = self.await_end(run_id)
        is_exact = "CPU time of runs" in str(sonde.rpc("daemon.status")["exact"])
        self.assertEqual(job["exactness_cpu_seconds"], "exact" if is_exact else "lower_bound")
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if is_exact:
            self.assertAlmostEqual(job["total_cpu_seconds"], used, delta=0.005)

    def test_a_process_can_move(self):
        """It moves to the job that reported it last, with its later children."""
        sonde = self.daemon()
        puppet = self.puppet()
        first = sonde.rpc("job.start", job_id="first", pid=puppet.pid)["run_id"]
        child = puppet.fork("child")
        for pid in (puppet.pid, child):
            sonde.await_pid(pid, first)
        second = sonde.rpc("job.start", job_id="second")["run_id"]
        sonde.rpc("sheet.started", job_id="second", sheet_num=1, pid=puppet.pid)
        for pid in (puppet.pid, child):
            self.assertEqual(sonde.await_pid(pid, second)["sheet_num"], 1)
        self.assertEqual(sonde.pids(first), set())
        later = puppet.fork("daemon")
        sonde.await_pid(later, second)

    def test_nested_runs(self):
        """The innermost run owns a process; the outer one counts it too."""
        sonde = self.daemon()
        burn = " ".join(self.victim("burn", 300))
        inner = f"{harness.SONDE} run -q --summary {self.path('inner')} --job inner -- "
        # The inner run starts once the daemon knows the outer one, to which it is to belong.
        gate = self.path("gate")
        process = self.start_sonde("--job", "outer", "--", "sh", "-c",
                                   f"{burn} >/dev/null; while [ ! -e {gate} ]; do sleep 0.01; done;"
                                   f" {inner} {self.puppet_words()[0]}; exit $?")
        harness.wait_until(lambda: sonde.processes(job_id="outer"), "the daemon knows it")
        pathlib.Path(gate).touch()
        outer = daemon.Puppet(self, process)
        run = {name: self.await_rows("SELECT run_id FROM jobs WHERE job_id = ?", name)[0]["run_id"]
               for name in ("outer", "inner")}
        sonde.await_pid(outer.pid, run["inner"])
        shells = sonde.processes(run_id=run["outer"])
        self.assertEqual({process["job_id"] for process in shells}, {"outer"})
        self.assertIn("sonde", " ".join(process["command"] for process in shells))
        self.assertEqual(sonde.pids(run["inner"]), {outer.pid})
        usage = {job["job_id"]: job for job in sonde.top()["jobs"]}
        self.assertGreaterEqual(usage["outer"]["processes"], usage["inner"]["processes"] + 1)
        outer.order("busy")
        harness.wait_until(lambda: outer.order("cpu") > 0.3, "it has used CPU time")
        outer.order("idle")
        burned = outer.order("cpu")
        outer.exit(0)
        result = self.finish(outer.process)
        self.assertEqual(result.status, 0, result)
        jobs = {name: self.await_end(run_id) for name, run_id in run.items()}
        self.assertEqual(len(self.rows("SELECT 1 FROM jobs")), 2)
        self.assertEqual(jobs["inner"]["parent_run_id"], run["outer"])
        self.assertIsNone(jobs["outer"]["parent_run_id"])
        self.assert_near(jobs["inner"]["total_cpu_seconds"], burned, ratio=0.05, slack=0.02)
        self.assertGreaterEqual(jobs["outer"]["total_cpu_seconds"],
                                jobs["inner"]["total_cpu_seconds"] + 0.3)
        self.assertEqual(jobs["inner"]["process_spawn_count"], 1)
        self.assertGreaterEqual(jobs["outer"]["process_spawn_count"], 4)
        self.assertEqual([within["run_id"] for within in self.report("outer")["runs_within"]],
                         [run["inner"]])

    def test_nested_run_of_a_scheduler(self):
        """The numbers of its processes include all of the inner run."""
        # LeakSanitizer starts a process at the end of the inner sonde
        self.environment = harness.without_leak_check(self.environment)
        sonde = self.daemon()
        gate = self.path("gate")
        shell = self.start("sh", "-c", 'read x; "$@"; read x', "sh", harness.SONDE, "run", "-q",
                           "--job", "inner", "--", "sh", "-c",
                           'sleep 1000 & a=$!; sleep 1000 & b=$!; '
                           'while [ ! -e "$0" ]; do sleep 0.01; echo >>"$0.naps"; done; '
                           'kill $a $b; wait; exit 3', gate)
        outer = sonde.rpc("job.start", job_id="outer", pid=shell.pid)["run_id"]
        sonde.await_pid(shell.pid, outer)
        shell.stdin.write(b"\n")
        shell.stdin.flush()
        harness.wait_until(lambda: sum(process["command"] == "sleep 1000"
                                       for process in sonde.processes(job_id="inner")) == 2,
                           "the inner run is sampled")
        pathlib.Path(gate).touch()
        self.await_rows("SELECT 1 FROM jobs WHERE job_id = 'inner' AND outcome = 'failure'")
        if harness.has_connector():
            self.await_rows("SELECT 1 FROM process_events WHERE job_id = 'outer' AND exit_code = 3")
        sonde.rpc("job.finish", job_id="outer", outcome="success")
        job = self.await_end(outer)
        # the shell, sonde, and the inner run's shell, two sleeping processes and its naps
        self.assertGreaterEqual(job["peak_processes"], 5)
        naps = len(pathlib.Path(gate + ".naps").read_text(encoding="ascii"))
        if harness.has_connector():
            self.assertEqual((job["processes"], job["exactness_processes"]), (5 + naps, "exact"))
            # the inner run's shell and sonde; the sleeping processes
            self.assertEqual((job["failed_exit_count"], job["kill_count"]), (2, 2))
        else:
            self.assertEqual(job["exactness_processes"], "lower_bound")
            self.assertGreaterEqual(job["processes"], job["peak_processes"])

    def test_failures_in_a_nested_run(self):
        """They count for both runs."""
        sonde = self.daemon()
        gates = {name: self.path(f"gate-{name}") for name in ("outer", "inner")}
        wait = "while [ ! -e {} ]; do sleep 0.01; done; "
        process = self.start_sonde(
            "--job", "outer", "--", "sh", "-c", wait.format(gates["outer"]) + '"$@"; exit 0', "sh",
            harness.SONDE, "run", "-q", "--job", "inner", "--",
            "sh", "-c", wait.format(gates["inner"]) + "sh -c 'exit 2'; exit 3")
        for name, gate in gates.items():
            harness.wait_until(lambda name=name: sonde.processes(job_id=name), "it is known")
            pathlib.Path(gate).touch()
        result = self.finish(process)
        run_ids = [self.await_rows("SELECT run_id FROM jobs WHERE job_id = ?", name)[0]["run_id"]
                   for name in gates]
        outer, inner = [self.await_end(run_id) for run_id in run_ids]
        if not harness.has_connector():
            self.skipTest("without the process connector, exits of grandchildren are not reported")
        self.assertEqual(outer["exactness_processes"], "exact")
        self.assertEqual(inner["failed_exit_count"], 2)
        self.assertEqual(outer["failed_exit_count"], 3)  # and the inner sonde
        self.assertEqual(result.summary["failed_exit_count"], 3)

    def test_nested_run_that_ends_before_it_is_registered(self):
        """It is registered all the same, and its process counts once."""
        sonde = self.daemon()
        if not harness.has_connector():
            self.skipTest("without the process connector, its fork is not reported")
        scheduler = self.start(sys.executable, "-c", BRIEF_CHILD, sonde.socket)
        outer = sonde.rpc("job.start", job_id="outer", pid=scheduler.pid)["run_id"]
        sonde.await_pid(scheduler.pid, outer)
        scheduler.stdin.write(b"\n")
        scheduler.stdin.flush()
        answer = json.loads(scheduler.stdout.readline())
        self.assertEqual(answer["result"]["job_id"], "inner")
        for job_id in ("inner", "outer"):
            sonde.rpc("job.finish", job_id=job_id, outcome="success")
        job = self.await_end(outer)
        self.assertEqual((job["processes"], job["failed_exit_count"], job["exactness_processes"]),
                         (2, 1, "exact"))
        self.assertEqual(self.await_end(answer["result"]["run_id"])["parent_run_id"], outer)

    def check_nested_run_that_is_known_first(self, config=""):
        """The outer one registers later, because it does not find the daemon at first."""
        sonde = self.daemon(config)
        later = self.path("later.sock")
        inner = f"unset SONDE_SOCKET; {harness.SONDE} run -q --job inner --"
        process = self.start_sonde("--job", "outer", "--", "sh", "-c",
                                   f"{inner} {' '.join(self.puppet_words())}; exit $?",
                                   env=dict(self.environment, SONDE_SOCKET=later))
        puppet = daemon.Puppet(self, process)
        ids = {name: self.await_rows("SELECT run_id FROM jobs WHERE job_id = ?", name)[0]["run_id"]
               for name in ("outer", "inner")}
        outer_id, inner_id = ids["outer"], ids["inner"]
        sonde.await_pid(puppet.pid, inner_id)
        os.symlink(sonde.socket, later)
        harness.wait_until(lambda: sonde.pids(outer_id), "the daemon knows the outer one")
        self.await_rows("SELECT 1 FROM jobs WHERE job_id = 'inner' AND parent_run_id = ?", outer_id)
        self.assertEqual(sonde.pids(inner_id), {puppet.pid})
        usage = {job["job_id"]: job["processes"] for job in sonde.fresh()["jobs"]}
        self.assertEqual(usage, {"inner": 1, "outer": 3})  # the shell, sonde, and the inner one
        puppet.exit(0)
        self.assertEqual(self.finish(process).status, 0)
        self.assertEqual(self.await_end(inner_id)["parent_run_id"], outer_id)
        self.assertIsNone(self.await_end(outer_id)["parent_run_id"])

    def test_nested_run_that_is_known_first(self):
        self.check_nested_run_that_is_known_first()

    def test_nested_run_that_is_known_first_without_the_kernel_collector(self):
        self.check_nested_run_that_is_known_first("profiler:\n  collector: procfs\n")

    def test_caller_disconnects_before_the_answer(self):
        """The caller stores the run itself: the daemon must not overwrite its outcome."""
        sonde = self.daemon()
        victim = self.puppet()
        for number, more in enumerate(({"again": True}, {"offers_events": True})):
            with self.subTest(more=more):
                left, later = (f"0197c2f4-7d1a-7000-8000-0000000000{number}{end}" for end in "ab")
                params = dict(job_id="left", run_id=left, pid=victim.pid, stores_in=self.database,
                              **more)
                with sonde.paused(), daemon.Rpc(sonde.socket) as link:
                    link.send({"jsonrpc": "2.0", "id": 1, "method": "job.start", "params": params})
                # The daemon answers requests with a run_id in their order.
                sonde.rpc("job.start", job_id=f"later-{number}", run_id=later)
                known = {job["run_id"] for job in sonde.fresh()["jobs"]}
                self.assertIn(later, known)
                self.assertNotIn(left, known)

    def test_own_processes_belong_to_no_job(self):
        sonde = self.daemon("profiler:\n  scope: all\n")
        puppet = self.run_puppet("--job", "x")
        run_id, = (row["run_id"] for row in self.await_rows("SELECT run_id FROM jobs"))
        sonde.await_pid(puppet.pid, run_id)
        for pid in (sonde.pid, puppet.process.pid):
            process, = sonde.processes(pid=pid)
            self.assertEqual((process["job_id"], process["run_id"]), (None, None))
        puppet.exit()
        self.assertEqual(self.finish(puppet.process).status, 0)


@harness.needs_namespaces()
@harness.needs_program("nsenter")
class WithoutConnector(daemon.TestCase):
    """Without kernel events, as in a container: the daemon finds forks and exits in /proc, and
    orphans by their new parent."""

    def setUp(self):
        super().setUp()
        # in a new pid namespace the kernel rejects the connector
        self.sonde = self.daemon(interval=0.1, prefix=("unshare", "--fork", "--pid", "--mount-proc",
                                                       "sh", "-c", '"$0" "$@" & wait'))
        inside = harness.children_of(self.sonde.process.pid)[-1]
        self.enter = ("nsenter", f"--pid=/proc/{inside}/ns/pid", f"--mount=/proc/{inside}/ns/mnt")

    def open_gate(self, gate, job_id):
        harness.wait_until(lambda: self.sonde.processes(job_id=job_id), "the daemon knows it")
        pathlib.Path(gate).touch()

    def start_inside(self, *words, meanwhile=lambda: None):
        """`sonde run` with a puppet, beside the daemon; pids are those inside the namespace.
        `meanwhile` is called before the test waits for the puppet."""
        path = self.path("summary-inside")
        with open(self.path("errors-inside"), "wb") as errors:
            process = self.start(*self.enter, harness.SONDE, "run", "--summary", path, *words, "--",
                                 *self.puppet_words(), stderr=errors)
        process.summary_path, process.errors_path = path, self.path("errors-inside")
        meanwhile()
        return daemon.Puppet(self, process)

    def test_family(self):
        puppet = self.start_inside("--job", "x")
        run_id = self.await_rows("SELECT run_id FROM jobs")[0]["run_id"]
        for word in ("child", "orphan", "daemon"):
            self.sonde.await_pid(puppet.fork(word), run_id)
        self.assertEqual(len(self.sonde.pids(run_id)), 4)
        puppet.order("busy")
        self.sonde.await_snapshots(5)
        puppet.order("idle")
        burned = puppet.order("cpu")
        puppet.process.stdin.write(b"exit 3\n")
        puppet.process.stdin.flush()
        puppet.process.wait(harness.DEADLINE)
        result = self.finish(puppet.process)
        self.assertEqual(result.status, 3, result)
        self.assert_near(result.summary["cpu_seconds"], burned)
        job = self.await_end(run_id)
        self.assertEqual((job["outcome"], job["exit_code"]), ("failure", 3))
        self.assertAlmostEqual(job["total_cpu_seconds"], result.summary["cpu_seconds"], places=3)
        self.assertEqual(job["exactness_processes"], "lower_bound")
        self.assertGreaterEqual(job["process_spawn_count"], 4)

    def test_nested_runs(self):
        # The outer run starts its command first: the inner one waits until the daemon knows both.
        gate = self.path("gate")
        puppet = self.start_inside("--job", "outer", "--", "sh", "-c",
                                   'while [ ! -e "$0" ]; do sleep 0.01; done; exec "$@"', gate,
                                   harness.SONDE, "run", "-q", "--job", "inner",
                                   meanwhile=lambda: self.open_gate(gate, "outer"))
        run = {name: self.await_rows("SELECT run_id FROM jobs WHERE job_id = ?", name)[0]["run_id"]
               for name in ("outer", "inner")}
        self.sonde.await_pid(puppet.pid, run["inner"])
        self.assertEqual(self.job(run["inner"])["parent_run_id"], run["outer"])

    def test_pids_of_another_namespace(self):
        """Pid 1 of the caller is another process than pid 1 of the daemon."""
        self.assertEqual(self.sonde.error("job.start", job_id="x", pid=1), INVALID_PARAMS)
        self.assertEqual(self.sonde.rpc("job.start", job_id="x")["job_id"], "x")


def cgroup_place():
    """A directory of the unified hierarchy in which this process may create cgroups, or None."""
    lines = pathlib.Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    for path in (line.removeprefix("0::") for line in lines if line.startswith("0::")):
        for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
            procs = os.path.join(root + path, "cgroup.procs")
            if os.path.exists(f"{root}/cgroup.controllers") and os.access(procs, os.W_OK):
                return root + path
    return None


class Rules(daemon.TestCase):
    """Jobs that rules create."""

    RULES = """
jobs:
  linger_seconds: LINGER
  rules:
    - job_id: "batch-{BATCH_MARK}"
      env: [BATCH_MARK]
    - job_id: "pod-{1}"
      cgroup: "MARK-(pod)"
    - job_id: "by-{1}"
      command: "^[^ ]*sh -c : MARK-marked-([a-z]+)"
    - job_id: space
      workspace: WORKSPACE
"""

    def rules(self, linger=30):
        os.makedirs(self.path("space"), exist_ok=True)
        return self.RULES.replace("LINGER", str(linger)).replace("MARK", self.mark).replace(
            "WORKSPACE", self.path("space"))

    def in_batch(self, number):
        return dict(self.environment, **{f"BATCH_{self.mark}": number})

    def remove_cgroup(self, group):
        """Processes that are still in it belong to the test."""
        def is_removed():
            for pid in pathlib.Path(group, "cgroup.procs").read_text(encoding="ascii").split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            try:
                os.rmdir(group)
            except OSError:
                return False
            return True
        harness.wait_until(is_removed, "the cgroup is removed")

    def await_run(self, job_id):
        row, = self.await_rows("SELECT * FROM jobs WHERE job_id = ?", job_id)
        self.assertEqual(row["outcome"], "running")
        return row

    def test_each_matcher(self):
        """A job lasts from its first process to its last, with the outcome of the first. It stays
        open for jobs.linger_seconds."""
        sonde = self.daemon(self.rules(linger=600))
        stream = sonde.stream("job.*")
        in_space = self.puppet(cwd=self.path("space"))
        by_env = self.puppet(env=self.in_batch("77"))
        marked = self.start("sh", "-c", f": {self.mark}-marked-red; read line; exit 4")
        names = {"space": in_space.pid, "batch-77": by_env.pid, "by-red": marked.pid}
        place = cgroup_place()
        if place:
            group = os.path.join(place, f"{self.mark}-pod")
            os.mkdir(group)
            self.addCleanup(self.remove_cgroup, group)
            in_group = self.puppet("sh", "-c",
                                   f'echo 0 >{group}/cgroup.procs && exec "$0" "$@"')
            names["pod-pod"] = in_group.pid
        runs = {}
        for name, pid in names.items():
            job = self.await_run(name)
            runs[name] = job["run_id"]
            self.assertEqual(sonde.await_pid(pid, job["run_id"])["job_id"], name)
        self.assertEqual(self.job(runs["space"])["cwd"], self.path("space"))
        # Its first process names the command, even if the rule reads only its environment.
        job = self.job(runs["batch-77"])
        self.assertEqual(job["cwd"], os.readlink(f"/proc/{by_env.pid}/cwd"))
        self.assertIn("puppet", job["command"])
        self.assertIn("puppet", job["job_type"])
        self.assertIn("marked-red", self.job(runs["by-red"])["command"])
        child = in_space.fork("daemon")
        sonde.await_pid(child, runs["space"])

        in_space.exit(0)
        os.kill(by_env.pid, signal.SIGTERM)
        by_env.process.wait()
        marked.stdin.close()
        marked.wait()
        wanted = {"space": ("success", 0, None), "batch-77": ("failure", None, signal.SIGTERM),
                  "by-red": ("failure", 4, None)}
        if place:
            in_group.exit(7)
            wanted["pod-pod"] = ("failure", 7, None)
        self.reap_orphans()
        if not harness.has_connector():
            wanted = {name: ("unknown", None, None) for name in wanted}
        # they are still open: another process may start
        sonde.await_snapshots(3)
        self.assertEqual({row["outcome"] for row in self.rows("SELECT outcome FROM jobs")},
                         {"running"})
        # they end after linger_seconds; tests/unit/test-rule-runs.c checks the exact time
        all_had_ended = time.time()
        sonde.configure(self.rules(linger=0))
        sonde.rpc("daemon.reload")
        for name, outcome in wanted.items():
            job = self.await_end(runs[name])
            self.assertEqual((job["outcome"], job["exit_code"], job["signal_num"]), outcome, name)
            self.assertLess(job["ended_at"], all_had_ended, name)
            self.assertAlmostEqual(job["wall_seconds"], job["ended_at"] - job["started_at"],
                                   places=3)
        self.assertEqual(sorted(job["job_id"] for job in self.rows("SELECT * FROM jobs")),
                         sorted(wanted))
        self.assertEqual(self.job(runs["space"])["process_spawn_count"],
                         3 if harness.has_connector() else 2)
        notices = [stream.notice() for _ in range(2 * len(wanted))] + stream.pending()
        self.assertEqual(sorted((notice["event"], notice["job_id"]) for notice in notices),
                         sorted((event, name) for name in wanted
                                for event in ("job.started", "job.finished")))

    def test_registered_run_takes_precedence_over_rules(self):
        sonde = self.daemon(self.rules())
        # The command enters the workspace only when the daemon knows its run: how long `sonde run`
        # takes to register depends on the machine, and rules wait for no more than 200 ms.
        process = self.start_sonde("--job", "registered", "--", "sh", "-c",
                                   'read -r space; cd "$space"; exec "$@"', "sh",
                                   *self.puppet_words())
        # Not when it is stored: a run stores itself when a busy daemon answers late.
        run_id = harness.wait_until(lambda: sonde.processes(job_id="registered"),
                                    "the daemon knows it")[0]["run_id"]
        process.stdin.write(self.path("space").encode() + b"\n")
        process.stdin.flush()
        puppet = daemon.Puppet(self, process)
        sonde.await_pid(puppet.pid, run_id)
        sonde.await_snapshots(3)
        puppet.exit(0)
        self.assertEqual(self.finish(puppet.process).status, 0)
        self.assertEqual(self.job(run_id)["outcome"], "success")
        self.assertEqual([job["job_id"] for job in self.rows("SELECT * FROM jobs")], ["registered"])

    def test_rules_of_a_reload(self):
        sonde = self.daemon()
        puppet = self.puppet(env=self.in_batch("5"))
        sonde.await_snapshots(2)
        self.assertEqual(self.rows("SELECT 1 FROM jobs"), [])
        sonde.configure(self.rules())
        changed = sonde.rpc("daemon.reload")["changed"]
        self.assertIn("jobs.rules", [change["key"] for change in changed])
        run_id = self.await_run("batch-5")["run_id"]
        sonde.await_pid(puppet.pid, run_id)


if __name__ == "__main__":
    harness.main()
