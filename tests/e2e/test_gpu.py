#!/usr/bin/env python3
"""GPUs on a machine without one: a fake driver library (tests/unit/fake-nvml.c), programs named
nvidia-smi, and fake trees of /sys; with the real daemon and `sonde run`."""
import json
import os
import pathlib
import unittest

import clients
import daemon
import harness

NVML = os.environ.get("NVML", "build/tests/unit/nvml-gpu")

CONFIG = "profiler:\n  gpu_enabled: {}\n  scope: all\n"
MB = 1 << 20

# What the fake driver returns; its second device does not answer.
FAKE_GPUS = [
    {"index": index, "utilization_pct": 30 + index, "memory_used_mb": 1024 * (1 + index),
     "memory_total_mb": 24576, "temperature_c": 60 + index, "name": f"Fake {'ABC'[index]}, 24 GB",
     "vendor": "NVIDIA", "clock_mhz": 1500 + index, "power_w": 250.5}
    for index in (0, 2)
]
FIGURES = ("utilization_pct", "memory_used_mb", "memory_total_mb", "temperature_c", "clock_mhz",
           "power_w")

# A command that ends when the `sonde run` above it has loaded the driver.
LOADS = "until grep -q libnvidia-ml /proc/$PPID/maps; do sleep 0.01; done"

SMI_ANSWER = """\
case $1 in
*query-gpu*) echo '0, 12, 100, 200, 40, 900, 33.5, Fake, one'
             echo '1, [N/A], 5, 200, [Not Supported], 901, 34.5, Fake two';;
*) echo "PID, 77";;
esac
"""


# The inode of the initial pid namespace; in another one the pids of NVIDIA's driver mean nothing.
KNOWS_PIDS = os.stat("/proc/self/ns/pid").st_ino == 0xEFFFFFFC


def has_figures(gpu):
    return gpu["utilization_pct"] is not None


def sees_all_files():
    """Whether the files of pid 1 can be read: otherwise the processes on a card whose driver does not
    list them are unknown."""
    try:
        for name in os.listdir("/proc/1/fd"):
            os.readlink(f"/proc/1/fd/{name}")
    except PermissionError:
        return False
    except FileNotFoundError:
        pass
    return True


class GpuTestCase(daemon.TestCase):
    def setUp(self):
        super().setUp()
        self.nvml_file = self.path("nvml")
        self.set_nvml("")

    def set_nvml(self, text):
        """Sets what the fake driver returns from now on, atomically."""
        path = self.write("nvml.new", text)
        os.replace(path, self.nvml_file)

    def nvml(self, mode=None):
        """An environment with that driver as the machine's."""
        environment = {"LD_LIBRARY_PATH": os.path.abspath(NVML), "FAKE_NVML_FILE": self.nvml_file}
        return dict(environment, FAKE_NVML=mode) if mode else environment

    def with_smi(self, script):
        """An environment in which NVML is broken and nvidia-smi is this script."""
        os.makedirs(self.path("bin"), exist_ok=True)
        self.write("bin/nvidia-smi", f"#!/bin/sh\n{script}\n", mode=0o755)
        path = f"{self.path('bin')}:{self.environment['PATH']}"
        return dict(self.nvml("broken"), PATH=path)

    def await_gpus(self, sonde, count, matches=lambda gpus: True):
        def are_there():
            gpus = (sonde.top() or {"gpus": []})["gpus"]
            return [gpus] if len(gpus) == count and matches(gpus) else None
        return harness.wait_until(are_there, lambda: f"{count} GPUs: {sonde.top()['gpus']}, "
                                                     f"{sonde.rpc('daemon.status')['gpu']}")[0]

    def await_status(self, sonde, words):
        return harness.wait_until(lambda: words in sonde.rpc("daemon.status")["gpu"],
                                  lambda: f"'{words}': {sonde.rpc('daemon.status')['gpu']}")

    def query(self, sonde, sql, *values):
        return harness.read_rows(os.path.join(sonde.state, "monitor.db"), sql, *values)


