"""Rights are typed, never read from a file.

Some options let others run code, read a secret or receive data. On the command line and in Python they work as written;
in a manifest, a ``--config`` file or a plan they are refused, unless the same is typed, too.
"""

from __future__ import annotations

import re
from typing import Any

from fathom.base.options import Given
from fathom.base.reading.replies import excerpt_of

FLAGS = {
    "trust_remote_code": "--trust-remote-code",
    "allow_pickle": "--allow-pickle",
    "key_env": "--key-env",
    "server": "--server",
    "ray_address": "--ray-address",
}
"""The options that give a right, and what to type."""
_ADDRESSES = ("server", "ray_address")
_HERE = re.compile(r"auto|local|https?://(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?(/[\w./-]*)?", re.ASCII)
"""Addresses on this machine. A name before an ``@`` is no host, so that nothing but letters may follow the port."""


def missing_right(name: str, value: Any, typed: Given, flags: Given = FLAGS) -> str | None:
    """Return what is wrong with an option of a file that gives a right; None if it gives none, or is typed.

    :param typed: options by name; several values of one in a tuple.
    """
    name = name.replace("-", "_")
    if name not in FLAGS or value in (None, False, "") or (name in _ADDRESSES and _HERE.fullmatch(str(value))):
        return None
    allowed = typed.get(name)
    if value in (allowed if isinstance(allowed, tuple) else (allowed,)):
        return None
    flag = flags[name] if value is True else f"{flags[name]} {excerpt_of(str(value))}"
    return f"a right, which no file gives: type {flag}, if you trust the file"


def refused_rights(file: object, options: Given, typed: Given) -> list[str]:
    """Return a line for each option in *options*, of a file, that gives a right."""
    faults = ((name, missing_right(name, value, typed)) for name, value in options.items())
    return [f"{file}: {name} is {fault}" for name, fault in faults if fault]
