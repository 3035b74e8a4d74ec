#!/usr/bin/env python3
"""sonde top in a real terminal, driven by keys, compared with the daemon's data."""
import contextlib
import fcntl
import os
import pty
import re
import select
import shlex
import signal
import sqlite3
import struct
import subprocess
import termios
import time

import daemon
import harness
import tmux

# Everything is published, and a spike is detected at once.
CONFIG = "profiler:\n  anomaly:\n    memory_spike_min_mb: 20\n"
PROCESS = re.compile(r"^ *(\d+) (\S+) +(\S) +([\d.-]+) +(\S+) ")


class Screen(tmux.TestCase, daemon.TestCase):
    size = (100, 30)

    def top(self, *options, prefix="", **variables):
        """Starts it in the terminal, and waits for its first frame."""
        words = " ".join(map(shlex.quote, (harness.SONDE, "top", "--interval", "200ms", *options)))
        settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
        self.type(f"clear; {prefix} env {settings} {words} 2>{self.path('errors')}; "
                  f"echo $? >{self.path('status')}")
        self.await_row("COMMAND")

    def rows(self):
        return self.tmux("capture-pane", "-p").split("\n")[:-1]

    def text(self):
        return "\n".join(self.rows())

    def await_row(self, words):
        """The first row that contains these texts."""
        def find():
            return next((row for row in self.rows() if words in row), None)
        return harness.wait_until(find, lambda: f"'{words}' on the screen:\n{self.text()}")

    def await_process(self, words):
        """The row of the process that contains these texts; event lines may contain them too."""
        def find():
            return next((row for row in self.rows() if words in row and PROCESS.match(row)), None)
        return harness.wait_until(find, lambda: f"'{words}' in the table:\n{self.text()}")

    def await_no_row(self, words):
        harness.wait_until(lambda: words not in self.text(),
                           lambda: f"'{words}' gone from the screen:\n{self.text()}")

    def quit(self):
        self.press("q")
        self.assertEqual(self.await_file("status"), "0\n")
        self.check_sanitizers(self.read("errors"))
        self.assertEqual(self.read("errors"), b"")

    def processes(self):
        """[(pid, CPU, RSS as shown)] from top to bottom."""
        found = []
        for row in self.rows():
            match = PROCESS.match(row)
            if match:
                found.append((int(match[1]), match[4], match[5]))
        return found

    def pids(self):
        return [pid for pid, _, _ in self.processes()]

    def job(self, sonde, name="nightly", children=2):
        """A job of a puppet and its sleeping children; (puppet, run_id, pids)."""
        puppet = self.puppet()
        run_id = sonde.rpc("job.start", job_id=name, pid=puppet.pid, total_sheets=4)["run_id"]
        sonde.rpc("job.progress", job_id=run_id, last_completed_sheet=1, current_sheet=2)
        pids = {puppet.pid} | {puppet.fork("child") for _ in range(children)}
        harness.wait_until(lambda: sonde.pids(run_id) == pids, "the processes")
        return puppet, run_id, pids

    # ---- what is shown ----

    def test_shows_what_the_daemon_reports(self):
        sonde = self.daemon(CONFIG)
        _, run_id, pids = self.job(sonde)
        self.top("--job", "nightly")
        self.await_row("▾ nightly")
        harness.wait_until(lambda: set(self.pids()) == pids, self.text)
        expected = {process["pid"]: process for process in sonde.processes(run_id=run_id)}
        for pid, _, rss in self.processes():
            self.assertEqual(rss, f"{expected[pid]['rss_mb']:.1f}M")
        self.await_row("daemon on")
        self.assertIn("[", self.await_row("▾ nightly"))
        self.assertIn("1/4]", self.await_row("▾ nightly"))
        self.assertIn("step 2", self.await_row("▾ nightly"))
        self.assertIn("Jobs 1", self.await_row("CPU ["))
        snapshot = sonde.top()
        self.assertIn(f"{snapshot['system_memory_total_mb'] / 1024:.1f}G", self.await_row("Mem ["))
        self.assertIn(f"of {snapshot['cpu_count']:g}]", self.await_row("CPU ["))
        self.quit()

    def test_quit_leaves_the_terminal_as_it_was(self):
        self.daemon(CONFIG)
        self.type(f"stty -a >{self.path('before')}")
        self.await_file("before")
        self.top()
        self.quit()
        self.await_no_row("COMMAND")  # the alternate screen is gone
        self.type(f"stty -a >{self.path('after')}")
        self.assertEqual(self.await_file("before"), self.await_file("after"))

    def test_sorts(self):
        sonde = self.daemon(CONFIG)
        puppet, _, pids = self.job(sonde, children=3)
        puppet.order("grow", 60)
        self.top("--job", "nightly")
        harness.wait_until(lambda: set(self.pids()) == pids, self.text)
        self.press("M")
        self.await_row("RSS▼")
        harness.wait_until(lambda: self.pids()[0] == puppet.pid, self.text)
        self.press("I")
        self.await_row("RSS▲")
        harness.wait_until(lambda: self.pids()[-1] == puppet.pid, self.text)
        self.press("N")
        harness.wait_until(lambda: self.pids() == sorted(pids), self.text)
        self.press("I")
        harness.wait_until(lambda: self.pids() == sorted(pids, reverse=True), self.text)
        self.press("F6")
        self.await_row("sort by:")
        self.press("Home", "Down", "Enter")  # a field without a column
        self.await_row("PPID▼")
        self.press("T")
        self.await_row("TIME▼")
        self.press("P")
        self.await_row("CPU%▼")
        self.quit()

    def test_filters_and_searches(self):
        sonde = self.daemon("profiler:\n  scope: all\n")
        _, _, pids = self.job(sonde)
        self.start("sleep", "98765")
        self.top()
        self.press("F4")
        self.tmux("send-keys", "-l", "sleep 98765")
        harness.wait_until(lambda: len(self.pids()) == 1, self.text)
        self.press("Enter")
        self.await_row("filter sleep 98765")
        self.press("Escape")
        self.await_no_row("filter sleep")
        harness.wait_until(lambda: pids <= set(self.pids()), self.text)
        self.press("/")
        # One key at a time: a tmux with the whole number in its command line would be found too.
        for digit in str(max(pids)):
            self.tmux("send-keys", "-l", digit)
        self.press("Enter", "Enter")  # found; its details
        self.await_row(f"process {max(pids)}")
        self.press("\\")
        self.tmux("send-keys", "-l", "nothing has this name")
        self.await_row("no process matches")
        self.press("Escape")
        self.await_no_row("no process matches")
        self.quit()

    def test_folds_and_tree(self):
        sonde = self.daemon(CONFIG)
        puppet, _, pids = self.job(sonde)
        self.top("--job", "nightly")
        harness.wait_until(lambda: set(self.pids()) == pids, self.text)
        self.press("Home", "-")
        self.await_row("▸ nightly")
        harness.wait_until(lambda: not self.pids(), self.text)
        self.press("-")
        self.await_row("▾ nightly")
        harness.wait_until(lambda: set(self.pids()) == pids, self.text)
        self.press("F5")  # the tree: children below their parent
        self.await_row("└─")
        self.assertEqual(self.pids()[0], puppet.pid)
        self.press("t")
        self.await_row("JOB")
        self.await_no_row("▾ nightly")
        self.quit()

    def test_details(self):
        sonde = self.daemon(CONFIG)
        puppet, run_id, _ = self.job(sonde, children=0)
        self.top("--job", "nightly")
        harness.wait_until(lambda: self.pids() == [puppet.pid], self.text)
        self.press("Down", "Enter")
        self.await_row(f"process {puppet.pid}")
        process, = sonde.processes(run_id=run_id)
        memory = self.await_row(" memory ")
        self.assertIn(f"rss {process['rss_mb']:.1f}M", memory)
        self.assertIn(f"peak {process['peak_rss_mb']:.1f}M", memory)
        harness.wait_until(lambda: "█" in self.await_row(" memory "), self.text)  # a sparkline
        self.assertIn(f"threads {process['threads']}", self.await_row(" uses "))
        self.assertIn(f"of {process['fd_limit']}", self.await_row(" uses "))
        self.assertIn(process["command"][:40], self.await_row(" command "))
        self.assertIn(run_id, self.await_row(" job "))
        self.press("Up")
        self.await_row("── job ─")
        self.assertIn(run_id, self.await_row(" run "))
        self.press("Enter")
        self.await_no_row("── job ─")
        self.quit()

    def test_shows_events(self):
        sonde = self.daemon(CONFIG)
        puppet, _, _ = self.job(sonde)
        self.top()
        puppet.exit(3)
        row = self.await_row(f"exit    {puppet.pid:7}") if harness.has_connector() else \
            self.await_row("finished")
        self.assertIn("nightly", row)
        self.press("Tab")
        self.await_no_row("── events ─")
        self.quit()

    def test_pause(self):
        sonde = self.daemon(CONFIG)
        puppet, _, pids = self.job(sonde)
        self.top("--job", "nightly")
        harness.wait_until(lambda: set(self.pids()) == pids, self.text)
        self.press("Z")
        self.await_row("PAUSED")
        child = puppet.fork("child")
        sonde.await_snapshots(3)
        self.assertNotIn(child, self.pids())
        self.press("Z")
        self.await_no_row("PAUSED")
        harness.wait_until(lambda: child in self.pids(), self.text)
        self.quit()

    def test_follow_and_tag(self):
        sonde = self.daemon(CONFIG)
        _, _, pids = self.job(sonde)
        self.top("--job", "nightly")
        harness.wait_until(lambda: set(self.pids()) == pids, self.text)
        self.press("Down", "Space", "F")
        self.await_row("1 tagged following")
        self.await_row("●")
        self.press("Escape", "U")
        self.await_no_row("following")
        self.await_no_row("tagged")
        self.quit()

    def test_help(self):
        self.daemon(CONFIG)
        self.top()
        self.press("F1")
        self.await_row("sonde top: keys")
        self.await_row("send a signal (asks first)")
        self.press("Escape")
        self.await_no_row("sonde top: keys")
        self.quit()

    # ---- signals to others ----

    def test_kill_asks_and_kills(self):
        sonde = self.daemon(CONFIG)
        victim = self.start("sleep", "98765")
        sonde.rpc("job.start", job_id="doomed", pid=victim.pid)
        self.top("--job", "doomed")
        harness.wait_until(lambda: self.pids() == [victim.pid], self.text)
        self.press("Down", "F9")
        self.await_row(f"send a signal to {victim.pid} (sleep 98765)")
        self.press("Enter")
        self.await_row(f"Send SIGTERM to {victim.pid} (sleep 98765)? y/n")
        self.press("n")
        self.await_row("no signal was sent")
        sonde.await_snapshots(2)
        self.assertIsNone(victim.poll())
        self.press("k", "Enter")
        self.await_row("y/n")
        self.press("y")
        self.assertEqual(victim.wait(harness.DEADLINE), -signal.SIGTERM)
        self.quit()

    def test_kill_of_a_whole_job(self):
        sonde = self.daemon(CONFIG)
        _, _, pids = self.job(sonde)
        self.top("--job", "nightly")
        harness.wait_until(lambda: set(self.pids()) == pids, self.text)
        self.press("Home", "k")
        self.await_row("send a signal to the 3 processes of nightly")
        self.press("Down", "Enter")
        self.await_row("Send SIGKILL")
        self.press("y")
        harness.wait_until(lambda: not any(map(harness.is_alive, pids)), "all are gone")
        self.quit()

    def test_readonly(self):
        self.daemon(CONFIG)
        self.top("--readonly")
        self.assertNotIn("Kill", self.text())
        self.press("F9", "k", "F1")
        self.await_row("sonde top: keys")
        self.assertNotIn("send", self.text())
        self.press("Escape")
        self.quit()

    # ---- the terminal ----

    def test_resize(self):
        sonde = self.daemon(CONFIG)
        self.job(sonde)
        self.top()
        for columns, rows in ((80, 24), (200, 50), (40, 10), (20, 5), (3, 2), (80, 24)):
            self.resize(columns, rows)
            harness.wait_until(lambda: len(self.rows()) == rows, self.text)
            if rows >= 10:
                harness.wait_until(lambda: self.rows()[-1].startswith("F1Help"), self.text)
                harness.wait_until(lambda: self.rows()[0].startswith("sonde daemon"), self.text)
                heading = [row for row in self.rows() if row.rstrip().endswith("COMMAND")]
                self.assertEqual(len(heading), 1, self.text())
        self.await_row("▾ nightly")
        self.quit()

    def test_suspend(self):
        """SIGSTOP and SIGCONT; then Ctrl-Z and fg, with the terminal as a shell wants it."""
        self.daemon(CONFIG)
        self.type(f"clear; {harness.SONDE} top --interval 200ms 2>{self.path('errors')}")
        self.await_row("F1Help")
        pid = next(pid for pid in harness.children_of(int(self.tmux(
            "display-message", "-p", "#{pane_pid}"))) if self.is_top(pid))
        for number, is_stopped in ((signal.SIGSTOP, True), (signal.SIGCONT, False),
                                   (signal.SIGSTOP, True)):
            os.kill(pid, number)
            harness.wait_until(lambda: (harness.process_state(pid) == "T") == is_stopped,
                               f"stopped: {is_stopped}")
        # Only the shell continues it now: `fg` sends SIGCONT after it has given it the terminal, and
        # a Ctrl-Z in between would be discarded.
        self.type("fg")
        self.await_foreground(pid)
        self.await_row("F1Help")
        for _ in range(2):
            self.press("C-z")
            harness.wait_until(lambda: harness.process_state(pid) == "T", "it has stopped")
            self.type("echo here; stty -a")
            self.await_screen(" icanon")
            self.type("fg")
            self.await_foreground(pid)
            self.await_row("F1Help")
            self.await_row("COMMAND")
        self.press("q")
        harness.wait_until(lambda: not harness.is_alive(pid), "it has ended")
        self.type(f"echo $? >{self.path('status')}")
        self.assertEqual(self.await_file("status"), "0\n")
        self.assertEqual(self.read("errors"), b"")

    @staticmethod
    def await_foreground(pid):
        """The shell has its terminal settings again."""
        def has_terminal():
            with open(f"/proc/{pid}/stat", "rb") as stat:
                state, _, group, _, _, foreground = stat.read().rsplit(b")", 1)[1].split()[:6]
            return state != b"T" and group == foreground
        harness.wait_until(has_terminal, "it is in the foreground")

    @staticmethod
    def is_top(pid):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as command:
            return command.read().split(b"\0")[:2] == [harness.SONDE.encode(), b"top"]
        return False

    def test_interrupt_ends_it(self):
        self.daemon(CONFIG)
        self.top()
        self.press("C-c")
        self.assertEqual(self.await_file("status"), "0\n")

    def test_colours(self):
        """None with NO_COLOR, none on a terminal without colours; some otherwise."""
        self.daemon(CONFIG)
        colour = re.compile(r"\x1b\[[\d;]*(3[0-7]|4[0-7])m")
        for variables, has_colour in (({"TERM": "screen-256color"}, True),
                                      ({"TERM": "screen-256color", "NO_COLOR": "1"}, False),
                                      ({"TERM": "vt100"}, False)):
            with self.subTest(**variables):
                self.top(**variables)
                self.await_row("F1Help")
                drawn = self.tmux("capture-pane", "-p", "-e")
                self.assertEqual(bool(colour.search(drawn)), has_colour, drawn)
                self.quit()
                os.unlink(self.path("status"))

    def test_ascii(self):
        sonde = self.daemon(CONFIG)
        self.job(sonde)
        for options, variables in ((("--no-unicode",), {}), ((), {"LC_ALL": "C"})):
            with self.subTest(options=options, **variables):
                self.top(*options, **variables)
                self.await_row("- nightly")
                self.press("Enter")
                self.await_row("-- job ---")
                self.assertTrue(self.text().isascii(), self.text())
                self.quit()
                os.unlink(self.path("status"))

    def test_unsupported_terminals(self):
        self.daemon(CONFIG)
        for name, words in (("no-such-terminal", "is unknown"), ("dumb", "cannot position")):
            self.type(f"TERM={name} {harness.SONDE} top 2>{self.path('errors')}; "
                      f"echo $? >{self.path('status')}")
            self.assertEqual(self.await_file("status"), "1\n")
            errors = self.read("errors").decode()
            self.assertIn(words, errors)
            self.assertIn(name, errors)
            os.unlink(self.path("status"))

    # ---- names ----

    def test_hostile_and_wide_names(self):
        sonde = self.daemon(CONFIG)
        hostile = "\x1b[2J\x1b]0;gone\x07\r\n\u202e"
        wide = "日本語 e\u0301 👍 end"
        script = "import time; time.sleep(300)"
        pids = {}
        for name in (hostile, wide):
            process = self.start("python3", "-c", script, name)
            pids[name] = process.pid
            sonde.rpc("job.start", job_id="named", pid=process.pid, unique=True)
        self.resize(160, 30)
        self.top("--job", "named")
        row = self.await_process("\\x1b[2J\\x1b]0;gone\\a\\r\\n\\u202e")
        self.assertEqual(int(PROCESS.match(row)[1]), pids[hostile])
        self.press("q")
        self.await_file("status")
        os.unlink(self.path("status"))
        self.top("--job", "named-2")
        row = self.await_process("日本語")
        self.assertEqual(int(PROCESS.match(row)[1]), pids[wide])
        self.assertIn(wide, row)
        # The columns to its right are in place.
        self.press("Down", "Enter")
        self.await_row("Enter closes")
        self.quit()

    # ---- sources ----

    def test_daemon_restart(self):
        sonde = self.daemon(CONFIG)
        self.job(sonde)
        self.top()
        self.await_row("daemon on")
        sonde.kill()
        self.await_row("daemon down for")
        self.await_row("▾ nightly")  # the last data
        self.press("F1")
        self.await_row("sonde top: keys")  # keys are answered
        self.press("Escape")
        sonde.start()
        self.await_row("daemon on")
        self.await_no_row("daemon down")
        self.await_row("▾ nightly")  # adopted
        self.quit()

    def test_daemon_that_hangs(self):
        sonde = self.daemon(CONFIG)
        self.top()
        self.await_row("daemon on")
        os.kill(sonde.process.pid, signal.SIGSTOP)
        try:
            self.await_row("daemon down for")
            self.press("q")
            self.assertEqual(self.await_file("status"), "0\n")
        finally:
            os.kill(sonde.process.pid, signal.SIGCONT)

    def test_without_a_daemon(self):
        """Without a daemon: all processes, and the jobs of concurrent `sonde run`."""
        job = self.start_sonde("--job", "alone", "--interval", "100ms", "--",
                               *self.puppet_words())
        puppet = daemon.Puppet(self, job)
        self.top("--job", "alone")
        self.await_row("(no daemon)")
        self.await_row("▾ alone")
        harness.wait_until(lambda: self.pids() == [puppet.pid], self.text)
        child = puppet.fork("child")
        harness.wait_until(lambda: set(self.pids()) == {puppet.pid, child}, self.text)
        puppet.exit(0)  # its child ends with it
        self.await_row("finished: success")
        self.await_no_row("▾ alone")
        self.assertEqual(self.finish(job).status, 0)
        self.quit()

    # ---- the past ----

    def incident(self):
        """A job that suddenly uses 100 MB, in the database of a stopped daemon. Anomalies of other
        processes on this machine are deleted from it."""
        sonde = self.daemon(CONFIG)
        puppet, run_id, _ = self.job(sonde)
        stream = sonde.stream("monitor.anomaly")
        sonde.await_snapshots(8)
        puppet.order("grow", 100)
        anomaly = stream.await_notice("monitor.anomaly",
                                      lambda notice: notice["job_id"] == "nightly")["data"]
        sonde.await_snapshots(8)
        sonde.stop()
        with contextlib.closing(sqlite3.connect(self.database)) as database:
            database.execute("DELETE FROM anomalies WHERE run_id IS NOT ?", (run_id,))
            database.commit()
        return puppet, run_id, anomaly

    def test_anomalies_without_a_daemon(self):
        self.write("sonde.yaml", "profiler:\n  anomaly:\n    fd_exhaustion_threshold: 1\n"
                                 "    fd_exhaustion_ratio: 0.0001\n")
        self.top("--config", self.path("sonde.yaml"))
        self.assertIn("fd_exhaustion", self.await_row(" anomaly "))
        harness.wait_until(lambda: re.search(r"Anomalies [1-9]", self.text()), self.text)
        self.quit()

    def test_replay_reaches_the_anomaly_with_one_key(self):
        puppet, _, anomaly = self.incident()
        self.top("--history", "10m")
        self.await_row("replay x10")
        self.press("Z", "Home")
        self.press("j")
        self.await_row("Jump to")
        self.tmux("send-keys", "-l", "10m ago")
        self.press("Enter")
        self.await_row(" 1/")
        self.assertNotIn("memory_spike", self.text())
        self.press("a")
        row = self.await_row("▲ memory_spike")
        self.assertIn("nightly", row)
        local = time.strftime("%H:%M:%S", time.localtime(anomaly["timestamp"]))
        self.assertIn(local, self.rows()[0])
        # Its process is selected: one key opens the details.
        self.press("Enter")
        self.await_row(f"process {puppet.pid}")
        self.assertIn("memory_spike", self.await_row(" anomaly "))
        self.assertIn("critical memory_spike", self.await_row(f"anomaly  {puppet.pid:6}"))
        self.quit()

    def test_replay_by_its_keys(self):
        self.incident()
        self.top("--history", "10m", "--job", "nightly")
        self.await_row("replay")
        self.press("Z")
        self.await_row("|| replay")
        self.press("j")
        self.tmux("send-keys", "-l", "10m ago")
        self.press("Enter")
        self.await_row(" 1/")
        count = int(re.search(r" 1/(\d+)\]", self.rows()[0])[1])
        for key, position in (("]", 2), ("]", 3), ("[", 2), ("}", count), ("{", 1)):
            self.press(key)
            self.await_row(f" {position}/{count}]")
        self.press("f", "f", "d")
        self.await_row("replay x20")
        self.press("Z")
        self.await_row("▶ replay")
        self.await_row(f" {count}/{count}]")  # to the end
        self.press("F9")  # the past cannot be changed
        self.press("F1")
        self.await_row("sonde top: keys")
        self.assertNotIn("send a signal", self.text())
        self.press("Escape")
        self.quit()

    def test_replay_of_two_writers(self):
        """Two runs that stored at the same time appear in the same frames."""
        jobs = [self.start_sonde("--job", name, "--interval", "100ms", "--", *self.puppet_words())
                for name in ("left", "right")]
        puppets = [daemon.Puppet(self, job) for job in jobs]
        harness.wait_until(lambda: [row["n"] > 10 for row in self.rows_of_runs()] == [True] * 2,
                           "samples of both")
        for puppet, job in zip(puppets, jobs):
            puppet.exit(0)
            self.assertEqual(self.finish(job).status, 0)
        self.top("--history", "10m")
        self.press("Z", "j")
        self.tmux("send-keys", "-l", "10m ago")
        self.press("Enter")
        count = int(re.search(r" 1/(\d+)\]", self.await_row(" 1/"))[1])
        for position in range(2, count + 1):
            if "▾ left" in self.text() and "▾ right" in self.text():
                break
            self.press("]")
            self.await_row(f" {position}/{count}]")
        self.assertIn("▾ left", self.text())
        self.assertIn("▾ right", self.text())
        self.quit()

    def rows_of_runs(self):
        with contextlib.suppress(sqlite3.OperationalError):  # it is being created
            return daemon.TestCase.rows(
                self, "SELECT job_id, count(*) AS n FROM process_metrics"
                      " WHERE job_id IN ('left', 'right') GROUP BY job_id")
        return []


