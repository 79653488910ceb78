"""Does a model answer everything alike? How often each entity stands among the best (section 5.4 and figure 1 of Shaier
et al. 2024)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fathom.errors import BadInput
from fathom.results.outcomes import CUTS, Outcome, outcomes_of
from fathom.store.folder import RunFolder

SHOWN = 15


class Entity(NamedTuple):
    """:param shares: of the prompts in whose top 1, 5 and 10 it stands."""

    id: str
    name: str
    shares: tuple[float, ...]


class Repeated(NamedTuple):
    """:param prompts: predictions with a rank; the unscored are left out.
    :param distinct: entities that stand in any prompt's top 1, 5, 10; :param shares: those ÷ (k · prompts), 1 where no
        prediction repeats another, and fewer candidates than k count as many as there are.
    :param entities: all of them, the most repeated in the top 10 first; equal ones by their top 5, top 1 and id."""

    model: str
    data: str
    reading: str
    prompts: int
    unscored: int
    distinct: tuple[int, ...]
    shares: tuple[float, ...]
    entities: list[Entity]


def repeated(runs: Sequence[RunFolder], scorings: Sequence[str] = ()) -> list[Repeated]:
    """One per run. :raises BadInput: a run recorded fewer than its ten best answers."""
    found, faults = [], []
    for run, outcome in zip(runs, outcomes_of(runs, scorings), strict=True):
        try:
            found.append(_repeated(run, outcome))
        except BadInput as error:
            faults += error.faults
    if faults:
        raise BadInput(faults)
    return found


def _repeated(run: RunFolder, outcome: Outcome) -> Repeated:
    scored = np.flatnonzero(~np.isnan(outcome.hits).any(axis=1)).tolist()
    tops = outcome.table.column("top_ids").to_pylist()
    sizes = outcome.candidates.tolist()
    for place in scored:
        if len(tops[place] or ()) < min(max(CUTS), sizes[place]):
            raise BadInput(
                f"{run.path} recorded the {len(tops[place] or ())} best answers of a prompt, {max(CUTS)} are needed: "
                f"ask with the cloze probe, or the statement probe with --top-k {max(CUTS)} and without --max-rank"
            )
    counts = [Counter(id_ for place in scored for id_ in tops[place][:k]) for k in CUTS]
    slots = [sum(len(tops[place][:k]) for place in scored) for k in CUTS]
    names = {
        id_: name for ids, all_names in run.candidates().values() for id_, name in zip(ids, all_names, strict=True)
    }
    order = sorted(counts[-1], key=lambda id_: (*(-count[id_] for count in reversed(counts)), id_))
    return Repeated(
        outcome.model,
        outcome.data,
        outcome.reading,
        len(scored),
        len(tops) - len(scored),
        tuple(map(len, counts)),
        tuple(len(count) / total for count, total in zip(counts, slots, strict=True)),
        [Entity(id_, names.get(id_, id_), tuple(count[id_] / len(scored) for count in counts)) for id_ in order],
    )
