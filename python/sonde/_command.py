"""run(): runs one command and reports its usage."""
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
    """The usage of a command and all its descendants, and its result: `returncode` is negative for
    a signal, as in subprocess. `cpu_seconds` is exact, from the kernel; `duration_sec` is the time
    from its start to its end.

    If this program ignores SIGCHLD, or another thread waits for the command, the result is not
    available: `returncode` is None, and the CPU time is that of the samples."""

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
        process.returncode = 0  # prevents a wait for another process with the same pid
        return _End(None, None)
    process.returncode = os.waitstatus_to_exitcode(status)
    return _End(process.returncode, usage)


def _wait(process: subprocess.Popen[Any], monitor: ResourceMonitor) -> _End:
    """Waits for the end. The last sample is that of the zombie, which has the whole CPU time."""
    try:
        with contextlib.suppress(ProcessLookupError):  # it has already ended
            monitor.start()
        with contextlib.suppress(ChildProcessError):  # the kernel has reaped it
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
    """The sampled figures, completed with those that the kernel reports at the end."""
    peak, cpu_seconds = summary.peak_rss_mb, summary.cpu_seconds if summary.num_samples else None
    if usage:
        if usage.ru_maxrss > inherited_kb:
            peak = max(peak, usage.ru_maxrss / 1024)
        # Only the samples include descendants that it did not wait for.
        cpu_seconds = max(cpu_seconds or 0.0, usage.ru_utime + usage.ru_stime)
    figures = dataclasses.asdict(summary)
    figures.update(
        peak_rss_mb=peak, cpu_seconds=cpu_seconds, duration_sec=duration,
        mean_cpu_percent=None if cpu_seconds is None else 100 * cpu_seconds / duration)
    return figures


def run(args: Sequence[str | os.PathLike[str]], *, sample_interval_sec: float = 0.1,
        gpu_profiler: Any = None, check: bool = False, **popen: Any) -> CommandSummary:
    """Runs a command to its end and returns the usage of it and its descendants.

    Further arguments are passed to subprocess.Popen (`cwd`, `env`, `stdout`, …). Redirect output to
    a file: run() does not read pipes. check: as in subprocess.run(). A command that ends before the
    first sample has num_samples 0, and a peak of memory only if that exceeds the peak of this
    process.
    """
    if isinstance(args, (str, bytes)):
        raise TypeError("args: expected a list, not a command line")
    for stream in ("stdin", "stdout", "stderr"):
        if popen.get(stream) == subprocess.PIPE:
            raise ValueError(f"{stream}: PIPE is not supported; pass a file")
    words = tuple(os.fspath(word) for word in args)
    if not words:
        raise ValueError("args: empty, expected a command")
    ResourceMonitor(sample_interval_sec, gpu_profiler)  # checks the arguments before the start
    started = time.monotonic()
    process = subprocess.Popen(words, **popen)
    # The command inherits the peak of this process, so a peak up to that one is unknown. It is read
    # after the fork, because it can grow until then.
    inherited_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    monitor = ResourceMonitor(sample_interval_sec, gpu_profiler, pid=process.pid)
    end = _wait(process, monitor)
    duration = time.monotonic() - started
    figures = _figures(monitor.summary, end.usage, inherited_kb, duration)
    if check and end.returncode is None:
        raise ChildProcessError(errno.ECHILD, "check: the result of the command is unknown, "
                                "because SIGCHLD is ignored or another thread has waited for it")
    if check and end.returncode:
        raise subprocess.CalledProcessError(end.returncode, words)
    return CommandSummary(args=words, returncode=end.returncode, samples=tuple(monitor.samples),
                          **figures)
