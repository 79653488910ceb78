"""TOFU (Maini et al., COLM 2024): questions on invented authors, some of which a model should forget.

Published files (huggingface.co/datasets/locuslab/TOFU): ``forget10_perturbed.json``, ``retain_perturbed.json``,
``real_authors_perturbed.json`` and ``world_facts_perturbed.json``, one object per line: ``question``, ``answer``,
``perturbed_answer`` (wrong ones), and for invented authors ``paraphrased_answer`` and ``paraphrased_question``. The
group ``part`` is the kind of file; the nested ``forget01``, ``forget05`` and ``forget10`` are subsets.

As in the paper's truth ratio, the paraphrased answer, worded like the wrong ones, is the gold answer. The answer,
which may be training data, is right but not ranked. Without a paraphrase, the answer is gold.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fathom.formats.base import Draft, texts_of
from fathom.formats.closed_questions import ClosedQuestion, add_questions, completed
from fathom.formats.recognition import JSON_ENDINGS, beginning, data_files, define_format, keys_of
from fathom.reading import Faults, read_json_lines, shown

_PERTURBED = re.compile(r"((forget)\d\d|retain|real_authors|world_facts)_perturbed\.json(\.gz)?")
_BARE = re.compile(r"(full|(forget|retain|holdout)\d\d|real_authors|world_facts)\.json(\.gz)?")
_ROW: dict[str, type] = {"question": str, "answer": str, "perturbed_answer": list}


def _fill(draft: Draft, files: list[Path]) -> dict[str, Any]:
    subsets: dict[str, set[str]] = defaultdict(set)
    add_questions(draft, _questions(files, subsets, draft.faults))
    return {"subsets": {name: frozenset(ids) for name, ids in sorted(subsets.items())}}


def _questions(files: list[Path], subsets: dict[str, set[str]], faults: Faults) -> Iterator[ClosedQuestion]:
    """Yield each question once. :param subsets: ids of the queries by name, which are added."""
    ids: dict[tuple[str, str, str], str] = {}
    counts: Counter[str] = Counter()
    for file in sorted(files, reverse=True):  # forget10 before its parts
        match = _PERTURBED.fullmatch(file.name)
        assert match is not None
        if beginning(file).startswith("["):
            faults.add(file, 1, "a list, as others store TOFU: expected one object per line, as published")
            continue
        part = match[2] or match[1]
        for line, row in read_json_lines(file, _ROW, faults):
            key = (part, row["question"], row["answer"])
            if key not in ids:
                ids[key] = f"{part}/{counts[part]}"
                counts[part] += 1
                wrong, answer = texts_of(row["perturbed_answer"]), row["answer"]
                others = [row.get(f"paraphrased_{name}", row[name]) for name in ("question", "answer")]
                if not wrong or (paraphrases := texts_of(others)) is None:
                    expected = "'perturbed_answer', a list of texts, 'paraphrased_answer' and 'paraphrased_question'"
                    faults.add(file, line, f"expected {expected}, texts, found {shown(row)}")
                else:
                    paraphrase, right = paraphrases
                    texts, known = [completed(row["question"]), completed(paraphrase)], [answer] * (answer != right)
                    yield ClosedQuestion(file, line, ids[key], part, texts, [right], wrong, {"part": part}, known=known)
            if match[2]:
                subsets[match[1]].add(ids[key])


def _is_tofu(file: Path, pattern: re.Pattern[str] = _PERTURBED) -> bool:
    return bool(pattern.fullmatch(file.name)) and {"question", "answer"} <= keys_of(file)


def _refuse_bare(path: Path) -> str:
    if any(_is_tofu(file, _BARE) for file in data_files(path, *JSON_ENDINGS)):
        return "TOFU's questions without wrong answers: give its files with _perturbed in their name"
    return ""


FORMAT = define_format(
    "tofu",
    "forget10_perturbed.json (TOFU)",
    JSON_ENDINGS,
    _is_tofu,
    _fill,
    nothing="no questions: expected one per line",
    licence="MIT",
    refusal=_refuse_bare,
)
