#!/usr/bin/env python3
"""kill -9 at any point: only the current interval is lost, and nothing is corrupt."""
import json
import os
import signal
import time

import faults
import harness

# Many short runs into one database, and then a new one.
KILLS_PER_DATABASE = 20

# A world in which retention has something to do: hours pass in a second.
RETENTION = (1, 0.1)  # hours in full, days in minutes
RETAINING = ("--interval", 20, "--retain", 40, "--full-hours", RETENTION[0], "--minute-days",
             RETENTION[1])

# The beginning of a minute, long enough ago for what the tests write to lie in the past, and the
# middle of it.
MINUTE = faults.A_WHILE_AGO
START = MINUTE + 30


class ByTime(faults.Case):
    """At a random moment."""

    def kill_some(self, kills, words, within=0.25, retention=None, writers=1):
        """Kills that many writers of one database, one after the other."""
        reports = []
        for number in range(kills):
            if number % KILLS_PER_DATABASE == 0:
                self.clear()
                reports = []
            running = [self.write_database("--seed", self.random.getrandbits(30),
                                           "--ticks", 100000, *words) for _ in range(writers)]
            for writer in running:
                time.sleep(self.random.uniform(0, within))
                reports.append(writer.kill())
                self.check_sanitizers(writer.errors.encode())
                self.assertEqual(writer.errors, "")
                self.figures["kills"] += 1
                self.figures["ticks acknowledged"] += len(reports[-1].ticks)
            if len({report.pid for report in reports}) == len(reports):
                self.check_reports(reports, retention)
            else:
                # The kernel reused a pid: the rows of the two processes cannot be distinguished.
                self.clear()
                reports = []

    def test_while_it_is_made(self):
        for _ in range(faults.count(4, 60)):
            self.clear()
            self.kill_some(1, ("--job", "build"), within=0.03)

    def test_one_writer(self):
        self.kill_some(faults.count(3, 120), ("--job", "build", "--start", START))

    def test_several_writers(self):
        self.kill_some(faults.count(2, 30), ("--job", "build", "--pace", 0.002), writers=3)

    def test_retention(self):
        self.kill_some(faults.count(3, 60),
                       ("--job", "build", "--start", START, "--processes", 10, *RETAINING),
                       within=0.4, retention=RETENTION)

    def test_at_the_end_of_a_minute(self):
        """Recovery has to roll up 5,800 ticks of 200 processes."""
        ticks = faults.count(290, 5800)
        writer = self.write_database("--interval", 58 / ticks, "--processes", 200, "--job", "build",
                                     "--start", MINUTE, "--ticks", ticks, "--stay")
        self.await_ticks(writer, ticks)
        self.check_reports([writer.kill()])
        self.figures["kills"] += 1


