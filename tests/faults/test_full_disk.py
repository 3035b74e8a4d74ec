#!/usr/bin/env python3
"""A disk of 6 MB that fills up: sampling continues, the gap is stored and reported, reading works,
and writing resumes by itself."""
import os
import pathlib
import re

import faults
import harness
import small_disk

WRITING = "writing again"


class SmallDisk(small_disk.TestCase, faults.Case):
    """What the tests share: a disk that can be filled."""

    def setUp(self):
        super().setUp()
        os.mkdir(self.state, 0o700)
        self.ballast = self.database + "-ballast"

    def check_reading(self):
        """While nothing can be written."""
        self.assertGreater(self.rows("SELECT count(*) FROM snapshots")[0][0], 0)
        for words in (("jobs",), ("events",), ("report", "build")):
            result = self.run_sonde(*words)
            self.assertEqual(result.status, 0, result)
            self.assertEqual(result.stderr, "")

    def check_gaps(self, dropped):
        gaps = self.rows("SELECT lost, reason FROM gaps WHERE kind = 'not_stored'")
        self.assertEqual(sum(lost for lost, _ in gaps), dropped)
        # a busy machine may be too slow for such an interval as well, before and after
        self.assertIn("the disk was full", {reason for _, reason in gaps})
        self.assertLessEqual({reason for _, reason in gaps},
                             {"the disk was full", "the disk was too slow"})

    def endure(self, errors, times, count_taken):
        """Fills the disk until snapshots are lost and frees it again, this many times; each is
        reported once. The ballast is given up before, unless room was made only just before, out of
        which it was made again. count_taken() counts the snapshots taken so far, or less."""
        for number in range(1, times + 1):
            self.assertTrue(os.path.exists(self.ballast) or number > 1, "there is no ballast")
            self.fill_until(lambda: errors().count(small_disk.FULL) == number,
                            "it is said that the disk is full")
            taken = count_taken() + small_disk.QUEUE_MAX
            self.check_reading()
            harness.wait_until(lambda: count_taken() > taken, "snapshots are lost")
            self.assertEqual(errors().count(small_disk.FULL), number)
            self.make_room()
            harness.wait_until(lambda: WRITING in errors().rsplit(small_disk.FULL, 1)[1], errors)
            self.figures["times full"] += 1


