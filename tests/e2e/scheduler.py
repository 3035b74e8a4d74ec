#!/usr/bin/env python3
"""A scheduler for tests: SOCKET KIND…. It is a process of its job, runs a step of each kind, and writes what
wait4 returns for each as a line of JSON, and at last for the job."""
import json
import os
import resource
import subprocess
import sys

import daemon

CHILDREN = 60
WORK = (f"i=0; while [ $i -lt {CHILDREN} ]; do (j=0; while [ $j -lt 3000 ]; do j=$((j+1)); done); "
        "i=$((i+1)); done; ")
LARGE = f"'{sys.executable}' -c 'x = bytearray(100 << 20)'; "
# What the shell of a step runs, and the number of its processes.
KINDS = {
    "work": ("read x; " + WORK, CHILDREN + 1),
    # All its children have ended when the step is reported.
    "early": (WORK + "echo; read x", CHILDREN + 1),
    "early-large": (LARGE + "echo; read x", 2),
    # The step has ended when it is reported, but its parent has not waited for it.
    "zombie": (WORK, CHILDREN + 1),
}


def seconds(usage):
    return usage.ru_utime + usage.ru_stime


def run_step(link, number, kind):
    script, processes = KINDS[kind]
    step = subprocess.Popen(["/bin/sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if kind.startswith("early"):
        step.stdout.readline()
    elif kind == "zombie":
        os.waitid(os.P_PID, step.pid, os.WEXITED | os.WNOWAIT)
    link.call("sheet.started", job_id="x", sheet_num=number, pid=step.pid)
    try:
        step.stdin.write(b"\n")
        step.stdin.flush()
    except BrokenPipeError:
        pass
    _, status, usage = os.wait4(step.pid, 0)
    step.returncode = os.waitstatus_to_exitcode(status)
    link.call("sheet.completed", job_id="x", sheet_num=number)
    return {"cpu_seconds": seconds(usage), "peak_rss_mb": usage.ru_maxrss / 1024, "processes": processes}


def main():
    socket, *kinds = sys.argv[1:]
    link = daemon.Rpc(socket)
    link.call("job.start", job_id="x", pid=os.getpid())
    for number, kind in enumerate(kinds, 1):
        print(json.dumps(run_step(link, number, kind)), flush=True)
    link.call("job.finish", job_id="x", outcome="success")
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(json.dumps({"cpu_seconds": seconds(own) + seconds(children)}), flush=True)


if __name__ == "__main__":
    main()
