"""Rights are typed, never read from a file.

Some options let others run code, read a secret or receive data. On the command line and in Python they work as written;
in a manifest, a ``--config`` file or a plan they are refused, unless the same is typed, too.
"""

from __future__ import annotations

import re

from fathom.base.options import Given
from fathom.base.reading.replies import excerpt_of, without_secrets

RIGHTS = ("trust_remote_code", "allow_pickle", "key_env", "server", "ray_address", "endpoint")
"""The options that give a right."""
_SWITCHES = ("trust_remote_code", "allow_pickle")
ADDRESSES = ("server", "ray_address", "endpoint")
_HERE = re.compile(r"auto|local|((https?|ray)://)?(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?(/[\w./-]*)?", re.ASCII)
"""Addresses on this machine. Nothing but a plain path may follow the port: what stands before an ``@`` is no host."""


def missing_right(
    name: str, value: object, typed: Given, server_flag: str = "--server", command: str = ""
) -> str | None:
    """Return what is wrong with an option of a file that gives a right; None if it gives none, or is typed.

    :param typed: options by name; several values of one in a tuple.
    :param server_flag: what to type for a server.
    :param command: the command that has the flags, with a space after it; "" for the one in use.
    """
    name = name.replace("-", "_")
    if name not in RIGHTS:
        return None
    typed_values = typed.get(name)
    allowed = typed_values if isinstance(typed_values, tuple) else (typed_values,)
    values = value if isinstance(value, list) and name == "endpoint" else [value]
    refused = [each for each in values if each not in allowed and not _is_harmless(name, each)]
    if not refused:
        return None
    flag = server_flag if name == "server" else f"--{name.replace('_', '-')}"
    text = flag if name in _SWITCHES else f"{flag} {excerpt_of(without_secrets(str(refused[0])))}"
    return f"a right, which no file gives: type {command}{text}, if you trust the file"


def _is_harmless(name: str, value: object) -> bool:
    return value in (None, False, "") or (name in ADDRESSES and _HERE.fullmatch(str(value)) is not None)


def refused_rights(file: object, options: Given, typed: Given, command: str = "") -> list[str]:
    """Return a line for each option in *options*, of a file, that gives a right."""
    faults = ((name, missing_right(name, value, typed, command=command)) for name, value in options.items())
    return [f"{file}: {name} is {fault}" for name, fault in faults if fault]
