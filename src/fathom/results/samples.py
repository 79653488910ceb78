"""What a number is taken for a sample of: which of its values were drawn together.

By default relations, where there are ten or more, worth five or more of equal size; else the facts within each, the
relations being what they are. Queries of one fact, such as both directions of a triple, were drawn together.
``benchmarks/coverage.py`` simulates that these intervals hold. ``--cluster`` names another key: what repeats in a data
set is often its subjects, answers or documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fathom.errors import BadInput
from fathom.metrics.uncertainty import Labels, Ways, speak_for_others

QUERY, FACT, RELATION = "query", "fact", "relation"
ALWAYS = (QUERY, FACT, RELATION, "subject", "answer")
"""Keys that queries have besides their groups."""
_WITHIN = " within "
OF_SUBJECTS = f"subject{_WITHIN}{RELATION}"
AND_SEED = " and seed"
"""Behind the key of a sample that was answered by trainings from several seeds, which were drawn, too."""


class Sample(NamedTuple):
    """How values were drawn.

    :param key: as recipes name it: "relation", or "fact within relation".
    :param clusters: label of each value, [n]; None: each was drawn for itself.
    :param within: label of each, [n]: groups that are taken as they are. With clusters, these were drawn within them.
    :param also: label of each, [n]: a second way in which values were drawn together; None: there is none.
    """

    key: str
    clusters: Labels | None = None
    within: Labels | None = None
    also: Labels | None = None

    @property
    def ways(self) -> Ways:
        """The further ways of drawing, as :func:`fathom.metrics.uncertainty.interval` takes them."""
        return {"within": self.within, "also": self.also}

    @property
    def one_cluster(self) -> bool:
        """Whether all values are of one: these say nothing of others."""
        return (
            self.within is None
            and self.clusters is not None
            and all(label == self.clusters[0] for label in self.clusters)
        )

    def only(self, chosen: npt.NDArray[np.bool_]) -> Sample:
        """Of some of the values. :param chosen: whether each is, [n]."""
        each = (self.clusters, self.within, self.also)
        return Sample(self.key, *(None if labels is None else np.asarray(labels)[chosen] for labels in each))

    def numbered(self) -> Sample:
        """The same with numbers for labels, which many numbers of the same values are made with more quickly."""
        each = (self.clusters, self.within, self.also)
        told = (None if labels is None else np.unique(np.asarray(labels), return_inverse=True)[1] for labels in each)
        return Sample(self.key, *told)


class Origin(NamedTuple):
    """How one value was drawn, as the user says.

    :param key: what the user named.
    :param unit: what the value is of: its query where queries are drawn, else its fact.
    :param label: by that key; None: it has none.
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
    """Return how queries were drawn: as the user says, else by default.

    :param cluster: key, "" for the default.
    :param relations: of each query, [n].
    :param labels: of each query by that key, [n]; a query that has none was drawn for itself.
    :param units: what each value is of, [n], where several may be of one; None: each is of its own.
    :param subjects: id of each query's subject, [n]; facts of one subject are not independent. Empty: not known.
    """
    repeated = units if units is not None and len(set(units)) < len(units) else None
    if not cluster:
        return and_by_subject(by_default(relations), subjects) if subjects else by_default(relations)
    if cluster == QUERY:
        return Sample(QUERY, repeated)
    if cluster == FACT:
        return Sample(f"{FACT}{_WITHIN}{RELATION}", repeated, relations)
    alone = range(len(relations)) if repeated is None else repeated
    named = zip(labels, alone, strict=True)
    return Sample(cluster, [f"{cluster} {label}" if label else f"alone {unit}" for label, unit in named])


def drawn_from(origins: Sequence[Origin]) -> Sample:
    """Values as the user says, of which several may be of one query or fact: asked again, or by another model.

    :param origins: of each value, [n]; all by one key.
    """
    relations, labels = [one.relation for one in origins], [one.label for one in origins]
    return drawn(origins[0].key if origins else "", relations, labels, [one.unit for one in origins])


def by_default(groups: Sequence[str], unit: str = FACT, group: str = RELATION) -> Sample:
    """Whole groups where there are enough of them, and none holds most of the values; else units within them.

    :param groups: label of each value, [n].
    """
    if speak_for_others(groups):
        return Sample(group, groups)
    return Sample(f"{unit}{_WITHIN}{group}", None, groups)


def and_by_subject(sample: Sample, subjects: Sequence[str | None]) -> Sample:
    """Add the subjects as a second sampling unit if they repeat among the values.

    :param sample: by default, not as the user said: whole relations, or facts within relations.
    :param subjects: of each value, [n]; one that has none was drawn for itself.
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
    :param by_design: keys of whose values nobody drew a sample, and why.
    """
    there = [name for name in dict.fromkeys((*ALWAYS, *keys)) if name not in by_design]
    if key and key not in there:
        why = by_design.get(key, "the queries have no such key")
        raise BadInput(f"--cluster {key}: {why}; there is {', '.join(there)}")


def scope(key: str) -> str:
    """Return for what a verdict by this sampling unit holds, as a sentence."""
    unit, within, group = key.removesuffix(AND_SEED).partition(_WITHIN)
    seeds = ", and for other seeds" if key.endswith(AND_SEED) else ""
    if within:
        return f"This holds for other {unit}s of these {group}s{seeds}, not for other {group}s."
    return f"This holds for other {' and '.join(f'{name}s' for name in unit.split(' and '))}{seeds}."


def legend(key: str) -> str:
    """For the reader of a table."""
    if key.endswith(AND_SEED):
        return f"{legend(key.removesuffix(AND_SEED))}, and for other seeds of training"
    unit, within, group = key.partition(_WITHIN)
    if within:
        return f"95 % intervals: for other {unit}s of these {group}s"
    if key == QUERY:
        return "95 % intervals: for other queries, each for itself"
    return f"95 % intervals: clustered by {key}"
