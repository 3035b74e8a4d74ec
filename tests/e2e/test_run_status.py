#!/usr/bin/env python3
"""sonde run: its exit status, the standard streams, and the summary that it writes."""
import json
import os
import re
import signal
import stat
import sys
import time

import harness

UUID_V7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")

NUMBER = (int, float)
SUMMARY_FIELDS = {
    "run_id": str,
    "job_id": str,
    "job_type": str,
    "outcome": str,
    "exit_code": (int, type(None)),
    "signal_num": (int, type(None)),
    "cause": (str, type(None)),
    "started_at": NUMBER,
    "wall_seconds": NUMBER,
    "cpu_seconds": NUMBER,
    "user_seconds": NUMBER,
    "system_seconds": NUMBER,
    "peak_rss_mb": NUMBER,
    "peak_total_mb": NUMBER,
    "peak_unique_min_mb": NUMBER,
    "peak_unique_mb": NUMBER,
    "processes": int,
    "peak_processes": int,
    "left_running": list,
    "num_samples": int,
    "anomalies": list,
    "collector": str,
    "exactness": dict,
}
EXACTNESS_FIELDS = ("cpu_seconds", "user_seconds", "system_seconds", "peak_rss_mb",
                    "peak_total_mb", "peak_unique_min_mb", "peak_unique_mb", "processes")


class ExitStatus(harness.TestCase):
    def test_exit_status_is_the_commands(self):
        for status in (0, 1, 3, 42, 125, 126, 127, 255):
            with self.subTest(status=status):
                result = self.run_sonde("run", "--", "sh", "-c", f"exit {status}")
                self.assertEqual(result.status, status, result)
                self.assertEqual(result.summary["exit_code"], status)
                self.assertIsNone(result.summary["signal_num"])
                self.assertEqual(result.summary["outcome"], "success" if status == 0 else "failure")
                self.assertEqual(result.summary["cause"],
                                 None if status == 0 else f"exit status {status}")

    def test_death_by_signal_is_128_and_its_number(self):
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGPIPE,
                       signal.SIGHUP, signal.SIGUSR1, signal.SIGALRM, signal.SIGRTMIN + 5):
            with self.subTest(signal=int(number)):
                result = self.run_sonde("run", "--", "sh", "-c",
                                        f"ulimit -c 0; kill -{int(number)} $$")
                self.assertEqual(result.status, 128 + number, result)
                self.assertEqual(result.summary["signal_num"], number)
                self.assertIsNone(result.summary["exit_code"])
                self.assertEqual(result.summary["outcome"], "failure")
                self.assertIn("killed by", result.summary["cause"])

    def test_not_found_is_127(self):
        script = self.write("no-interpreter", "#!/does/not/exist\n", 0o755)
        for command in ("no-such-program-here", "./no/such/file", "", script):
            with self.subTest(command=command):
                result = self.run_sonde("run", "--", command)
                self.assertEqual(result.status, 127, result)
                self.assertIn(command, result.stderr)
                self.assertNotIn("wall", result.stderr)

    def test_not_executable_is_126(self):
        plain = self.write("plain", "echo hello\n", 0o644)
        for command in (plain, self.directory, plain + "/below"):
            with self.subTest(command=command):
                result = self.run_sonde("run", "--", command)
                self.assertEqual(result.status, 126, result)
                self.assertIn(command, result.stderr)

    def test_script_without_interpreter_line_runs_as_with_env(self):
        script = self.write("script", "echo from-the-script; exit 4\n", 0o755)
        result = self.run_sonde("run", "--", script)
        self.assertEqual((result.status, result.stdout), (4, b"from-the-script\n"), result)

    def test_command_without_dashes(self):
        result = self.run_sonde("run", "-q", "sh", "-c", "exit 9", "--", "--wait")
        self.assertEqual(result.status, 9, result)

    def test_options_of_the_command_are_passed_on(self):
        result = self.run_sonde("run", "--", "echo", "--help", "-q", "--job", "x", "--")
        self.assertEqual(result.stdout, b"--help -q --job x --\n", result)

    def test_error_of_sonde_is_125_and_nothing_starts(self):
        marker = self.path("marker")
        config = self.write("bad.yaml", "profiler:\n  interval_seconds: fast\n")
        cases = {
            "unknown option": ["--no-such-option"],
            "unknown letter": ["-Z"],
            "bad interval": ["--interval", "soon"],
            "interval out of range": ["--interval", "1ms"],
            "interval too long": ["--interval", "2h"],
            "bad sheet": ["--sheet", "-1"],
            "sheet of letters": ["--sheet", "one"],
            "empty job": ["--job", ""],
            "job with a tilde": ["--job", "a~1"],
            "job with a control character": ["--job", "a\x1b[31m"],
            "job too long": ["--job", "x" * 200],
            "bad type": ["--type", "a\nb"],
            "flag with a value": ["--wait=yes"],
            "bad configuration": ["--config", config],
            "no such configuration": ["--config", self.path("none.yaml")],
            "unwritable summary": ["--summary", self.path("no/such/directory/summary")],
            "summary is a directory": ["--summary", self.directory],
            "empty summary": ["--summary", ""],
        }
        for name, options in cases.items():
            with self.subTest(case=name):
                result = self.run_sonde("run", *options, "--", "touch", marker)
                self.assertEqual(result.status, 125, result)
                self.assertFalse(os.path.exists(marker), "the command was started")
                self.assertNotEqual(result.stderr, "")
                self.assertNotIn("\x1b", result.stderr)
                self.assertEqual(result.stdout, b"")

    def test_no_command_is_125(self):
        for words in (["run"], ["run", "--"], ["run", "-q"], ["run", "--job", "x", "--"]):
            with self.subTest(words=words):
                result = self.run_sonde(*words)
                self.assertEqual(result.status, 125, result)
                self.assertIn("sonde run -- CMD", result.stderr)

    def test_missing_value_names_the_option(self):
        result = self.run_sonde("run", "--summary", self.path("s"), "--job")
        self.assertEqual(result.status, 125, result)
        self.assertIn("'--job' needs a value", result.stderr)

    def test_scarce_descriptors_do_not_harm_the_command(self):
        for limit in (7, 8, 10, 16, 24, 64):
            with self.subTest(limit=limit):
                result = self.run_sonde("run", "--", "sh", "-c", "exit 3", prefix=(
                    "bash", "-c", f'ulimit -n {limit}; exec "$@"', "bash"))
                self.assertEqual(result.status, 3, result)
                self.assertGreaterEqual(result.summary["processes"], 1)


