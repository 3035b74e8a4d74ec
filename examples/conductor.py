#!/usr/bin/env python3
"""A small scheduler: runs shell commands one after the other as the steps of one sonde job.

    conductor.py 'make' 'make test' 'make install DESTDIR=out'
    conductor.py --job nightly --file steps.json
    conductor.py --file steps.txt

Each command is a step of the job ("sheet" in the protocol). A file has one command per line (`#`
begins a comment). A .json file has a list of commands, or of objects {"name": ..., "command": ...};
there a command is a string for the shell, or a list: a program and its arguments.

It shows how to use docs/RPC.md:

  * ask whether the machine has room for a job, and wait until it has;
  * report the job, then each step with its process, its exit status and the progress;
  * before each step, ask whether the step may start, and wait as long as the daemon requests;
  * print what each step used, and at the end one line of the job's report.

Nothing depends on the daemon: if there is none, or it goes away, the script prints one message and
runs the commands all the same. The exit status is that of the first step that failed, else 0.

It needs only the standard library of Python 3.9 or later.
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
ANSWER_SECONDS = 10  # a daemon that does not answer for longer counts as gone
RETRY_SECONDS = 5  # if the daemon denies the start without a delay


def log(text):
    print(f"conductor: {text}", file=sys.stderr, flush=True)


# ---- the daemon ----

def state_dir():
    """sonde's state directory, by the same rules as in sonde."""
    named = os.environ.get("SONDE_STATE_DIR") or os.environ.get("STATE_DIRECTORY")
    if named:
        return pathlib.Path(named)
    if os.geteuid() == 0:
        return pathlib.Path("/var/lib/sonde")
    base = os.environ.get("XDG_STATE_HOME")
    return pathlib.Path(base or pathlib.Path.home() / ".local/state") / "sonde"


def socket_paths(option):
    """The sockets to try, in this order."""
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
    """The daemon answered with an error."""


class Daemon:
    """A connection for one request at a time. There is no reconnect: once the connection is lost,
    every call returns None."""

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
        log(f"no daemon ({problem}); continuing without it")

    def call(self, method, **params):
        """Returns the result, or None without a daemon. Parameters that are None are not sent."""
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
                raise OSError("connection closed")
            answer = json.loads(line)
            if "method" not in answer and answer.get("id") in (self.last_id, None):
                return answer

    def lose(self, error):
        log(f"lost the daemon ({error}); continuing without it")
        self.link.close()
        self.link = None


# ---- reading the steps ----

