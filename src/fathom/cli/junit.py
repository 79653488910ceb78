"""Verdicts as a JUnit file, which continuous integration shows as tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from fathom.base.reading.files import printable

NAME = "fathom compare"


def junit_of(judged: Mapping[str, tuple[bool, str]]) -> bytes:
    """Return a test for each condition, which fails as the condition is met; its output is the verdict.

    :param judged: whether a condition is met, and the verdict, by the condition's name.
    """
    failures = sum(fails for fails, _ in judged.values())
    about = {"name": NAME, "tests": str(len(judged)), "failures": str(failures)}
    suite = ElementTree.Element("testsuite", about)
    for condition, (fails, verdict) in judged.items():
        name = printable(condition)
        test = ElementTree.SubElement(suite, "testcase", {"classname": "fathom.compare", "name": name})
        kind, about_kind = ("failure", {"message": name}) if fails else ("system-out", {})
        output = ElementTree.SubElement(test, kind, about_kind)
        output.text = printable(verdict)
    written: bytes = ElementTree.tostring(suite, "utf-8", xml_declaration=True)
    return written


def is_of_ours(path: Path) -> bool:
    """Return whether a file is one that :func:`junit_of` has written."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return f'<testsuite name="{NAME}"'.encode() in file.read(200)
