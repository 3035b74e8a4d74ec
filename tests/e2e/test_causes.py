#!/usr/bin/env python3
"""Causes of failures: real shells and real programs that start others, each with the sentence that
sonde must print. No process is blamed unless it is proven that it led to the end.

In the sentences # is a pid. A scenario whose programs are not installed is skipped."""
import os
import re
import shutil
import subprocess
import unittest

import daemon
import harness

ON_THE_WAY = "; failed on the way: "

MAKEFILE = """
all: first second third
first:
\tsh -c "exit 3"; exit $$?
second:
\ttrue
third:
\tsh -c "sleep 0.1; exit 4"; exit $$?
one:
\t./crash
ignored:
\t-ls /nope
\t./five
sub:
\t$(MAKE) first second third
answer:
\tgrep zzz lines
"""

NINJA = """
rule run
  command = $text
build first: run
  text = sh -c "exit 3"; exit $$?
build second: run
  text = sh -c "sleep 0.1; exit 4"; exit $$?
"""

CMAKE = """
cmake_minimum_required(VERSION 3.10)
project(broken NONE)
add_custom_target(broken ALL COMMAND ${CMAKE_SOURCE_DIR}/five)
"""

FILES = {
    "lines": "1\n0\n3\n",
    "severe": "255\n0\n",
    "signals": "0\nTERM\n",
    "Makefile": MAKEFILE,
    "probe.mk": "FOUND := $(shell grep zzz lines)\nall: nosuch\n",
    "build.ninja": NINJA,
    "CMakeLists.txt": CMAKE,
    "answer.sh": "grep zzz lines\nexit 1\n",
    "last.sh": "true\n./five\n",
    "status.sh": "./five\ns=$?\n/bin/true\nexit $s\n",
    "missing.sh": "sh -c 'exit 127' || /bin/true\nexit 127\n",
    "or.sh": "./five || exit 1\n",
    "crash.sh": "./crash || exit 1\n",
    "set-e.sh": "set -e\n/bin/true\ncp /nope x\n/bin/true\n",
    "pipefail.sh": "set -o pipefail\n./five | sleep 0.1\n",
    # The first fails when the second has started and before it ends.
    "no-pipefail.sh": "mkfifo gate\nsh -c 'read x <gate; exit 5' | sh -c 'echo >gate; cat'\nexit 1\n",
    "loop.sh": "for i in 1 2 3; do cp /nope x; done\n/bin/true\nexit 4\n",
    "retry.sh": "./five\n./five\n/bin/true\nexit 3\n",
    "same.sh": "ls /nope\n/bin/true\nexit 2\n",
    "trap.sh": "trap './five' EXIT\n/bin/true\nexit 6\n",
    "subshell.sh": "(exit 7)\nexit $?\n",
    "wait.sh": "./five & wait $!\nexit $?\n",
    "ended.sh": "sleep 300 & kill $!; wait $!\nexit 1\n",
    "check.py": "import subprocess\nsubprocess.run(['./five'], check=True)\n",
    "returncode.py": "import subprocess, sys\nsys.exit(subprocess.run(['./five']).returncode)\n",
    "one.py": "import subprocess, sys\nsubprocess.run(['cp', '/nope', 'x'])\nsys.exit(1)\n",
    "handled.py": "import subprocess, sys\nsubprocess.run(['./five'])\n"
                  "subprocess.run(['true'])\nsys.exit(1)\n",
    "test_example.py": "import subprocess\n"
                       "def test_child(): assert subprocess.call(['./five']) == 5\n"
                       "def test_wrong(): assert 0\n",
    "unit.py": "import subprocess, unittest\n"
               "class Test(unittest.TestCase):\n"
               "    def test_child(self): self.assertEqual(subprocess.call(['./five']), 0)\n",
    "bad.c": "int x y;\n",
    "unlinked.c": "int missing(void);\nint main(void) { return missing(); }\n",
    "package.json": '{"scripts": {"build": "./five"}}\n',
}
# Scripts. Their processes are called sh, or by the name of the script if their command lines could
# not be read.
SCRIPTS = {
    "five": "#!/bin/sh\nexit 5\n",
    "crash": "#!/bin/sh\nkill -SEGV $$\n",
}
FIVE = "five (#) exited 5"
CRASH = "crash (#) killed by SIGSEGV, sent by itself"

