"""LRE, the relations of Hernandez et al. (ICLR 2024): pairs of subject and object with templates.

As published (github.com/evandez/relations, ``data``): ``factual/country_capital_city.json`` … with ``name``,
``prompt_templates_zs`` and ``prompt_templates`` (for zero-shot and for few-shot prompts; ``{}`` is the subject, the
object follows), ``samples`` (``subject``, ``object``) and ``properties``, whose ``relation_type`` is the domain here.
Templates for zero-shot prompts come first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from fathom.data.queries import QuerySet
from fathom.data.templates import SUBJECT
from fathom.formats.base import Draft, Format, check_templates, texts_of
from fathom.formats.closed_questions import completed
from fathom.formats.facts import AnswerNames, Fact, NamedAnswer, RelationEntry, add_queries, aliased_graph
from fathom.formats.recognition import data_files, keys_of, note_rest
from fathom.reading import Faults, Json, Unreadable, read_json, read_text, shown

_SUBJECT_KEY = re.compile(r'"subject"\s*:')
_ENDINGS = (".json", ".json.gz")


def read_lre(path: Path, faults: Faults) -> QuerySet | None:
    """:returns: the query set, None where a fault keeps it from being read."""
    draft = Draft(path, faults)
    entries: dict[str, RelationEntry] = {}
    facts: list[Fact] = []
    files = _files(path)
    for place in _places(path):
        note_rest(place, _ENDINGS, files, faults)
    for file in files:
        id_, content = file.name.split(".")[0], read_json(file, faults)
        if id_ in entries:
            faults.add(file, None, f"relation {id_} is in another file, too: remove one of the two")
        elif isinstance(content, dict) and isinstance(content.get("samples"), list):
            entries[id_] = _entry(file, content, faults)
            facts += _facts(file, id_, content["samples"], faults)
        elif content is not None:
            faults.add(file, 1, f"expected an object with a list of 'samples', found {shown(content)}")
    names = AnswerNames(facts)
    add_queries(draft, facts, entries, names, lambda fact, gold: {"type": "; ".join(entries[fact.relation].domains)})
    return draft.queryset(
        path.name.split(".")[0],
        lambda: aliased_graph(draft, facts, names),
        nothing="no samples: expected {'subject': …, 'object': …}",
        licence="MIT",
    )


def _places(path: Path) -> list[Path]:
    """The folder and those in it."""
    return [path, *(below for below in sorted(path.iterdir()) if below.is_dir())] if path.is_dir() else [path]


def _files(path: Path) -> list[Path]:
    files = [file for place in _places(path) for file in data_files(place, *_ENDINGS)]
    return [file for file in files if {"prompt_templates", "samples"} <= keys_of(file)]


def _entry(file: Path, content: Json, faults: Faults) -> RelationEntry:
    about = content.get("properties")
    kind = about.get("relation_type") if isinstance(about, dict) else None
    texts = [texts_of(content.get(name, [])) for name in ("prompt_templates_zs", "prompt_templates")]
    if None in texts:
        faults.add(file, None, "'prompt_templates' and 'prompt_templates_zs' must be lists of texts")
    prompts = dict.fromkeys(text for some in texts for text in some or ())
    if bad := next((text for text in prompts if "{}" not in text), None):
        faults.add(file, None, f"template {shown(bad)} has no {{}}: expected it for the subject")
    worded = (completed(text.replace("{}", SUBJECT)) for text in prompts)
    templates = check_templates(file, None, worded, faults)
    name = content.get("name")
    return RelationEntry(
        templates,
        name if isinstance(name, str) else "",
        domains=(kind,) if isinstance(kind, str) else (),
    )


def _facts(file: Path, relation: str, samples: list[Json], faults: Faults) -> Iterator[Fact]:
    for line, sample in zip(_lines(file, len(samples)), samples, strict=True):
        pair = [sample.get(name) for name in ("subject", "object")] if isinstance(sample, dict) else [None]
        if texts_of(pair) is None:
            faults.add(file, line, f"expected a sample with 'subject' and 'object', texts, found {shown(sample)}")
            continue
        subject, answer = map(str, pair)
        yield Fact(file, line, "", relation, subject, subject, (NamedAnswer(answer, answer),))


def _lines(file: Path, count: int) -> list[int]:
    """Where each sample names its subject; the first line for all where some do not."""
    try:
        lines = enumerate(read_text(file).split("\n"), start=1)
    except Unreadable:
        return [1] * count
    numbers = [number for number, line in lines for _ in _SUBJECT_KEY.findall(line)]
    return numbers if len(numbers) == count else [1] * count


FORMAT = Format("lre", "JSON files with prompt_templates and samples (LRE)", lambda path: bool(_files(path)), read_lre)
