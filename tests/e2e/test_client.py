#!/usr/bin/env python3
"""The verbs that talk to a daemon, against a fake daemon with answers of the test."""
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading

import harness
import test_reports

RUN = "0197c2f4-7d1a-7000-8000-00000000000a"
NOW = 4000000000.0


def job(job_id="nightly", **more):
    return dict({"run_id": RUN, "job_id": job_id, "outcome": "success", "started_at": NOW,
                 "ended_at": NOW + 5, "exit_code": 0}, **more)


def event(number, **more):
    """An event whose time and pid are the number."""
    return dict({"timestamp": NOW + number, "pid": 1000 + number, "event_type": "exit",
                 "exit_code": 0, "job_id": "nightly", "run_id": RUN}, **more)


def envelope(name, data, **more):
    return dict({"event": name, "timestamp": data.get("timestamp", NOW),
                 "job_id": data.get("job_id"), "sheet_num": None, "data": data}, **more)


class RpcError(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class FakeDaemon:
    """Answers by a table of methods: a value, or a function of the parameters."""

    def __init__(self, path, answers):
        self.path = path
        self.answers = answers
        self.asked = []
        self.streams = []
        self.connections = []
        self.lock = threading.Lock()
        self.listener = socket.socket(socket.AF_UNIX)
        if os.path.exists(path):
            os.unlink(path)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        self.listener.bind(path)
        self.listener.listen(8)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            with self.lock:
                self.connections.append(connection)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            with connection.makefile("rb") as lines:
                for line in lines:
                    request = json.loads(line)
                    self.send(connection, self.answer(request))
                    if request["method"] == "daemon.monitor.stream":
                        with self.lock:
                            self.streams.append(connection)
        except OSError:
            pass

    def answer(self, request):
        params = request.get("params", {})
        with self.lock:
            self.asked.append((request["method"], params))
        answer = self.answers.get(request["method"])
        try:
            if request["method"] not in self.answers:
                raise RpcError(-32601, "no such method")
            result = answer(params) if callable(answer) else answer
            return {"jsonrpc": "2.0", "id": request["id"], "result": result}
        except RpcError as error:
            return {"jsonrpc": "2.0", "id": request["id"],
                    "error": {"code": error.code, "message": str(error)}}

    @staticmethod
    def send(connection, message):
        connection.sendall(json.dumps(message).encode() + b"\n")

    def publish(self, news):
        """Sends the event to all streams, once there is one."""
        harness.wait_until(lambda: self.streams, "no client has requested a stream")
        for stream in self.streams:
            self.send(stream, {"jsonrpc": "2.0", "method": "monitor.event", "params": news})

    def stop(self):
        if self.listener.fileno() < 0:
            return
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            connection.close()


class ClientTestCase(test_reports.StoredTestCase):
    def setUp(self):
        super().setUp()
        self.socket = os.path.join(self.state, "sonde.sock")

    def serve(self, path=None, **answers):
        daemon = FakeDaemon(path or self.socket,
                            {name.replace("__", "."): value for name, value in answers.items()})
        self.addCleanup(daemon.stop)
        return daemon

    def follow(self, *words, **options):
        """Starts `sonde events --follow`, with its output in a file."""
        self.errors = self.path("follow-errors")
        with open(self.errors, "wb") as errors:
            return self.start(harness.SONDE, "events", "--follow", *words, stdin=None,
                              stderr=errors, **options)

    def said(self):
        return pathlib.Path(self.errors).read_text(encoding="utf-8")

    def end(self, process):
        """Ends it with Ctrl-C."""
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(harness.DEADLINE), -signal.SIGINT)
        self.check_sanitizers(self.said().encode())


