#!/usr/bin/env python3
"""The statistics of `sonde analyze` against exact arithmetic and, where it is installed, scipy
(python3-scipy, 230 MB with what it needs): the same runs, grouped by this file as docs/LEARNING.md says."""
import collections
import contextlib
import fractions
import json
import math
import os
import random
import sqlite3
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import daemon
import harness

try:
    import scipy.stats
except ImportError:
    scipy = None

WAITING = {"wait4", "futex", "poll", "epoll_wait", "nanosleep"}
MEMORY_BINS = (("<256MB", 256), ("256-512MB", 512), ("512MB-1GB", 1024), ("1-2GB", 2048), (">2GB", math.inf))
DURATION_BINS = (("<10s", 10), ("10-60s", 60), ("1-10min", 600), ("10-60min", 3600), (">1h", math.inf))
CAPS = {"memory": (0.95, 0.5), "cpu": (0.95, 0.5), "syscall": (0.90, 0.4), "anomaly": (0.95, 0.5),
        "duration": (0.85, 0.4)}
ANOMALIES = ("memory_leak", "zombie")
# Numbers that both sides compute in doubles.
TOLERANCE = 1e-9

Run = collections.namedtuple("Run", "job_type failed memory cpu wall calls source anomalies")


def make_runs():
    """300 runs of four types, in which some figures go with failure; some figures are unknown."""
    chance = random.Random(5)
    runs = []
    for job_type, count, rate in (("build", 160, 0.3), ("test", 90, 0.2), ("lint", 46, 0.1), ("rare", 4, 0.5)):
        for _ in range(count):
            is_large, writes = chance.random() < 0.3, chance.random() < 0.3
            failed = chance.random() < rate + 0.4 * is_large * (job_type == "build") + 0.3 * writes
            calls = {"wait4": 900.0, "futex": chance.uniform(0, 100), "read": chance.uniform(0, 40),
                     "write": chance.uniform(0, 30) + 60 * writes, "openat": chance.uniform(0, 40)}
            runs.append(Run(
                job_type, failed,
                None if chance.random() < 0.05 else round(chance.uniform(1200, 1900) if is_large
                                                          else chance.choice((40, 256, 300, 512, 700, 2500)), 1),
                None if chance.random() < 0.05 else round(chance.uniform(0, 50) * (1 + failed), 3),
                round(chance.choice((5, 60, 4000, 4000) if failed else (5, 10, 30, 60, 200, 600, 4000))
                      * chance.uniform(1, 1.5), 3),
                calls if chance.random() < 0.9 else None, chance.choice(("bpf", "sampled")),
                {name for name in ANOMALIES if chance.random() < 0.1 + 0.3 * failed}))
    return runs


# ---- the groups ----


def bin_of(value, bins):
    return next(name for name, below in bins if value < below)


