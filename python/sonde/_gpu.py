"""Sources of GPU figures: an object of the caller, or libsonde's built-in source."""
from __future__ import annotations

import ctypes
import numbers
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from . import _library


@runtime_checkable
class GpuProfiler(Protocol):
    """The interface of a `gpu_profiler`. A figure is None if its method is missing or raises, or if
    it is infinite or negative."""

    def utilization(self) -> float: ...

    def memory(self) -> Any:
        """Returns an object with `used_mb`."""

    def clocks(self) -> Any:
        """Returns an object with `graphics_mhz`."""

    def power(self) -> Any:
        """Returns an object with `draw_w`."""


# The name that programs written for the reference import.
GPUProfilerProtocol = GpuProfiler


@runtime_checkable
class OlderGpuProfiler(Protocol):
    """The older interface, which is still accepted."""

    def get_utilization(self) -> float: ...

    def get_memory_usage(self) -> dict[str, float]:
        """Returns a dict with "gpu_memory_used_mb"."""

    def get_clock_info(self) -> dict[str, float]:
        """Returns a dict with "gpu_clock_mhz"."""

    def get_power_info(self) -> dict[str, float]:
        """Returns a dict with "power_draw_w"."""


class Gpu:
    """One GPU, read by libsonde's built-in source, for `gpu_profiler=`. Its figures are None if
    there is no such GPU."""

    def __init__(self, index: int = 0) -> None:
        self.index = _library.integer("index", index, 0, 2**32 - 1)

    def __repr__(self) -> str:
        return f"Gpu(index={self.index})"


def gpu_count() -> int:
    """Returns the number of GPUs that libsonde's built-in source finds."""
    return int(_library.load().sonde_gpu_count())


# The methods for each figure: the new interface, then the older one.
_METHODS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "utilization": (lambda gpu: gpu.utilization(), lambda gpu: gpu.get_utilization()),
    "memory": (lambda gpu: gpu.memory().used_mb,
               lambda gpu: gpu.get_memory_usage()["gpu_memory_used_mb"]),
    "clock": (lambda gpu: gpu.clocks().graphics_mhz,
              lambda gpu: gpu.get_clock_info()["gpu_clock_mhz"]),
    "power": (lambda gpu: gpu.power().draw_w, lambda gpu: gpu.get_power_info()["power_draw_w"]),
}


def ask(profiler: Any, figure: str) -> float | None:
    """Returns one figure; None if no method returns a number."""
    for method in _METHODS[figure]:
        try:
            value = method(profiler)
            if isinstance(value, numbers.Real):
                return float(value)  # raises if an integer is too large
        except BaseException:  # pylint: disable=broad-except  # it would end in libsonde's thread
            continue
    return None


def _function(profiler: Any, figure: str) -> Any:
    def function(_context: Any, result: Any) -> int:
        value = ask(profiler, figure)
        if value is None:
            return -1
        result[0] = value
        return 0

    return _library.GpuFunction(function)


def source_of(profiler: Any) -> _library.GpuSource:
    """Returns the table of callbacks, which must live as long as the monitor."""
    return _library.GpuSource(ctypes.c_void_p(),
                              *(_function(profiler, figure) for figure in _METHODS))
