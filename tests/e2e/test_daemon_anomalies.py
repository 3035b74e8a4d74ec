#!/usr/bin/env python3
"""The daemon reports anomalies. Each episode is reported once when it opens and once when it clears,
names its job and step, and is afterwards in the store and in the report."""
import contextlib
import os
import pathlib
import time

import daemon
import harness

# Durations of a minute by default are seconds here. But growth is compared with a window of two
# minutes (with a size every half second), and an episode stays open until the test wants it to
# clear, however slow the machine is.
SHORT = """
profiler:
  anomaly:
    memory_spike_window_seconds: 120
    runaway_cpu_threshold: 50
    runaway_duration_seconds: 1
    memory_pressure_fraction: FRACTION
    clear_seconds: CLEAR
"""
# RSS that has not changed for a second is the baseline of a process after its start.
STILL = 1.0


def short(fraction=0.0001, clear=600):
    return SHORT.replace("FRACTION", str(fraction)).replace("CLEAR", str(clear))


class Anomalies(daemon.TestCase):
    def setUp(self):
        super().setUp()
        self.opened, self.cleared = [], []

    def limited_puppet(self, files, *prefix):
        """A puppet with a limit of open files."""
        return self.puppet(*prefix, "sh", "-c", f'ulimit -n {files}; exec "$0"')

    def take(self, notice):
        kind = {"monitor.anomaly": self.opened, "monitor.anomaly_cleared": self.cleared}
        kind[notice["event"]].append(notice)

    def listen(self, stream, condition, what, timeout=harness.DEADLINE):
        """Reads events until the condition holds."""
        end = time.monotonic() + timeout
        while not condition():
            try:
                self.take(stream.notice(max(end - time.monotonic(), 0.001)))
            except TimeoutError:
                self.fail(f"waited {timeout} s in vain: {what}; opened: {self.opened}; "
                          f"cleared: {self.cleared}")

    def of(self, notices, kind, pid=None, run_id=None):
        """Anomalies of one kind, of a process or of a run; the machine may have others."""
        return [notice["data"] for notice in notices if notice["data"]["anomaly_type"] == kind and
                (notice["data"]["pid"] == pid or (run_id and notice["data"]["run_id"] == run_id))]

    def stored(self, **wanted):
        where = " AND ".join(f"{name} IS ?" for name in wanted)
        return self.rows(f"SELECT * FROM anomalies WHERE {where} ORDER BY timestamp",
                         *wanted.values())


