#!/usr/bin/env python3
"""libsonde as its users see it: installed, found by pkg-config, linked, and compared with the
kernel's figures."""
import glob
import os
import pathlib
import re
import subprocess

import harness

SOURCE = pathlib.Path(__file__).resolve().parents[2]
HEADER = SOURCE / "include/sonde/sonde.h"
BUILD = os.path.dirname(harness.SONDE)
SANITIZE = ["-fsanitize=address,undefined"] if harness.is_sanitized() else []
# What the static library needs when it is built for coverage.
COVERAGE = ["-lgcov"] if harness.is_counted() else []
# A library with clang's sanitizers is linked with clang.
COMPILERS = ["clang"] if SANITIZE else ["gcc", "clang"]
WARNINGS = ["-Wall", "-Wextra", "-pedantic", "-Wshadow", "-Werror"]


def declared_functions():
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text("utf-8"), flags=re.DOTALL)
    return set(re.findall(r"SONDE_API\s[^;]*?\b(sonde_\w+)\s*\(", text))


@harness.shared
def install(root):
    """`make install` with DESTDIR, once for all tests."""
    subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet"], check=True,
                   env=dict(os.environ, DESTDIR=root), stdout=subprocess.DEVNULL)
    return root


class InstalledTestCase(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.root = install()
        self.library = self.only("**/libsonde.so.0")
        self.lib_dir = os.path.dirname(self.library)

    def only(self, pattern):
        path, = glob.glob(f"{self.root}/{pattern}", recursive=True)
        return path

    def pkg_config(self, *words):
        environment = dict(os.environ, PKG_CONFIG_SYSROOT_DIR=self.root,
                           PKG_CONFIG_PATH=os.path.dirname(self.only("**/sonde.pc")))
        done = subprocess.run(["pkg-config", *words, "sonde"], check=True, stdout=subprocess.PIPE,
                              text=True, env=environment)
        return done.stdout.split()

    def build(self, compiler, source, *words):
        program = self.path("program")
        done = subprocess.run([compiler, *WARNINGS, *SANITIZE, "-o", program, str(source), *words],
                              stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return program

    def run_built(self, program, *words):
        result = self.run_program(program, *words,
                                  env=dict(self.environment, LD_LIBRARY_PATH=self.lib_dir))
        self.assertEqual(result.status, 0, result)
        return result.stdout.decode()


class Installed(InstalledTestCase):
    def test_files(self):
        self.only("**/include/sonde/sonde.h")
        self.only("**/libsonde.a")
        headers = [path for path in glob.glob(f"{self.root}/**/*.h", recursive=True)]
        self.assertEqual([os.path.basename(path) for path in headers], ["sonde.h"])
        self.assertTrue(os.path.islink(os.path.join(self.lib_dir, "libsonde.so")))
        self.assertEqual(self.pkg_config("--modversion"),
                         [self.run_program(harness.SONDE, "version").stdout.decode().split()[-1]])

    def test_exported_symbols_are_those_of_the_header(self):
        nm = subprocess.run(["nm", "-D", "--defined-only", self.library], check=True,
                            stdout=subprocess.PIPE, text=True).stdout
        exported = {line.split()[-1] for line in nm.splitlines() if line.split()[-2] != "A"}
        self.assertGreater(len(declared_functions()), 10)
        self.assertEqual(exported, {f"{name}@@SONDE_0.1" for name in declared_functions()})

    def test_the_static_one_has_no_other_global_names(self):
        nm = subprocess.run(["nm", "--defined-only", "--extern-only", self.only("**/libsonde.a")],
                            check=True, stdout=subprocess.PIPE, text=True).stdout
        names = {line.split()[-1] for line in nm.splitlines() if len(line.split()) == 3}
        self.assertEqual(names, declared_functions())

    @harness.unittest.skipIf(SANITIZE, "sanitizers have libraries of their own")
    def test_it_needs_nothing_but_libc_and_jansson(self):
        dynamic = subprocess.run(["readelf", "-d", self.library], check=True,
                                 stdout=subprocess.PIPE, text=True).stdout
        needed = set(re.findall(r"NEEDED.*\[(.*?)\]", dynamic))
        self.assertLessEqual(needed, {"libc.so.6", "libm.so.6", "libjansson.so.4"})
        self.assertIn("Library soname: [libsonde.so.0]", dynamic)


class Examples(InstalledTestCase):
    def check_c_output(self, output):
        *phases, summary = output.splitlines()
        self.assertEqual([line.split()[0] for line in phases], ["load", "compute"])
        summary = harness.strict_json(summary)
        self.assertGreater(summary["peak_rss_mb"], 64)
        self.assertGreater(summary["cpu_seconds"], 0)

    def test_c(self):
        for compiler in COMPILERS:
            for standard in ("-std=c99", "-std=c17"):
                with self.subTest(compiler=compiler, standard=standard):
                    program = self.build(compiler, SOURCE / "examples/monitor.c", standard,
                                         *self.pkg_config("--cflags", "--libs"))
                    self.check_c_output(self.run_built(program))

    def test_cpp(self):
        for compiler in COMPILERS:
            compiler = {"gcc": "g++", "clang": "clang++"}[compiler]
            for standard in ("-std=c++11", "-std=c++20"):
                with self.subTest(compiler=compiler, standard=standard):
                    program = self.build(compiler, SOURCE / "examples/monitor.cpp", standard,
                                         *self.pkg_config("--cflags", "--libs"), "-pthread")
                    last = self.run_built(program).splitlines()[-1].split()
                    self.assertGreater(float(last[0]), 30)

    def test_static(self):
        """In a program that defines some of our internal names."""
        source = self.write("own-names.c", """
            #include "%s"
            int map_get(void), text_append(void), record_encode(void), target_new(void);
            int map_get(void) { return 1; }
            int text_append(void) { return 1; }
            int record_encode(void) { return 1; }
            int target_new(void) { return 1; }\n""" % (SOURCE / "examples/monitor.c"))
        libraries = [word for word in self.pkg_config("--static", "--libs")
                     if word not in ("-lsonde", "-Wl,-Bstatic", "-Wl,-Bdynamic")]
        program = self.build(COMPILERS[0], source, *self.pkg_config("--cflags"),
                             self.only("**/libsonde.a"), *libraries, *COVERAGE)
        self.assertNotIn("libsonde", subprocess.run(["ldd", program], stdout=subprocess.PIPE,
                                                    text=True, check=True).stdout)
        self.check_c_output(self.run_program(program).stdout.decode())


class GroundTruth(harness.TestCase):
    """Compared with getrusage, and with an observer that reads every 2 ms."""

    def planted(self, interval, *steps, **environment):
        result = self.run_program(os.path.join(harness.HELPERS, "planted"), str(interval), *steps,
                                  env=dict(self.environment, **environment))
        self.assertEqual(result.status, 0, result)
        summary, truth = map(harness.strict_json, result.stdout.decode().splitlines())
        return summary, truth

    def test_peak(self):
        for steps in (["hold:300:200"], ["hold:100:50", "hold:250:5", "hold:50:100"], ["keep:80"],
                      ["sleep:50", "hold:128:0", "sleep:50"]):
            with self.subTest(steps=steps):
                summary, truth = self.planted(0.1, *steps)
                self.assert_near(summary["peak_rss_mb"], truth["maxrss_mb"], ratio=0, slack=0.5)

    @harness.needs_memory(1000)
    def test_half_a_gib_for_5_ms_between_samples(self):
        """With an hour between samples only the kernel can know the peak."""
        summary, truth = self.planted(3600, "hold:512:5")
        self.assertEqual(summary["num_samples"], 2)
        self.assertGreater(summary["peak_rss_mb"], 512)
        self.assert_near(summary["peak_rss_mb"], truth["maxrss_mb"], ratio=0, slack=0.5)

    def test_cpu_seconds(self):
        summary, truth = self.planted(0.1, "burn:1500", "sleep:100")
        self.assert_near(summary["cpu_seconds"], truth["own_seconds"], ratio=0.01, slack=0)
        self.assert_near(summary["mean_cpu_percent"],
                         100 * summary["cpu_seconds"] / summary["duration_sec"], ratio=1e-6)

    def test_cpu_seconds_without_children(self):
        summary, truth = self.planted(0.1, "burn:700", "fork:500")
        self.assert_near(summary["cpu_seconds"], truth["own_seconds"], ratio=0.01, slack=0.005)

    def test_cpu_seconds_with_children_that_came_and_went(self):
        summary, truth = self.planted(0.1, "burn:500", *["fork:60"] * 25,
                                      PLANTED_DESCENDANTS="1")
        self.assertGreater(truth["children_seconds"], 1.5)
        # The kernel reports the time of reaped children in ticks of 10 ms, rounded down.
        self.assert_near(summary["cpu_seconds"], truth["own_seconds"] + truth["children_seconds"],
                         ratio=0.01, slack=0.02)

    def test_growth(self):
        """Not the mean, which depends on the times of the samples: tests/unit/test-lib-monitor.c
        checks it against them."""
        summary, truth = self.planted(0.02, "keep:40", "sleep:100", "keep:60", "sleep:100",
                                      "hold:100:50", "sleep:100")
        self.assert_near(summary["memory_growth_mb"], truth["growth_mb"], ratio=0, slack=1)
        self.assertGreater(truth["growth_mb"], 99)

    def test_num_samples_and_duration(self):
        summary, _ = self.planted(0.05, "sleep:1000")
        self.assertGreaterEqual(summary["duration_sec"], 1)
        self.assertLessEqual(summary["num_samples"], summary["duration_sec"] / 0.05 + 2)
        self.assertGreater(summary["num_samples"], 2)


if __name__ == "__main__":
    harness.main()
