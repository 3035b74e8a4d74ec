"""run(): one command and what it used."""
from __future__ import annotations

import contextlib
import dataclasses
import errno
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
    from its start to its end.

    While this program ignores SIGCHLD (or another thread of it waits for the command), the kernel
    tells nobody how it ended: `returncode` is None, and CPU time only what was sampled."""

    args: tuple[str, ...]
    returncode: int | None
    samples: tuple[ResourceSample, ...] = dataclasses.field(repr=False)


@dataclass(frozen=True)
class _End:
    returncode: int | None
    usage: resource.struct_rusage | None


def _reap(process: subprocess.Popen[Any]) -> _End:
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except ChildProcessError:
        process.returncode = 0  # so that it does not wait for another of that pid
        return _End(None, None)
    process.returncode = os.waitstatus_to_exitcode(status)
    return _End(process.returncode, usage)


def _wait(process: subprocess.Popen[Any], monitor: ResourceMonitor) -> _End:
    """Waits for the end; the last look is at the zombie, whose CPU time is all that it used."""
    try:
        with contextlib.suppress(ProcessLookupError):  # it was quicker
            monitor.start()
        with contextlib.suppress(ChildProcessError):  # nobody is told of its end
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    except BaseException:
        process.kill()
        raise
    finally:
        monitor.stop()
        end = _reap(process)
    return end


def _figures(summary: ResourceSummary, usage: resource.struct_rusage | None, inherited_kb: int,
             duration: float) -> dict[str, Any]:
    """What was sampled, with what the kernel has told at the end."""
    peak, cpu_seconds = summary.peak_rss_mb, summary.cpu_seconds if summary.num_samples else None
    if usage:
        if usage.ru_maxrss > inherited_kb:
            peak = max(peak, usage.ru_maxrss / 1024)
        # What it did not wait for is in the samples only.
        cpu_seconds = max(cpu_seconds or 0.0, usage.ru_utime + usage.ru_stime)
    figures = dataclasses.asdict(summary)
    figures.update(
        peak_rss_mb=peak, cpu_seconds=cpu_seconds, duration_sec=duration,
        mean_cpu_percent=None if cpu_seconds is None else 100 * cpu_seconds / duration)
    return figures


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
    if not words:
        raise ValueError("args: there is no command in it")
    ResourceMonitor(sample_interval_sec, gpu_profiler)  # what is wrong with them is said before
    started = time.monotonic()
    process = subprocess.Popen(words, **popen)
    # The command inherits the peak of the process that forked, so a peak up to this one is unknown.
    # It is read after the fork, until which it can grow.
    inherited_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    monitor = ResourceMonitor(sample_interval_sec, gpu_profiler, pid=process.pid)
    end = _wait(process, monitor)
    duration = time.monotonic() - started
    figures = _figures(monitor.summary, end.usage, inherited_kb, duration)
    if check and end.returncode is None:
        raise ChildProcessError(errno.ECHILD, "check: how the command ended is not known, because "
                                "SIGCHLD is ignored or somebody else has waited for it")
    if check and end.returncode:
        raise subprocess.CalledProcessError(end.returncode, words)
    return CommandSummary(args=words, returncode=end.returncode, samples=tuple(monitor.samples),
                          **figures)
