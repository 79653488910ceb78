"""Verdicts as a JUnit file, which continuous integration shows as tests."""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree import ElementTree


def junit_of(judged: Mapping[str, tuple[bool, str]]) -> bytes:
    """Return a test for each condition, which fails as the condition is met; its output is the verdict.

    :param judged: whether a condition is met, and the verdict, by the condition's name.
    """
    failures = sum(fails for fails, _ in judged.values())
    about = {"name": "fathom compare", "tests": str(len(judged)), "failures": str(failures)}
    suite = ElementTree.Element("testsuite", about)
    for condition, (fails, verdict) in judged.items():
        test = ElementTree.SubElement(suite, "testcase", {"classname": "fathom.compare", "name": f"not {condition}"})
        if fails:
            ElementTree.SubElement(test, "failure", {"message": condition}).text = verdict
        else:
            ElementTree.SubElement(test, "system-out").text = verdict
    written: bytes = ElementTree.tostring(suite, "utf-8", xml_declaration=True)
    return written
