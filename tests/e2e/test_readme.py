#!/usr/bin/env python3
"""Every command that README.md shows is run, in its order, in a directory like that of its reader.
The shown output must be real: its labels, its lines without figures, and explanations in
parentheses must be in the output of the command."""
import os
import pathlib
import re
import shlex
import time

import harness

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Commands that change the machine, by their first words, with the reason. They are not run.
NOT_RUN = {
    "make": "builds and tests sonde itself; the target must exist",
    "sudo make": "installs; the target must exist",
    "sudo cp": "installs the service; the file must exist",
    "sudo systemctl": "changes the services of the machine",
    "sonde status": "needs the service that was not started; test_daemon_service runs it",
    "sonde top": "needs a terminal; test_top runs it",
}
# Exit statuses other than 0 that the text around the command announces.
EXPECTED_STATUS = {"timeout 2 ": 124}

TRAIN = "import time\n\ndata = bytearray(50 << 20)\nif {slow}:\n    time.sleep(1000)\n"


def commands():
    """Each command of the console blocks with the output that is shown below it."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def reason_not_to_run(command):
    return next((reason for start, reason in NOT_RUN.items()
                 if re.match(re.escape(start) + r"\b", command)), None)


def labels(lines):
    """The words at the beginning of lines such as "  memory     308.1 MB peak"."""
    return {match[1] for match in (re.match(r"  ([A-Za-z/]+) ", line) for line in lines) if match}


def plain(text):
    return " ".join(text.split())


def fixed_texts(lines):
    """The parts of shown output that do not depend on the run: lines and explanations in parentheses
    that contain no figure."""
    for line in lines:
        if not re.search(r"\d|…", line):
            yield plain(line)
        yield from re.findall(r"\([a-z]+(?: [a-z]+){2,}\)", line)


def at_three_o_clock():
    """A time zone in which it is a few minutes past three."""
    minutes = (time.gmtime().tm_hour * 60 + time.gmtime().tm_min - 185) % 1440
    return f"README{minutes // 60}:{minutes % 60:02}"


class Readme(harness.TestCase):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("bin"))
        os.symlink(harness.SONDE, self.path("bin/sonde"))
        # As root, which has no password to enter; a container may have no sudo.
        self.write("bin/sudo", '#!/bin/sh\nexec "$@"\n', 0o755)
        self.environment["PATH"] = f"{self.path('bin')}:{self.environment['PATH']}"
        self.environment["TZ"] = at_three_o_clock()
        self.write("build.ninja", "rule touch\n  command = touch $out\nbuild app: touch\n")

    def run_command(self, command):
        # The first run of train.py is still running when `timeout` ends it.
        self.write("train.py", TRAIN.format(slow=command.startswith("timeout")))
        result = self.run_program("sh", "-c", command, cwd=self.directory)
        expected = next((status for start, status in EXPECTED_STATUS.items()
                         if command.startswith(start)), 0)
        self.assertEqual(result.status, expected, f"{command}: {result!r}")
        return result.stdout.decode() + result.stderr

    @harness.needs_program("ninja")
    def test_commands(self):
        """All but those with sudo where this user may not make namespaces, as in many containers."""
        unshare = self.run_program("unshare", "--fork", "--pid", "--mount-proc", "true")
        count = 0
        for command, shown in commands():
            if reason_not_to_run(command) or \
                    (command.startswith("sudo ") and unshare.status != 0):
                continue
            count += 1
            output = self.run_command(command)
            missing = labels(shown) - labels(output.splitlines())
            self.assertFalse(missing, f"{command} shows {missing}, which is not in: {output}")
            for text in fixed_texts(shown):
                self.assertIn(text, plain(output), command)
        self.assertGreater(count, 10)

    def test_commands_that_are_not_run(self):
        makefile = (ROOT / "Makefile").read_text("utf-8")
        for command, _ in commands():
            if not reason_not_to_run(command):
                continue
            arguments = shlex.split(command, comments=True)
            if "make" in arguments:
                start = arguments.index("make") + 1
                targets = [word for word in arguments[start:] if "=" not in word]
                for target in targets or ["all"]:
                    self.assertRegex(makefile, rf"(?m)^{target}:")
            if "cp" in arguments:
                self.assertTrue((ROOT / arguments[arguments.index("cp") + 1]).exists(), command)
            if arguments[0] == "sonde":
                result = self.run_sonde(arguments[1], "--help")
                self.assertEqual(result.status, 0, result)
                for word in arguments[2:]:
                    if word.startswith("-"):
                        self.assertIn(word, result.stdout.decode())

    def test_links(self):
        text = (ROOT / "README.md").read_text("utf-8")
        targets = re.findall(r"\]\(([^)#]+)\)", text)
        self.assertGreater(len(targets), 10)
        for target in targets:
            self.assertTrue((ROOT / target).exists(), target)


if __name__ == "__main__":
    harness.main()