# name: (command, a text for sh -c or a list; status; cause)
SHELLS = {
    "handled and then another status": ("grep zzz lines; sleep 0.1; exit 4", 4, "exit status 4"),
    "answer and then another status": ("grep zzz lines; exit 4", 4, "exit status 4"),
    "failure and then another status":
        ("ls /nope; exit 5", 5, "exit status 5; failed on the way: ls (#) exited 2"),
    "failure and then the same status":
        ("ls /nope; exit 2", 2, "exit status 2; failed on the way: ls (#) exited 2"),
    "answer and then the same status":
        ("exec sh answer.sh", 1, "exit status 1; failed on the way: grep (#) exited 1"),
    "last command of a text":
        ("/bin/true; ls /nope; exit", 2, "exit status 2: ls (#) exited 2 → sh exited 2"),
    "last command of a script": ("exec sh last.sh", 5, f"exit status 5: {FIVE} → sh exited 5"),
    "passed on after others":
        ("exec sh status.sh", 5, f"exit status 5: {FIVE} → sh exited 5"),
    "|| exit in a text": ("./five || exit 1", 1, f"exit status 1: {FIVE} → sh exited 1"),
    "|| exit in a script":
        ("exec sh or.sh", 1, f"exit status 1; failed on the way: {FIVE}"),
    "name as an argument": ("cp /nope cp || true; [ -d cp ] || exit 3", 3,
                            "exit status 3; failed on the way: cp (#) exited 1"),
    "substitution": ("echo $(ls /nope); exit 3", 3,
                     "exit status 3; failed on the way: ls (#) exited 2"),
    "one of several with 127":
        ("exec sh missing.sh", 127, "exit status 127; failed on the way: sh (#) exited 127"),
    "&& of two": ("/bin/true && ./five; exit $?", 5, f"exit status 5: {FIVE} → sh exited 5"),
    "set -e": ("exec sh set-e.sh", 1, "exit status 1: cp (#) exited 1 → sh exited 1"),
    "loop of failures": ("exec sh loop.sh", 4, "exit status 4"),
    "failures that were handled": ("exec sh retry.sh", 3, "exit status 3"),
    "failure in a trap":
        ("exec sh trap.sh", 6, f"exit status 6; failed on the way: {FIVE}"),
    "wait for a background process":
        ("exec sh wait.sh", 5, f"exit status 5: {FIVE} → sh exited 5"),
    "child that the shell ended": ("exec sh ended.sh", 1, "exit status 1"),
    "handled and then the same status":
        ("exec sh same.sh", 2, "exit status 2; failed on the way: ls (#) exited 2"),
    "exec after a failure": ("./five; exec sh -c 'exit 3'", 3, "exit status 3"),
    "exec after the same failure": ("./five; exec sh -c 'exit 5'", 5, "exit status 5"),
    "only builtins": ("false; exit 7", 7, "exit status 7"),
    "success": ("./five; exit 0", 0, None),
    "command not found": ("/bin/true; nosuch; exit $?", 127, "exit status 127"),
}
BASH = {
    "pipefail": (["bash", "pipefail.sh"], 5, f"exit status 5: {FIVE} → bash exited 5"),
    "pipe without pipefail":
        (["bash", "no-pipefail.sh"], 1, f"exit status 1; failed on the way: {FIVE}"),
    "exec of the last command": (["bash", "-c", "./five; ls /nope"], 2, "exit status 2"),
    "subshell": (["bash", "subshell.sh"], 7, "exit status 7: bash (#) exited 7 → bash exited 7"),
    "-e": (["bash", "-e", "last.sh"], 5, f"exit status 5: {FIVE} → bash exited 5"),
    "-c and a list": (["bash", "-c", "./five; exit $?"], 5, f"exit status 5: {FIVE} → bash exited 5"),
    "-c and another status":
        (["bash", "-c", "./five; exit 9"], 9, f"exit status 9; failed on the way: {FIVE}"),
}
MAKE = {
    "make": (["make"], 2, "exit status 2: sh (#) exited 3 → sh exited 3 → make exited 2"),
    "make -k": (["make", "-k"], 2, "exit status 2: sh (#) exited 3 → sh exited 3 → make exited 2"),
    "make -k -j3":
        (["make", "-k", "-j3"], 2, "exit status 2: sh (#) exited 3 → sh exited 3 → make exited 2"),
    "make -k of a make": (["make", "-k", "sub"], 2, "exit status 2: sh (#) exited 3 → sh exited 3 →"
                                                    " make exited 2 → make exited 2"),
    "crash": (["make", "one"], 2, f"exit status 2: {CRASH} → make exited 2"),
    "ignored failure": (["make", "ignored"], 2, f"exit status 2: {FIVE} → make exited 2"),
    # The events of the two are the same.
    "answer": (["make", "answer"], 2, "exit status 2; failed on the way: grep (#) exited 1"),
    "probe": (["make", "-f", "probe.mk"], 2, "exit status 2; failed on the way: grep (#) exited 1"),
    "no rule": (["make", "nosuch"], 2, "exit status 2"),
    "below a shell": ("make; exit $?", 2, "exit status 2: sh (#) exited 3 → sh exited 3 →"
                                          " make exited 2 → sh exited 2"),
    "ninja": (["ninja", "-j1"], 1, "exit status 1: sh (#) exited 3 → sh exited 3 → ninja exited 1"),
    "ninja -k":
        (["ninja", "-k", "0"], 1, "exit status 1: sh (#) exited 3 → sh exited 3 → ninja exited 1"),
    "cmake --build": (["sh", "-c", "cmake -S . -B built >&2 && exec cmake --build built"], 2,
                      f"exit status 2: {FIVE} → gmake exited 2 → gmake exited 2 → gmake exited 2 →"
                      " cmake exited 2"),
}
XARGS = {
    "xargs": (["xargs", "-a", "lines", "-n1", "sh", "-c", "exit $0"], 123,
              "exit status 123: sh (#) exited 1 → xargs exited 123"),
    "xargs -P":
        (["xargs", "-a", "lines", "-P4", "-n1", "sh", "-c", "sleep 0.$0; exit $0"], 123,
         "exit status 123: sh (#) exited 1 → xargs exited 123"),
    "xargs and 255": (["xargs", "-a", "severe", "-n1", "sh", "-c", "exit $0"], 124,
                      "exit status 124: sh (#) exited 255 → xargs exited 124"),
    "xargs and a signal":
        (["xargs", "-a", "signals", "-n1", "sh", "-c", "kill -$0 $$"], 125,
         "exit status 125: sh (#) killed by SIGTERM, sent by itself → xargs exited 125"),
    "xargs without its command": (["xargs", "-a", "lines", "./nosuch"], 127,
                                  "exit status 127: xargs (#) exited 127 → xargs exited 127"),
    "xargs in a pipe": ("cat lines | xargs -n1 sh -c 'exit $0'; exit $?", 123,
                        "exit status 123: sh (#) exited 1 → xargs exited 123 → sh exited 123"),
    "xargs of grep": (["xargs", "-a", "lines", "grep", "zzz", "lines"], 123,
                      "exit status 123: grep (#) exited 2 → xargs exited 123"),
    "parallel": (["parallel", "-a", "lines", "-j1", "exit {}"], 2,
                 "exit status 2: SHELL (#) exited 1 → perl exited 2"),
    "parallel and a signal":
        (["parallel", "-a", "signals", "kill -{} $$"], 1,
         "exit status 1: SHELL (#) killed by SIGTERM, sent by itself → perl exited 1"),
    "parallel --halt": (["parallel", "-j1", "--halt", "now,fail=1", "-a", "severe", "./five; exit 6 #"],
                        6, "exit status 6: SHELL (#) exited 6 → perl exited 6" + ON_THE_WAY + FIVE),
    "parallel with a wrong option": (["parallel", "--nosuch"], 255, "exit status 255"),
}
PYTHON = {
    "check=True in a text": (["python3", "-c", "import subprocess\n"
                                               "subprocess.run(['./five'], check=True)"], 1,
                             f"exit status 1: {FIVE} → python3 exited 1"),
    "check=True in a file":
        (["python3", "check.py"], 1, f"exit status 1; failed on the way: {FIVE}"),
    "the status of most failures":
        (["python3", "one.py"], 1, "exit status 1; failed on the way: cp (#) exited 1"),
    "no check": (["python3", "-c", "import subprocess, sys\n"
                                   "subprocess.run(['./five'])\nsys.exit(1)"], 1,
                 f"exit status 1; failed on the way: {FIVE}"),
    "the status of the child":
        (["python3", "returncode.py"], 5, f"exit status 5: {FIVE} → python3 exited 5"),
    "handled": (["python3", "handled.py"], 1, "exit status 1"),
    "check=False": (["python3", "-c", "import subprocess\n"
                                      "subprocess.run(['./five'], check=False)\n1/0"], 1,
                    f"exit status 1; failed on the way: {FIVE}"),
    "crash that was expected":
        (["python3", "-c", "import subprocess\nsubprocess.run(['./crash'])\n1/0"], 1,
         f"exit status 1; failed on the way: {CRASH}"),
    "pytest": (["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider",
                "test_example.py"], 1, "exit status 1 (tests failed)"),
    "pytest below a shell": ("/usr/bin/python3 -m pytest -q nosuch.py; exit $?", 4,
                             "exit status 4: python3 (#) exited 4 (wrong usage) → sh exited 4"),
    "unittest": (["python3", "-m", "unittest", "unit"], 1,
                 "exit status 1 (tests failed)"),
}
WRAPPERS = {
    "env": ("env ./five; exit $?", 5, f"exit status 5: {FIVE} → sh exited 5"),
    "nice": ("nice ./five; exit $?", 5, f"exit status 5: {FIVE} → sh exited 5"),
    "nohup": ("nohup ./five; exit $?", 5, f"exit status 5: {FIVE} → sh exited 5"),
    "setpriv": (["setpriv", "--nnp", "./five"], 5, "exit status 5"),
    "flock": (["flock", "lock", "./five"], 5, f"exit status 5: {FIVE} → flock exited 5"),
    "flock of grep": (["flock", "lock", "grep", "zzz", "lines"], 1,
                      "exit status 1: grep (#) exited 1 → flock exited 1"),
    "time": (["/usr/bin/time", "./five"], 5, f"exit status 5: {FIVE} → time exited 5"),
    "strace": (["strace", "-f", "-o", "trace", "./five"], 5, None),
    "timeout": (["timeout", "1", "sleep", "300"], 124,
                "exit status 124: sleep (#) killed by SIGTERM, sent by pid # (timeout 1 sleep 300)"
                " → timeout exited 124"),
    "timeout, but ended": (["timeout", "60", "./five"], 5, f"exit status 5: {FIVE} → timeout exited 5"),
    "npm": (["npm", "run", "--silent", "build"], 5,
            f"exit status 5: {FIVE} → sh exited 5 → npm exited 5"),
    "ssh": ("ssh -o BatchMode=yes -p 1 127.0.0.1; exit $?", 255,
            "exit status 255: ssh (#) exited 255 (ssh failed, or the remote command exited 255)"
            " → sh exited 255"),
    "run-parts": (["run-parts", "parts"], 1, f"exit status 1: {FIVE} → run-parts exited 1"),
}
SIGNALS = {
    "128 + n": ("./crash; exit $?", 139, f"exit status 139: {CRASH} → sh exited 139"),
    "|| exit 1": ("exec sh crash.sh", 1, f"exit status 1: {CRASH} → sh exited 1"),
    "and another status": ("./crash; exit 4", 4, f"exit status 4; failed on the way: {CRASH}"),
    "killed by the script": ("kill -9 $$", 137, "killed by SIGKILL, sent by itself"),
    "fault below a shell":
        ("python3 -c 'import ctypes; ctypes.string_at(0)'; exit $?", 139,
         "exit status 139: python3 (#) killed by SIGSEGV, a fault of its own → sh exited 139"),
    "abort below python": (["python3", "-c", "import subprocess\n"
                            "subprocess.run(['sh', '-c', 'kill -ABRT $$'], check=True)"], 1,
                           "exit status 1: sh (#) killed by SIGABRT, sent by itself"
                           " → python3 exited 1"),
    "hard CPU limit": ("ulimit -t 1; python3 -c 'while 1: pass'; exit $?", 137,
                       "exit status 137: python3 (#) killed by SIGKILL, CPU limit of 1 s, sent by the"
                       " kernel → sh exited 137"),
    "soft CPU limit": (["bash", "-c", "ulimit -S -t 1; python3 -c 'while 1: pass'; exit $?"], 152,
                       "exit status 152: python3 (#) killed by SIGXCPU, CPU limit of 1 s, sent by the"
                       " kernel → bash exited 152"),
    "CPU limit that is not reached":
        ("ulimit -t 1000; sh -c 'kill -9 $$'; exit $?", 137,
         "exit status 137: sh (#) killed by SIGKILL, sent by itself → sh exited 137"),
    "memory limit": ("ulimit -v 400000; python3 -c 'bytearray(900 << 20)'; exit $?", 1,
                     "exit status 1: python3 (#) exited 1 → sh exited 1"),
}
COMPILERS = {
    "compiler": (["cc", "-c", "bad.c"], 1, "exit status 1: cc1 (#) exited 1 → cc exited 1"),
    "linker": (["cc", "unlinked.c"], 1,
               "exit status 1: ld (#) exited 1 → collect2 exited 1 → cc exited 1"),
    "compiler below make": (["make", "bad.o"], 2,
                            "exit status 2: cc1 (#) exited 1 → cc exited 1 → make exited 2"),
    "compiler and a cleanup": ("cc -c bad.c; rm -f x; exit 1", 1, "exit status 1"),
}
TABLES = {"shells": SHELLS, "bash": BASH, "make": MAKE, "xargs": XARGS, "python": PYTHON,
          "wrappers": WRAPPERS, "signals": SIGNALS, "compilers": COMPILERS}
