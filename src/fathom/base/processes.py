"""Processes that share the work of a command on this machine, and end with it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.context import SpawnProcess


def start_process(function: Callable[..., object], *args: object) -> SpawnProcess:
    """Start a process that calls *function*. It ignores Ctrl-C, and ends when this process ends or is killed."""
    process = SpawnProcess(target=_call, args=(function, *args), daemon=True)
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # inherited by the process
    try:
        process.start()
    finally:
        signal.signal(signal.SIGINT, handler)
    return process


def _call(function: Callable[..., object], *args: object) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    function(*args)


def _end_with_parent() -> None:
    """End with a killed parent; otherwise its repeated command would do the same work a second time."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