class Reading(ClientTestCase):
    def test_daemon_answers(self):
        daemon = self.serve(job__list=[job()], events__list=[event(1)])
        self.assertEqual([each["job_id"] for each in self.json("jobs", "--type", "make")],
                         ["nightly"])
        self.assertEqual(daemon.asked[-1], ("job.list", {"type": "make", "limit": 20}))
        self.assertRegex(self.text("jobs"), r"(?m)^nightly +success ")
        self.assertEqual(self.json("events", "--job", "nightly")[0]["pid"], 1001)
        self.assertEqual(daemon.asked[-1], ("events.list", {"job": "nightly", "limit": 50}))

    def test_daemon_and_database_give_the_same_output(self):
        self.store("real", "sh", "-c", "sleep 0.1; exit 3", status=3,
                   options=["--interval", "20ms", "--sheet", "2"])
        own = {"job.list": self.json("jobs"), "report.job": self.json("report"),
               "events.list": self.json("events"), "report.machine": self.json("report", "--since",
                                                                                "1h")}
        text = [self.text("jobs"), self.text("events"), self.text("report")]
        self.serve(**{name.replace(".", "__"): value for name, value in own.items()})
        self.assertEqual(own["job.list"], self.json("jobs"))
        self.assertEqual(own["report.job"], self.json("report"))
        self.assertEqual(own["events.list"], self.json("events"))
        self.assertEqual(own["report.machine"], self.json("report", "--since", "1h"))
        self.assertEqual(text, [self.text("jobs"), self.text("events"), self.text("report")])

    def test_failed_daemon_is_named(self):
        def not_found(_):
            raise RpcError(-32000, "no such job")
        self.serve(job__list=[], events__list=not_found, report__job=not_found)
        for words in (["jobs"], ["report"], ["report", "x"], ["events", "--job", "x"]):
            with self.subTest(words=words):
                self.assertIn(f"(from the daemon at '{self.socket}')",
                              self.ask(*words, status=3).stderr)
        self.assertEqual(self.text("jobs", "--json"), "[]\n")

    def test_daemon_of_another_user(self):
        def refuse(_):
            raise RpcError(-32004, "job 'x' belongs to another user")
        self.serve(report__job=refuse)
        self.assertIn("belongs to another user", self.ask("report", "x", status=1).stderr)

    def test_named_socket_without_a_daemon(self):
        self.store("own", "true")
        result = self.run_sonde("jobs", "--socket", self.path("none.sock"))
        self.assertEqual(result.status, 0, result)
        self.assertIn(b"own ", result.stdout)
        self.assertIn(f"no daemon at '{self.path('none.sock')}'; reading '",
                      result.stderr)

    def test_database_instead_of_an_old_daemon(self):
        self.store("own", "true")
        self.serve()
        result = self.run_sonde("jobs", "--json")
        self.assertEqual([each["job_id"] for each in json.loads(result.stdout)], ["own"])
        self.assertIn("has another version", result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1)

    def test_neither_answers(self):
        """The message names both: the daemon that cannot answer, and the missing database."""
        def fail(_):
            raise RpcError(-32603, "no memory left")
        self.serve(job__list=fail, events__list=fail, report__job=fail)
        for words in (["jobs"], ["events"], ["report", "x"]):
            with self.subTest(words=words):
                stderr = self.ask(*words, status=1).stderr
                self.assertIn("no memory left; and there is no data yet in", stderr)
                self.assertIn(os.path.join(self.state, "monitor.db"), stderr)

    @harness.needs_root()
    @harness.needs_program("setpriv")
    def test_daemon_denies_access(self):
        path = os.path.join(self.open_directory(), "sonde.sock")
        self.serve(path)
        os.chmod(path, 0o600)
        state = os.path.join(self.open_directory(), "state")
        environment = dict(self.environment, SONDE_STATE_DIR=state, SONDE_SOCKET=path)
        result = self.ask("jobs", status=1, prefix=harness.unprivileged(), env=environment)
        self.assertIn("does not admit this user; see daemon.access", result.stderr)
        self.assertIn("no data yet in", result.stderr)
        self.assertIn("daemon.access",
                      self.ask("status", status=1, prefix=harness.unprivileged(),
                               env=environment).stderr)

    @harness.needs_root()
    @harness.needs_program("setpriv")
    def test_socket_in_a_closed_directory(self):
        """It is unknown whether there is a daemon: no daemon has refused the user."""
        directory = os.path.join(self.open_directory(), "closed")
        os.mkdir(directory, 0o700)
        path = os.path.join(directory, "sonde.sock")
        state = os.path.join(self.open_directory(), "state")
        os.mkdir(state, 0o700)
        os.chown(state, harness.UNPRIVILEGED_UID, harness.UNPRIVILEGED_UID)
        environment = dict(self.environment, SONDE_STATE_DIR=state, SONDE_SOCKET=path)
        self.ask("run", "-q", "--", "true", prefix=harness.unprivileged(), env=environment)
        result = self.run_sonde("jobs", prefix=harness.unprivileged(), env=environment)
        self.assertEqual(result.stderr, f"sonde: cannot connect to '{path}': Permission denied; "
                                        f"reading '{state}/monitor.db' instead\n")

    def test_error_reply_to_a_list(self):
        """A daemon's message is shown, also if its code means a missing job."""
        def fail(_):
            raise RpcError(-32000, "out of pencils")
        self.serve(job__list=fail, analyze__run=fail, estimate__job=fail)
        for words in (["jobs"], ["analyze"], ["estimate", "x"]):
            with self.subTest(words=words):
                self.assertEqual(self.ask(*words, status=1).stderr,
                                 f"sonde: {words[0]}: the daemon at '{self.socket}' returned an "
                                 "error: out of pencils\n")

    @harness.needs_root()
    @harness.needs_program("setpriv")
    def test_socket_of_another_user_is_not_trusted(self):
        path = os.path.join(self.open_directory(), "sonde.sock")
        planted = self.start(*harness.unprivileged(), "python3", "-c",
                             "import socket, sys\ns = socket.socket(socket.AF_UNIX)\n"
                             f"s.bind({path!r})\ns.listen()\nprint('ready 1', flush=True)\n"
                             "sys.stdin.read()")
        self.await_ready(planted)
        self.assertIn("not connecting", self.ask("status", "--socket", path, status=1).stderr)


