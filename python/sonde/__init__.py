"""Samples the CPU, memory and GPU usage of a program in the background.

    with sonde.ResourceMonitor() as monitor:
        work()
    print(monitor.summary)

    print(sonde.run(["make", "-j4"]).peak_rss_mb)

libsonde takes the samples in a separate thread that does not need the interpreter: a program that
holds the GIL for seconds is sampled too. An unknown figure is None, never 0.
"""
from ._command import CommandSummary, run
from ._gpu import Gpu, GpuProfiler, GPUProfilerProtocol, OlderGpuProfiler, gpu_count
from ._library import LibraryNotFoundError, library_version
from ._monitor import Phase, ResourceMonitor, Timing
from ._records import FieldError, ResourceSample, ResourceSummary

__version__ = "0.1.0"

__all__ = [
    "CommandSummary",
    "FieldError",
    "GPUProfilerProtocol",
    "Gpu",
    "GpuProfiler",
    "LibraryNotFoundError",
    "OlderGpuProfiler",
    "Phase",
    "ResourceMonitor",
    "ResourceSample",
    "ResourceSummary",
    "Timing",
    "gpu_count",
    "library_version",
    "run",
]
