"""run(): runs one command and reports its usage."""
from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import resource
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._adopted import AdoptedChildren, LeftUsage, discards_children
from ._monitor import ResourceMonitor
from ._records import ResourceSample, ResourceSummary


# The samples round the time of ended children up by at most two ticks.
_CPU_SLACK_SEC = 0.02


@dataclass(frozen=True, kw_only=True)
class CommandSummary(ResourceSummary):
    """The usage of a command and all its descendants, and its result: `returncode` is negative for
    a signal, as in subprocess. `duration_sec` is the time from its start to its end.

    `exactness` states how good `cpu_seconds` and `peak_rss_mb` are: "exact", "sampled" or
    "lower_bound". CPU time comes from the kernel. It is a lower bound if descendants for which the
    command did not wait cannot be counted, see run(). The three figures of memory are None if the
    command ended before the first sample.

    If this program ignores SIGCHLD, or another thread waits for the command, the result is not
    available: `returncode` is None, and the CPU time is that of the samples."""

    # Figures without a sample are None here, not 0.
    peak_rss_mb: float | None  # type: ignore[assignment]
    mean_rss_mb: float | None  # type: ignore[assignment]
    memory_growth_mb: float | None  # type: ignore[assignment]
    args: tuple[str, ...]
    returncode: int | None
    exactness: Mapping[str, str]
    samples: tuple[ResourceSample, ...] = dataclasses.field(repr=False)

    def __str__(self) -> str:
        is_bound = self.exactness.get("cpu_seconds") == "lower_bound"
        return super().__str__().replace("CPU ", "CPU ≥ " if is_bound else "CPU ")


@dataclass(frozen=True)
class _End:
    returncode: int | None
    usage: resource.struct_rusage | None
    left: LeftUsage


def _reap(process: subprocess.Popen[Any], adopted: AdoptedChildren) -> _End:
    discards = discards_children(process.pid)
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except ChildProcessError:
        process.returncode = 0  # prevents a wait for another process with the same pid
        return _End(None, None, LeftUsage())
    process.returncode = os.waitstatus_to_exitcode(status)
    left = adopted.reap()
    left.is_complete &= not discards
    return _End(process.returncode, usage, left)


def _wait(process: subprocess.Popen[Any], monitor: ResourceMonitor, adopted: AdoptedChildren) -> _End:
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
        end = _reap(process, adopted)
    return end


def _figures(summary: ResourceSummary, end: _End, inherited_kb: int, duration: float) -> dict[str, Any]:
    """The sampled figures, completed with those that the kernel reports at the end."""
    is_sampled = summary.num_samples > 0
    peak, sampled = (summary.peak_rss_mb, summary.cpu_seconds) if is_sampled else (None, None)
    exactness = {}
    cpu_seconds = sampled
    if end.usage:
        for peak_kb in (end.usage.ru_maxrss, end.left.peak_kb):
            if peak_kb > inherited_kb:
                peak = max(peak or 0.0, peak_kb / 1024)
        of_kernel = end.usage.ru_utime + end.usage.ru_stime + end.left.cpu_seconds
        # The kernel's figure lacks what no process waited for; then the samples may have more.
        is_exact = end.left.is_complete and (sampled or 0.0) - of_kernel <= _CPU_SLACK_SEC
        cpu_seconds = of_kernel if is_exact else max(sampled or 0.0, of_kernel)
        exactness["cpu_seconds"] = "exact" if is_exact else "lower_bound"
    elif sampled is not None:
        exactness["cpu_seconds"] = "lower_bound"
    if peak is not None:
        exactness["peak_rss_mb"] = "sampled" if is_sampled else "lower_bound"
    figures = dataclasses.asdict(summary)
    figures.update(
        peak_rss_mb=peak, cpu_seconds=cpu_seconds, duration_sec=duration, exactness=exactness,
        mean_cpu_percent=None if cpu_seconds is None else 100 * cpu_seconds / duration)
    if not is_sampled:
        figures.update(mean_rss_mb=None, memory_growth_mb=None)
    return figures


def run(args: Sequence[str | os.PathLike[str]], *, sample_interval_sec: float = 0.1,
        gpu_profiler: Any = None, check: bool = False, **popen: Any) -> CommandSummary:
    """Runs a command to its end and returns the usage of it and its descendants.

    Further arguments are passed to subprocess.Popen (`cwd`, `env`, `stdout`, …). Redirect output to
    a file: run() does not read pipes. check: as in subprocess.run(). A command that ends before the
    first sample has num_samples 0, and a peak of memory only if that exceeds the peak of this
    process.

    Meanwhile this process adopts orphans, so that descendants for which the command did not wait
    count, too. It cannot do so if it has other threads or children, if it adopts orphans for another
    purpose, or with a gpu_profiler, whose methods may start processes. The CPU time is then a lower
    bound, as it is if such a descendant runs on.
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
    with AdoptedChildren(may_adopt=gpu_profiler is None) as adopted:
        process = subprocess.Popen(words, **popen)
        # The command inherits the peak of this process, so a peak up to that one is unknown. It is read
        # after the fork, because it can grow until then.
        inherited_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        monitor = ResourceMonitor(sample_interval_sec, gpu_profiler, pid=process.pid)
        end = _wait(process, monitor, adopted)
    duration = time.monotonic() - started
    figures = _figures(monitor.summary, end, inherited_kb, duration)
    if check and end.returncode is None:
        raise ChildProcessError(errno.ECHILD, "check: the result of the command is unknown, "
                                "because SIGCHLD is ignored or another thread has waited for it")
    if check and end.returncode:
        raise subprocess.CalledProcessError(end.returncode, words)
    return CommandSummary(args=words, returncode=end.returncode, samples=tuple(monitor.samples),
                          **figures)
