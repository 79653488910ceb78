"""Studies of link predictors: what they remember and what they infer."""

from __future__ import annotations

from fathom.studies import Study
from fathom_kgc.studies.options import MemoryOptions

QUESTION = "Does a link predictor infer or remember? (see also the study memory of fathom plan)"
MEMORY_SLOPE = Study(
    "memory-slope",
    QUESTION,
    "Does a link predictor gain where its language model knew the fact? The slope of gain on knowledge.",
    "runs",
    "fathom_kgc.studies.memory_slope",
    "memory-slope runs/bert runs/simkgc-pretrained runs/simkgc-random",
)
MEMORY = Study(
    "memory",
    QUESTION,
    "How much of a link predictor's Hits@10 is memory, descriptions or structure? Worlds × weights × seeds.",
    "cells",
    "fathom_kgc.studies.memory_tables",
    "",
    MemoryOptions,
    cells="runs of link predictors: give some a predictor:",
)