class Streams(harness.TestCase):
    def test_stdin_reaches_the_command(self):
        data = bytes(range(256)) * 5000
        result = self.run_sonde("run", "-q", "--", "cat", stdin=data)
        self.assertEqual(result.status, 0, result.stderr)
        self.assertEqual(result.stdout, data)

    def test_stdin_through_a_pipe(self):
        data = b"line\n" * 100000
        result = self.run_program("sh", "-c", 'cat | "$0" run -q -- wc -c', harness.SONDE,
                                  stdin=data)
        self.assertEqual(result.stdout.split(), [b"500000"], result)

    def test_stdin_at_its_end(self):
        with open(os.devnull, "rb") as nothing:
            result = self.run_sonde("run", "--", "cat", stdin=nothing)
        self.assertEqual((result.status, result.stdout), (0, b""), result)

    def test_sonde_reads_nothing_of_stdin(self):
        result = self.run_program("sh", "-c", '"$0" run -q -- true; cat', harness.SONDE,
                                  stdin=b"all of it\n")
        self.assertEqual(result.stdout, b"all of it\n", result)

    def test_stdout_is_byte_exact(self):
        program = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 4096)"
        result = self.run_sonde("run", "--", sys.executable, "-c", program)
        self.assertEqual(result.stdout, bytes(range(256)) * 4096)
        self.assertIn("success", result.stderr)

    def test_summary_is_on_stderr_only(self):
        result = self.run_sonde("run", "--", "sh", "-c", "echo out; echo err >&2")
        self.assertEqual(result.stdout, b"out\n")
        self.assertTrue(result.stderr.startswith("err\n"), result)
        for word in ("success", "wall", "CPU", "memory", "processes"):
            self.assertIn(word, result.stderr)

    def test_quiet_prints_nothing(self):
        for option in ("-q", "--quiet"):
            with self.subTest(option=option):
                result = self.run_sonde("run", option, "--", "sh", "-c", "echo out; exit 5")
                self.assertEqual((result.status, result.stdout, result.stderr),
                                 (5, b"out\n", ""))
                self.assertEqual(result.summary["exit_code"], 5)

    def test_closed_pipe_ends_the_command_as_without_sonde(self):
        """A pipe that is closed early: SIGPIPE kills `yes`, and sonde ends with 141."""
        script = '"$0" run -- yes | head -n 1; echo "${PIPESTATUS[0]}"'
        result = self.run_program("bash", "-c", script, harness.SONDE)
        self.assertEqual(result.stdout, b"y\n141\n", result)
        self.assertIn("killed by SIGPIPE", result.stderr)

    def test_full_stderr_pipe(self):
        """stderr is a full pipe without a reader: the exit status is still the command's."""
        read_end, write_end = os.pipe()
        os.close(read_end)
        result = self.run_sonde("run", "--", "sh", "-c", "exit 6", stderr=write_end)
        os.close(write_end)
        self.assertEqual(result.status, 6)
        self.assertEqual(result.summary["exit_code"], 6)

    def test_closed_streams(self):
        """Each combination of closed standard streams: the command finds them closed, descriptors of
        sonde do not take their place, and the summary is complete."""
        for closed in ("0<&-", "1>&-", "2>&-", "0<&- 1>&-", "1>&- 2>&-", "0<&- 1>&- 2>&-"):
            with self.subTest(closed=closed):
                state = self.path("state")
                summary = self.path("summary")
                words = " ".join(self.victim("state", state))
                script = f'"$0" run --summary {summary} -- {words} {closed}; ' \
                         f'echo $? >{state}.status'
                self.run_program("sh", "-c", script, harness.SONDE)
                self.assertEqual(self.read("state.status"), b"0\n")
                names = {line.split()[1] for line in self.read("state").decode().splitlines()
                         if line.startswith("fd ")}
                gone = {word[0] for word in closed.split()}
                self.assertEqual(names & {"0", "1", "2"}, {"0", "1", "2"} - gone)
                self.assertEqual(
                    harness.strict_json(self.read("summary").decode())["outcome"], "success")

    def test_full_stderr_does_not_matter(self):
        with open("/dev/full", "wb") as full:
            result = self.run_sonde("run", "--", "sh", "-c", "exit 3", stderr=full)
        self.assertEqual(result.status, 3)
        self.assertEqual(result.summary["exit_code"], 3)


