"""Where figures of a GPU come from: an object of the caller's, or libsonde's own source."""
from __future__ import annotations

import ctypes
import numbers
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from . import _library


@runtime_checkable
class GpuProfiler(Protocol):
    """What a `gpu_profiler` may offer. A method that is missing or raises gives None, and so does a
    figure that is infinite or negative."""

    def utilization(self) -> float: ...

    def memory(self) -> Any:
        """Has `used_mb`."""

    def clocks(self) -> Any:
        """Has `graphics_mhz`."""

    def power(self) -> Any:
        """Has `draw_w`."""


@runtime_checkable
class OlderGpuProfiler(Protocol):
    """The same as it used to be."""

    def get_utilization(self) -> float: ...

    def get_memory_usage(self) -> dict[str, float]:
        """Has "gpu_memory_used_mb"."""

    def get_clock_info(self) -> dict[str, float]:
        """Has "gpu_clock_mhz"."""

    def get_power_info(self) -> dict[str, float]:
        """Has "power_draw_w"."""


class Gpu:
    """One GPU by libsonde's own source, which asks the driver: for `gpu_profiler=`. Its figures are
    None where there is none."""

    def __init__(self, index: int = 0) -> None:
        self.index = _library.integer("index", index, 0, 2**32 - 1)

    def __repr__(self) -> str:
        return f"Gpu(index={self.index})"


def gpu_count() -> int:
    """How many GPUs libsonde's own source finds."""
    return int(_library.load().sonde_gpu_count())


# For each figure, the ways to it, the newer first.
_WAYS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "utilization": (lambda gpu: gpu.utilization(), lambda gpu: gpu.get_utilization()),
    "memory": (lambda gpu: gpu.memory().used_mb,
               lambda gpu: gpu.get_memory_usage()["gpu_memory_used_mb"]),
    "clock": (lambda gpu: gpu.clocks().graphics_mhz,
              lambda gpu: gpu.get_clock_info()["gpu_clock_mhz"]),
    "power": (lambda gpu: gpu.power().draw_w, lambda gpu: gpu.get_power_info()["power_draw_w"]),
}


def ask(profiler: Any, figure: str) -> float | None:
    """One figure, or None. An object that answers with no number has not answered."""
    for way in _WAYS[figure]:
        try:
            value = way(profiler)
            if isinstance(value, numbers.Real):
                return float(value)  # an integer may be too large for it
        except BaseException:  # pylint: disable=broad-except  # nobody else could catch it
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
    """The table of callbacks; it must live as long as the monitor."""
    return _library.GpuSource(ctypes.c_void_p(), *(_function(profiler, figure) for figure in _WAYS))
