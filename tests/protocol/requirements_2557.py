"""The rules of SEP-2557 on its mount: `T2557-*`."""

from __future__ import annotations

from typing import Final, Literal

MOUNT_RULES: Final[dict[str, tuple[Literal["covered", "deferred"], str]]] = {
    "T2557-01": ("covered", ""),
    "T2557-02": ("covered", ""),
    "T2557-03": ("covered", ""),
    "T2557-04": ("covered", ""),
    "T2557-05": ("covered", ""),
    "T2557-06": ("covered", ""),
    "T2557-07": ("covered", ""),
    "T2557-08": ("covered", ""),
    "T2557-09": ("covered", ""),
    "T2557-10": ("covered", ""),
    "T2557-11": ("covered", ""),
    "T2557-12": ("covered", ""),
    "T2557-13": ("covered", ""),
    "T2557-14": ("covered", ""),
    "T2557-15": ("covered", ""),
    "T2557-16": ("covered", ""),
    "T2557-17": ("covered", ""),
    "T2557-18": ("covered", ""),
    "T2557-19": ("covered", ""),
    "T2557-20": ("covered", ""),
    "T2557-21": ("covered", ""),
    "T2557-22": ("covered", ""),
    "T2557-23": ("covered", ""),
}
