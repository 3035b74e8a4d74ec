#!/usr/bin/env python3
"""Several writers and readers in one database: no error, no lost row, no mixed samples, no
blocked writer."""
import contextlib
import os
import subprocess
import threading
import time

import faults
import harness

QUESTIONS = (
    "SELECT count(*) FROM process_metrics WHERE snapshot_id = (SELECT max(id) FROM snapshots)",
    "SELECT job_id, outcome FROM jobs ORDER BY started_at DESC LIMIT 20",
    "SELECT * FROM process_events ORDER BY timestamp DESC LIMIT 20",
    "SELECT timestamp, rss_mb FROM process_metrics WHERE pid = (SELECT pid FROM process_metrics"
    " WHERE snapshot_id = (SELECT max(id) FROM snapshots) LIMIT 1)",
)
# Twice the length at which the writer waits for readers.
LOG_MAX_BYTES = 32 << 20

VERBS = (("jobs",), ("events",), ("report", "first"), ("jobs", "--json"))


class Reader(threading.Thread):
    """Runs the same query repeatedly, each time in a new process."""

    def __init__(self, case, words):
        super().__init__()
        self.case = case
        self.words = words
        self.is_over = threading.Event()
        self.errors = []
        self.answers = 0
        self.slowest = 0.0

    def run(self):
        while not self.is_over.is_set():
            began = time.monotonic()
            result = subprocess.run(self.words, env=self.case.environment, capture_output=True,
                                    timeout=harness.DEADLINE, check=False)
            self.slowest = max(self.slowest, time.monotonic() - began)
            self.answers += 1
            if result.returncode or result.stderr:
                self.errors.append((result.returncode, result.stderr, self.words))
                return

    def has_enough(self):
        """Whether it has some results, or has failed."""
        return self.answers > 3 or not self.is_alive()

    def finish(self):
        self.is_over.set()
        self.join()


class Crowd(faults.Case):
    def read_beside(self, stack):
        """Two readers through sonde, two through SQLite."""
        readers = [Reader(self, (harness.SONDE, *words)) for words in VERBS]
        readers += [Reader(self, ("sqlite3", "-readonly", self.database, sql))
                    for sql in QUESTIONS]
        for reader in self.random.sample(readers[:4], 2) + self.random.sample(readers[4:], 2):
            reader.start()
            stack.callback(reader.finish)
            yield reader

    def run_beside(self, name):
        return self.start_sonde("--interval", "50ms", "--job", name, "--",
                                *self.victim("crowd", 20, 600))

    @harness.needs_program("sqlite3")
    def test_daemon_runs_and_readers(self):
        seconds = faults.count(2, 40)
        self.run_job("true", options=("--job", "first"))
        daemon = self.write_database("--job", "daemon", "--processes", 300, "--interval", 0.2,
                                     "--pace", 0.2, "--ticks", 100000)
        # the first to open a database holds it for a moment, which sqlite3 does not wait for
        self.await_ticks(daemon, 1)
        runs = []
        with contextlib.ExitStack() as stack:
            readers = list(self.read_beside(stack))
            end = time.monotonic() + seconds
            number = 0
            while time.monotonic() < end or not all(reader.has_enough() for reader in readers):
                pair = [self.run_beside(f"run-{number}-{k}") for k in (1, 2)]
                runs += [self.finish(process) for process in pair]
                number += 1
        daemon.process.terminate()
        report = daemon.wait()
        self.assertEqual(daemon.errors, "")
        self.assertEqual((report.is_done, report.lost), (True, {}))
        for reader in readers:
            self.assertEqual(reader.errors, [])
            self.figures["answers"] += reader.answers
        self.figures["snapshots"] = self.rows("SELECT count(*) FROM snapshots")[0][0]
        self.figures["ms for the slowest answer"] = round(
            1000 * max(reader.slowest for reader in readers))
        self.check_runs(runs)
        self.check_reports([report])

    def check_runs(self, runs):
        for result in runs:
            self.assertEqual(result.status, 0, result)
            self.assertEqual(result.stderr.count("sonde: run:"), 0, result)
            stored = self.rows("SELECT count(DISTINCT snapshot_id) FROM process_metrics"
                               " WHERE run_id = ?", result.summary["run_id"])[0][0]
            self.assertEqual(stored, result.summary["num_samples"])
            self.assertEqual(self.rows("SELECT outcome, num_samples FROM jobs WHERE run_id = ?",
                                       result.summary["run_id"]),
                             [("success", result.summary["num_samples"])])
        self.figures["runs"] = len(runs)
        self.assertEqual(self.rows("SELECT * FROM gaps WHERE kind = 'not_stored'"), [])

    def test_first_writers_at_once(self):
        """Without a database."""
        for _ in range(faults.count(3, 40)):
            self.clear()
            writers = [self.write_database("--ticks", 5, "--processes", 5, "--job", "build",
                                           "--seed", seed) for seed in range(8)]
            reports = [writer.wait() for writer in writers]
            for writer, report in zip(writers, reports):
                self.assertEqual(writer.errors, "")
                self.assertEqual((len(report.ticks), report.lost, report.is_done), (5, {}, True))
            self.figures["writers"] += len(writers)
            self.check_reports(reports)

    def test_first_runs_at_once(self):
        """The same with sonde run."""
        for _ in range(faults.count(1, 10)):
            self.clear()
            running = [self.start_sonde("--job", "build", "--interval", "10ms", "--", "sleep",
                                        "0.1") for _ in range(8)]
            for result in [self.finish(process) for process in running]:
                self.assertEqual(result.status, 0, result)
                # on a busy machine some snapshots may be lost at the end, the run is not
                for words in ("not stored: ", "no longer stored", "not stored to the end"):
                    self.assertNotIn(words, result.stderr)
            self.assertEqual(self.rows("SELECT count(*) FROM jobs WHERE outcome = 'success'"),
                             [(8,)])
            self.figures["runs"] += len(running)
            self.check_reports([])