class ByCall(faults.Case):
    """At a system call: before it takes effect, with all before it done."""

    CALLS = ("pwrite64", "fdatasync", "ftruncate", "openat", "unlink", "fcntl", "pread64",
             "newfstatat")

    def read_half_made(self):
        """A reader must not change the database for the next writer."""
        result = self.run_sonde("jobs")
        self.assertIn(result.status, (0, 3), result)  # 3: nothing is stored yet
        self.assertRegex(result.stderr, "^$|no data yet|no jobs are stored|there is no database")

    def kill_at_calls(self, words, kills, prepare=None, retention=None, is_read=False):
        """Spreads that many kills over the calls of an undisturbed driver."""
        for call, number in self.spread(words, kills, prepare):
            with self.subTest(call=call, number=number):
                self.clear()
                reports = [prepare()] if prepare else []
                writer = self.write_database(*words, prefix=faults.strace(
                    self.database, f"trace={call}", f"inject={call}:signal=KILL:when={number}"))
                reports.append(writer.wait())
                self.assertEqual(writer.process.returncode, -signal.SIGKILL, writer.errors)
                self.figures["kills"] += 1
                if is_read:
                    self.read_half_made()
                self.check_reports(reports, retention)

    def spread(self, words, kills, prepare):
        self.clear()
        if prepare:
            prepare()
        log = self.path("calls")
        writer = self.write_database(*words, prefix=faults.strace(
            self.database, "trace=" + ",".join(self.CALLS), log=log))
        writer.wait()
        self.assertEqual(writer.process.returncode, 0, writer.errors)
        made = {}
        with open(log, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                # "PID call(…"; a call that another thread interrupts is resumed without its name
                name = line.split()[1].split("(")[0]
                made[name] = made.get(name, 0) + 1
        sites = [(call, number) for call in self.CALLS
                 for number in range(1, made.get(call, 0) + 1)]
        return self.random.sample(sites, min(kills, len(sites)))

    def killed_before(self):
        """A database whose last writer was killed, so that the next one has to clean up."""
        writer = self.write_database("--ticks", 90, "--stay", "--job", "build", "--start", START)
        self.await_ticks(writer, 90)
        return writer.kill()

    @harness.needs_program("strace")
    def test_while_it_is_made(self):
        self.kill_at_calls(("--ticks", 2, "--processes", 5, "--job", "build"),
                           faults.count(6, 90), is_read=True)

    @harness.needs_program("strace")
    def test_writing_and_folding(self):
        self.kill_at_calls(("--ticks", 130, "--processes", 10, "--job", "build"),
                           faults.count(4, 70))

    @harness.needs_program("strace")
    def test_cleaning_up_after_another(self):
        self.kill_at_calls(("--ticks", 3, "--processes", 5, "--job", "build"),
                           faults.count(4, 60), prepare=self.killed_before)

    @harness.needs_program("strace")
    def test_retention(self):
        self.kill_at_calls(("--ticks", 300, "--processes", 5, "--start", START, "--job", "build",
                            *RETAINING), faults.count(2, 50), retention=RETENTION)


def changes_of(rows):
    """Without rows that only repeat the previous one. (proc, tick, …)"""
    kept = []
    last = {}
    for proc, tick, *values in rows:
        if last.get(proc) != values:
            kept.append((proc, tick, *values))
        last[proc] = values
    return kept


class Recovery(faults.Case):
    TABLES = {
        "proc": "session, first_tick, last_tick, pid, start_ticks, sheet_num",
        "history": "*",
        "minute": "*",
        "snap": "session, is_minute, tick, to_tick, child_count, age_clock, timestamp, load_avg_1,"
                " system_memory_available_mb, running_jobs, active_sheets, zombie_count",
        "gpu": "session, is_minute, tick, utilization_pct, memory_used_mb",
        "usage": "session, is_minute, tick, cpu_seconds, rss_mb, processes",
        # except byte counters, which are stored at intervals
        "jobs": "peak_rss_mb, peak_total_mb, max_cpu_pct, kill_count, failed_exit_count,"
                " exit_count, process_spawn_count, unique_pid_count, total_cpu_seconds,"
                " num_samples",
        "sheets": "sheet_num, peak_rss_mb, max_cpu_pct",
    }

    def content(self):
        content = {table: self.rows(f"SELECT {columns} FROM {table} ORDER BY 1, 2, 3")
                   for table, columns in self.TABLES.items()}
        content["minute"] = changes_of(content["minute"])
        return content

    def test_as_if_it_had_ended_well(self):
        """The next writer rolls up the samples of a killed one as that one would have done."""
        for ticks, interval in ((1, 1), (60, 1), (61, 1), (150, 7)):
            with self.subTest(ticks=ticks, interval=interval):
                words = ("--start", START, "--job", "build", "--seed", 7, "--interval", interval)
                self.clear()
                writer = self.write_database("--ticks", ticks, *words)
                writer.wait()
                ended = self.content()
                self.clear()
                writer = self.write_database("--ticks", ticks, "--stay", *words)
                self.await_ticks(writer, ticks)
                writer.kill()
                self.open_again()
                lost = self.content()
                for table in self.TABLES:
                    self.assertEqual(lost[table], ended[table], table)

    def test_not_finished(self):
        """A run that its writer never finished is lost, and its name is free again."""
        for _ in range(2):
            writer = self.write_database("--ticks", 3, "--job", "build", "--no-finish")
            self.assertEqual(writer.wait().job_id, "build")
        self.assertEqual(self.rows("SELECT outcome, cause FROM jobs"), [("unknown", "lost")] * 2)


class RealRun(faults.Case):
    """sonde run itself."""

    def kill_one(self, number, is_stored):
        """At a random moment; with `is_stored`, of the time since the run is in the database."""
        with open(self.path(f"run-{number}"), "wb") as errors:
            process = self.start(harness.SONDE, "run", "--job", "build", "--interval", "10ms", "--",
                                 *self.victim("crowd", 20, 60000), stderr=errors)
        if is_stored:
            harness.wait_until(lambda: self.stored("SELECT 1 FROM jobs WHERE outcome = 'running'"),
                               "the run is stored")
        time.sleep(self.random.uniform(0, 0.3))
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
        # its command lives on
        harness.kill_all_below()

    def test_killed(self):
        kills = faults.count(3, 40)
        for number in range(kills):
            self.kill_one(number, is_stored=number == kills - 1)
            self.figures["kills"] += 1
            if not os.path.exists(self.database):
                continue
            self.check_reports([])
            for verb in ("jobs", "events"):
                result = self.run_sonde(verb, "--json")
                self.assertIn(result.status, (0, 3), result)  # 3: nothing is stored yet
                self.assertNotIn("damaged", result.stderr)
        names = self.rows("SELECT DISTINCT job_id, outcome, cause FROM jobs")
        self.assertEqual(names, [("build", "unknown", "lost")])


class Log(faults.Case):
    """The JSONL log beside the database, with a size that makes it rotate all the time."""

    MAX_BYTES = 200_000

    def setUp(self):
        super().setUp()
        self.log = os.path.join(self.state, "monitor.jsonl")
        self.words = ("--jsonl", self.log, "--jsonl-max", self.MAX_BYTES, "--processes", 40)

    def lines(self, suffix):
        try:
            with open(self.log + suffix, "rb") as file:
                content = file.read()
        except FileNotFoundError:
            return [], b""
        self.assertLessEqual(len(content), self.MAX_BYTES)
        *whole, torn = content.split(b"\n")
        return [json.loads(line) for line in whole], torn

    def check_log(self, report):
        """Every line is complete, except the last of the last file; and none is missing."""
        older, middle, newest = (self.lines(suffix) for suffix in (".2", ".1", ""))
        self.assertEqual((older[1], middle[1]), (b"", b""), "a torn line after a rotation")
        numbers = [line["running_jobs"] for line in older[0] + middle[0] + newest[0]]
        if report.ticks:
            last = max(report.ticks)
            self.assertIn(numbers[-1:], ([last], [last + 1]), "acknowledged lines are not there")
            steps = {after - before for before, after in zip(numbers, numbers[1:])}
            self.assertLessEqual({step for step in steps if step > 0}, {1}, "lines are missing")
        self.figures["torn lines"] += newest[1] != b""
        return newest[1]

    def test_killed(self):
        for _ in range(faults.count(3, 60)):
            writer = self.write_database("--ticks", 100000, *self.words)
            time.sleep(self.random.uniform(0, 0.3))
            report = writer.kill()
            self.figures["kills"] += 1
            self.check_log(report)
            after = self.write_database("--ticks", 1, *self.words)
            report = after.wait()
            self.assertEqual(after.process.returncode, 0, after.errors)
            self.assertEqual(self.check_log(report), b"")

    @harness.needs_program("strace")
    def test_killed_at_calls(self):
        """In the middle of a rotation."""
        for call in ("writev", "renameat"):
            for number in range(1, faults.count(2, 20) + 1):
                with self.subTest(call=call, number=number):
                    self.clear()
                    writer = self.write_database("--ticks", 200, *self.words, prefix=faults.strace(
                        None, f"trace={call}", f"inject={call}:signal=KILL:when={number}"))
                    report = writer.wait()
                    self.figures["kills"] += writer.process.returncode == -signal.SIGKILL
                    self.check_log(report)
                    after = self.write_database("--ticks", 1, *self.words)
                    self.assertEqual(self.check_log(after.wait()), b"")


if __name__ == "__main__":
    faults.main()
