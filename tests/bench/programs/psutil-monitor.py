"""Samples this process with psutil in a thread, as monitors in Python do, or a tree of processes.

    psutil-monitor.py INTERVAL_SECONDS SECONDS [PID]

Prints CPU seconds, wall seconds and samples, as library-cost does.
"""
import os
import sys
import threading
import time

import psutil


def main():
    interval, seconds = map(float, sys.argv[1:3])
    is_tree = len(sys.argv) > 3
    process = psutil.Process(int(sys.argv[3]) if is_tree else os.getpid())
    known = {}
    over = threading.Event()
    samples = []

    def sample():
        family = [process]
        if is_tree:
            for child in process.children(recursive=True):
                family.append(known.setdefault(child.pid, child))
        samples.append((time.perf_counter(), sum(one.cpu_percent() for one in family),
                        sum(one.memory_info().rss for one in family)))

    def loop():
        while not over.wait(interval):
            sample()

    thread = threading.Thread(target=loop)
    thread.start()
    time.sleep(0.5)
    cpu, wall, count = time.process_time(), time.monotonic(), len(samples)
    time.sleep(seconds)
    print(time.process_time() - cpu, time.monotonic() - wall, len(samples) - count)
    over.set()
    thread.join()


main()
