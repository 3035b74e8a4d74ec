#!/usr/bin/env python3
"""The Python module: in this process, as pip installs it, and without its library."""
import ctypes
import dataclasses
import gc
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock

import harness

SOURCE = pathlib.Path(__file__).resolve().parents[2]
DEBIAN_PYTHON = "/usr/bin/python3"

if harness.is_sanitized() and "LD_PRELOAD" not in os.environ:
    # The library's sanitizer must be loaded first. Python itself leaks.
    runtime = subprocess.run(["clang", "-print-file-name=libclang_rt.asan-x86_64.so"], check=True,
                             stdout=subprocess.PIPE, text=True).stdout.strip()
    os.environ["LD_PRELOAD"] = runtime
    os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    os.execv(sys.executable, [sys.executable, *sys.argv])

sys.path.insert(0, str(SOURCE / "python"))
sys.dont_write_bytecode = True
import sonde  # noqa: E402
from sonde import _command, _library  # noqa: E402

MB = 1 << 20

WHOLE = {"peak_rss_mb": 10.5, "mean_rss_mb": 9.0, "peak_gpu_mem_mb": None, "mean_gpu_util": None,
         "memory_growth_mb": -1.25, "num_samples": 3, "duration_sec": 0.2}


class Records(harness.TestCase):
    def test_names_and_order(self):
        """As in the specification."""
        self.assertEqual(
            [field.name for field in dataclasses.fields(sonde.ResourceSample)],
            ["timestamp", "cpu_percent", "rss_mb", "gpu_util", "gpu_mem_mb", "gpu_clock_mhz",
             "gpu_power_w"])
        self.assertEqual(
            [field.name for field in dataclasses.fields(sonde.ResourceSummary)],
            ["peak_rss_mb", "mean_rss_mb", "peak_gpu_mem_mb", "mean_gpu_util", "memory_growth_mb",
             "num_samples", "duration_sec", "mean_gpu_clock_mhz", "mean_gpu_power_w",
             "mean_cpu_percent", "cpu_seconds"])

    def test_to_dict(self):
        summary = sonde.ResourceSummary(**WHOLE)
        data = summary.to_dict()
        self.assertEqual({name: data[name] for name in WHOLE}, WHOLE)
        self.assertNotIn("mean_gpu_clock_mhz", data)
        self.assertNotIn("mean_gpu_power_w", data)
        full = dataclasses.replace(summary, mean_gpu_clock_mhz=1500.0, mean_gpu_power_w=0.0)
        self.assertEqual(full.to_dict()["mean_gpu_clock_mhz"], 1500)
        self.assertEqual(full.to_dict()["mean_gpu_power_w"], 0)

    def test_from_dict(self):
        summary = sonde.ResourceSummary.from_dict({**WHOLE, "host": "newer"})
        self.assertEqual(summary, sonde.ResourceSummary(**WHOLE))
        self.assertIsNone(summary.cpu_seconds)
        self.assertNotEqual(summary, dataclasses.replace(summary, num_samples=4))

    def test_a_field_that_is_missing_or_wrong_is_named(self):
        for name in WHOLE:
            for wrong in ("2", True, [], float("nan"), float("inf")):
                with self.subTest(name=name, wrong=wrong), \
                        self.assertRaisesRegex(ValueError, f"^{name}: "):
                    sonde.ResourceSummary.from_dict({**WHOLE, name: wrong})
            less = {key: value for key, value in WHOLE.items() if key != name}
            with self.subTest(missing=name), self.assertRaises(KeyError) as caught:
                sonde.ResourceSummary.from_dict(less)
            self.assertEqual(str(caught.exception), f"{name}: is missing")
            self.assertEqual(caught.exception.field, name)
        for wrong in ({"num_samples": 1.5}, {"num_samples": -1}, {"peak_rss_mb": None},
                      {"peak_rss_mb": 10**400}, {"num_samples": 2**63}):
            with self.subTest(wrong=list(wrong)), self.assertRaises(sonde.FieldError):
                sonde.ResourceSummary.from_dict({**WHOLE, **wrong})

    def test_only_growth_is_negative(self):
        for field in dataclasses.fields(sonde.ResourceSummary):
            data = {**WHOLE, field.name: -3}
            if field.name == "memory_growth_mb":
                self.assertEqual(sonde.ResourceSummary.from_dict(data).memory_growth_mb, -3)
                continue
            with self.subTest(field=field.name), self.assertRaisesRegex(
                    sonde.FieldError, f"^{field.name}: expected 0 or more, found -3$"):
                sonde.ResourceSummary.from_dict(data)

    def test_not_a_summary(self):
        for wrong in ([], None, 5, "text"):
            with self.subTest(wrong=wrong), \
                    self.assertRaisesRegex(sonde.FieldError, "^top level: expected an object"):
                sonde.ResourceSummary.from_dict(wrong)
            with self.subTest(json=wrong), self.assertRaisesRegex(sonde.FieldError, "^top level: "):
                sonde.ResourceSummary.from_json(json.dumps(wrong))
        for text in ("[" * 100_000, '{"peak_rss_mb":' * 100_000):
            with self.subTest(text=text[:20]), \
                    self.assertRaisesRegex(sonde.FieldError, "^top level: nested too deeply$"):
                sonde.ResourceSummary.from_json(text)

    def test_json(self):
        summary = sonde.ResourceSummary(**WHOLE)
        self.assertEqual(sonde.ResourceSummary.from_json(summary.to_json()), summary)
        for text in ("", "[]", "{", '{"peak_rss_mb": NaN}', "null"):
            with self.subTest(text=text), self.assertRaises(ValueError):
                sonde.ResourceSummary.from_json(text)

    def test_str(self):
        text = str(sonde.ResourceSummary(**{**WHOLE, "mean_gpu_util": 42.0}, cpu_seconds=1.5,
                                         mean_cpu_percent=75.0))
        self.assertEqual(text, "memory 10.5 MB peak, 9.0 MB mean, -1.2 MB grown; "
                               "CPU 1.500 s (75.0 %); GPU 42.0 %; 3 samples in 0.20 s")
        self.assertIn("peak_rss_mb=10.5", repr(sonde.ResourceSummary(**WHOLE)))


