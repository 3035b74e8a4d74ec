#!/usr/bin/env python3
"""Access rights. The kernel identifies peers. Root's daemon and two other users: what they may see of
each other, hostile names, and planted symbolic links."""
import contextlib
import grp
import json
import os
import pathlib
import re
import select
import signal
import socket
import sqlite3
import stat
import subprocess
import time
import uuid

import clients
import daemon
import harness

# Two unrelated users; the kernel needs no names for them.
ONE, TWO = harness.UNPRIVILEGED_UID, 54321
NOT_FOUND, EXHAUSTED, ALREADY, NOT_PERMITTED = -32000, -32001, -32002, -32004
INVALID_PARAMS, PARSE_ERROR = -32602, -32700

SECRET = "hunter2-of-root"
EVERYONE = "daemon:\n  access: everyone\n"
# So that nearly every process has an anomaly.
SUSPICIOUS = EVERYONE + ("profiler:\n  scope: all\n  anomaly:\n"
                         "    fd_exhaustion_threshold: 1\n    fd_exhaustion_ratio: 0.0001\n")

# Characters that a terminal would act on; output may have line breaks.
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def run_as(uid, groups=()):
    """A command prefix that starts a program as that user."""
    given = f"--groups={','.join(map(str, groups))}" if groups else "--clear-groups"
    return ("setpriv", f"--reuid={uid}", f"--regid={uid}", given, "--inh-caps=-all")


