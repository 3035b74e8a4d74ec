#!/usr/bin/env python3
"""The daemon as a service: single instance, readiness, reload and stop, and failures of time, disk
and configuration."""
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import sqlite3
import stat
import subprocess
import time

import daemon
import harness
import small_disk
import tracing

EXIT_USAGE = 2
# Matches no process of a test: events that arrive have another reason.
NEVER = 3600

# `key=value`, the value in quotes where it contains blanks.
LOG_FIELD = re.compile(r'([a-z_]+)=("(?:[^"\\]|\\.)*"|[^ "=]+)(?: |$)')
LOG_LEVELS = {"error", "warning", "info"}

SCOPE_ALL = "profiler:\n  scope: all\n"


def parse_log(text):
    """The fields of every line; fails on a malformed line."""
    lines = []
    for line in text.splitlines():
        fields, at = {}, 0
        while at < len(line):
            match = LOG_FIELD.match(line, at)
            assert match, f"not key=value at {at}: {line!r}"
            key, value = match.groups()
            assert key not in fields, line
            fields[key] = value[1:-1].replace('\\"', '"') if value[0] == '"' else value
            at = match.end()
        lines.append(fields)
    return lines


class ServiceTestCase(daemon.TestCase):
    def run_daemon(self, *options, **more):
        """A daemon that is expected to end by itself."""
        return self.run_program(harness.SONDE, "daemon", *options, **more)

    def await_log(self, sonde, pattern, timeout=harness.DEADLINE):
        return harness.wait_until(lambda: re.search(pattern, sonde.log_now),
                                  lambda: f"{pattern} in {sonde.log_now}", timeout)

    def stored_ids(self):
        return [row["id"] for row in self.rows("SELECT id FROM snapshots ORDER BY id")]

    def stored_ids_so_far(self):
        """The same where the tables may not exist yet."""
        with contextlib.suppress(sqlite3.OperationalError):
            return self.stored_ids()
        return []


# ---- single instance ----


class Single(ServiceTestCase):
    def assert_refused(self, result, pid):
        self.assertEqual(result.status, 1, result)
        line, = parse_log(result.stderr)
        self.assertEqual(line["level"], "error", result)
        self.assertEqual(line["message"], "another daemon is running", result)
        self.assertEqual(line["pid"], str(pid), result)

    def test_second_names_the_first(self):
        sonde = self.daemon()
        pid = sonde.pid
        self.assert_refused(self.run_daemon("--config", sonde.config_path), pid)
        # Neither a socket nor a database is shared.
        self.assert_refused(self.run_daemon("--socket", self.path("other.sock")), pid)
        self.assert_refused(self.run_daemon("--state-dir", self.path("elsewhere"), "--socket",
                                            sonde.socket), pid)
        self.assertEqual(sonde.pid, pid)
        sonde.await_snapshots(1)
        sonde.stop()
        self.assert_intact()

    def test_two_daemons_with_their_own_directories(self):
        sonde = self.daemon()
        with daemon.Daemon(self, env={"SONDE_STATE_DIR": self.path("elsewhere")}) as other:
            self.assertNotEqual(other.pid, sonde.pid)

    def test_socket_of_a_dead_one_is_replaced(self):
        sonde = self.daemon()
        first = sonde.pid
        sonde.kill()
        self.assertTrue(stat.S_ISSOCK(os.stat(sonde.socket).st_mode))
        with self.assertRaises(ConnectionRefusedError):
            daemon.Rpc(sonde.socket)
        sonde.start()
        self.assertNotEqual(sonde.pid, first)
        sonde.stop()

    def test_regular_file_at_the_socket_path(self):
        """A regular file is not deleted because --socket names it."""
        os.makedirs(self.state, mode=0o700)
        precious = os.path.join(self.state, "sonde.sock")
        pathlib.Path(precious).write_text("precious", encoding="utf-8")
        result = self.run_daemon()
        self.assertEqual(result.status, 1, result)
        self.assertIn(precious, result.stderr)
        self.assertEqual(pathlib.Path(precious).read_text(encoding="utf-8"), "precious")


