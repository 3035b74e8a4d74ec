#!/usr/bin/env python3
"""Misbehaving clients: a storm of malformed messages, and clients that stall.

SONDE_STORM is the number of messages of the storm (200,000)."""
import contextlib
import json
import os
import random
import re
import select
import socket
import struct
import threading
import time

import clients
import daemon
import harness

STORM_MESSAGES = int(os.environ.get("SONDE_STORM", "200000"))
# A client may take this long; a busy machine must not delay a good client for as long.
STALL_SECONDS = 5

METHODS = ("daemon.status", "daemon.top", "daemon.top.stream", "daemon.events",
           "daemon.monitor.stream", "daemon.reload", "job.start", "job.progress", "job.finish",
           "job.signal", "job.leave", "job.list", "sheet.started", "sheet.completed", "sheet.failed",
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
    """Malformed messages; the same ones for the same seed."""

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
        """Mostly one line."""
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
    """One connection's part of the storm. Every few hundred messages it sends a request that must be
    answered, unless the daemon has closed the connection, which it may."""

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
        except BaseException as error:  # raised again by the thread that joins
            self.trouble = error

    def blow(self, link):
        """Sends until all messages are sent or the connection is closed."""
        chance = self.garbage.chance
        while self.sent < self.count:
            size = min(300, self.count - self.sent)
            block = b"".join(self.garbage.message() + b"\n" for _ in range(size))
            self.sent += size
            is_last = chance.random() < 0.02
            if is_last:
                block += chance.choice((b"x" * (clients.REQUEST_MAX_BYTES + 1), b'{"jsonrpc'))
            if not self.exchange(link, block, f"{self.PROBE}{self.sent}", is_last):
                self.closed += 1
                return
            if is_last or chance.random() < 0.05:
                return

    def exchange(self, link, block, probe, is_last):
        """Sends in pieces and reads what arrives. Returns False when the connection was closed."""
        block += b"\n" + clients.line_of(dict(clients.PING, id=probe))
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
        """True: the answer has arrived."""
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


class Storm(clients.TestCase):
    THREADS = 4
    INTERVAL = 0.5

    def stalled(self, sonde):
        """Clients that stall, by how they do it; each with whether it may stay connected."""
        half = sonde.connect()
        half.send(b'{"jsonrpc": "2.0", ')
        deaf = sonde.connect()
        deaf.link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.send(clients.line_of([dict(clients.PING, method="daemon.status", id=i)
                                   for i in range(100)]) * 4)
        drop_by_drop, steady = sonde.connect(), sonde.connect()
        silent, deaf_stream = sonde.connect(), sonde.top_stream()
        return {"half a line": (half, False), "byte by byte": (drop_by_drop, False),
                "does not read": (deaf, False), "says nothing": (silent, True),
                "a stream that does not read": (deaf_stream, True),
                "always within a line, and always ending it": (steady, True)}

    def drip(self, stallers, is_over):
        """The actions of those clients that do something, a few times a second."""
        line = clients.line_of(clients.PING)
        steady = stallers["always within a line, and always ending it"][0]
        steady.send(line[:10])
        while not is_over.wait(0.2):
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                stallers["byte by byte"][0].send(b" ")
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                steady.send(line[10:] + line[:10])

    def is_open(self, link):
        """Whether the daemon's end is still open."""
        kind = link.link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        self.assertEqual(struct.unpack("3i", kind)[1], os.geteuid())
        poller = select.poll()
        poller.register(link.link, select.POLLRDHUP)
        return not poller.poll(0)

    def test_storm_and_stalls(self):
        """Malformed messages while clients stall: the daemon does not crash, leak or miss a
        tick."""
        sonde = self.daemon("daemon:\n  stall_seconds: 3600\n", interval=self.INTERVAL)
        pid = sonde.pid
        stallers = self.stalled(sonde)
        began = time.monotonic()
        is_over = threading.Event()
        self.addCleanup(is_over.set)
        dripping = threading.Thread(target=self.drip, args=(stallers, is_over))
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
        for name, (link, _) in stallers.items():
            self.assertTrue(self.is_open(link), name)
        sonde.configure(f"daemon:\n  stall_seconds: {STALL_SECONDS}\n")
        sonde.rpc("daemon.reload")
        self.check_stalled(stallers)
        is_over.set()
        dripping.join()
        self.check_after(sonde, pid)
        sonde.stop()
        self.check_log(sonde.log)

    def check_stalled(self, stallers):
        for name, (link, may_stay) in stallers.items():
            if not may_stay:
                harness.wait_until(lambda link=link: not self.is_open(link), name)
        for name, (link, may_stay) in stallers.items():
            if may_stay:
                self.assertTrue(self.is_open(link), name)

    def check_after(self, sonde, pid):
        self.assert_ticks(sonde)
        harness.wait_until(lambda: self.status(sonde)["connections"] <= 5, "they are gone")
        if not harness.is_sanitized():
            self.assertLess(clients.rss_kb(pid), 48 * 1024)
        self.assert_serves(sonde)

    def check_log(self, log):
        self.assertEqual(re.findall("[\x00-\x09\x0b-\x1f\x7f-\x9f]", log), [])
        self.assertLess(len(log.splitlines()), 5000)


if __name__ == "__main__":
    harness.main()