class FullDisk(SmallDisk):
    def test_writer_thread(self):
        times = faults.count(1, 5)
        writer = self.write_database("--job", "build", "--processes", 60, "--ticks", 100000,
                                     "--pace", 0.005, "--interval", 0.005, "--retry-ms", 50,
                                     verb="queue")
        harness.wait_until(lambda: self.stored("SELECT 1 FROM snapshots"), "a snapshot is stored")
        self.endure(lambda: writer.errors, times, lambda: writer.said.count("QUEUED"))
        writer.process.terminate()  # ends its ticks, not the writer
        writer.wait()
        self.assertEqual(writer.process.returncode, 0, writer.errors)
        stored, dropped = re.search(r"DONE (\d+) (\d+)", writer.said).groups()
        self.assertEqual(int(stored) + int(dropped), writer.said.count("QUEUED"))
        self.assertGreater(int(dropped), 0)
        self.check_gaps(int(dropped))
        self.assertEqual(self.rows("SELECT outcome FROM jobs"), [("success",)])
        self.figures["snapshots lost and accounted for"] += int(dropped)
        self.assertEqual(writer.errors.count(small_disk.FULL), times, writer.errors)
        self.check_reports([])

    def test_never_freed(self):
        """The command's status is passed on in time, and one line reports what is not stored."""
        process = self.start_sonde("--interval", "10ms", "--job", "build", "--", "sh", "-c",
                                   "echo ready $$; read line; exit 7")
        self.await_ready(process)
        harness.wait_until(lambda: self.stored("SELECT 1 FROM snapshots"), "a snapshot is stored")
        self.fill_until(lambda: small_disk.FULL in pathlib.Path(process.errors_path).read_text(
            encoding="utf-8"), "it is said that the disk is full")
        self.fill()
        result = self.finish(process)
        self.assertEqual(result.status, 7, result)
        self.assertEqual(result.stderr.count("not stored to the end"), 1, result)
        self.check_reading()
        self.make_room()
        self.check_reports([])
        self.assertEqual(self.rows("SELECT job_id, outcome, cause FROM jobs"),
                         [("build", "unknown", "lost")])
        self.assertEqual(self.run_job("true", options=("--job", "build")).summary["job_id"],
                         "build")

    def test_full_when_it_is_opened(self):
        """The ballast provides the first space."""
        writer = self.write_database("--ticks", 100, "--job", "build")
        before = writer.wait()
        self.fill()
        writer = self.write_database("--ticks", 20, "--job", "build")
        report = writer.wait()
        self.assertEqual((writer.errors, report.lost), ("", {}))
        self.check_reading()
        self.make_room()
        self.check_reports([before, report])

    def test_full_before(self):
        """The disk was full from the start."""
        self.fill()
        result = self.run_sonde("run", "--", "sh", "-c", "exit 7")
        self.assertEqual(result.status, 7, result)
        self.assertEqual(result.stderr.count("not stored"), 1, result)
        self.make_room()
        self.assertEqual(self.run_job("true").stderr.count("sonde: run:"), 0)
        self.check_reports([])

    def test_database_fills_it(self):
        """Expired data makes room repeatedly."""
        hours, days = 1, 1 / 12
        writer = self.write_database("--job", "build", "--processes", 100, "--interval", 10,
                                     "--full-hours", hours, "--minute-days", days, "--ticks",
                                     faults.count(3500, 10000))
        report = writer.wait(600)
        self.assertTrue(report.is_done, writer.errors)
        self.figures["ticks stored"] += len(report.ticks)
        self.figures["ticks lost"] += len(report.lost)
        self.figures["times that room was made"] += writer.said.count("ROOM 0")
        self.assertGreater(writer.said.count("ROOM 0"), 0, "the disk did not fill up")
        self.assertEqual(report.lost, {})
        self.enlarge()
        self.check_reports([report], (hours, days))

    def test_nothing_expires(self):
        """Writing continues while there is room, and stored data stays intact."""
        with open(os.path.join(self.disk, "filler"), "wb") as filler:
            filler.write(b"x" * (self.SIZE_MB << 19))
        writer = self.write_database("--job", "build", "--processes", 200, "--ticks", 350)
        report = writer.wait()
        self.figures["ticks stored"] += len(report.ticks)
        self.figures["ticks lost"] += len(report.lost)
        self.assertGreater(len(report.lost), 0, "the disk did not fill up")
        self.assertGreater(len(report.ticks), 100)
        self.check_reading()
        self.enlarge()
        self.check_reports([report])


if faults.IS_LONG:
    class RealRun(SmallDisk):
        """As the writer thread, at its usual pace; in the suite tests/e2e/test_run_store.py has
        it."""

        def test_real_run(self):
            process = self.start_crowd("--job", "build")
            self.endure(lambda: pathlib.Path(process.errors_path).read_text(encoding="utf-8"),
                        faults.count(1, 3), lambda: small_disk.count_snapshots(process.pid))
            result = self.finish(process)
            self.assertEqual(result.status, 0, result)
            dropped = self.rows("SELECT sum(lost) FROM gaps WHERE kind = 'not_stored'")[0][0]
            self.check_gaps(dropped)
            stored = self.rows("SELECT count(DISTINCT snapshot_id) FROM process_metrics"
                               " WHERE run_id = ?", result.summary["run_id"])[0][0]
            self.assertEqual(stored + dropped, result.summary["num_samples"])
            self.assertEqual(self.rows("SELECT outcome FROM jobs"), [("success",)])
            self.check_reports([])


if __name__ == "__main__":
    faults.main()