# ---- a service manager ----


class Manager(ServiceTestCase):
    """Takes the role of systemd."""

    def listen(self, name):
        self.inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.inbox.close)
        self.inbox.bind(name)
        self.inbox.settimeout(harness.DEADLINE)

    def hear(self):
        """The fields of the next message."""
        return dict(line.split("=", 1) for line in self.inbox.recv(4096).decode().splitlines())

    def hear_until(self, key):
        while True:
            message = self.hear()
            if key in message:
                return message

    def check_life(self, address):
        sonde = daemon.Daemon(self, env={"NOTIFY_SOCKET": address})
        self.addCleanup(sonde.end)
        sonde.spawn()
        ready = self.hear()
        self.assertEqual(ready["READY"], "1")
        # Clients can connect once the daemon has reported that it is ready.
        with daemon.Rpc(sonde.socket) as link:
            self.assertEqual(str(link.call("daemon.status")["pid"]), ready["MAINPID"])
        self.assertIn("0.2", ready["STATUS"])
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        sonde.process.send_signal(signal.SIGHUP)
        reloading = self.hear()
        self.assertEqual(reloading["RELOADING"], "1")
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self.assertTrue(before <= int(reloading["MONOTONIC_USEC"]) <= now, reloading)
        self.assertEqual(self.hear()["READY"], "1")
        sonde.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.hear()["STOPPING"], "1")
        self.assertEqual(sonde.wait(), 0)

    def test_path(self):
        path = self.path("notify")
        self.listen(path)
        self.check_life(path)

    def test_abstract(self):
        name = f"sonde-e2e-{os.getpid()}-{time.monotonic_ns()}"
        self.listen("\0" + name)
        self.check_life("@" + name)

    def test_failed_reload_reports_ready(self):
        path = self.path("notify")
        self.listen(path)
        sonde = self.daemon(env={"NOTIFY_SOCKET": path})
        self.hear_until("READY")
        sonde.configure("nonsense: 1\n")
        sonde.process.send_signal(signal.SIGHUP)
        self.hear_until("RELOADING")
        self.assertEqual(self.hear_until("READY")["READY"], "1")

    def test_watchdog(self):
        """The daemon sends it repeatedly."""
        path = self.path("notify")
        self.listen(path)
        sonde = self.daemon(env={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "400000"}, interval=NEVER)
        self.hear_until("READY")
        for _ in range(4):
            self.assertEqual(self.hear_until("WATCHDOG")["WATCHDOG"], "1")
        sonde.stop()

    @tracing.needs_strace()
    def test_watchdog_interval(self):
        """Twice per interval: the daemon plans no wait that is longer than half of it. Plans do not
        depend on the load of the machine."""
        path = self.path("notify")
        self.listen(path)
        sonde = self.daemon(env=dict(harness.without_leak_check(self.environment),
                                     NOTIFY_SOCKET=path, WATCHDOG_USEC="400000"), interval=NEVER,
                            prefix=(tracing.STRACE, "-qq", "-o", self.path("calls"), "-e",
                                    "trace=epoll_wait,epoll_pwait"))
        for _ in range(3):
            self.hear_until("WATCHDOG")
        planned_ms = [int(number) for number in
                      re.findall(rb", 1024, (-?\d+)(?:, .*)?\) += \d", self.read("calls"))]
        os.kill(sonde.pid, signal.SIGTERM)
        self.assertEqual(sonde.wait(), 0)
        self.assertGreater(len(planned_ms), 3)
        self.assertEqual([number for number in planned_ms if not 0 <= number <= 200], [])

    def test_watchdog_not_more_often(self):
        """With an interval of an hour the daemon sends none while snapshots are taken."""
        path = self.path("notify")
        self.listen(path)
        sonde = self.daemon(env={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "3600000000"},
                            interval=0.1)
        sonde.await_snapshots(10)
        sonde.stop()
        heard = self.all_heard()
        self.assertEqual((heard["READY"], heard["STOPPING"]), ("1", "1"))
        self.assertNotIn("WATCHDOG", heard)

    def test_watchdog_of_another_process(self):
        path = self.path("notify")
        self.listen(path)
        sonde = self.daemon(env={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "100000",
                                 "WATCHDOG_PID": "1"})
        sonde.await_snapshots(4)
        sonde.stop()
        self.assertNotIn("WATCHDOG", self.all_heard())

    def all_heard(self):
        self.inbox.setblocking(False)
        heard = {}
        with contextlib.suppress(BlockingIOError):
            while True:
                heard.update(self.hear())
        return heard

    def test_unreachable_service_manager(self):
        for address in (self.path("nothing"), "@sonde-e2e-missing", "relative", "/" + "x" * 200, ""):
            with self.subTest(address=address):
                with daemon.Daemon(self, env={"NOTIFY_SOCKET": address}):
                    pass


