#!/usr/bin/env python3
"""Measures two phases of a program, and a command, with the module `sonde` (see docs/LIBRARY.md).

    pip install ./python && examples/monitor.py
"""
import json
import sys

import sonde


def load():
    return sum(bytearray(64 << 20)[::4096])


def compute():
    return sum(i * i for i in range(2_000_000))


def main():
    with sonde.ResourceMonitor(sample_interval_sec=0.05) as monitor:
        with monitor.phase("load"):
            load()
        with monitor.phase("compute"):
            compute()
    for phase in monitor.phases:
        print(f"{phase.name:8} {phase.summary}")
    print(json.dumps(monitor.summary.to_dict()))

    command = sonde.run([sys.executable, "-c", "x = bytearray(200 << 20); sum(range(10**7))"])
    print(f"command  {command}")
    return command.returncode


if __name__ == "__main__":
    sys.exit(main())
