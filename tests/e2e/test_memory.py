#!/usr/bin/env python3
"""The memory of all processes of a run, with shared pages counted once: the interval contains the
truth, which the page tables of the processes give while they hold still."""
import array
import mmap
import os
import time

import daemon
import harness

MB = 1 << 20
PAGE = os.sysconf("SC_PAGESIZE")

# Bits of an entry of pagemap: present, and the number of the page frame.
PRESENT = 1 << 63
FRAME = (1 << 55) - 1

# (kind, number of children, MB, MB dirty); "sharing" describes the kinds.
CASES = (("fork", 4, 60, 10), ("own", 3, 20, 40), ("freed", 2, 60, 0), ("orphans", 3, 40, 0),
         ("huge", 3, 40, 20), ("vfork", 1, 40, 0), ("exec", 3, 30, 0), ("distinct", 3, 40, 0),
         ("same", 4, 40, 0))


def rollup_mb(pid, name):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as rollup:
        for line in rollup:
            if line.startswith(name + ":"):
                return int(line.split()[1]) / 1024
    raise AssertionError(f"no {name} of {pid}")


def page_frames(pid):
    """The frames of all pages in the page tables of a process; needs root."""
    frames = set()
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/pagemap", "rb") as table:
        for line in maps:
            first, last = (int(part, 16) // PAGE for part in line.split()[0].split("-"))
            if line.rstrip().endswith(("[vsyscall]", "[vvar]", "[vdso]", "[vvar_vclock]")):
                continue
            table.seek(first * 8)
            entries = array.array("Q", table.read((last - first) * 8))
            frames.update(entry & FRAME for entry in entries if entry & PRESENT)
    return frames


def truth_mb(pids):
    """The memory of these processes: at least, and at most. Only root may see which pages they
    share; otherwise pages that other programs share with them make a difference."""
    if harness.is_root():
        frames = set()
        for pid in pids:
            frames |= page_frames(pid)
        together = len(frames) * PAGE / MB
        return together, together
    pss = sum(rollup_mb(pid, "Pss") for pid in pids)
    return pss, pss + max(rollup_mb(pid, "Rss") for pid in pids)


def huge_pages():
    with open("/proc/vmstat", encoding="ascii") as vmstat:
        return [line for line in vmstat if line.startswith(("thp_fault_alloc ", "thp_collapse_alloc "))]


class Together(harness.TestCase):
    def start_sharing(self, prefix, options, kind, count, megabytes, dirty):
        """Starts it under `sonde run`, waits until it holds still; returns the run and its pids."""
        state = os.path.join(self.open_directory(), f"state-{len(self.started)}")
        os.mkdir(state, 0o700)
        if prefix:
            os.chown(state, harness.UNPRIVILEGED_UID, harness.UNPRIVILEGED_UID)
        summary = os.path.join(self.open_directory(), f"summary-{len(self.started)}")
        errors = os.path.join(self.open_directory(), f"stderr-{len(self.started)}")
        with open(errors, "wb") as stderr:
            process = self.start(
                *prefix, harness.SONDE, "run", "--summary", summary, "--interval", "20ms", *options, "--",
                os.path.join(harness.HELPERS, "sharing"), kind, str(count), str(megabytes), str(dirty),
                stderr=stderr, env=dict(self.environment, SONDE_STATE_DIR=state))
        process.summary_path, process.errors_path, process.state = summary, errors, state
        pids = [int(line[1]) for line in self.await_ready(process)[1]]
        self.assertEqual(len(pids), count + 2)
        return process, pids

    def measure(self, case, prefix=(), options=()):
        """Returns the summary and the truth, between whose ends all figures must lie."""
        process, pids = self.start_sharing(prefix, options, *case)
        low, high = truth_mb(pids)
        seen = "SELECT 1 FROM snapshots WHERE timestamp > ?"
        now = time.time()
        harness.wait_until(lambda: len(self.stored(seen, now, state=process.state)) > 2,
                           "it is sampled")
        self.assertEqual(truth_mb(pids), (low, high), "it holds still")
        result = self.finish(process)
        self.assertEqual(result.status, 0, result)
        return result.summary, low, high

    def check(self, case, prefix=(), options=()):
        huge_before = huge_pages()
        summary, low, high = self.measure(case, prefix, options)
        at_least, at_most = summary["peak_unique_min_mb"], summary["peak_unique_mb"]
        print(f"# {case[0]} {summary['collector']}: {at_least:.1f} to {at_most:.1f},"
              f" truth {low:.1f} to {high:.1f}, all {summary['peak_total_mb']:.1f}", flush=True)
        self.assertLessEqual(at_least, high)
        self.assertGreaterEqual(at_most, low)
        self.assertLessEqual(at_least, at_most)
        self.assertLessEqual(summary["peak_rss_mb"], at_least)
        self.assertLessEqual(at_most, summary["peak_total_mb"])
        for name in ("peak_unique_min_mb", "peak_unique_mb", "peak_total_mb"):
            self.assertEqual(summary["exactness"][name], "sampled", name)
        return summary, low, huge_before == huge_pages()

    def check_all(self, prefix=(), options=()):
        for case in CASES:
            with self.subTest(kind=case[0]):
                self.check(case, prefix, options)
        path = self.write("mapped", "x" * (20 * MB))
        with self.subTest(kind="file"):
            self.check(("file", 3, 20, path), prefix, options)

    @harness.needs_memory(1024)
    def test_own_user(self):
        self.check_all()

    @harness.needs_memory(1024)
    @harness.needs_root()
    @harness.needs_program("setpriv")
    def test_without_privileges(self):
        self.check_all(harness.unprivileged())

    @harness.needs_memory(1024)
    @harness.needs_root()
    def test_kernel_collector(self):
        if self.run_sonde("run", "--exact", "--", "true").status != 0:
            self.skipTest("no kernel collector here: its own tests state why")
        self.check_all(options=("--exact",))

    @harness.needs_memory(1024)
    def test_copies_do_not_count_twice(self):
        """What both sides of a fork can have written to since is little more than the truth."""
        summary, truth, is_quiet = self.check(("fork", 4, 100, 5))
        if is_quiet:  # other programs that make huge pages widen the interval
            self.assertLess(summary["peak_unique_mb"], truth + 40)
            self.assertGreater(summary["peak_total_mb"], truth + 200)

    @harness.needs_memory(1024)
    def test_measured(self):
        """--pss narrows the interval where sonde can read the page tables in time."""
        for case in CASES:
            for prefix in ((), harness.unprivileged()):
                with self.subTest(kind=case[0], prefix=prefix):
                    self.check(case, prefix, ("--pss",))

    @harness.needs_memory(1024)
    def test_measured_memory_of_others(self):
        """Shared memory that a process outside the run has mapped, too."""
        size = 30 * MB
        path = os.path.join(self.open_directory(), "shared")
        for number in range(3):
            descriptor = os.memfd_create("shared")
            self.addCleanup(os.close, descriptor)
            os.ftruncate(descriptor, size)
            os.symlink(f"/proc/{os.getpid()}/fd/{descriptor}", f"{path}{number}")
            shared = mmap.mmap(descriptor, size)
            self.addCleanup(shared.close)
            for page in range(0, size, PAGE):
                shared[page] = 1
        summary, _, _ = self.check(("files", 3, size // MB, path), options=("--pss",))
        self.assertGreaterEqual(summary["peak_unique_mb"], 3 * size // MB)

    @harness.needs_memory(1024)
    def test_programs_count_completely(self):
        summary, truth, _ = self.check(("exec", 4, 60, 0))
        self.assertGreater(summary["peak_unique_min_mb"], truth - 20)


class Registered(daemon.TestCase):
    """The daemon measures processes that it did not start, some of them forked before."""

    @harness.needs_memory(1024)
    def test_job_of_a_scheduler(self):
        sonde = self.daemon(interval=0.05)
        process = self.start(os.path.join(harness.HELPERS, "sharing"), "fork", "4", "60", "10")
        main_pid, lines = self.await_ready(process)
        pids = [int(line[1]) for line in lines]
        low, high = truth_mb(pids)
        run_id = sonde.rpc("job.start", job_id="x", pid=main_pid)["run_id"]
        harness.wait_until(lambda: set(pids) <= set(sonde.pids(run_id)), "all are sampled")
        sonde.await_snapshots(2)
        usage = sonde.rpc("daemon.top")["jobs"][0]
        self.assertEqual(truth_mb(pids), (low, high), "it holds still")
        process.stdin.close()
        process.wait()
        sonde.rpc("job.finish", job_id="x", outcome="success")
        job = self.await_end(run_id)
        self.assertLessEqual(job["peak_unique_min_mb"], high)
        self.assertGreaterEqual(job["peak_unique_mb"], low)
        self.assertLessEqual(usage["unique_min_mb"], high)
        self.assertGreaterEqual(usage["unique_mb"], low)
        self.assertGreaterEqual(job["peak_total_mb"], job["peak_rss_mb"])
        self.assertGreaterEqual(job["peak_unique_min_mb"], job["peak_rss_mb"])


if __name__ == "__main__":
    harness.main()
