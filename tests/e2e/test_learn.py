#!/usr/bin/env python3
"""Learning from runs: which resource use goes with failure, what the next run will need, how runs
differ; with real jobs under a real daemon, and without one."""
import contextlib
import json
import os
import sqlite3

import daemon
import harness

INVALID_PARAMS = -32602
PLANTED = "[memory_vs_failure] >2GB of synthetic"
LARGE = "[memory_vs_failure] 256-512MB"


class LearnTestCase(daemon.TestCase):
    def text(self, *words, status=0):
        result = self.run_program(harness.SONDE, *words)
        self.assertEqual(result.status, status, result)
        return result.stdout.decode()

    def words(self, *words, status=3):
        """The message on standard error when there is no answer."""
        result = self.run_program(harness.SONDE, *words)
        self.assertEqual(result.status, status, result)
        self.assertEqual(result.stdout, b"")
        return result.stderr

    def json(self, *words):
        return harness.strict_json(self.text(*words, "--json"))

    def patterns(self):
        """Patterns of analyses. A daemon may store others: it receives every OOM kill on the machine,
        and other tests cause some."""
        path = os.path.join(self.environment["SONDE_STATE_DIR"], "monitor.db")
        with contextlib.closing(sqlite3.connect(path)) as database:
            return {name: (kind, times, first, last) for kind, name, times, first, last in
                    database.execute("SELECT pattern_type, pattern_name, occurrences, first_seen,"
                                     " last_seen FROM patterns WHERE pattern_type ="
                                     " 'RESOURCE_CORRELATION'")}

    def correlation(self, analysis, name):
        return next(found for found in analysis["correlations"] if found["pattern_name"] == name)


# ---- real jobs ----


class RealJobs(LearnTestCase):
    @harness.needs_program("stress-ng")
    @harness.needs_memory(1024)
    def test_a_planted_cause(self):
        """30 jobs; five of six jobs with more than 256 MB fail, and one in twelve of the others."""
        with daemon.Daemon(self, interval=0.1) as sonde:
            for i in range(6):
                self.run_large(280 + 10 * i, fails=i != 2)
            for i in range(12):
                self.run_small(i, fails=i == 4)
                self.run_stress_ng(16 + i)
            analysis = self.json("analyze", "--all-types")
            self.assertEqual((analysis["runs"], analysis["failures"]), (30, 6))
            self.assertEqual(analysis["verdict"], "found")
            self.assertEqual(analysis["groups"], analysis["correlations"])
            found = self.correlation(analysis, LARGE)
            self.assertEqual((found["runs"], found["failures"]), (6, 5))
            self.assertTrue(found["significant"], found)
            self.assertLess(found["p_value"], 0.001)
            self.assertLess(found["rate_low"], 5 / 6)
            self.assertGreater(found["rate_high"], 5 / 6)
            self.assertIn("memory_bin:256-512MB", found["context_tags"])
            self.assertIn(LARGE, [pattern["pattern_name"] for pattern in analysis["patterns"]])
            self.assertIsNone(found["job_type"])
            self.check_text()
            # Each type by itself: all runs of "load" have that size, and all of "stress" succeeded.
            by_type = self.json("analyze")
            self.assertEqual(by_type["runs"], 30)
            self.assertNotIn(LARGE, json.dumps(by_type))
            self.assertLessEqual({group["job_type"] for group in by_type["groups"]},
                                 {"load", "small"})
            self.check_estimate(sonde)

    def run_large(self, megabytes, fails):
        status = 1 if fails else 0
        program = " ".join(self.victim("alloc", str(megabytes), "10"))
        result = self.run_program(harness.SONDE, "run", "-q", "--type", "load", "--", "sh", "-c",
                                  f"{program}; exit {status}")
        self.assertEqual(result.status, status, result)

    def run_small(self, number, fails):
        result = self.run_program(harness.SONDE, "run", "-q", "--type", "small", "--", "sh", "-c",
                                  f"test {number} -ge 0 && exit {int(fails)}")
        self.assertEqual(result.status, int(fails), result)

    def run_stress_ng(self, megabytes):
        result = self.run_program(harness.SONDE, "run", "-q", "--type", "stress", "--",
                                  "stress-ng", "--vm", "1", "--vm-bytes", f"{megabytes}M",
                                  "--vm-ops", "1", "--quiet")
        self.assertEqual(result.status, 0, result)

    def check_text(self):
        text = self.text("analyze", "--all-types")
        self.assertRegex(text, r"^30 runs ended with a known outcome in the last 7 days, 6 failed"
                               r" \(20 %\)\n")
        self.assertRegex(text, r"\n  memory  +256-512MB +6 +83 % .* significant\n")
        self.assertIn("runs with a peak RSS of 256-512MB fail more often: 5 of 6 (83 %), against"
                      " 20 % of all 30\n", text)

    def check_estimate(self, sonde):
        estimate = self.json("estimate", "load")
        self.assertEqual(estimate["sample_size"], 6)
        self.assertAlmostEqual(estimate["failure_rate"], 5 / 6, delta=0.001)
        self.assertEqual(estimate, sonde.rpc("estimate.job", job_type="load"))
        self.run_large(310, fails=False)
        run = self.json("jobs", "--type", "load", "--limit", "1")[0]
        peak = run["profile"]["peak_rss_mb"]
        self.assertGreater(peak, 310)
        self.assertLess(peak, estimate["peak_memory_mb_p95"])
        self.assertGreater(peak, 0.8 * estimate["peak_memory_mb_p95"])
        calibration = self.json("estimate", "--calibration", "load")
        self.assertEqual(calibration[0]["job_type"], "load")
        self.assertEqual(calibration[0]["runs"], 6)
        self.assertRegex(self.text("estimate", "load"),
                         r"^load: estimated from 7 finished runs; 71 % of all runs failed\n.*\n"
                         r"  memory, together +3..\.. MB")


