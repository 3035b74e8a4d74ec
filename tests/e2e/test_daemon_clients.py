#!/usr/bin/env python3
"""Many clients, and bad ones: streams, limits, clients that do not read, garbage.

SONDE_STORM is how many messages the storm of malformed ones has (200,000)."""
import contextlib
import json
import os
import random
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import threading
import time

import daemon
import harness

STORM_MESSAGES = int(os.environ.get("SONDE_STORM", "200000"))

REQUEST_MAX_BYTES = 1 << 20
BATCH_MAX = 100
DEPTH_MAX = 16
STREAMS_MAX = 4
CONNECTIONS_PER_USER = 256
CONNECTIONS_MAX = 1024
STALL_SECONDS = 30
SWEEP_SECONDS = 5

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602
EXHAUSTED = -32001

SCOPE_ALL = "profiler:\n  scope: all\n"
EVERYONE = "daemon:\n  access: everyone\n"
PING = {"jsonrpc": "2.0", "id": 1, "method": "pressure.current"}
SNAPSHOT_ID = re.compile(rb'"id":(\d+)')


def line_of(value):
    return json.dumps(value).encode() + b"\n"


def rss_kb(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


def open_sockets(pid):
    """Those of processes that are watched are open as well, and come and go with them."""
    count = 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            count += os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:")
    return count


@contextlib.contextmanager
def as_user(uid):
    """Who connects meanwhile is this user, by the kernel's word."""
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


class ClientsTestCase(daemon.TestCase):
    def setUp(self):
        super().setUp()
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, limit)

    def status(self, sonde):
        return sonde.rpc("daemon.status")

    def crowd(self, count, width=400):
        """Sleeping processes whose long names make every snapshot large."""
        for i in range(count):
            self.start(f"{i:04}-" + "x" * width, "1000", executable="/bin/sleep",
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def sleeper(self):
        return self.start("sleep", "1000", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def assert_serves(self, sonde):
        """It answers, and takes a further snapshot."""
        with daemon.Rpc(sonde.socket) as link:
            self.assertEqual(link.request("pressure.current")["id"], 1)
        sonde.await_snapshots(1)

    def assert_closed(self, link, timeout=harness.DEADLINE):
        """After what there still is to read."""
        with contextlib.suppress(ConnectionResetError):
            while link.read_line(timeout) is not None:
                pass


# ---- streams ----


class Reader:
    """A stream as bytes: the ids of its snapshots, without looking at the rest."""

    def __init__(self, sonde, **params):
        self.link = sonde.top_stream(**params)
        self.ids = []
        self.pieces = [self.link.buffer]
        self.ids += [notice["data"]["id"] for notice in self.link.notices]
        self.link.link.setblocking(False)

    def fileno(self):
        return self.link.link.fileno()

    def take(self):
        """All that has come. False: it was closed."""
        while True:
            try:
                piece = self.link.link.recv(1 << 20)
            except BlockingIOError:
                return True
            if not piece:
                return False
            end = piece.rfind(b"\n")
            if end < 0:
                self.pieces.append(piece)
                continue
            lines = b"".join(self.pieces) + piece[:end]
            self.ids += [int(SNAPSHOT_ID.search(line).group(1)) for line in lines.split(b"\n")]
            self.pieces = [piece[end + 1:]]


def read_for(readers, is_done):
    """Takes whatever comes to them until it is done."""
    poller = select.epoll()
    by_fd = {reader.fileno(): reader for reader in readers}
    for fd in by_fd:
        poller.register(fd, select.EPOLLIN)
    while not is_done():
        for fd, _ in poller.poll(0.1):
            if not by_fd[fd].take():
                poller.unregister(fd)
    poller.close()


class Streams(ClientsTestCase):
    # From when on memory is not to grow any more, and by how much it may: the kernel hands pages
    # out in larger pieces, and the store's cache fills slowly.
    GROWTH_KB = 4096

    def test_hundred_of_which_twenty_never_read(self):
        self.crowd(150)
        sonde = self.daemon(SCOPE_ALL, interval=0.1)
        pid = sonde.pid
        dead = [sonde.top_stream() for _ in range(20)]
        readers = [Reader(sonde) for _ in range(80)]
        self.assertEqual(self.status(sonde)["subscribers"], 100)

        def has_dropped(count):
            return lambda: self.status(sonde)["losses"]["stream_events_dropped"] > count
        read_for(readers, has_dropped(20 * 10))
        before_kb = rss_kb(pid)
        read_for(readers, has_dropped(20 * 40))
        after_kb = rss_kb(pid)
        if not harness.is_sanitized():
            self.assertLess(after_kb, before_kb + self.GROWTH_KB)
            # Eight megabytes of snapshots that all of them share, and what a daemon has anyway.
            self.assertLess(after_kb, 48 * 1024)
        self.check_drops(sonde)
        self.check_dead(dead[0])
        end = self.status(sonde)["snapshots"] + 2
        read_for(readers, lambda: self.status(sonde)["snapshots"] >= end)
        sonde.process.send_signal(signal.SIGTERM)
        self.assertEqual(sonde.wait(), 0)
        self.check_ids(readers)

    def check_drops(self, sonde):
        result = self.run_sonde("status", "--json")
        self.assertEqual(result.status, 0, result)
        losses = harness.strict_json(result.stdout.decode())["losses"]
        self.assertGreater(losses["stream_events_dropped"], 20 * 40)
        self.assertGreater(losses["stream_bytes_dropped"], losses["stream_events_dropped"] * 50000)
        self.assertEqual(losses["subscribers_disabled"], 0)
        text = self.run_sonde("status").stdout.decode()
        self.assertRegex(text, r"(?m)^ *LOST\b.*\n?(.*\n)*?.*[0-9] events dropped for streams")
        self.assertRegex(text, r"clients +10[12] connections, 100 streams")

    def check_dead(self, link):
        """One that begins to read after all: what was in flight, a hole that it is told of, then
        the latest."""
        ids, lost = [], 0
        with contextlib.suppress(TimeoutError):
            while len(ids) < 1000:
                line = link.read_line(0.05)
                ids += map(int, SNAPSHOT_ID.findall(line))
                if b"monitor.gap" in line[:200]:
                    lost += json.loads(line)["params"]["data"]["lost"]
        self.assertEqual(ids, sorted(set(ids)))
        self.await_rows("SELECT 1 FROM snapshots WHERE id = ?", ids[-1])
        stored = [row["id"] for row in self.rows("SELECT id FROM snapshots ORDER BY id")]
        between = stored[stored.index(ids[0]):stored.index(ids[-1]) + 1]
        self.assertLess(len(ids), len(between) - 10)
        missing = [number for number in between if number not in set(ids)]
        first = between.index(missing[0])
        self.assertEqual(missing, between[first:first + len(missing)], "one hole")
        self.assertEqual(lost, len(missing))
        self.assertGreater(time.time() - ids[0] / 1e6, 2)
        self.assertLess(time.time() - ids[-1] / 1e6, 2)

    def check_ids(self, readers):
        """Every reader has every snapshot that is stored, from its first one on."""
        stored = [row["id"] for row in self.rows("SELECT id FROM snapshots ORDER BY id")]
        for number, reader in enumerate(readers):
            with self.subTest(reader=number):
                harness.wait_until(lambda reader=reader: self.has_taken(reader, stored[-1]),
                                   "it has the last one, too")
                self.assertGreater(len(reader.ids), 20)
                received = [number for number in reader.ids if number <= stored[-1]]
                self.assertEqual(received, stored[stored.index(reader.ids[0]):])

    @staticmethod
    def has_taken(reader, number):
        reader.take()
        return bool(reader.ids) and reader.ids[-1] >= number

    def test_of_a_job(self):
        sonde = self.daemon(SCOPE_ALL)
        members = [self.sleeper(), self.sleeper()]
        run_id = sonde.rpc("job.start", job_id="mine", pid=members[0].pid,
                           total_sheets=3)["run_id"]
        sonde.rpc("job.start", job_id="other", pid=members[1].pid, total_sheets=3)
        sonde.await_pid(members[0].pid, run_id)
        for job in ("mine", run_id):
            with self.subTest(job=job):
                snapshot = sonde.top_stream(job=job).await_notice("monitor.snapshot")["data"]
                self.assertEqual([process["pid"] for process in snapshot["processes"]],
                                 [members[0].pid])
                self.assertEqual([usage["job_id"] for usage in snapshot["jobs"]], ["mine"])
                self.assertEqual([step["job_id"] for step in snapshot["job_progress"]], ["mine"])
                self.assertGreater(snapshot["process_total"], 2)
        none = sonde.top_stream(job="no such").await_notice("monitor.snapshot")["data"]
        self.assertEqual((none["processes"], none["jobs"], none["job_progress"]), ([], [], []))
        everything = sonde.top_stream().await_notice("monitor.snapshot")["data"]
        self.assertLessEqual({process.pid for process in members},
                             {process["pid"] for process in everything["processes"]})

    def test_answer_comes_before_the_stream(self):
        sonde = self.daemon(interval=0.02)
        for _ in range(20):
            with daemon.Rpc(sonde.socket) as link:
                link.send({"jsonrpc": "2.0", "id": "x", "method": "daemon.top.stream"})
                answer = link.read()
                self.assertEqual(answer["id"], "x")
                self.assertEqual(answer["result"],
                                 {"jsonl_path": os.path.join(self.state, "monitor.jsonl")})
                self.assertEqual(link.notice()["event"], "monitor.snapshot")

    def test_patterns(self):
        sonde = self.daemon()
        wanted = {
            ("sheet.*",): {"sheet.started", "sheet.completed", "sheet.failed"},
            ("sheet.failed", "job.f*"): {"sheet.failed", "job.finished"},
            ("job.progress",): {"job.progress"},
            ("monitor.snapshot",): {"monitor.snapshot"},
            ("*",): {"job.started", "job.progress", "job.finished", "sheet.started",
                     "sheet.completed", "sheet.failed", "monitor.snapshot", "process.spawn",
                     "process.exec", "process.kill"},
        }
        links = {patterns: sonde.stream(*patterns) for patterns in wanted}
        shell = self.start("sh", "-c", "read word; exec sleep 1000")
        sonde.rpc("job.start", job_id="steps", total_sheets=2, pid=shell.pid)
        shell.stdin.write(b"go\n")
        shell.stdin.close()
        sonde.rpc("job.progress", job_id="steps", status="begun")
        for number, end in enumerate(("sheet.completed", "sheet.failed")):
            sonde.rpc("sheet.started", job_id="steps", sheet_num=number, name=f"step {number}")
            sonde.rpc(end, job_id="steps", sheet_num=number)
        sonde.await_snapshots(2)
        shell.kill()
        shell.wait()
        sonde.await_snapshots(2)
        sonde.rpc("job.finish", job_id="steps", outcome="success")
        sonde.await_snapshots(1)
        for patterns, names in wanted.items():
            with self.subTest(patterns=patterns):
                notices = []
                harness.wait_until(lambda link=links[patterns], notices=notices, names=names:
                                   notices.extend(link.pending()) or
                                   names <= {notice["event"] for notice in notices}, names)
                self.assertEqual({notice["event"] for notice in notices}, names)
                for notice in notices:
                    self.assertEqual(set(notice),
                                     {"event", "timestamp", "job_id", "sheet_num", "data"})
        self.assertEqual([(notice["event"], notice["job_id"], notice["sheet_num"])
                          for notice in self.sheets(sonde)],
                         [("sheet.started", "again", 7), ("sheet.failed", "again", 7)])

    def sheets(self, sonde):
        """In their order, with their job and number."""
        link = sonde.stream("sheet.*")
        sonde.rpc("job.start", job_id="again")
        sonde.rpc("sheet.started", job_id="again", sheet_num=7)
        sonde.rpc("sheet.failed", job_id="again", sheet_num=7, exit_code=3)
        return [link.notice(), link.notice()]

    def test_wrong_patterns(self):
        sonde = self.daemon()
        for events in ([], ["*.x"], ["a*b"], ["**"], [""], ["*"] * 33, ["x" * 5000], [1], "x",
                       None, ["nope"], ["*", "sheet.begun"], ["jobs.*"], ["sheet.started "]):
            with self.subTest(events=events):
                self.assertEqual(sonde.error("daemon.monitor.stream", events=events),
                                 INVALID_PARAMS)
        self.assertEqual(self.status(sonde)["subscribers"], 0)
        with self.assertRaises(daemon.RpcError) as caught:
            sonde.rpc("daemon.monitor.stream", events=["nope"])
        self.assertIn("'nope'", caught.exception.message)
        for name in ("monitor.anomaly", "monitor.anomaly_cleared", "monitor.gap", "process.signal",
                     "process.oom"): # which nothing here makes
            sonde.stream(name)

    def test_several_on_a_connection(self):
        sonde = self.daemon()
        sleeper = self.sleeper()
        sonde.rpc("job.start", job_id="mine", pid=sleeper.pid)
        with daemon.Rpc(sonde.socket) as link:
            link.call("daemon.top.stream")
            link.call("daemon.top.stream", job="mine")
            link.call("daemon.monitor.stream", events=["sheet.*"])
            link.call("daemon.monitor.stream", events=["monitor.snapshot"])
            for method, params in (("daemon.top.stream", {}),
                                   ("daemon.monitor.stream", {"events": ["*"]})):
                error = link.request(method, **params)["error"]
                self.assertEqual(error["code"], EXHAUSTED)
                self.assertIn(str(STREAMS_MAX), error["message"])
            self.assertEqual(self.status(sonde)["subscribers"], STREAMS_MAX)
            sonde.rpc("sheet.started", job_id="mine", sheet_num=1)
            link.await_notice("sheet.started")
            link.await_notice("monitor.snapshot")
            # Three of the four have snapshots, of which one is narrower.
            counts = {}
            for _ in range(12):
                data = link.await_notice("monitor.snapshot")["data"]
                counts.setdefault(data["id"], []).append(len(data["processes"]))
            whole = list(counts.values())[1:-1]
            self.assertTrue(whole)
            for lengths in whole:
                self.assertEqual(len(lengths), 3)
                self.assertEqual(min(lengths), 1)
                self.assertGreater(max(lengths), 1)
            # Requests are answered in between.
            self.assertIn("result", link.request("pressure.current"))
        harness.wait_until(lambda: self.status(sonde)["subscribers"] == 0, "they are gone")

    def test_abrupt_ends(self):
        """Clients that die in the middle of a message, theirs or ours."""
        self.crowd(50)
        sonde = self.daemon(SCOPE_ALL, interval=0.05)
        pid = sonde.pid
        self.assert_serves(sonde)
        sockets = open_sockets(pid)
        chance = random.Random(1)
        for _ in range(100):
            link = daemon.Rpc(sonde.socket)
            link.call("daemon.top.stream")
            if chance.random() < 0.5:
                link.send(b'{"jsonrpc": "2.0", "id": 1, "met')
            if chance.random() < 0.5:
                link.link.recv(chance.randrange(1, 5000))
            if chance.random() < 0.3:
                link.link.shutdown(chance.choice((socket.SHUT_RD, socket.SHUT_WR)))
            link.close()
        self.assert_serves(sonde)
        harness.wait_until(lambda: self.status(sonde)["connections"] == 1, "they are gone")
        self.assertEqual(self.status(sonde)["subscribers"], 0)
        self.assertLessEqual(open_sockets(pid), sockets)
        self.assertLessEqual(self.status(sonde)["losses"]["missed_ticks"], 5)
        sonde.stop()


# ---- limits ----


class Limits(ClientsTestCase):
    def setUp(self):
        super().setUp()
        self.sonde = self.daemon()
        self.link = daemon.Rpc(self.sonde.socket)
        self.addCleanup(self.link.close)
        self.answered = []

    def padded(self, length):
        """A request that is as long as that, without its newline."""
        line = line_of(dict(PING, id="padded")).rstrip()
        return line + b" " * (length - len(line))

    def test_a_mebibyte(self):
        self.link.send(self.padded(REQUEST_MAX_BYTES) + b"\n")
        self.assertEqual(self.link.read()["id"], "padded")
        self.link.send(self.padded(REQUEST_MAX_BYTES) + b"\r\n")
        self.assertEqual(self.link.read()["id"], "padded")

    def test_one_byte_more(self):
        for has_stream in (False, True):
            with self.subTest(has_stream=has_stream), daemon.Rpc(self.sonde.socket) as link:
                if has_stream:
                    link.call("daemon.monitor.stream", events=["job.*"])
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    link.send(self.padded(REQUEST_MAX_BYTES + 1) + b"\n")
                error = link.read()["error"]
                self.assertEqual(error["code"], INVALID_REQUEST)
                self.assertIn("1 MiB", error["message"])
                self.assert_closed(link, timeout=10)
        self.assert_serves(self.sonde)

    def test_answers_before_a_line_that_is_too_long(self):
        """What was asked properly before is answered."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.link.send(b"".join(line_of(dict(PING, id=number)) for number in range(50)) +
                           b"x" * (REQUEST_MAX_BYTES + 1000))
        for number in range(50):
            self.assertEqual(self.link.read()["id"], number)
        self.assertEqual(self.link.read()["error"]["code"], INVALID_REQUEST)
        self.assert_closed(self.link)

    def test_endless_line(self):
        pid = self.sonde.pid
        before_kb = rss_kb(pid)
        with self.assertRaises((BrokenPipeError, ConnectionResetError)):
            for _ in range(64):
                self.link.send(b"[" * (1 << 20))
        if not harness.is_sanitized():
            self.assertLess(rss_kb(pid), before_kb + 8192)
        self.assert_serves(self.sonde)

    def test_batch(self):
        self.link.send([dict(PING, id=number) for number in range(BATCH_MAX)])
        self.assertEqual([answer["id"] for answer in self.link.read()], list(range(BATCH_MAX)))
        self.link.send([dict(PING, id=number) for number in range(BATCH_MAX + 1)])
        error = self.link.read()
        self.assertEqual((error["id"], error["error"]["code"]), (None, INVALID_REQUEST))
        self.assertIn(f"at most {BATCH_MAX}", error["error"]["message"])
        self.link.send([])
        self.assertEqual(self.link.read()["error"]["code"], INVALID_REQUEST)
        notification = {"jsonrpc": "2.0", "method": "pressure.current"}
        self.link.send([notification] * BATCH_MAX)
        self.link.send([1, notification, dict(PING, id="last"), dict(PING, method="no", id=2)])
        first, second, third = self.link.read()
        self.assertEqual((first["id"], first["error"]["code"]), (None, INVALID_REQUEST))
        self.assertEqual(second["id"], "last")
        self.assertEqual((third["id"], third["error"]["code"]), (2, NO_METHOD))

    def test_answers_of_a_batch_are_bounded(self):
        """Many large answers at once, to clients that do not read them."""
        self.crowd(100)
        self.sonde.configure(SCOPE_ALL)
        self.sonde.rpc("daemon.reload")
        self.sonde.await_snapshots(2)
        size = len(json.dumps(self.sonde.top()))
        pid = self.sonde.pid
        before_kb = rss_kb(pid)
        links = [self.sonde.connect() for _ in range(20)]
        for link in links:
            link.send([dict(PING, method="daemon.top", id=i) for i in range(BATCH_MAX)])
        self.assert_serves(self.sonde)
        grown_kb = rss_kb(pid) - before_kb
        if not harness.is_sanitized():
            self.assertLess(grown_kb, 100 * 1024, f"20 × {BATCH_MAX} × {size} bytes")
        answers = links[0].read()
        self.assertEqual(len(answers), BATCH_MAX)
        self.assertIn("result", answers[0])

    def test_depth(self):
        def nested(depth):
            """A request in which lists lie that deep, itself counted."""
            return (b'{"jsonrpc":"2.0","id":1,"method":"daemon.monitor.stream","params":'
                    b'{"events":' + b"[" * (depth - 2) + b"]" * (depth - 2) + b"}}\n")
        self.link.send(nested(DEPTH_MAX))
        self.assertEqual(self.link.read()["error"]["code"], INVALID_PARAMS)
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
        before = self.status(self.sonde)
        before_kb = rss_kb(pid)
        requests = b"".join(line_of(dict(PING, id=i, method="daemon.status"))
                            for i in range(count))
        sender = threading.Thread(target=self.link.send, args=(requests,))
        sender.start()
        # The sender is stopped by nobody reading: others are served all the same.
        self.sonde.await_snapshots(10)
        self.assertTrue(sender.is_alive())
        if not harness.is_sanitized():
            self.assertLess(rss_kb(pid), before_kb + 8192)
        for number in range(count):
            self.assertEqual(self.link.read()["id"], number)
        sender.join()
        losses = self.status(self.sonde)["losses"]
        self.assertLessEqual(losses["missed_ticks"] - before["losses"]["missed_ticks"], 2)

    def test_questions_in_a_row_do_not_delay_ticks(self):
        """Clients that ask as fast as they can, and read: ticks are between their answers."""
        self.sonde.interval = 0.5
        self.sonde.configure("")
        self.sonde.rpc("daemon.reload")
        for number in range(20):
            self.sonde.rpc("job.start", job_id=f"job-{number}")
            self.sonde.rpc("job.finish", job_id=f"job-{number}", outcome="success")
        self.await_rows("SELECT 1 FROM jobs WHERE job_id = 'job-19' AND outcome = 'success'")
        before = self.status(self.sonde)
        began = time.monotonic()
        clients = [threading.Thread(target=self.ask_in_a_row, args=(800,)) for _ in range(8)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        took = time.monotonic() - began
        self.assertEqual(self.answered, [800] * 8)
        after = self.status(self.sonde)
        missed = after["losses"]["missed_ticks"] - before["losses"]["missed_ticks"]
        self.assertLessEqual(missed, 1 + took / 5, f"in {took:.1f} s")

    def ask_in_a_row(self, count):
        questions = b"".join(line_of(dict(PING, id=i, method=("job.list", "report.job")[i % 2]))
                             for i in range(count))
        with daemon.Rpc(self.sonde.socket) as link:
            sender = threading.Thread(target=link.send, args=(questions,))
            sender.start()
            answers = [json.loads(link.read_line()) for _ in range(count)]
            sender.join()
        self.answered.append(sum(answer["id"] == i and "result" in answer
                                 for i, answer in enumerate(answers)))

    def test_half_close(self):
        """`… | nc -N`: a client that has no more to ask still gets its answers, small or large."""
        self.crowd(50)
        self.sonde.configure(SCOPE_ALL)
        self.sonde.rpc("daemon.reload")
        self.sonde.await_snapshots(2)
        for method, count in (("pressure.current", 5000), ("daemon.top", 100)):
            with self.subTest(method=method), daemon.Rpc(self.sonde.socket) as link:
                requests = b"".join(line_of(dict(PING, id=i, method=method)) for i in range(count))
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
            link.send(dict(PING, method="daemon.top.stream"))
            link.link.shutdown(socket.SHUT_WR)
            self.assertIn("result", link.read())
            for _ in range(3):
                self.assertEqual(link.notice()["event"], "monitor.snapshot")
        harness.wait_until(lambda: self.status(self.sonde)["subscribers"] == 0, "it is gone")

    def test_half_close_of_a_quiet_stream(self):
        """That it is gone is noticed even if there is never anything to be sent to it."""
        for _ in range(20):
            with daemon.Rpc(self.sonde.socket) as link:
                link.call("daemon.monitor.stream", events=["process.oom"])
                link.link.shutdown(socket.SHUT_WR)
        harness.wait_until(lambda: self.status(self.sonde)["subscribers"] == 0, "they are gone",
                           timeout=4 * SWEEP_SECONDS)

    def test_what_was_told_can_be_read_at_once(self):
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


class Connections(ClientsTestCase):
    @harness.needs_root()
    def test_per_user(self):
        self.environment["SONDE_SOCKET"] = self.path("run/sonde.sock")
        sonde = self.daemon(EVERYONE)
        with as_user(harness.NOBODY):
            links = [sonde.connect() for _ in range(CONNECTIONS_PER_USER)]
        for link in links:
            self.assertIn("result", link.request("pressure.current"))
        with as_user(harness.NOBODY):
            refused = sonde.connect()
        error = refused.read()["error"]
        self.assertEqual(error["code"], EXHAUSTED)
        self.assertIn("of this user", error["message"])
        self.assert_closed(refused)
        for uid in (0, 12345):
            with as_user(uid):
                other = sonde.connect()
            self.assertIn("result", other.request("pressure.current"))
        self.assertEqual(self.status(sonde)["losses"]["connections_refused"], 1)
        self.assertIn("1 connection refused", self.run_sonde("status").stdout.decode())
        links.pop().close()
        harness.wait_until(lambda: self.status(sonde)["connections"] <= CONNECTIONS_PER_USER + 2,
                           "it is gone")
        with as_user(harness.NOBODY):
            again = sonde.connect()
        self.assertIn("result", again.request("pressure.current"))

    @harness.needs_root()
    def test_in_all(self):
        """Even root's, so that memory is bounded; and it goes on when there is room again."""
        sonde = self.daemon()
        sonde.rpc("pressure.current")
        links, refused = [], 0
        for _ in range(CONNECTIONS_MAX + 100):
            link = sonde.connect()
            links.append(link)
            with contextlib.suppress(BrokenPipeError):
                link.send(PING)
            answer = link.read()
            refused += "error" in answer
            if "error" in answer:
                self.assertEqual(answer["error"]["code"], EXHAUSTED)
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
        sockets = open_sockets(pid)
        before = self.status(sonde)
        deadline = time.monotonic() + 3
        count = 0
        while time.monotonic() < deadline:
            for _ in range(20):
                link = socket.socket(socket.AF_UNIX)
                link.connect(sonde.socket)
                link.send(b"{" if count % 2 else line_of(PING))
                link.close()
                count += 1
        self.assertGreater(count, 500)
        harness.wait_until(lambda: self.status(sonde)["connections"] == 1, "they are gone")
        after = self.status(sonde)
        self.assertLessEqual(open_sockets(pid), sockets)
        self.assertGreaterEqual(after["snapshots"] - before["snapshots"], 20)
        self.assertLessEqual(after["losses"]["missed_ticks"] - before["losses"]["missed_ticks"], 6)
        sonde.stop()

    def test_descriptors_run_out(self):
        """It survives, says so, samples and stores on, and serves again when there are some."""
        prefix = ("sh", "-c", 'ulimit -n 96; exec "$@"', "sh")
        sonde = self.daemon(prefix=prefix)
        before = self.status(sonde)
        links = []
        for _ in range(100):
            link = socket.socket(socket.AF_UNIX)
            link.settimeout(1)
            links.append(link)
            with contextlib.suppress(OSError):
                link.connect(sonde.socket)
                link.send(line_of(PING))
        harness.wait_until(lambda: self.status(sonde)["losses"]["connections_refused"],
                           "it refuses")
        harness.wait_until(lambda: self.status(sonde)["snapshots"] >= before["snapshots"] + 10,
                           lambda: f"it samples: {self.status(sonde)} {sonde.log}", timeout=10)
        status = self.status(sonde)
        self.assertEqual(status["losses"]["failed_collections"], 0)
        self.await_rows("SELECT 1 FROM snapshots WHERE timestamp > ?",
                        status["last_snapshot_at"] - 0.5, timeout=10)
        self.assertGreater(status["connections"], 8)
        said = re.findall(r"level=(?:warning|error) .*(?:too many|descriptors)", sonde.log)
        self.assertTrue(1 <= len(said) <= 20, sonde.log)
        for link in links:
            link.close()
        # At the latest when it looks again.
        harness.wait_until(lambda: self.can_ask(sonde), "it serves again",
                           timeout=3 * SWEEP_SECONDS)
        self.assert_serves(sonde)
        sonde.stop()

    def can_ask(self, sonde):
        try:
            with daemon.Rpc(sonde.socket, timeout=2) as link:
                return "result" in link.request("pressure.current")
        except OSError:
            return False


# ---- garbage ----

METHODS = ("daemon.status", "daemon.top", "daemon.top.stream", "daemon.events",
           "daemon.monitor.stream", "daemon.reload", "job.start", "job.progress", "job.finish",
           "job.signal", "job.list", "sheet.started", "sheet.completed", "sheet.failed",
           "resource.context", "pressure.current", "pressure.can_start_sheet",
           "pressure.should_accept_job", "pressure.report_rate_limit", "estimate.job",
           "report.job", "report.machine", "events.list")
NAMES = ("job_id", "job", "pid", "events", "limit", "since", "until", "outcome", "sheet_num",
         "run_id", "fresh", "status", "command", "type", "name", "seconds", "job_type", "cwd",
         "total_sheets", "parent_run_id", "unique", "adopts_orphans", "exit_code", "signal_num",
         "cause", "user_seconds", "started_at", "ended_at", "notable", "details")
VALUES = ("j1", "j2", "", "\x1b[31m", "~", "x" * 200, "\ud800", "é", "success", "running", "*",
          ["*"], ["sheet.*"], [], {}, None, True, False, 0, 1, -1, 1.5, 1e300, -1e300, 2**53,
          2**63, 2**64, 4194304, 1, os.getpid(), 1e9, 1789000000, 200, 10001,
          "0190d3c0-0000-7000-8000-000000000000")


class Garbage:
    """Messages that hardly anyone would send; the same ones for the same seed."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.pool = [self.request() for _ in range(2000)]

    def request(self):
        chance = self.chance
        params = {chance.choice(NAMES): chance.choice(VALUES)
                  for _ in range(chance.randrange(4))}
        message = {"jsonrpc": "2.0", "id": chance.randrange(100),
                   "method": chance.choice(METHODS), "params": params}
        if chance.random() < 0.1:
            message.pop(chance.choice(list(message)))
        if chance.random() < 0.1:
            message[chance.choice(("id", "jsonrpc", "method", "params"))] = chance.choice(VALUES)
        return json.dumps(message).encode()

    def mutated(self):
        chance = self.chance
        message = bytearray(chance.choice(self.pool))
        for _ in range(chance.choice((0, 1, 1, 2, 5))):
            at = chance.randrange(len(message) + 1)
            kind = chance.randrange(5)
            if kind == 0:
                message[at:at + 1] = bytes([chance.randrange(256)])
            elif kind == 1:
                del message[at:at + chance.randrange(1, 8)]
            elif kind == 2:
                message[at:at] = chance.choice((b'"', b"{", b"}", b"[", b"]", b"\\", b"\0", b"\xff",
                                                b",", b":", b"e9999", b"null", b"\\u0000"))
            elif kind == 3:
                message[at:at] = message[at // 2:at]
            else:
                del message[at:]
        return bytes(message)

    def message(self):
        """One line, mostly."""
        kind = self.chance.random()
        if kind < 0.75:
            return self.mutated()
        if kind < 0.93:
            return self.chance.randbytes(self.chance.randrange(1, 60))
        if kind < 0.96:
            return b"[" * self.chance.randrange(1, 3000)
        if kind < 0.99:
            return b"[" + b",".join(self.mutated() for _ in range(self.chance.randrange(5))) + b"]"
        return b'{"a":"' + b"x" * self.chance.randrange(1, 20000) + b'"}'


class Gale(threading.Thread):
    """One connection's part of the storm. Behind every few hundred messages stands a question that
    must be answered, unless the daemon has closed the connection, which it may."""

    PROBE = "probe-"

    def __init__(self, path, seed, count):
        super().__init__()
        self.path = path
        self.garbage = Garbage(seed)
        self.count = count
        self.sent = 0
        self.answers = 0
        self.closed = 0
        self.trouble = None

    def run(self):
        try:
            while self.sent < self.count:
                with daemon.Rpc(self.path) as link:
                    self.blow(link)
        except BaseException as error: # told by whoever joins
            self.trouble = error

    def blow(self, link):
        """Until it has had enough, or is closed."""
        chance = self.garbage.chance
        while self.sent < self.count:
            size = min(300, self.count - self.sent)
            block = b"".join(self.garbage.message() + b"\n" for _ in range(size))
            self.sent += size
            is_last = chance.random() < 0.02
            if is_last:
                block += chance.choice((b"x" * (REQUEST_MAX_BYTES + 1), b'{"jsonrpc'))
            if not self.exchange(link, block, f"{self.PROBE}{self.sent}", is_last):
                self.closed += 1
                return
            if is_last or chance.random() < 0.05:
                return

    def exchange(self, link, block, probe, is_last):
        """Sends in pieces, reads whatever comes meanwhile. False: it was closed."""
        block += b"\n" + line_of(dict(PING, id=probe))
        pieces = [block]
        if self.garbage.chance.random() < 0.3:
            cuts = sorted(self.garbage.chance.randrange(len(block)) for _ in range(30))
            pieces = [block[a:b] for a, b in zip([0, *cuts], [*cuts, len(block)])]
        link.link.setblocking(False)
        rest = b""
        end = time.monotonic() + harness.DEADLINE
        while time.monotonic() < end:
            if not rest and pieces:
                rest = pieces.pop(0)
            reading, writing, _ = select.select([link.link], [link.link] if rest else [], [], 1)
            try:
                if writing and rest:
                    rest = rest[link.link.send(rest):]
                if reading and self.read(link, probe):
                    return True
            except ConnectionError:
                return False
        if is_last:
            return False
        raise AssertionError(f"no answer to {probe}, and no end either")

    def read(self, link, probe):
        """True: the answer is there."""
        piece = link.link.recv(1 << 20)
        if not piece:
            raise ConnectionError
        lines = (link.buffer + piece).split(b"\n")
        link.buffer = lines.pop()
        for line in lines:
            answer = json.loads(line)
            for one in answer if isinstance(answer, list) else [answer]:
                if "method" not in one:
                    self.answers += 1
                    assert one["jsonrpc"] == "2.0" and ("error" in one) != ("result" in one), one
                if one.get("id") == probe:
                    return True
        return False


class Storm(ClientsTestCase):
    THREADS = 4
    INTERVAL = 0.5

    def stalled(self, sonde):
        """Clients that let the daemon wait, by what they do; each with whether it may stay."""
        half = sonde.connect()
        half.send(b'{"jsonrpc": "2.0", ')
        deaf = sonde.connect()
        deaf.link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.send(line_of([dict(PING, method="daemon.status", id=i) for i in range(100)]) * 4)
        drop_by_drop, steady = sonde.connect(), sonde.connect()
        silent, deaf_stream = sonde.connect(), sonde.top_stream()
        return {"half a line": (half, False), "a byte a second": (drop_by_drop, False),
                "does not read": (deaf, False), "says nothing": (silent, True),
                "a stream that does not read": (deaf_stream, True),
                "always within a line, and always ending it": (steady, True)}

    def drip(self, clients, is_over):
        """What those do that do something, once a second."""
        line = line_of(PING)
        clients["always within a line, and always ending it"][0].send(line[:10])
        while not is_over.wait(1):
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                clients["a byte a second"][0].send(b" ")
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                clients["always within a line, and always ending it"][0].send(line[10:] + line[:10])

    def is_open(self, link):
        """Whether the daemon still has its end."""
        kind = link.link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        self.assertEqual(struct.unpack("3i", kind)[1], os.geteuid())
        poller = select.poll()
        poller.register(link.link, select.POLLRDHUP)
        return not poller.poll(0)

    def test_storm_and_stalls(self):
        """Malformed messages for as long as stalled clients are waited for; at the end all is well:
        nothing crashed, leaked or missed."""
        sonde = self.daemon(interval=self.INTERVAL)
        pid = sonde.pid
        clients = self.stalled(sonde)
        began = time.monotonic()
        is_over = threading.Event()
        self.addCleanup(is_over.set)
        dripping = threading.Thread(target=self.drip, args=(clients, is_over))
        dripping.start()
        gales = [Gale(sonde.socket, seed, STORM_MESSAGES // self.THREADS)
                 for seed in range(self.THREADS)]
        for gale in gales:
            gale.start()
        for gale in gales:
            gale.join()
        took = time.monotonic() - began
        self.assertIsNone(sonde.process.poll(), sonde.log[-3000:])
        for gale in gales:
            if gale.trouble:
                raise gale.trouble
        answers = sum(gale.answers for gale in gales)
        print(f"# {STORM_MESSAGES} messages in {took:.1f} s, {answers} answers, "
              f"{sum(gale.closed for gale in gales)} connections closed by the daemon")
        self.assertGreater(answers, STORM_MESSAGES // 4)
        for name, (link, _) in clients.items():
            self.assertTrue(took > STALL_SECONDS or self.is_open(link), name)
        time.sleep(max(0, STALL_SECONDS + SWEEP_SECONDS + 3 - took))
        self.check_stalled(clients)
        is_over.set()
        dripping.join()
        self.check_after(sonde, pid, time.monotonic() - began)
        sonde.stop()
        self.check_log(sonde.log)

    def check_stalled(self, clients):
        for name, (link, may_stay) in clients.items():
            with self.subTest(client=name):
                if may_stay:
                    self.assertTrue(self.is_open(link))
                else:
                    harness.wait_until(lambda link=link: not self.is_open(link), name,
                                       timeout=SWEEP_SECONDS)

    def check_after(self, sonde, pid, seconds):
        status = self.status(sonde)
        self.assertEqual(status["losses"]["failed_collections"], 0)
        # The storm itself needs the cores as well: a few may come late.
        self.assertLessEqual(status["losses"]["missed_ticks"], 6)
        self.assertGreaterEqual(status["snapshots"], seconds / self.INTERVAL - 8)
        harness.wait_until(lambda: self.status(sonde)["connections"] <= 5, "they are gone")
        if not harness.is_sanitized():
            self.assertLess(rss_kb(pid), 48 * 1024)
        self.assert_serves(sonde)

    def check_log(self, log):
        self.assertEqual(re.findall("[\x00-\x09\x0b-\x1f\x7f-\x9f]", log), [])
        self.assertLess(len(log.splitlines()), 5000)


if __name__ == "__main__":
    harness.main()