# ---- configuration ----


class Reload(ServiceTestCase):
    def interval(self, sonde):
        return sonde.rpc("daemon.status")["interval_seconds"]

    def test_signal(self):
        sonde = self.daemon(interval=NEVER)
        sonde.interval = 0.1
        sonde.configure("")
        sonde.process.send_signal(signal.SIGHUP)
        self.await_log(sonde, "configuration reloaded")
        changed, = [line for line in parse_log(sonde.log_now) if line["message"] == "changed"]
        self.assertEqual((changed["key"], changed["from"], changed["to"]),
                         ("profiler.interval_seconds", str(NEVER), "0.1"))
        self.assertEqual(self.interval(sonde), 0.1)
        sonde.await_snapshots(10)

    def test_broken_file_keeps_the_old_configuration(self):
        sonde = self.daemon(interval=0.2)
        for text, line, word in (("profiler:\n  interval_seconds: -1\n", 2, "interval_seconds"),
                                 ("profiler:\n  scope: all\n  no_such: 1\n", 3, "no_such"),
                                 ("profiler:\n\t- x\n", 2, ""),
                                 ("daemon:\n  access: group:no-such-group\n", 2,
                                  "daemon.access: 'group:no-such-group': no such group")):
            with self.subTest(text=text):
                at = len(sonde.log_now)
                pathlib.Path(sonde.config_path).write_text(text, encoding="utf-8")
                sonde.process.send_signal(signal.SIGHUP)
                harness.wait_until(lambda at=at: "did not change" in sonde.log_now[at:],
                                   lambda: sonde.log_now)
                errors = [fields["message"] for fields in parse_log(sonde.log_now[at:])
                          if fields["level"] == "error"]
                self.assertIn(f"{sonde.config_path}:{line}:", errors[0])
                self.assertIn(word, errors[0])
                self.assertEqual(self.interval(sonde), 0.2)
                self.assertEqual(stat.S_IMODE(os.stat(sonde.socket).st_mode), 0o600)
        os.unlink(sonde.config_path)
        sonde.process.send_signal(signal.SIGHUP)
        harness.wait_until(lambda: sonde.log_now.count("did not change") == 5,
                           lambda: sonde.log_now)
        self.assertEqual(self.interval(sonde), 0.2)
        sonde.await_snapshots(2)
        sonde.stop()

    def test_by_rpc(self):
        sonde = self.daemon(interval=0.2)
        self.assertEqual(sonde.rpc("daemon.reload"), {"changed": []})
        sonde.interval = 0.5
        sonde.configure("profiler:\n  scope: all\ndaemon:\n  access: everyone\n")
        changed = {change["key"]: (change["from"], change["to"], change["needs_restart"])
                   for change in sonde.rpc("daemon.reload")["changed"]}
        self.assertEqual(changed, {"profiler.interval_seconds": ("0.2", "0.5", False),
                                   "profiler.scope": ("jobs", "all", False),
                                   "daemon.access": ("owner", "everyone", False)})
        status = sonde.rpc("daemon.status")
        self.assertEqual((status["interval_seconds"], status["scope"]), (0.5, "all"))
        self.assertEqual(stat.S_IMODE(os.stat(sonde.socket).st_mode), 0o666)
        self.assertEqual(sonde.rpc("daemon.reload"), {"changed": []})

    def test_pipe(self):
        """The daemon does not wait for a writer of a FIFO."""
        sonde = self.daemon(interval=0.2)
        os.unlink(sonde.config_path)
        os.mkfifo(sonde.config_path)
        with self.assertRaises(daemon.RpcError) as caught:
            sonde.rpc("daemon.reload")
        self.assertIn(f"{sonde.config_path}: is a pipe", caught.exception.message)
        sonde.process.send_signal(signal.SIGHUP)
        self.await_log(sonde, "did not change")
        sonde.await_snapshots(1)
        os.unlink(sonde.config_path)
        os.symlink("/dev/null", sonde.config_path)
        self.assertEqual(len(sonde.rpc("daemon.reload")["changed"]), 1)
        sonde.stop()

    def test_broken_by_rpc(self):
        sonde = self.daemon(interval=0.2)
        sonde.configure("profiler:\n  scope: sometimes\n")
        with self.assertRaises(daemon.RpcError) as caught:
            sonde.rpc("daemon.reload")
        self.assertIn(f"{sonde.config_path}:3:", caught.exception.message)
        self.assertIn("did not change", caught.exception.message)
        self.assertEqual(sonde.rpc("daemon.status")["scope"], "jobs")

    def test_keys_that_need_a_restart(self):
        sonde = self.daemon()
        sonde.configure(f"profiler:\n  storage_path: {self.path('other.db')}\n")
        changed, = sonde.rpc("daemon.reload")["changed"]
        self.assertEqual(changed["key"], "profiler.storage_path")
        self.await_log(sonde, "needs a restart.*storage_path")
        self.assertEqual(sonde.rpc("daemon.status")["database"], self.database)
        sonde.await_snapshots(2)
        sonde.stop()
        self.assertFalse(os.path.exists(self.path("other.db")))
        # Logged at each reload while the values differ, and applied at the next start.
        sonde.start()
        self.assertEqual(sonde.rpc("daemon.status")["database"], self.path("other.db"))
        sonde.stop()
        self.assertTrue(os.path.exists(self.path("other.db")))

    def test_documented_keys_need_a_restart(self):
        """The log and the answer mark exactly the keys that docs/CONFIGURATION.md marks."""
        document = pathlib.Path(__file__).parents[2] / "docs" / "CONFIGURATION.md"
        marked = {key for key, reload in
                  re.findall(r"^\| `profiler\.(\w+)` \|[^|]*\|[^|]*\| (\w*) ?\|",
                             document.read_text(encoding="utf-8"), re.MULTILINE)
                  if reload == "restart"}
        values = {"enabled": "false", "collector": "procfs", "storage_path": self.path("other.db"),
                  "jsonl_path": self.path("other.jsonl"), "jsonl_max_bytes": "2097152",
                  "scope": "all", "gpu_enabled": "false", "strace_full_on_demand": "false"}
        self.assertLess(marked, set(values))
        sonde = self.daemon()
        sonde.configure("profiler:\n" + "".join(f"  {key}: {value}\n"
                                                for key, value in values.items()))
        changed = {change["key"]: change["needs_restart"]
                   for change in sonde.rpc("daemon.reload")["changed"]}
        self.assertEqual(changed, {f"profiler.{key}": key in marked for key in values})
        for key in values:
            self.await_log(sonde, f"key=profiler.{key} ")
        logged = set(re.findall(r'"changed, needs a restart" key=profiler\.(\w+)', sonde.log_now))
        self.assertEqual(logged, marked)
        status = sonde.rpc("daemon.status")
        self.assertEqual((status["database"], status["scope"]), (self.database, "all"))
        sonde.await_snapshots(2)

    def test_streams_survive_a_reload(self):
        sonde = self.daemon(interval=NEVER)
        link = sonde.top_stream()
        sonde.interval = 0.1
        sonde.configure("")
        sonde.rpc("daemon.reload")
        for _ in range(5):
            link.notice()


