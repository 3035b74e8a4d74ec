#!/usr/bin/env python3
"""The command line: help, version, wrong usage, and the configuration."""
import json
import os
import re

import harness

VERBS = ("run", "ps", "jobs", "report", "events", "diff", "analyze", "estimate", "admit", "daemon",
         "status", "config", "version")


class Help(harness.TestCase):
    def test_each_verb(self):
        for verb in VERBS:
            with self.subTest(verb=verb):
                result = self.run_program(harness.SONDE, verb, "--help")
                self.assertEqual((result.status, result.stderr), (0, ""), result)
                text = result.stdout.decode("utf-8")
                self.assertTrue(text.startswith(f"usage: sonde {verb}"), text)
                for option in ("--config FILE", "--state-dir DIR", "--socket PATH", "--help"):
                    self.assertIn(option, text)
                self.assertLessEqual(max(map(len, text.splitlines())), 100)
                for other in ((verb, "-h"), ("help", verb)):
                    self.assertEqual(self.run_program(harness.SONDE, *other).stdout, result.stdout)

    def test_every_documented_option(self):
        promised = {
            "run": ("--job", "--type", "--step", "--interval", "--wait", "--summary", "--no-store",
                    "--quiet", "-q"),
            "ps": ("--all", "--tree", "--instant", "--json"),
            "config": ("--json", "check", "show"),
            "version": ("--json",),
        }
        for verb, options in promised.items():
            text = self.run_program(harness.SONDE, verb, "--help").stdout.decode("utf-8")
            for option in options:
                with self.subTest(verb=verb, option=option):
                    self.assertIn(option, text)

    def test_overview(self):
        overview = self.run_sonde("--help")
        self.assertEqual((overview.status, overview.stderr), (0, ""), overview)
        for verb in VERBS:
            self.assertRegex(overview.stdout.decode(), rf"(?m)^  {verb} ")
        for words in (["-h"], ["help"]):
            self.assertEqual(self.run_sonde(*words).stdout, overview.stdout)

    def test_help_does_not_start_the_command(self):
        marker = self.path("marker")
        result = self.run_program(harness.SONDE, "run", "--help", "--", "touch", marker)
        self.assertEqual(result.status, 0, result)
        self.assertFalse(os.path.exists(marker))

    def test_no_arguments(self):
        result = self.run_sonde()
        self.assertEqual((result.status, result.stdout), (2, b""), result)
        self.assertIn("usage: sonde VERB", result.stderr)

    def test_version(self):
        text = self.run_sonde("version").stdout.decode()
        self.assertRegex(text, r"^sonde [0-9]+\.[0-9]+\.[0-9]+\n$")
        self.assertEqual(self.run_sonde("--version").stdout.decode(), text)
        self.assertEqual(self.run_sonde("-V").stdout.decode(), text)
        parsed = harness.strict_json(self.run_sonde("version", "--json").stdout.decode())
        self.assertEqual(f"sonde {parsed['version']}\n", text)

    def test_full_output_is_a_failure(self):
        for words in (["version"], ["--help"], ["run", "--help"], ["config", "show"],
                      ["config", "show", "--json"], ["ps", "--instant", "--json"]):
            with self.subTest(words=words), open("/dev/full", "wb") as full:
                result = self.run_program(harness.SONDE, *words, stdout=full)
                self.assertEqual(result.status, 1, result)
                self.assertIn("No space left on device", result.stderr)
                verb = "" if words[0] == "--help" else f"{words[0]}: "
                self.assertIn(f"sonde: {verb}cannot write to standard output", result.stderr)

    def test_columns_have_the_names_of_the_output(self):
        """The help of jobs and analyze names columns as the tables do."""
        self.run_sonde("run", "-q", "--job", "x", "--", "true")
        heading = self.run_sonde("jobs").stdout.decode().split("\n")[0]
        text = self.run_sonde("jobs", "--help").stdout.decode()
        self.assertIn("LARGEST", heading)
        self.assertIn("LARGEST is the peak", text)
        self.assertNotIn("MEMORY", text)
        self.assertIn("(or failed)", text)
        self.assertIn("ALL RUNS", self.run_sonde("analyze", "--help").stdout.decode())


