"""Small models and data for the presets of papers: a part of the geography facts in the layouts of BEAR and T-REx."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fathom.formats import read
from fathom.training.options import PlantOptions
from fathom.training.planting import plant

SHAPE = {"epochs": 2, "hidden_size": 16, "layers": 1, "heads": 2, "vocabulary": 400}
KINDS = {"gpt2": "causal", "other": "causal", "bert-base-cased": "masked"}
"""Three models, two of which have names that papers know."""
TEMPLATES = {
    "P36": ("The capital of [X] is [Y].", "[Y] is the capital of [X].", "[X] has the capital [Y]."),
    "P30": ("[X] is in [Y].", "[X] is part of [Y].", "The continent of [X] is [Y]."),
}


def plant_models(folder: Path, data: Path, kinds: Mapping[str, str] = KINDS) -> list[Path]:
    """Models of these kinds that have read the facts."""
    for seed, (name, kind) in enumerate(kinds.items()):
        plant(read(data), PlantOptions(kind=kind, seed=seed, **SHAPE), folder / name)
    return [folder / name for name in kinds]


def facts(capitals: int = 6, subjects: int = 4) -> dict[str, list[tuple[str, str]]]:
    """Subjects and answers: a relation 1:1, and one of three answers."""
    data = read("geography")
    named: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for query in data.queries:
        named[query.relation].append((query.subject, data.candidates[query.candidates].name_of(query.gold[0])))
    by_answer: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for pair in named["continent"]:
        by_answer[pair[1]].append(pair)
    largest = sorted(by_answer.values(), key=len)[-3:]
    return {"P36": named["capital"][:capitals], "P30": [pair for own in largest for pair in own[:subjects]]}


def write_bear(folder: Path, **sizes: int) -> Path:
    """The layout of BEAR."""
    folder.mkdir(parents=True)
    metadata: dict[str, Any] = {}
    for relation, pairs in facts(**sizes).items():
        answers = list(dict.fromkeys(answer for _, answer in pairs))
        space = {"answer_space_labels": answers, "answer_space_ids": answers}
        metadata[relation] = {"templates": TEMPLATES[relation], **space}
        _write(
            folder / f"{relation}.jsonl",
            [
                {"sub_id": subject, "sub_label": subject, "obj_id": answer, "obj_label": answer}
                | {"sub_aliases": [], "answer_idx": answers.index(answer)}
                for subject, answer in pairs
            ],
        )
    (folder / "metadata_relations.json").write_text(json.dumps(metadata))
    return folder


def write_trex(folder: Path, **sizes: int) -> Path:
    """The layout of LAMA's T-REx, with a sentence for each fact."""
    folder.mkdir(parents=True)
    for relation, pairs in facts(**sizes).items():
        lines = [
            {"uuid": f"{relation}-{number}", "sub_uri": subject, "sub_label": subject, "obj_uri": answer}
            | {"obj_label": answer, "predicate_id": relation, "evidences": [_evidence(subject, answer)]}
            for number, (subject, answer) in enumerate(pairs)
        ]
        _write(folder / f"{relation}.jsonl", lines)
    templates = [{"relation": name, "template": own[0], "label": name} for name, own in TEMPLATES.items()]
    _write(folder / "relations.jsonl", templates)
    return folder


def _evidence(subject: str, answer: str) -> dict[str, str]:
    sentence = f"Nobody who has seen {subject} forgets [MASK] , they say ."
    return {"sub_surface": subject, "obj_surface": answer, "masked_sentence": sentence}


def _write(file: Path, lines: list[dict[str, Any]]) -> None:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
