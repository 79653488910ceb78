"""How foreign files spell templates."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from fathom.data.faults import Faults, Json, read_json_lines
from fathom.data.templates import SUBJECT, Template
from fathom.formats.base import texts_of


class RelationEntry(NamedTuple):
    """A relation of a file of templates.

    :param type: LAMA's cardinality ("N-1"), "" where it is not given.
    """

    templates: tuple[Template, ...]
    name: str = ""
    type: str = ""


def read_entries(file: Path, faults: Faults, source: str = "") -> dict[str, RelationEntry]:
    """``{"relation": "P19", "template": "[X] was born in [Y] ."}`` per line; a relation may have several lines.

    :param source: passes over the lines whose ``source`` is another (BioLAMA).
    """
    entries: dict[str, RelationEntry] = {}
    for line, row in read_json_lines(file, {"relation": str}, faults):
        if source and row.get("source", source) != source:
            continue
        templates = _templates(file, line, row, faults)
        before = entries.get(row["relation"], RelationEntry(()))
        for template in templates:
            if template in before.templates:
                faults.note(file, line, f"template {template.text!r} of {row['relation']} stands here again")
        entries[row["relation"]] = RelationEntry(
            tuple(dict.fromkeys((*before.templates, *templates))),
            before.name or _text(row.get("label")),
            before.type or _text(row.get("type")),
        )
    return entries


def check_templates(
    file: Path, line: int | None, texts: Iterable[str], faults: Faults, where: str = ""
) -> tuple[Template, ...]:
    """The templates of some texts; what is wrong or odd about them is added to *faults*.

    :param where: what stands before each message.
    """
    templates = tuple(map(Template, texts))
    for template in templates:
        for fault in template.faults():
            faults.add(file, line, f"{where}{fault}")
        if SUBJECT not in template.text:
            faults.note(
                file, line, f"{where}template {template.text!r} has no {SUBJECT}: it says nothing of the subject"
            )
    return templates


def _templates(file: Path, line: int, row: Json, faults: Faults) -> tuple[Template, ...]:
    texts = texts_of(row.get("templates", [row["template"]] if "template" in row else []))
    if not texts:
        faults.add(file, line, f"expected 'template': \"… {SUBJECT} … [Y] …\" or 'templates': a list of such texts")
        return ()
    return check_templates(file, line, texts, faults)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
