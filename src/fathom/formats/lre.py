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
from typing import Any

from fathom.data.templates import SUBJECT
from fathom.formats.base import Draft, check_templates, texts_of
from fathom.formats.closed_questions import completed
from fathom.formats.facts import AnswerNames, Fact, NamedAnswer, RelationEntry, add_queries, aliased_graph
from fathom.formats.recognition import JSON_ENDINGS, define_format, keys_of
from fathom.reading import Faults, Json, Unreadable, read_json, read_text, shown

_SUBJECT_KEY = re.compile(r'"subject"\s*:')


def _fill(draft: Draft, files: list[Path]) -> dict[str, Any]:
    faults = draft.faults
    entries: dict[str, RelationEntry] = {}
    facts: list[Fact] = []
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
    return {"graph": lambda: aliased_graph(draft, facts, names)}


def _folders(path: Path) -> list[Path]:
    return [path, *(inner for inner in sorted(path.iterdir()) if inner.is_dir())] if path.is_dir() else [path]


def _entry(file: Path, content: Json, faults: Faults) -> RelationEntry:
    about = content.get("properties")
    kind = about.get("relation_type") if isinstance(about, dict) else None
    texts = [texts_of(content.get(name, [])) for name in ("prompt_templates_zs", "prompt_templates")]
    if None in texts:
        faults.add(file, None, "'prompt_templates' and 'prompt_templates_zs' must be lists of texts")
    prompts = dict.fromkeys(text for some in texts for text in some or ())
    if bad := next((text for text in prompts if "{}" not in text), None):
        faults.add(file, None, f"template {shown(bad)} has no {{}}: expected it for the subject")
    templates = check_templates(file, None, (completed(text.replace("{}", SUBJECT)) for text in prompts), faults)
    name = content.get("name")
    domains = (kind,) if isinstance(kind, str) else ()
    return RelationEntry(templates, name if isinstance(name, str) else "", domains=domains)


def _facts(file: Path, relation: str, samples: list[Json], faults: Faults) -> Iterator[Fact]:
    for line, sample in zip(_lines(file, len(samples)), samples, strict=True):
        pair = [sample.get(name) for name in ("subject", "object")] if isinstance(sample, dict) else [None]
        if texts_of(pair) is None:
            faults.add(file, line, f"expected a sample with 'subject' and 'object', texts, found {shown(sample)}")
            continue
        subject, answer = map(str, pair)
        yield Fact(file, line, "", relation, subject, subject, (NamedAnswer(answer, answer),))


def _lines(file: Path, count: int) -> list[int]:
    """Return the line of each sample's subject; line 1 for all if a sample has none."""
    try:
        lines = enumerate(read_text(file).split("\n"), start=1)
    except Unreadable:
        return [1] * count
    numbers = [number for number, line in lines for _ in _SUBJECT_KEY.findall(line)]
    return numbers if len(numbers) == count else [1] * count


FORMAT = define_format(
    "lre",
    "JSON files with prompt_templates and samples (LRE)",
    JSON_ENDINGS,
    lambda file: {"prompt_templates", "samples"} <= keys_of(file),
    _fill,
    nothing="no samples: expected {'subject': …, 'object': …}",
    licence="MIT",
    places=_folders,
)
