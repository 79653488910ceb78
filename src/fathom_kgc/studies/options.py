"""Options of the studies of link predictors."""

from __future__ import annotations

from fathom.base.options import opt
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
