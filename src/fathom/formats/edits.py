"""Facts to be edited, each with the answer after the edit: CounterFact and zsRE.

CounterFact (Meng et al., NeurIPS 2022), ``counterfact.json``: ``requested_rewrite`` with ``prompt`` (``{}`` for the
subject), ``target_true`` and ``target_new``, lists of ``paraphrase_prompts`` and ``neighborhood_prompts``. Or in
EasyEdit's form: ``prompt``, ``ground_truth``, ``target_new``, one ``rephrase_prompt`` and one ``locality_prompt`` with
``locality_ground_truth``.

zsRE (Levy et al., CoNLL 2017) as used for editing models (Mitchell et al., ICLR 2022), ``zsre_mend_eval.json``:
``src`` asks for a fact, ``rephrase`` is a paraphrase, ``answers`` are right and ``alt`` is the edited answer; ``loc``
is a question about another fact, with ``loc_ans``.

Each prompt is a query between the right and the edited answer, in the group ``prompt``: target, paraphrase, or
neighbourhood (another subject, which the edit must not change).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fathom.formats.base import texts_of
from fathom.formats.closed_questions import ClosedQuestion, add_questions, completed
from fathom.formats.recognition import JSON_ENDINGS, data_files, define_format, keys_of
from fathom.reading import Faults, Json, read_json_items, shown

_TARGET, _PARAPHRASE, _NEIGHBOURHOOD = "target", "paraphrase", "neighbourhood"
_PUBLISHED: dict[str, type] = {
    "case_id": int,
    "requested_rewrite": dict,
    "paraphrase_prompts": list,
    "neighborhood_prompts": list,
}
_EASY_EDIT: dict[str, type] = {"case_id": int} | dict.fromkeys(
    ("prompt", "target_new", "subject", "ground_truth", "rephrase_prompt", "locality_prompt", "locality_ground_truth"),
    str,
)
_ZSRE: dict[str, type] = dict.fromkeys(("subject", "src", "rephrase", "alt", "loc", "loc_ans"), str) | {"answers": list}
_EXPECTED = (
    "expected 'requested_rewrite' with 'prompt' (with {} once), 'subject', 'relation_id', 'target_true' and "
    "'target_new' (each with 'str' and 'id'), and lists of texts as 'paraphrase_prompts' and 'neighborhood_prompts'"
)
_VARIANTS = {
    frozenset({"portability", "target_new"}): "KnowEdit's variant, without locality_prompt",
    frozenset({"known_id", "attribute"}): "facts that GPT-2 XL knows (known_1000.json), without other answers",
}


class _Edit(NamedTuple):
    """A fact with its prompts.

    :param relation: the data set's name if the file names no relation.
    :param neighbours: prompts with their right answers.
    :param ids: of the two answers, if the file has them.
    """

    id: str
    relation: str
    subject: str
    prompt: str
    right: list[str]
    edited: str
    paraphrases: list[str]
    neighbours: list[tuple[str, str]]
    ids: Mapping[str, str] = {}


def _read_counterfact(files: list[Path], faults: Faults) -> Iterator[ClosedQuestion]:
    for file in files:
        is_published = "requested_rewrite" in keys_of(file)
        for line, row in read_json_items(file, _PUBLISHED if is_published else _EASY_EDIT, faults):
            edit = _published(row) if is_published else _easy_edit(row)
            if edit is None:
                faults.add(file, line, _EXPECTED)
            else:
                yield from _questions(file, line, edit)


def _is_counterfact(file: Path) -> bool:
    keys = keys_of(file)
    return "requested_rewrite" in keys or {"rephrase_prompt", "locality_prompt"} <= keys


def _refuse_variant(path: Path) -> str:
    keys_by_file = [keys_of(file) for file in data_files(path, *JSON_ENDINGS)]
    variant = next((name for keys, name in _VARIANTS.items() if any(keys <= others for others in keys_by_file)), "")
    return variant and f"{variant}: give CounterFact's own counterfact.json"


def _published(row: Json) -> _Edit | None:
    """Return None if a field is not as published."""
    rewrite = row["requested_rewrite"]
    answers = [_answer(rewrite.get(name)) for name in ("target_true", "target_new")]
    texts = [rewrite.get(name) for name in ("prompt", "subject", "relation_id")]
    paraphrases, neighbours = texts_of(row["paraphrase_prompts"]), texts_of(row["neighborhood_prompts"])
    if None in answers or texts_of(texts) is None or paraphrases is None or neighbours is None:
        return None
    prompt, subject, relation = texts
    (right, right_id), (edited, edited_id) = filter(None, answers)
    if prompt.count("{}") != 1:
        return None
    around = [(text, right) for text in neighbours]
    ids, prompt = {right: right_id, edited: edited_id}, prompt.replace("{}", subject)
    return _Edit(str(row["case_id"]), relation, subject, prompt, [right], edited, paraphrases, around, ids)


def _answer(value: Any) -> tuple[str, str] | None:
    """Return name and id."""
    parts = (value.get("str"), value.get("id")) if isinstance(value, dict) else (None, None)
    return (parts[0], parts[1]) if isinstance(parts[0], str) and isinstance(parts[1], str) else None


def _easy_edit(row: Json) -> _Edit:
    return _Edit(
        str(row["case_id"]),
        "counterfact",
        row["subject"],
        row["prompt"],
        [row["ground_truth"]],
        row["target_new"],
        [row["rephrase_prompt"]],
        [(row["locality_prompt"], row["locality_ground_truth"])],
    )


def _read_zsre(files: list[Path], faults: Faults) -> Iterator[ClosedQuestion]:
    for file in files:
        for number, (line, row) in enumerate(read_json_items(file, _ZSRE, faults)):
            if not texts_of(row["answers"]):
                faults.add(file, line, f"'answers' must be a list of texts, found {shown(row['answers'])}")
                continue
            id_ = f"{file.name.split('.')[0]}/{number}" if len(files) > 1 else str(number)
            right, neighbours = list(dict.fromkeys(row["answers"])), [(row["loc"], row["loc_ans"])]
            edit = _Edit(id_, "zsre", row["subject"], row["src"], right, row["alt"], [row["rephrase"]], neighbours)
            yield from _questions(file, line, edit, by_kind=True)


def _refuse_unedited(path: Path) -> str:
    """Refuse the data set from which the edits were made, in KILT's form."""
    files = data_files(path, ".jsonl", ".jsonl.gz")
    if any("zeroshot" in file.name and {"input", "output"} <= keys_of(file) for file in files):
        return "zsRE without edits (input and output): give MEND's variant, zsre_mend_eval.json"
    return ""


