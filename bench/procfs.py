"""CPU and memory of processes and of the machine, from /proc (Linux)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")


class Usage(NamedTuple):
    cpu_s: float
    mem_mib: float


def _stat(pid: int) -> tuple[int, int] | None:
    """The parent's id and the CPU ticks used so far."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[1]), int(fields[11]) + int(fields[12])
    except (OSError, IndexError):  # it has ended
        return None


def _processes() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    return ""


def descendants(root: int) -> list[int]:
    """Every living process below `root`, nearest first."""
    return _tree(root, frozenset())[1:]


def _tree(root: int, others: frozenset[int]) -> list[int]:
    children: dict[int, list[int]] = {}
    for pid in _processes():
        if pid not in others and (found := _stat(pid)):
            children.setdefault(found[0], []).append(pid)
    members = [root]
    for pid in members:
        members += children.get(pid, [])
    return members


def usage(root: int, others: Iterable[int] = ()) -> Usage:
    """CPU seconds so far and resident MiB (PSS where readable) of a process tree.

    The trees of `others` are left out, so that nothing is counted twice when a
    watched process stands below another one.
    """
    ticks = kib = 0
    for pid in _tree(root, frozenset(others) - {root}):
        if found := _stat(pid):
            ticks += found[1]
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    kib += int(line.split()[1])
    return Usage(ticks / TICKS, kib / 1024)


def machine_ticks() -> tuple[int, int]:
    """All CPU ticks of the machine, and those in which it was idle."""
    with Path("/proc/stat").open() as file:
        fields = [int(value) for value in file.readline().split()[1:9]]
    return sum(fields), fields[3] + fields[4]


def file_system(path: Path) -> str:
    """The type of the file system that holds `path`."""
    best, kind = "", "unknown"
    with Path("/proc/mounts").open() as file:
        for line in file:
            _, mount, found, *_ = line.split()
            if path.resolve().is_relative_to(mount) and len(mount) >= len(best):
                best, kind = mount, found
    return kind


def cpu_model() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return "unknown"
