"""Finds and loads libsonde, and declares its functions as in include/sonde/sonde.h."""
from __future__ import annotations

import ctypes
import errno
import functools
import glob
import math
import operator
import os
from ctypes import CFUNCTYPE, POINTER, c_char, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint
from ctypes import c_uint64, c_void_p
from typing import Any, NoReturn

SONAME = "libsonde.so.0"

DESCENDANTS = 1 << 0
RESET_PEAK = 1 << 1
BUILTIN_GPU = 1 << 2


class LibraryNotFoundError(ImportError):
    """libsonde was not found, or the file that was found is not libsonde."""


class Error(ctypes.Structure):
    _fields_ = [("text", c_char * 256)]


class Sample(ctypes.Structure):
    _fields_ = [(name, c_double) for name in (
        "timestamp", "cpu_percent", "rss_mb", "gpu_util", "gpu_mem_mb", "gpu_clock_mhz",
        "gpu_power_w")]


class Summary(ctypes.Structure):
    _fields_ = [
        ("peak_rss_mb", c_double),
        ("mean_rss_mb", c_double),
        ("peak_gpu_mem_mb", c_double),
        ("mean_gpu_util", c_double),
        ("memory_growth_mb", c_double),
        ("num_samples", c_int64),
        ("duration_sec", c_double),
        ("mean_gpu_clock_mhz", c_double),
        ("mean_gpu_power_w", c_double),
        ("mean_cpu_percent", c_double),
        ("cpu_seconds", c_double),
    ]


class Phase(ctypes.Structure):
    _fields_ = [("name", c_char * 64), ("timestamp", c_double), ("summary", Summary)]


class Timing(ctypes.Structure):
    _fields_ = [("ticks", c_uint64), ("missed", c_uint64), ("mean_late_us", c_double),
                ("max_late_us", c_double)]


GpuFunction = CFUNCTYPE(c_int, c_void_p, POINTER(c_double))


class GpuSource(ctypes.Structure):
    _fields_ = [("context", c_void_p), ("utilization", GpuFunction), ("memory", GpuFunction),
                ("clock", GpuFunction), ("power", GpuFunction)]


class Options(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("interval_sec", c_double),
        ("pid", c_int),
        ("flags", c_uint),
        ("max_samples", c_uint),
        ("gpu_index", c_uint),
        ("gpu_source", POINTER(GpuSource)),
    ]


_FUNCTIONS = {
    "sonde_version": (c_char_p, []),
    "sonde_gpu_count": (c_int, []),
    "sonde_monitor_new": (c_int, [POINTER(Options), POINTER(c_void_p), POINTER(Error)]),
    "sonde_monitor_free": (None, [c_void_p]),
    "sonde_monitor_start": (c_int, [c_void_p, POINTER(Error)]),
    "sonde_monitor_stop": (c_int, [c_void_p]),
    "sonde_monitor_is_running": (c_int, [c_void_p]),
    "sonde_monitor_samples": (c_int, [c_void_p, POINTER(POINTER(Sample)), POINTER(c_size_t)]),
    "sonde_monitor_summary": (c_int, [c_void_p, POINTER(Summary)]),
    "sonde_monitor_timing": (c_int, [c_void_p, POINTER(Timing)]),
    "sonde_monitor_mark": (c_int, [c_void_p, c_char_p, POINTER(Error)]),
    "sonde_monitor_phases": (c_int, [c_void_p, POINTER(POINTER(Phase)), POINTER(c_size_t)]),
    "sonde_summary_to_json": (c_int, [POINTER(Summary), POINTER(c_void_p)]),
    "sonde_summary_from_json": (c_int, [c_char_p, c_size_t, POINTER(Summary), POINTER(Error)]),
    "sonde_free": (None, [c_void_p]),
}


def _candidates() -> list[str]:
    """The paths of the library to try, in order."""
    given = os.environ.get("SONDE_LIBRARY")
    if given:
        return [given]  # an explicit path has no fallback
    here = os.path.dirname(os.path.abspath(__file__))
    beside = [os.path.join(here, SONAME), os.path.join(here, "libsonde.so")]
    return [*filter(os.path.exists, beside), SONAME,
            *glob.glob(f"/usr/local/lib*/{SONAME}"), *glob.glob(f"/usr/local/lib/*/{SONAME}")]


def _declare(library: ctypes.CDLL) -> ctypes.CDLL:
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


@functools.cache
def load() -> ctypes.CDLL:
    """Returns the library. Loaded at its first use, so that records can be read without it."""
    reasons = []
    for path in _candidates():
        try:
            return _declare(ctypes.CDLL(path))
        except (OSError, AttributeError) as error:
            reasons.append(str(error))
    raise LibraryNotFoundError(
        "libsonde was not found (" + "; ".join(reasons) + "). Install it (make install, then "
        "ldconfig), or name the file in SONDE_LIBRARY.")


def library_version() -> str:
    """The version of libsonde that is in use."""
    return str(load().sonde_version().decode())


def fail(code: int, error: Error | None = None) -> NoReturn:
    """Raises the Python exception for a negative errno of the library."""
    text = error.text.decode("utf-8", "replace") if error else os.strerror(-code)
    if code == -errno.EINVAL:
        raise ValueError(text)
    if code == -errno.ENOMEM:
        raise MemoryError(text)
    if code in (-errno.EALREADY, -errno.ENOSPC):
        raise RuntimeError(text)
    raise OSError(-code, text)  # becomes ProcessLookupError, PermissionError, … by its errno


def integer(option: str, value: Any, lowest: int, highest: int) -> int:
    """Checks an integer option. ctypes would truncate a number that does not fit."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{option}: expected an integer, found {value!r:.40}") from None
    if lowest <= number <= highest:
        return number
    # Python refuses to format thousands of digits.
    words = str(number) if number.bit_length() <= 64 else f"a number of {number.bit_length()} bits"
    raise ValueError(f"{option}: {words} is not within {lowest} to {highest}")


def real(option: str, value: Any) -> float:
    """Checks a numeric option; a number that is too large becomes infinity."""
    try:
        return c_double(value).value
    except TypeError:
        raise TypeError(f"{option}: expected a number, found {value!r:.40}") from None
    except OverflowError:
        return math.inf


def known(value: float) -> float | None:
    """Converts the library's NaN for unknown to None."""
    return None if value != value else value