# Of an ordinary user's short processes only the pid is known: scenarios in which that is enough.
OF_A_USER = {
    "shells": ["handled and then another status", "answer and then another status",
               "last command of a script", "passed on after others", "loop of failures",
               "failures that were handled", "exec after a failure", "exec after the same failure",
               "only builtins", "success"],
    "bash": ["pipefail", "exec of the last command", "subshell", "-e"],
    "make": ["make", "crash", "no rule"],
    "xargs": ["xargs", "xargs and 255", "xargs and a signal"],
    "python": ["the status of the child", "handled", "unittest"],
    "wrappers": ["flock", "timeout", "timeout, but ended", "setpriv"],
    "signals": ["128 + n", "killed by the script", "hard CPU limit"],
}


def is_installed(command):
    """Whether the programs that a command needs are."""
    parts = command.split() if isinstance(command, str) else command
    programs = {part.strip(";") for part in parts} & {
        "bash", "cc", "cmake", "flock", "/usr/bin/time", "make", "ninja", "npm", "parallel",
        "run-parts", "setpriv", "ssh", "strace", "xargs"}
    if "pytest" in parts and subprocess.run([parts[0], "-c", "import pytest"], check=False,
                                            stderr=subprocess.DEVNULL).returncode != 0:
        return False
    return all(shutil.which(program) for program in programs)