# ---- synthetic jobs, reported over RPC ----


class SyntheticJobs(LearnTestCase):
    def report_run(self, link, memory_mb, outcome="success", job_type="synthetic", **figures):
        run_id = link.call("job.start", job_id=f"job-{job_type}", job_type=job_type)["run_id"]
        link.call("job.finish", job_id=run_id, outcome=outcome, peak_rss_mb=memory_mb, **figures)
        return run_id

    def report_planted(self, link, job_type="synthetic"):
        for i in range(20):
            self.report_run(link, 3000 if i < 5 else 100, "failure" if i < 5 else "success", job_type)

    def test_no_answer(self):
        with daemon.Daemon(self) as sonde:
            earlier = self.json("analyze")
            analysis = self.run_program(harness.SONDE, "analyze")
            self.assertIn("too few runs: 0 with a known outcome, 5 are needed",
                          analysis.stdout.decode() + analysis.stderr)
            self.assertEqual(earlier["verdict"], "too_few_runs")
            # Anomalies of other tests' processes are patterns, too: then there is an answer.
            with_pattern = self.json("analyze") if analysis.status == 0 else earlier
            self.assertEqual(analysis.status, 0 if with_pattern["patterns"] else 3)
            link = sonde.connect()
            self.report_run(link, 100, "unknown")
            self.assertIn("none with a known outcome", self.text("analyze"))
            for _ in range(5):
                self.report_run(link, 100)
            self.assertIn("none of 5 runs failed: there is nothing to compare",
                          self.text("analyze"))
            self.report_run(link, 100, "failure")
            self.assertIn("too few runs in any group to compare", self.text("analyze"))
            self.assertEqual(self.json("analyze")["correlations"], [])
            self.assertEqual(sonde.error("analyze.run", job_type="~"), INVALID_PARAMS)

    def test_min_sample_size(self):
        config = "profiler:\n  correlation:\n    min_sample_size: 21\n"
        with daemon.Daemon(self, config=config) as sonde:
            link = sonde.connect()
            self.report_planted(link)
            analysis = sonde.rpc("analyze.run")
            self.assertEqual((analysis["verdict"], analysis["min_sample_size"]),
                             ("too_few_runs", 21))
            sonde.configure("profiler:\n  correlation:\n    min_sample_size: 20\n")
            sonde.rpc("daemon.reload")
            self.assertEqual(sonde.rpc("analyze.run")["verdict"], "found")

    def test_found_again(self):
        """A second analysis updates the patterns and does not duplicate them."""
        with daemon.Daemon(self) as sonde:
            self.report_planted(sonde.connect())
            found, = [group for group in self.json("analyze")["groups"]
                      if group["pattern_name"] == PLANTED]
            self.assertEqual((found["figure"], found["significant"], found["job_type"]),
                             ("memory", True, "synthetic"))
            self.assertIn("job_type:synthetic", found["context_tags"])
            self.assertRegex(self.text("analyze"), r"\n  synthetic  memory +>2GB +5 +100 %")
            harness.wait_until(lambda: PLANTED in self.patterns(), "it is kept")
            before = self.patterns()
            self.assertEqual(before[PLANTED][0], "RESOURCE_CORRELATION")
            sonde.rpc("analyze.run")
            harness.wait_until(lambda: self.patterns()[PLANTED][1] > before[PLANTED][1],
                               "it is found once more")
            after = self.patterns()
            self.assertEqual(set(after), set(before))
            self.assertEqual(after[PLANTED][2], before[PLANTED][2])
            self.assertGreater(after[PLANTED][3], before[PLANTED][3])
            # over all types: nothing is stored, or deleted
            sonde.rpc("analyze.run", all_types=True)
            self.json("analyze", "--all-types")
            self.assertEqual(set(self.patterns()), set(before))

    def test_one_type_is_not_kept(self):
        with daemon.Daemon(self) as sonde:
            link = sonde.connect()
            self.report_planted(link)
            for i in range(10):
                self.report_run(link, 100, "failure" if i % 2 else "success", "other")
            analysis = self.json("analyze", "--type", "synthetic")
            self.assertEqual(analysis["runs"], 20)
            self.assertEqual(self.correlation(analysis, PLANTED)["runs"], 5)
            self.assertEqual(self.patterns(), {})
            self.assertEqual(self.json("analyze")["runs"], 30)
            harness.wait_until(lambda: PLANTED in self.patterns(), "it is kept")

    def test_expired(self):
        """Patterns that no longer hold are deleted; anomalies stay."""
        with daemon.Daemon(self) as sonde:
            link = sonde.connect()
            self.report_planted(link)
            self.json("analyze")
            harness.wait_until(lambda: PLANTED in self.patterns(), "it is kept")
            for _ in range(60):
                self.report_run(link, 3000)
            for _ in range(10):
                self.report_run(link, 100, "failure")
            names = [pattern["pattern_name"] for pattern in self.json("analyze")["patterns"]]
            self.assertNotIn(PLANTED, names)
            harness.wait_until(lambda: PLANTED not in self.patterns(),
                               "it is gone")

    @harness.needs_root()
    def test_users_do_not_share_analyses(self):
        """Runs of another user are in no answer, and its analyses change nothing."""
        socket = self.path("run/sonde.sock")
        self.environment["SONDE_SOCKET"] = socket
        with daemon.Daemon(self, config="daemon:\n  access: everyone\n") as sonde:
            self.report_planted(sonde.connect(), "secret-of-root")
            sonde.rpc("analyze.run")
            harness.wait_until(self.patterns, "patterns are kept")
            kept = self.patterns()
            os.setegid(harness.UNPRIVILEGED_UID)
            os.seteuid(harness.UNPRIVILEGED_UID)
            try:
                other = daemon.Rpc(socket)
            finally:
                os.seteuid(0)
                os.setegid(0)
            with other:
                analysis = other.call("analyze.run")
                self.assertEqual((analysis["runs"], analysis["patterns"]), (0, []))
                self.assertIsNone(other.call("estimate.job", job_type="secret-of-root"))
                self.assertEqual(other.call("estimate.calibration"), [])
                for i in range(8):
                    self.report_run(other, 3000 if i < 4 else 100, "failure" if i < 4 else "success",
                              "own")
                analysis = other.call("analyze.run")
                self.assertEqual(analysis["runs"], 8)
                self.assertEqual(self.correlation(analysis, "[memory_vs_failure] >2GB of own")["runs"], 4)
                self.assertNotIn("secret-of-root", json.dumps(analysis))
                self.assertEqual(other.call("estimate.job", job_type="own")["sample_size"], 8)
            self.assertEqual({name: what[1] for name, what in self.patterns().items()},
                             {name: what[1] for name, what in kept.items()})
            self.assertEqual(sonde.rpc("analyze.run")["runs"], 28)

    def test_admission_uses_the_estimate(self):
        """Only when the estimate is certain."""
        config = "limits:\n  max_memory_mb: 2000\n"
        with daemon.Daemon(self, config=config) as sonde:
            link = sonde.connect()
            for i in range(5):
                self.assertEqual(self.run_program(harness.SONDE, "admit", "--type",
                                                  "synthetic").status, 0, i)
                self.report_run(link, 5000)
            result = self.run_program(harness.SONDE, "admit", "--type", "synthetic")
            self.assertEqual(result.status, 75, result)
            self.assertIn(b"4.88 GB", result.stdout)
            self.assertEqual(self.run_program(harness.SONDE, "admit").status, 0)

    def test_anomalies_are_patterns_too(self):
        config = ("profiler:\n  anomaly:\n    fd_exhaustion_threshold: 1\n"
                  "    fd_exhaustion_ratio: 0.0001\n")
        with daemon.Daemon(self, config=config) as sonde:
            process = self.start_sonde("--job", "files", "--type", "files", "--",
                                       *self.victim("busy"))

            def kept():
                return [pattern for pattern in sonde.rpc("analyze.run")["patterns"]
                        if pattern["pattern_name"] == "[fd_exhaustion] files"]

            harness.wait_until(kept, "an anomaly is kept")
            self.assertEqual(kept()[0]["pattern_type"], "RESOURCE_ANOMALY")
            # The text shows 20, and every process of the machine may have some.
            self.assertIn("[fd_exhaustion] files", self.text("analyze", "--json"))
            process.terminate()
            self.finish(process)


