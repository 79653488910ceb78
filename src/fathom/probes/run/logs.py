"""What results of other tools must hold: lm-pub-quiz's, and logs of lm-evaluation-harness."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, Strict

from fathom.base.reading.objects import Object

Place = Annotated[int, Field(ge=0)]
Nats = Annotated[float, Field(le=0)]
Written = Annotated[str, Field(pattern=r"^(-([0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?|inf)|0(\.0+)?|nan)$")]
"""A log-likelihood as text."""


class QuizRelation(Object):
    """A relation in ``metadata_results.json``."""

    templates: list[str] | None = None
    template_index: Place | list[Place] | None = Field(None, description="the number of a template, or several")
    answer_space_ids: list[str | int] | None = Field(None, description="a list of ids")
    reduction: Literal["sum", "mean", ""] | None = Field(None, description="'sum' or 'mean', or null if not reduced")
    pll_metric: str | None = None


class QuizRow(Object):
    """A line of ``P36_results.jsonl``; lm-pub-quiz reads its own older layouts, and saves them in this one."""

    sub_id: str
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
    answer_options: list[str]
    text_options: list[str] | None = None
    correct: Place | Annotated[list[Place], Field(min_length=1)] | None = Field(
        None, description="the place of the right option, or several"
    )


class HarnessRow(Object):
    """A line of ``samples_TASK_TIME.jsonl``."""

    doc: HarnessDocument
    filtered_resps: list[Annotated[tuple[Nats | Written, Any], Strict(False)]] = Field(
        description="[log-likelihood of 0 or less, …] for each option"
    )


class HarnessConfig(Object):
    """The model of ``results_TIME.json``."""

    model_args: str | dict[str, Any] | None = Field(None, description="a text or an object")
    model_sha: str | None = None
    model_dtype: str | None = None


class HarnessResults(Object):
    """``results_TIME.json``."""

    config: HarnessConfig = HarnessConfig()
    model_name: str | None = None
    lm_eval_version: str | None = None