class Status(ClientTestCase):
    STATUS = {"version": "0.1.0", "pid": 77, "uptime_seconds": 61.5, "collector": "procfs",
              "interval_seconds": 5, "exact": ["births"], "not_exact": ["peaks: sampled"],
              "losses": {"missed_ticks": 3}, "pressure_level": "none", "running_jobs": 1,
              "gaps": [{"kind": "suspend", "timestamp": NOW, "seconds": 9}], "new_field": 1}

    def test_text_and_json(self):
        self.serve(daemon__status=self.STATUS)
        text = self.text("status")
        self.assertRegex(text, r"^daemon: running for 1 m 01 s, pid 77, version 0\.1\.0")
        self.assertIn("\n  LOST       3 ticks missed\n", text)
        self.assertIn("\ngaps\n", text)
        status = self.json("status")
        self.assertEqual((status["pid"], status["losses"]["missed_ticks"]), (77, 3))
        self.assertIsNone(status["losses"]["events_not_stored"])
        self.assertIn("\x1b[31m3 ticks missed", self.on_terminal("status"))

    def test_no_daemon(self):
        for more in ([], ["--json"]):
            stderr = self.ask("status", *more, status=3).stderr
            self.assertIn(f"no daemon is running (looked at '{self.socket}')", stderr)
            self.assertIn("sonde daemon", stderr)
        environment = {name: value for name, value in self.environment.items()
                       if name != "SONDE_STATE_DIR"}
        if not os.path.exists("/run/sonde/sonde.sock"):
            self.assertIn("/run/sonde/sonde.sock",
                          self.ask("status", status=3, env=environment).stderr)

    def test_stale_socket_is_no_daemon(self):
        self.serve().stop()
        self.assertTrue(os.path.exists(self.socket))
        self.assertIn("no daemon is running", self.ask("status", status=3).stderr)

    def test_daemon_that_answers_with_an_error(self):
        def fail(_):
            raise RpcError(-32603, "no memory left")
        self.serve(daemon__status=fail)
        stderr = self.ask("status", status=1).stderr
        self.assertIn(f"'{self.socket}'", stderr)
        self.assertIn("no memory left", stderr)

    def test_daemon_that_answers_something_else(self):
        self.serve(daemon__status=dict(self.STATUS, pid="many"))
        stderr = self.ask("status", status=1).stderr
        self.assertIn(f"'{self.socket}'", stderr)
        self.assertIn("pid: expected", stderr)

    def test_daemon_that_closes_the_connection(self):
        os.makedirs(self.state, 0o700, exist_ok=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.socket)
            listener.listen()
            closer = threading.Thread(target=lambda: listener.accept()[0].close())
            closer.start()
            stderr = self.ask("status", status=1).stderr
            closer.join()
        self.assertIn(self.socket, stderr)

    def test_a_path_that_is_too_long(self):
        self.assertIn("longer than 107 bytes",
                      self.ask("status", "--socket", "/" + "x" * 120, status=1).stderr)

    def test_wrong_usage(self):
        self.assertIn("'extra'", self.refused("status", "extra"))


