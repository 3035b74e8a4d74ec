"""A daemon of a test's own, and the client that talks to it: JSON-RPC on its socket, standard
library only.

    with daemon.Daemon(self, interval=0.2, config="profiler:\\n  scope: all\\n") as sonde:
        run_id = sonde.rpc("job.start", job_id="x", pid=pid)["run_id"]

Its state directory is the test's (SONDE_STATE_DIR of its environment), so that `sonde run` and the
other verbs of the test find it. Daemon(…).start() after a kill() goes on in the same place.
"""
import collections
import contextlib
import json
import os
import pathlib
import signal
import socket
import sqlite3
import subprocess
import time

import harness


class RpcError(Exception):
    """An answer that is an error."""

    def __init__(self, error):
        super().__init__(f"{error['code']}: {error['message']}")
        self.code = error["code"]
        self.message = error["message"]
        self.data = error.get("data")


class Rpc:
    """A connection, or one that somebody else has made. What a stream sends is kept in `notices`
    until it is asked for."""

    def __init__(self, path, timeout=harness.DEADLINE, link=None):
        self.timeout = timeout
        self.notices = collections.deque()
        self.last_id = 0
        self.buffer = b""
        self.link = link or socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if link:
            return
        try:
            self.link.connect(path)
        except OSError:
            self.link.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.link.close()

    def fileno(self):
        return self.link.fileno()

    def send(self, data):
        """Bytes as they are, or a value as a line of JSON."""
        if not isinstance(data, bytes):
            data = json.dumps(data).encode() + b"\n"
        self.link.settimeout(self.timeout)
        self.link.sendall(data)

    def read_line(self, timeout=None):
        """The next line as it is, without its end; None when the other side has closed. Raises
        TimeoutError when none comes."""
        end = time.monotonic() + (self.timeout if timeout is None else timeout)
        while b"\n" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError("no line came")
            self.link.settimeout(left)
            piece = self.link.recv(1 << 20)
            if not piece:
                return None
            self.buffer += piece
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line

    def read(self, timeout=None):
        """The next line as JSON."""
        line = self.read_line(timeout)
        if line is None:
            raise ConnectionError("the daemon has closed the connection")
        return harness.strict_json(line.decode())

    def request(self, method, **params):
        """The whole answer, an error or not."""
        self.last_id += 1
        self.send({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params})
        while True:
            answer = self.read()
            if "id" in answer:
                assert answer["id"] == self.last_id, answer
                return answer
            self.notices.append(answer["params"])

    def call(self, method, **params):
        """The result; raises RpcError."""
        answer = self.request(method, **params)
        if "error" in answer:
            raise RpcError(answer["error"])
        return answer["result"]

    def notice(self, timeout=None):
        """The next event {event, timestamp, job_id, sheet_num, data} of this connection's streams;
        raises TimeoutError."""
        if self.notices:
            return self.notices.popleft()
        message = self.read(timeout)
        assert message["method"] == "monitor.event", message
        return message["params"]

    def await_notice(self, name, matches=lambda notice: True, timeout=harness.DEADLINE):
        """The next event of that name that matches; those before it are passed over."""
        end = time.monotonic() + timeout
        while True:
            notice = self.notice(max(end - time.monotonic(), 0.001))
            if notice["event"] == name and matches(notice):
                return notice

    def pending(self):
        """All events that were published before this call. The daemon writes to a connection in
        order, so they come before the answer to a request that is sent now."""
        self.call("daemon.status")
        found = list(self.notices)
        self.notices.clear()
        return found


