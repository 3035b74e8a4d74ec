#!/usr/bin/env python3
"""libsonde's test of threads and forks once more, with all of it under ThreadSanitizer."""
import glob
import os
import pathlib
import subprocess

import harness

SOURCE = pathlib.Path(__file__).resolve().parents[2]
GENERATED = os.path.join(harness.HELPERS, "..", "..", "src")
FOLDERS = ("base", "stats", "model", "probe", "probe/gpu", "jobs", "sample", "lib")


class Threads(harness.TestCase):
    @harness.unittest.skipIf(harness.is_sanitized(), "the other sanitizers have theirs")
    def test_thread_sanitizer(self):
        sources = [path for folder in FOLDERS
                   for path in sorted(glob.glob(f"{SOURCE}/src/{folder}/*.c"))]
        sources.append(f"{SOURCE}/src/probe/bpf/kernel-probe-absent.c")
        program = self.path("threads")
        done = subprocess.run(
            ["clang", "-g", "-O1", "-fsanitize=thread", "-std=gnu17", "-D_GNU_SOURCE",
             '-DSONDE_VERSION="test"', f"-I{SOURCE}/src", f"-I{SOURCE}/include",
             f"-I{GENERATED}", "-o", program,
             f"{SOURCE}/tests/unit/test-lib-threads.c", *sources, "-lcmocka", "-ljansson", "-lyaml",
             "-lm", "-pthread"], stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        # A child of a process with threads starts threads: it is what is tested.
        result = self.run_program(
            program, timeout=200, env=dict(
                self.environment, TSAN_OPTIONS="die_after_fork=0 halt_on_error=1"))
        self.assertEqual(result.status, 0, result)
        self.assertNotIn("ThreadSanitizer", result.stderr)


if __name__ == "__main__":
    harness.main()