class Start(ServiceTestCase):
    def refuse(self, config, *words):
        path = self.write("bad.yaml", config)
        result = self.run_daemon("--config", path)
        self.assertEqual(result.status, EXIT_USAGE, result)
        for word in (path, *words):
            self.assertIn(word, result.stderr)
        self.assertFalse(os.path.exists(self.state), result)

    def test_configuration_errors(self):
        self.refuse("profiler:\n  interval_seconds: 0.001\n", ":2:", "interval_seconds", "0.001",
                    "0.01")
        self.refuse("profiler:\n  intervall_seconds: 1\n", ":2:", "intervall_seconds")
        self.refuse("daemon:\n  access: no-one\n", ":2:", "access", "no-one", "everyone")
        self.refuse("{", ":")
        self.refuse("daemon: 3\n", ":1:", "daemon")

    def test_no_such_file(self):
        result = self.run_daemon("--config", self.path("none.yaml"))
        self.assertEqual(result.status, EXIT_USAGE, result)
        self.assertIn("none.yaml", result.stderr)

    def test_wrong_usage(self):
        for words in (("now",), ("--no-such",), ("--socket",)):
            with self.subTest(words=words):
                result = self.run_daemon(*words)
                self.assertEqual(result.status, EXIT_USAGE, result)

    def test_no_such_group(self):
        self.refuse("daemon:\n  access: group:no-such-group\n", ":2:", "daemon.access",
                    "'group:no-such-group'", "no such group")