class NvmlTest(GpuTestCase):
    def test_figures_everywhere_the_same(self):
        pid, other = self.start("sleep", "1000").pid, self.start("sleep", "1000").pid
        self.set_nvml(f"compute 0 {pid} {300 * MB}\ngraphics 2 {pid} {20 * MB}\n"
                       f"compute 0 {os.getpid()} -1\ncompute 2 {other} {7 * MB}\n")
        with daemon.Daemon(self, config=CONFIG.format("true"), env=self.nvml()) as sonde:
            self.await_gpus(sonde, 2, lambda gpus: gpus == FAKE_GPUS)
            memory = [sonde.processes(pid=each)[0]["gpu_memory_mb"] for each in (pid, other)]
            self.assertEqual(memory, [320, 7] if KNOWS_PIDS else [None, None])
            self.assertIsNone(sonde.processes(pid=os.getpid())[0]["gpu_memory_mb"])
            # A driver that answers late, as on a busy machine, has no figures meanwhile.
            harness.wait_until(
                lambda: b"NVML: 2 devices" in self.run_sonde("status").stdout, "they are shown")
            top = self.start(harness.SONDE, "top", "--json", "--interval", "0.2")
            frames = map(harness.strict_json, map(bytes.decode, top.stdout))
            self.assertTrue(any(frame["gpus"] == FAKE_GPUS for frame in frames))
            top.kill()
            sonde.await_snapshots(2)
            count, *arrays = harness.wait_until(
                lambda: self.query(sonde, "SELECT gpu_count, gpu_utilization_pct, "
                                          "gpu_memory_used_mb, gpu_temperature FROM snapshots "
                                          "WHERE gpu_utilization_pct <> '[]' LIMIT 1"),
                "a stored snapshot with GPUs")[0]
            self.assertEqual(count, 2)
            self.assertEqual([json.loads(array) for array in arrays],
                             [[30, 32], [1024, 3072], [60, 62]])
            stored = self.query(sonde, "SELECT gpu_memory_mb FROM process_metrics WHERE pid = ? "
                                       "AND gpu_memory_mb IS NOT NULL LIMIT 1", pid)
            self.assertEqual(stored, [(320,)] if KNOWS_PIDS else [])
        history = self.run_sonde("top", "--json", "--history", "1h")
        frames = [harness.strict_json(line) for line in history.stdout.decode().split("\n")[:-1]]
        self.assertIn(FAKE_GPUS, [frame["gpus"] for frame in frames])

    def test_a_driver_that_hangs(self):
        """Its figures become unknown, ticks continue, it recovers; and it delays no stop."""
        with daemon.Daemon(self, config=CONFIG.format("true"), env=self.nvml()) as sonde:
            self.await_gpus(sonde, 2)
            self.set_nvml("stuck\n")
            gpus = self.await_gpus(sonde, 2, lambda gpus: not any(map(has_figures, gpus)))
            self.assertEqual([gpu["name"] for gpu in gpus], ["Fake A, 24 GB", "Fake C, 24 GB"])
            for gpu in gpus:
                self.assertEqual([gpu[name] for name in FIGURES], [None] * len(FIGURES))
            self.await_status(sonde, "NVML: does not answer")
            sonde.await_snapshots(10)
            threads = len(os.listdir(f"/proc/{sonde.pid}/task"))
            sonde.await_snapshots(10)
            self.assertEqual(len(os.listdir(f"/proc/{sonde.pid}/task")), threads)
            row = harness.wait_until(
                lambda: self.query(sonde, "SELECT gpu_count, gpu_utilization_pct, gpu_temperature "
                                          "FROM snapshots WHERE gpu_utilization_pct = '[]' "
                                          "AND gpu_count > 0 LIMIT 1"), "a stored one without")
            self.assertEqual(row, [(2, "[]", "[]")])
            self.set_nvml("")
            self.await_gpus(sonde, 2, lambda gpus: all(map(has_figures, gpus)))
            self.set_nvml("stuck\n")
            sonde.await_snapshots(3)
            sonde.stop()

    def test_driver_that_never_initialises(self):
        with daemon.Daemon(self, config=CONFIG.format("true"), env=self.nvml("stuck-init")) as sonde:
            sonde.await_snapshots(5)
            self.assertEqual(sonde.top()["gpus"], [])
            self.await_status(sonde, "NVML: no answer yet")

    def test_switched_by_reload(self):
        with daemon.Daemon(self, config=CONFIG.format("false"), env=self.nvml()) as sonde:
            sonde.await_snapshots(3)
            self.assertEqual(sonde.top()["gpus"], [])
            self.await_status(sonde, "off (profiler.gpu_enabled is false)")
            sonde.configure(CONFIG.format("true"))
            sonde.rpc("daemon.reload")
            self.await_gpus(sonde, 2)
            sonde.configure(CONFIG.format("false"))
            sonde.rpc("daemon.reload")
            self.await_gpus(sonde, 0)
            path = pathlib.Path(f"/proc/{sonde.pid}/maps")
            harness.wait_until(lambda: "libnvidia-ml" not in path.read_text(encoding="utf-8"),
                               "the driver's library is unloaded")

    def test_no_gpu(self):
        """Configured but missing: logged once. Not configured: nothing is logged or loaded."""
        environment = {"PATH": "/nowhere"}
        with daemon.Daemon(self, config=CONFIG.format("true"), env=environment) as sonde:
            harness.wait_until(lambda: "no GPU, though profiler.gpu_enabled is true" in sonde.log,
                               lambda: f"it is said: {sonde.log}")
            sonde.await_snapshots(5)
            self.assertEqual(sonde.log.count("no GPU"), 1)
            self.assertIn("libnvidia-ml.so.1", sonde.log)
            self.assertEqual(sonde.top()["gpus"], [])

    @harness.needs_namespaces()
    def test_pids_of_another_namespace(self):
        """Pid 1 of the driver is not pid 1 here."""
        self.set_nvml(f"compute 0 1 {7 * MB}\n")
        with daemon.Daemon(self, config=CONFIG.format("true"), env=self.nvml(),
                           prefix=("unshare", "--fork", "--pid", "--mount-proc",
                                   "--kill-child")) as sonde:
            self.await_gpus(sonde, 2)
            self.assertEqual([process["gpu_memory_mb"] for process in sonde.processes(pid=1)],
                             [None])
            sonde.kill()

    @unittest.skipIf(os.path.exists("/dev/nvidiactl") or os.path.exists("/sys/class/drm"),
                             "needs a machine without GPUs")
    def test_no_device_no_driver(self):
        with daemon.Daemon(self, config=CONFIG.format("auto"), env=self.nvml()) as sonde:
            sonde.await_snapshots(5)
            self.assertEqual(sonde.top()["gpus"], [])
            self.assertEqual(sonde.rpc("daemon.status")["gpu"], "no device")
            self.assertNotIn("GPU", sonde.log)
            with open(f"/proc/{sonde.pid}/maps", encoding="utf-8") as maps:
                self.assertNotIn("libnvidia-ml", maps.read())