def random_real(chance):
    return None if chance.random() < 0.3 else chance.random() * 10 ** chance.randint(-8, 12)


class AgainstTheLibrary(harness.TestCase):
    """The library reads what Python writes, and the other way round."""

    def through_library(self, text):
        library = _library.load()
        raw, error, out = _library.Summary(), _library.Error(), ctypes.c_void_p()
        code = library.sonde_summary_from_json(text.encode(), len(text.encode()), raw, error)
        self.assertEqual(code, 0, error.text)
        self.assertEqual(library.sonde_summary_to_json(raw, out), 0)
        result = ctypes.string_at(out.value).decode()
        library.sonde_free(out)
        return result

    def test_round_trips(self):
        chance = random.Random(9)
        required = ("peak_rss_mb", "mean_rss_mb", "memory_growth_mb", "duration_sec")
        for _ in range(2000):
            figures = {field.name: random_real(chance)
                       for field in dataclasses.fields(sonde.ResourceSummary)}
            figures.update({name: figures[name] or 0.0 for name in required})
            figures.update(memory_growth_mb=figures["memory_growth_mb"] * chance.choice((-1, 1)),
                           num_samples=chance.randint(0, 2**62))
            summary = sonde.ResourceSummary(**figures)
            there = self.through_library(summary.to_json())
            self.assertEqual(sonde.ResourceSummary.from_json(there), summary)
            self.assertEqual(list(json.loads(there)), list(summary.to_dict()))