def mode_of(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


class RightsTestCase(daemon.TestCase):
    def setUp(self):
        super().setUp()
        if not harness.is_root():
            self.skipTest("needs root, to be several users")
        self.socket = self.path("run/sonde.sock")
        self.environment["SONDE_SOCKET"] = self.socket

    def connect(self, uid, groups=()):
        with clients.as_user(uid, groups):
            link = daemon.Rpc(self.socket)
        self.addCleanup(link.close)
        return link

    def named(self, uid, name):
        """A process of that user with the name in its command line."""
        process = self.start(*run_as(uid), "python3", "-c",
                             "import signal, sys; print('ready', flush=True); signal.pause()", name)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def error(self, link, method, **params):
        answer = link.request(method, **params)
        self.assertIn("error", answer)
        return answer["error"]["code"]

    def sonde_as(self, uid, *words):
        environment = {name: value for name, value in self.environment.items()
                       if name != "SONDE_STATE_DIR"}
        return self.run_program(*run_as(uid), harness.SONDE, *words, env=environment)

    def json_as(self, uid, *words):
        result = self.sonde_as(uid, *words, "--json")
        self.assertEqual(result.status, 0, result)
        return harness.strict_json(result.stdout.decode())


# ---- who may connect ----


class Access(RightsTestCase):
    def outcome(self, uid, groups=()):
        """The result of a connection attempt: "in", or the error."""
        try:
            with clients.as_user(uid, groups):
                link = daemon.Rpc(self.socket)
        except PermissionError:
            return "EACCES"
        with link:
            return "in" if "result" in link.request("daemon.status") else "refused"

    def by_setpriv(self, uid, groups=()):
        """The same with a program of that user."""
        result = self.run_program(*run_as(uid, groups), harness.SONDE, "status", "--socket",
                                  self.socket)
        return "in" if result.status == 0 else "EACCES"

    def check(self, expected):
        for (uid, groups), outcome in expected.items():
            with self.subTest(uid=uid, groups=groups):
                self.assertEqual(self.outcome(uid, groups), outcome)
                self.assertEqual(self.by_setpriv(uid, groups), outcome)

    def a_group(self):
        return next(group for group in grp.getgrall() if group.gr_gid not in (0, ONE, TWO))

    def test_owner(self):
        self.daemon("daemon:\n  access: owner\n")
        self.check({(0, ()): "in", (ONE, ()): "EACCES", (TWO, (0,)): "EACCES"})
        self.assertEqual(mode_of(self.socket), 0o600)
        self.assertEqual(os.stat(self.socket).st_uid, 0)

    def test_owner_is_the_default(self):
        self.daemon()
        self.check({(0, ()): "in", (ONE, ()): "EACCES"})

    def test_group(self):
        group = self.a_group()
        self.daemon(f"daemon:\n  access: group:{group.gr_name}\n")
        self.check({(0, ()): "in", (ONE, ()): "EACCES", (ONE, (group.gr_gid,)): "in",
                    (TWO, (group.gr_gid,)): "in", (TWO, ()): "EACCES"})
        self.assertEqual(mode_of(self.socket), 0o660)
        self.assertEqual((os.stat(self.socket).st_uid, os.stat(self.socket).st_gid),
                         (0, group.gr_gid))

    def test_everyone(self):
        self.daemon(EVERYONE)
        self.check({(0, ()): "in", (ONE, ()): "in", (TWO, ()): "in"})
        self.assertEqual(mode_of(self.socket), 0o666)

    def test_changes_with_a_reload(self):
        sonde = self.daemon(EVERYONE)
        early, owner = self.connect(ONE), self.connect(0)
        group = self.a_group()
        for access, outcomes in (("owner", ("EACCES", "EACCES")),
                                 (f"group:{group.gr_name}", ("EACCES", "in")),
                                 ("everyone", ("in", "in")), ("owner", ("EACCES", "EACCES"))):
            with self.subTest(access=access):
                sonde.configure(f"daemon:\n  access: {access}\n")
                sonde.rpc("daemon.reload")
                self.assertEqual((self.outcome(ONE), self.outcome(ONE, (group.gr_gid,))), outcomes)
        # The daemon disconnects only clients that may no longer connect.
        self.assertIsNone(early.read_line())
        self.assertIn("result", owner.request("pressure.current"))

    def test_modes(self):
        """Also of files that are created later, with any umask."""
        before = os.umask(0)
        try:
            sonde = self.daemon(EVERYONE, interval=0.1)
        finally:
            os.umask(before)
        sonde.await_snapshots(5)
        sonde.rpc("job.start", job_id="x")
        self.assertEqual(mode_of(self.state), 0o700)
        names = os.listdir(self.state)
        self.assertIn("monitor.db", names)
        self.assertIn("monitor.jsonl", names)
        for name in names:
            self.assertEqual(mode_of(os.path.join(self.state, name)), 0o600, name)
        self.assertEqual(mode_of(self.socket + ".lock") & 0o077, 0)
        self.assertEqual(mode_of(os.path.dirname(self.socket)) & 0o066, 0)

    def test_state_directory_that_contains_the_socket(self):
        """As `--state-dir` alone sets it up: other users cannot list it."""
        del self.environment["SONDE_SOCKET"]
        sonde = self.daemon()
        sonde.await_snapshots(2)
        self.assertEqual(mode_of(self.state), 0o700)
        for name in os.listdir(self.state):
            self.assertEqual(mode_of(os.path.join(self.state, name)) & 0o177, 0, name)

    def test_daemon_of_another_user(self):
        """The owner of the daemon and root see all; a third user sees only its own data."""
        os.makedirs(self.path("own"))
        os.chown(self.path("own"), ONE, ONE)
        self.socket = self.path("own/run/sonde.sock")
        self.environment.update(SONDE_SOCKET=self.socket, SONDE_STATE_DIR=self.path("own/state"))
        sonde = self.daemon(SUSPICIOUS, prefix=run_as(ONE))
        self.assertEqual(os.stat(self.socket).st_uid, ONE)
        mine = self.connect(ONE)
        run_id = mine.call("job.start", job_id="mine", command="of one")["run_id"]
        self.state = self.environment["SONDE_STATE_DIR"]
        self.await_rows("SELECT 1 FROM jobs WHERE run_id = ?", run_id)
        for uid in (ONE, 0):
            self.assertEqual(self.connect(uid).call("report.job", job=run_id)["job"]["job_id"],
                             "mine")
            self.assertIn("changed", self.connect(uid).call("daemon.reload"))
        third = self.connect(TWO)
        self.assertEqual(self.error(third, "report.job", job=run_id), NOT_PERMITTED)
        self.assertEqual(self.error(third, "daemon.reload"), NOT_PERMITTED)
        self.assertEqual(third.call("daemon.top")["processes"], [])
        sonde.process.send_signal(signal.SIGTERM)
        self.assertEqual(sonde.wait(), 0)


# ---- what they see ----


class Secrets(RightsTestCase):
    """No data of root reaches another user, by any method."""

    def setUp(self):
        super().setUp()
        self.sonde = self.daemon(SUSPICIOUS + "jobs:\n  rules:\n  - job_id: 'by-rule'\n"
                                 f"    command: 'rule-{SECRET}-{self.mark}'\n")
        self.root = self.connect(0)
        self.one = self.connect(ONE)
        self.root_stream = self.connect(0)
        self.root_stream.call("daemon.monitor.stream", events=["*"])
        self.streams = [self.connect(ONE), self.connect(ONE)]
        self.streams[0].call("daemon.monitor.stream", events=["*"])
        self.streams[1].call("daemon.top.stream")
        self.process = self.named(0, f"loose-{SECRET}")
        self.ruled = self.named(0, f"rule-{SECRET}-{self.mark}")
        self.member = self.named(0, f"member-{SECRET}")
        self.own_process = self.named(ONE, "of-one")
        self.run_id = self.root.call("job.start", job_id=f"job-{SECRET}", pid=self.member.pid,
                                     job_type=f"type-{SECRET}", command=f"command {SECRET}",
                                     cwd=f"/{SECRET}")["run_id"]
        self.own_run = self.one.call("job.start", job_id="own", pid=self.own_process.pid,
                                     command="own command", total_sheets=2)["run_id"]
        self.sonde.await_pid(self.own_process.pid, self.own_run)
        harness.wait_until(lambda: self.sonde.processes(pid=self.ruled.pid, job_id="by-rule"),
                           "the rule")

    def live(self):
        """Produces every kind of event of root's job and its processes."""
        root, name = self.root, f"job-{SECRET}"
        root.call("job.progress", job_id=name, status=f"status-{SECRET}"[:60])
        root.call("sheet.started", job_id=name, sheet_num=1, name=f"sheet-{SECRET}",
                  pid=self.member.pid)
        root.call("job.signal", job_id=name, pid=self.member.pid, signal_num=15, sender_pid=1,
                  sender_command=f"sender-{SECRET}", details=f"details-{SECRET}")
        root.call("sheet.failed", job_id=name, sheet_num=1, exit_code=1)
        self.sonde.await_snapshots(3)
        for process in (self.process, self.ruled, self.member):
            process.kill()
            process.wait()
        self.sonde.await_snapshots(2)
        root.call("job.finish", job_id=name, outcome="failure", cause=f"cause-{SECRET}")
        self.sonde.await_snapshots(2)

    def answers(self, link):
        """The answers to all requests, as text."""
        for method, params in (
                ("daemon.status", {}), ("daemon.top", {}), ("daemon.top", {"fresh": True}),
                ("daemon.events", {"limit": 200}), ("job.list", {}),
                ("job.list", {"job": "by-rule"}), ("job.list", {"type": f"type-{SECRET}"}),
                ("job.list", {"since": 0, "limit": 10000}), ("events.list", {"limit": 10000}),
                ("events.list", {"since": 0}), ("events.list", {"pid": self.member.pid}),
                ("events.list", {"pid": self.process.pid}),
                ("events.list", {"job": self.run_id}), ("events.list", {"job": "by-rule"}),
                ("report.job", {}), ("report.job", {"job": self.run_id}),
                ("report.job", {"job": "by-rule"}), ("report.job", {"job": self.run_id[:-1]}),
                ("report.machine", {"since": 0}), ("resource.context", {}),
                ("resource.context", {"pid": self.member.pid}), ("pressure.current", {}),
                ("pressure.can_start_sheet", {}), ("pressure.should_accept_job", {}),
                ("daemon.reload", {}), ("job.progress", {"job_id": self.run_id}),
                ("job.finish", {"job_id": self.run_id, "outcome": "success"}),
                ("job.finish", {"job_id": "by-rule", "outcome": "success"})):
            yield method, params, json.dumps(link.request(method, **params))

    def heard(self, link):
        """All events of a stream so far, up to a snapshot that is taken now."""
        latest = self.sonde.await_snapshots(1)["id"]
        notices = []
        while not notices or notices[-1]["event"] != "monitor.snapshot" or \
                notices[-1]["data"]["id"] < latest:
            notices.append(link.notice())
        return notices

    def check_silent(self):
        for method, params, text in self.answers(self.one):
            with self.subTest(method=method, params=params):
                self.assertNotIn(SECRET, text)
        for link in self.streams:
            for notice in self.heard(link):
                with self.subTest(event=notice["event"]):
                    self.assertNotIn(SECRET, json.dumps(notice))

    def test_nothing_leaks(self):
        self.check_silent()
        self.live()
        self.check_silent()

    def test_root_sees_it(self):
        """The secret that the test above searches for is there."""
        self.live()
        seen = {notice["event"] for notice in self.heard(self.root_stream)
                if SECRET in json.dumps(notice)}
        self.assertLessEqual({"monitor.snapshot", "monitor.anomaly", "process.signal",
                              "job.started", "job.progress", "job.finished", "sheet.started",
                              "sheet.failed"}, seen)
        self.await_end(self.run_id)
        methods = {method for method, _, text in self.answers(self.connect(0)) if SECRET in text}
        self.assertLessEqual({"daemon.events", "job.list", "events.list", "report.job",
                              "report.machine"}, methods)

    def test_user_sees_its_own_data(self):
        """The user sees all of its own data, and nothing else."""
        snapshot = self.one.call("daemon.top")
        self.assertEqual({process["uid"] for process in snapshot["processes"]}, {ONE})
        self.assertIn(self.own_process.pid, {process["pid"] for process in snapshot["processes"]})
        self.assertEqual([usage["job_id"] for usage in snapshot["jobs"]], ["own"])
        self.assertEqual([step["job_id"] for step in snapshot["job_progress"]], ["own"])
        self.assertGreater(snapshot["process_total"], len(snapshot["processes"]))
        streamed = self.streams[1].await_notice("monitor.snapshot")["data"]
        self.assertLessEqual({process["uid"] for process in streamed["processes"]}, {ONE})
        self.one.call("sheet.started", job_id="own", sheet_num=1)
        self.streams[0].await_notice("sheet.started", lambda notice: notice["job_id"] == "own")
        self.one.call("sheet.completed", job_id="own", sheet_num=1)
        self.own_process.kill()
        self.streams[0].await_notice("process.kill", lambda notice: notice["job_id"] == "own")
        self.one.call("job.finish", job_id="own", outcome="success", exit_code=0)
        self.await_end(self.own_run)
        self.assertEqual([job["job_id"] for job in self.one.call("job.list")], ["own"])
        self.assertEqual(self.one.call("report.job")["job"]["run_id"], self.own_run)
        for method, params in (("events.list", {}), ("events.list", {"job": "own"}),
                               ("daemon.events", {"limit": 200})):
            events = self.one.call(method, **params)
            self.assertEqual({event["job_id"] for event in events}, {"own"}, method)
            self.assertLessEqual({"spawn", "kill"}, {event["event_type"] for event in events})

    def test_zombies(self):
        script = ("import os, time\n"
                  "child = os.fork()\n"
                  "if child: print(child, flush=True); time.sleep(1000)")
        zombies = {}
        for uid in (0, ONE):
            process = self.start(*run_as(uid), "python3", "-c", script)
            zombies[uid] = int(process.stdout.readline())
        harness.wait_until(lambda: set(zombies.values()) <= set(self.sonde.top()["zombie_pids"]),
                           "zombies")
        # Other tests may have zombies of this user too.
        others = {process["pid"] for process in self.sonde.top()["processes"]
                  if process["uid"] != ONE}
        self.assertIn(zombies[0], others)
        shown = set(self.one.call("daemon.top")["zombie_pids"])
        self.assertIn(zombies[ONE], shown)
        self.assertEqual(shown & others, set())

    def test_errors(self):
        """The error is "not permitted" where the run is known to belong to another user."""
        two = self.connect(TWO)
        for link in (self.one, two):
            name = f"job-{SECRET}"
            for method, params in (
                    ("job.finish", {"outcome": "success"}), ("job.progress", {"status": "x"}),
                    ("sheet.started", {"sheet_num": 1}), ("sheet.completed", {"sheet_num": 1}),
                    ("sheet.failed", {"sheet_num": 1}),
                    ("job.signal", {"pid": self.member.pid, "signal_num": 9}),
                    ("job.leave", {})):
                with self.subTest(method=method):
                    self.assertEqual(self.error(link, method, job_id=self.run_id, **params),
                                     NOT_PERMITTED)
                    # The answer does not reveal the names of other users' jobs.
                    self.assertEqual(self.error(link, method, job_id=name, **params), NOT_FOUND)
            for method, params in (
                    ("report.job", {"job": name}), ("report.job", {"job": self.run_id}),
                    ("events.list", {"job": name}), ("report.machine", {"since": 0}),
                    ("daemon.reload", {}),
                    ("job.start", {"job_id": "steal", "pid": self.member.pid}),
                    ("job.start", {"job_id": "steal", "pid": 1}),
                    ("job.start", {"job_id": "x", "run_id": self.run_id})):
                with self.subTest(method=method, params=params):
                    self.assertEqual(self.error(link, method, **params), NOT_PERMITTED)
            nothing = link.call("resource.context", pid=self.member.pid)
            self.assertEqual((nothing["rss_mb"], nothing["cpu_pct"]), (None, None))
            self.assertEqual(self.error(link, "job.start", job_id="x", parent_run_id=self.run_id),
                             NOT_FOUND)
        self.assertEqual(self.error(two, "report.job"), NOT_FOUND)
        self.assertEqual(self.error(two, "report.job", job="own"), NOT_PERMITTED)
        self.assertEqual(two.call("job.list"), [])
        self.assertEqual(self.error(self.one, "job.signal", job_id="own", pid=1, signal_num=9),
                         NOT_PERMITTED)
        own = self.named(TWO, "of-two")
        self.assertEqual(self.error(self.one, "job.start", job_id="steal", pid=own.pid),
                         NOT_PERMITTED)
        self.assertEqual(self.error(self.one, "sheet.started", job_id="own", sheet_num=1,
                                    pid=own.pid), NOT_PERMITTED)
        # None of the calls has an effect.
        self.assertEqual(self.job(self.run_id)["outcome"], "running")
        self.assertEqual(self.root.call("report.job", job=self.run_id)["sheets"], [])

    def test_run_id_of_another_users_finished_run(self):
        """The stored data of the run does not change."""
        self.root.call("job.finish", job_id=f"job-{SECRET}", outcome="success")
        before = self.await_end(self.run_id)
        answer = self.one.request("job.start", job_id="thief", run_id=self.run_id, command="mine")
        if "result" in answer:
            self.one.call("job.finish", job_id=answer["result"]["run_id"], outcome="failure",
                          cause="stolen")
        self.sonde.await_snapshots(3)
        self.assertEqual(self.job(self.run_id), before)
        self.assertEqual(self.error(self.one, "report.job", job=self.run_id), NOT_PERMITTED)

    def test_name_of_another_users_job(self):
        """The same name after the first job has ended makes two jobs."""
        self.root.call("job.finish", job_id=f"job-{SECRET}", outcome="success")
        self.await_end(self.run_id)
        run_id = self.one.call("job.start", job_id=f"job-{SECRET}")["run_id"]
        self.one.call("job.finish", job_id=run_id, outcome="failure")
        self.await_end(run_id)
        self.assertEqual(self.one.call("report.job", job=f"job-{SECRET}")["job"]["run_id"], run_id)
        # The answer does not reveal whether another user had a job of that name.
        self.assertEqual(self.error(self.one, "report.job", job=f"job-{SECRET}~1"), NOT_FOUND)
        jobs = self.one.call("job.list", job=f"job-{SECRET}")
        self.assertEqual([job["run_id"] for job in jobs], [run_id])
        earlier = self.one.call("report.job", job=run_id)["earlier_runs"]
        self.assertNotIn(SECRET.upper(), json.dumps(earlier).upper().replace(
            f"JOB-{SECRET}".upper(), ""))

    def test_names_of_jobs_that_run(self):
        """Each user has its own names."""
        name = f"job-{SECRET}"
        own = self.one.call("job.start", job_id=name)
        self.assertEqual(own["job_id"], name)
        self.assertNotEqual(own["run_id"], self.run_id)
        self.assertEqual(self.error(self.one, "job.start", job_id=name), ALREADY)
        second = self.one.call("job.start", job_id=name, unique=True)
        self.assertEqual(second["job_id"], f"{name}-2")
        self.assertEqual(self.root.call("job.start", job_id=name, unique=True)["job_id"],
                         f"{name}-2")
        self.await_rows("SELECT 1 FROM jobs WHERE run_id = ? AND job_id = ?", own["run_id"], name)
        self.await_rows("SELECT 1 FROM jobs WHERE run_id = ? AND job_id = ?", second["run_id"],
                        f"{name}-2")
        # A name means the caller's own job, also for root, although the other one is later.
        self.assertEqual(self.root.call("job.finish", job_id=name, outcome="success")["run_id"],
                         self.run_id)
        self.assertEqual(self.one.call("job.finish", job_id=name, outcome="success"), own)
        self.assertEqual(self.error(self.one, "job.finish", job_id=name, outcome="success"),
                         NOT_FOUND)
        later = self.one.call("job.start", job_id="of-one")
        self.assertEqual(self.root.call("job.finish", job_id="of-one", outcome="success"), later)

    def test_names_that_look_like_others(self):
        for name in (self.run_id, self.own_run.upper(), " ", " x", "x ", "x\u200b", "x\ufeff",
                     "\u00a0x", "x\U000e0041"):
            with self.subTest(name=name):
                self.assertEqual(self.error(self.one, "job.start", job_id=name), INVALID_PARAMS)
                self.assertEqual(self.error(self.one, "job.start", job_id="y", job_type=name),
                                 INVALID_PARAMS)
        self.assertEqual(self.root.call("report.job", job=self.run_id)["job"]["uid"], 0)

    def test_figures_that_cannot_be_true(self):
        for name, value, more in (("wall_seconds", 1000, {}), ("wall_seconds", 1e9, {}),
                                  ("peak_rss_mb", 1e12, {}), ("peak_rss_mb", 6e7, {}), ("peak_total_mb", 1e9, {}),
                                  ("peak_unique_mb", 6.8e7, {}), ("user_seconds", 9e15, {}),
                                  ("system_seconds", 1e7, {"user_seconds": 1}),
                                  ("cpu_seconds", 1e7, {"user_seconds": 1}),
                                  ("cpu_seconds", 0.001, {"user_seconds": 0.04, "system_seconds": 0.04}),
                                  ("cpu_seconds", 0, {"system_seconds": 0.011}),
                                  ("left_running", 100, {"processes": 99}),
                                  ("peak_processes", 1, {}), ("peak_processes", 1, {"processes": None}),
                                  ("peak_processes", 100, {"processes": 99}),
                                  ("ended_at", time.time() + 1000, {})):
            with self.subTest(name=name):
                answer = self.one.request("job.finish", job_id="own", outcome="success",
                                          **{name: value}, **more)
                self.assertEqual(answer["error"]["code"], INVALID_PARAMS)
                self.assertIn(name, answer["error"]["message"])
        self.one.call("job.finish", job_id="own", outcome="success", wall_seconds=5,
                      cpu_seconds=5.991, user_seconds=5, system_seconds=1, processes=3,
                      peak_processes=3, left_running=3, peak_rss_mb=512)
        self.assertEqual(self.await_end(self.own_run)["wall_seconds"], 5)

    def test_root_may_do_everything(self):
        own = self.named(TWO, "of-two")
        run_id = self.root.call("job.start", job_id="for-two", pid=own.pid)["run_id"]
        self.sonde.await_pid(own.pid, run_id)
        self.root.call("sheet.started", job_id="own", sheet_num=3)
        self.root.call("job.finish", job_id="own", outcome="failure", cause="by root")
        self.assertEqual(self.await_end(self.own_run)["cause"], "by root")
        self.assertEqual(self.root.call("report.job", job="own")["job"]["uid"], ONE)
        uids = {process["uid"] for process in self.root.call("daemon.top")["processes"]}
        self.assertLessEqual({0, ONE, TWO}, uids)


class Within(RightsTestCase):
    """Processes of one user in the job of another."""

    def setUp(self):
        super().setUp()
        self.sonde = self.daemon(EVERYONE)
        self.outer = self.puppet()
        self.outer_id = self.sonde.rpc("job.start", job_id="outer", pid=self.outer.pid)["run_id"]
        # Its children belong to its job, whichever user they run as.
        self.inner = self.puppet(*run_as(ONE))
        self.sonde.rpc("sheet.started", job_id="outer", sheet_num=1, pid=self.inner.pid)
        self.sonde.await_pid(self.inner.pid, self.outer_id)
        self.one = self.connect(ONE)

    def processes_of(self, job_id):
        return {job["job_id"]: job["processes"] for job in self.sonde.top()["jobs"]}[job_id]

    def test_run_within_it(self):
        """The inner run owns it; the outer totals include it, but it is not shown."""
        stream = self.connect(ONE)
        stream.call("daemon.monitor.stream", events=["job.*"])
        run_id = self.one.call("job.start", job_id="mine", pid=self.inner.pid)["run_id"]
        self.sonde.await_pid(self.inner.pid, run_id)
        self.assertEqual(self.processes_of("outer"), 2)
        self.assertEqual(self.processes_of("mine"), 1)
        self.assertIsNone(stream.await_notice("job.started")["data"]["parent_run_id"])
        self.one.call("job.finish", job_id="mine", outcome="success")
        report = self.one.call("report.job", job=run_id)
        self.assertNotIn(self.outer_id, json.dumps(report))

    def test_process_stays_in_its_job(self):
        mine = self.one.call("job.start", job_id="mine")["run_id"]
        for method, params in (
                ("sheet.started", {"job_id": "mine", "sheet_num": 1}),
                ("job.start", {"job_id": "mine", "run_id": mine}),
                ("job.start", {"job_id": "other", "parent_run_id": mine})):
            with self.subTest(method=method, params=params):
                self.assertEqual(self.error(self.one, method, pid=self.inner.pid, **params),
                                 NOT_PERMITTED)
        self.sonde.await_snapshots(1)
        self.assertEqual(self.processes_of("outer"), 2)


# ---- reused pids ----


class Reused(RightsTestCase):
    """A reported process, or a caller, is gone, and a process of root has its pid."""

    # Connects, passes the connection on, and stays until its stdin ends.
    AGENT = ("import socket, sys\n"
             "link = socket.socket(socket.AF_UNIX)\n"
             "link.connect(sys.argv[1])\n"
             "socket.send_fds(socket.socket(fileno=int(sys.argv[2])), [b'x'], [link.fileno()])\n"
             "sys.stdin.read()\n")

    def agent(self):
        """A process of ONE, and the connection that it has made."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            process = self.start(*run_as(ONE), "python3", "-c", self.AGENT, self.socket,
                                 str(theirs.fileno()), pass_fds=[theirs.fileno()])
            _, (fd,), _, _ = socket.recv_fds(ours, 1, 1)
        link = daemon.Rpc(None, link=socket.socket(fileno=fd))
        self.addCleanup(link.close)
        return process, link

    def victim(self, process):
        """Ends a process; returns a process of root with the same pid, and a child of it."""
        process.stdin.close()
        process.wait()
        victim = self.puppet(os.path.join(harness.HELPERS, "take-pid"), str(process.pid))
        self.assertEqual(victim.pid, process.pid)
        return {victim.pid, victim.fork("child")}

    def assert_untouched(self, sonde, link, run_id, pids):
        sonde.await_snapshots(3)
        self.assertFalse(sonde.pids(run_id) & pids)
        self.assertFalse({event["pid"] for event in link.call("events.list", job=run_id)} & pids)
        self.assertEqual(self.rows("SELECT 1 FROM process_metrics WHERE job_id = 'steal'"), [])

    def test_caller(self):
        sonde = self.daemon(EVERYONE)
        process, link = self.agent()
        link.call("daemon.status")
        pids = self.victim(process)
        run_id = link.call("job.start", job_id="steal", adopts_orphans=True)["run_id"]
        self.assert_untouched(sonde, link, run_id, pids)

    def test_foster_parent(self):
        sonde = self.daemon(EVERYONE)
        process, link = self.agent()
        run_id = link.call("job.start", job_id="steal", adopts_orphans=True)["run_id"]
        sonde.await_snapshots(1)
        self.assert_untouched(sonde, link, run_id, self.victim(process))

    def test_process(self):
        """Between the check of the process and the store's answer, which another job's end delays."""
        sonde = self.daemon(EVERYONE)
        clerk, link = self.connect(ONE), self.connect(ONE)
        clerk.call("job.start", job_id="other")
        reported = self.start(*run_as(ONE), "cat")
        sonde.await_snapshots(1)
        run_id = str(uuid.uuid4())
        with contextlib.closing(sqlite3.connect(self.database, isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            clerk.send({"jsonrpc": "2.0", "id": 1, "method": "job.finish",
                        "params": {"job_id": "other", "outcome": "success"}})
            self.connect(ONE).call("pressure.current")  # earlier requests were read
            link.send({"jsonrpc": "2.0", "id": 1, "method": "job.start",
                       "params": {"job_id": "steal", "run_id": run_id, "pid": reported.pid}})
            self.connect(ONE).call("pressure.current")
            pids = self.victim(reported)
            db.execute("ROLLBACK")
        self.assertEqual(link.read()["result"]["run_id"], run_id)
        self.assert_untouched(sonde, link, run_id, pids)

    def test_process_that_has_ended(self):
        """A child that has ended before it is reported, and of which no event follows."""
        sonde = self.daemon(EVERYONE)
        link = self.connect(0)
        reported = self.start("cat")
        reported.stdin.close()
        reported.wait()
        answer = link.request("job.start", job_id="steal", pid=reported.pid, again=True)
        if "error" in answer:
            self.skipTest("the kernel does not report forks")
        self.assert_untouched(sonde, link, answer["result"]["run_id"], self.victim(reported))


class Rules(RightsTestCase):
    """A rule creates jobs from processes of all users; it does not mix users."""

    def setUp(self):
        super().setUp()
        self.variable = f"BATCH_{self.mark}"
        self.sonde = self.daemon(EVERYONE + "profiler:\n  scope: all\njobs:\n  rules:\n"
                                 f"  - job_id: 'batch-{{{self.variable}}}'\n"
                                 f"    env: [{self.variable}]\n")

    def start_batch(self, uid, name):
        environment = dict(self.environment, **{self.variable: "7"})
        process = self.start(*run_as(uid), "python3", "-c",
                             "import signal; print('ready', flush=True); signal.pause()", name,
                             env=environment)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def job_of(self, pid):
        return harness.wait_until(
            lambda: [process["run_id"] for process in self.sonde.processes(pid=pid)
                     if process["job_id"] and process["job_id"].startswith("batch-7")], "a job")[0]

    def test_first_user_of_a_name_does_not_see_other_users(self):
        """A user who guesses the number of another user's next job could start it first."""
        trap = self.start_batch(ONE, "trap")
        own = self.job_of(trap.pid)
        victim = self.start_batch(0, SECRET)
        others = self.job_of(victim.pid)
        self.sonde.await_snapshots(2)
        link = self.connect(ONE)
        self.assertNotEqual(own, others)
        self.assertNotIn(SECRET, json.dumps(link.call("daemon.top")))
        self.assertNotIn(SECRET, json.dumps(link.call("report.job", job=own)))
        self.assertEqual(self.error(link, "report.job", job=others), NOT_PERMITTED)
        victim.kill()
        victim.wait()
        self.sonde.await_snapshots(3)
        for method in ("daemon.events", "events.list"):
            self.assertNotIn(SECRET, json.dumps(link.call(method, limit=200)))
        for run_id, uid in ((own, ONE), (others, 0)):
            job = self.job(run_id)
            self.assertEqual((job["uid"], job["job_id"]), (uid, "batch-7"))

    def test_same_user(self):
        processes = [self.start_batch(ONE, name) for name in ("a", "b")]
        self.assertEqual(len({self.job_of(process.pid) for process in processes}), 1)


class Many(RightsTestCase):
    """One user's excess does not affect other users."""

    def batch(self, link, requests):
        """The error codes of many requests, 100 at a time; None for a success."""
        codes = []
        for at in range(0, len(requests), 100):
            link.send([{"jsonrpc": "2.0", "id": i, "method": method, "params": params}
                       for i, (method, params) in enumerate(requests[at:at + 100])])
            codes += [answer.get("error", {}).get("code") for answer in link.read()]
        return codes

    def test_runs(self):
        sonde = self.daemon(EVERYONE)
        one, two = self.connect(ONE), self.connect(TWO)
        codes = self.batch(one, [("job.start", {"job_id": f"job-{i}"}) for i in range(2010)])
        self.assertEqual(codes, [None] * 2000 + [EXHAUSTED] * 10)
        self.assertIn("run_id", two.call("job.start", job_id="mine"))
        self.assertEqual(self.error(one, "job.start", job_id="more"), EXHAUSTED)
        self.assertEqual(sonde.rpc("daemon.status")["running_jobs"], 2001)
        sonde.await_snapshots(3)
        one.call("job.finish", job_id="job-0", outcome="success")
        self.assertIn("run_id", one.call("job.start", job_id="more"))
        codes = self.batch(one, [("job.finish", {"job_id": f"job-{i}", "outcome": "success"})
                                 for i in range(1, 2000)])
        self.assertEqual(codes, [None] * 1999)
        self.assertEqual(sonde.rpc("daemon.status")["running_jobs"], 2)
        sonde.stop()
        stored = self.rows("SELECT outcome, count(*) AS count FROM jobs WHERE uid = ? "
                           "GROUP BY outcome", ONE)
        self.assertEqual({row["outcome"]: row["count"] for row in stored}["success"], 2000)

    def test_steps(self):
        sonde = self.daemon(EVERYONE)
        one = self.connect(ONE)
        one.call("job.start", job_id="wide")
        codes = self.batch(one, [("sheet.started", {"job_id": "wide", "sheet_num": i})
                                 for i in range(4100)])
        self.assertEqual(codes, [None] * 4096 + [EXHAUSTED] * 4)
        self.assertEqual(sonde.rpc("daemon.status")["active_sheets"], 4096)
        one.call("job.finish", job_id="wide", outcome="failure")
        self.assertEqual(sonde.rpc("daemon.status")["active_sheets"], 0)
        sonde.stop()
        ends = self.rows("SELECT s.outcome, s.ended_at = j.ended_at AS is_with_it, count(*) AS count"
                         " FROM sheets s JOIN jobs j USING (run_id) GROUP BY 1, 2")
        self.assertEqual(ends, [{"outcome": "failure", "is_with_it": 1, "count": 4096}])

    STEPS_MAX = 100000

    def flood(self, sonde, link):
        """Reports steps as fast as the daemon accepts them, until it stops accepting but still
        runs. Returns how many."""
        link.link.setblocking(False)
        for i in range(self.STEPS_MAX):
            line = json.dumps({"jsonrpc": "2.0", "method": "sheet.started", "params": {
                "job_id": "flood", "sheet_num": i % 4000, "name": "x" * 100}}).encode() + b"\n"
            while line:
                if not select.select([], [link], [], 0.2)[1]:
                    sonde.await_snapshots(2)
                    if not select.select([], [link], [], 0)[1]:
                        return i
                line = line[link.link.send(line):]
        return self.STEPS_MAX

    def test_ends_of_many_jobs(self):
        """Users take turns: a user who ends many jobs does not delay the end of another user's."""
        sonde = self.daemon(EVERYONE)
        many, two = [self.connect(ONE) for _ in range(10)], self.connect(TWO)
        for number, link in enumerate(many):
            link.call("job.start", job_id=f"job-{number}")
        two.call("job.start", job_id="mine")
        sonde.await_snapshots(1)
        with contextlib.closing(sqlite3.connect(self.database, isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")  # so that the daemon waits as long as possible for each end
            for number, link in enumerate(many):
                link.send({"jsonrpc": "2.0", "id": 1, "method": "job.finish",
                           "params": {"job_id": f"job-{number}", "outcome": "success"}})
            self.connect(ONE).call("pressure.current")  # the requests were read
            two.call("job.finish", job_id="mine", outcome="success")
            self.assertLess(len(select.select(many, [], [], 0)[0]), 5)
            db.execute("ROLLBACK")
        for link in many:
            self.assertIn("result", link.read())
        sonde.stop()

    def test_reports_faster_than_the_disk(self):
        """While the disk cannot be written, no client can fill the daemon's memory."""
        sonde = self.daemon(EVERYONE)
        one, two = self.connect(ONE), self.connect(TWO)
        one.call("job.start", job_id="flood")
        self.await_rows("SELECT 1 FROM jobs")
        before_mb = daemon.rss_mb(sonde.pid)
        with contextlib.closing(sqlite3.connect(self.database, isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            self.assertLess(self.flood(sonde, one), self.STEPS_MAX)
            if not harness.is_sanitized():
                self.assertLess(daemon.rss_mb(sonde.pid), before_mb + 16)
            self.assertIn("run_id", two.call("job.start", job_id="mine"))
            sonde.await_snapshots(1)
            db.execute("ROLLBACK")
        two.call("job.finish", job_id="mine", outcome="success")
        sonde.stop()
        self.assertEqual(len(self.rows("SELECT 1 FROM jobs WHERE outcome = 'success'")), 1)
        self.assertGreater(len(self.rows("SELECT 1 FROM sheets")), 100)


class Verbs(RightsTestCase):
    """The command line prints what the socket returns."""

    def setUp(self):
        super().setUp()
        self.sonde = self.daemon(EVERYONE)
        self.run_ids = {}
        for uid in (0, ONE):
            link = self.connect(uid)
            process = self.named(uid, f"of-{uid}")
            run_id = link.call("job.start", job_id=f"job-{uid}", pid=process.pid,
                               command=f"command-{uid}")["run_id"]
            process.kill()
            link.call("job.finish", job_id=run_id, outcome="failure", signal_num=9)
            self.await_end(run_id)
            self.run_ids[uid] = run_id

    def test_same_answers(self):
        link = self.connect(ONE)
        for words, method, params in (
                (("jobs",), "job.list", {}),
                (("jobs", "--outcome", "failure"), "job.list", {"outcome": "failure"}),
                (("jobs", "--outcome", "success"), "job.list", {"outcome": "success"}),
                (("events",), "events.list", {}),
                (("events", "--job", f"job-{ONE}"), "events.list", {"job": f"job-{ONE}"}),
                (("report", f"job-{ONE}"), "report.job", {"job": f"job-{ONE}"}),
                (("report",), "report.job", {})):
            with self.subTest(words=words):
                shown, received = self.json_as(ONE, *words), link.call(method, **params)
                for answer in (shown, received):
                    if isinstance(answer, dict):
                        answer.pop("as_of")
                self.assertEqual(shown, received)
                self.assertNotIn("command-0", json.dumps(shown))
        self.assertEqual([job["job_id"] for job in self.json_as(ONE, "jobs")], [f"job-{ONE}"])
        self.assertEqual({job["job_id"] for job in self.json_as(0, "jobs")},
                         {f"job-{ONE}", "job-0"})

    def test_status(self):
        shown = self.json_as(ONE, "status")
        status = self.connect(ONE).call("daemon.status")
        for name in ("pid", "socket", "interval_seconds", "started_at", "database"):
            self.assertEqual(shown[name], status[name])

    def test_refused(self):
        for words in (("report", "job-0"), ("report", self.run_ids[0]),
                      ("events", "--job", "job-0"), ("report", "--since", "1h")):
            with self.subTest(words=words):
                result = self.sonde_as(ONE, *words)
                self.assertEqual(result.status, 1, result)
                self.assertEqual(result.stdout, b"")
                self.assertRegex(result.stderr, "another user|root and the daemon's owner")
        for words, text in ((("jobs",), "no jobs of yours are stored; "),
                            (("jobs", "--job", "x"), "no stored jobs of yours match"),
                            (("events",), "no stored events of yours match"),
                            (("report",), "no jobs of yours are stored; "),
                            (("report", "x"), "no job of yours named 'x'; "),
                            (("analyze",), "; only your own runs count"),
                            (("estimate", "x"), "no finished runs of yours of the type 'x'")):
            with self.subTest(words=words):
                result = self.sonde_as(TWO, *words)
                self.assertEqual((result.status, result.stdout), (3, b""), result)
                self.assertIn(text, result.stderr)
        self.assertIn("no stored jobs match", self.sonde_as(0, "jobs", "--job", "x").stderr)

    def test_follow(self):
        with open(self.path("errors"), "wb") as errors:
            process = self.start(*run_as(ONE), harness.SONDE, "events", "--follow", "--json",
                                 stderr=errors)
        harness.wait_until(lambda: self.sonde.rpc("daemon.status")["subscribers"] == 1,
                           "it follows")
        for uid in (0, ONE):
            self.connect(uid).call("job.start", job_id=f"later-{uid}")
        seen = b""
        for line in process.stdout:
            seen += line
            if f"later-{ONE}".encode() in line:
                break
        self.assertNotIn(b"later-0", seen)
        self.assertNotIn(b"job-0", seen)

    def test_run_of_another_user(self):
        """`sonde run` of a user finds the daemon, which records the run as that user's."""
        environment = dict(self.environment)
        del environment["SONDE_STATE_DIR"]
        result = self.run_program(*run_as(ONE), harness.SONDE, "run", "--job", "through", "--",
                                  "sleep", "0.3", env=environment)
        self.assertEqual(result.status, 0, result)
        job = self.await_rows("SELECT * FROM jobs WHERE job_id = 'through' "
                              "AND outcome = 'success'")[0]
        self.assertEqual(job["uid"], ONE)
        self.assertIn("through", [job["job_id"] for job in self.json_as(ONE, "jobs")])


# ---- hostile names ----


class Hostile(RightsTestCase):
    ESCAPE = "\x1b]0;owned\x07\x1b[31m\x9b2J\r\b\x7f"

    def assert_clean(self, data, what):
        text = data.decode("utf-8") if isinstance(data, bytes) else data
        self.assertEqual(CONTROLS.findall(text), [], f"{what}: {text!r}")

    def test_rate_limit_of_a_user_holds_for_that_user(self):
        sonde = self.daemon(EVERYONE)
        sonde.await_snapshots(1)
        one, two = self.connect(ONE), self.connect(TWO)

        def reason(link):
            return link.call("pressure.should_accept_job")["reason"] or ""

        self.assertEqual(one.call("pressure.report_rate_limit", name="api-one", seconds=600), {})
        self.assertIn("api-one", reason(one))
        self.assertNotIn("rate limit", reason(two))
        # Root's limit holds for everyone.
        sonde.rpc("pressure.report_rate_limit", name="api-all", seconds=900)
        self.assertIn("api-all", reason(two))

    def test_names_that_are_refused(self):
        sonde = self.daemon(EVERYONE)
        link = self.connect(ONE)
        link.call("job.start", job_id="fine")
        self.await_rows("SELECT 1 FROM jobs")
        names = ("", "a~b", "~1", "a\nb", "\x1b[31mred", "tab\t", "\x7f", "\x9b2J", "x" * 129,
                 "x" * 100000, "é" * 65)
        for name in names:
            with self.subTest(name=name[:20]):
                self.assertEqual(self.error(link, "job.start", job_id=name), INVALID_PARAMS)
                self.assertEqual(self.error(link, "job.start", job_id="y", job_type=name),
                                 INVALID_PARAMS)
        for name in ("\x1b[31m", "x" * 100000, "a\nb"):
            with self.subTest(name=name[:20]):
                self.assertEqual(self.error(link, "job.progress", job_id="fine", status=name),
                                 INVALID_PARAMS)
                self.assertEqual(self.error(link, "sheet.started", job_id="fine", sheet_num=1,
                                            name=name), INVALID_PARAMS)
                self.assertEqual(self.error(link, "pressure.report_rate_limit", name=name),
                                 INVALID_PARAMS)
                self.assertEqual(self.error(link, "report.job", job=name), INVALID_PARAMS)
        for params in ({"command": "x" * 100000}, {"cwd": "x" * 100000}, {"run_id": "x"},
                       {"parent_run_id": "\x1b"}):
            self.assertEqual(self.error(link, "job.start", job_id="z", **params), INVALID_PARAMS)
        link.send({"jsonrpc": "2.0", "id": 1, "method": "job.start", "params": {"job_id": "a\0b"}})
        self.assertIn(link.read()["error"]["code"], (PARSE_ERROR, INVALID_PARAMS))
        sonde.await_snapshots(1)
        self.assertEqual([job["job_id"] for job in link.call("job.list")], ["fine"])
        sonde.stop()
        self.assert_clean(sonde.log, "log")

    def test_caller_disconnects(self):
        """Another user cannot store in the daemon's database, whatever path the request names."""
        sonde = self.daemon(EVERYONE)
        link = self.connect(ONE)
        for more in ({}, {"stores_in": self.database}):
            with self.subTest(more=more):
                run_id = link.call("job.start", job_id="left")["run_id"]
                link.call("job.leave", job_id=run_id, **more)
                job = self.await_end(run_id)
                self.assertEqual((job["outcome"], job["cause"]),
                                 ("unknown", "its caller stores it elsewhere"))
        sonde.stop()

    def test_long_texts_of_a_chain_are_cut(self):
        sonde = self.daemon(EVERYONE)
        link = self.connect(ONE)
        run_id = link.call("job.start", job_id="long")["run_id"]
        failed = {"timestamp": 1, "pid": 1, "event_type": "exit", "exit_code": 3,
                  "command": "c" * 4000, "details": "d" * 4000}
        link.call("job.finish", job_id=run_id, outcome="failure", chain=[failed])
        self.await_end(run_id)
        stored, = self.json_as(0, "report", run_id)["job"]["chain"]
        self.assertEqual((len(stored["command"]), len(stored["details"])), (500, 500))
        sonde.stop()

    def test_stored_names_are_escaped(self):
        """A command line may contain any byte, and so may a process name."""
        sonde = self.daemon(EVERYONE)
        link = self.connect(ONE)
        evil = self.named(ONE, f"evil{self.ESCAPE}")
        follower = self.start(*run_as(0), harness.SONDE, "events", "--follow",
                              stderr=subprocess.DEVNULL)
        harness.wait_until(lambda: sonde.rpc("daemon.status")["subscribers"] == 1, "it follows")
        run_id = link.call("job.start", job_id="evil \\\" = 'é", pid=evil.pid,
                           command=f"command{self.ESCAPE}", cwd=f"/cwd{self.ESCAPE}")["run_id"]
        sonde.await_pid(evil.pid, run_id)
        link.call("job.signal", job_id=run_id, pid=evil.pid, signal_num=9, sender_pid=1,
                  sender_command=f"sender{self.ESCAPE}", details=f"details{self.ESCAPE}")
        evil.kill()
        sonde.await_snapshots(2)
        failed = {"timestamp": 1, "pid": evil.pid, "event_type": "exit", "exit_code": 3}
        chain = [dict(failed, command=f"link{self.ESCAPE}", details=f"more{self.ESCAPE}"),
                 dict(failed, pid=1, sender_command=f"sender{self.ESCAPE}")]
        link.call("job.finish", job_id=run_id, outcome="failure", cause=f"cause{self.ESCAPE}",
                  chain=chain)
        self.assertIn("link", str(self.await_end(run_id)["chain"]))
        for uid in (0, ONE):
            for words in (("jobs",), ("events",), ("report", run_id), ("status",)):
                for more in ((), ("--json",)):
                    with self.subTest(uid=uid, words=words, more=more):
                        result = self.sonde_as(uid, *words, *more)
                        self.assertEqual(result.status, 0, result)
                        self.assert_clean(result.stdout, words)
        report = self.sonde_as(ONE, "report", run_id).stdout.decode()
        self.assertIn("cause", report)
        self.assertIn("command", report)
        self.assertEqual(self.json_as(ONE, "report", run_id)["job"]["cause"],
                         f"cause{self.ESCAPE}")
        self.check_errors()
        followed = b""
        while b"finished" not in followed:
            followed += follower.stdout.readline()
        follower.terminate()
        self.assert_clean(followed + follower.stdout.read(), "events --follow")
        sonde.kill()
        sonde.start() # which reads it all again
        sonde.stop()
        self.assert_clean(sonde.log, "log")

    def check_errors(self):
        """Missing objects are named in an error, escaped too."""
        for words in (("report", f"none{self.ESCAPE}"), ("events", "--job", f"x{self.ESCAPE}"),
                      ("jobs", "--job", f"x{self.ESCAPE}"),
                      ("status", "--socket", f"/x{self.ESCAPE}")):
            with self.subTest(words=words):
                result = self.sonde_as(ONE, *words)
                self.assertIn(result.status, (1, 2, 3), result)
                self.assert_clean(result.stderr, words)

    def test_adopted_name_in_the_log(self):
        """The log names a job whose name a user chose."""
        sonde = self.daemon(EVERYONE)
        name = 'x" level=error message="all is lost'
        link = self.connect(ONE)
        process = self.named(ONE, "kept")
        run_id = link.call("job.start", job_id=name, pid=process.pid)["run_id"]
        sonde.await_pid(process.pid, run_id)
        self.await_rows("SELECT 1 FROM process_metrics WHERE run_id = ?", run_id)
        link.close()
        sonde.kill()
        sonde.start()
        line, = [line for line in sonde.log_now.splitlines() if run_id in line]
        self.assertIn(r'job_id="x\" level=error message=\"all is lost"', line)
        self.assertNotIn(" level=error ", line.replace(r'\" level=error message=\"', ""))


# ---- planted links ----


class Planted(RightsTestCase):
    def setUp(self):
        super().setUp()
        self.precious = self.write("precious", "precious", 0o600)
        self.before = self.look()

    def look(self):
        found = os.stat(self.precious)
        return (pathlib.Path(self.precious).read_bytes(), found.st_mode, found.st_uid, found.st_gid,
                found.st_mtime_ns)

    def plant(self, path, target=None):
        with clients.as_user(ONE):
            os.symlink(target or self.precious, path)

    def open_to_all(self, name, mode):
        path = self.path(name)
        os.mkdir(path)
        os.chmod(path, mode)
        return path

    def start_in(self, socket_path, state=None):
        """The daemon's exit status if it ends, else None."""
        sonde = daemon.Daemon(self, EVERYONE, env={"SONDE_SOCKET": socket_path,
                                                  **({"SONDE_STATE_DIR": state} if state else {})})
        self.addCleanup(sonde.end)
        sonde.spawn()
        harness.wait_until(lambda: not sonde.is_running() or "message=ready" in sonde.log_now,
                           "it starts or ends")
        if sonde.is_running():
            sonde.await_snapshots(1)
            sonde.stop()
            return None
        return sonde.wait()

    def test_at_the_socket_and_its_lock(self):
        for mode in (0o1777, 0o777):
            for suffix in ("", ".lock"):
                for target in (self.precious, self.path("missing")):
                    with self.subTest(mode=oct(mode), suffix=suffix, target=target):
                        directory = self.open_to_all(f"open-{mode}-{suffix}-{len(target)}", mode)
                        path = os.path.join(directory, "sonde.sock")
                        self.plant(path + suffix, target)
                        status = self.start_in(path)
                        self.assertEqual(self.look(), self.before)
                        self.assertFalse(os.path.exists(self.path("missing")))
                        if suffix:
                            self.assertEqual(status, 1)

    def test_error_names_the_cause(self):
        directory = self.open_to_all("open-said", 0o777)
        path = os.path.join(directory, "sonde.sock")
        self.plant(path + ".lock")
        result = self.run_program(harness.SONDE, "daemon", "--socket", path)
        self.assertEqual(result.status, 1, result)
        self.assertIn("link", result.stderr)
        self.assertIn(path, result.stderr)

    def test_in_the_state_directory(self):
        """A state directory that others can write is not used at all."""
        for name in ("monitor.db", "monitor.db-daemon", "monitor.jsonl", "monitor.db-lock"):
            with self.subTest(name=name):
                state = self.open_to_all(f"state-{name}", 0o777)
                self.plant(os.path.join(state, name))
                self.start_in(self.socket, state)
                self.assertEqual(self.look(), self.before)

    def test_fifo_in_place_of_the_lock(self):
        directory = self.open_to_all("open-pipe", 0o1777)
        path = os.path.join(directory, "sonde.sock")
        with clients.as_user(ONE):
            os.mkfifo(path + ".lock")
        self.assertEqual(self.start_in(path), 1)

    def test_in_place_of_a_socket_that_is_used(self):
        """A reload changes the mode of the socket, but not of a file that has replaced it."""
        directory = self.open_to_all("open-swapped", 0o777)
        path = os.path.join(directory, "sonde.sock")
        sonde = daemon.Daemon(self, "", env={"SONDE_SOCKET": path})
        self.addCleanup(sonde.end)
        sonde.spawn()
        harness.wait_until(lambda: not sonde.is_running() or "message=ready" in sonde.log_now,
                           "it starts or ends")
        if not sonde.is_running():
            return # it may well refuse such a place
        with clients.as_user(ONE):
            os.rename(path, path + ".away")
        self.plant(path)
        sonde.configure(EVERYONE)
        sonde.process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: re.search("reloaded|did not change", sonde.log_now),
                           lambda: sonde.log_now)
        self.assertEqual(self.look(), self.before)
        sonde.process.send_signal(signal.SIGTERM)
        self.assertEqual(sonde.wait(), 0)
        self.assertEqual(self.look(), self.before)


if __name__ == "__main__":
    harness.main()
