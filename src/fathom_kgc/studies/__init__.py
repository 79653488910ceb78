"""Studies of link predictors: what they remember and what they infer."""

from __future__ import annotations

from fathom.base.options import opt
from fathom.studies import Study
from fathom.studies.options import StudyOptions


class MemoryOptions(StudyOptions):
    """Options of the study of memory; models are the names of a plan's runs of link predictors."""

    line: str | None = opt(None, "Model whose Hits@10 in base is a line in every figure, such as TransE.")
    contrasts: tuple[tuple[str, str], ...] = opt(
        (), "Pairs of models whose pre-trained cells are compared in each world, first − second."
    )
    controls: dict[str, str] = opt(
        {},
        "For a model with contaminated weights, the one with sham weights (fathom kgc pretrain --sham); only what it "
        "knows beyond that is memory of the answers.",
    )


MEMORY = Study(
    "memory",
    "Does a link predictor infer or remember?",
    "How much of a link predictor's Hits@10 is memory, descriptions or structure? Worlds × weights × seeds.",
    "cells",
    "fathom_kgc.studies.memory_tables",
    "",
    MemoryOptions,
    cells="runs of link predictors: give some a predictor:",
)
