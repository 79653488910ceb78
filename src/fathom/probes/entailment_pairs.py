"""Pairs of pseudowords of the entailment probe: drawn once for each rule of a run, and kept with it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

from fathom.errors import BadInput
from fathom.models.base import Model
from fathom.probes.ontology_options import EntailmentOptions
from fathom.prompts.entailment import W, X, Y, Z
from fathom.reading import stands, tensors_file
from fathom.scoring.pseudowords import pseudowords
from fathom.store.files import whole_file
from fathom.training.soft import AGAIN

PSEUDOWORDS = "pseudowords.safetensors"
"""Artifact: of each rule its pairs, ``<x>`` and ``<y>`` of the first, of the second, …"""


def drawn_pairs(file: Path, model: Model, rules: Sequence[str], options: EntailmentOptions) -> dict[str, Tensor]:
    """Of each rule its pairs, shape (2 · pairs, d); those of the *file* where it stands.

    :raises BadInput: the file lacks a rule, or there is no room for so many.
    """
    if not stands(file):
        drawn = {rule: pseudowords(model, 2 * options.pairs, options.alpha, options.seed, rule) for rule in rules}
        with whole_file(file) as temporary:
            save_file(drawn, temporary)
    found = tensors_file(file, AGAIN)
    if strange := [rule for rule in rules if rule not in found or found[rule].ndim != 2]:
        raise BadInput(f"{file} has no vectors of {strange[0]}: {AGAIN}")
    return {rule: found[rule] for rule in rules}


def pairs_as_rows(text: str, pair: int, count: int, first: int) -> str:
    """The text with its pseudowords numbered as rows of a matrix, from 1: ``<x>`` becomes ``<s7>``.

    :param count: of pairs; others that are named are the next pair, in turn. :param first: row of the rule's first
        ``<x>``.
    """
    own, others = first + 2 * pair, first + 2 * ((pair + 1) % count)
    places = {X: own, Y: own + 1, Z: others, W: others + 1}
    return re.sub("|".join(places), lambda found: f"<s{places[found[0]]}>", text)
