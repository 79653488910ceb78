"""A data set about invented people, which no model can know: for planted models (``fathom plant``).

Every name is a nonce word, and each answer is drawn independently. Short, medium and long answers are equally frequent;
within each length they follow Zipf's law. So neither tells a planted fact from a withheld one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from fathom.base.errors import refuse
from fathom.base.options import read_yaml
from fathom.base.reading import Json
from fathom.data.formats.native import write_native
from fathom.data.nonce import nonce_words
from fathom.store.files import write_json
from fathom.store.outputs import obstacles, signature_of, whole_folder
from fathom_build.options import InventedOptions

RELATIONS = Path(__file__).with_suffix(".yaml")
LENGTHS = ("short", "medium", "long")
"""One syllable, three syllables, and two words of two."""


def build_invented(options: InventedOptions) -> dict[str, int]:
    """Write a data folder of invented people. :returns: counts of people, facts and candidates.

    :raises BadInput: the folder exists.
    :raises MadeBefore: the same call has made it.
    """
    signature = signature_of("build invented", options.model_dump(mode="json", exclude={"out"}))
    refuse(obstacles(options.out, signature))
    relations: Mapping[str, Any] = read_yaml(RELATIONS)
    names = {id_: _answers(id_, options) for id_ in relations}
    with whole_folder(options.out, signature) as folder:
        write_native(folder, _facts(relations, names, options), _relations(relations, names))
        write_json(folder / "dataset.json", {"name": "invented people", "version": "1", "licence": "CC0-1.0"})
    counts = {"people": options.people, "facts": options.people * len(relations)}
    return counts | {"candidates of each relation": options.answers}


def _answers(relation: str, options: InventedOptions) -> dict[str, str]:
    """Return the length of each answer of a relation, by its name."""
    words = {
        length: nonce_words(f"{options.seed} {relation} {length}", syllables=syllables)
        for length, syllables in zip(LENGTHS, (1, 3, 2), strict=True)
    }
    answers = {}
    for place in range(options.answers):
        length = LENGTHS[place % len(LENGTHS)]
        answers[" ".join(islice(words[length], 2 if length == "long" else 1)).title()] = length
    return answers


def _facts(
    relations: Mapping[str, Any], names: Mapping[str, Mapping[str, str]], options: InventedOptions
) -> Iterator[Json]:
    draw = np.random.default_rng(options.seed)
    words = nonce_words(f"{options.seed} people")
    # Answers take turns between lengths, so those of one rank are equally frequent.
    weights = 1 / (1 + np.arange(options.answers) // len(LENGTHS))
    for _ in range(options.people):
        person = next(words).title()
        for id_, relation in relations.items():
            answer = list(names[id_])[draw.choice(options.answers, p=weights / weights.sum())]
            yield {
                "subject": person,
                "relation": id_,
                "answer": answer,
                "sentences": [relation["sentence"].replace("[X]", person)],
                "groups": {"length": names[id_][answer]},
            }


def _relations(relations: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]) -> Iterator[Json]:
    for id_, relation in relations.items():
        yield {
            "relation": id_,
            "name": relation["name"],
            "templates": relation["templates"],
            "questions": [relation["question"]],
            "candidates": sorted(names[id_]),  # lest the order tells the frequent from the rare
        }