# ---- stopping ----


class Stop(ServiceTestCase):
    def check_ended(self, sonde):
        self.assertFalse(os.path.lexists(sonde.socket))
        self.assertEqual(harness.children_of(sonde.process.pid), [])
        self.assert_intact()
        # The lock is free: the next daemon starts.
        sonde.start()
        sonde.stop()

    def test_each_signal(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number):
                sonde = self.daemon(interval=0.1)
                link = sonde.top_stream()
                published = [link.notice()["data"]["id"] for _ in range(10)]
                sonde.stop(number)
                self.check_ended(sonde)
                self.assertLessEqual(set(published), set(self.stored_ids()))

    def test_hundred_clients_and_one_that_is_stopped(self):
        for i in range(100):
            self.start(f"{i}-" + "x" * 400, "1000", executable="/bin/sleep",
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        sonde = self.daemon(SCOPE_ALL, interval=0.1)
        follower = self.start(harness.SONDE, "events", "--follow", stderr=subprocess.DEVNULL)
        harness.wait_until(lambda: sonde.rpc("daemon.status")["subscribers"] == 1, "it follows")
        follower.send_signal(signal.SIGSTOP)
        links = [sonde.top_stream() for _ in range(100)]
        reader = sonde.top_stream(job="none") # small ones, which all find room
        waiting = daemon.Rpc(sonde.socket)
        self.addCleanup(waiting.close)
        waiting.send(b'{"jsonrpc": ')
        sonde.await_snapshots(20)
        sonde.process.send_signal(signal.SIGTERM)
        self.assertEqual(sonde.wait(), 0)
        self.assertEqual(harness.process_state(follower.pid), "T")
        last = None
        with contextlib.suppress(ConnectionError):
            while True:
                last = reader.await_notice("monitor.snapshot")["data"]["id"]
        self.assertIn(last, self.stored_ids())
        self.assertEqual(self.stored_ids()[-1], last)
        for link in links:
            link.close()
        self.check_ended(sonde)
        follower.kill()

    def test_every_published_snapshot_is_stored(self):
        """At the moment of the stop, repeatedly."""
        sonde = self.daemon(interval=0.02)
        for _ in range(5):
            link = daemon.Rpc(sonde.socket)
            link.call("daemon.top.stream")
            published = [link.notice()["data"]["id"] for _ in range(10)]
            sonde.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(ConnectionError):
                while True:
                    published.append(link.notice()["data"]["id"])
            link.close()
            self.assertEqual(sonde.wait(), 0)
            stored = self.stored_ids()
            self.assertEqual(stored[-len(published):], published)
            sonde.start()
        sonde.stop()

    def check_slow_disk(self, delay_ms):
        """Every write to the database is slow, and a transaction has several. Neither sampling nor
        the stop waits for that, nor for clients that read stored data."""
        prefix = ("strace", "-D", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e",
                  "signal=none", "-e", "trace=pwrite64", "-e",
                  f"inject=pwrite64:delay_enter={delay_ms * 1000}")
        sonde = daemon.Daemon(self, prefix=prefix,
                              env=harness.without_leak_check(self.environment))
        self.addCleanup(sonde.end)
        sonde.start()
        link = sonde.top_stream()
        askers = [sonde.connect() for _ in range(20)]
        for asker in askers:
            asker.send({"jsonrpc": "2.0", "id": 1, "method": "job.list"})
        # A loop that waited for the disk would publish no snapshot while the last one is written.
        published, most_ahead = set(), 0
        for _ in range(10):
            published.add(link.notice()["data"]["id"])
            most_ahead = max(most_ahead, len(published.difference(self.stored_ids_so_far())))
        self.assertGreaterEqual(most_ahead, 2)
        for asker in askers:
            self.assertEqual(asker.read()["id"], 1)
        sonde.stop()

    @harness.needs_program("strace")
    def test_slow_disk(self):
        sonde = self.daemon()
        sonde.await_snapshots(2)
        sonde.stop()
        self.check_slow_disk(500)

    @harness.needs_program("strace")
    def test_slow_disk_from_the_start(self):
        """Even the tables do not exist yet."""
        self.check_slow_disk(100)

    def test_requests_at_the_end(self):
        """A request gets a whole answer or a closed connection; never half a line."""
        sonde = self.daemon()
        link = daemon.Rpc(sonde.socket)
        self.addCleanup(link.close)
        request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "daemon.status"}).encode()
        sonde.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(1000):
                link.send(request + b"\n")
        with contextlib.suppress(ConnectionResetError):
            for line in iter(link.read_line, None):
                answer = harness.strict_json(line.decode())
                self.assertTrue("result" in answer or answer["error"]["code"] == -32003, answer)
        self.assertEqual(sonde.wait(), 0)

    def test_second_signal(self):
        sonde = self.daemon()
        for _ in range(5):
            sonde.process.send_signal(signal.SIGTERM)
            sonde.process.send_signal(signal.SIGHUP)
        self.assertEqual(sonde.wait(), 0)