def pattern_of(sentence, are_named):
    """A sentence as a regular expression. Without names, there may be only pids."""
    text = re.escape(sentence).replace("SHELL", "(?:bash|sh)")  # of parallel
    text = re.sub("(five|crash)", r"(?:\1|sh)", text)
    text = re.sub(r"\\\(timeout\\ .*?\\\)($|\\ →)", r"\\(timeout.*\\)\1", text)
    if not are_named:
        text = re.sub(r"(?:[\w./-]+|\(\?:[\w|]+\))\\ \\\(\\#\\\)",
                      r"(?:[\\w.-]+\\ \\(\\d+\\)|pid\\ \\d+)", text)
        text = re.sub(r"→\\ ([\w.-]+)", r"→\\ (?:\1|sh|pid\\ \\d+)", text)
        text = re.sub(r",\\ CPU\\ limit\\ of\\ 1\\ s", "", text)
        text = text.replace(r",\ a\ fault\ of\ its\ own", r"(?:,\ a\ fault\ of\ its\ own)?")
        text = re.sub(r",\\ sent\\ by\\ [^→]*?(\\ →|$)", r"[^→]*\1", text)
    return text.replace(r"\#", r"\d+") + "$"


def names_in(cause):
    """The programs that a cause blames."""
    return set(re.findall(r"(?:: |→ )([\w.-]+) (?:\(\d+\) )?(?:exited|killed)", cause))


