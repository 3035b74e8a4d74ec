#!/usr/bin/env python3
"""A small conductor: runs shell commands one after the other as the steps of one sonde job.

    conductor.py 'make' 'make test' 'make install DESTDIR=out'
    conductor.py --job nightly --file steps.json
    conductor.py --file steps.txt

Each command is a sheet of the job. A file has one command a line (`#` begins a comment); one that
ends in .json has a list of commands, or of objects {"name": ..., "command": ...}. There a command is
a text for the shell, or a list: a program and its words, as they are.

What it shows of docs/RPC.md:

  * it asks whether the machine has room for a job, and waits until it has;
  * it tells of the job, then of each step with its process, its exit status and how far it is;
  * before each step it asks whether the step may start, and waits as long as it is told to;
  * it prints what each step used at its end, and the headline of the job's report.

Nothing depends on the daemon: without one, or when it goes away, the commands run all the same, and
that is said once. The exit status is that of the first step that failed, else 0.

Only the standard library of Python 3.9 or later is needed.
"""
import argparse
import json
import os
import pathlib
import shlex
import signal
import socket
import subprocess
import sys
import time

SYSTEM_SOCKET = "/run/sonde/sonde.sock"
ANSWER_SECONDS = 10  # a daemon that is silent for longer is taken for gone
ASK_AGAIN_SECONDS = 5  # where a refusal does not say when


def say(text):
    print(f"conductor: {text}", file=sys.stderr, flush=True)


# ---- the daemon ----

def state_dir():
    """Where sonde keeps its files, as sonde itself finds it."""
    named = os.environ.get("SONDE_STATE_DIR") or os.environ.get("STATE_DIRECTORY")
    if named:
        return pathlib.Path(named)
    if os.geteuid() == 0:
        return pathlib.Path("/var/lib/sonde")
    base = os.environ.get("XDG_STATE_HOME")
    return pathlib.Path(base or pathlib.Path.home() / ".local/state") / "sonde"


def socket_paths(option):
    """Where a daemon may listen, in the order in which they are tried."""
    named = option or os.environ.get("SONDE_SOCKET")
    if named:
        return [named]
    if os.environ.get("SONDE_STATE_DIR"):
        return [str(state_dir() / "sonde.sock")]
    if os.geteuid() == 0:
        return [SYSTEM_SOCKET]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    own = pathlib.Path(runtime, "sonde") if runtime else state_dir()
    return [str(own / "sonde.sock"), SYSTEM_SOCKET]


class Refused(Exception):
    """The daemon has answered with an error."""