class Admit(ClientTestCase):
    YES = {"allowed": True, "delay_seconds": 0, "level": "none", "reason": ""}
    NO = {"allowed": False, "delay_seconds": 0, "level": "high", "reason": "jobs use it\x1b all"}

    def test_yes_and_no(self):
        daemon = self.serve(pressure__should_accept_job=self.YES)
        self.assertEqual(self.text("admit"), "yes\n")
        self.assertEqual(daemon.asked, [("pressure.should_accept_job", {})])
        self.assertEqual(self.json("admit", "--type", "make test"),
                         {"allowed": True, "delay_seconds": 0, "level": "none", "reason": None})
        self.assertEqual(daemon.asked[-1][1], {"job_type": "make test"})
        daemon.answers["pressure.should_accept_job"] = self.NO
        result = self.run_sonde("admit")
        self.assertEqual((result.status, result.stdout, result.stderr),
                         (75, b"no: jobs use it\\x1b all\n", ""))
        result = self.run_sonde("admit", "--json")
        self.assertEqual(result.status, 75)
        self.assertEqual(json.loads(result.stdout)["level"], "high")

    def test_wait(self):
        answers = [self.NO, self.YES]
        daemon = self.serve(pressure__should_accept_job=lambda _: answers.pop(0))
        result = self.run_sonde("admit", "--wait", "--timeout", "30s")
        self.assertEqual((result.status, result.stdout), (0, b"yes\n"), result)
        self.assertEqual(result.stderr,
                         "sonde: waiting until a job may start: jobs use it\\x1b all\n")
        self.assertEqual(len(daemon.asked), 2)

    def test_timeout(self):
        self.serve(pressure__should_accept_job=self.NO)
        result = self.run_sonde("admit", "--wait", "--timeout", "10ms")
        self.assertEqual((result.status, result.stdout), (75, b"no: jobs use it\\x1b all\n"))
        # On a busy machine the timeout may pass before the first answer.
        waits = "sonde: waiting until a job may start: jobs use it\\x1b all\n"
        self.assertIn(result.stderr, ("", waits))

    def assert_refused(self, words):
        result = self.run_sonde("admit", "--json")
        answer = harness.strict_json(result.stdout.decode())
        self.assertEqual((result.status, answer["allowed"], answer["level"]),
                         (75, False, "critical"), result)
        self.assertIn(words, answer["reason"])

    def test_daemon_returns_an_error(self):
        """Without an answer nothing is judged; the daemon's lack of memory may be the reason."""
        def fail(_):
            raise RpcError(-32603, "no\x1b memory left")
        daemon = self.serve(pressure__should_accept_job=fail)
        self.assert_refused("returned an error: no\x1b memory left")
        self.assertEqual(self.run_sonde("admit").stdout.count(b"\x1b"), 0)
        for nonsense in (None, 5, {}, {"allowed": "maybe"}):
            daemon.answers["pressure.should_accept_job"] = nonsense
            self.assert_refused("invalid answer")
        marker = self.path("marker")
        run = self.start(harness.SONDE, "run", "--admit", "--", "touch", marker,
                         stderr=subprocess.DEVNULL)
        harness.wait_until(lambda: len(daemon.asked) > 6, "it asks")
        self.assertFalse(os.path.exists(marker))
        run.terminate()
        run.wait()

    def test_a_daemon_that_does_not_answer(self):
        os.makedirs(self.state, mode=0o700)
        with socket.socket(socket.AF_UNIX) as mute:
            mute.bind(self.socket)
            mute.listen(8)
            self.assert_refused("does not answer within")

    def test_without_a_daemon(self):
        result = self.run_sonde("admit", "--json")
        answer = harness.strict_json(result.stdout.decode())
        self.assertEqual(result.status, 0 if answer["allowed"] else 75)
        self.assertEqual(result.stderr, "")
        if answer["allowed"]:
            self.assertEqual(answer["reason"], "no daemon: decided by free memory alone")

    def test_wrong_usage(self):
        self.assertIn("needs --wait", self.refused("admit", "--timeout", "5s"))
        self.assertIn("is not a duration", self.refused("admit", "--wait", "--timeout", "soon"))
        self.assertIn("control character", self.refused("admit", "--type", "a\nb"))
        self.assertIn("'make'", self.refused("admit", "make"))