class Daemon:
    """A daemon that runs beside the test. `config` is YAML without `interval_seconds`, which is
    given as `interval`; `env` is added to the test's environment."""

    def __init__(self, test, config="", interval=0.2, env=None, options=(), prefix=()):
        self.test = test
        self.environment = dict(test.environment, **(env or {}))
        self.state = self.environment["SONDE_STATE_DIR"]
        self.socket = self.environment.get("SONDE_SOCKET", os.path.join(self.state, "sonde.sock"))
        self.config_path = test.path("daemon.yaml")
        self.log_path = test.path("daemon.log")
        self.interval = interval
        self.words = [*prefix, harness.SONDE, "daemon", "--config", self.config_path, *options]
        self.process = None
        self.log_start = 0
        self.connection = None
        self.others = []
        self.configure(config)

    def configure(self, config):
        """Writes the configuration; a daemon that runs has to be told (SIGHUP, daemon.reload)."""
        lines = config.splitlines()
        if "profiler:" not in lines:
            lines.append("profiler:")
        if self.interval is not None:
            lines.insert(lines.index("profiler:") + 1, f"  interval_seconds: {self.interval}")
        elif lines[-1] == "profiler:":
            lines.pop()
        pathlib.Path(self.config_path).write_text("\n".join(lines) + "\n", encoding="utf-8")

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, *_):
        """An error of the test is not hidden by one of the end."""
        if kind is None and self.is_running():
            self.stop()
        else:
            self.kill()

    # ---- its life ----

    @property
    def pid(self):
        """The daemon's own, whatever it was started through."""
        return self.rpc("daemon.status")["pid"]

    @property
    def log(self):
        return pathlib.Path(self.log_path).read_text(encoding="utf-8")

    @property
    def log_now(self):
        """What was said since it was started last."""
        with open(self.log_path, "rb") as log:
            log.seek(self.log_start)
            return log.read().decode("utf-8", "backslashreplace")

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def spawn(self):
        """Starts it and does not wait for it."""
        self.log_start = os.path.getsize(self.log_path) if os.path.exists(self.log_path) else 0
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.words, env=self.environment,
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.test.started.append(self.process)
        return self

    def start(self):
        self.spawn()
        harness.wait_until(lambda: not self.is_running() or self.can_connect(),
                           lambda: f"the daemon is ready: {self.log}")
        if not self.is_running():
            self.test.fail(f"the daemon ended: {self.log}")
        return self

    def can_connect(self):
        try:
            Rpc(self.socket).close()
        except OSError:
            return False
        return "message=ready " in self.log_now

    def stop(self, number=signal.SIGTERM, timeout=harness.DEADLINE):
        """Signals it to stop, waits, checks that it ended well."""
        self.forget_connections()
        self.process.send_signal(number)
        status = self.wait(timeout)
        self.test.assertEqual(status, 0, self.log)

    def wait(self, timeout=harness.DEADLINE):
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.test.fail(f"the daemon did not end within {timeout} s: {self.log}")
        self.test.check_sanitizers(self.log.encode())
        return status

    def end(self):
        """Kills it, which is quick, unless it would take the counts of its lines with it."""
        if harness.is_counted() and self.process and self.is_running():
            self.forget_connections()
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(20)
        self.kill()

    def kill(self):
        self.forget_connections()
        if self.process:
            self.process.kill()
            self.process.wait()
            if os.path.exists(self.log_path):
                self.test.check_sanitizers(self.log.encode())

    @contextlib.contextmanager
    def paused(self):
        """The daemon stands still meanwhile: for what it is to see as a whole, or not at all."""
        pid = self.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            harness.wait_until(lambda: harness.process_state(pid) == "T", "it has stopped")
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    # ---- talking ----

    def forget_connections(self):
        for connection in [self.connection, *self.others]:
            if connection:
                connection.close()
        self.connection, self.others = None, []

    def connect(self):
        """A connection of its own, which is closed with the daemon at the latest."""
        connection = Rpc(self.socket)
        self.others.append(connection)
        return connection

    def rpc(self, method, **params):
        if not self.connection:
            self.connection = Rpc(self.socket)
        return self.connection.call(method, **params)

    def error(self, method, **params):
        """The code of the error that is expected."""
        with self.test.assertRaises(RpcError) as caught:
            self.rpc(method, **params)
        return caught.exception.code

    def stream(self, *events):
        """A connection that hears of these events from now on."""
        connection = self.connect()
        connection.call("daemon.monitor.stream", events=list(events) or ["*"])
        return connection

    def top_stream(self, **params):
        connection = self.connect()
        connection.call("daemon.top.stream", **params)
        return connection

    # ---- what it sees ----

    def top(self):
        return self.rpc("daemon.top")

    def processes(self, **wanted):
        """Those of the latest snapshot that have these values: processes(run_id=…)."""
        snapshot = self.top()
        return [process for process in (snapshot or {"processes": []})["processes"]
                if all(process[name] == value for name, value in wanted.items())]

    def pids(self, run_id):
        return {process["pid"] for process in self.processes(run_id=run_id)}

    def await_pid(self, pid, run_id, **wanted):
        """Waits until a snapshot has the process as one of that run (None: of none), with these
        values."""
        def is_there():
            return self.processes(pid=pid, run_id=run_id, **wanted)
        return harness.wait_until(is_there, lambda: f"{pid} in {run_id}, {wanted}: "
                                                    f"{self.processes(pid=pid)}")[0]

    def fresh(self):
        """A snapshot that is taken now."""
        last = self.top()
        def is_new():
            snapshot = self.rpc("daemon.top", fresh=True)
            return snapshot if not last or snapshot["id"] != last["id"] else None
        return harness.wait_until(is_new, "a snapshot is taken")

    def await_snapshots(self, count=1):
        """Waits until so many more snapshots have been taken."""
        with Rpc(self.socket) as link:
            link.call("daemon.monitor.stream", events=["monitor.snapshot"])
            for _ in range(count):
                notice = link.await_notice("monitor.snapshot")
        return notice["data"]


