#!/usr/bin/env python3
"""The figures of `run()` of the Python module against independent truths: see truth.py."""
import json
import os
import pathlib
import sys
import unittest

import truth
from truth import case, CPU
import harness

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = """
import dataclasses, json, sonde, sys
summary = sonde.run(sys.argv[1:])
print(json.dumps({"exactness": dict(summary.exactness), "cpu_seconds": summary.cpu_seconds,
                  "returncode": summary.returncode}))
"""
ROW = "`run()` of the Python module: "


@unittest.skipIf(harness.is_sanitized(), "Python must load the runtime of the sanitizer first")
@truth.expand
class Python(truth.Case):
    def run_python(self, *command):
        words, *files = self.below_witness(command, False)
        environment = dict(self.environment, PYTHONPATH=str(SOURCE / "python"),
                           SONDE_LIBRARY=os.environ["SONDE_LIBRARY"])
        done = self.run_program(*self.prefix(), sys.executable, "-c", SCRIPT, *words, env=environment)
        self.assertEqual(done.status, 0, done)
        summary = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual(summary["returncode"], 0)
        run = self.read_witness(summary, *files)
        if run.cgroup_seconds is None:
            self.skipTest("needs a cgroup")
        return run

    def check_python(self, row, *command):
        run = self.run_python(*command)
        self.check(run, "cpu_seconds", ROW + row, *run.cpu(), CPU)

    @case(names=("root",), short=())
    def python_children(self):
        self.check_python("CPU time", *self.shapes("children", 4, 100))

    @case(names=("root",), short=("root",))
    def python_orphan(self):
        self.check_python("CPU time", *self.shapes("orphan", 200))

    @case(names=("root",), short=())
    def python_sibling(self):
        self.check_python("CPU time", *self.shapes("sibling", 200))

    @case(names=("root",), short=("root",))
    def python_unreaped(self):
        self.check_python("CPU time, children that no process waits for", *self.shapes("unreaped", 3, 150))


if __name__ == "__main__":
    harness.main()
