"""The children that a command leaves to this process."""
from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import signal
import threading
from dataclasses import dataclass
from typing import Any

_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37
_WALL = 0x40000000  # also children that end without SIGCHLD
_CHILD_IGNORED = 1 << (signal.SIGCHLD - 1)

# Processes that earlier commands left running here: pid and start. They are reaped later, so that none stays
# a zombie. If the program itself has waited for one, its pid may be that of another child now.
_left_running: set[tuple[int, bytes]] = set()


def _prctl(option: int, argument: Any) -> int:
    zero = ctypes.c_ulong(0)
    return int(ctypes.CDLL(None).prctl(option, argument, zero, zero, zero))


def _set_subreaper(is_set: bool) -> bool:
    return _prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(is_set)) == 0


def _is_subreaper() -> bool:
    value = ctypes.c_int()
    return _prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(value)) != 0 or value.value != 0


def _start_of(pid: int) -> bytes | None:
    """When a process started, as the kernel writes it. None: there is none."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19]
    except OSError:
        return None


def _reap_left_running() -> None:
    for pid, start in list(_left_running):
        try:
            is_over = _start_of(pid) != start or os.waitpid(pid, os.WNOHANG | _WALL)[0] != 0
        except ChildProcessError:
            is_over = True
        if is_over:
            _left_running.discard((pid, start))


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT | _WALL)
    except ChildProcessError:
        return False
    return True


def _children() -> set[int]:
    found: set[int] = set()
    for path in pathlib.Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has ended
            found.update(map(int, path.read_text(encoding="ascii").split()))
    return found


def discards_children(pid: int) -> bool:
    """Whether a process, which may be a zombie, ignores SIGCHLD: the kernel then discards the time of
    its children. Also true if that cannot be read."""
    try:
        for line in pathlib.Path(f"/proc/{pid}/status").read_bytes().splitlines():
            if line.startswith(b"SigIgn:"):
                return bool(int(line.split()[1], 16) & _CHILD_IGNORED)
    except OSError:
        pass
    return True


@dataclass
class LeftUsage:
    """The usage of the children that a command left to this process. Not complete: some still run, or
    ignored SIGCHLD, or were not left to it."""

    cpu_seconds: float = 0.0
    peak_kb: int = 0
    is_complete: bool = False


class AdoptedChildren:
    """A context in which orphans of a command become children of this process, as the children become
    that it starts with CLONE_PARENT, so that the kernel reports their usage.

    They are adopted only if they can be distinguished from other children: this process has none, has no
    other thread that may start one, and does not adopt orphans for another purpose."""

    def __init__(self, may_adopt: bool) -> None:
        _reap_left_running()
        self.adopts = (may_adopt and threading.active_count() == 1 and not _has_children()
                       and not _is_subreaper() and _set_subreaper(True))

    def __enter__(self) -> AdoptedChildren:
        return self

    def __exit__(self, *_: Any) -> None:
        if self.adopts:
            _set_subreaper(False)
            _left_running.update((pid, start) for pid in _children() if (start := _start_of(pid)))

    def reap(self) -> LeftUsage:
        """Reaps those that have ended, after the command was reaped."""
        left = LeftUsage(is_complete=self.adopts)
        while self.adopts:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT | _WALL)
            except ChildProcessError:
                break
            if not ended:  # some still run
                left.is_complete = False
                break
            if discards_children(ended.si_pid):
                left.is_complete = False
            usage = os.wait4(ended.si_pid, _WALL)[2]
            left.cpu_seconds += usage.ru_utime + usage.ru_stime
            left.peak_kb = max(left.peak_kb, usage.ru_maxrss)
        return left
