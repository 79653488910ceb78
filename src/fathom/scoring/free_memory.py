"""The memory that this process may still take: of the device, the machine, and the container or job it runs in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import torch

_UNLIMITED = 1 << 60
"""Limits of control groups at or above this are none."""
_FILES = {
    2: ("memory.max", "memory.current", "inactive_file"),
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
"""By version of control groups: limit, use, and the part of the use that is given back on demand, in memory.stat."""


def free_bytes(device: torch.device) -> int | None:
    """Return the free memory of *device* in bytes; None if unknown."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    known = list(left_in_groups())
    with suppress(AttributeError, ValueError, OSError):
        known.append(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(known, default=None)


def left_in_groups(root: Path = Path("/")) -> Iterator[int]:
    """Yield the bytes left under each limit of this process's control groups, of which containers and jobs are made.

    :param root: of the file system.
    """
    for version, group, mount in _groups(root):
        folder = mount / group.lstrip("/")
        # A container may see its own group as the root, under the path of the host.
        for place in (folder, *folder.parents) if folder.is_dir() else (mount,):
            if place != mount and mount not in place.parents:
                break
            with suppress(OSError, ValueError):
                yield from _left(place, *_FILES[version])


def _groups(root: Path) -> Iterator[tuple[int, str, Path]]:
    """Yield version, path and mount point of the groups that limit memory."""
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, group = line.split(":", 2)
            if "memory" in controllers.split(","):
                yield 1, group, root / "sys/fs/cgroup/memory"
            elif not controllers:
                yield 2, group, root / "sys/fs/cgroup"


def _left(folder: Path, limit: str, use: str, reclaimable: str) -> Iterator[int]:
    """Yield the rest of a limit, if there is one. :raises OSError, ValueError: the group has no such files."""
    most = int((folder / limit).read_text())  # "max" is no number
    if most < _UNLIMITED:
        pairs = (line.split() for line in (folder / "memory.stat").read_text().splitlines())
        files = next((int(value) for name, value in pairs if name == reclaimable), 0)
        yield max(0, most - int((folder / use).read_text()) + files)