class WrongUsage(harness.TestCase):
    def refused(self, *words, status=2):
        result = self.run_program(harness.SONDE, *words)
        self.assertEqual((result.status, result.stdout), (status, b""), result)
        self.assertTrue(result.stderr.startswith("sonde: "), result)
        self.assertEqual(result.stderr.count("\n"), 1, result)
        self.assertNotRegex(result.stderr, r"[\x00-\x09\x0b-\x1f\x7f]")
        return result.stderr

    def test_unknown_verb(self):
        self.assertIn("did you mean 'run'", self.refused("rn"))
        self.assertIn("did you mean 'run'", self.refused("rnu"))
        self.assertIn("did you mean 'config'", self.refused("confg"))
        self.assertIn("sonde --help", self.refused("completely-different"))
        self.assertIn("\\x1b", self.refused("\x1b[31mrun"))
        self.refused("")
        self.refused("--no-such-option")
        self.assertIn("did you mean 'jobs'", self.refused("help", "job"))
        self.assertIn("unknown verb 'foo'", self.refused("--help", "foo"))

    def test_unknown_option(self):
        self.assertIn("did you mean '--json'", self.refused("ps", "--jsn"))
        self.assertIn("did you mean '--config'", self.refused("version", "--confg=x"))
        self.assertIn("'-x'", self.refused("ps", "-x"))
        self.assertIn("sonde ps --help", self.refused("ps", "--completely-different"))
        self.refused("ps", "--\x1b[31m" + "x" * 1000)
        self.assertIn("did you mean '--wait'",
                      self.refused("run", "--wiat", "--", "true", status=125))

        self.assertIn("did you mean '--summary -'",
                      self.refused("run", "--json", "--", "true", status=125))

    def test_long_words_are_cut(self):
        word = "x" * 100000
        self.run_sonde("run", "-q", "--", "true")
        for words in ((word,), ("help", word), ("report", word), ("estimate", word),
                      ("jobs", word), ("config", word), ("events", "--job", word)):
            with self.subTest(words=words[:-1]):
                result = self.run_sonde(*words)
                self.assertIn("x" * 60 + "...", result.stderr)
                self.assertLess(len(result.stderr), 300, result)

    def test_missing_value(self):
        self.assertIn("'--config' needs a value", self.refused("ps", "--config"))
        self.assertIn("'--job' needs a value", self.refused("run", "--job", status=125))

    def test_unexpected_argument(self):
        self.assertIn("'extra'", self.refused("version", "extra"))
        self.assertIn("'extra'", self.refused("ps", "extra"))
        self.assertIn("takes no value", self.refused("ps", "--json=1"))
        self.assertIn("'extra'", self.refused("config", "show", "extra"))
        self.refused("config")
        self.refused("config", "destroy")


class Forms(harness.TestCase):
    def test_familiar_forms_of_options(self):
        """-n5, -qw, --opt=value, -- and the old name of --step."""
        path = self.path("summary.json")
        result = self.run_sonde("run", "-qw", "-jforms", "--step=3", f"--summary={path}", "--",
                                "true")
        self.assertEqual((result.status, result.stderr), (0, ""), result)
        self.run_sonde("run", "-q", "--job", "old", "--sheet", "4", "true")
        jobs = json.loads(self.run_sonde("jobs", "-n5", "--json").stdout)
        self.assertEqual([job["job_id"] for job in jobs], ["old", "forms"])
        self.assertEqual([tuple(row) for row in self.stored(
            "SELECT sheet_num FROM sheets ORDER BY sheet_num")], [(3,), (4,)])

    def test_repeated_option(self):
        """events --type may be repeated; of other options, the last value counts."""
        self.run_sonde("run", "-q", "--job", "a", "--job", "b", "--", "true")
        self.assertEqual([job["job_id"] for job in json.loads(self.run_sonde("jobs", "--json").stdout)],
                         ["b"])
        for types in ({"exit"}, {"spawn", "exit"}, {"spawn", "oom"}):
            words = [f"--type={name}" for name in types]
            found = json.loads(self.run_sonde("events", "--json", *words).stdout)
            self.assertEqual({event["event_type"] for event in found}, types & {"spawn", "exit"})
        self.assertIn("May be repeated", self.run_sonde("events", "--help").stdout.decode())
        result = self.run_sonde("events", "-texit", "-t", "wait", "-tkill")
        self.assertEqual((result.status, result.stderr), (2, "sonde: events: --type: 'wait' is not "
                         "one of spawn, exec, exit, signal, kill, oom (see 'sonde events --help')\n"))

    def test_outcome_failed_and_relative_times(self):
        self.run_sonde("run", "-q", "--job", "bad", "false")
        self.run_sonde("run", "-q", "--job", "good", "true")
        for outcome in ("failed", "failure"):
            result = self.run_sonde("jobs", "--outcome", outcome, "--since", "2 hours ago",
                                    "--json")
            self.assertEqual([job["job_id"] for job in json.loads(result.stdout)], ["bad"])
        self.assertEqual(self.run_sonde("report", "--since", "2 hours ago").status, 0)
        self.assertEqual(self.run_sonde("events", "-s", "1 hour 30 minutes ago").status, 0)

    def test_ascii_outside_utf8(self):
        environment = dict(self.environment, LC_ALL="C")
        run = ("run", "--job", "x", "--type", "x", "--", "sh", "-c", "true # \u65e5")
        for words in (("run", "--help"), run, run, ("jobs",), ("report",), ("events",), ("ps",),
                      ("diff", "x"), ("estimate", "x")):
            with self.subTest(words=words):
                result = self.run_sonde(*words, env=environment)
                self.assertEqual(result.status, 0, result)
                self.assertTrue(result.stdout.isascii(), result)
                if words[0] == "run":
                    self.assertTrue(result.stderr.isascii(), result)
        self.assertIn(b">= marks", self.run_sonde("run", "--help", env=environment).stdout)