class Summary(harness.TestCase):
    def test_every_field_with_its_type(self):
        # The kernel collector takes over when a command runs for more than 40 ms; on a busy
        # machine that is any command.
        self.write("config/sonde/sonde.yaml", "profiler:\n  collector: procfs\n")
        before = time.time()
        result = self.run_job("sh", "-c", "true; sleep 0.05")
        summary = result.summary
        for name, kind in SUMMARY_FIELDS.items():
            self.assertIn(name, summary)
            self.assertIsInstance(summary[name], kind, name)
            self.assertNotIsInstance(summary[name], bool, name)
        for name in EXACTNESS_FIELDS:
            self.assertIn(summary["exactness"].get(name), ("exact", "sampled", "lower_bound"), name)
        self.assertRegex(summary["run_id"], UUID_V7)
        self.assertRegex(summary["job_id"], r"^sh-[0-9a-f]{4}$")
        self.assertTrue(before - 1 <= summary["started_at"] <= time.time() + 1)
        self.assertGreaterEqual(summary["wall_seconds"], 0.05)
        self.assertEqual(summary["left_running"], [])
        self.assertEqual(summary["anomalies"], [])
        self.assertEqual(summary["collector"], "procfs")
        self.assertGreaterEqual(summary["num_samples"], 1)
        self.assertAlmostEqual(summary["cpu_seconds"],
                               summary["user_seconds"] + summary["system_seconds"], places=5)
        self.assertGreaterEqual(summary["peak_total_mb"], summary["peak_rss_mb"])

    def test_is_one_line_of_json_with_mode_0600(self):
        path = self.path("summary")
        for umask in (0o000, 0o022, 0o077):
            with self.subTest(umask=oct(umask)):
                result = self.run_sonde("run", "--summary", path, "--", "true", umask=umask)
                self.assertEqual(result.status, 0, result)
                self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
                text = self.read("summary").decode()
                self.assertEqual(text.count("\n"), 1)
                self.assertTrue(text.endswith("}\n"))
                os.unlink(path)

    def test_replaces_an_older_and_longer_one(self):
        self.write("summary", "x" * 100000)
        result = self.run_sonde("run", f"--summary={self.path('summary')}", "--", "true")
        self.assertEqual(result.status, 0, result)
        self.assertEqual(harness.strict_json(self.read("summary").decode())["outcome"], "success")

    def test_given_names_are_kept(self):
        result = self.run_job("true", options=("--job", "build ü", "--type", "the type",
                                               "--sheet", "12"))
        self.assertEqual(result.summary["job_id"], "build ü")
        self.assertEqual(result.summary["job_type"], "the type")
        self.assertEqual(result.summary["sheet_num"], 12)

    def test_job_type_is_read_from_the_command(self):
        os.mkdir(self.path("parser"))
        result = self.run_job("sh", "-e", "-c", "true", cwd=self.path("parser"))
        self.assertEqual(result.summary["job_type"], "sh true @parser")

    def test_hostile_characters_in_names(self):
        """Names that sonde makes of the command are clean on the terminal and valid in JSON."""
        program = os.path.join(os.fsencode(self.directory), b"e\x1b[2J\xff\n~v\xe2\x80\xae")
        os.symlink("/bin/true", program)
        result = self.run_job(program, b"\x1b]0;title\x07\xc3")
        self.assertNotRegex(result.stderr, r"[\x00-\x09\x0b-\x1f\x7f\u202e]")
        self.assertNotRegex(result.summary["job_id"], r"[\x00-\x1f\x7f~]")

    def test_link_planted_by_another_is_refused(self):
        """In a directory that others can write, a link is not followed and its target untouched."""
        target = self.write("precious", "untouched")
        os.symlink(target, os.path.join(self.open_directory(), "summary"))
        marker = self.path("marker")
        result = self.run_sonde("run", "--summary", self.path("open/summary"), "--", "touch",
                                marker)
        self.assertEqual(result.status, 125, result)
        self.assertIn("open/summary", result.stderr)
        self.assertFalse(os.path.exists(marker))
        self.assertEqual(self.read("precious"), b"untouched")

    def test_linked_directory_planted_by_another_is_refused(self):
        os.mkdir(self.path("elsewhere"))
        os.symlink(self.path("elsewhere"), os.path.join(self.open_directory(), "below"))
        result = self.run_sonde("run", "--summary", self.path("open/below/summary"), "--", "true")
        self.assertEqual(result.status, 125, result)
        self.assertEqual(os.listdir(self.path("elsewhere")), [])

    def test_own_link_in_an_own_directory_is_followed(self):
        os.symlink(self.path("target"), self.path("link"))
        result = self.run_sonde("run", "--summary", self.path("link"), "--", "true")
        self.assertEqual(result.status, 0, result)
        self.assertEqual(harness.strict_json(self.read("target").decode())["outcome"], "success")

    def test_summary_to_stdout_follows_the_commands_output(self):
        """/dev/stdout is the open file itself: output of the command is neither truncated nor
        overwritten, whether stdout is a file or a pipe."""
        for path in ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
            for redirection in (">", ">>", "| cat >"):
                with self.subTest(path=path, redirection=redirection):
                    target = self.write("out", "before\n" if redirection == ">>" else "")
                    script = f'"$0" run -q --summary {path} -- echo hello {redirection} {target}'
                    result = self.run_program("sh", "-c", script, harness.SONDE)
                    self.assertEqual(result.status, 0, result)
                    lines = self.read("out").decode().splitlines()
                    if redirection == ">>":
                        self.assertEqual(lines.pop(0), "before")
                    self.assertEqual(lines[0], "hello")
                    self.assertEqual(harness.strict_json(lines[1])["outcome"], "success")

    def test_summary_to_stderr(self):
        result = self.run_sonde("run", "-q", "--summary", "/dev/stderr", "--", "sh", "-c",
                                "echo words >&2")
        lines = result.stderr.splitlines()
        self.assertEqual(lines[0], "words", result)
        self.assertEqual(harness.strict_json(lines[1])["outcome"], "success")

    def test_summary_to_a_descriptor_that_is_not_open(self):
        result = self.run_sonde("run", "--summary", "/dev/fd/77", "--", "touch",
                                self.path("marker"))
        self.assertEqual(result.status, 125, result)
        self.assertFalse(os.path.exists(self.path("marker")))

    def test_summary_to_a_full_device(self):
        """The error appears only at the write: it is reported, and the status stays the command's."""
        result = self.run_sonde("run", "--summary", "/dev/full", "--", "sh", "-c", "exit 4")
        self.assertEqual(result.status, 4, result)
        self.assertIn("cannot write the summary to '/dev/full': No space left on device",
                      result.stderr)

    def test_summary_to_a_full_standard_output(self):
        with open("/dev/full", "wb") as full:
            result = self.run_sonde("run", "-q", "-s", "-", "--", "true", stdout=full)
        self.assertIn("cannot write the summary to standard output: ", result.stderr)

    def test_summary_into_a_process(self):
        result = self.run_program("bash", "-c", '"$0" run -q --summary >(cat) -- true; wait',
                                  harness.SONDE)
        self.assertEqual(json.loads(result.stdout)["outcome"], "success", result)


if __name__ == "__main__":
    harness.main()
