"""What the tests of many or misbehaving clients share."""
import contextlib
import json
import os
import resource
import subprocess

import daemon
import harness

REQUEST_MAX_BYTES = 1 << 20

INVALID_PARAMS, EXHAUSTED = -32602, -32001

SCOPE_ALL = "profiler:\n  scope: all\n"
# The daemon checks its connections twice within the time that a client may stall.
IMPATIENT = "daemon:\n  stall_seconds: 1\n"
PING = {"jsonrpc": "2.0", "id": 1, "method": "pressure.current"}


def line_of(value):
    return json.dumps(value).encode() + b"\n"


def rss_kb(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


def open_sockets(pid):
    """Counts also descriptors of processes that the daemon watches, which come and go with them."""
    count = 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            count += os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:")
    return count


@contextlib.contextmanager
def as_user(uid, groups=()):
    """The effective user of sockets that are connected inside the block, as the kernel reports it."""
    before = os.getgroups()
    os.setgroups(groups)
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(before)


class TestCase(daemon.TestCase):
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

    def assert_ticks(self, sonde):
        """Each tick from the first to the latest was taken or is counted as missed. The number of
        missed ticks is not asserted: a busy machine may delay the daemon without any client.
        Snapshots that clients request are additional."""
        first, = self.await_rows("SELECT timestamp FROM snapshots ORDER BY id LIMIT 1")
        sonde.await_snapshots(1)
        status = self.status(sonde)
        seconds = status["last_snapshot_at"] - first["timestamp"]
        self.assertEqual(status["losses"]["failed_collections"], 0)
        self.assertGreaterEqual(status["snapshots"] + status["losses"]["missed_ticks"],
                                seconds / sonde.interval - 2)

    def assert_serves(self, sonde):
        """The daemon answers and takes another snapshot."""
        with daemon.Rpc(sonde.socket) as link:
            self.assertEqual(link.request("pressure.current")["id"], 1)
        sonde.await_snapshots(1)

    def assert_closed(self, link, timeout=harness.DEADLINE):
        """The daemon closes the connection after the data that is still to be read."""
        with contextlib.suppress(ConnectionResetError):
            while link.read_line(timeout) is not None:
                pass
