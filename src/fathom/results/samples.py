"""Sampling units: which values of a number were drawn together.

By default relations, if there are ten or more, worth five or more of equal size; else the facts within fixed relations.
Queries of one fact, such as both directions of a triple, were drawn together. ``benchmarks/claims.py`` simulates that
these intervals hold. ``--cluster`` names another key, such as subjects, answers or documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fathom.base.errors import BadInput
from fathom.results.metrics.uncertainty import Labels, Ways, enough_clusters

QUERY, FACT, RELATION = "query", "fact", "relation"
ALWAYS = (QUERY, FACT, RELATION, "subject", "answer")
"""Keys that queries have in addition to their groups."""
SINGLE = (QUERY, FACT, "item", "edit")
"""Keys whose values are one thing each, although it may be asked several times."""
_WITHIN = " within "
OF_SUBJECTS = f"subject{_WITHIN}{RELATION}"
AND_SEED = " and seed"
"""Suffix of the key of a sample that includes several training seeds."""


class Sample(NamedTuple):
    """The way in which values were drawn.

    :param key: as recipes name it: "relation", or "fact within relation".
    :param clusters: label of each value, shape (n); None: each was drawn by itself.
    :param within: label of each value's fixed group, within which values, or clusters, were drawn.
    :param also: label of each value for a second way in which values were drawn together.
    """

    key: str
    clusters: Labels | None = None
    within: Labels | None = None
    also: Labels | None = None

    @property
    def ways(self) -> Ways:
        """The further ways of drawing, as :func:`fathom.results.metrics.uncertainty.interval` takes them."""
        return {"within": self.within, "also": self.also, "single": self.key.partition(_WITHIN)[0] in SINGLE}

    @property
    def one_cluster(self) -> bool:
        """True if all values are of one cluster, so that they show nothing of others."""
        labels = self.clusters
        return self.within is None and labels is not None and all(label == labels[0] for label in labels)

    def only(self, mask: npt.NDArray[np.bool_]) -> Sample:
        """Select some of the values. :param mask: True where a value is selected, shape (n)."""
        return Sample(self.key, *(None if labels is None else np.asarray(labels)[mask] for labels in self[1:]))

    def numbered(self) -> Sample:
        """Replace labels by numbers, which is faster for many numbers of the same values."""
        every = (None if labels is None else np.asarray(labels) for labels in self[1:])
        return Sample(self.key, *(None if part is None else np.unique(part, return_inverse=True)[1] for part in every))


class Origin(NamedTuple):
    """The way in which one value was drawn, by a key that the user chose.

    :param unit: its query if queries are drawn, else its fact.
    :param label: value of the key; None without one.
    """

    key: str
    unit: str
    relation: str
    label: str | None


def drawn(
    cluster: str,
    relations: Sequence[str],
    labels: Iterable[str | None],
    units: Sequence[str] | None = None,
    subjects: Sequence[str | None] = (),
) -> Sample:
    """Return how queries were drawn; one entry per query in all parameters.

    :param cluster: key, "" for the default.
    :param labels: values of that key; a query without one was drawn by itself.
    :param units: what each value is of, if several may be of one.
    :param subjects: ids; facts of one subject are not independent. Empty if unknown.
    """
    repeated = units if units is not None and len(set(units)) < len(units) else None
    if not cluster:
        return with_subjects(by_default(relations), subjects) if subjects else by_default(relations)
    if cluster == QUERY:
        return Sample(QUERY, repeated)
    if cluster == FACT:
        return Sample(f"{FACT}{_WITHIN}{RELATION}", repeated, relations)
    alone = range(len(relations)) if repeated is None else repeated
    named = zip(labels, alone, strict=True)
    return Sample(cluster, [f"{cluster} {label}" if label else f"alone {unit}" for label, unit in named])


def sample_of_origins(origins: Sequence[Origin]) -> Sample:
    """Return how values were drawn of which several may be of one query or fact. :param origins: all by one key."""
    relations, labels = [origin.relation for origin in origins], [origin.label for origin in origins]
    return drawn(origins[0].key if origins else "", relations, labels, [origin.unit for origin in origins])


def by_default(groups: Sequence[str], unit: str = FACT, group: str = RELATION) -> Sample:
    """Sample whole groups if they are enough, and of similar size; else units within them.

    :param groups: label of each value, shape (n).
    """
    return Sample(group, groups) if enough_clusters(groups) else Sample(f"{unit}{_WITHIN}{group}", None, groups)


def with_subjects(sample: Sample, subjects: Sequence[str | None]) -> Sample:
    """Add the subjects as a second sampling unit if they repeat among the values.

    :param sample: the default: whole relations, or facts within relations.
    :param subjects: one per value; a value without one was drawn by itself.
    """
    if len(set(subjects)) in (1, len(subjects)):  # facts of one subject alone are a sample of its facts
        return sample
    labels = [f"alone {at}" if subject is None else f"subject {subject}" for at, subject in enumerate(subjects)]
    if len(set(labels)) == len(labels):
        return sample
    return sample._replace(key=f"{RELATION} and subject" if sample.within is None else OF_SUBJECTS, also=labels)


def check_key(key: str, keys: Iterable[str], by_design: Mapping[str, str] = MappingProxyType({})) -> None:
    """:raises BadInput: queries cannot be clustered by *key*.

    :param keys: of their groups.
    :param by_design: keys whose values are fixed, not a sample, and why.
    """
    available = [name for name in dict.fromkeys((*ALWAYS, *keys)) if name not in by_design]
    if key and key not in available:
        raise BadInput(
            f"--cluster {key}: {by_design.get(key, 'the queries have no such key')}; there is {', '.join(available)}"
        )


def scope(key: str) -> str:
    """Return a sentence on the scope of a verdict by this sampling unit."""
    unit, within, group = key.removesuffix(AND_SEED).partition(_WITHIN)
    seeds = ", and for other seeds" if key.endswith(AND_SEED) else ""
    if within:
        return f"The result holds for other {unit}s of these {group}s{seeds}; it says nothing of other {group}s."
    return f"The result holds for other {' and '.join(f'{name}s' for name in unit.split(' and '))} like these{seeds}."


def legend(key: str) -> str:
    """Return a note on the sampling unit for readers of a table."""
    if key.endswith(AND_SEED):
        return f"{legend(key.removesuffix(AND_SEED))}, and for other seeds of training"
    unit, within, group = key.partition(_WITHIN)
    if within:
        return f"95 % intervals: for other {unit}s of these {group}s"
    if key == QUERY:
        return "95 % intervals: for other queries, each for itself"
    return f"95 % intervals: clustered by {key}"