BAD = """\
# A configuration with one mistake, in line 7.
profiler:
  enabled: true
  scope: jobs
  collector: auto
  # how often
  interval_seconds:   fast
"""

MESSAGE = "{}:7:23: profiler.interval_seconds: 'fast' is not a number (allowed: 0.01 or more)\n"


class Configuration(harness.TestCase):
    def test_exact_message(self):
        path = self.write("sonde.yaml", BAD)
        marker = self.path("marker")
        cases = {
            ("config", "check", path): 2,
            ("config", "check", "--config", path): 2,
            ("config", "show", "--config", path): 2,
            ("ps", "--config", path): 2,
            ("run", "--config", path, "--", "touch", marker): 125,
        }
        for words, status in cases.items():
            with self.subTest(words=words):
                result = self.run_program(harness.SONDE, *words)
                self.assertEqual(result.status, status, result)
                self.assertEqual(result.stderr, MESSAGE.format(path))
                self.assertEqual(result.stdout, b"")
                self.assertFalse(os.path.exists(marker))

    def test_relative_name_is_kept_in_messages(self):
        self.write("sonde.yaml", BAD)
        result = self.run_sonde("config", "check", "sonde.yaml", cwd=self.directory)
        self.assertEqual(result.stderr, MESSAGE.format("sonde.yaml"))

    def test_search_order(self):
        """--config, then $SONDE_CONFIG, then $XDG_CONFIG_HOME, never the working directory."""
        def interval(*words, **variables):
            result = self.run_sonde("config", "show", "--json", *words, cwd=self.path("cwd"),
                                    env=dict(self.environment, **variables))
            self.assertEqual(result.status, 0, result)
            return json.loads(result.stdout)["profiler"]["interval_seconds"]["value"]
        os.mkdir(self.path("cwd"))
        files = {name: self.write(name, f"profiler:\n  interval_seconds: {value}\n")
                 for name, value in (("by-option", 11), ("by-variable", 12),
                                     ("config/sonde/sonde.yaml", 13), ("cwd/sonde.yaml", 14))}
        option = ("--config", files["by-option"])
        variable = {"SONDE_CONFIG": files["by-variable"]}
        self.assertEqual(interval(*option, **variable), 11)
        self.assertEqual(interval(**variable), 12)
        self.assertEqual(interval(), 13)
        os.unlink(files["config/sonde/sonde.yaml"])
        if not os.path.exists("/etc/sonde/sonde.yaml"):
            self.assertEqual(interval(), 5)

    def test_home_without_xdg_variable(self):
        os.makedirs(self.path(".config/sonde"))
        self.write(".config/sonde/sonde.yaml", "profiler:\n  interval_seconds: 21\n")
        environment = dict(self.environment)
        del environment["XDG_CONFIG_HOME"]
        result = self.run_sonde("config", "show", "--json", env=environment)
        shown = json.loads(result.stdout)
        self.assertEqual(shown["profiler"]["interval_seconds"]["value"], 21, result)

    def test_named_file_is_missing(self):
        for words, variables in ((("--config", "/no/such.yaml"), {}),
                                 ((), {"SONDE_CONFIG": "/no/such.yaml"})):
            with self.subTest(words=words):
                result = self.run_sonde("config", "check", *words,
                                        env=dict(self.environment, **variables))
                self.assertEqual(result.status, 2, result)
                self.assertIn("/no/such.yaml", result.stderr)

    def test_shown_configuration_can_be_read_again(self):
        path = self.write("some.yaml", "profiler:\n  interval_seconds: 0.5\n  scope: all\n"
                                       "limits:\n  max_processes: 77\n")
        first = self.run_sonde("config", "show", "--config", path)
        self.assertEqual((first.status, first.stderr), (0, ""), first)
        text = first.stdout.decode("utf-8")
        again = self.write("again.yaml", text)
        check = self.run_sonde("config", "check", again)
        self.assertEqual(check.status, 0, check)
        shown = [json.loads(self.run_sonde("config", "show", "--json", "--config", each).stdout)
                 for each in (path, again)]
        self.assertEqual(shown[0]["limits"]["max_processes"]["value"], 77)
        self.assertEqual(*[{section: {name: value["value"] for name, value in values.items()
                                      if "value" in value}
                            for section, values in each.items()} for each in shown])

    def test_origin_of_each_value(self):
        path = self.write("some.yaml", "profiler:\n  interval_seconds: 0.5\n")
        text = self.run_sonde("config", "show", "--config", path).stdout.decode("utf-8")
        self.assertRegex(text, rf"interval_seconds: 0\.5 .*{re.escape(path)}:2")
        self.assertRegex(text, r"scope: jobs .*default")

    def test_all_mistakes_at_once(self):
        path = self.write("bad.yaml", "profiler:\n  interval_secnds: 1\n  scope: some\n"
                                      "  enabled: perhaps\nlimits:\n  max_memory_mb: 3\nodd: 1\n")
        result = self.run_sonde("config", "check", path)
        self.assertEqual(result.status, 2, result)
        lines = result.stderr.splitlines()
        self.assertEqual([line.split(":")[1] for line in lines], ["2", "3", "4", "6", "7"], result)
        self.assertIn("interval_seconds", lines[0])  # the suggestion

    def test_check_as_json(self):
        path = self.write("sonde.yaml", BAD)
        result = self.run_sonde("config", "check", "--json", path)
        self.assertEqual(result.status, 2, result)
        verdict = harness.strict_json(result.stdout.decode())
        self.assertEqual(verdict["ok"], False)
        self.assertEqual(verdict["errors"], [MESSAGE.format(path).rstrip("\n")])
        good = self.write("good.yaml", "profiler:\n  interval_seconds: 2\n")
        verdict = harness.strict_json(
            self.run_sonde("config", "check", "--json", good).stdout.decode())
        self.assertEqual((verdict["ok"], verdict["errors"]), (True, []))

    def test_directory_and_device(self):
        for path in (self.directory, "/dev/zero"):
            with self.subTest(path=path):
                result = self.run_sonde("config", "check", path)
                self.assertEqual(result.status, 2, result)
                self.assertIn(path, result.stderr)

    def test_pipes(self):
        """A named pipe could wait forever; the pipe of another program is read."""
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        for words in (("check", fifo), ("check", "--config", fifo), ("show", "--config", fifo)):
            with self.subTest(words=words):
                result = self.run_sonde("config", *words)
                self.assertEqual(result.status, 2, result)
                self.assertEqual(result.stderr, f"sonde: {fifo}: is a named pipe, a socket or a device; "
                                                "name a regular file\n")
        result = self.run_program("bash", "-c", '"$0" config check <(sleep 0.1; echo "limits: {}")',
                                  harness.SONDE)
        self.assertEqual(result.status, 0, result)

    def test_ascii_outside_utf8(self):
        environment = dict(self.environment, LC_ALL="C")
        bad = self.write("b\u00e4d.yaml", "profiler:\n  scope: gr\u00f6\u00dfe\n")
        good = self.write("g\u00fct.yaml", "")
        for path, status, text in ((bad, 2, "'gr\\u00f6\\u00dfe'"), (good, 0, "g\\u00fct.yaml: ok"),
                                   (self.path("n\u00f6"), 2, "n\\u00f6: no such file")):
            with self.subTest(path=path):
                result = self.run_sonde("config", "check", path, env=environment)
                output = result.stdout.decode("ascii") + result.stderr
                self.assertEqual(result.status, status, result)
                self.assertIn(text, output)
                self.assertTrue(output.isascii(), result)

    def test_beginning_of_errors(self):
        """A position comes first, as in the messages of compilers; other errors name sonde."""
        path = self.write("sonde.yaml", BAD)
        self.assertTrue(self.run_sonde("config", "check", path).stderr.startswith(f"{path}:7:23: "))
        self.assertTrue(self.run_sonde("ps", "--config", "/no/such").stderr.startswith(
            "sonde: /no/such: "))

    @harness.needs_root()
    @harness.needs_program("setpriv")
    def test_unreadable_file(self):
        path = self.write("secret.yaml", "", 0o600)
        result = self.run_sonde("config", "check", path, prefix=harness.unprivileged())
        self.assertEqual(result.status, 2, result)
        self.assertIn("permission denied", result.stderr.lower())


if __name__ == "__main__":
    harness.main()