class Follow(ClientTestCase):
    def read_lines(self, process, count):
        return [process.stdout.readline().decode() for _ in range(count)]

    def test_stored_and_new_events(self):
        # 3 is stored and in memory, 4 not stored yet, 5 is in memory and comes through the stream
        daemon = self.serve(daemon__monitor__stream={}, events__list=[event(1), event(2), event(3)],
                            daemon__events=[event(3), event(4), event(5)])
        process = self.follow()
        lines = self.read_lines(process, 5)
        for number, line in enumerate(lines, 1):
            self.assertIn(f"  {1000 + number}  nightly ", line)
        daemon.publish(envelope("process.exit", event(5)))
        daemon.publish(envelope("process.kill", event(6, event_type="kill", signal_num=9,
                                                   exit_code=None, command="a\x1bb")))
        daemon.publish(envelope("monitor.anomaly", {"timestamp": NOW, "anomaly_type": "zombie",
                                                 "severity": "high", "description": "dead"}))
        daemon.publish(envelope("job.finished", job(outcome="failure", exit_code=2)))
        daemon.publish(envelope("sheet.started", {"run_id": RUN, "name": "link", "pid": 9,
                                               "exit_code": None, "resource_context": {}},
                             job_id="nightly", sheet_num=4))
        lines = self.read_lines(process, 4)
        self.assertRegex(lines[0], r"  kill +1006  nightly       SIGKILL  a\\x1bb\n$")
        self.assertRegex(lines[1], r"  anomaly +-  -             high zombie: dead\n$")
        self.assertRegex(lines[2], r"  job +-  nightly       finished: failure, exit status 2\n$")
        self.assertRegex(lines[3], r"  step +9  nightly       4 started \(link\)\n$")
        self.end(process)
        self.assertEqual(self.said(), "")
        stream = next(params for name, params in daemon.asked if name == "daemon.monitor.stream")
        # Everything except snapshots.
        self.assertCountEqual(stream["events"], ["process.*", "monitor.anomaly",
                                                 "monitor.anomaly_cleared", "monitor.gap", "job.*",
                                                 "sheet.*"])

    def test_json(self):
        daemon = self.serve(daemon__monitor__stream={}, events__list=[event(1)], daemon__events=[])
        process = self.follow("--json")
        stored = harness.strict_json(self.read_lines(process, 1)[0])
        self.assertEqual((stored["event"], stored["job_id"], stored["data"]["pid"]),
                         ("process.exit", "nightly", 1001))
        notice = envelope("disk.full", {"anything": [1, None]})
        daemon.publish(notice)
        self.assertEqual(harness.strict_json(self.read_lines(process, 1)[0]), notice)
        self.end(process)

    def test_filters(self):
        daemon = self.serve(daemon__monitor__stream={}, events__list=[], daemon__events=[event(1)])
        process = self.follow("--job", "nightly", "--type", "kill", "--pid", "1004")
        for news in (envelope("process.exit", event(4)),
                     envelope("process.kill", event(3, event_type="kill")),
                     envelope("process.kill", event(4, event_type="kill", job_id="other",
                                                    run_id="x")),
                     envelope("job.started", job()),
                     envelope("process.kill", event(4, event_type="kill", details="this"))):
            daemon.publish(news)
        self.assertIn("this", self.read_lines(process, 1)[0])
        self.end(process)
        asked = next(params for name, params in daemon.asked if name == "events.list")
        self.assertEqual(asked, {"job": "nightly", "type": "kill", "pid": 1004, "limit": 10})

    def test_several_types(self):
        daemon = self.serve(daemon__monitor__stream={}, events__list=[], daemon__events=[event(1)])
        process = self.follow("-tkill", "--type=oom", "-t", "kill")
        for news in (envelope("process.exit", event(4)), envelope("job.started", job()),
                     envelope("process.kill", event(3, event_type="kill", details="first")),
                     envelope("process.oom", event(4, event_type="oom", details="second"))):
            daemon.publish(news)
        lines = self.read_lines(process, 2)
        self.assertIn("first", lines[0])
        self.assertIn("second", lines[1])
        self.end(process)
        asked = next(params for name, params in daemon.asked if name == "events.list")
        self.assertEqual(asked, {"types": ["kill", "oom"], "limit": 10})

    def test_events_that_the_client_drops(self):
        """More events arrive before an answer than the client keeps: it reports how many it lost."""
        def flood(_):
            for number in range(1, 1004):
                daemon.publish(envelope("process.exit", event(number)))
            return []
        daemon = self.serve(daemon__monitor__stream={}, events__list=[], daemon__events=flood)
        process = self.follow()
        lines = self.read_lines(process, 1000)
        self.assertIn(" 1004 ", lines[0])
        self.assertIn(" 2003 ", lines[-1])
        self.end(process)
        self.assertEqual(self.said(), "sonde: 3 events were dropped because they arrived too fast; "
                         "'sonde events' lists the stored ones\n")

    def test_only_new_events(self):
        daemon = self.serve(daemon__monitor__stream={})
        process = self.follow("-n", "0")
        daemon.publish(envelope("process.exit", event(1)))
        self.assertIn(" 1001 ", self.read_lines(process, 1)[0])
        self.assertEqual([name for name, _ in daemon.asked], ["daemon.monitor.stream"])
        self.end(process)

    def test_job_that_starts_later(self):
        def not_found(_):
            raise RpcError(-32000, "no such job")
        daemon = self.serve(daemon__monitor__stream={}, events__list=not_found, daemon__events=[])
        process = self.follow("--job", "nightly")
        daemon.publish(envelope("process.exit", event(1)))
        self.assertIn(" 1001 ", self.read_lines(process, 1)[0])
        self.end(process)
        self.assertIn("no job named 'nightly' yet; waiting for it", self.said())

    def test_daemon_restart(self):
        first = self.serve(daemon__monitor__stream={}, events__list=[], daemon__events=[])
        process = self.follow()
        first.publish(envelope("process.exit", event(1)))
        self.read_lines(process, 1)
        first.stop()
        harness.wait_until(lambda: "waiting for it to return" in self.said(), self.said)
        # The client reads the events that it missed.
        second = self.serve(daemon__monitor__stream={},
                            events__list=[event(2)], daemon__events=[event(1), event(3)])
        lines = self.read_lines(process, 2)
        self.assertIn(" 1002 ", lines[0])
        self.assertIn(" 1003 ", lines[1])
        second.publish(envelope("process.exit", event(4)))
        self.assertIn(" 1004 ", self.read_lines(process, 1)[0])
        self.end(process)
        self.assertEqual(self.said().count("\n"), 2, self.said())
        self.assertIn("is back", self.said())
        since = next(params for name, params in second.asked if name == "events.list")["since"]
        self.assertAlmostEqual(since, NOW + 1, places=4)

    def test_closed_output(self):
        daemon = self.serve(daemon__monitor__stream={}, events__list=[event(1)], daemon__events=[])
        process = self.follow()
        self.read_lines(process, 1)
        process.stdout.close()  # it notices without a further event
        self.assertEqual(process.wait(harness.DEADLINE), 0)
        self.assertEqual(self.said(), "")
        daemon.stop()

    def test_output_is_closed_after_one_line(self):
        daemon = self.serve(daemon__monitor__stream={}, events__list=[], daemon__events=[])
        script = self.start("sh", "-c", f"{harness.SONDE} events -f | head -n 1", stdin=None)
        daemon.publish(envelope("process.exit", event(1)))
        out, _ = script.communicate(timeout=harness.DEADLINE)
        self.assertEqual(out.count(b"\n"), 1)

    def test_a_full_disk(self):
        self.serve(daemon__monitor__stream={}, events__list=[event(1)], daemon__events=[])
        with open("/dev/full", "wb") as full:
            process = self.follow(stdout=full)
        self.assertEqual(process.wait(harness.DEADLINE), 1)
        self.assertIn("No space left on device", self.said())

    def test_no_daemon(self):
        for more in ([], ["--json"]):
            self.assertIn("--follow needs the daemon: no daemon is running",
                          self.ask("events", "--follow", *more, status=3).stderr)


if __name__ == "__main__":
    harness.main()
