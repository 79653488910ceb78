"""Verdicts as a JUnit file, which continuous integration shows as tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

from fathom.base.errors import FathomError
from fathom.base.options import Given
from fathom.base.reading.files import printable
from fathom.store.outputs import write_output

NAME = "fathom compare"


def junit_of(judged: Mapping[str, tuple[bool, str]]) -> bytes:
    """Return a test for each condition, which fails as the condition is met; its output is the verdict.

    :param judged: whether a condition is met, and the verdict, by the condition's name.
    """
    outcomes = [
        (condition, "failure" if fails else "system-out", verdict) for condition, (fails, verdict) in judged.items()
    ]
    return _suite(outcomes, failures=sum(fails for fails, _ in judged.values()))


def _suite(outcomes: Sequence[tuple[str, str, str]], **counts: int) -> bytes:
    """:param outcomes: name, element and text of each test. :param counts: of failures or errors."""
    numbers = {name: str(count) for name, count in {"tests": len(outcomes), **counts}.items()}
    suite = ElementTree.Element("testsuite", {"name": NAME, **numbers})
    for name, kind, text in outcomes:
        test = ElementTree.SubElement(suite, "testcase", {"classname": "fathom.compare", "name": printable(name)})
        message = {} if kind == "system-out" else {"message": printable(text if kind == "error" else name)}
        ElementTree.SubElement(test, kind, message).text = printable(text)
    written: bytes = ElementTree.tostring(suite, "utf-8", xml_declaration=True)
    return written


def write_junit(path: Path, content: bytes, overwrite: bool) -> None:
    """:raises BadInput: a file that is not of JUnit is in the way."""
    write_output(path, content, overwrite=overwrite or is_of_ours(path), recorded=False)


def report_error(typed: Given, error: FathomError) -> None:
    """Write an error of a command as a test to its ``--junit``; nothing if that file cannot be written."""
    if typed.get("junit") is not None:
        content = _suite([("input", "error", "; ".join(str(error).splitlines()))], errors=1)
        with suppress(FathomError):
            write_junit(typed["junit"], content, bool(typed.get("overwrite")))


def is_of_ours(path: Path) -> bool:
    """Return whether a file is one of this module."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return f'<testsuite name="{NAME}"'.encode() in file.read(200)
