#!/usr/bin/env python3
"""Many clients: size limits, connection limits, and rejected connections."""
import contextlib
import json
import re
import socket
import sqlite3
import threading

import clients
import daemon
import harness

BATCH_MAX = 100
DEPTH_MAX = 16
CONNECTIONS_PER_USER = 256
CONNECTIONS_MAX = 1024

PARSE_ERROR, INVALID_REQUEST, NO_METHOD = -32700, -32600, -32601

EVERYONE = "daemon:\n  access: everyone\n"


class Limits(clients.TestCase):
    def setUp(self):
        super().setUp()
        self.sonde = self.daemon()
        self.link = daemon.Rpc(self.sonde.socket)
        self.addCleanup(self.link.close)
        self.answered = []

    def padded(self, length):
        """A request of that length, without its newline."""
        line = clients.line_of(dict(clients.PING, id="padded")).rstrip()
        return line + b" " * (length - len(line))

    def test_line_of_the_largest_size(self):
        self.link.send(self.padded(clients.REQUEST_MAX_BYTES) + b"\n")
        self.assertEqual(self.link.read()["id"], "padded")
        self.link.send(self.padded(clients.REQUEST_MAX_BYTES) + b"\r\n")
        self.assertEqual(self.link.read()["id"], "padded")

    def test_line_that_is_one_byte_too_long(self):
        for has_stream in (False, True):
            with self.subTest(has_stream=has_stream), daemon.Rpc(self.sonde.socket) as link:
                if has_stream:
                    link.call("daemon.monitor.stream", events=["job.*"])
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    link.send(self.padded(clients.REQUEST_MAX_BYTES + 1) + b"\n")
                error = link.read()["error"]
                self.assertEqual(error["code"], INVALID_REQUEST)
                self.assertIn("1 MiB", error["message"])
                self.assert_closed(link)
        self.assert_serves(self.sonde)

    def test_answers_before_a_line_that_is_too_long(self):
        """Valid requests before it are answered."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            pings = [clients.line_of(dict(clients.PING, id=number)) for number in range(50)]
            self.link.send(b"".join(pings) + b"x" * (clients.REQUEST_MAX_BYTES + 1000))
        for number in range(50):
            self.assertEqual(self.link.read()["id"], number)
        self.assertEqual(self.link.read()["error"]["code"], INVALID_REQUEST)
        self.assert_closed(self.link)

    def test_endless_line(self):
        pid = self.sonde.pid
        before_kb = clients.rss_kb(pid)
        with self.assertRaises((BrokenPipeError, ConnectionResetError)):
            for _ in range(64):
                self.link.send(b"[" * (1 << 20))
        if not harness.is_sanitized():
            self.assertLess(clients.rss_kb(pid), before_kb + 8192)
        self.assert_serves(self.sonde)

    def test_batch(self):
        self.link.send([dict(clients.PING, id=number) for number in range(BATCH_MAX)])
        self.assertEqual([answer["id"] for answer in self.link.read()], list(range(BATCH_MAX)))
        self.link.send([dict(clients.PING, id=number) for number in range(BATCH_MAX + 1)])
        error = self.link.read()
        self.assertEqual((error["id"], error["error"]["code"]), (None, INVALID_REQUEST))
        self.assertIn(f"at most {BATCH_MAX}", error["error"]["message"])
        self.link.send([])
        self.assertEqual(self.link.read()["error"]["code"], INVALID_REQUEST)
        notification = {"jsonrpc": "2.0", "method": "pressure.current"}
        self.link.send([notification] * BATCH_MAX)
        self.link.send([1, notification, dict(clients.PING, id="last"),
                        dict(clients.PING, method="no", id=2)])
        first, second, third = self.link.read()
        self.assertEqual((first["id"], first["error"]["code"]), (None, INVALID_REQUEST))
        self.assertEqual(second["id"], "last")
        self.assertEqual((third["id"], third["error"]["code"]), (2, NO_METHOD))

    def test_answers_of_a_batch_are_bounded(self):
        """Many large answers at once, to clients that do not read them."""
        self.crowd(100)
        self.sonde.configure(clients.SCOPE_ALL)
        self.sonde.rpc("daemon.reload")
        self.sonde.await_snapshots(2)
        size = len(json.dumps(self.sonde.top()))
        pid = self.sonde.pid
        before_kb = clients.rss_kb(pid)
        links = [self.sonde.connect() for _ in range(20)]
        for link in links:
            link.send([dict(clients.PING, method="daemon.top", id=i) for i in range(BATCH_MAX)])
        self.assert_serves(self.sonde)
        grown_kb = clients.rss_kb(pid) - before_kb
        if not harness.is_sanitized():
            self.assertLess(grown_kb, 100 * 1024, f"20 × {BATCH_MAX} × {size} bytes")
        answers = links[0].read()
        self.assertEqual(len(answers), BATCH_MAX)
        self.assertIn("result", answers[0])

    def test_depth(self):
        def nested(depth):
            """A request with lists of that depth, including itself."""
            return (b'{"jsonrpc":"2.0","id":1,"method":"daemon.monitor.stream","params":'
                    b'{"events":' + b"[" * (depth - 2) + b"]" * (depth - 2) + b"}}\n")
        self.link.send(nested(DEPTH_MAX))
        self.assertEqual(self.link.read()["error"]["code"], clients.INVALID_PARAMS)
        for depth in (DEPTH_MAX + 1, 1000, 400000):
            with self.subTest(depth=depth):
                self.link.send(nested(depth))
                error = self.link.read()["error"]
                self.assertEqual(error["code"], PARSE_ERROR)
                self.assertIn("deeper", error["message"])
        for opener in (b"[", b'{"a":'):
            self.link.send(opener * 100000 + b"\n")
            self.assertEqual(self.link.read()["error"]["code"], PARSE_ERROR)
        self.link.send(b"[" + b"1," * 30000 + b"1]\n")
        self.assertEqual(self.link.read()["error"]["code"], PARSE_ERROR)
        self.assert_serves(self.sonde)

    def test_ids_are_given_back_as_they_came(self):
        for identity in (b"1", b"-0", b"1e4", b"12345678901234567", b'"x"', b'"\\u00e4"',
                         b'"\\ud83d\\ude00"', b'""', b"1.50"):
            with self.subTest(id=identity):
                self.link.send(b'{"jsonrpc":"2.0","id":' + identity +
                               b',"method":"pressure.current"}\n')
                self.assertIn(b'"id":' + identity, self.link.read_line().replace(b" ", b""))
        for identity in (b"[]", b"{}", b"true", b'"' + b"x" * 300 + b'"'):
            with self.subTest(id=identity):
                self.link.send(b'{"jsonrpc":"2.0","id":' + identity +
                               b',"method":"pressure.current"}\n')
                self.assertEqual(self.link.read()["error"]["code"], INVALID_REQUEST)

    def test_ten_thousand_requests_before_the_first_answer_is_read(self):
        count = 10000
        pid = self.sonde.pid
        self.sonde.await_snapshots(2)
        before_kb = clients.rss_kb(pid)
        requests = b"".join(clients.line_of(dict(clients.PING, id=i, method="daemon.status"))
                            for i in range(count))
        sender = threading.Thread(target=self.link.send, args=(requests,))
        sender.start()
        # The sender blocks because it does not read: other clients are served.
        self.sonde.await_snapshots(10)
        self.assertTrue(sender.is_alive())
        if not harness.is_sanitized():
            self.assertLess(clients.rss_kb(pid), before_kb + 8192)
        for number in range(count):
            self.assertEqual(self.link.read()["id"], number)
        sender.join()
        self.assert_ticks(self.sonde)

    def test_many_requests_do_not_delay_ticks(self):
        """Clients that send and read as fast as they can: ticks happen between their answers."""
        for number in range(20):
            self.sonde.rpc("job.start", job_id=f"job-{number}")
            self.sonde.rpc("job.finish", job_id=f"job-{number}", outcome="success")
        self.await_rows("SELECT 1 FROM jobs WHERE job_id = 'job-19' AND outcome = 'success'")
        is_enough = threading.Event()
        askers = [threading.Thread(target=self.ask_in_a_row, args=(is_enough,)) for _ in range(8)]
        for asker in askers:
            asker.start()
        try:
            self.sonde.await_snapshots(10)
            self.assertTrue(all(asker.is_alive() for asker in askers))
        finally:
            is_enough.set()
        for asker in askers:
            asker.join()
        self.assertEqual(len(self.answered), 8)
        self.assert_ticks(self.sonde)

    def test_half_a_line_behind_a_slow_answer(self):
        """While the daemon waits for an answer to a client, it reads nothing from that client: the
        rest of the client's next line is not late."""
        self.sonde.configure(clients.IMPATIENT)
        self.sonde.rpc("daemon.reload")
        for number in range(2):
            self.link.call("job.start", job_id=f"job-{number}")
        with contextlib.closing(sqlite3.connect(self.database, isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")  # so that each end waits for the longest time
            ends = [dict(clients.PING, id=number, method="job.finish",
                         params={"job_id": f"job-{number}", "outcome": "success"})
                    for number in range(2)]
            self.link.send(clients.line_of(ends) + b'{"jsonrpc"')
            self.assertEqual([answer["id"] for answer in self.link.read()], list(range(2)))
            db.execute("ROLLBACK")

    def ask_in_a_row(self, is_enough):
        """Sends rounds of requests, each as a whole, until the condition holds."""
        count = 800
        questions = b"".join(
            clients.line_of(dict(clients.PING, id=i, method=("job.list", "report.job")[i % 2]))
            for i in range(count))
        with daemon.Rpc(self.sonde.socket) as link:
            while not is_enough.is_set():
                sender = threading.Thread(target=link.send, args=(questions,))
                sender.start()
                for i in range(count):
                    answer = json.loads(link.read_line())
                    assert answer["id"] == i and "result" in answer, answer
                sender.join()
        self.answered.append(True)

    def test_half_close(self):
        """`… | nc -N`: a client that sends no more requests gets its answers, small or large."""
        self.crowd(50)
        self.sonde.configure(clients.SCOPE_ALL)
        self.sonde.rpc("daemon.reload")
        self.sonde.await_snapshots(2)
        for method, count in (("pressure.current", 5000), ("daemon.top", 100)):
            with self.subTest(method=method), daemon.Rpc(self.sonde.socket) as link:
                requests = b"".join(clients.line_of(dict(clients.PING, id=i, method=method))
                                    for i in range(count))
                sender = threading.Thread(target=self.send_and_end, args=(link, requests))
                sender.start()
                ids = []
                for line in iter(link.read_line, None):
                    ids.append(json.loads(line)["id"])
                sender.join()
                self.assertEqual(ids, list(range(count)))
        harness.wait_until(lambda: self.status(self.sonde)["connections"] <= 2, "they are gone")

    def test_half_close_of_a_stream(self):
        with daemon.Rpc(self.sonde.socket) as link:
            link.send(dict(clients.PING, method="daemon.top.stream"))
            link.link.shutdown(socket.SHUT_WR)
            self.assertIn("result", link.read())
            for _ in range(3):
                self.assertEqual(link.notice()["event"], "monitor.snapshot")
        harness.wait_until(lambda: self.status(self.sonde)["subscribers"] == 0, "it is gone")

    def test_half_close_of_a_quiet_stream(self):
        """The daemon notices it even if there is never anything to send."""
        self.sonde.configure(clients.IMPATIENT)
        self.sonde.rpc("daemon.reload")
        for _ in range(20):
            with daemon.Rpc(self.sonde.socket) as link:
                link.call("daemon.monitor.stream", events=["process.oom"])
                link.link.shutdown(socket.SHUT_WR)
        harness.wait_until(lambda: self.status(self.sonde)["subscribers"] == 0, "they are gone")

    def test_reported_run_can_be_read_at_once(self):
        for number in range(20):
            run_id = self.link.call("job.start", job_id=f"job-{number}")["run_id"]
            self.assertEqual(self.link.call("report.job", job=run_id)["job"]["outcome"], "running")
            self.link.call("job.finish", job_id=run_id, outcome="success")
            latest = self.link.call("job.list", limit=1)
            self.assertEqual([(job["run_id"], job["outcome"]) for job in latest],
                             [(run_id, "success")])

    def send_and_end(self, link, requests):
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            link.send(requests)
            link.link.shutdown(socket.SHUT_WR)


class Connections(clients.TestCase):
    @harness.needs_root()
    def test_per_user(self):
        self.environment["SONDE_SOCKET"] = self.path("run/sonde.sock")
        sonde = self.daemon(EVERYONE)
        with clients.as_user(harness.UNPRIVILEGED_UID):
            links = [sonde.connect() for _ in range(CONNECTIONS_PER_USER)]
        for link in links:
            self.assertIn("result", link.request("pressure.current"))
        with clients.as_user(harness.UNPRIVILEGED_UID):
            refused = sonde.connect()
        error = refused.read()["error"]
        self.assertEqual(error["code"], clients.EXHAUSTED)
        self.assertIn("of this user", error["message"])
        self.assert_closed(refused)
        for uid in (0, 12345):
            with clients.as_user(uid):
                other = sonde.connect()
            self.assertIn("result", other.request("pressure.current"))
        self.assertEqual(self.status(sonde)["losses"]["connections_refused"], 1)
        self.assertIn("1 connection refused", self.run_sonde("status").stdout.decode())
        links.pop().close()
        harness.wait_until(lambda: self.status(sonde)["connections"] <= CONNECTIONS_PER_USER + 2,
                           "it is gone")
        with clients.as_user(harness.UNPRIVILEGED_UID):
            again = sonde.connect()
        self.assertIn("result", again.request("pressure.current"))

    @harness.needs_root()
    def test_in_all(self):
        """Also root's, so that memory is bounded; accepting continues when there is room again."""
        sonde = self.daemon()
        sonde.rpc("pressure.current")
        links, refused = [], 0
        for _ in range(CONNECTIONS_MAX + 100):
            link = sonde.connect()
            links.append(link)
            with contextlib.suppress(BrokenPipeError):
                link.send(clients.PING)
            answer = link.read()
            refused += "error" in answer
            if "error" in answer:
                self.assertEqual(answer["error"]["code"], clients.EXHAUSTED)
        self.assertEqual(len(links) - refused, CONNECTIONS_MAX - 1)
        self.assertEqual(self.status(sonde)["losses"]["connections_refused"], refused)
        for link in links:
            link.close()
        harness.wait_until(lambda: self.status(sonde)["connections"] == 1, "they are gone")
        self.assert_serves(sonde)
        sonde.stop()

    def test_flood(self):
        sonde = self.daemon(interval=0.1)
        pid = sonde.pid
        self.assert_serves(sonde)
        sockets = clients.open_sockets(pid)
        for number in range(2000):
            with socket.socket(socket.AF_UNIX) as link:
                link.connect(sonde.socket)
                link.send(b"{" if number % 2 else clients.line_of(clients.PING))
        harness.wait_until(lambda: self.status(sonde)["connections"] == 1, "they are gone")
        self.assertLessEqual(clients.open_sockets(pid), sockets)
        self.assert_ticks(sonde)
        self.assert_serves(sonde)
        sonde.stop()

    def test_descriptors_run_out(self):
        """The daemon survives, logs it, keeps sampling and storing, and later accepts again."""
        prefix = ("sh", "-c", 'ulimit -n 96; exec "$@"', "sh")
        sonde = self.daemon(prefix=prefix)
        before = self.status(sonde)
        links = []
        for _ in range(100):
            # All of them fit into the socket's queue, so that none has to wait.
            link = socket.socket(socket.AF_UNIX)
            links.append(link)
            link.connect(sonde.socket)
            link.send(clients.line_of(clients.PING))
        harness.wait_until(lambda: self.status(sonde)["losses"]["connections_refused"],
                           "it refuses")
        harness.wait_until(lambda: self.status(sonde)["snapshots"] >= before["snapshots"] + 10,
                           lambda: f"it samples: {self.status(sonde)} {sonde.log}")
        status = self.status(sonde)
        self.assertEqual(status["losses"]["failed_collections"], 0)
        self.await_rows("SELECT 1 FROM snapshots WHERE timestamp > ?",
                        status["last_snapshot_at"] - 0.5)
        self.assertGreater(status["connections"], 8)
        said = re.findall(r"level=(?:warning|error) .*(?:too many|descriptors)", sonde.log)
        self.assertTrue(1 <= len(said) <= 20, sonde.log)
        for link in links:
            link.close()
        # At the latest with its next check.
        harness.wait_until(lambda: self.can_ask(sonde), "it serves again")
        self.assert_serves(sonde)
        sonde.stop()

    def can_ask(self, sonde):
        try:
            with daemon.Rpc(sonde.socket) as link:
                return "result" in link.request("pressure.current")
        except OSError:
            return False


if __name__ == "__main__":
    harness.main()