def put_in_front(pid):
    """Gives a process priority, and its session where sessions are scheduled as a whole, if that is
    permitted: on a busy machine a busy loop would not get a whole core."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, -15)
        pathlib.Path(f"/proc/{pid}/autogroup").write_text("-15", encoding="ascii")


class Tour(Anomalies):
    """All kinds at once, in one job and outside it."""

    def assert_reported(self, notices, kind, pid, **wanted):
        """There is exactly one, with these values."""
        found = self.of(notices, kind, pid, wanted.get("run_id"))
        self.assertEqual(len(found), 1, (kind, found))
        for name, value in wanted.items():
            self.assertEqual(found[0][name], value, (kind, name))
        return found[0]

    def test_from_opening_to_clearing(self):
        # Its size in the first snapshot is the baseline of its growth.
        grower = self.puppet()
        grower.order("grow", 60)
        baseline = daemon.rss_mb(grower.pid)
        # In its own session, like the busy ones: put_in_front() changes a whole session.
        sonde = self.daemon(short(), prefix=("setsid",))
        stream = sonde.stream("monitor.anomaly", "monitor.anomaly_cleared")
        parent, stranger = (self.puppet() for _ in range(2))
        burner, loner = (self.puppet(start_new_session=True) for _ in range(2))
        for pid in (sonde.pid, burner.pid, loner.pid):
            put_in_front(pid)
        opener, second = self.limited_puppet(64), self.limited_puppet(64)
        run_id = sonde.rpc("job.start", job_id="tour")["run_id"]
        for number, puppet in enumerate((grower, burner, parent, opener, second), 1):
            sonde.rpc("sheet.started", job_id="tour", sheet_num=number, pid=puppet.pid)
        sonde.await_snapshots(int((STILL + 1) / sonde.interval))

        # the anomalies begin
        began = time.time()
        with sonde.paused():  # so that no snapshot finds half of it
            grower.order("grow", 165)
            parent.order("zombies", 2)
            opener.order("open", 50)
        large = daemon.rss_mb(grower.pid)
        stranger.order("zombies", 1)
        zombies, other_zombie = harness.children_of(parent.pid), *harness.children_of(stranger.pid)
        sonde.configure(short(0.9999))
        sonde.rpc("daemon.reload")
        wanted = [("memory_spike", grower.pid), ("runaway_process", burner.pid),
                  ("zombie", None), ("fd_exhaustion", opener.pid), ("memory_pressure", None),
                  ("runaway_process", loner.pid)]
        for puppet in (burner, loner):  # one core at a time, and no longer than needed
            puppet.order("busy")
            self.listen(stream, lambda pid=puppet.pid: self.of(self.opened, "runaway_process", pid),
                        "it runs away")
            puppet.order("idle")
        self.listen(stream, lambda: all(
            self.of(self.opened, kind, pid, run_id if kind == "zombie" else None)
            for kind, pid in wanted), f"all of {wanted}")

        job = {"job_id": "tour", "run_id": run_id, "cleared_at": None}
        spike = self.assert_reported(self.opened, "memory_spike", grower.pid, severity="high",
                                 sheet_num=1, **job)
        self.assert_near(spike["metric_value"], large, ratio=0, slack=0.5)
        self.assert_near(spike["threshold"], 1.5 * baseline, ratio=0, slack=0.5)
        low = self.assert_reported(self.opened, "runaway_process", burner.pid, severity="low",
                               sheet_num=2, threshold=50, **job)
        self.assertGreaterEqual(low["metric_value"], 50)
        dead = self.assert_reported(self.opened, "zombie", None, severity="high", sheet_num=3, **job)
        self.assertEqual(dead["metric_value"], 2)
        for pid in zombies:
            self.assertIn(str(pid), dead["description"])
        files = self.assert_reported(self.opened, "fd_exhaustion", opener.pid, severity="high",
                                 sheet_num=4, **job)
        self.assertEqual(files["metric_value"], len(os.listdir(f"/proc/{opener.pid}/fd")))
        self.assertAlmostEqual(files["threshold"], 0.8 * 64, places=3)
        no_job = {"job_id": None, "run_id": None, "sheet_num": None, "cleared_at": None}
        self.assert_reported(self.opened, "memory_pressure", None, severity="critical", **no_job)
        self.assert_reported(self.opened, "runaway_process", loner.pid, severity="critical", **no_job)
        for notice in self.opened:
            data = notice["data"]
            self.assertEqual((notice["job_id"], notice["sheet_num"]),
                             (data["job_id"], data["sheet_num"]))
            self.assertAlmostEqual(notice["timestamp"], data["timestamp"], places=2)
            if data["pid"] is not None and data["anomaly_type"] != "zombie":
                self.assertIn(str(data["pid"]), data["description"])
        kinds = {kind for kind, _ in wanted}
        # Not equal: anomalies of all processes of the machine count, and other tests may make some.
        self.assertLessEqual(kinds, set(sonde.rpc("resource.context")["anomalies_active"]))

        # It gets worse, and another process of the job has the same anomaly: no event.
        with sonde.paused():
            grower.order("grow", 260)
        largest = daemon.rss_mb(grower.pid)
        second.order("open", 58)
        for kind in ("memory_spike", "fd_exhaustion"):
            self.await_rows("SELECT 1 FROM anomalies WHERE run_id = ? AND anomaly_type = ?"
                            " AND severity = 'critical'", run_id, kind)
        running = self.report("tour")
        self.assertEqual({anomaly["anomaly_type"] for anomaly in running["anomalies"]
                          if anomaly["cleared_at"] is None}, kinds - {"memory_pressure"})

        # the anomalies end
        grower.order("shrink")
        parent.order("reap")
        opener.exit()  # a process that is gone clears without waiting for clear_seconds
        second.exit()
        self.listen(stream, lambda: self.of(self.cleared, "fd_exhaustion", opener.pid),
                    "the files are cleared")
        files = self.assert_reported(self.cleared, "fd_exhaustion", opener.pid, job_id="tour",
                                 sheet_num=4, severity="critical")
        self.assertIn("2 processes", files["description"])
        self.assertIn(str(second.pid), files["description"])
        # The others clear after clear_seconds; the unit tests check the exact time.
        self.assertEqual([notice["data"]["anomaly_type"] for notice in self.cleared
                          if notice["data"]["run_id"] == run_id
                          and notice["data"]["anomaly_type"] != "zombie"], ["fd_exhaustion"])
        sonde.configure(short(clear=1))
        sonde.rpc("daemon.reload")
        self.listen(stream, lambda: all(
            self.of(self.cleared, kind, pid, run_id if kind == "zombie" else None)
            for kind, pid in wanted), f"all of {wanted} are over")
        spike = self.assert_reported(self.cleared, "memory_spike", grower.pid, severity="critical",
                                 job_id="tour", sheet_num=1)
        self.assert_near(spike["metric_value"], largest, ratio=0, slack=0.5)
        for kind, pid in (("memory_spike", grower.pid), ("runaway_process", burner.pid),
                          ("runaway_process", loner.pid), ("memory_pressure", None)):
            episode, = self.of(self.cleared, kind, pid)
            self.assertGreater(episode["cleared_at"], episode["timestamp"], kind)
            self.assertGreaterEqual(episode["timestamp"], began - 1)

        sonde.await_snapshots(2)
        for notice in stream.pending():
            self.take(notice)
        for notices in (self.opened, self.cleared):
            own = [(notice["data"]["anomaly_type"], notice["data"]["run_id"],
                    notice["data"]["pid"] if not notice["data"]["run_id"] else None)
                   for notice in notices
                   if notice["data"]["run_id"] or notice["data"]["pid"] in (None, loner.pid)]
            self.assertEqual(sorted(own, key=str), sorted(
                [(kind, run_id, None) for kind in kinds - {"memory_pressure"}] +
                [("memory_pressure", None, None), ("runaway_process", None, loner.pid)], key=str))
        # a zombie outside any job
        self.assertEqual([notice for notice in self.opened
                          if str(other_zombie) in notice["data"]["description"]], [])

        sonde.rpc("job.finish", job_id="tour", outcome="success")
        self.await_end(run_id)
        rows = self.stored(run_id=run_id)
        self.assertEqual(sorted((row["anomaly_type"], row["sheet_num"], row["severity"])
                                for row in rows),
                         [("fd_exhaustion", 4, "critical"), ("memory_spike", 1, "critical"),
                          ("runaway_process", 2, "low"), ("zombie", 3, "high")])
        for row in rows:
            self.assertEqual(row["job_id"], "tour")
            self.assertGreater(row["cleared_at"], row["timestamp"])
        row, = self.stored(pid=loner.pid)
        self.assertEqual((row["anomaly_type"], row["severity"], row["job_id"]),
                         ("runaway_process", "critical", None))
        self.assertIsNotNone(row["cleared_at"])
        row, = self.stored(anomaly_type="memory_pressure")
        self.assertIsNotNone(row["cleared_at"])

        reported = self.report("tour")["anomalies"]
        self.assertEqual(sorted(anomaly["anomaly_type"] for anomaly in reported),
                         sorted(row["anomaly_type"] for row in rows))
        text = self.run_program(harness.SONDE, "report", "tour").stdout.decode()
        machine = self.run_program(harness.SONDE, "report", "--since", str(began), "--json")
        self.assertLessEqual(kinds, {anomaly["anomaly_type"] for anomaly in
                                     harness.strict_json(machine.stdout.decode())["anomalies"]})
        for kind in kinds - {"memory_pressure"}:
            self.assertIn(kind, text)
        patterns = self.rows("SELECT * FROM patterns WHERE pattern_type = 'RESOURCE_ANOMALY'")
        self.assertLessEqual(kinds, {kind for kind in kinds for pattern in patterns
                                     if kind in pattern["pattern_name"] + pattern["context_tags"]})


class Episodes(Anomalies):
    def test_ends_with_its_job(self):
        sonde = self.daemon(short())
        stream = sonde.stream("monitor.anomaly", "monitor.anomaly_cleared")
        puppet = self.limited_puppet(64)
        run_id = sonde.rpc("job.start", job_id="x", pid=puppet.pid)["run_id"]
        puppet.order("open", 50)
        self.listen(stream, lambda: self.of(self.opened, "fd_exhaustion", puppet.pid), "it opens")
        sonde.rpc("job.finish", job_id="x", outcome="success")
        self.listen(stream, lambda: self.of(self.cleared, "fd_exhaustion", puppet.pid), "it clears")
        cleared, = self.of(self.cleared, "fd_exhaustion", puppet.pid)
        self.assertEqual((cleared["job_id"], cleared["run_id"]), ("x", run_id))
        row, = self.await_rows("SELECT * FROM anomalies WHERE run_id = ?"
                               " AND cleared_at IS NOT NULL", run_id)
        self.assertEqual(row["anomaly_type"], "fd_exhaustion")

    def await_stillness(self, sonde, puppet):
        """Takes snapshots until the puppet has waited for longer than STILL. On a busy machine it
        may still be runnable after it has answered, which does not count."""
        since = None
        while True:
            snapshot = sonde.fresh()
            seen, = (process for process in snapshot["processes"] if process["pid"] == puppet.pid)
            if seen["state"] != "S" or seen["cpu_percent"] >= 50:
                since = None
            elif since is None:
                since = snapshot["timestamp"]
            elif snapshot["timestamp"] >= since + STILL + 0.1:
                return

    def test_start_is_no_spike(self):
        """A process may grow as it starts; growth after it has been stable is a spike. The test
        requests each snapshot, so that none finds a process of the same size twice."""
        sonde = self.daemon(short(), interval=3600)
        stream = sonde.stream("monitor.anomaly")
        puppet = self.puppet()
        for size in (10, 20, 40, 80, 160):
            puppet.order("grow", size)
            sonde.fresh()
        self.await_stillness(sonde, puppet)
        for notice in stream.pending():
            self.take(notice)
        self.assertEqual(self.of(self.opened, "memory_spike", puppet.pid), [])
        puppet.order("grow", 330)
        sonde.fresh()
        self.listen(stream, lambda: self.of(self.opened, "memory_spike", puppet.pid), "it is one")

    def test_small_growth_is_none(self):
        sonde = self.daemon(short(), interval=0.1)
        puppet, control = self.puppet(), self.puppet()
        stream = sonde.stream("monitor.anomaly")
        sonde.rpc("job.start", job_id="small", pid=puppet.pid)
        sonde.rpc("job.start", job_id="large", pid=control.pid)
        sonde.await_snapshots(int((STILL + 0.5) / sonde.interval))
        puppet.order("grow", 90)  # fortyfold, but not by 100 MB
        control.order("grow", 110)
        self.listen(stream, lambda: self.of(self.opened, "memory_spike", control.pid), "the larger")
        sonde.await_snapshots(3)
        for notice in stream.pending():
            self.take(notice)
        self.assertEqual(self.of(self.opened, "memory_spike", puppet.pid), [])

    def test_critical_at_the_limit(self):
        sonde = self.daemon(short())
        stream = sonde.stream("monitor.anomaly")
        puppet = self.limited_puppet(64)
        sonde.rpc("job.start", job_id="x", pid=puppet.pid)
        puppet.order("open", 57)
        self.listen(stream, lambda: self.of(self.opened, "fd_exhaustion", puppet.pid), "it opens")
        opened, = self.of(self.opened, "fd_exhaustion", puppet.pid)
        self.assertEqual(opened["severity"], "critical")
        self.assertGreaterEqual(opened["metric_value"], 0.95 * 64)

    def test_process_without_a_job(self):
        """Detection covers all processes, stored or not; a process in an episode is stored."""
        sonde = self.daemon(short())
        stream = sonde.stream("monitor.anomaly")
        puppet = self.limited_puppet(2000, *harness.unprivileged())
        puppet.order("open", 1000)
        self.listen(stream, lambda: self.of(self.opened, "fd_exhaustion", puppet.pid), "it opens")
        opened, = self.of(self.opened, "fd_exhaustion", puppet.pid)
        self.assertEqual((opened["job_id"], opened["severity"], opened["threshold"]),
                         (None, "high", 1000))
        self.await_rows("SELECT 1 FROM process_metrics WHERE pid = ?", puppet.pid)

    def test_number_of_files_counts_only_for_small_limits(self):
        """A server may have many files, and sonde has some for each process."""
        sonde = self.daemon("profiler:\n  anomaly:\n    fd_exhaustion_threshold: 50\n")
        stream = sonde.stream("monitor.anomaly")
        server, ordinary = self.limited_puppet(20000), self.limited_puppet(4096)
        server.order("open", 60)
        sonde.await_snapshots(2)
        ordinary.order("open", 60)
        self.listen(stream, lambda: self.of(self.opened, "fd_exhaustion", ordinary.pid), "it opens")
        sonde.await_snapshots(3)
        for notice in stream.pending():
            self.take(notice)
        self.assertEqual(self.of(self.opened, "fd_exhaustion", server.pid), [])
        self.assertEqual(self.of(self.opened, "fd_exhaustion", sonde.pid), [])
        self.assertEqual(self.stored(pid=sonde.pid), [])
        self.assertGreater(len(os.listdir(f"/proc/{sonde.pid}/fd")), 50)

    def test_killed_daemon_leaves_none_open(self):
        """An episode of a killed daemon does not stay open beside the next one."""
        sonde = self.daemon(short())
        puppet = self.limited_puppet(64)
        run_id = sonde.rpc("job.start", job_id="x", pid=puppet.pid)["run_id"]
        puppet.order("open", 50)
        self.await_rows("SELECT 1 FROM anomalies WHERE run_id = ?", run_id)
        self.await_rows("SELECT 1 FROM process_metrics WHERE run_id = ?", run_id)
        sonde.kill()
        sonde.start()
        sonde.await_pid(puppet.pid, run_id)
        sonde.await_snapshots(3)
        open_now = harness.wait_until(
            lambda: self.rows("SELECT 1 FROM anomalies WHERE run_id = ? AND cleared_at IS NULL",
                              run_id), "it is open")
        self.assertEqual(len(open_now), 1)
        puppet.exit()
        harness.wait_until(lambda: not self.rows("SELECT 1 FROM anomalies WHERE run_id = ? AND"
                                                 " cleared_at IS NULL", run_id), "it is cleared")


class Runs(Anomalies):
    """Of `sonde run`, with and without a daemon."""

    def run_in_trouble(self, sonde=None):
        """The result of a run with an fd_exhaustion, after it was detected. A daemon knows the run."""
        config = self.write("own.yaml", short())
        puppet = daemon.Puppet(self, self.start_sonde(
            "--config", config, "--interval", "20ms", "--job", "x", "--",
            "sh", "-c", 'ulimit -n 64; exec "$0"', *self.puppet_words()))
        if sonde:
            harness.wait_until(lambda: any(process["run_id"] for process in
                                           sonde.processes(pid=puppet.pid)), "it is a job")
        puppet.order("open", 50)
        self.await_rows("SELECT 1 FROM anomalies WHERE anomaly_type = 'fd_exhaustion'"
                        " AND pid = ?", puppet.pid)
        # The run samples too, but prints nothing of its findings yet. A sample takes some reads:
        # after this many more there was a sample.
        before = self.reads_of(puppet.process.pid)
        harness.wait_until(lambda: self.reads_of(puppet.process.pid) > before + 100, "it samples")
        puppet.exit(0)
        result = self.finish(puppet.process)
        self.assertEqual(result.status, 0, result)
        return puppet, result

    @staticmethod
    def reads_of(pid):
        """How often a process has called read()."""
        with open(f"/proc/{pid}/io", encoding="ascii") as counts:
            return next(int(line.split()[1]) for line in counts if line.startswith("syscr:"))

    def assert_stored_once(self, puppet, result):
        self.await_end(result.summary["run_id"])
        rows = self.stored(pid=puppet.pid)
        self.assertEqual([(row["anomaly_type"], row["run_id"], row["severity"]) for row in rows],
                         [("fd_exhaustion", result.summary["run_id"], "high")])
        harness.wait_until(lambda: self.stored(pid=puppet.pid)[0]["cleared_at"], "it is over")
        anomaly, = self.report("x")["anomalies"]
        self.assertEqual((anomaly["anomaly_type"], anomaly["pid"]), ("fd_exhaustion", puppet.pid))
        anomaly, = result.summary["anomalies"]
        self.assertEqual((anomaly["anomaly_type"], anomaly["job_id"], anomaly["pid"]),
                         ("fd_exhaustion", "x", puppet.pid))

    def test_with_a_daemon(self):
        sonde = self.daemon(short(), interval=0.1)
        self.assert_stored_once(*self.run_in_trouble(sonde))

    def test_alone(self):
        self.assert_stored_once(*self.run_in_trouble())

    @harness.needs_program("cc")
    def test_an_ordinary_compile(self):
        """Sixty files at 100 ms with the default configuration: no anomaly above low."""
        sonde = self.daemon(interval=0.1)
        stream = sonde.stream("monitor.anomaly")
        for i in range(60):
            self.write(f"unit{i}.c",
                       "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
                       f"int f{i}(int x) {{ char t[64]; snprintf(t, 64, \"%d\", x + {i});"
                       " return atoi(t) + (int)strlen(t); }\n")
        script = "i=0; while [ $i -lt 60 ]; do cc -O2 -fPIC -c unit$i.c & i=$((i + 1)); " \
                 "[ $((i % 2)) = 0 ] && wait; done; wait; cc -shared -o all.so unit*.o"
        result = self.run_job("sh", "-c", script, options=("--job", "compile"), cwd=self.directory)
        self.assertGreater(result.summary["processes"], 120)
        self.assertEqual(result.summary["anomalies"], [])
        sonde.await_snapshots(3)
        self.await_end(result.summary["run_id"])
        for notice in stream.pending():
            self.take(notice)
        self.assertEqual([notice["data"] for notice in self.opened
                          if notice["job_id"] == "compile"], [])
        self.assertEqual(self.stored(run_id=result.summary["run_id"]), [])
        self.assertGreater(self.job(result.summary["run_id"])["num_samples"], 5)


if __name__ == "__main__":
    harness.main()