class LongReader(faults.Case):
    """A reader that keeps its transaction open."""

    def log_bytes(self):
        return os.path.getsize(self.database + "-wal")

    def test_writer_goes_on(self):
        ticks = faults.count(250, 5000)
        writer = self.write_database("--processes", 50, "--ticks", 1000000, "--pace", 0.0005)
        self.await_ticks(writer, 300)
        with contextlib.closing(faults.connect(self.database)) as db:
            db.execute("BEGIN")
            before = db.execute("SELECT max(running_jobs) FROM snapshots").fetchone()[0]
            self.await_ticks(writer, before + ticks)
            held = self.log_bytes()
            # it still sees its complete snapshot
            self.assertEqual(db.execute("SELECT max(running_jobs) FROM snapshots").fetchone()[0],
                             before)
            self.check_whole(db)
            db.execute("COMMIT")
        last = max(writer.report().ticks)
        self.await_ticks(writer, last + 3 * ticks)
        after = self.log_bytes()
        report = writer.kill()
        self.figures["KB of log when it let go"] = held // 1024
        self.figures["KB of log long after"] = after // 1024
        self.assertLess(after, LOG_MAX_BYTES, "the log does not shrink again")
        self.check_reports([report])

    def test_readers_that_overlap(self):
        """Overlapping readers: at least one is always open. Each is short and ends, whatever the
        writer does. Meanwhile the writer writes much more than the limit of the log."""
        ticks = faults.count(1000, 10000)
        writer = self.write_database("--processes", 50, "--ticks", 1000000, "--pace", 0.0005)
        self.await_ticks(writer, 300)
        largest = 0
        with contextlib.ExitStack() as stack:
            last = stack.enter_context(contextlib.closing(faults.connect(self.database)))
            last.execute("BEGIN")
            last.execute("SELECT count(*) FROM snapshots").fetchone()
            first = max(writer.report().ticks)
            while max(writer.report().ticks) < first + ticks:
                time.sleep(0.05)
                db = stack.enter_context(contextlib.closing(faults.connect(self.database)))
                db.execute("BEGIN")
                db.execute("SELECT count(*) FROM snapshots").fetchone()
                last.execute("COMMIT")
                last = db
                largest = max(largest, self.log_bytes())
        report = writer.kill()
        self.figures["ticks"] = len(report.ticks)
        self.figures["KB of log at most"] = largest // 1024
        self.assertLess(largest, LOG_MAX_BYTES, "the log grows on")
        self.check_reports([report])


if __name__ == "__main__":
    faults.main()
