"""The same facts of the same model, asked in two ways: two readings, or two answer pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fathom.results.numbers import Number
from fathom.results.outcomes import CUTS, Outcome
from fathom.results.sides import difference
from fathom.results.tables import Cell, Table

ACCURACIES = tuple(f"Acc@{k}" for k in CUTS)


class NotPaired(NamedTuple):
    """A model's runs on one data set that could not be laid side by side, and why."""

    model: str
    data: str
    why: str


class Paired(NamedTuple):
    """One model on one data set, asked in two ways.

    :param facts: how many both ways ranked.
    :param only_first: facts that the second way has no rank of.
    :param first: Acc@1, Acc@5, Acc@10 one way, over these facts.
    :param second: the other way.
    :param differences: first − second.
    :param sizes: mean number of candidates, each way.
    """

    model: str
    data: str
    reading: str
    facts: int
    only_first: int
    only_second: int
    first: tuple[Number, ...]
    second: tuple[Number, ...]
    differences: tuple[Number, ...]
    sizes: tuple[float, float]


def paired(first: Outcome, second: Outcome, facts: Sequence[str]) -> Paired:
    """:param facts: that both ranked."""
    one, other = ([side.hits(k) for k in CUTS] for side in (first, second))
    return Paired(
        first.model,
        first.data,
        first.reading,
        len(facts),
        len(set(first.told()).difference(facts)),
        len(set(second.told()).difference(facts)),
        tuple(first.mean(name, values, facts) for name, values in zip(ACCURACIES, one, strict=True)),
        tuple(second.mean(name, values, facts) for name, values in zip(ACCURACIES, other, strict=True)),
        tuple(
            difference(name, [(1, first), (-1, second)], values, facts)
            for name, *values in zip(ACCURACIES, one, other, strict=True)
        ),
        (pool_size(first), pool_size(second)),
    )


def verdict_of(difference: Number) -> str | None:
    """Whether it is above 0 (rise), below (drop), or whether these facts cannot tell (tie); None: nothing is known."""
    if difference.low is None or difference.high is None:
        return None
    return "rise" if difference.low > 0 else "drop" if difference.high < 0 else "tie"


def pool_size(outcome: Outcome) -> float:
    """Mean number of candidates of the facts that were ranked; NaN where there are none."""
    sizes = outcome.sizes[outcome.scored]
    return float(np.mean(sizes)) if sizes.any() else float("nan")


def paired_table(found: Sequence[Paired], first: str, second: str, title: str, hidden: Sequence[str] = ()) -> Table:
    """:param first: how the facts were asked one way, in a word.
    :param second: and the other.
    :param hidden: columns that say nothing to a reader; "sizes" for the numbers of candidates."""
    sizes = (f"candidates, {second}", f"candidates, {first}")
    body: list[tuple[Cell | Number, ...]] = []
    notes = [f"difference: {first} minus {second}, paired by fact"]
    for line in found:
        about = (line.model, line.data, line.reading, line.facts, line.sizes[1], line.sizes[0])
        each = zip(ACCURACIES, line.second, line.first, line.differences, strict=True)
        body += [(*about, *of_cut) for of_cut in each]
        for count, one, other in ((line.only_first, first, second), (line.only_second, second, first)):
            said = f"{line.model}, {line.data}: {count:,} facts that only the {one} run could rank, not the {other}"
            notes += [f"{said}, are left out"] if count else []
    shares = {side: (f"{side} low", f"{side} high") for side in (second, first)}
    return Table.of_numbers(
        ("model", "data", "reading", "facts", *sizes, "of", second, first, "difference"),
        body,
        title,
        {**shares, "difference": ("low", "high", "p")},
        dict.fromkeys((first, second), ".1%") | {"difference": "+.1%"} | dict.fromkeys(sizes, ".0f"),
        notes,
        [end for ends in shares.values() for end in ends]
        + [column for name in hidden for column in (sizes if name == "sizes" else (name,))],
    )
