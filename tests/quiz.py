"""A small folder of multiple choice questions, for tests."""

from __future__ import annotations

import json
from pathlib import Path

from fathom.data.prompts.choices import shown


def write(file, *rows):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def make_quiz(folder: Path) -> Path:
    """Memorising: four sub-classes; reasoning after rdfs9, P1 given and not."""
    options = {
        "ant": ("insect", ("insect", "boat", "ants")),
        "oak": ("tree", ("boat", "tree", "oaks")),
        "cod": ("fish", ("fish", "tree", "boat", "cods")),
        "elm": ("tree", ("boat", "tree", "elms")),
    }

    def lines(question):
        return [
            {"prompt": shown(question.format(name=name, kind=kind), names), "gold": kind}
            for name, (kind, names) in options.items()
        ]

    write(folder / "memorizing" / "subClassOf.jsonl", *lines("What is the superclass of {name}?"))
    write(folder / "reasoning" / "rdfs9-02.jsonl", *lines("X is a {name}. Therefore, What is the type of X?"))
    given = "{name} is a {kind}. X is a {name}. Therefore, What is the type of X?"
    write(folder / "reasoning" / "rdfs9-22.jsonl", *lines(given))
    return folder
