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
    """A stretch between two marks. `timestamp` is that of its first sample."""

    name: str
    timestamp: float
    summary: ResourceSummary


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How well the samples kept their time: those that were due and taken, and due and missed; how
    late they came, in microseconds (None without any)."""

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
    """Stops and frees a monitor; what it may call back stays alive until then."""
    library.sonde_monitor_free(handle)


class ResourceMonitor:
    """Samples this process in the background, or another one with its descendants.

    sample_interval_sec: 0.001 to 3600.
    gpu_profiler: an object that tells of a GPU (see GpuProfiler), or Gpu() for libsonde's own.
    pid: another process. descendants: its descendants too; if not given, those of another process
    are, and those of this one are not.
    reset_peak: resets the kernel's high-water mark at the start and at each mark, so that a peak is
    found that stays below an earlier one. It is reset for everyone.
    max_samples: how many are kept; the summary is of all.
    """

    def __init__(self, sample_interval_sec: float = 0.1, gpu_profiler: Any = None, *,
                 pid: int | None = None, descendants: bool | None = None, reset_peak: bool = False,
                 max_samples: int | None = None) -> None:
        interval_sec = _library.real("sample_interval_sec", sample_interval_sec)
        if interval_sec <= 0:  # 0 is the library's word for its default
            raise ValueError(f"sample_interval_sec: {interval_sec:g} is not within 0.001 to 3600")
        # 0 is its word for this process, and for its default.
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
        # At the latest when the interpreter ends, before it could be called back into nothing.
        weakref.finalize(self, _release, self._library, self._handle, source)

    # ---- from start to stop ----

    def start(self) -> None:
        """Forgets what was sampled, takes the first sample, goes on in the background."""
        error = _library.Error()
        code = self._library.sonde_monitor_start(self._handle, error)
        if code < 0:
            _library.fail(code, error)

    def stop(self) -> None:
        """Takes the last sample. Does nothing if it is not running."""
        self._library.sonde_monitor_stop(self._handle)

    def __enter__(self) -> ResourceMonitor:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        """Whether it samples; not after the stop, nor once the process it looks at is gone."""
        return bool(self._library.sonde_monitor_is_running(self._handle))

    # ---- phases ----

    def mark(self, name: str | None) -> None:
        """From now on it is phase `name`, until the next mark or the end; None: no phase."""
        error = _library.Error()
        text = None if name is None else name.encode()
        if text is not None and b"\0" in text:
            raise ValueError("name: it holds a NUL character")
        code = self._library.sonde_monitor_mark(self._handle, text, error)
        if code == -errno.ESRCH:
            raise RuntimeError(error.text.decode())
        if code < 0:
            _library.fail(code, error)

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A phase as long as the block; its end leaves no phase."""
        self.mark(name)
        try:
            yield
        finally:
            if self.is_running:
                self.mark(None)

    # ---- what was sampled; also while it runs ----

    def _list(self, function: str, item: type[ctypes.Structure]) -> list[Any]:
        """What the library hands out as an array of its own, copied."""
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
        """Oldest first. In a long run each stands for several: see docs/LIBRARY.md."""
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
