"""Shared by the fault tests: a writer that can be killed, faults injected into its system calls,
and a check that a database is intact.

    SONDE=build/sonde HELPERS=build/tests/e2e DRIVER=build/tests/faults/store-driver \\
        tests/faults/test_kill.py [-v] [NAME…]

With FAULTS=all each test runs in full (500 kills, 300 errors) and prints its figures; without it, a
short version. FAULTS_SEED makes a run repeatable.
"""
import collections
import contextlib
import os
import pathlib
import random
import sqlite3
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

import harness  # pylint: disable=wrong-import-position

IS_LONG = os.environ.get("FAULTS") == "all"
SEED = int(os.environ.get("FAULTS_SEED", time.time_ns() % 1000000))
DRIVER = os.path.abspath(os.environ.get("DRIVER", "build/tests/faults/store-driver"))

# As the synthetic world checks its rows (tests/faults/synthetic-world.h).
SYNTHETIC_HOST = "synthetic-world"
CHECKSUM = "(m.pid * 1000003 + m.ppid * 10007 + m.threads * 101 + m.open_fds * 7 + m.read_bytes)" \
           " % (1 << 40)"
MINUTE_SECONDS = 60
TIMESTAMP_RESOLUTION = 0.001  # a stored time is rounded to it

# The beginning of a minute. Retention uses the real clock where it has to make room.
A_WHILE_AGO = int(time.time()) // MINUTE_SECONDS * MINUTE_SECONDS - 12000

# Snapshots of each database that are read through the views.
SAMPLE_MAX = 200 if IS_LONG else 20


def count(short, long):
    """How often: in the suite, and with FAULTS=all."""
    return long if IS_LONG else short


def main():
    if IS_LONG:
        harness.TEST_SECONDS = 3600
    if not os.access(DRIVER, os.X_OK):
        print(f"Bail out! {DRIVER} is not there; set DRIVER")
        sys.exit(1)
    print(f"# FAULTS_SEED={SEED}", flush=True)
    harness.main()


# ---- a writer ----


class Report:
    """What a driver reported to have done before it ended."""

    def __init__(self, pid, began, text):
        self.pid = pid
        self.began = began
        self.ticks = {}  # number → timestamp
        self.lost = {}  # number → why
        self.last_at = 0.0  # the time of the last tick, stored or lost
        self.run_id = self.job_id = None
        self.open_ms = None
        self.is_finished = self.is_done = False
        # The last line may be truncated.
        for line in text[:text.rfind("\n") + 1].splitlines():
            word, *rest = line.split(" ")
            if word in ("TICK", "LOST"):
                self.last_at = float(rest[1])
            if word == "TICK":
                self.ticks[int(rest[0])] = self.last_at
            elif word == "LOST":
                self.lost[int(rest[0])] = " ".join(rest[2:])
            elif word == "OPEN":
                self.open_ms = float(rest[0])
            elif word == "RUN":
                self.run_id, self.job_id = rest
            elif word == "FINISHED":
                self.is_finished = True
            elif word == "DONE":
                self.is_done = True


class Writer:
    """A driver that runs beside the test; it writes to files, so that it never blocks."""

    def __init__(self, case, path, *words, verb="write", prefix=()):
        self.began = time.time()
        self.out_path = case.path(f"driver-{len(case.started)}.out")
        self.errors_path = case.path(f"driver-{len(case.started)}.err")
        with open(self.out_path, "wb") as out, open(self.errors_path, "wb") as errors:
            self.process = subprocess.Popen([*prefix, DRIVER, verb, path, *map(str, words)],
                                            stdin=subprocess.DEVNULL, stdout=out, stderr=errors,
                                            env=case.environment)
        case.started.append(self.process)
        self.prefixed = bool(prefix)

    @property
    def errors(self):
        return pathlib.Path(self.errors_path).read_text(encoding="utf-8", errors="replace")

    @property
    def said(self):
        return pathlib.Path(self.out_path).read_text(encoding="utf-8")

    def kill(self):
        self.process.kill()
        return self.wait()

    def wait(self, timeout=harness.DEADLINE):
        self.process.wait(timeout)
        for path in (self.out_path, self.errors_path):
            os.chmod(path, 0o600)
        return self.report()

    def report(self):
        # Under strace the pid is not the driver's.
        return Report(None if self.prefixed else self.process.pid, self.began, self.said)


