#!/usr/bin/env python3
"""Compatibility with version 0.1.0: its database is read, and its clients work with this daemon.
tests/fixtures/0.1.0/README describes the recorded data."""
import gzip
import json
import os
import pathlib
import shutil
import time

import daemon
import harness

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures/0.1.0"

# Without it the daemon would delete the recorded data, which grows older than its retention.
KEEP_ALL = """
profiler:
  retention:
    full_resolution_hours: 800000
    downsampled_days: 36000
    events_days: 36000
    jobs_days: 36000
"""

# When the verb or the daemon answered.
TIMES_OF_ANSWER = {"as_of"}

# Figures that a later daemon may not know where the recorded one did: it depends on the moment.
MAY_BE_UNKNOWN = {
    "cpu_pct", "cpu_percent", "rss_mb", "syscall_hotspot", "syscall_counts", "syscall_time_pct",
    "reason", "tracer_pid", "file", "no_kernel_collector", "daemon_rss_mb", "max_cpu_pct",
}


def read_lines(name):
    with open(FIXTURES / name, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def kind(value):
    """The JSON type; a whole number is a number like any other."""
    if isinstance(value, bool):
        return "boolean"
    return {int: "number", float: "number", str: "string", list: "array", dict: "object",
            type(None): "null"}[type(value)]


def merge(records):
    """One record with the first known value of each field."""
    merged = {}
    for record in records:
        for name, value in record.items():
            if merged.get(name) is None:
                merged[name] = value
    return merged


def differences(old, new, where="", compare_values=False):
    """Where a client that expects `old` would fail on `new`. New fields are fine."""
    if kind(old) == "null" and not compare_values:
        return []
    if kind(old) != kind(new):
        name = where.rsplit(".", 1)[-1]
        # Records of a list differ in what is known of them.
        if kind(new) == "null" and not compare_values and ("[]" in where or name in MAY_BE_UNKNOWN):
            return []
        return [f"{where}: {old!r} became {new!r}"]
    found = []
    if isinstance(old, dict):
        for name, value in old.items():
            if name in TIMES_OF_ANSWER:
                continue
            if name not in new:
                found.append(f"{where}.{name} is missing")
            else:
                found += differences(value, new[name], f"{where}.{name}", compare_values)
    elif isinstance(old, list) and compare_values:
        if len(old) != len(new):
            return [f"{where}: {len(old)} elements became {len(new)}"]
        for i, (one, other) in enumerate(zip(old, new)):
            found += differences(one, other, f"{where}[{i}]", compare_values)
    elif isinstance(old, list):
        # The elements of a list are alike.
        if old:
            expected = merge(old) if isinstance(old[0], dict) else old[0]
            for other in new:
                found += differences(expected, other, f"{where}[]")
    elif compare_values and old != new:
        found.append(f"{where}: {old!r} became {new!r}")
    return found


class Compatibility(daemon.TestCase):
    def setUp(self):
        super().setUp()
        os.mkdir(self.state, 0o700)
        with gzip.open(FIXTURES / "monitor.db.gz") as packed, open(self.database, "wb") as file:
            shutil.copyfileobj(packed, file)
        os.chmod(self.database, 0o600)

    def assert_none(self, found):
        self.assertEqual(found, [], "\n".join(found))


class Database(Compatibility):
    @harness.needs_root()  # estimates are made from a user's own runs; the recorded ones are root's
    def test_verbs_show_the_recorded_figures(self):
        found = []
        for line in read_lines("verbs.jsonl"):
            words = line["arguments"]
            found += differences(line["output"], self.run_json(*words), " ".join(words), True)
        self.assert_none(found)

    def test_text_output(self):
        jobs = self.run_sonde("jobs", "--limit", "100")
        self.assertEqual((jobs.status, jobs.stderr), (0, ""), jobs)
        recorded = next(line["output"] for line in read_lines("verbs.jsonl")
                        if line["arguments"][0] == "jobs")
        for job in recorded:
            self.assertIn(job["job_id"], jobs.stdout.decode())
            report = self.run_sonde("report", job["run_id"])
            self.assertEqual((report.status, report.stderr), (0, ""), report)
        self.assertIn(b"spike", self.run_sonde("events", "--limit", "10000").stdout)

    def test_migrated_by_a_new_run(self):
        """A run that is stored in the old database migrates it; the old runs stay as they are."""
        self.assertEqual(self.run_sonde("run", "-q", "--job", "new", "--", "true").status, 0)
        self.assert_intact()
        line = next(line for line in read_lines("verbs.jsonl") if line["arguments"][0] == "jobs")
        jobs = self.run_json(*line["arguments"])
        self.assertEqual(jobs[0]["job_id"], "new")
        self.assert_none(differences(line["output"], jobs[1:], "jobs", True))


class Clients(Compatibility):
    def setUp(self):
        super().setUp()
        self.sonde = self.daemon(KEEP_ALL)
        self.sleeper = self.start("sleep", "1000")
        self.sonde.await_snapshots(2)

    def send(self, link, request):
        values = {"<pid>": self.sleeper.pid, "<now>": time.time()}
        params = {name: values.get(value, value) if isinstance(value, str) else value
                  for name, value in request["params"].items()}
        link.send(dict(request, params=params))
        while True:
            answer = link.read()
            if "id" in answer:
                return answer
            link.notices.append(answer["params"])

    @harness.needs_root()  # as above
    @harness.needs_program("strace")
    def test_recorded_requests(self):
        """Each answer and each notification has the recorded fields, of the same types."""
        lines = read_lines("rpc.jsonl")
        links = {name: self.sonde.connect() for name in ("monitor", "top", None)}
        found = []
        for line in lines:
            if "request" not in line:
                continue
            method = line["request"]["method"]
            answer = self.send(links[line.get("stream")], line["request"])
            found += differences(line["response"], answer, method)
            if "error" in line["response"]:
                self.assertEqual(answer["error"]["code"], line["response"]["error"]["code"])
            if method == "sheet.started":
                self.sonde.await_snapshots(1)
        # Processes of a job, in case that the sleeping one is too old to be reported as new.
        self.assertEqual(self.run_sonde("run", "-q", "--", "sh", "-c", "/bin/true; :").status, 0)
        for name in ("monitor", "top"):
            found += self.compare_notifications(links[name], [
                line["notification"]["params"] for line in lines
                if line.get("stream") == name and "notification" in line])
        self.assert_none(found)

    def compare_notifications(self, link, recorded):
        """The events of a stream, which come in any order."""
        missing = {old["event"]: old for old in recorded}
        found = []
        while missing:
            new = link.notice()
            old = missing.pop(new["event"], None)
            found += differences(old, new, new["event"]) if old else []
        return found

    def test_recorded_run(self):
        """Old runs are in the answers with their recorded figures."""
        recorded = [line for line in read_lines("rpc.jsonl")
                    if line.get("request", {}).get("method") == "report.job"
                    and line["request"]["params"]["job"] == "spike"]
        self.assertTrue(recorded)
        for line in recorded:
            answer = self.send(self.sonde.connect(), line["request"])
            self.assert_none(differences(line["response"], answer, "report.job", True))


if __name__ == "__main__":
    harness.main()
