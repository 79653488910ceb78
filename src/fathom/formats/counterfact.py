"""CounterFact (Meng et al., NeurIPS 2022): facts to be edited, each with what the edit would say instead.

As published (``counterfact.json``): ``requested_rewrite`` with ``prompt`` (``{}`` for the subject), ``target_true`` and
``target_new``, lists of ``paraphrase_prompts`` and ``neighborhood_prompts``. Or in EasyEdit's form: ``prompt``,
``ground_truth``, ``target_new``, one ``rephrase_prompt`` and one ``locality_prompt`` with ``locality_ground_truth``.

Each prompt is a query between the true and the edited answer, in the group ``prompt``: target, paraphrase (the same
fact in other words) or neighbourhood (another subject, of which the true answer is true, too). The true one is right:
before an edit, and of the neighbourhood also after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fathom.data.queries import QuerySet
from fathom.formats.base import Draft, Format, texts_of
from fathom.formats.own_answers import ClosedQuestion, OwnAnswers, completed
from fathom.formats.peeking import data_files, keys_of, note_rest
from fathom.reading import Faults, Json, read_json_items

PROMPT, TARGET, PARAPHRASE, NEIGHBOURHOOD = "prompt", "target", "paraphrase", "neighbourhood"
"""The group, and its values."""
RELATION = "counterfact"
"""Of all facts, where the file names no relation (EasyEdit)."""

_PUBLISHED: dict[str, type] = {"requested_rewrite": dict, "paraphrase_prompts": list, "neighborhood_prompts": list}
_EASY_EDIT: dict[str, type] = dict.fromkeys(
    (
        "prompt",
        "target_new",
        "subject",
        "ground_truth",
        "rephrase_prompt",
        "locality_prompt",
        "locality_ground_truth",
    ),
    str,
)
_ID: dict[str, type] = {"case_id": int}
_EXPECTED = (
    "expected 'requested_rewrite' with 'prompt' (with {} once), 'subject', 'relation_id', 'target_true' and "
    "'target_new' (each with 'str' and 'id'), and lists of texts as 'paraphrase_prompts' and 'neighborhood_prompts'"
)
_ENDINGS = (".json", ".json.gz")
_OTHERS = {
    frozenset({"portability", "target_new"}): "KnowEdit's variant, without locality_prompt",
    frozenset({"known_id", "attribute"}): "facts that GPT-2 XL knows (known_1000.json), without other answers",
}


class _Case(NamedTuple):
    """A fact with its prompts.

    :param ids: of the two answers, where the file has them.
    :param around: prompts of neighbours, each with its right answer.
    """

    relation: str
    subject: str
    prompt: str
    right: str
    edited: str
    ids: dict[str, str]
    paraphrases: list[str]
    around: list[tuple[str, str]]


def read_counterfact(path: Path, faults: Faults) -> QuerySet | None:
    """:returns: the query set, None where a fault keeps it from being read."""
    files = _files(path)
    if not files:
        faults.add(path, None, f"{_other(path)}: give CounterFact's own counterfact.json")
        return None
    note_rest(path, _ENDINGS, files, faults)
    draft = Draft(path, faults)
    made = OwnAnswers(draft)
    for file in files:
        split = file.name.split(".")[0]
        published = "requested_rewrite" in keys_of(file)
        for line, row in read_json_items(file, _ID | (_PUBLISHED if published else _EASY_EDIT), faults):
            case = _published(row) if published else _easy_edit(row)
            if case is None:
                faults.add(file, line, _EXPECTED)
                continue
            for asked in _asked(str(row["case_id"]), case, split):
                made.add(file, line, asked)
    made.finish()
    return draft.queryset(path.name.split(".")[0], nothing="no facts: expected a list of them", licence="MIT")


def _files(path: Path) -> list[Path]:
    marks = ({"requested_rewrite"}, {"rephrase_prompt", "locality_prompt"})
    return [file for file in data_files(path, *_ENDINGS) if any(mark <= keys_of(file) for mark in marks)]


def _other(path: Path) -> str:
    """What was made of it or is published with it, and cannot be asked; "" where there is none of these."""
    keys_by_file = [keys_of(file) for file in data_files(path, *_ENDINGS)]
    return next((what for mark, what in _OTHERS.items() for keys in keys_by_file if mark <= keys), "")


def _published(row: Json) -> _Case | None:
    """None where something is not as published."""
    rewrite = row["requested_rewrite"]
    answers = [_target(rewrite.get(name)) for name in ("target_true", "target_new")]
    texts = [rewrite.get(name) for name in ("prompt", "subject", "relation_id")]
    paraphrases, around = texts_of(row["paraphrase_prompts"]), texts_of(row["neighborhood_prompts"])
    if None in answers or texts_of(texts) is None or paraphrases is None or around is None:
        return None
    prompt, subject, relation = texts
    (right, right_id), (edited, edited_id) = filter(None, answers)
    if prompt.count("{}") != 1:
        return None
    return _Case(
        relation,
        subject,
        prompt.replace("{}", subject),
        right,
        edited,
        {right: right_id, edited: edited_id},
        paraphrases,
        [(text, right) for text in around],
    )


def _target(value: Any) -> tuple[str, str] | None:
    """Name and id of an answer."""
    parts = (value.get("str"), value.get("id")) if isinstance(value, dict) else (None, None)
    return (parts[0], parts[1]) if isinstance(parts[0], str) and isinstance(parts[1], str) else None


def _easy_edit(row: Json) -> _Case:
    return _Case(
        RELATION,
        row["subject"],
        row["prompt"],
        row["ground_truth"],
        row["target_new"],
        {},
        [row["rephrase_prompt"]],
        [(row["locality_prompt"], row["locality_ground_truth"])],
    )


def _asked(case_id: str, case: _Case, split: str) -> Iterator[ClosedQuestion]:
    prompts = [(TARGET, case.prompt, case.right)]
    prompts += [(PARAPHRASE, text, case.right) for text in case.paraphrases]
    prompts += [(NEIGHBOURHOOD, text, right) for text, right in case.around]
    for number, (kind, text, right) in enumerate(prompts):
        of_case = kind != NEIGHBOURHOOD
        yield ClosedQuestion(
            f"{case_id}/{number}",
            case.relation,
            [completed(text)],
            [right],
            [case.edited],
            {PROMPT: kind, "split": split},
            case.subject if of_case else "",
            f"case {case_id}" if of_case else "",
            ids=case.ids,
        )


FORMAT = Format(
    "counterfact",
    "counterfact.json (CounterFact)",
    lambda path: bool(_files(path)) or bool(_other(path)),
    read_counterfact,
)
