#!/usr/bin/env python3
"""Streams: clients that read get every snapshot, and clients that do not read delay no other."""
import json
import os
import random
import re
import select
import signal
import socket

import clients
import daemon
import harness

STREAMS_MAX = 4
SNAPSHOT_ID = re.compile(rb'"id":(\d+)')


class Reader:
    """A stream as bytes: the ids of its snapshots; the rest is not parsed."""

    def __init__(self, sonde, **params):
        self.link = sonde.top_stream(**params)
        self.ids = []
        self.pieces = [self.link.buffer]
        self.ids += [notice["data"]["id"] for notice in self.link.notices]
        self.link.link.setblocking(False)

    def fileno(self):
        return self.link.link.fileno()

    def take(self):
        """Reads all that has arrived. False: the connection was closed."""
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


def read_until(readers, is_done):
    """Reads from all of them until the condition holds."""
    poller = select.epoll()
    by_fd = {reader.fileno(): reader for reader in readers}
    for fd in by_fd:
        poller.register(fd, select.EPOLLIN)
    while not is_done():
        for fd, _ in poller.poll(0.1):
            if not by_fd[fd].take():
                poller.unregister(fd)
    poller.close()


class Streams(clients.TestCase):
    # From this time memory must not grow by more than this: the kernel hands out pages in larger
    # pieces, and the store's cache fills slowly.
    GROWTH_KB = 4096

    def test_hundred_of_which_twenty_never_read(self):
        self.crowd(150)
        # The test requests a snapshot when the readers have received the one before.
        sonde = self.daemon(clients.SCOPE_ALL, interval=3600)
        pid = sonde.pid
        dead = [sonde.top_stream() for _ in range(20)]
        readers = [Reader(sonde) for _ in range(80)]
        self.assertEqual(self.status(sonde)["subscribers"], 100)

        def publish():
            latest = sonde.fresh()["id"]
            read_until(readers, lambda: all(reader.ids and reader.ids[-1] >= latest
                                            for reader in readers))
            return latest

        def publish_until_dropped(count):
            while self.status(sonde)["losses"]["stream_events_dropped"] <= count:
                publish()
        publish_until_dropped(20 * 10)
        before_kb = clients.rss_kb(pid)
        publish_until_dropped(20 * 40)
        after_kb = clients.rss_kb(pid)
        if not harness.is_sanitized():
            self.assertLess(after_kb, before_kb + self.GROWTH_KB)
            # 8 MB of snapshots that all of them share, and what a daemon uses anyway.
            self.assertLess(after_kb, 48 * 1024)
        self.check_drops(sonde)
        self.check_dead(sonde, dead[0])
        last = publish()
        sonde.process.send_signal(signal.SIGTERM)
        self.assertEqual(sonde.wait(), 0)
        self.check_ids(readers, last)

    def check_drops(self, sonde):
        result = self.run_sonde("status", "--json")
        self.assertEqual(result.status, 0, result)
        losses = harness.strict_json(result.stdout.decode())["losses"]
        self.assertGreater(losses["stream_events_dropped"], 20 * 40)
        self.assertGreater(losses["stream_bytes_dropped"], losses["stream_events_dropped"] * 50000)
        self.assertEqual(losses["subscribers_disabled"], 0)
        text = self.run_sonde("status").stdout.decode()
        self.assertRegex(text, r"(?m)^ *LOST\b.*\n?(.*\n)*?.*[0-9] events dropped for slow subscribers")
        self.assertRegex(text, r"clients +10[12] connections, 100 streams")

    def check_dead(self, sonde, link):
        """A client that starts to read late gets what was in flight, the number of dropped
        snapshots, then the latest."""
        ids, lost = [], 0
        latest = sonde.top()["id"]
        while not ids or ids[-1] < latest:
            line = link.read_line()
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

    def check_ids(self, readers, last):
        """Every reader has every stored snapshot from its first one to `last`. A snapshot that the
        daemon takes as it stops (after an OOM kill on the machine) may be cut off with the
        connection."""
        stored = [row["id"] for row in self.rows("SELECT id FROM snapshots WHERE id <= ? ORDER BY id",
                                                 last)]
        for number, reader in enumerate(readers):
            with self.subTest(reader=number):
                self.assertGreater(len(reader.ids), 20)
                received = [number for number in reader.ids if number <= last]
                self.assertEqual(received, stored[stored.index(reader.ids[0]):])

    def test_of_a_job(self):
        sonde = self.daemon(clients.SCOPE_ALL)
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
                # A busy machine causes gaps, and a tick may fall between a signal and the exit it
                # causes: then the signal is published first. Events of processes of other tests have
                # no job here.
                allowed = {"monitor.gap", "process.signal"} if patterns == ("*",) else set()
                self.assertEqual({notice["event"] for notice in notices
                                  if notice["job_id"] or notice["event"] in names} - allowed, names)
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
                                 clients.INVALID_PARAMS)
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
                self.assertEqual(error["code"], clients.EXHAUSTED)
                self.assertIn(str(STREAMS_MAX), error["message"])
            self.assertEqual(self.status(sonde)["subscribers"], STREAMS_MAX)
            sonde.rpc("sheet.started", job_id="mine", sheet_num=1)
            link.await_notice("sheet.started")
            link.await_notice("monitor.snapshot")
            # Three of the four receive snapshots, one of them filtered.
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
        """Clients that die in the middle of a message, received or sent."""
        self.crowd(50)
        sonde = self.daemon(clients.SCOPE_ALL, interval=0.05)
        pid = sonde.pid
        self.assert_serves(sonde)
        sockets = clients.open_sockets(pid)
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
        self.assertLessEqual(clients.open_sockets(pid), sockets)
        self.assert_ticks(sonde)
        sonde.stop()


if __name__ == "__main__":
    harness.main()