# ---- without a daemon ----


class Alone(LearnTestCase):
    def store(self, job, *command, status=0, options=()):
        result = self.run_program(harness.SONDE, "run", "-q", "--job", job, *options, "--",
                                  *command)
        self.assertEqual(result.status, status, result)

    def test_no_runs(self):
        for words in (("analyze",), ("estimate", "x"), ("diff", "x")):
            self.assertIn("no data yet in", self.words(*words))
        self.store("one", "true")
        self.assertIn("no data: no finished runs of the type 'x'",
                      self.words("estimate", "x"))
        self.assertIn("no two finished runs", self.words("estimate", "--calibration"))
        self.assertEqual(self.json("estimate", "--calibration"), [])
        self.assertIn("no data: fewer than two finished runs of the type 'x'",
                      self.words("estimate", "--calibration", "x"))
        self.assertIn("no job named 'nope'; ", self.words("diff", "nope"))

    def test_empty_list_without_a_database(self):
        self.assertEqual(self.json("estimate", "--calibration"), [])
        self.assertEqual(self.json("estimate", "--calibration", "x"), [])

    def test_estimate_of_a_job(self):
        """The name of a job stands for the type of its latest run."""
        self.store("nightly", "true", options=["--type", "old"])
        for _ in range(2):
            self.store("nightly", "true", options=["--type", "import"])
        self.assertRegex(self.text("estimate", "nightly"), r"^import: estimated from 2 ")
        self.assertRegex(self.text("estimate", "--calibration", "nightly"), r"(?m)^  import ")
        self.assertEqual(self.json("estimate", "--calibration", "nightly")[0]["job_type"], "import")
        self.store("other", "true", options=["--type", "nightly"])
        self.assertRegex(self.text("estimate", "nightly"), r"^nightly: estimated from 1 ")

    def test_analysis_is_kept(self):
        for i in range(6):
            self.store("good", "true", options=["--type", "any"])
            self.store("bad", "sh", "-c", "sleep 0.02; sleep 0.02; sleep 0.02; exit 1", status=1,
                       options=["--type", "any"])
        first = self.json("analyze")
        self.assertEqual((first["runs"], first["failures"]), (12, 6))
        self.assertTrue(first["patterns"])
        second = self.json("analyze")
        for pattern in second["patterns"]:
            self.assertEqual(pattern["occurrences"], 2, pattern)
        self.assertEqual({name: what[1] for name, what in self.patterns().items()},
                         {pattern["pattern_name"]: 2 for pattern in second["patterns"]})

    @harness.needs_root()
    def test_read_only_database(self):
        """A database that cannot be written, as on a read-only file system."""
        for i in range(6):
            self.store("job", "sh", "-c", f"exit {i % 2}", status=i % 2, options=["--type", "any"])
        self.json("analyze")  # also closes the write-ahead log
        state = self.environment["SONDE_STATE_DIR"]
        mount = f"mount --bind -o ro {state} {state} && mount -o remount,bind,ro {state}"
        result = self.run_program("unshare", "--mount", "sh", "-c",
                                  f"{mount} && exec {harness.SONDE} analyze --json")
        if "mount" in result.stderr and result.status != 0:
            self.skipTest("cannot mount here")
        self.assertEqual(result.status, 0, result)
        self.assertEqual(harness.strict_json(result.stdout.decode())["runs"], 6)
        self.assertIn("the patterns were not stored: ", result.stderr)

    def test_type_of_a_command(self):
        os.mkdir(self.path("parser"))
        for _ in range(2):
            self.run_program(harness.SONDE, "run", "-q", "--", "true", "check",
                             cwd=self.path("parser"))
        jobs = self.json("jobs", "--type", "true check @parser")
        self.assertEqual(len(jobs), 2)
        self.assertEqual(jobs[0]["job_type"], "true check @parser")
        result = self.run_program(harness.SONDE, "estimate", "--json", "--", "true", "-x", "check",
                                  cwd=self.path("parser"))
        self.assertEqual(harness.strict_json(result.stdout.decode())["sample_size"], 2)
        self.assertEqual(self.json("estimate", "true check @parser")["sample_size"], 2)
        self.assertIn("did you mean 'true check @parser'?",
                      self.words("estimate", "true chek @parser"))
        self.assertIn("true check @parser", self.text("jobs"))

    def test_usage(self):
        for words, reason in (
                (("analyze", "x"), "unexpected argument"),
                (("analyze", "--type", "a", "--all-types"), "cannot be used with --type"),
                (("analyze", "--type", "a~b"), "--type: 'a~b' contains '~'"),
                (("estimate",), "specify a type or a job"),
                (("estimate", "a", "b"), "unexpected argument"),
                (("estimate", "a", "--", "b"), "either a type or"),
                (("estimate", ""), "is empty"),
                (("diff",), "two runs, found 0"),
                (("diff", "a", "b", "c"), "two runs, found 3"),
                (("diff", "a~1"), "specify a run to compare 'a~1' with")):
            with self.subTest(words=words):
                self.assertIn(reason, self.words(*words, status=2))

    def test_diff(self):
        self.store("job", *self.victim("alloc", "10", "10"))
        self.store("job", "sh", "-c", "exit 3", status=3)
        self.store("big", *self.victim("alloc", "100", "10"))
        diff = self.json("diff", "job~1", "job")
        self.assertEqual((diff["left"]["outcome"], diff["right"]["outcome"]),
                         ("success", "failure"))
        memory = next(pair for pair in diff["figures"] if pair["figure"] == "peak_rss_mb")
        self.assertGreater(memory["left"], 10)
        self.assertLess(memory["right"], memory["left"])
        self.assertAlmostEqual(memory["difference"], memory["right"] - memory["left"], delta=0.01)
        self.assertAlmostEqual(memory["ratio"], memory["right"] / memory["left"], delta=0.001)
        self.assertEqual(self.json("diff", "job")["left"]["run_id"], diff["left"]["run_id"])
        by_id = self.json("diff", diff["right"]["run_id"], "big")
        self.assertEqual(by_id["left"]["run_id"], diff["right"]["run_id"])
        text = self.text("diff", "job", "big")
        self.assertRegex(text, r"^  left +job: failure, status 3, .*\n  right +big: success, ")
        self.assertRegex(text, r"\n  cause +exit status 3\n +-\n")
        self.assertRegex(text, r"\n  largest process +\S+ MB +1..\.. MB +\d+ times\n")
        self.assertIn("no run 'job~2'", self.words("diff", "job~2", "job"))
        self.assertIn("did you mean 'big'?", self.words("diff", "job", "bigg"))

    def test_hostile_names(self):
        self.store("evil", "sh", "-c", "exit 1 # \x1b[31m", status=1)
        self.store("evil", "true")
        for words in (("diff", "evil"), ("estimate", "--calibration"), ("analyze",)):
            result = self.run_program(harness.SONDE, *words)
            self.assertNotIn(b"\x1b", result.stdout + result.stderr.encode())


if __name__ == "__main__":
    harness.main()