class RunTest(GpuTestCase):
    """`sonde run` without a daemon."""

    def setUp(self):
        super().setUp()
        self.write("config/sonde/sonde.yaml", CONFIG.format("true"))

    def test_run_stores_them(self):
        script = f"echo compute 2 $$ {40 * MB} > {self.nvml_file}.1; mv {self.nvml_file}.1 " \
                 f"{self.nvml_file}; read end; exit 0"
        run = self.start_sonde("--interval", "100ms", "--", "sh", "-c", script,
                               env=dict(self.environment, **self.nvml()))
        arrays = harness.wait_until(
            lambda: self.stored("SELECT DISTINCT gpu_count, gpu_utilization_pct FROM snapshots "
                                "WHERE gpu_count > 0"), "a snapshot with GPUs")
        self.assertEqual([(count, json.loads(text)) for count, text in arrays], [(2, [30, 32])])
        memory = "SELECT DISTINCT gpu_memory_mb FROM process_metrics WHERE gpu_memory_mb IS NOT NULL"
        if KNOWS_PIDS:
            harness.wait_until(lambda: self.stored(memory), "a process with memory of a GPU")
        self.assertEqual(self.finish(run).status, 0)
        self.assertEqual(self.stored(memory), [(40,)] if KNOWS_PIDS else [])

    def test_a_driver_that_hangs_holds_up_no_command(self):
        for command in (("true",), ("sleep", "0.5")):
            self.run_job(*command, env=dict(self.environment, **self.nvml("stuck-init")))

    def test_a_short_command_loads_no_driver(self):
        """A command that ends as soon as sonde has loaded the driver takes at least as long as the
        delay, so a shorter one loads none. tests/unit/test-gpu-watch.c shows the order of events."""
        summary = self.run_job("sh", "-c", LOADS, env=dict(self.environment, **self.nvml())).summary
        self.assertGreaterEqual(summary["wall_seconds"], harness.GPU_DELAY_SECONDS)

    def test_daemon_that_keeps_the_run_reads_them(self):
        """Then the driver is not loaded twice."""
        script = "read gate; grep -c libnvidia-ml /proc/$PPID/maps"
        with daemon.Daemon(self, config=CONFIG.format("true"), env=self.nvml()) as sonde:
            self.await_gpus(sonde, 2)
            run = self.start_sonde("--job", "kept", "--", "sh", "-c", script,
                                   env=dict(self.environment, **self.nvml()))
            harness.wait_until(lambda: sonde.processes(job_id="kept"), "the daemon keeps the run")
            sonde.await_snapshots(5)  # a run that the daemon does not keep loads it after 100 ms
            result = self.finish(run)
            self.assertEqual(result.stdout, b"0\n", result)
        self.run_job("sh", "-c", LOADS, env=dict(self.environment, **self.nvml()))

    def test_missing_gpu_is_logged_once(self):
        run = self.start_sonde("--", "sh", "-c", "read end; exit 0",
                               env=dict(self.environment, **self.nvml("none"), PATH="/usr/bin:/bin"))
        errors = pathlib.Path(run.errors_path)
        harness.wait_until(lambda: "no GPU" in errors.read_text(encoding="utf-8"), "it is said")
        result = self.finish(run)
        self.assertEqual(result.status, 0, result)
        self.assertEqual(result.stderr.count("no GPU"), 1, result)