class Daemon:
    """A connection over which one request follows the other. Once it is lost, it stays so: every
    call then gives None, as if the daemon had nothing to say."""

    def __init__(self, paths):
        self.link = self.lines = None
        self.last_id = 0
        problem = "no socket"
        for path in paths:
            link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            link.settimeout(ANSWER_SECONDS)
            try:
                link.connect(path)
            except OSError as error:
                link.close()
                problem = f"{path}: {error.strerror or error}"
                continue
            self.link = link
            self.lines = link.makefile("rb")
            return
        say(f"no daemon ({problem}); going on without it")

    def call(self, method, **params):
        """The result, or None without a daemon. Parameters that are None are left out."""
        if not self.link:
            return None
        self.last_id += 1
        request = {"jsonrpc": "2.0", "id": self.last_id, "method": method,
                   "params": {name: value for name, value in params.items() if value is not None}}
        try:
            self.link.sendall(json.dumps(request).encode() + b"\n")
            answer = self.read_answer()
        except (OSError, ValueError) as error:
            self.lose(error)
            return None
        if "error" in answer:
            raise Refused(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def read_answer(self):
        while True:
            line = self.lines.readline()
            if not line:
                raise OSError("it hung up")
            answer = json.loads(line)
            if "method" not in answer and answer.get("id") in (self.last_id, None):
                return answer

    def lose(self, error):
        say(f"the daemon is gone ({error}); going on without it")
        self.link.close()
        self.link = None


# ---- what is to be done ----

def read_command(value):
    """As a text for the shell."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        return shlex.join(value)
    raise ValueError(f"a command is a text, or a list of them, not {json.dumps(value)}")


def read_item(item):
    """A step of a JSON file, as (name, command)."""
    if not isinstance(item, dict):
        return None, read_command(item)
    name = item.get("name")
    if name is not None and not isinstance(name, str):
        raise ValueError(f"a name is a text, not {json.dumps(name)}")
    return name, read_command(item["command"])


def read_sheets(path):
    """The steps of a file, as (name, command)."""
    text = pathlib.Path(path).read_text(encoding="utf-8")
    if not path.endswith(".json"):
        lines = (line.strip() for line in text.splitlines())
        return [(None, line) for line in lines if line and not line.startswith("#")]
    return [read_item(item) for item in json.loads(text)]


def cut(text, max_bytes):
    """What the daemon takes of a text: valid UTF-8, so many bytes of it."""
    return text and text.encode(errors="replace")[:max_bytes].decode(errors="ignore")


def exit_status(returncode):
    """As a shell gives it: 128 + N after signal N."""
    return returncode if returncode >= 0 else 128 - returncode


# ---- a job ----

class Conductor:
    def __init__(self, daemon, options, sheets):
        self.daemon = daemon
        self.job_id = options.job
        self.job_type = options.type or options.job
        self.keeps_going = options.keep_going
        self.sheets = sheets
        self.run_id = None

    def tell(self, method, **params):
        """Of this run, if the daemon knows of it. What it refuses is said, and harms nothing."""
        if not self.run_id:
            return {}
        try:
            return self.daemon.call(method, job_id=self.run_id, **params) or {}
        except Refused as refusal:
            say(refusal)
            return {}

    def wait_for(self, question):
        """Asks until the answer is yes; a yes may come with a delay."""
        while True:
            try:
                answer = self.daemon.call(question, job_type=self.job_type)
            except Refused as refusal:
                say(refusal)
                return
            if not answer:
                return
            delay = answer["delay_seconds"]
            if not answer["allowed"]:
                delay = delay or ASK_AGAIN_SECONDS
            if delay:
                say(f"{answer['reason'] or 'the machine is busy'}; waiting {delay:g} s")
                time.sleep(delay)
            if answer["allowed"]:
                return

    def start(self):
        self.wait_for("pressure.should_accept_job")
        try:
            # With its own pid, because what this process starts belongs to the job from the moment
            # of its fork: no child of a step is too quick to be counted.
            run = self.daemon.call("job.start", job_id=self.job_id, job_type=self.job_type,
                                   unique=True, total_sheets=len(self.sheets), pid=os.getpid(),
                                   command=cut(shlex.join(sys.argv), 500),
                                   cwd=cut(os.getcwd(), 4096))
        except Refused as refusal:
            say(refusal)
            return
        if run:
            self.run_id = run["run_id"]
            say(f"job {run['job_id']}, run {self.run_id}")

    def run_sheet(self, number, name, command):
        """One step; gives its exit status."""
        self.wait_for("pressure.can_start_sheet")
        self.tell("job.progress", current_sheet=number, status=cut(name, 64) or "running")
        say(f"sheet {number} of {len(self.sheets)}: {name or command}")
        # The terminal sends Ctrl-C to the command as well, whose end is waited for all the same.
        interrupts = []
        usual = signal.getsignal(signal.SIGINT)
        if usual != signal.SIG_IGN:
            signal.signal(signal.SIGINT, lambda *_: interrupts.append(True))
        with subprocess.Popen(command, shell=True) as process:
            self.tell("sheet.started", sheet_num=number, name=cut(name, 128), pid=process.pid)
            status = exit_status(process.wait())
        signal.signal(signal.SIGINT, usual)
        self.end_sheet(number, status)
        if interrupts:
            raise KeyboardInterrupt
        return status

    def end_sheet(self, number, status):
        method = "sheet.failed" if status else "sheet.completed"
        context = self.tell(method, sheet_num=number, exit_code=status).get("resource_context", {})
        known = [f", {name} {context[name]}" for name in ("rss_mb", "cpu_pct", "syscall_hotspot")
                 if context.get(name) is not None]
        say(f"sheet {number}: exit status {status}{''.join(known)}")

    def finish(self, status, cause):
        self.tell("job.finish", outcome="failure" if status else "success", exit_code=status,
                  cause=cause)
        if self.run_id:
            self.report()

    def report(self):
        """What the daemon stores, it stores in the background: the end may take a moment."""
        for _ in range(10):
            try:
                report = self.daemon.call("report.job", job=self.run_id)
            except Refused as refusal:
                say(refusal)
                return
            if not report or report["job"]["outcome"] != "running":
                break
            time.sleep(0.2)
        if report:
            say(headline(report["job"]))

    def run(self):
        failed, cause = 0, None
        try:
            self.start()
            for number, (name, command) in enumerate(self.sheets, 1):
                status = self.run_sheet(number, name, command)
                if status and not failed:
                    failed, cause = status, f"sheet {number} failed with status {status}"
                if failed and not self.keeps_going:
                    break
        except KeyboardInterrupt:
            failed, cause = 130, "interrupted"
        self.finish(failed, cause)
        return failed


def headline(job):
    """One line of a job's report; what is not known is left out."""
    profile = job["profile"]
    figures = [("wall", profile["wall_seconds"], "s"), ("CPU", profile["total_cpu_seconds"], "s"),
               ("peak", profile["peak_rss_mb"], "MB"),
               ("processes", profile["process_spawn_count"], "")]
    known = [f"{name} {value:g} {unit}".rstrip() for name, value, unit in figures
             if value is not None]
    why = f" ({job['cause']})" if job["cause"] else ""
    return f"{job['job_id']}: {job['outcome']}{why}: {', '.join(known)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="*", help="a shell command: one step")
    parser.add_argument("--file", help="steps from a file, one a line, or .json")
    parser.add_argument("--job", default="conductor", help="name of the job (%(default)s)")
    parser.add_argument("--type", help="what its runs share (the name of the job)")
    parser.add_argument("--keep-going", action="store_true", help="also after a step that failed")
    parser.add_argument("--socket", help="where the daemon listens")
    options = parser.parse_args()
    try:
        sheets = read_sheets(options.file) if options.file else []
    except (OSError, ValueError, KeyError, TypeError) as error:
        parser.error(f"--file {options.file}: {error}")
    sheets += [(None, command) for command in options.command]
    if not sheets:
        parser.error("no step is given: a command, or --file")
    return Conductor(Daemon(socket_paths(options.socket)), options, sheets).run()


if __name__ == "__main__":
    sys.exit(main())
