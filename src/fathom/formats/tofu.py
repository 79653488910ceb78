"""TOFU (Maini et al., COLM 2024): questions on invented authors, some of which a model is to forget.

As published (huggingface.co/datasets/locuslab/TOFU): ``forget10_perturbed.json``, ``retain_perturbed.json``,
``real_authors_perturbed.json`` and ``world_facts_perturbed.json``, one object per line: ``question``, ``answer``,
``perturbed_answer`` (wrong ones), and of invented authors ``paraphrased_answer`` and ``paraphrased_question``. Those of
one kind are the group ``part``; ``forget01``, ``forget05`` and ``forget10`` lie in each other and are subsets.

As in the paper's truth ratio, right is the paraphrased answer, which is worded like the wrong ones; the answer itself,
on which a model may have been trained, is right, too, and not ranked. Without a paraphrase, the answer is right.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from fathom.data.queries import QuerySet
from fathom.formats.base import Draft, Format, texts_of
from fathom.formats.own_answers import ClosedQuestion, OwnAnswers, completed
from fathom.formats.peeking import beginning, data_files, keys_of, note_rest
from fathom.reading import Faults, Json, read_json_lines, shown

_PERTURBED = re.compile(r"((forget)\d\d|retain|real_authors|world_facts)_perturbed\.json(\.gz)?")
_BARE = re.compile(r"(full|(forget|retain|holdout)\d\d|real_authors|world_facts)\.json(\.gz)?")
_ENDINGS = (".json", ".json.gz")
_ROW: dict[str, type] = {"question": str, "answer": str, "perturbed_answer": list}


def read_tofu(path: Path, faults: Faults) -> QuerySet | None:
    """:returns: the query set, None where a fault keeps it from being read."""
    files = _files(path, _PERTURBED)
    if not files:
        faults.add(path, None, "TOFU's questions without wrong answers: give its files with _perturbed in their name")
        return None
    note_rest(path, _ENDINGS, files, faults)
    draft = Draft(path, faults)
    made = OwnAnswers(draft)
    ids: dict[tuple[str, str, str], str] = {}
    subsets: dict[str, set[str]] = defaultdict(set)
    for file in sorted(files, reverse=True):  # forget10 before its parts
        named = _PERTURBED.fullmatch(file.name)
        assert named is not None
        if beginning(file).startswith("["):
            faults.add(file, 1, "a list, as others store TOFU: expected one object per line, as published")
            continue
        part = named[2] or named[1]
        for line, row in read_json_lines(file, _ROW, faults):
            key = (part, row["question"], row["answer"])
            if key not in ids:
                ids[key] = f"{part}/{sum(known[0] == part for known in ids)}"
                _add(made, file, line, row, ids[key], part)
            if named[2]:
                subsets[named[1]].add(ids[key])
    made.finish()
    return draft.queryset(
        path.name.split(".")[0],
        nothing="no questions: expected one per line",
        licence="MIT",
        subsets={name: frozenset(some) for name, some in sorted(subsets.items())},
    )


def _files(path: Path, pattern: re.Pattern[str]) -> list[Path]:
    files = [file for file in data_files(path, *_ENDINGS) if pattern.fullmatch(file.name)]
    return [file for file in files if {"question", "answer"} <= keys_of(file)]


def _add(made: OwnAnswers, file: Path, line: int, row: Json, id_: str, part: str) -> None:
    wrong = texts_of(row["perturbed_answer"])
    asked_too, right = row.get("paraphrased_question", row["question"]), row.get("paraphrased_answer", row["answer"])
    if not wrong or texts_of([asked_too, right]) is None:
        expected = "'perturbed_answer', a list of texts, 'paraphrased_answer' and 'paraphrased_question', texts"
        made.draft.faults.add(file, line, f"expected {expected}, found {shown(row)}")
        return
    questions = [completed(row["question"]), completed(str(asked_too))]
    known = [row["answer"]] if row["answer"] != right else []
    made.add(file, line, ClosedQuestion(id_, part, questions, [str(right)], wrong, {"part": part}, known=known))


FORMAT = Format(
    "tofu",
    "forget10_perturbed.json (TOFU)",
    lambda path: bool(_files(path, _PERTURBED) or _files(path, _BARE)),
    read_tofu,
)
