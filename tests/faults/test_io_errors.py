#!/usr/bin/env python3
"""System calls that fail: the database stays intact, snapshots are complete, losses are accounted
for, and writing works again after the fault."""
import collections
import os
import re
import unittest

import faults
import harness

# What may fail, and how. mmap is how SQLite shares the index of its log.
ERRORS = {
    "pwrite64": ("EIO", "ENOSPC"),
    "fdatasync": ("EIO", "ENOSPC"),
    "ftruncate": ("EIO", "ENOSPC"),
    "openat": ("EIO", "ENOSPC", "EMFILE"),
    "pread64": ("EIO",),
    "read": ("EIO",),
    "fallocate": ("EIO", "ENOSPC"),
    "unlink": ("EIO",),
    "mmap": ("ENOMEM",),
    "writev": ("EIO", "ENOSPC"),
}
# One call fails; several in a row; all that follow.
LENGTHS = ("{0}", "{0}..{1}", "{0}+")
SOME = 7

SAMPLING = "sampling continues"
WRITING = "writing again"

RETAINING = ("--interval", 20, "--retain", 40, "--full-hours", 1, "--minute-days", 0.1)
RETENTION = (1, 0.1)
START = faults.A_WHILE_AGO + 30


@unittest.skipUnless(harness.shutil.which("strace"), "needs strace")
class Errors(faults.Case):
    def setUp(self):
        super().setUp()
        self.log = os.path.join(self.state, "monitor.jsonl")

    def inject(self, *expressions, words, log=os.devnull):
        writer = self.write_database(*words, prefix=faults.strace(
            self.database, *expressions, log=log, jsonl=self.log))
        writer.wait()
        self.check_sanitizers(writer.errors.encode())
        return writer

    def count_calls(self, words, prepare):
        """How often the driver makes each call when nothing fails."""
        self.clear()
        prepare()
        log = self.path("calls")
        writer = self.inject("trace=" + ",".join(ERRORS), words=words, log=log)
        self.assertEqual(writer.process.returncode, 0, writer.errors)
        with open(log, encoding="utf-8", errors="replace") as lines:
            return collections.Counter(line.split()[1].split("(")[0] for line in lines)

    def sites(self, made, wanted):
        """(call, error, when): spreads faults over the calls and the lengths."""
        sites = []
        calls = [call for call in ERRORS if made[call]]
        for turn in range(wanted):
            call = calls[turn % len(calls)]
            number = self.random.randint(1, made[call])
            when = self.random.choice(LENGTHS).format(number, number + SOME)
            sites.append((call, self.random.choice(ERRORS[call]), when))
        return sites

    def try_errors(self, words, wanted, prepare=lambda: None, retention=None):
        made = self.count_calls(words, prepare)
        for call, error, when in self.sites(made, wanted):
            with self.subTest(call=call, error=error, when=when):
                self.clear()
                before = prepare()
                writer = self.inject(f"trace={call}", f"inject={call}:error={error}:when={when}",
                                     words=words)
                self.figures["errors injected"] += 1
                report = writer.report()
                self.check_words(writer, report)
                self.check_reports(([before] if before else []) + [report], retention)

    def check_words(self, writer, report):
        """The driver continued, or reported the cause and the file."""
        self.assertIn(writer.process.returncode, (0, 1), writer.errors)
        self.figures["went on" if writer.process.returncode == 0 else "said why not"] += 1
        self.figures["ticks lost and accounted for"] += len(report.lost)
        if writer.process.returncode == 1:
            lines = writer.errors.splitlines()
            self.assertEqual(len(lines), 1, lines)
            self.assertIn(self.database, lines[0])
        for why in report.lost.values():
            self.assertIn(self.database, why)

    # ---- in which the calls fail ----

    def test_while_it_is_made(self):
        self.try_errors(("--ticks", 3, "--processes", 5, "--job", "build"), faults.count(8, 120))

    def test_writing_and_folding(self):
        self.try_errors(("--ticks", 130, "--processes", 10, "--job", "build", "--jsonl", self.log,
                         "--jsonl-max", 100000), faults.count(5, 110))

    def test_cleaning_up_after_another(self):
        def prepare():
            writer = self.write_database("--ticks", 90, "--stay", "--job", "build", "--start",
                                         START)
            self.await_ticks(writer, 90)
            return writer.kill()
        self.try_errors(("--ticks", 70, "--processes", 5, "--job", "build", "--start", START),
                        faults.count(4, 80), prepare=prepare)

    def test_retention(self):
        self.try_errors(("--ticks", 300, "--processes", 5, "--start", START, "--job", "build",
                         *RETAINING), faults.count(2, 80), retention=RETENTION)