def read_command(value):
    """Returns a command as a string for the shell."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        return shlex.join(value)
    raise ValueError(f"a command must be a string or a list of strings, not {json.dumps(value)}")


def read_item(item):
    """Returns a step of a JSON file as (name, command)."""
    if not isinstance(item, dict):
        return None, read_command(item)
    name = item.get("name")
    if name is not None and not isinstance(name, str):
        raise ValueError(f"a name must be a string, not {json.dumps(name)}")
    return name, read_command(item["command"])


def read_sheets(path):
    """Returns the steps of a file as a list of (name, command)."""
    text = pathlib.Path(path).read_text(encoding="utf-8")
    if not path.endswith(".json"):
        lines = (line.strip() for line in text.splitlines())
        return [(None, line) for line in lines if line and not line.startswith("#")]
    return [read_item(item) for item in json.loads(text)]


def cut(text, max_bytes):
    """Cuts a string to valid UTF-8 of at most max_bytes, the limit of the daemon."""
    return text and text.encode(errors="replace")[:max_bytes].decode(errors="ignore")


def exit_status(returncode):
    """The exit status as a shell has it: 128 + N after signal N."""
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

    def send(self, method, **params):
        """Reports about this run, if the daemon knows it. An error is logged and ignored."""
        if not self.run_id:
            return {}
        try:
            return self.daemon.call(method, job_id=self.run_id, **params) or {}
        except Refused as refusal:
            log(refusal)
            return {}

    def wait_for(self, method):
        """Asks until the daemon allows it; it may allow it after a delay."""
        while True:
            try:
                answer = self.daemon.call(method, job_type=self.job_type)
            except Refused as refusal:
                log(refusal)
                return
            if not answer:
                return
            delay = answer["delay_seconds"]
            if not answer["allowed"]:
                delay = delay or RETRY_SECONDS
            if delay:
                log(f"{answer['reason'] or 'the machine is busy'}; waiting {delay:g} s")
                time.sleep(delay)
            if answer["allowed"]:
                return

    def start(self):
        self.wait_for("pressure.should_accept_job")
        try:
            # The pid of this process makes every child a member of the job from its fork on, so
            # that short-lived processes of a step are counted.
            run = self.daemon.call("job.start", job_id=self.job_id, job_type=self.job_type,
                                   unique=True, total_sheets=len(self.sheets), pid=os.getpid(),
                                   command=cut(shlex.join(sys.argv), 500),
                                   cwd=cut(os.getcwd(), 4096))
        except Refused as refusal:
            log(refusal)
            return
        if run:
            self.run_id = run["run_id"]
            log(f"job {run['job_id']}, run {self.run_id}")

    def run_sheet(self, number, name, command):
        """Runs one step and returns its exit status."""
        self.wait_for("pressure.can_start_sheet")
        self.send("job.progress", current_sheet=number, status=cut(name, 64) or "running")
        log(f"step {number} of {len(self.sheets)}: {name or command}")
        # The terminal sends Ctrl-C to the command as well. Wait for its end in any case.
        interrupts = []
        usual = signal.getsignal(signal.SIGINT)
        if usual != signal.SIG_IGN:
            signal.signal(signal.SIGINT, lambda *_: interrupts.append(True))
        with subprocess.Popen(command, shell=True) as process:
            self.send("sheet.started", sheet_num=number, name=cut(name, 128), pid=process.pid)
            status = exit_status(process.wait())
        signal.signal(signal.SIGINT, usual)
        self.end_sheet(number, status)
        if interrupts:
            raise KeyboardInterrupt
        return status

    def end_sheet(self, number, status):
        method = "sheet.failed" if status else "sheet.completed"
        context = self.send(method, sheet_num=number, exit_code=status).get("resource_context", {})
        known = [f", {name} {context[name]}" for name in ("rss_mb", "cpu_pct", "syscall_hotspot")
                 if context.get(name) is not None]
        log(f"step {number}: exit status {status}{''.join(known)}")

    def finish(self, status, cause):
        self.send("job.finish", outcome="failure" if status else "success", exit_code=status,
                  cause=cause)
        if self.run_id:
            self.print_report()

    def print_report(self):
        """The daemon stores data in the background, so the end of the run may not be stored yet."""
        for _ in range(10):
            try:
                report = self.daemon.call("report.job", job=self.run_id)
            except Refused as refusal:
                log(refusal)
                return
            if not report or report["job"]["outcome"] != "running":
                break
            time.sleep(0.2)
        if report:
            log(headline(report["job"]))

    def run(self):
        failed, cause = 0, None
        try:
            self.start()
            for number, (name, command) in enumerate(self.sheets, 1):
                status = self.run_sheet(number, name, command)
                if status and not failed:
                    failed, cause = status, f"step {number} failed with status {status}"
                if failed and not self.keeps_going:
                    break
        except KeyboardInterrupt:
            failed, cause = 130, "interrupted"
        self.finish(failed, cause)
        return failed


def headline(job):
    """One line of a job's report, without unknown figures."""
    profile = job["profile"]
    figures = [("wall", profile["wall_seconds"], "s"), ("CPU", profile["cpu_seconds"], "s"),
               ("peak", profile["peak_rss_mb"], "MB"),
               ("processes", profile["processes"], "")]
    known = [f"{name} {value:g} {unit}".rstrip() for name, value, unit in figures
             if value is not None]
    why = f" ({job['cause']})" if job["cause"] else ""
    return f"{job['job_id']}: {job['outcome']}{why}: {', '.join(known)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="*", help="a shell command: one step")
    parser.add_argument("--file", help="read steps from a file, one per line, or .json")
    parser.add_argument("--job", default="conductor", help="name of the job (default: %(default)s)")
    parser.add_argument("--type", help="type of the job (default: its name)")
    parser.add_argument("--keep-going", action="store_true", help="continue after a failed step")
    parser.add_argument("--socket", help="path of the daemon's socket")
    options = parser.parse_args()
    try:
        sheets = read_sheets(options.file) if options.file else []
    except (OSError, ValueError, KeyError, TypeError) as error:
        parser.error(f"--file {options.file}: {error}")
    sheets += [(None, command) for command in options.command]
    if not sheets:
        parser.error("no steps; give a command or --file")
    return Conductor(Daemon(socket_paths(options.socket)), options, sheets).run()


if __name__ == "__main__":
    sys.exit(main())