# ---- snapshots and time ----


class Snapshots(ServiceTestCase):
    def test_fresh(self):
        sonde = self.daemon(interval=NEVER)
        first = sonde.top()
        self.assertEqual(sonde.top()["id"], first["id"])
        began = time.time()
        fresh = sonde.fresh()
        self.assertGreater(fresh["id"], first["id"])
        self.assertTrue(began - 0.1 <= fresh["timestamp"] <= time.time() + 0.1)
        # A client in a loop does not cause load: the daemon takes at most one per 100 ms.
        taken = sorted({sonde.rpc("daemon.top", fresh=True)["timestamp"] for _ in range(50)})
        for earlier, later in zip(taken, taken[1:]):
            self.assertGreater(later - earlier, 0.09)
        self.await_rows("SELECT 1 FROM snapshots WHERE id = ?", fresh["id"])
        sonde.stop()

    def test_fresh_does_not_move_the_schedule(self):
        """Requests come more often than the interval: if a request delayed the next tick, there
        would be no tick at all."""
        sonde = self.daemon(interval=0.5)
        streamed = sonde.top_stream()
        seen, asked = set(), set()
        def count_ticks():
            time.sleep(0.15)  # sooner, the latest snapshot would be fresh enough
            seen.update(notice["data"]["id"] for notice in streamed.pending())
            fresh = sonde.rpc("daemon.top", fresh=True)["id"]
            if fresh not in seen:  # else the snapshot of a tick is fresh enough
                asked.add(fresh)
            return len(seen - asked)
        harness.wait_until(lambda: count_ticks() >= 5 and len(asked) >= 10,
                           lambda: f"{len(asked)} asked for, {len(seen - asked)} ticks")

    def test_stopped_for_two_seconds(self):
        """A gap is stored, published and shown. A busy machine may cause other gaps, which are
        shorter or at another time."""
        sonde = self.daemon(interval=0.2)
        link = sonde.stream("monitor.gap", "monitor.snapshot")
        link.await_notice("monitor.snapshot")
        with sonde.paused():
            stopped_at = time.time()
            time.sleep(2)  # the length of the gap
            resumed_at = time.time()
        def covers(gap):
            # it begins when the first tick is missed
            return gap["timestamp"] - gap["seconds"] <= stopped_at + sonde.interval + 0.05 and \
                gap["timestamp"] >= resumed_at - 0.05
        gap = link.await_notice("monitor.gap", lambda notice: covers(notice["data"]))["data"]
        link.await_notice("monitor.snapshot")
        row, = self.await_rows("SELECT * FROM gaps WHERE abs(timestamp - ?) < 0.001",
                               gap["timestamp"])
        self.assertAlmostEqual(row["timestamp"], gap["timestamp"], places=3)
        self.assertAlmostEqual(row["seconds"], gap["seconds"], places=2)
        result = self.run_sonde("status", "--json")
        status = harness.strict_json(result.stdout.decode())
        shown, = filter(covers, status["gaps"])
        self.assertEqual(shown["reason"], gap["reason"])
        self.assertGreaterEqual(status["losses"]["missed_ticks"], 2 / sonde.interval - 2)
        text = self.run_sonde("status").stdout.decode()
        self.assertRegex(text, r"[0-9]+ ticks missed")
        self.assertIn("gaps", text)
        # It does not catch up with a burst: one tick may be late, and the next is on time.
        times = [link.await_notice("monitor.snapshot")["timestamp"] for _ in range(5)]
        self.assertGreater(times[-1] - times[0], 2 * sonde.interval)
        self.assertEqual(len(list(filter(covers, self.rows("SELECT * FROM gaps")))), 1)
        sonde.stop()

    def test_jsonl(self):
        sonde = self.daemon(interval=0.1)
        sonde.await_snapshots(10)
        path = os.path.join(self.state, "monitor.jsonl")
        self.assertEqual(sonde.rpc("daemon.status")["jsonl"], path)
        sonde.stop()
        *lines, end = pathlib.Path(path).read_bytes().decode().split("\n")
        self.assertEqual(end, "")
        snapshots = [harness.strict_json(line) for line in lines]
        self.assertEqual([snapshot["id"] for snapshot in snapshots], self.stored_ids())
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assertTrue(snapshots[-1]["processes"])

    def test_without_jsonl(self):
        sonde = self.daemon("profiler:\n  jsonl_path: ''\n")
        self.assertIsNone(sonde.rpc("daemon.top.stream")["jsonl_path"])
        sonde.await_snapshots(2)
        sonde.stop()
        self.assertEqual([name for name in os.listdir(self.state) if "jsonl" in name], [])