class Causes(harness.TestCase):
    prefix = ()
    options = ("--exact",)
    may_lose_events = False

    def setUp(self):
        super().setUp()
        self.place = self.open_directory()
        for name, text in {**FILES, **SCRIPTS}.items():
            path = os.path.join(self.place, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, 0o755 if name in SCRIPTS else 0o644)
        os.mkdir(os.path.join(self.place, "parts"))
        for name in ("five", "true"):
            shutil.copy(os.path.join(self.place, "five") if name == "five" else "/bin/true",
                        os.path.join(self.place, "parts", name))

    def check(self, command, status, cause):
        arguments = ["sh", "-c", command] if isinstance(command, str) else command
        result = self.run_sonde("run", *self.options, "--", *arguments,
                                cwd=self.place, prefix=self.prefix)
        self.assertEqual(result.status, status, result)
        if status == 0:
            self.assertIsNone(result.summary["cause"])
            return
        found = result.summary["cause"]
        if cause is None:
            return
        if self.may_lose_events and result.summary["exactness"]["processes"] != "exact":
            self.assertRegex(found, "^(exit status|killed by)")
            self.assertEqual(names_in(found) - set(re.findall(r"[\w.-]+", cause)) - {"sh"}, set(), found)
            return
        self.assertEqual(result.summary["exactness"]["processes"], "exact")
        # without --exact, a signal may come before the kernel collector, which knows where it is from
        self.assertRegex(found, "^" + pattern_of(cause, "--exact" in self.options), result)
        chain = cause.split(ON_THE_WAY, maxsplit=1)[0].count(" → ")
        self.assertEqual(len(result.summary["chain"]), chain + 1, found)

    def check_table(self, name, selected=None):
        for title, scenario in TABLES[name].items():
            if selected is not None and title not in selected:
                continue
            if is_installed(scenario[0]):
                with self.subTest(title):
                    self.check(*scenario)


