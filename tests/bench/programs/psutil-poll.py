"""Runs a command and polls its process tree with psutil, as job runners in Python do.

    psutil-poll.py INTERVAL_SECONDS REPORT_FILE CMD [ARGUMENT…]

The report, one line: CPU seconds seen, processes seen, largest RSS of one process seen in bytes.
"""
import subprocess
import sys

import psutil


def poll(root, cpu_seconds):
    peak = 0
    try:
        family = [root, *root.children(recursive=True)]
    except psutil.Error:
        return peak
    for process in family:
        try:
            with process.oneshot():
                times = process.cpu_times()
                peak = max(peak, process.memory_info().rss)
                cpu_seconds[(process.pid, process.create_time())] = times.user + times.system
        except psutil.Error:
            pass
    return peak


def main():
    interval, report = float(sys.argv[1]), sys.argv[2]
    cpu_seconds = {}
    peak = 0
    command = subprocess.Popen(sys.argv[3:])
    root = psutil.Process(command.pid)
    while True:
        peak = max(peak, poll(root, cpu_seconds))
        try:
            status = command.wait(interval)
            break
        except subprocess.TimeoutExpired:
            pass
    with open(report, "w", encoding="ascii") as out:
        print(sum(cpu_seconds.values()), len(cpu_seconds), peak, file=out)
    sys.exit(status)


main()