class FullDisk(small_disk.TestCase, ServiceTestCase):
    # It would fill the disk by itself.
    WITHOUT_LOG = "profiler:\n  jsonl_path: ''\n"

    def setUp(self):
        super().setUp()
        self.environment["SONDE_SOCKET"] = self.path("run/sonde.sock")

    def test_sampling_goes_on(self):
        sonde = self.daemon(self.WITHOUT_LOG, interval=0.1)
        sonde.await_snapshots(5)

        def losses():
            return sonde.rpc("daemon.status")["losses"]

        def not_stored():
            self.fill()
            return losses()["snapshots_not_stored"]
        harness.wait_until(not_stored, "it is noticed")
        status = sonde.rpc("daemon.status")
        self.assertTrue(status["database_error"])
        self.assertIn("NOT STORED", self.run_sonde("status").stdout.decode())
        self.await_log(sonde, r"level=warning .*part=store")
        before = status["snapshots"]
        sonde.await_snapshots(10)
        self.assertGreaterEqual(sonde.rpc("daemon.status")["snapshots"], before + 10)
        self.assertEqual(losses()["failed_collections"], 0)
        # Data from before can be read.
        self.assertIn("result", sonde.connect().request("report.machine", since=0))
        self.make_room()
        harness.wait_until(lambda: not sonde.rpc("daemon.status")["database_error"],
                           lambda: sonde.log)
        gap = self.await_rows("SELECT * FROM gaps")[0]
        self.assertGreater(gap["seconds"], 0)
        last = sonde.await_snapshots(1)["id"]
        self.await_rows("SELECT 1 FROM snapshots WHERE id >= ?", last)
        sonde.stop()
        self.assert_intact()

    def test_full_when_it_stops(self):
        sonde = self.daemon(interval=0.1)
        sonde.await_snapshots(3)
        self.fill()
        sonde.await_snapshots(5)
        self.fill()
        sonde.stop()
        self.make_room()
        self.assert_intact()