def _questions(file: Path, line: int, edit: _Edit, by_kind: bool = False) -> Iterator[ClosedQuestion]:
    """:param by_kind: ids name the kind of the prompt, not its number."""
    prompts = [
        (_TARGET, edit.prompt, edit.right),
        *((_PARAPHRASE, text, edit.right) for text in edit.paraphrases),
        *((_NEIGHBOURHOOD, text, [right]) for text, right in edit.neighbours),
    ]
    for number, (kind, text, right) in enumerate(prompts):
        yield ClosedQuestion(
            file,
            line,
            f"{edit.id}/{kind if by_kind else number}",
            edit.relation,
            [completed(text)],
            right,
            [edit.edited],
            {"prompt": kind, "split": file.name.split(".")[0]},
            *(("", "") if kind == _NEIGHBOURHOOD else (edit.subject, f"case {edit.id}")),
            ids=edit.ids,
        )


COUNTERFACT = define_format(
    "counterfact",
    "counterfact.json (CounterFact)",
    JSON_ENDINGS,
    _is_counterfact,
    lambda draft, files: add_questions(draft, _read_counterfact(files, draft.faults)),
    nothing="no facts: expected a list of them",
    licence="MIT",
    refusal=_refuse_variant,
)
ZSRE = define_format(
    "zsre",
    "zsre_mend_eval.json (zsRE)",
    JSON_ENDINGS,
    lambda file: {"src", "alt", "loc_ans"} <= keys_of(file),
    lambda draft, files: add_questions(draft, _read_zsre(files, draft.faults)),
    nothing="no questions: expected a list of them",
    refusal=_refuse_unedited,
)
