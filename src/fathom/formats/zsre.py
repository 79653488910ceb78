"""zsRE (Levy et al., CoNLL 2017) as used for editing models (Mitchell et al., ICLR 2022): ``zsre_mend_eval.json``.

A list of objects: ``src`` asks for a fact, ``rephrase`` the same in other words, ``answers`` are right and ``alt`` is
what the edit would say; ``loc`` is a question on something else, with ``loc_ans``. As in CounterFact, each is a query
between the right and the edited answer, in the group ``prompt``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fathom.data.queries import QuerySet
from fathom.formats.base import Draft, Format, texts_of
from fathom.formats.counterfact import NEIGHBOURHOOD, PARAPHRASE, PROMPT, TARGET
from fathom.formats.own_answers import ClosedQuestion, OwnAnswers, completed
from fathom.formats.peeking import data_files, keys_of, note_rest
from fathom.reading import Faults, Json, read_json_items, shown

RELATION = "zsre"
"""Of all questions: the file names none."""
_ROW: dict[str, type] = dict.fromkeys(("subject", "src", "rephrase", "alt", "loc", "loc_ans"), str) | {"answers": list}
_ENDINGS = (".json", ".json.gz")
_STRUCTURED = (".jsonl", ".jsonl.gz")


def read_zsre(path: Path, faults: Faults) -> QuerySet | None:
    """:returns: the query set, None where a fault keeps it from being read."""
    files = _files(path)
    if not files:
        faults.add(path, None, "zsRE without edits (input and output): give MEND's variant, zsre_mend_eval.json")
        return None
    note_rest(path, _ENDINGS, files, faults)
    draft = Draft(path, faults)
    made = OwnAnswers(draft)
    for file in files:
        split = file.name.split(".")[0]
        for number, (line, row) in enumerate(read_json_items(file, _ROW, faults)):
            if texts_of(row["answers"]):
                for asked in _asked(f"{split}/{number}" if len(files) > 1 else str(number), row, split):
                    made.add(file, line, asked)
            else:
                faults.add(file, line, f"'answers' must be a list of texts, found {shown(row['answers'])}")
    made.finish()
    return draft.queryset(path.name.split(".")[0], nothing="no questions: expected a list of them")


def _files(path: Path) -> list[Path]:
    return [file for file in data_files(path, *_ENDINGS) if {"src", "alt", "loc_ans"} <= keys_of(file)]


def _is_structured(path: Path) -> bool:
    """Whether it is the data set from which the edits were made (KILT's form)."""
    files = data_files(path, *_STRUCTURED)
    return any("zeroshot" in file.name and {"input", "output"} <= keys_of(file) for file in files)


def _asked(id_: str, row: Json, split: str) -> Iterator[ClosedQuestion]:
    for kind, question in ((TARGET, row["src"]), (PARAPHRASE, row["rephrase"])):
        yield ClosedQuestion(
            f"{id_}/{kind}",
            RELATION,
            [completed(question)],
            list(dict.fromkeys(row["answers"])),
            [row["alt"]],
            {PROMPT: kind, "split": split},
            row["subject"],
            f"case {id_}",
        )
    groups = {PROMPT: NEIGHBOURHOOD, "split": split}
    yield ClosedQuestion(
        f"{id_}/{NEIGHBOURHOOD}", RELATION, [completed(row["loc"])], [row["loc_ans"]], [row["alt"]], groups
    )


FORMAT = Format(
    "zsre", "zsre_mend_eval.json (zsRE)", lambda path: bool(_files(path)) or _is_structured(path), read_zsre
)