def quantile(values, share):
    """Definition 7 of Hyndman and Fan."""
    values = sorted(values)
    at = (len(values) - 1) * share
    low = math.floor(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (at - low) * (values[high] - values[low])


def dominant_calls(run):
    calls = {name: time for name, time in run.calls.items() if name not in WAITING}
    return {name for name, time in calls.items() if time > 0.35 * sum(calls.values())}


def groups_of(runs):
    """(figure, group) → the runs in it and all runs with which they are compared."""
    found = {}
    figures = (("memory", lambda run: run.memory, MEMORY_BINS), ("duration", lambda run: run.wall, DURATION_BINS))
    cpu = [run.cpu for run in runs if run.cpu is not None]
    if cpu:
        bounds = [quantile(cpu, share) for share in (0.25, 0.5, 0.75)] + [math.inf]
        figures += (("cpu", lambda run: run.cpu,
                     [(f"quartile {number}", bound) for number, bound in enumerate(bounds, 1)]),)
    for figure, value, bins in figures:
        known = [run for run in runs if value(run) is not None]
        for name, _ in bins:
            found[figure, name] = ([run for run in known if bin_of(value(run), bins) == name], known)
    for source in ("bpf", "sampled"):
        known = [run for run in runs if run.calls is not None and run.source == source]
        for call in set().union(*map(dominant_calls, known)):
            found["syscall", f"{call} ({source})"] = (
                [run for run in known if call in dominant_calls(run)], known)
    for name in ANOMALIES:
        found["anomaly", name] = ([run for run in runs if name in run.anomalies], runs)
        found["anomaly", f"without {name}"] = ([run for run in runs if name not in run.anomalies], runs)
    return {key: (own, known) for key, (own, known) in found.items() if 3 <= len(own) < len(known)}


def fisher(failed, passed, others_failed, others_passed):
    """Two-sided, in integers: the sum of the probabilities that do not exceed that of the table."""
    runs, failures = failed + passed, failed + others_failed
    others = others_failed + others_passed
    def ways(k):
        return math.comb(runs, k) * math.comb(others, failures - k)
    observed = ways(failed)
    possible = range(max(0, failures - others), min(runs, failures) + 1)
    return float(fractions.Fraction(sum(ways(k) for k in possible if ways(k) <= observed),
                                    math.comb(runs + others, failures)))


def false_discovery_rates(p_values):
    """Benjamini and Hochberg: the smallest p·m/rank among this p and all larger ones."""
    order = sorted(range(len(p_values)), key=lambda at: p_values[at], reverse=True)
    rates, smallest = [0.0] * len(p_values), 1.0
    for place, at in enumerate(order):
        smallest = min(smallest, p_values[at] * len(p_values) / (len(p_values) - place))
        rates[at] = smallest
    return rates


def wilson(failures, runs):
    z = 1.959963984540054
    rate, square = failures / runs, z * z / runs
    middle = (rate + square / 2) / (1 + square)
    half = z * math.sqrt(rate * (1 - rate) / runs + square / (4 * runs)) / (1 + square)
    return middle - half, middle + half


def expected(runs, by_type):
    """(job type, figure, group) → the finding; and the number of groups tested."""
    tested = {}
    for job_type in sorted({run.job_type for run in runs}) if by_type else [None]:
        of_type = [run for run in runs if job_type in (None, run.job_type)]
        if len(of_type) < 5 or len({run.failed for run in of_type}) < 2:
            continue
        for (figure, name), (own, known) in groups_of(of_type).items():
            failures, all_failures = sum(run.failed for run in own), sum(run.failed for run in known)
            tested[job_type, figure, name] = {
                "runs": len(own), "failures": failures, "failure_rate": failures / len(own),
                "baseline_rate": all_failures / len(known), "share": len(own) / len(known),
                "table": (failures, len(own) - failures, all_failures - failures,
                          len(known) - len(own) - all_failures + failures)}
    for finding in tested.values():
        finding["p_value"] = fisher(*finding["table"])
        finding["rate_low"], finding["rate_high"] = wilson(finding["failures"], finding["runs"])
    rates = false_discovery_rates([finding["p_value"] for finding in tested.values()])
    for (key, finding), q_value in zip(tested.items(), rates):
        cap, weight = CAPS[key[1]]
        deviation = finding["failure_rate"] - finding["baseline_rate"]
        finding.update(q_value=q_value, significant=q_value <= 0.05, deviation=deviation,
                       confidence=min(cap, 0.5 + 0.2 * finding["share"] + weight * abs(deviation)))
    return {key: finding for key, finding in tested.items() if abs(finding["deviation"]) >= 0.1 - 1e-9}, tested


class Statistics(daemon.TestCase):
    def line(self, case, figure, source, count, deviation):
        """One line of the table of `make truth`: the largest relative deviation of a figure."""
        record = {"case": f"statistics: {case}", "situation": f"{count} groups", "figure": figure,
                  "truth": "-", "source": source, "sonde": "-", "deviation": f"{deviation:.1e}",
                  "marker": "exact", "verdict": "ok" if deviation <= TOLERANCE else "FAILED"}
        print("# " + " ".join(record.values()))
        if "TRUTH_TABLE" in os.environ:
            with open(os.environ["TRUTH_TABLE"], "a", encoding="utf-8") as table:
                table.write(json.dumps(record) + "\n")
        self.assertLessEqual(deviation, TOLERANCE, record)

    def store(self, runs):
        """As a daemon stores them; then each gets its figures, which take no time this way."""
        sonde = self.daemon()
        link = sonde.connect()
        ids = []
        for run in runs:
            ids.append(link.call("job.start", job_id=run.job_type, job_type=run.job_type)["run_id"])
            link.call("job.finish", job_id=ids[-1], outcome="failure" if run.failed else "success")
        sonde.stop()
        now = time.time()
        with contextlib.closing(sqlite3.connect(self.database)) as database, database:
            for run_id, run in zip(ids, runs):
                changed = database.execute(
                    "UPDATE jobs SET peak_rss_mb = ?, total_cpu_seconds = ?, wall_seconds = ?,"
                    " started_at = ?, ended_at = ?, syscall_hotspots = ?, syscall_source = ? WHERE run_id = ?",
                    (run.memory, run.cpu, run.wall, now - 9000, now - 9000 + run.wall,
                     run.calls and json.dumps(run.calls), run.calls and run.source, run_id)).rowcount
                self.assertEqual(changed, 1)
                for name in run.anomalies:
                    database.execute("INSERT INTO anomalies (timestamp, anomaly_type, run_id) VALUES"
                                     " (?, ?, ?)", (now - 9000, name, run_id))

    def check(self, case, by_type):
        wanted, tested = expected(self.runs, by_type)
        words = () if by_type else ("--all-types",)
        done = self.run_program(harness.SONDE, "analyze", "--json", *words)
        self.assertEqual(done.status, 0, done)
        analysis = harness.strict_json(done.stdout.decode())
        found = {(group["job_type"], group["figure"], group["group"]): group for group in analysis["groups"]}
        self.assertEqual(analysis["groups_tested"], len(tested))
        self.assertEqual(set(found), set(wanted))
        figures = {key[1] for key in found}
        self.assertEqual(figures, set(CAPS), "the runs are to show all figures")
        for name in ("runs", "failures", "significant"):
            self.assertEqual({key: group[name] for key, group in found.items()},
                             {key: finding[name] for key, finding in wanted.items()}, name)
        for name in ("p_value", "q_value"):
            self.line(case, name, "integers", len(wanted), max(
                abs(group[name] / wanted[key][name] - 1) for key, group in found.items()))
        for name in ("failure_rate", "baseline_rate", "rate_low", "rate_high", "share", "confidence"):
            # JSON has six decimals of these, and four of the confidence.
            self.assertLess(max(abs(group[name] - wanted[key][name]) for key, group in found.items()),
                            0.6e-4 if name == "confidence" else 0.6e-6, name)
        return found, tested

    def check_with_scipy(self, case, found, tested):
        p_values = {key: scipy.stats.fisher_exact([finding["table"][:2], finding["table"][2:]])[1]
                    for key, finding in tested.items()}
        control = getattr(scipy.stats, "false_discovery_control", false_discovery_rates)  # since scipy 1.11
        q_values = dict(zip(p_values, control(list(p_values.values()))))
        for figures, title in ((set(CAPS), ""), ({"syscall"}, " of system calls")):
            groups = {key: group for key, group in found.items() if key[1] in figures}
            self.assertTrue(groups)
            for name, truth in (("p_value", p_values), ("q_value", q_values)):
                self.line(case, name + title, "scipy", len(groups),
                          max(abs(group[name] / truth[key] - 1) for key, group in groups.items()))
        for key, group in found.items():
            interval = scipy.stats.binomtest(group["failures"], group["runs"]).proportion_ci(0.95, "wilson")
            self.assertAlmostEqual(group["rate_low"], interval.low, delta=1e-6, msg=key)
            self.assertAlmostEqual(group["rate_high"], interval.high, delta=1e-6, msg=key)

    def setUp(self):
        super().setUp()
        self.runs = make_runs()
        self.store(self.runs)

    def test_each_type(self):
        found, _ = self.check("each type", True)
        self.assertEqual({key[0] for key in found}, {"build", "test", "lint"})

    def test_all_types(self):
        self.check("all types", False)

    @unittest.skipUnless(scipy, "needs scipy")
    def test_scipy(self):
        for case, by_type in (("each type", True), ("all types", False)):
            self.check_with_scipy(case, *self.check(case, by_type))


if __name__ == "__main__":
    harness.main()