@harness.needs_root()
@harness.needs_kernel_collector()
class CausesOfRoot(Causes):
    pass


@harness.needs_connector(harness.unprivileged())
class CausesOfUser(Causes):
    prefix = harness.unprivileged()
    options = ()
    may_lose_events = True  # the queue of the connector is short for a user

    def test_inherited_cpu_limit(self):
        result = self.run_sonde("run", "--no-store", "--", "python3", "-c", "while 1: pass",
                                prefix=("sh", "-c", 'ulimit -t 1; exec "$@"', "sh", *self.prefix))
        self.assertRegex(result.summary["cause"], "^killed by SIGKILL, (perhaps its )?CPU limit of 1 s")


@harness.needs_root()
@harness.needs_connector()
class CausesUnderDaemon(Causes):
    """The daemon finds the same, from its own events, and stores it."""
    options = ()

    def setUp(self):
        super().setUp()
        self.daemon = daemon.Daemon(self, interval=0.1).start()
        self.addCleanup(self.daemon.end)

    def check(self, command, status, cause):
        super().check(command, status, cause)
        stored = self.run_json("jobs", "--limit", "1")[0]
        if status:
            self.assertRegex(stored["cause"], "^" + pattern_of(cause, False))


for table in TABLES:
    setattr(CausesOfRoot, f"test_{table}", lambda self, table=table: self.check_table(table))
for table in ("shells", "xargs", "signals"):
    setattr(CausesUnderDaemon, f"test_{table}", lambda self, table=table: self.check_table(table))
for table, titles in OF_A_USER.items():
    setattr(CausesOfUser, f"test_{table}",
            lambda self, table=table, titles=titles: self.check_table(table, titles))

if __name__ == "__main__":
    harness.main()