# ---- following ----


class Follow(ServiceTestCase):
    def follow(self, *words):
        errors = open(self.path("follow-errors"), "wb") # closed with the test
        self.addCleanup(errors.close)
        process = self.start(harness.SONDE, "events", "--follow", *words, stderr=errors,
                             stdin=subprocess.DEVNULL)
        os.set_blocking(process.stdout.fileno(), False)
        process.seen = b""
        return process

    def await_output(self, process, word, timeout=harness.DEADLINE):
        """Waits until the text is in the output."""
        def is_there():
            process.seen += process.stdout.read() or b""
            return word in process.seen
        harness.wait_until(is_there, lambda: f"{word} in {process.seen} "
                                             f"{self.read('follow-errors')}", timeout)

    def await_follower(self, sonde, count=1):
        harness.wait_until(lambda: sonde.rpc("daemon.status")["subscribers"] == count, "it follows")

    def test_events_do_not_wait_for_a_snapshot(self):
        sonde = self.daemon(interval=NEVER)
        process = self.follow()
        self.await_follower(sonde)
        sonde.rpc("job.start", job_id="watched")
        self.await_output(process, b"watched")
        for number in range(10):  # they end at once
            self.run_job("true", options=("--job", f"quick-{number}"))
            self.await_output(process, f"quick-{number}".encode())

    def test_restart(self):
        sonde = self.daemon()
        process = self.follow("--json")
        self.await_follower(sonde)
        sonde.rpc("job.start", job_id="before")
        self.await_output(process, b'"before"')
        sonde.stop()
        harness.wait_until(lambda: b"waiting for it" in self.read("follow-errors"), "it waits")
        self.assertIsNone(process.poll())
        sonde.start()
        self.await_follower(sonde)
        harness.wait_until(lambda: b"is back" in self.read("follow-errors"), "it says so")
        sonde.rpc("job.start", job_id="after")
        self.await_output(process, b'"after"')
        for line in process.seen.splitlines():
            self.assertIn("event", harness.strict_json(line.decode()))
        sonde.kill()
        sonde.start()
        self.await_follower(sonde)
        sonde.rpc("job.start", job_id="third")
        self.await_output(process, b'"third"')
        process.terminate()
        process.wait(harness.DEADLINE)

    def test_closed_output(self):
        sonde = self.daemon()
        process = self.follow()
        self.await_follower(sonde)
        process.stdout.close()
        self.assertEqual(process.wait(harness.DEADLINE), 0)
        harness.wait_until(lambda: sonde.rpc("daemon.status")["subscribers"] == 0, "it is gone")

    def test_without_a_daemon(self):
        result = self.run_sonde("events", "--follow")
        self.assertEqual(result.status, 3, result)
        self.assertIn("daemon", result.stderr)


if __name__ == "__main__":
    harness.main()