class Lines(daemon.TestCase):
    """--json, and wrong usage."""

    def lines(self, *options, **more):
        result = self.run_sonde("top", "--json", *options, **more)
        self.assertEqual(result.status, 0, result)
        return [harness.strict_json(line) for line in result.stdout.decode().split("\n")[:-1]], result

    def test_live(self):
        sonde = self.daemon(CONFIG)
        puppet = self.puppet()
        run_id = sonde.rpc("job.start", job_id="x", pid=puppet.pid)["run_id"]
        sonde.await_pid(puppet.pid, run_id)
        snapshots, _ = self.lines("--limit", "3", "--interval", "100ms")
        self.assertEqual(len(snapshots), 3)
        self.assertEqual(snapshots[0].keys(), sonde.top().keys())
        self.assertEqual({snapshot["daemon_pid"] for snapshot in snapshots}, {sonde.pid})
        times = [snapshot["timestamp"] for snapshot in snapshots]
        self.assertEqual(times, sorted(set(times)))
        only, _ = self.lines("--limit", "1", "--job", "x")
        self.assertEqual([process["pid"] for process in only[0]["processes"]], [puppet.pid])
        self.assertEqual([job["run_id"] for job in only[0]["jobs"]], [run_id])

    def test_without_a_daemon(self):
        snapshots, _ = self.lines("--limit", "2")
        self.assertIn(os.getpid(), [process["pid"] for process in snapshots[-1]["processes"]])
        known = [process for process in snapshots[-1]["processes"]
                 if process["cpu_percent"] is not None]
        self.assertTrue(known)

    def test_history(self):
        sonde = self.daemon(CONFIG)
        puppet = self.puppet()
        run_id = sonde.rpc("job.start", job_id="x", pid=puppet.pid)["run_id"]
        sonde.await_pid(puppet.pid, run_id)
        sonde.await_snapshots(5)
        sonde.rpc("job.finish", job_id=run_id, outcome="success")
        sonde.stop()
        stored = self.rows("SELECT id, timestamp FROM snapshots ORDER BY timestamp, id")
        snapshots, _ = self.lines("--history", "1h")
        self.assertEqual([snapshot["id"] for snapshot in snapshots],
                         [row["id"] for row in stored])
        self.assertTrue(any(process["pid"] == puppet.pid for process in
                            snapshots[-1]["processes"]))
        some, _ = self.lines("--history", "1h", "--limit", "2")
        self.assertEqual(some, snapshots[:2])
        of_job, _ = self.lines("--history", "1h", "--job", "x")
        self.assertTrue(of_job)
        self.assertEqual({process["pid"] for snapshot in of_job
                          for process in snapshot["processes"]}, {puppet.pid})

    def test_daemon_restart(self):
        sonde = self.daemon(CONFIG)
        with open(self.path("errors"), "wb") as words, open(self.path("lines"), "wb") as lines:
            top = self.start(harness.SONDE, "top", "--json", "--interval", "100ms", stdout=lines,
                             stderr=words)

        def pids():
            """Pids of the daemons in the output, in their order."""
            whole = self.read("lines").decode().splitlines(True)
            pids = [harness.strict_json(line)["daemon_pid"] for line in whole if line[-1] == "\n"]
            return list(dict.fromkeys(pids))
        harness.wait_until(lambda: len(pids()) == 1, "a line")
        sonde.kill()
        harness.wait_until(lambda: b"waiting for it to return" in self.read("errors"), "the note")
        sonde.start()
        harness.wait_until(lambda: pids()[1:] == [sonde.pid], "a line of the other")
        self.assertIn(b"connected again", self.read("errors"))
        top.send_signal(signal.SIGINT)
        self.assertEqual(top.wait(harness.DEADLINE), -signal.SIGINT)

    def test_wrong_usage(self):
        for options, words in (
                (("--history", "soon"), "--history: 'soon' is not a time"),
                (("--interval", "0"), "--interval: '0' is out of range"),
                (("--interval", "often"), "--interval: 'often' is not a duration"),
                (("--limit", "3"), "--limit needs --json"),
                (("--job", "x~1"), "needs --history"),
                (("x",), "did you mean --job?")):
            result = self.run_sonde("top", *options)
            self.assertEqual(result.status, 2, result)
            self.assertIn(words, result.stderr)
        result = self.run_sonde("top")
        self.assertEqual(result.status, 1)
        self.assertIn("must be a terminal; use --json for a program", result.stderr)
        for options, words in ((("--history", "1h"), "no data yet in"),
                               (("--history", "1h", "--job", "x"), "no data yet in")):
            result = self.run_sonde("top", "--json", *options)
            self.assertEqual(result.status, 3, result)
            self.assertIn(words, result.stderr)

    def test_history_of_nothing(self):
        self.run_job("true")
        result = self.run_sonde("top", "--json", "--history", "1h", "--job", "no-such-job")
        self.assertEqual(result.status, 3)
        self.assertIn("no job named 'no-such-job'", result.stderr)

    def test_ncurses_is_loaded_by_the_screen_alone(self):
        done = subprocess.run(["ldd", harness.SONDE], stdout=subprocess.PIPE, check=True)
        self.assertNotIn(b"ncurses", done.stdout)
        self.assertNotIn(b"tinfo", done.stdout)