class SmiTest(GpuTestCase):
    """Programs named nvidia-smi."""

    def test_figures(self):
        pid = self.start("sleep", "1000").pid
        environment = self.with_smi(SMI_ANSWER.replace("PID", str(pid)))
        with daemon.Daemon(self, config=CONFIG.format("true"), env=environment) as sonde:
            gpus = self.await_gpus(sonde, 2)
            self.assertEqual(gpus[0], {"index": 0, "utilization_pct": 12, "memory_used_mb": 100,
                                       "memory_total_mb": 200, "temperature_c": 40,
                                       "name": "Fake, one", "vendor": "NVIDIA", "clock_mhz": 900,
                                       "power_w": 33.5})
            self.assertIsNone(gpus[1]["utilization_pct"])
            self.assertIsNone(gpus[1]["temperature_c"])
            self.assertEqual(sonde.processes(pid=pid)[0]["gpu_memory_mb"],
                             77 if KNOWS_PIDS else None)
            self.await_status(sonde, "nvidia-smi: 2 devices, without NVML")

    def check_bad(self, script, words):
        """The daemon continues, logs the reason, and leaves no process behind."""
        marks = self.path("pids")
        environment = self.with_smi(f"echo $$ >> {marks}\n{script.replace('MARKS', marks)}")
        with daemon.Daemon(self, config=CONFIG.format("false"), env=environment) as sonde:
            sonde.await_snapshots(5)
            before_kb = clients.rss_kb(sonde.pid)
            sonde.configure(CONFIG.format("true"))
            sonde.rpc("daemon.reload")
            began = sonde.rpc("daemon.status")["snapshots"]
            self.await_status(sonde, words)
            harness.wait_until(lambda: sonde.rpc("daemon.status")["snapshots"] > began + 2,
                               "ticks go on")
            self.assertEqual(sonde.top()["gpus"], [])
            if not harness.is_sanitized():
                self.assertLess(clients.rss_kb(sonde.pid), before_kb + 8 * 1024)
            pids = [int(word) for word in self.read("pids").split()]
            harness.wait_until(lambda: not any(map(harness.is_alive, pids)),
                               lambda: f"gone: {[pid for pid in pids if harness.is_alive(pid)]}")
            self.assertEqual(harness.children_of(sonde.pid), [])
        return pids

    def test_hangs(self):
        self.check_bad("trap '' TERM INT; sleep 1000 & echo $! >> MARKS; wait; wait",
                       "nvidia-smi does not answer within 5 s")

    def test_floods(self):
        """300 MB are far more than the daemon may grow by."""
        self.check_bad("echo $$ >> MARKS; exec head -c 300000000 /dev/zero",
                       "nvidia-smi printed too much")

    def test_garbage(self):
        self.check_bad("head -c 100000 /dev/urandom", "nvidia-smi lists no device")

    def test_dies_half_way(self):
        self.check_bad("printf '0, 12, 100, 200, 40, 900, 33.5, Fake\\n1, 12, 1'; kill -9 $$",
                       "nvidia-smi was killed by signal 9")

    def test_leaves_children(self):
        self.check_bad("sleep 1000 & echo $! >> MARKS; sleep 1000 & echo $! >> MARKS; exit 3",
                       "nvidia-smi ended with status 3")

    def test_ends_when_sonde_is_killed(self):
        marks = self.path("pids")
        environment = self.with_smi(f"echo $$ >> {marks}; exec sleep 1000")
        sonde = daemon.Daemon(self, config=CONFIG.format("true"), env=environment).start()
        pid = int(harness.wait_until(lambda: os.path.exists(marks) and self.read("pids"),
                                     "it runs"))
        sonde.kill()
        harness.wait_until(lambda: not harness.is_alive(pid), "it is gone")

    def test_stop_does_not_wait_for_it(self):
        marks = self.path("pids")
        environment = self.with_smi(f"trap '' TERM INT; echo $$ >> {marks}; while :; do sleep 1000; done")
        with daemon.Daemon(self, config=CONFIG.format("true"), env=environment) as sonde:
            pid = int(harness.wait_until(lambda: os.path.exists(marks) and self.read("pids"),
                                         "it runs"))
            sonde.stop()
            harness.wait_until(lambda: not harness.is_alive(pid), "it is gone")


