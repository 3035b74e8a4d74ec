"""ResourceSample and ResourceSummary, which do not need the library."""
from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class FieldError(ValueError, KeyError):
    """A summary cannot be read, because the field `field` is missing or invalid."""

    def __init__(self, field: str, words: str) -> None:
        super().__init__(f"{field}: {words}")
        self.field = field

    def __str__(self) -> str:  # KeyError would show the quotes
        return str(self.args[0])


@dataclass(frozen=True, kw_only=True, slots=True)
class ResourceSample:
    """One measurement. `timestamp` is in seconds on the monotonic clock (time.monotonic())."""

    timestamp: float
    cpu_percent: float | None
    rss_mb: float | None
    gpu_util: float | None = None
    gpu_mem_mb: float | None = None
    gpu_clock_mhz: float | None = None
    gpu_power_w: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


# Fields that must be present; those of the second group may be None.
_REQUIRED = ("peak_rss_mb", "mean_rss_mb", "memory_growth_mb", "num_samples", "duration_sec")
_ANNOUNCED = ("peak_gpu_mem_mb", "mean_gpu_util")
# Fields that may be None without a sample, as in the summary of a command that was too short for one.
_SAMPLED = ("peak_rss_mb", "mean_rss_mb", "memory_growth_mb")
# Fields that are omitted if they are unknown.
_LEFT_OUT = ("mean_gpu_clock_mhz", "mean_gpu_power_w")
# The only field that may be negative.
_SIGNED = ("memory_growth_mb",)
_INTEGER_MAX = 2**63 - 1


def _number(data: Mapping[str, Any], field: str) -> Any:
    """Returns the checked value of a field; None for an optional one that is None or missing."""
    value = data.get(field)
    if value is None:
        if field in _SAMPLED and field in data and data.get("num_samples") == 0:
            return None
        if field in _REQUIRED or (field in _ANNOUNCED and field not in data):
            raise FieldError(field, "is missing" if field not in data else "may not be None")
        return None
    wanted = int if field == "num_samples" else (int, float)
    if isinstance(value, bool) or not isinstance(value, wanted):
        what = "an integer" if field == "num_samples" else "a number"
        raise FieldError(field, f"expected {what}, found {value!r}")
    if not _fits(value):
        raise FieldError(field, "expected a finite number within the range of the library")
    if field not in _SIGNED and value < 0:
        raise FieldError(field, f"expected 0 or more, found {value}")
    return value


def _fits(value: float) -> bool:
    """Whether the value fits the library's types."""
    return abs(value) <= _INTEGER_MAX if isinstance(value, int) else math.isfinite(value)


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


@dataclass(frozen=True, kw_only=True)
class ResourceSummary:
    """The usage from start to stop, or in one phase. Without a sample, optional figures are None
    and the others are 0."""

    peak_rss_mb: float
    mean_rss_mb: float
    peak_gpu_mem_mb: float | None
    mean_gpu_util: float | None
    memory_growth_mb: float
    num_samples: int
    duration_sec: float
    mean_gpu_clock_mhz: float | None = None
    mean_gpu_power_w: float | None = None
    mean_cpu_percent: float | None = None
    cpu_seconds: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns the figures by name, ready for JSON. The means of clock and power are omitted if
        they are unknown; all other keys are present."""
        names = [field.name for field in dataclasses.fields(ResourceSummary)]
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items()
                if value is not None or name not in _LEFT_OUT}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ResourceSummary:
        """The inverse of to_dict(). Ignores unknown keys. Raises FieldError (a ValueError and a
        KeyError), which names the missing or invalid field."""
        if not isinstance(data, Mapping):
            raise FieldError("top level", f"expected an object, found {data!r:.40}")
        names = [field.name for field in dataclasses.fields(ResourceSummary)]
        return ResourceSummary(**{name: _number(data, name) for name in names})

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> ResourceSummary:
        """The inverse of to_json(). Raises ValueError if the text is not JSON, and FieldError,
        which is a ValueError, if it is not such an object."""
        try:
            data = json.loads(text, parse_constant=_reject_constant)
        except RecursionError:
            raise FieldError("top level", "nested too deeply") from None
        return cls.from_dict(data)

    def __str__(self) -> str:
        is_known = self.num_samples or self.peak_rss_mb
        words = [f"memory {self.peak_rss_mb:.1f} MB peak" if is_known else "memory -"]
        if self.num_samples:
            words[0] += f", {self.mean_rss_mb:.1f} MB mean, {self.memory_growth_mb:+.1f} MB grown"
        if self.cpu_seconds is not None:
            share = "" if self.mean_cpu_percent is None else f" ({self.mean_cpu_percent:.1f} %)"
            words.append(f"CPU {self.cpu_seconds:.3f} s{share}")
        gpu = [f"{value:.{digits}f} {unit}" for value, digits, unit in (
            (self.mean_gpu_util, 1, "%"), (self.peak_gpu_mem_mb, 1, "MB peak"),
            (self.mean_gpu_clock_mhz, 0, "MHz"), (self.mean_gpu_power_w, 1, "W"))
            if value is not None]
        if gpu:
            words.append("GPU " + ", ".join(gpu))
        words.append(f"{self.num_samples} samples in {self.duration_sec:.2f} s")
        return "; ".join(words)