class Monitor(harness.TestCase):
    def test_context_manager(self):
        with sonde.ResourceMonitor(sample_interval_sec=0.01) as monitor:
            self.assertTrue(monitor.is_running)
            block = bytearray(64 * MB)
            harness.wait_until(lambda: monitor.summary.num_samples > 5, "samples")
        self.assertFalse(monitor.is_running)
        del block
        samples, summary = monitor.samples, monitor.summary
        self.assertEqual(len(samples), summary.num_samples)
        self.assertIsNone(samples[0].cpu_percent)
        self.assertIsNone(samples[0].gpu_util)
        self.assertGreater(summary.memory_growth_mb, 60)
        self.assertGreater(summary.peak_rss_mb, 64)
        self.assertAlmostEqual(summary.duration_sec, samples[-1].timestamp - samples[0].timestamp,
                               places=6)
        self.assertAlmostEqual(summary.mean_rss_mb,
                               sum(sample.rss_mb for sample in samples) / len(samples), places=6)
        self.assertLess(abs(samples[-1].timestamp - time.monotonic()), 60)  # the same clock
        self.assertEqual(monitor.samples, samples)  # comparable, and a copy each time
        self.assertIsNot(monitor.samples, samples)
        self.assertGreater(monitor.timing.ticks, 0)

    def test_before_the_start_all_is_zero(self):
        summary = sonde.ResourceMonitor().summary
        self.assertEqual(summary, sonde.ResourceSummary(
            peak_rss_mb=0, mean_rss_mb=0, peak_gpu_mem_mb=None, mean_gpu_util=None,
            memory_growth_mb=0, num_samples=0, duration_sec=0, mean_cpu_percent=None,
            cpu_seconds=0))
        self.assertEqual(sonde.ResourceMonitor().samples, [])

    def test_second_start(self):
        monitor = sonde.ResourceMonitor(0.001)
        with monitor:
            with self.assertRaisesRegex(RuntimeError, "stop it first"):
                monitor.start()
            harness.wait_until(lambda: monitor.summary.num_samples > 50, "samples")
        before = monitor.summary.num_samples
        with monitor:
            pass
        self.assertLess(monitor.summary.num_samples, before)
        monitor.stop()

    def test_an_exception_passes_through(self):
        with self.assertRaises(ZeroDivisionError):
            with sonde.ResourceMonitor() as monitor:
                1 / 0
        self.assertFalse(monitor.is_running)
        self.assertGreaterEqual(monitor.summary.num_samples, 2)

    def test_wrong_arguments(self):
        for arguments, words in (({"sample_interval_sec": 0}, "sample_interval_sec: 0 "),
                                 ({"sample_interval_sec": 0.0001}, "sample_interval_sec: 0.0001"),
                                 ({"sample_interval_sec": -1}, "sample_interval_sec: -1"),
                                 ({"sample_interval_sec": 10**400}, "sample_interval_sec: inf"),
                                 ({"sample_interval_sec": float("nan")}, "sample_interval_sec: "),
                                 ({"max_samples": 3}, "max_samples: 3 "),
                                 ({"max_samples": -1}, "max_samples: -1 is not within 16 to 16777216"),
                                 ({"max_samples": 2**33}, "max_samples: 8589934592 is not within"),
                                 ({"pid": -4}, "pid: -4 is not within 0 to 2147483647"),
                                 ({"pid": 2**32 + 1}, "pid: 4294967297 is not within"),
                                 ({"pid": 2**40}, "pid: 1099511627776 is not within"),
                                 ({"pid": 10**5000}, "pid: a number of 16610 bits is not within")):
            with self.subTest(words=words), self.assertRaisesRegex(ValueError, f"^{words}"):
                sonde.ResourceMonitor(**arguments)
        for arguments, words in (({"sample_interval_sec": "x"}, "sample_interval_sec: expected a "),
                                 ({"sample_interval_sec": None}, "sample_interval_sec: expected a "),
                                 ({"max_samples": 100.5}, "max_samples: expected an integer"),
                                 ({"pid": "1"}, "pid: expected an integer, found '1'")):
            with self.subTest(arguments=arguments), self.assertRaisesRegex(TypeError, f"^{words}"):
                sonde.ResourceMonitor(**arguments)
        gone = subprocess.Popen(["true"])
        gone.wait()
        with self.assertRaises(ProcessLookupError):
            sonde.ResourceMonitor(pid=gone.pid).start()

    def test_phases(self):
        with sonde.ResourceMonitor(3600) as monitor:
            with monitor.phase("größer"):
                block = bytearray(32 * MB)
            del block
            monitor.mark("rest")
            with self.assertRaisesRegex(ValueError, "name: "):
                monitor.mark("")
            with self.assertRaisesRegex(ValueError, "NUL"):
                monitor.mark("a\0b")
        first, rest = monitor.phases
        self.assertEqual((first.name, rest.name), ("größer", "rest"))
        self.assertGreater(first.summary.memory_growth_mb, 30)
        self.assertEqual(rest.summary.num_samples, 2)
        with self.assertRaisesRegex(RuntimeError, "not running"):
            monitor.mark("late")

    def test_another_process_with_its_descendants(self):
        child = self.start("sh", "-c", '"$0" shape 1 0 96; :', *self.victim())
        self.await_ready(child)
        with sonde.ResourceMonitor(0.005, pid=child.pid) as monitor:
            harness.wait_until(lambda: monitor.summary.peak_rss_mb > 90, "its child is seen")
        with sonde.ResourceMonitor(0.005, pid=child.pid, descendants=False) as monitor:
            pass
        self.assertLess(monitor.summary.peak_rss_mb, 50)

    def test_samples_while_the_interpreter_lock_is_held(self):
        """During a call that does not release the interpreter lock, as in extensions."""
        held = ctypes.PyDLL(None).usleep
        with sonde.ResourceMonitor(0.01) as monitor:
            before = monitor.summary.num_samples
            held(500_000)
            taken = monitor.summary.num_samples - before
        self.assertGreater(taken, 3)

    def test_dropped_monitor_leaves_nothing_behind(self):
        for _ in range(3):
            monitor = sonde.ResourceMonitor(0.001)
            monitor.start()
            del monitor
        gc.collect()
        names = [pathlib.Path(f"/proc/self/task/{task}/comm").read_text("ascii").strip()
                 for task in os.listdir("/proc/self/task")]
        self.assertNotIn("sonde", names)

    def test_threads(self):
        failures = []

        def work():
            try:
                for _ in range(20):
                    with sonde.ResourceMonitor(0.001) as monitor:
                        monitor.mark("x")
                    assert monitor.summary.num_samples >= 2
            except BaseException as error:  # pylint: disable=broad-except
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_fork(self):
        with sonde.ResourceMonitor(0.001) as monitor:
            child = os.fork()
            if child == 0:
                empty = monitor.summary.num_samples == 0 and not monitor.is_running
                monitor.start()
                monitor.stop()
                os._exit(0 if empty and monitor.summary.num_samples >= 2 else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertTrue(monitor.is_running)


# ---- GPUs ----


class Reading:
    def __init__(self, **values):
        self.__dict__.update(values)


class NewGpu:
    def utilization(self):
        return 60

    def memory(self):
        return Reading(used_mb=2048.5)

    def clocks(self):
        return Reading(graphics_mhz=1400)

    def power(self):
        return Reading(draw_w=250.25)


class OldGpu:
    def get_utilization(self):
        return 60.0

    def get_memory_usage(self):
        return {"gpu_memory_used_mb": 2048.5}

    def get_clock_info(self):
        return {"gpu_clock_mhz": 1400}

    def get_power_info(self):
        return {"power_draw_w": 250.25}


class BrokenGpu(NewGpu):
    def utilization(self):
        raise RuntimeError("the driver is gone")

    def memory(self):
        return None

    def clocks(self):
        return Reading(graphics_mhz="fast")

    power = None


class ImpossibleGpu:
    """Impossible figures, and one that is larger than any double."""

    def utilization(self):
        return float("inf")

    def memory(self):
        return Reading(used_mb=10**400)

    def clocks(self):
        return Reading(graphics_mhz=-1)

    def power(self):
        return Reading(draw_w=1e308)


class SlowGpu(NewGpu):
    def __init__(self):
        self.gate = threading.Event()
        self.entered = threading.Event()

    def utilization(self):
        self.entered.set()
        self.gate.wait()
        return 60


class Gpus(harness.TestCase):
    def summary(self, profiler):
        with sonde.ResourceMonitor(0.01, profiler) as monitor:
            pass
        self.sample = monitor.samples[0]
        return monitor.summary

    def test_both_kinds_of_profilers(self):
        for profiler in (NewGpu(), OldGpu()):
            with self.subTest(profiler=type(profiler).__name__):
                summary = self.summary(profiler)
                self.assertEqual((summary.mean_gpu_util, summary.peak_gpu_mem_mb,
                                  summary.mean_gpu_clock_mhz, summary.mean_gpu_power_w),
                                 (60, 2048.5, 1400, 250.25))
                self.assertEqual(self.sample.gpu_util, 60)
                self.assertEqual(self.sample.gpu_power_w, 250.25)
        self.assertIsInstance(NewGpu(), sonde.GpuProfiler)
        self.assertIsInstance(NewGpu(), sonde.GPUProfilerProtocol)
        self.assertNotIsInstance(OldGpu(), sonde.GPUProfilerProtocol)
        self.assertIsInstance(OldGpu(), sonde.OlderGpuProfiler)

    def test_what_is_missing_or_raises_is_none(self):
        summary = self.summary(BrokenGpu())
        self.assertEqual((summary.mean_gpu_util, summary.peak_gpu_mem_mb,
                          summary.mean_gpu_clock_mhz, summary.mean_gpu_power_w), (None,) * 4)
        self.assertGreaterEqual(summary.num_samples, 2)
        self.assertIsNone(self.summary(object()).mean_gpu_util)
        self.assertIsNone(self.summary(unittest.mock.MagicMock()).mean_gpu_util)

    def test_impossible_figure_is_none(self):
        with unittest.mock.patch.object(sys, "unraisablehook") as hook:
            with sonde.ResourceMonitor(0.001, ImpossibleGpu()) as monitor:
                harness.wait_until(lambda: monitor.summary.num_samples > 5, "samples")
        hook.assert_not_called()
        summary, sample = monitor.summary, monitor.samples[0]
        self.assertEqual((summary.mean_gpu_util, summary.peak_gpu_mem_mb,
                          summary.mean_gpu_clock_mhz, summary.mean_gpu_power_w),
                         (None, None, None, 1e308))
        self.assertEqual((sample.gpu_util, sample.gpu_mem_mb, sample.gpu_clock_mhz), (None,) * 3)
        self.assertEqual(sonde.ResourceSummary.from_json(summary.to_json()), summary)

    def test_one_that_hangs_delays_no_sample(self):
        gpu = SlowGpu()
        monitor = sonde.ResourceMonitor(0.005, gpu)
        monitor.start()
        gpu.entered.wait()
        before = monitor.summary.num_samples
        harness.wait_until(lambda: monitor.summary.num_samples > before + 20, "samples")
        self.assertIsNone(monitor.summary.mean_gpu_util)
        gpu.gate.set()
        harness.wait_until(lambda: monitor.summary.mean_gpu_util == 60, "an answer")
        monitor.stop()

    def test_builtin(self):
        """With a GPU or without one."""
        summary = self.summary(sonde.Gpu())
        if sonde.gpu_count() == 0:
            self.assertIsNone(summary.mean_gpu_util)
        for wrong in (-1, 2**32):
            with self.assertRaisesRegex(ValueError, f"^index: {wrong} is not within 0 to "):
                sonde.Gpu(wrong)


# ---- commands ----


class Commands(harness.TestCase):
    def test_figures(self):
        result = sonde.run([DEBIAN_PYTHON, "-c", "x = bytearray(400 << 20)\n"
                            "import os, time\n"
                            "if os.fork() == 0:\n"
                            "    while time.process_time() < .2: pass\n"
                            "    os._exit(0)\n"
                            "os.wait()\n"
                            "while time.process_time() < .3: pass"], env=self.environment)
        self.assertEqual(result.returncode, 0)
        self.assertIsInstance(result, sonde.ResourceSummary)
        self.assertGreater(result.peak_rss_mb, 400)
        self.assertGreaterEqual(result.cpu_seconds, 0.5)
        self.assertGreater(result.duration_sec, 0)
        self.assertAlmostEqual(result.mean_cpu_percent,
                               100 * result.cpu_seconds / result.duration_sec)
        self.assertEqual(len(result.samples), result.num_samples)
        self.assertEqual(sonde.ResourceSummary.from_dict(result.to_dict()).peak_rss_mb,
                         result.peak_rss_mb)

    def test_short_commands(self):
        """Too short to be sampled: the CPU time is known."""
        for _ in range(20):
            result = sonde.run(["true"])
            self.assertEqual(result.returncode, 0)
            self.assertGreater(result.cpu_seconds, 0)
            if result.num_samples == 0:
                # `true` never has more memory than this process: its peak is unknown
                self.assertEqual((result.peak_rss_mb, result.mean_rss_mb, result.memory_growth_mb),
                                 (None, None, None))
                self.assertNotIn("peak_rss_mb", result.exactness)
                self.assertIsNone(sonde.ResourceSummary.from_dict(result.to_dict()).peak_rss_mb)
                self.assertIn("memory -;", str(result))

    def run_alone(self, code, *words, prefix=()):
        """The output of a Python program that has no other thread or child."""
        result = self.run_program(*prefix, sys.executable, "-c", "import sonde, sys, os\n" + code, *words, env={
            **os.environ, "PYTHONPATH": str(SOURCE / "python"), "PYTHONDONTWRITEBYTECODE": "1"})
        self.assertEqual((result.status, result.stderr), (0, ""), result)
        return result.stdout.decode()

    RUN = ("result = sonde.run(sys.argv[1:], sample_interval_sec=60)\n"
           "print('\\nresult', result.cpu_seconds, result.exactness['cpu_seconds'])\n")
    # A process that becomes a child of the caller, burns CPU time and reports it. Its creator ends when it
    # is a zombie, without having waited for it.
    STRAY = ("import ctypes, os, platform, sys, time\n"
             "clone, number = {'x86_64': 56}.get(platform.machine(), 220), os.pipe()\n"
             "is_orphan = sys.argv[1] == 'orphan'\n"
             "if is_orphan and os.fork() > 0:\n"
             "    os.wait()\n"
             "elif is_orphan and os.fork() > 0:\n"
             "    os._exit(0)\n"
             "elif is_orphan or ctypes.CDLL(None).syscall(clone, 0x8000 | 17, None, None, None, None) == 0:\n"
             "    os.write(number[1], b'%d' % os.getpid())\n"
             "    while time.process_time() < .3: pass\n"
             "    print('cpu', time.process_time(), flush=True)\n"
             "    os._exit(0)\n"
             "pid = int(os.read(number[0], 20))\n"
             "while open(f'/proc/{pid}/stat').read().rsplit(')')[1].split()[0] != 'Z':\n"
             "    time.sleep(.001)\n")
    # A command that leaves a process, which runs until this program closes `keep`.
    LEAVE = ("end, keep = os.pipe()\n"
             "first = sonde.run(['sh', '-c', f'cat <&{end} & echo'], pass_fds=[end])\n")

    def test_children_that_it_did_not_wait_for_count(self):
        """A daemon that ends first, and a child of this program that the command started."""
        for kind in ("orphan", "sibling"):
            with self.subTest(kind=kind):
                out = self.run_alone(self.RUN, DEBIAN_PYTHON, "-c", self.STRAY, kind)
                burned = float(re.search(r"cpu (\S+)", out).group(1))
                seconds, exactness = re.search(r"(?m)^result (\S+) (\S+)$", out).groups()
                self.assertGreaterEqual(float(seconds), burned * 0.99, out)
                self.assertEqual(exactness, "exact", out)

    def test_exact_is_the_kernels_figure(self):
        """The samples may round the time of ended children up: then they are not used."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        of_kernel = usage.ru_utime + usage.ru_stime + 1
        for more, is_complete, exactness in ((0.015, True, "exact"), (-0.5, True, "exact"),
                                             (0.5, True, "lower_bound"), (0.015, False, "lower_bound")):
            with self.subTest(more=more, is_complete=is_complete):
                end = _command._End(0, usage, _command.LeftUsage(1.0, 0, is_complete))
                sampled = sonde.ResourceSummary(**{**WHOLE, "cpu_seconds": of_kernel + more})
                figures = _command._figures(sampled, end, 0, 2.0)
                self.assertEqual(figures["exactness"]["cpu_seconds"], exactness)
                is_larger = exactness == "lower_bound"
                self.assertEqual(figures["cpu_seconds"], of_kernel + (more if is_larger else 0))

    def test_what_cannot_be_counted_is_marked(self):
        """Other children or threads of this program, a child that runs on, children that are discarded."""
        discards = (DEBIAN_PYTHON, "-c", "import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)")
        for code, command in (
                ("import subprocess\nother = subprocess.Popen(['cat'], stdin=subprocess.PIPE)\n" + self.RUN
                 + "other.communicate()", ("true",)),
                ("import threading\nend = threading.Event()\nthreading.Thread(target=end.wait, daemon=True).start()\n"
                 + self.RUN + "end.set()", ("true",)),
                (self.RUN.replace("60", "60, gpu_profiler=object()"), ("true",)),
                (self.LEAVE + "result = first\n" + self.RUN.splitlines()[1], ()),
                (self.RUN, discards)):
            with self.subTest(code=code):
                self.assertRegex(self.run_alone(code, *command), r"(?m)^result \S+ lower_bound$")
        self.assertRegex(self.run_alone(self.RUN, "true"), r"(?m)^result \S+ exact$")
        self.assertIn("CPU ≥ ", self.run_alone(self.LEAVE + "print(first)"))

    def test_one_that_runs_on_is_reaped_later(self):
        out = self.run_alone(self.LEAVE + "os.close(keep)\n"
                             "os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)\n" + self.RUN
                             + "try:\n    os.waitpid(-1, os.WNOHANG)\n"
                               "except ChildProcessError:\n    print('no children')", "true")
        self.assertRegex(out, r"(?m)^result \S+ exact$")
        self.assertIn("no children", out)

    @harness.needs_namespaces()
    def test_child_with_the_pid_of_one_that_ran_on(self):
        """The program has waited for that one itself, and then waits for its own child."""
        out = self.run_alone("import time\n" + self.LEAVE + "os.close(keep)\n"
                             "pid = os.wait()[0]\n"
                             # the kernel states when a process started in units of 10 ms
                             "now = time.monotonic()\n"
                             "while time.monotonic() < now + .02: pass\n"
                             "with open('/proc/sys/kernel/ns_last_pid', 'w') as last:\n"
                             "    last.write(str(pid - 1))\n"
                             "own = os.fork()\n"
                             "if own == 0:\n    os._exit(7)\n"
                             "os.waitid(os.P_PID, own, os.WEXITED | os.WNOWAIT)\n"
                             "sonde.run(['true'])\n"
                             "print('own', own == pid, os.waitpid(own, 0)[1] >> 8)",
                             prefix=("unshare", "--fork", "--pid", "--mount-proc"))
        self.assertIn("own True 7\n", out)

    def test_how_it_ended(self):
        self.assertEqual(sonde.run(["sh", "-c", "exit 3"]).returncode, 3)
        self.assertEqual(sonde.run(["sh", "-c", "kill -9 $$"]).returncode, -9)
        with self.assertRaises(subprocess.CalledProcessError):
            sonde.run(["false"], check=True)
        with self.assertRaises(FileNotFoundError):
            sonde.run(["/does/not/exist"])

    def test_wrong_arguments_start_nothing(self):
        path = self.path("ran")
        for arguments in ({"sample_interval_sec": -1}, {"stdout": subprocess.PIPE}):
            with self.subTest(arguments=arguments), self.assertRaises(ValueError):
                sonde.run(["touch", path], **arguments)
        with self.assertRaises(TypeError):
            sonde.run(f"touch {path}")
        self.assertFalse(os.path.exists(path))
        with self.assertRaisesRegex(ValueError, "^args: empty, expected a command"):
            sonde.run([])

    def test_while_the_end_of_children_is_ignored(self):
        """The kernel discards its exit status, but it ran and was sampled."""
        before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        self.addCleanup(signal.signal, signal.SIGCHLD, before)
        busy = [DEBIAN_PYTHON, "-c", "import time\nwhile time.process_time() < .3: pass"]
        result = sonde.run(busy, sample_interval_sec=0.01)
        self.assertIsNone(result.returncode)
        self.assertGreater(result.num_samples, 1)
        self.assertGreater(result.cpu_seconds, 0.1)
        self.assertGreater(result.peak_rss_mb, 1)
        with self.assertRaisesRegex(ChildProcessError, "check: the result of the command is unknown"):
            sonde.run(["true"], check=True)
        for _ in range(20):  # too short to be sampled is unknown, not 0
            result = sonde.run(["true"])
            self.assertEqual(result.cpu_seconds is None, result.num_samples == 0)
            self.assertEqual(sonde.ResourceSummary.from_dict(result.to_dict()).cpu_seconds,
                             result.cpu_seconds)

    def test_output_goes_to_files(self):
        with open(self.path("out"), "w+", encoding="ascii") as out:
            sonde.run(["echo", "hello"], stdout=out)
            out.seek(0)
            self.assertEqual(out.read(), "hello\n")


# ---- as it is installed ----


@harness.shared
def install(directory):
    """A virtual environment of Debian's Python with the module, as pip installs it."""
    # pip builds inside the source folder
    shutil.copytree(SOURCE / "python", f"{directory}/python",
                    ignore=shutil.ignore_patterns("__pycache__"))
    # The system's pip suffices and takes no seconds to install.
    has_pip = subprocess.run([DEBIAN_PYTHON, "-m", "pip", "--version"], check=False,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
    subprocess.run([DEBIAN_PYTHON, "-m", "venv", "--system-site-packages",
                    *(["--without-pip"] if has_pip else []), f"{directory}/venv"],
                   check=True, stdout=subprocess.DEVNULL)
    subprocess.run([f"{directory}/venv/bin/python", "-m", "pip", "install", "--quiet", "--no-index",
                    "--no-build-isolation", f"{directory}/python"], check=True)
    return f"{directory}/venv/bin/python"


@unittest.skipIf(harness.is_sanitized(), "the sanitizer would have to be in that Python")
class Installed(harness.TestCase):
    def python(self, *words, **environment):
        # -I: without this tree and the user's packages
        return self.run_program(install(), "-I", *words, env={**self.environment, **environment})

    USE = ("import sonde\n"
           "with sonde.ResourceMonitor() as m: pass\n"
           "assert m.summary.num_samples >= 2\n"
           "print(sonde.library_version(), sonde.__version__)")

    def test_pip_and_where_the_library_is_found(self):
        library = os.environ["SONDE_LIBRARY"]
        result = self.python("-c", self.USE, SONDE_LIBRARY=library)
        self.assertEqual(result.status, 0, result)
        theirs, ours = result.stdout.decode().split()
        self.assertEqual(theirs, ours)

        example = self.python(str(SOURCE / "examples/monitor.py"), SONDE_LIBRARY=library)
        self.assertEqual(example.status, 0, example)
        self.assertIn("compute  memory", example.stdout.decode())

        # missing
        result = self.python("-c", self.USE)
        if b"SONDE_LIBRARY" not in result.stderr.encode():
            self.assertEqual(result.status, 0)  # there is one in the system
        result = self.python("-c", self.USE, SONDE_LIBRARY="/does/not/exist.so")
        self.assertEqual(result.status, 1)
        self.assertIn("libsonde was not found (/does/not/exist.so", result.stderr)

        # functions that need no library work without it
        result = self.python("-c", "import sonde; sonde.ResourceSummary.from_dict("
                             + repr(WHOLE) + ")", SONDE_LIBRARY="/does/not/exist.so")
        self.assertEqual(result.status, 0, result)

        # beside the module, and on the system's search path
        package = self.python("-c", "import sonde; print(sonde.__path__[0])").stdout.decode().strip()
        shutil.copy(library, os.path.join(package, "libsonde.so.0"))
        self.assertEqual(self.python("-c", self.USE).status, 0)
        os.remove(os.path.join(package, "libsonde.so.0"))
        os.makedirs(self.path("lib"))
        shutil.copy(library, self.path("lib/libsonde.so.0"))
        self.assertEqual(
            self.python("-c", self.USE, LD_LIBRARY_PATH=self.path("lib")).status, 0)

    def test_it_is_typed(self):
        files = self.python("-c", "import sonde, os; print(os.listdir(sonde.__path__[0]))")
        self.assertIn("py.typed", files.stdout.decode())

    def test_a_monitor_that_runs_at_the_end_of_the_program(self):
        result = self.python("-c", "import sonde\n"
                             "class G:\n"
                             "    def utilization(self): return 1\n"
                             "m = sonde.ResourceMonitor(0.001, G())\n"
                             "m.start()\n", SONDE_LIBRARY=os.environ["SONDE_LIBRARY"])
        self.assertEqual((result.status, result.stderr), (0, ""), result)


if __name__ == "__main__":
    harness.main()