class Pty(daemon.TestCase):
    """Terminal behaviour that tmux does not have: closing, and no size."""

    CLEAR = b"\x1b[2J"
    LEAVE = b"\x1b[?1049l"  # the alternate screen

    def open_top(self, interval="100ms"):
        pid, master = pty.fork()
        if pid == 0:
            os.execve(harness.SONDE, [harness.SONDE, "top", "--interval", interval],
                      self.environment)
        self.addCleanup(self.reap, pid, master)
        self.resize(master, 24, 80)
        return pid, master

    @staticmethod
    def reap(pid, master):
        with contextlib.suppress(OSError):
            os.close(master)
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    @staticmethod
    def resize(master, rows, columns):
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def await_bytes(self, master, *words):
        """Reads, at least once, until the texts arrive in this order; returns the data from the
        first of them on."""
        seen = b""
        end = time.monotonic() + harness.DEADLINE
        while not seen or not re.search(b".*".join(map(re.escape, words)), seen, re.DOTALL):
            self.assertGreater(end, time.monotonic(), f"{words} in {seen[-2000:]}")
            if select.select([master], [], [], 0.1)[0]:
                seen += os.read(master, 1 << 16)
                self.check_sanitizers(seen)
        return seen[seen.index(words[0]):]

    @staticmethod
    def await_end(pid):
        """The wait status."""
        def find():
            done, status = os.waitpid(pid, os.WNOHANG)
            return (status,) if done else None
        return harness.wait_until(find, "its end")[0]

    def test_no_columns(self):
        self.daemon(CONFIG)
        pid, master = self.open_top()
        self.await_bytes(master, b"COMMAND")
        for rows, columns in ((24, 0), (0, 80), (0, 0), (1, 1), (2000, 3000)):
            self.resize(master, rows, columns)
            os.write(master, b"?q")  # the help, which any other key closes
        self.resize(master, 24, 80)
        os.write(master, b"\x0c")
        self.await_bytes(master, b"COMMAND")
        os.write(master, b"q")
        self.await_bytes(master, self.LEAVE)
        self.assertEqual(self.await_end(pid), 0)

    def test_terminal_that_is_closed(self):
        self.daemon(CONFIG)
        pid, master = self.open_top()
        self.await_bytes(master, b"COMMAND")
        os.close(master)
        self.assertEqual(self.await_end(pid), 0)

    def test_hangup(self):
        self.daemon(CONFIG)
        pid, master = self.open_top()
        self.await_bytes(master, b"COMMAND")
        os.kill(pid, signal.SIGHUP)
        self.await_bytes(master, self.LEAVE)
        self.assertEqual(self.await_end(pid), 0)

    def test_only_what_changes_is_drawn(self):
        """A key that moves the selection costs two rows, not a screen."""
        self.daemon(CONFIG, interval=3600)
        pid, master = self.open_top("1h")  # no frame but the first
        self.await_bytes(master, b"COMMAND")
        # Redraws everything; data before that belongs to the first frame.
        os.write(master, b"\x0c")
        screen = len(self.await_bytes(master, self.CLEAR, b"Quit"))
        moves = 5
        cost = 0
        for _ in range(moves):
            os.write(master, b"\x1bOB")
            cost += len(self.await_bytes(master, b""))  # each is drawn before the next
        os.write(master, b"q")
        cost += len(self.await_bytes(master, self.LEAVE))
        self.assertLess(cost, moves * screen / 4)
        self.assertEqual(self.await_end(pid), 0)


if __name__ == "__main__":
    harness.main()