FDINFO = """\
pos:\t0
drm-driver:\ti915
drm-client-id:\t{client}
drm-pdev:\t0000:00:02.0
drm-resident-system0:\t{memory} MiB
drm-engine-render:\t{busy} ns
"""


@harness.needs_namespaces()
class SysfsTest(GpuTestCase):
    """AMD's and Intel's cards, in a mount namespace with a fake /sys/class."""

    def put(self, path, text):
        path = pathlib.Path(self.path("class/drm"), path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def put_card(self, number, driver, pci_id, pdev, figures):
        self.put(f"card{number}/device/uevent",
                 f"DRIVER={driver}\nPCI_ID={pci_id}\nPCI_SLOT_NAME={pdev}\n")
        self.put(f"card{number}/device/drm/renderD{128 + number}/dev", "226:128\n")
        for name, value in figures.items():
            self.put(f"card{number}/{name}", f"{value}\n")

    def world(self, pid):
        """The daemon finds the cards and a process with one of their files."""
        mounts = f"mount --bind {self.path('class')} /sys/class && " \
                 f"mount --bind {self.path('fd')} /proc/{pid}/fd && " \
                 f"mount --bind {self.path('fdinfo')} /proc/{pid}/fdinfo && exec \"$@\""
        return ("unshare", "--mount", "sh", "-c", mounts, "sh")

    def write_fdinfo(self, client, busy, memory):
        path = self.write("fdinfo.new", FDINFO.format(client=client, busy=busy, memory=memory))
        os.replace(path, self.path("fdinfo/3"))

    def test_cards(self):
        pid = self.start("sleep", "1000").pid
        os.makedirs(self.path("fd"))
        os.makedirs(self.path("fdinfo"))
        os.symlink("/dev/dri/renderD128", self.path("fd/3"))
        self.write_fdinfo(5, 1000, 64)
        self.put_card(0, "i915", "8086:A7A0", "0000:00:02.0", {"gt_act_freq_mhz": 1300})
        self.put_card(1, "amdgpu", "1002:744C", "0000:03:00.0", {
            "device/gpu_busy_percent": 37, "device/mem_info_vram_used": 3 << 30,
            "device/mem_info_vram_total": 20 << 30, "device/hwmon/hwmon4/temp1_input": 54500,
            "device/hwmon/hwmon4/freq1_input": 2431000000,
            "device/hwmon/hwmon4/power1_average": 118250000})
        with daemon.Daemon(self, config=CONFIG.format("auto"), prefix=self.world(pid)) as sonde:
            knows_all = sees_all_files()
            intel, amd = self.await_gpus(
                sonde, 2, lambda gpus: has_figures(gpus[0 if knows_all else 1]))
            self.assertEqual(amd, {"index": 1, "utilization_pct": 37, "memory_used_mb": 3072,
                                   "memory_total_mb": 20480, "temperature_c": 54.5,
                                   "name": "amdgpu 1002:744C", "vendor": "AMD", "clock_mhz": 2431,
                                   "power_w": 118.25})
            self.assertEqual((intel["vendor"], intel["clock_mhz"], intel["memory_used_mb"]),
                             ("Intel", 1300, None))
            self.assertEqual(intel["utilization_pct"], 0 if knows_all else None)
            self.assertEqual(sonde.processes(pid=pid)[0]["gpu_memory_mb"], 64)
            # from now on its engine is busy all the time, longer than the test lasts
            self.write_fdinfo(5, 10 ** 15, 96)
            if knows_all:
                self.await_gpus(sonde, 2, lambda gpus: gpus[0]["utilization_pct"] == 100)
            harness.wait_until(
                lambda: sonde.processes(pid=pid)[0]["gpu_memory_mb"] == 96, "it has grown")
            self.await_status(sonde, "kernel (DRM): 2 devices")


if __name__ == "__main__":
    harness.main()
