"""run(): one command and what it used."""
from __future__ import annotations

import dataclasses
import os
import resource
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ._monitor import ResourceMonitor
from ._records import ResourceSample, ResourceSummary


@dataclass(frozen=True, kw_only=True)
class CommandSummary(ResourceSummary):
    """What a command and all its descendants used, and how it ended: `returncode` is negative for
    a signal, as in subprocess. `cpu_seconds` is exact, by the kernel's account; `duration_sec` is
    from its start to its end."""

    args: tuple[str, ...]
    returncode: int
    samples: tuple[ResourceSample, ...] = dataclasses.field(repr=False)


def _wait(process: subprocess.Popen[Any], monitor: ResourceMonitor) -> resource.struct_rusage:
    """Waits for the end; the last look is at the zombie, whose CPU time is all that it used."""
    try:
        try:
            monitor.start()
        except ProcessLookupError:
            pass  # it was quicker
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    except BaseException:
        process.kill()
        raise
    finally:
        monitor.stop()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return usage


def run(args: Sequence[str | os.PathLike[str]], *, sample_interval_sec: float = 0.1,
        gpu_profiler: Any = None, check: bool = False, **popen: Any) -> CommandSummary:
    """Runs a command to its end and tells what it and its descendants used.

    Further arguments are those of subprocess.Popen (`cwd`, `env`, `stdout`, …); output that is
    wanted goes to a file, because nobody reads a pipe here. check: as in subprocess.run(). A
    command that is over before the first sample has num_samples 0, and no figures of memory unless
    it had more than this process ever did.
    """
    if isinstance(args, (str, bytes)):
        raise TypeError("args: expected a list, not a command line")
    for stream in ("stdin", "stdout", "stderr"):
        if popen.get(stream) == subprocess.PIPE:
            raise ValueError(f"{stream}: nobody would be at the other end of a pipe; give a file")
    words = tuple(os.fspath(word) for word in args)
    ResourceMonitor(sample_interval_sec, gpu_profiler)  # what is wrong with them is said before
    # An exec hands the peak of the process that forked on to the command: up to here it says
    # nothing.
    inherited_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.monotonic()
    process = subprocess.Popen(words, **popen)
    monitor = ResourceMonitor(sample_interval_sec, gpu_profiler, pid=process.pid)
    usage = _wait(process, monitor)
    duration = time.monotonic() - started
    summary = monitor.summary
    peak = usage.ru_maxrss / 1024 if usage.ru_maxrss > inherited_kb else 0.0
    # What it did not wait for is in the samples only.
    cpu_seconds = max(summary.cpu_seconds or 0.0, usage.ru_utime + usage.ru_stime)
    figures = dataclasses.asdict(summary)
    figures.update(peak_rss_mb=max(summary.peak_rss_mb, peak), cpu_seconds=cpu_seconds,
                   duration_sec=duration, mean_cpu_percent=100 * cpu_seconds / duration)
    result = CommandSummary(args=words, returncode=process.returncode,
                            samples=tuple(monitor.samples), **figures)
    if check and result.returncode:
        raise subprocess.CalledProcessError(result.returncode, words)
    return result