@unittest.skipUnless(harness.shutil.which("strace"), "needs strace")
class WriterThread(faults.Case):
    """A disk that fails for a while, or is too slow: what is lost meanwhile is counted to the last
    snapshot."""

    def check_accounts(self, fault, pace, reasons):
        self.clear()
        ticks = faults.count(300, 600)
        writer = self.write_database(
            "--ticks", ticks, "--processes", 5, "--pace", pace, "--interval", pace, "--retry-ms", 2,
            "--job", "build", verb="queue", prefix=faults.strace(
                self.database, "trace=pwrite64", f"inject=pwrite64:{fault}"))
        writer.wait()
        self.assertEqual(writer.process.returncode, 0, writer.errors)
        stored, dropped = map(int, re.search(r"DONE (\d+) (\d+)", writer.said).groups())
        self.assertEqual(stored + dropped, ticks)
        self.figures["snapshots lost and accounted for"] += dropped
        self.assertEqual(self.rows("SELECT count(*) FROM snapshots")[0][0], stored)
        if "not stored to the end" in writer.errors:
            # It failed until the end, so that the end could not be reported.
            self.assertGreater(dropped, 0)
            self.assertTrue(self.is_in_trouble(writer.errors), writer.errors)
            return
        # Each error is reported with its end, and the reported losses add up. Losses while stopping
        # have no error message, and an error that lasts ends there.
        ends = re.findall(r"; ([\d,]+) snapshots? \([^)]*\) (?:was|were) not stored", writer.errors)
        self.assertEqual(sum(int(end.replace(",", "")) for end in ends), dropped, writer.errors)
        late = writer.errors.count("not stored, at the end")
        self.assertLessEqual(late, 1, writer.errors)
        self.assertLessEqual(self.is_in_trouble(writer.errors), late, writer.errors)
        gaps = self.rows("SELECT lost, reason FROM gaps WHERE kind = 'not_stored'")
        if late and fault.startswith("error"):  # which may have been the end of writing, too
            self.assertLessEqual(sum(lost for lost, _ in gaps), dropped)
        else:
            self.assertEqual(sum(lost for lost, _ in gaps), dropped)
        self.assertLessEqual({reason for _, reason in gaps}, reasons)
        self.check_reports([])

    def is_in_trouble(self, errors):
        """Whether it was, at the end. One trouble may become another before both are over."""
        is_on = False
        for line in errors.splitlines():
            if SAMPLING in line:
                is_on = True
            elif WRITING in line:
                self.assertTrue(is_on, errors)
                is_on = False
        return is_on

    def test_fails_for_a_while(self):
        for error in ("EIO", "ENOSPC"):
            for number in range(faults.count(1, 10)):
                with self.subTest(error=error, number=number):
                    first = self.random.randint(300, 1000)
                    last = first + self.random.randint(1, faults.count(100, 300))
                    self.check_accounts(f"error={error}:when={first}..{last}", 0.003, {
                        "the disk was full", "the database could not be written",
                        "the disk was too slow"})
                    self.figures["errors injected"] += 1

    def test_is_too_slow(self):
        for number in range(faults.count(1, 3)):
            with self.subTest(number=number):
                first = self.random.randint(300, 1000)
                self.check_accounts(f"delay_enter=20000:when={first}..{first + 40}", 0.002,
                                    {"the disk was too slow"})


@unittest.skipUnless(harness.shutil.which("strace"), "needs strace")
class RealRun(faults.Case):
    """sonde run itself passes on the status of the command, whatever fails."""

    def test_command_does_not_notice(self):
        for _ in range(faults.count(4, 60)):
            call = self.random.choice(("pwrite64", "fdatasync", "ftruncate", "openat", "pread64"))
            error = self.random.choice(("EIO", "ENOSPC"))
            when = self.random.choice(LENGTHS).format(self.random.randint(1, 60), 67)
            with self.subTest(call=call, error=error, when=when):
                self.clear()
                prefix = faults.strace(self.database, f"trace={call}",
                                       f"inject={call}:error={error}:when={when}")
                result = self.run_sonde("run", "--interval", "10ms", "--job", "build", "--", "sh",
                                        "-c", "sleep 0.2; exit 7", prefix=prefix)
                self.figures["errors injected"] += 1
                self.assertEqual(result.status, 7, result)
                self.assertEqual(result.summary["exit_code"], 7)
                if os.path.exists(self.database):
                    self.check_reports([])

    if faults.IS_LONG:
        def test_disk_hangs(self):
            """sonde run does not wait for it longer than a person would."""
            for call in ("pwrite64", "openat"):
                with self.subTest(call=call):
                    prefix = faults.strace(self.database, f"trace={call}",
                                           f"inject={call}:delay_enter=5000000")
                    result = self.run_sonde("run", "--", "sh", "-c", "exit 7", prefix=prefix)
                    self.assertEqual(result.status, 7, result)
                    self.assertIn("does not answer", result.stderr)
                    self.check_reports([])


if __name__ == "__main__":
    faults.main()
