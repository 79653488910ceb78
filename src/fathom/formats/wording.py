"""What LAMA and the data sets made in its manner share: files of templates, and answers that have ids and names."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from fathom.data.faults import Faults, read_json_lines
from fathom.data.templates import SUBJECT, Template

_SHOWN = 5


class RelationEntry(NamedTuple):
    """A relation of a file of templates. :param type: LAMA's cardinality ("N-1"), "" where it is not given."""

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


def _templates(file: Path, line: int, row: dict[str, Any], faults: Faults) -> list[Template]:
    texts = row.get("templates", [row["template"]] if "template" in row else [])
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        faults.add(file, line, f"expected 'template': \"… {SUBJECT} … [Y] …\" or 'templates': a list of such texts")
        return []
    templates = [Template(text) for text in texts]
    for template in templates:
        for fault in template.faults():
            faults.add(file, line, fault)
        if SUBJECT not in template.text:
            faults.note(file, line, f"template {template.text!r} has no {SUBJECT}: it says nothing of the subject")
    return templates


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


class AnswerNames:
    """Ids and names of answers, one to one.

    No model can tell two answers of one name apart: they are one candidate, whose id is the name. Of several names of
    one id the first counts. Both are noted.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._ids: dict[str, list[str]] = {}
        self._renamed: dict[str, str] = {}

    def add(self, id_: str, name: str) -> None:
        known = self._names.get(id_)
        if known is None:
            self._names[id_] = name
            self._ids.setdefault(name, []).append(id_)
        elif known != name:
            self._renamed.setdefault(id_, name)

    def name_of(self, id_: str) -> str:
        """:raises KeyError: an id that was never added."""
        return self._names[id_]

    def id_of(self, id_: str) -> str:
        """What the candidate is called that *id_* belongs to; an id that was never added stays as it is."""
        name = self._names.get(id_)
        return name if name is not None and len(self._ids[name]) > 1 else id_

    def note(self, path: Path, faults: Faults) -> None:
        """One line for each of the two oddities, with the first few examples."""
        shared = [f"{name!r} ({', '.join(ids[:3])})" for name, ids in self._ids.items() if len(ids) > 1]
        if shared:
            faults.note(
                path, None, f"{_several(shared)} of several ids: each name is one candidate, whose id is the name"
            )
        renamed = [f"{id_} ({self._names[id_]!r}, {name!r})" for id_, name in self._renamed.items()]
        if renamed:
            faults.note(path, None, f"{_several(renamed, 'id')} with several names: the first is used")


def _several(found: list[str], what: str = "name") -> str:
    more = ", …" if len(found) > _SHOWN else ""
    return f"{len(found):,} {what}{'s' if len(found) > 1 else ''} ({'; '.join(found[:_SHOWN])}{more})"
