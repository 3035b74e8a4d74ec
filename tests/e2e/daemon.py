"""A daemon for one test, and a client for it: JSON-RPC on its socket, standard library only.


    with daemon.Daemon(self, interval=0.2, config="profiler:\\n  scope: all\\n") as sonde:
        run_id = sonde.rpc("job.start", job_id="x", pid=pid)["run_id"]

Its state directory is the test's (SONDE_STATE_DIR of its environment), so that `sonde run` and the
other verbs of the test find it. Daemon(…).start() after a kill() continues in the same directory.
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
    """The daemon answered with an error."""

    def __init__(self, error):
        super().__init__(f"{error['code']}: {error['message']}")
        self.code = error["code"]
        self.message = error["message"]
        self.data = error.get("data")


class Rpc:
    """A connection: a new one, or `link`. Events of a stream are kept in `notices` until they are
    read."""

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
        """Sends bytes unchanged, or a value as a line of JSON."""
        if not isinstance(data, bytes):
            data = json.dumps(data).encode() + b"\n"
        self.link.settimeout(self.timeout)
        self.link.sendall(data)

    def read_line(self, timeout=None):
        """The next line without its newline; None when the daemon has closed the connection. Raises
        TimeoutError when no line arrives."""
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
        """The whole answer, also when it is an error."""
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
        """The next event of that name that matches; events before it are dropped."""
        end = time.monotonic() + timeout
        while True:
            notice = self.notice(max(end - time.monotonic(), 0.001))
            if notice["event"] == name and matches(notice):
                return notice

    def pending(self):
        """All events that were published before this call. The daemon writes to a connection in
        order, so they arrive before the answer to a request that is sent now."""
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
        """Writes the configuration; a running daemon reads it at SIGHUP or daemon.reload."""
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
        """An error at the end does not hide an error of the test."""
        if kind is None and self.is_running():
            self.stop()
        else:
            self.kill()

    # ---- start and stop ----

    @property
    def pid(self):
        """The daemon's pid, also when it was started through another program."""
        return self.rpc("daemon.status")["pid"]

    @property
    def log(self):
        return pathlib.Path(self.log_path).read_text(encoding="utf-8")

    @property
    def log_now(self):
        """The log since the latest start."""
        with open(self.log_path, "rb") as log:
            log.seek(self.log_start)
            return log.read().decode("utf-8", "backslashreplace")

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def spawn(self):
        """Starts it without waiting for it."""
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
        """Signals it to stop, waits, and checks its exit status."""
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
        """Kills it, which is quick; with coverage it is stopped, so that it writes its counts."""
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
        """Stops the daemon inside the block, so that it sees several changes together or none."""
        pid = self.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            harness.wait_until(lambda: harness.process_state(pid) == "T", "it has stopped")
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    # ---- requests ----

    def forget_connections(self):
        for connection in [self.connection, *self.others]:
            if connection:
                connection.close()
        self.connection, self.others = None, []

    def connect(self):
        """A new connection, which is closed with the daemon at the latest."""
        connection = Rpc(self.socket)
        self.others.append(connection)
        return connection

    def rpc(self, method, **params):
        if not self.connection:
            self.connection = Rpc(self.socket)
        return self.connection.call(method, **params)

    def error(self, method, **params):
        """The code of the error that the call is expected to return."""
        with self.test.assertRaises(RpcError) as caught:
            self.rpc(method, **params)
        return caught.exception.code

    def stream(self, *events):
        """A connection that receives these events from now on."""
        connection = self.connect()
        connection.call("daemon.monitor.stream", events=list(events) or ["*"])
        return connection

    def top_stream(self, **params):
        connection = self.connect()
        connection.call("daemon.top.stream", **params)
        return connection

    # ---- snapshots ----

    def top(self):
        return self.rpc("daemon.top")

    def processes(self, **wanted):
        """Processes of the latest snapshot that have these values: processes(run_id=…)."""
        snapshot = self.top()
        return [process for process in (snapshot or {"processes": []})["processes"]
                if all(process[name] == value for name, value in wanted.items())]

    def pids(self, run_id):
        return {process["pid"] for process in self.processes(run_id=run_id)}

    def await_pid(self, pid, run_id, **wanted):
        """Waits until a snapshot has the process in that run (None: in no run), with these
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
        """Waits until this many more snapshots have been taken."""
        with Rpc(self.socket) as link:
            link.call("daemon.monitor.stream", events=["monitor.snapshot"])
            for _ in range(count):
                notice = link.await_notice("monitor.snapshot")
        return notice["data"]


class Puppet:
    """A process that carries out the test's orders (helpers/puppet.c). `process` is the puppet, or
    the program that started it."""

    def __init__(self, test, process):
        self.test = test
        self.process = process
        self.pid, _ = test.await_ready(process)

    def order(self, word, number=0):
        """Returns the puppet's answer, a number, once the order is carried out."""
        self.process.stdin.write(f"{word} {number}\n".encode())
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            self.test.fail(f"the puppet ended at the order '{word}'")
        return float(answer)

    def fork(self, word):
        """Orders child, orphan or daemon; returns the pid of the new process."""
        return int(self.order(word))

    def exit(self, status=0):
        """Ends the puppet and reaps it, unless another program started it and reaps it."""
        self.process.stdin.write(f"exit {status}\n".encode())
        self.process.stdin.close()
        harness.wait_until(lambda: not harness.is_alive(self.pid), "the puppet has ended")
        if self.process.pid == self.pid:
            self.process.wait()


def rss_mb(pid):
    """As the kernel reports it."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


class TestCase(harness.TestCase):
    """A test with its own state directory and access to the database there."""

    def setUp(self):
        super().setUp()
        self.state = self.environment["SONDE_STATE_DIR"]
        # A name for rules that no other test uses, because a daemon sees the processes of all tests.
        self.mark = os.path.basename(self.directory).replace("-", "_")

    def daemon(self, config="", **options):
        """A daemon that runs until the test ends or kills it."""
        daemon = Daemon(self, config, **options)
        self.addCleanup(daemon.end)
        return daemon.start()

    def puppet_words(self):
        return (os.path.join(harness.HELPERS, "puppet"),)

    def puppet(self, *prefix, **options):
        return Puppet(self, self.start(*prefix, *self.puppet_words(), **options))

    def run_puppet(self, *words, **options):
        """A puppet under `sonde run`, which self.finish(puppet.process) ends."""
        return Puppet(self, self.start_sonde(*words, "--", *self.puppet_words(), **options))

    def reap_orphans(self):
        """This process inherits orphans of the test; elsewhere init reaps them. Waits until all are
        gone except processes that start() started."""
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
        """Rows as any other program reads them: plain SQLite, read-only; none without a database."""
        if not os.path.exists(self.database):
            return []
        return [dict(row) for row in
                harness.read_rows(self.database, sql, *values, row_factory=sqlite3.Row)]

    def await_rows(self, sql, *values, timeout=harness.DEADLINE):
        """The daemon writes in a thread: waits until there is such a row."""
        def found():
            try:
                return self.rows(sql, *values)
            except sqlite3.OperationalError:
                return []
        return harness.wait_until(found, f"{sql} {values}", timeout)

    def job(self, run_id):
        """The stored run; there is exactly one."""
        jobs = self.rows("SELECT * FROM jobs WHERE run_id = ?", run_id)
        self.assertEqual(len(jobs), 1, jobs)
        return jobs[0]

    def await_end(self, run_id, timeout=harness.DEADLINE):
        """The stored run once it has ended."""
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
