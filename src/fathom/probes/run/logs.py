"""What results of other tools must hold, and the checks of their lines: lm-pub-quiz, lm-evaluation-harness."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, Strict

from fathom.base.reading import Faults, Json, first_few, read_json_lines, repetition
from fathom.base.reading.objects import Object, object_faults
from fathom.data.queries import Query, QuerySet

Place = Annotated[int, Field(ge=0)]
Nats = Annotated[float, Field(le=0)]
Written = Annotated[str, Field(pattern=r"^(-([0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?|inf)|0(\.0+)?|nan)$")]
"""A log-likelihood as text."""
PLL = {
    "original": "original",
    "within_word_l2r": "within-word-l2r",
    "answer_l2r+word_l2r": "answer-l2r",
    "sentence_l2r": "sentence-l2r",
}
"""Fathom's names of lm-pub-quiz's ways to mask."""


class QuizRelation(Object):
    """A relation in ``metadata_results.json``."""

    templates: list[str] | None = None
    template_index: Place | list[Place] | None = Field(None, description="the number of a template, or several")
    answer_space_ids: list[str | int] | None = Field(None, description="a list of ids")
    answer_space_labels: list[str | int] | None = Field(None, description="a list of names")
    reduction: Literal["sum", "mean", ""] | None = Field(None, description="'sum' or 'mean', or null if not reduced")
    pll_metric: Literal[tuple(PLL)] | None = Field(None, description=" or ".join(PLL))  # type: ignore[valid-type]
    model_name_or_path: str | None = None
    lm_pub_quiz_version: str | None = None


class QuizRow(Object):
    """A line of ``P36_results.jsonl``; lm-pub-quiz reads its own older layouts, and saves them in this one."""

    sub_id: str
    sub_label: str | None = None
    obj_id: str | int | None = None
    answer_idx: Place | None = None
    instance_index: Place | None = None
    template_index: Place | None = None
    pll_scores: list[Nats | Annotated[list[Nats], Field(min_length=1)] | None] | None = Field(
        None, description="a score of 0 or less, or those of one token or more, for each answer"
    )


class HarnessDocument(Object):
    """A document of the task BEAR, or of one that ``fathom export lm-eval`` wrote."""

    query: str | None = None
    relation: str
    template_index: Place
    template: str | None = None
    subject: str | None = None
    answer_options: list[str]
    text_options: list[str] | None = None
    correct: Place | Annotated[list[Place], Field(min_length=1)] | None = Field(
        None, description="the place of the right option, or several"
    )


class HarnessRow(Object):
    """A line of ``samples_TASK_TIME.jsonl``."""

    doc: HarnessDocument
    target: Place | Annotated[str, Field(pattern=r"^[0-9]{1,9}$")] | None = Field(
        None, description="the place of an option"
    )
    resps: list[Annotated[list[Any], Field(min_length=1)]] | None = Field(
        None, description="[[log-likelihood, …]] for each option"
    )
    filtered_resps: list[Annotated[tuple[Nats | Written, Any], Strict(False)]] = Field(
        description="[log-likelihood of 0 or less, …] for each option"
    )


class HarnessArguments(Object):
    """The arguments of a model."""

    pretrained: str | None = None


class HarnessConfig(Object):
    """The model of ``results_TIME.json``."""

    model_args: str | HarnessArguments | None = None
    model_sha: str | None = None
    model_dtype: str | None = None


class HarnessResults(Object):
    """``results_TIME.json``."""

    config: HarnessConfig = HarnessConfig()
    model_name: str | None = None
    lm_eval_version: str | None = None


class ScoredQuery(NamedTuple):
    """A query in one template. :param scores: of all candidates, in nats, by the name of the scoring."""

    query: Query
    template: int
    scores: Mapping[str, Sequence[float]]


class RowChecker:
    """The lines of a file of results: each must be as declared, new, and of the data set."""

    def __init__(self, file: Path, data: QuerySet, faults: Faults, kind: type[Object]) -> None:
        self.file, self.data, self.faults, self.kind = file, data, faults, kind
        self.lines: dict[tuple[str, int], int] = {}

    def rows(self) -> Iterator[tuple[int, int, Json]]:
        """Yield (number of the object, line number, object) of lines as declared; the others become faults."""
        for number, (line, row) in enumerate(read_json_lines(self.file, {}, self.faults)):
            if found := object_faults(self.file, self.kind, row, most=1, line=line):
                self.faults.found += found
            else:
                yield number, line, row

    def accepts(
        self,
        row: ScoredQuery,
        line: int,
        gold: Collection[str],
        subject: str | None,
        template: str | None,
        statements: Sequence[str] | None = None,
    ) -> bool:
        """Return whether a row can be part of a run; else add a fault.

        :param gold: ids of gold answers in the log.
        :param subject: name in the log; None if it has none, as for the next two.
        :param statements: texts that were scored, in the order of the candidates.
        """
        query, name = row.query, f"query {row.query.id} in template {row.template}"
        why = repetition(self.lines, (query.id, row.template), line, name)
        phrasings = self.data.phrasings(query)
        if row.template >= len(phrasings):
            why = f"{name}: expected a template from 0 to {len(phrasings) - 1}"
        elif not set(gold) <= set(query.gold):
            why = f"{name}: expected the gold answer {first_few(query.gold)}, found {first_few(gold)}"
        else:
            phrasing = phrasings[row.template]
            filled = [
                phrasing.fill(query.subject, answer).text for answer in self.data.candidates[query.candidates].names
            ]
            expected = [query.subject, phrasing.text, *filled]
            stated = [subject, template, *([None] * len(filled) if statements is None else statements)]
            pairs = zip_longest(expected, stated, fillvalue="")
            wrong = [f"{text!r}, found {found!r}" for text, found in pairs if found not in (None, text)]
            why = why or "".join(f"{name}: expected the text {some}" for some in wrong[:1])
        if why:
            self.faults.add(self.file, line, why)
        return not why
