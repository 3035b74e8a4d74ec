"""ResourceMonitor: libsonde's monitor as a context manager."""
from __future__ import annotations

import contextlib
import ctypes
import errno
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from . import _library
from ._gpu import Gpu, source_of
from ._library import known
from ._records import ResourceSample, ResourceSummary

_PID_MAX = 2**31 - 1
_SAMPLES_RANGE = (16, 2**24)


@dataclass(frozen=True, kw_only=True)
class Phase:
    """The time between two marks. `timestamp` is that of its first sample."""

    name: str
    timestamp: float
    summary: ResourceSummary


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How punctual the samples were: scheduled samples taken (`ticks`) and skipped (`missed`), and
    their delay in microseconds (None without a tick)."""

    ticks: int
    missed: int
    mean_late_us: float | None
    max_late_us: float | None


def _summary(raw: _library.Summary) -> ResourceSummary:
    values = {name: getattr(raw, name) for name, _ in _library.Summary._fields_}
    return ResourceSummary(**{name: value if name == "num_samples" else known(value)
                              for name, value in values.items()})


def _sample(raw: _library.Sample) -> ResourceSample:
    return ResourceSample(
        **{name: known(getattr(raw, name)) for name, _ in _library.Sample._fields_})


def _release(library: ctypes.CDLL, handle: int, _callbacks: Any) -> None:
    """Stops and frees a monitor. Its callbacks stay alive until then."""
    library.sonde_monitor_free(handle)


class ResourceMonitor:
    """Samples this process in the background, or another one with its descendants.

    sample_interval_sec: 0.001 to 3600.
    gpu_profiler: an object with GPU figures (see GpuProfiler), or Gpu() for libsonde's own source.
    pid: another process to sample. descendants: whether to include its descendants; the default is
    True for another process and False for this one.
    reset_peak: resets the kernel's peak RSS at the start and at each mark, so that a peak is found
    even if an earlier one was higher. This affects every reader of that value.
    max_samples: the number of samples to keep; the summary covers all samples.
    """

    def __init__(self, sample_interval_sec: float = 0.1, gpu_profiler: Any = None, *,
                 pid: int | None = None, descendants: bool | None = None, reset_peak: bool = False,
                 max_samples: int | None = None) -> None:
        interval_sec = _library.real("sample_interval_sec", sample_interval_sec)
        if interval_sec <= 0:  # 0 would select the library's default
            raise ValueError(f"sample_interval_sec: {interval_sec:g} is not within 0.001 to 3600")
        # In the library, 0 means this process, and the default number of samples.
        target = 0 if pid is None else _library.integer("pid", pid, 0, _PID_MAX)
        kept = (0 if max_samples in (None, 0)
                else _library.integer("max_samples", max_samples, *_SAMPLES_RANGE))
        self._library = _library.load()
        options = _library.Options(
            size=ctypes.sizeof(_library.Options), interval_sec=interval_sec, pid=target,
            max_samples=kept)
        if pid is not None if descendants is None else descendants:
            options.flags |= _library.DESCENDANTS
        if reset_peak:
            options.flags |= _library.RESET_PEAK
        source = None
        if isinstance(gpu_profiler, Gpu):
            options.flags |= _library.BUILTIN_GPU
            options.gpu_index = gpu_profiler.index
        elif gpu_profiler is not None:
            source = source_of(gpu_profiler)
            options.gpu_source = ctypes.pointer(source)
        handle, error = ctypes.c_void_p(), _library.Error()
        code = self._library.sonde_monitor_new(options, handle, error)
        if code < 0:
            error.text = error.text.replace(b"interval_sec:", b"sample_interval_sec:")
            _library.fail(code, error)
        self._handle = handle.value
        # At the latest at interpreter exit, so that no callback runs after it.
        weakref.finalize(self, _release, self._library, self._handle, source)

    # ---- start and stop ----

    def start(self) -> None:
        """Discards earlier results, takes the first sample and continues in the background."""
        error = _library.Error()
        code = self._library.sonde_monitor_start(self._handle, error)
        if code < 0:
            _library.fail(code, error)

    def stop(self) -> None:
        """Takes the last sample and stops. Does nothing if the monitor is not running."""
        self._library.sonde_monitor_stop(self._handle)

    def __enter__(self) -> ResourceMonitor:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        """Whether it samples: started, not stopped, and the monitored process has not ended."""
        return bool(self._library.sonde_monitor_is_running(self._handle))

    # ---- phases ----

    def mark(self, name: str | None) -> None:
        """Begins the phase `name`, which lasts until the next mark or the end; None: no phase."""
        error = _library.Error()
        text = None if name is None else name.encode()
        if text is not None and b"\0" in text:
            raise ValueError("name: contains a NUL character")
        code = self._library.sonde_monitor_mark(self._handle, text, error)
        if code == -errno.ESRCH:
            raise RuntimeError(error.text.decode())
        if code < 0:
            _library.fail(code, error)

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A phase for the duration of the block. No phase follows it."""
        self.mark(name)
        try:
            yield
        finally:
            if self.is_running:
                self.mark(None)

    # ---- results, also while it runs ----

    def _list(self, function: str, item: type[ctypes.Structure]) -> list[Any]:
        """Copies an array that the library returns, and frees it."""
        array, count = ctypes.POINTER(item)(), ctypes.c_size_t()
        code = getattr(self._library, function)(self._handle, array, count)
        if code < 0:
            _library.fail(code)
        try:
            return [item.from_buffer_copy(array[i]) for i in range(count.value)]
        finally:
            self._library.sonde_free(array)

    @property
    def samples(self) -> list[ResourceSample]:
        """The samples, oldest first. In a long run each represents several: see docs/LIBRARY.md."""
        return [_sample(raw) for raw in self._list("sonde_monitor_samples", _library.Sample)]

    @property
    def summary(self) -> ResourceSummary:
        raw = _library.Summary()
        self._library.sonde_monitor_summary(self._handle, raw)
        return _summary(raw)

    @property
    def phases(self) -> list[Phase]:
        return [Phase(name=raw.name.decode(), timestamp=raw.timestamp, summary=_summary(raw.summary))
                for raw in self._list("sonde_monitor_phases", _library.Phase)]

    @property
    def timing(self) -> Timing:
        raw = _library.Timing()
        self._library.sonde_monitor_timing(self._handle, raw)
        return Timing(ticks=raw.ticks, missed=raw.missed, mean_late_us=known(raw.mean_late_us),
                      max_late_us=known(raw.max_late_us))