class Case(harness.TestCase):
    """A test with a directory for databases that no other user can write."""

    def setUp(self):
        super().setUp()
        self.random = random.Random(f"{SEED} {self.id()}")
        self.state = self.path("faults")
        os.mkdir(self.state, 0o700)
        self.environment = harness.without_leak_check(self.environment)
        self.environment["SONDE_STATE_DIR"] = self.state
        self.figures = collections.Counter()
        self.slowest_open_ms = 0.0
        self.addCleanup(self.print_figures)

    def print_figures(self):
        if self.figures and (IS_LONG or "-v" in sys.argv):
            words = [f"{number} {name}" for name, number in self.figures.items()]
            if self.slowest_open_ms:
                words.append(f"slowest to open {self.slowest_open_ms:.0f} ms")
            print(f"# {self.id().split('.', 1)[1]}: {', '.join(words)}", flush=True)

    @property
    def database(self):
        return os.path.join(self.state, "monitor.db")

    def clear(self):
        """An empty directory again."""
        for name in os.listdir(self.state):
            os.unlink(os.path.join(self.state, name))

    def write_database(self, *words, **options):
        return Writer(self, self.database, *words, **options)

    def rows(self, sql, *values):
        """As any other program reads it."""
        return harness.read_rows(self.database, sql, *values)

    @staticmethod
    def await_ticks(writer, number):
        harness.wait_until(lambda: f"TICK {number} " in writer.said, f"tick {number} is written")

    # ---- the check ----

    def check_reports(self, reports, retention=None):
        """All that must hold without a writer: as it was left, and again after it was opened by
        the next writer. `retention` is (hours in full, days in minutes), if it ran."""
        # Before its first transaction is complete, there is no database.
        if os.path.exists(self.database + "-wal"):
            with contextlib.closing(connect(self.database)) as db:
                self.check_rows(db, reports, retention)
        self.open_again()
        with contextlib.closing(connect(self.database)) as db:
            self.check_rows(db, reports, retention)
            self.check_settled(db)
            self.check_outcomes(db, reports)

    def open_again(self):
        result = self.run_program(DRIVER, "check", self.database)
        self.assertEqual(result.status, 0, result)
        self.slowest_open_ms = max(self.slowest_open_ms, result.figure("OPEN"))

    def check_rows(self, db, reports, retention):
        self.assertEqual(db.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
        self.check_whole(db)
        self.check_sessions(db)
        for report in reports:
            self.check_acknowledged(db, report, reports, retention)

    def check_whole(self, db):
        """Snapshots are complete and not mixed. Checks some of them and the last one through
        the views; store-driver reads all of them."""
        snapshots = db.execute("SELECT id, tick, child_count, active_sheets, host FROM snapshots"
                               " WHERE resolution_seconds <> ? ORDER BY id",
                               (MINUTE_SECONDS,)).fetchall()
        some = self.random.sample(snapshots, min(len(snapshots), SAMPLE_MAX))
        for number, tick, child_count, active_sheets, host in some + snapshots[-10:]:
            rows, total, wrong = db.execute(
                f"SELECT count(*), sum(m.write_bytes), sum(m.write_bytes <> {CHECKSUM})"
                " FROM process_metrics m WHERE m.snapshot_id = ?", (number,)).fetchone()
            self.assertEqual(rows, child_count, f"half a snapshot: {number}, tick {tick}")
            if host == SYNTHETIC_HOST:
                self.assertEqual((total, wrong), (active_sheets, 0),
                                 f"a mixed snapshot: {number}, tick {tick}")

    def check_sessions(self, db):
        """Ticks are consecutive; gaps account for missing ids."""
        holes = db.execute(
            "SELECT s.session_id, min(s.tick), max(s.tick), count(*), e.full_from FROM snapshots s"
            " JOIN sessions e ON e.id = s.session_id WHERE s.tick >= e.full_from"
            " GROUP BY s.session_id HAVING max(s.tick) - min(s.tick) + 1 <> count(*)"
            " OR min(s.tick) <> max(1, e.full_from)").fetchall()
        self.assertEqual(holes, [], "ticks are missing")
        unaccounted = db.execute(
            "SELECT s.session_id, max(s.running_jobs), count(*), (SELECT COALESCE(sum(lost), 0)"
            " FROM gaps g WHERE g.session = s.session_id AND kind = 'not_stored') AS lost"
            " FROM snapshots s JOIN sessions e ON e.id = s.session_id WHERE e.host = ?"
            " AND e.full_from = 0 GROUP BY s.session_id"
            " HAVING max(s.running_jobs) > count(*) + lost", (SYNTHETIC_HOST,)).fetchall()
        self.assertEqual(unaccounted, [], "snapshots are missing, and no gap says so")

    def session_of(self, db, report):
        """By its pid, which may be reused; under strace by its run."""
        if report.pid is None:
            found = db.execute("SELECT session FROM jobs WHERE run_id = ?",
                               (report.run_id,)).fetchall()
        else:
            found = db.execute("SELECT id FROM sessions WHERE pid = ? AND started_at >= ? - 1"
                               " AND host = ? ORDER BY id DESC LIMIT 1",
                               (report.pid, report.began, SYNTHETIC_HOST)).fetchall()
        return found[0][0] if found else None

    def check_acknowledged(self, db, report, reports, retention):
        """Acknowledged ticks are stored, and no others except the current one."""
        session = self.session_of(db, report)
        if session is None:
            self.assertEqual(report.ticks, {}, "a session is lost")
            return
        stored = dict(db.execute("SELECT running_jobs, timestamp FROM snapshots"
                                 " WHERE session_id = ? AND resolution_seconds <> ?",
                                 (session, MINUTE_SECONDS)))
        wanted = report.ticks
        if retention:
            # Retention continues by the time of lost ticks, too.
            now = max(other.last_at for other in reports)
            # A tick whose age equals the limit is older once its time is rounded.
            oldest = now - retention[0] * 3600 + TIMESTAMP_RESOLUTION
            wanted = {number: at for number, at in report.ticks.items() if at >= oldest}
            self.check_minutes_kept(db, session, report, now - retention[1] * 86400)
        missing = sorted(set(wanted) - set(stored))
        self.assertEqual(missing, [], "ticks that were acknowledged are not there")
        surprising = set(stored) - set(report.ticks) - {max(report.ticks, default=0) + 1}
        if not report.lost:
            self.assertEqual(surprising, set(), "ticks that were not written")
        self.assertEqual(set(stored) & set(report.lost), set(), "ticks that were reported as lost")
        self.check_signed(db, report, stored, bool(retention))

    def check_minutes_kept(self, db, session, report, since):
        minutes = {int(at // MINUTE_SECONDS) for (at,) in db.execute(
            "SELECT timestamp FROM snapshots WHERE session_id = ?", (session,))}
        wanted = {int(at // MINUTE_SECONDS) for at in report.ticks.values()
                  if at >= since + MINUTE_SECONDS}
        self.assertEqual(wanted - minutes, set(), "minutes that were to be kept are not there")

    def check_signed(self, db, report, stored, is_trimmed):
        """The events of a tick are stored if and only if its snapshot is."""
        pid = report.pid
        if pid is None:
            return
        signed = {int(details.split()[1]) for (details,) in db.execute(
            "SELECT details FROM process_events WHERE details LIKE ? AND timestamp >= ?",
            (f"tick % of {pid}", min(report.ticks.values(), default=0)))}
        if is_trimmed:  # events are kept for longer
            self.assertEqual(set(stored) - signed, set(), "snapshots without their events")
        elif report.ticks:
            self.assertEqual(signed, set(stored), "snapshots without their events, or the reverse")

    def check_settled(self, db):
        """The next writer has recovered the sessions of the others."""
        for what, sql in (
                ("sessions are open", "SELECT * FROM sessions WHERE ended_at IS NULL"),
                ("processes are open", "SELECT * FROM proc WHERE last_tick > 1000000000"),
                ("samples are not folded", "SELECT DISTINCT session FROM recent"),
                ("runs go on", "SELECT job_id, run_id FROM jobs WHERE outcome = 'running'"),
                ("ticks are in no minute, or in two",
                 "SELECT s.session, s.tick, count(m.tick) FROM snap s JOIN sessions e"
                 " ON e.id = s.session LEFT JOIN snap m ON m.session = s.session"
                 " AND m.is_minute AND s.tick BETWEEN m.tick AND m.to_tick"
                 " WHERE NOT s.is_minute AND s.tick >= e.full_from"
                 " GROUP BY s.session, s.tick HAVING count(m.tick) <> 1")):
            self.assertEqual(db.execute(sql).fetchall(), [], what)

    def check_outcomes(self, db, reports):
        for report in reports:
            if report.run_id:
                outcome = db.execute("SELECT outcome, cause FROM jobs WHERE run_id = ?",
                                     (report.run_id,)).fetchall()
                allowed = [("success", None)] if report.is_finished else \
                    [("unknown", "lost"), ("success", None)]
                self.assertEqual(len(outcome), 1, "a run that was begun is lost")
                self.assertIn(outcome[0], allowed)


def connect(path):
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=harness.DEADLINE)
    db.isolation_level = None
    return db


# ---- faults ----


SIDE_FILES = ("", "-journal", "-wal", "-shm", "-lock", "-ballast")
LOG_FILES = ("", ".1", ".2", ".lock")


def strace(database, *expressions, log=os.devnull, jsonl=None):
    """The arguments of strace that inject faults into the calls of a program on a database and its
    log; `database` None: into all its calls."""
    words = ["strace", "-f", "-qq", "-o", log]
    paths = [database + suffix for suffix in SIDE_FILES] if database else []
    paths += [jsonl + suffix for suffix in LOG_FILES] if jsonl else []
    for path in paths:
        words += ["-P", path]
    for expression in expressions:
        words += ["-e", expression]
    return words
