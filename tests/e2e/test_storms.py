#!/usr/bin/env python3
"""Storms of short-lived processes: folded in the store, reported one by one as they happen, and
complete in every count."""
import os
import pathlib
import re

import daemon
import harness

# Three times what one run may store as single events, so that most is folded; `make release-check` has more.
COUNT = int(os.environ.get("SONDE_STORM_PROCESSES", "3000"))
# The budget of one run, and how it refills: src/store/folded-events.h.
BURST = 1000
PER_SECOND = 100
FAILED = 40
# What the daemon may use beyond its idle size; several times that under sanitizers.
MEMORY_MB = 24


class Storms(harness.TestCase):
    """Without a daemon; the class below repeats them with one."""

    def storm(self, job, count=COUNT):
        """Runs this many programs that do nothing, four at a time, and some that fail."""
        storm = os.path.join(harness.HELPERS, "storm")
        script = (f"{storm} {count} 4 {os.path.join(harness.HELPERS, 'nothing')}; "
                  f"{storm} {FAILED} 1 /bin/false; exit 0")
        return self.run_job("sh", "-c", script, options=("--job", job)).summary

    @property
    def database(self):
        return os.path.join(self.environment["SONDE_STATE_DIR"], "monitor.db")

    def ask(self, sql, *values):
        return harness.read_rows(self.database, sql, *values)[0][0]

    def counts(self, events):
        counts = {}
        for event in events:
            kind = event["event_type"]
            counts[kind] = counts.get(kind, 0) + (event["count"] or 1)
        return counts

    @harness.needs_connector()
    def test_nothing_is_uncounted(self):
        summary = self.storm("storm")
        self.assertGreaterEqual(summary["processes"], COUNT + FAILED)
        events = self.run_json("events", "--job", "storm", "--limit", "10000")
        counts = self.counts(events)
        self.assertEqual(counts["spawn"], summary["processes"])
        self.assertEqual(counts["exit"], summary["processes"])
        self.assertGreaterEqual(counts["exec"], COUNT + FAILED)
        self.assertEqual([event["timestamp"] for event in events],
                         sorted(event["timestamp"] for event in events))

        with self.subTest("failures are there one by one"):
            failed = [event for event in events if event["exit_code"]]
            self.assertEqual({event["count"] for event in failed}, {None})
            self.assertGreaterEqual(len(failed), FAILED)
        with self.subTest("rows are few"):
            allowed = BURST + PER_SECOND * (summary["wall_seconds"] + 1) + 2 * FAILED
            self.assertLessEqual(self.ask("SELECT count(*) FROM event"), allowed)
            self.assertLessEqual(self.ask("SELECT count(*) FROM folded_events"), 60)
        with self.subTest("the view that other tools read has single events only"):
            self.assertEqual(self.ask("SELECT count(*) FROM process_events"
                                      " WHERE event_type = 'exit'"),
                             len([event for event in events
                                  if event["event_type"] == "exit" and not event["count"]]))
        with self.subTest("the report"):
            report = self.run_json("report", "storm")
            profile = report["job"]["profile"]
            self.assertEqual(profile["process_spawn_count"], summary["processes"])
            self.assertEqual(profile["exit_count"], summary["processes"])
            folded = sum(event["count"] for event in events if event["count"])
            self.assertEqual(sum(row["count"] for row in report["storms"]), folded)
            self.assertEqual({row["run_id"] for row in report["storms"]}, {summary["run_id"]})
            text = self.run_sonde("report", "storm").stdout.decode()
            self.assertIn("storms (counted, not stored one by one)", text)
        with self.subTest("the table of events"):
            text = self.run_sonde("events", "--job", "storm", "--limit", "10000").stdout.decode()
            self.assertRegex(text, r"exit +- +storm +×[\d,]+ within [\d.]+ m?s, status 0")
        with self.subTest("the machine"):
            since = f"{summary['started_at'] - 60:.0f}"
            use = self.run_json("report", "--since", since)["use"]["event_counts"]
            self.assertEqual(use["spawn"], summary["processes"])

    @harness.needs_connector()
    def test_storm_with_other_arguments_each(self):
        """Only the program counts: any number of command lines makes one row."""
        nothing = os.path.join(harness.HELPERS, "nothing")
        self.run_job("sh", "-c", f"for i in $(seq {COUNT}); do {nothing} --secret-$i; done",
                     options=("--job", "arguments"))
        self.assertLessEqual(self.ask("SELECT count(*) FROM folded_events"), 60)
        self.assertEqual(self.ask("SELECT count(*) FROM folded_events"
                                  " WHERE program LIKE '%secret%'"), 0)

    @harness.needs_connector()
    def test_calm_run_is_stored_whole(self):
        summary = self.run_job("sh", "-c", "for i in $(seq 100); do /bin/true; done").summary
        self.assertEqual(self.ask("SELECT count(*) FROM folded_events"), 0)
        self.assertEqual(self.ask("SELECT count(*) FROM event WHERE event_type = 'spawn'"),
                         summary["processes"])
        self.assertEqual(self.run_json("report", summary["run_id"])["storms"], [])


class StormsUnderDaemon(Storms):
    """The daemon stores it and publishes it as it happens."""

    def setUp(self):
        super().setUp()
        self.daemon = daemon.Daemon(self, interval=0.5).start()
        self.addCleanup(self.daemon.end)

    def rss_peak_mb(self):
        status = pathlib.Path(f"/proc/{self.daemon.pid}/status").read_text(encoding="ascii")
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024

    @harness.needs_connector()
    def test_memory_stays_bounded(self):
        self.storm("before", count=10)
        before = self.rss_peak_mb()
        self.storm("storm", count=2 * COUNT)
        factor = 8 if harness.is_sanitized() else 1
        self.assertLess(self.rss_peak_mb() - before, MEMORY_MB * factor)

    @harness.needs_connector()
    def test_listener_gets_every_event(self):
        """Only the store folds: a listener gets each event, or the number of dropped ones. OOM kills
        are not counted, because they are reported for every process, also those of other tests."""
        listener = self.daemon.connect()
        listener.call("daemon.monitor.stream", events=["process.spawn", "process.exec",
                                                       "process.exit", "process.kill",
                                                       "process.signal", "job.finished"])
        self.storm("heard")
        heard = 0
        while (notice := listener.notice())["event"] != "job.finished":
            if notice["event"].startswith("process."):  # else it reports what was dropped
                self.assertIsNone(notice["data"]["count"])
                heard += 1
        missed = self.daemon.rpc("daemon.status")["losses"]["stream_events_dropped"]
        stored = self.counts(self.run_json("events", "--job", "heard", "--limit", "10000"))
        self.assertEqual(heard + missed, sum(stored.values()))
        self.assertGreater(heard, BURST / 2)


if __name__ == "__main__":
    harness.main()