class Puppet:
    """A process that does what it is told (helpers/puppet.c). `process` is it, or what it was
    started through."""

    def __init__(self, test, process):
        self.test = test
        self.process = process
        self.pid, _ = test.await_ready(process)

    def tell(self, word, number=0):
        """Done when it returns; gives the number that it answered."""
        self.process.stdin.write(f"{word} {number}\n".encode())
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            self.test.fail(f"the puppet ended when told '{word}'")
        return float(answer)

    def fork(self, word):
        """child, orphan or daemon: the pid of what it left there."""
        return int(self.tell(word))

    def exit(self, status=0):
        """Ends it, and reaps it; what it was started through is left to whoever started that."""
        self.process.stdin.write(f"exit {status}\n".encode())
        self.process.stdin.close()
        harness.wait_until(lambda: not harness.is_alive(self.pid), "the puppet has ended")
        if self.process.pid == self.pid:
            self.process.wait()


def rss_mb(pid):
    """By the kernel's word."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


class TestCase(harness.TestCase):
    """A test with a state directory of its own, and what it finds there afterwards."""

    def setUp(self):
        super().setUp()
        self.state = self.environment["SONDE_STATE_DIR"]
        # For rules and names: no other test has it, and a daemon sees the processes of all.
        self.mark = os.path.basename(self.directory).replace("-", "_")

    def daemon(self, config="", **options):
        """A daemon that runs until the test ends, or is killed."""
        daemon = Daemon(self, config, **options)
        self.addCleanup(daemon.end)
        return daemon.start()

    def puppet_words(self):
        return (os.path.join(harness.HELPERS, "puppet"),)

    def puppet(self, *prefix, **options):
        return Puppet(self, self.start(*prefix, *self.puppet_words(), **options))

    def run_puppet(self, *words, **options):
        """One under `sonde run`, which self.finish(puppet.process) ends."""
        return Puppet(self, self.start_sonde(*words, "--", *self.puppet_words(), **options))

    def reap_orphans(self):
        """This process inherits what the test's processes leave behind; elsewhere init reaps it.
        Waits until all of it is gone but for those that were started by start()."""
        own = {process.pid for process in self.started}
        def is_done():
            left = [pid for pid in harness.children_of(os.getpid())
                    if pid not in own and harness.parent_of(pid) == os.getpid()]
            for pid in left:
                if harness.process_state(pid) == "Z":
                    os.waitpid(pid, 0)
            return not left
        harness.wait_until(is_done, "orphans have ended")

    @property
    def database(self):
        return os.path.join(self.state, "monitor.db")

    def rows(self, sql, *values):
        """As any other program reads it: plain SQLite, read-only. Nothing there yet: no rows."""
        if not os.path.exists(self.database):
            return []
        return [dict(row) for row in
                harness.read_rows(self.database, sql, *values, row_factory=sqlite3.Row)]

    def await_rows(self, sql, *values, timeout=harness.DEADLINE):
        """The daemon's writer has a thread of its own: waits until there is such a row."""
        def found():
            try:
                return self.rows(sql, *values)
            except sqlite3.OperationalError:
                return []
        return harness.wait_until(found, f"{sql} {values}", timeout)

    def job(self, run_id):
        """The run as it is stored: exactly one."""
        jobs = self.rows("SELECT * FROM jobs WHERE run_id = ?", run_id)
        self.assertEqual(len(jobs), 1, jobs)
        return jobs[0]

    def await_end(self, run_id, timeout=harness.DEADLINE):
        """The run once it has ended, in the store."""
        self.await_rows("SELECT 1 FROM jobs WHERE run_id = ? AND outcome <> 'running'", run_id,
                        timeout=timeout)
        return self.job(run_id)

    def events(self, run_id, *types):
        marks = ", ".join("?" * len(types))
        return self.rows("SELECT * FROM process_events WHERE run_id = ?"
                         f" AND event_type IN ({marks}) ORDER BY timestamp, id", run_id, *types)

    def report(self, job):
        """`sonde report JOB --json`."""
        return self.run_json("report", job)

    def assert_intact(self):
        self.assertEqual(self.rows("PRAGMA integrity_check"), [{"integrity_check": "ok"}])
