"""Runs by their facts: each with its predictions, or with what :mod:`fathom.results.sides` needs of them alone."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from fathom.errors import BadInput, refuse
from fathom.metrics.table import Metric
from fathom.results.names import short_names
from fathom.results.numbers import recipe
from fathom.results.rows import Floats, Ints, Rows, grouped, values_in
from fathom.results.sides import Side
from fathom.store.folder import RunFolder

CUTS = (1, 5, 10)
_NOT_COMPARED = ("prompt", "gold_scores", "gold_tokens", "gold_ranks", "top_ids", "top_scores", "answers", "answer_ids")
BY_TEMPLATE, FREE, BOTH, NEITHER = "template-based", "template-free", "both", "without templates"
READINGS = (BY_TEMPLATE, FREE)
AS_IT_IS = "no"
PLAIN, CHAT, SHUFFLED = "plain", "chat", "shuffled chat"
STOPPED = "a search stopped too early to tell"
WRITTEN = "written or chosen answers have no rank"
Value = TypeVar("Value")


class Outcome(Side):
    """A side with its predictions: further arrays have an entry per prediction of that scoring (``places``).

    :param model: what tables call its model.
    :param places: of predictions of that scoring among the rows; all of them where not given.
    :param part: "key:value" where these are a part of the run, for its recipes.
    """

    def __init__(
        self, run: RunFolder, rows: Rows, scoring: str, model: str, places: Ints | None = None, part: str = ""
    ) -> None:
        identity = rows.identity
        self.run, self.rows, self.scoring, self.model, self.part = run, rows, scoring, model, part
        self.path, self.cluster = str(run.path), rows.cluster
        self.full_name = str(identity["model"]["name"])
        self.data = str(identity.get("data", {}).get("name"))
        self.probe = str(identity["probe"])
        self.attention = str(identity.get("resolved", {}).get("attention", ""))
        self.places = rows.of(scoring) if places is None else places
        """Places of its predictions among the rows."""
        of_query = [fact or query for fact, query in zip(rows.fact_ids, rows.query_ids, strict=True)]
        asked = [of_query[query] for query in rows.query[self.places].tolist()]
        self.facts = list(dict.fromkeys(asked))
        self.place = {fact: number for number, fact in enumerate(self.facts)}
        self.fact_of: Ints = np.array([self.place[fact] for fact in asked], dtype=np.int64)
        """Of each prediction the number of its fact."""
        _, self._first = np.unique(self.fact_of, return_index=True)
        told = zip(asked, self.places.tolist(), strict=True)
        self.left_out = {fact: reason for fact, place in told if (reason := rows.reason[place]) is not None}
        self.scored = np.array([fact not in self.left_out for fact in self.facts], dtype=bool)

    def per_fact(self, values: Floats) -> Floats:
        """Mean over each fact's predictions, [facts]; NaN where one of them is, or is unscored.

        :param values: of all predictions of the run, as :class:`Rows` has them.
        """
        sums = np.bincount(self.fact_of, values[self.places], minlength=len(self.facts))
        return np.where(self.scored, sums / np.bincount(self.fact_of, minlength=len(self.facts)), np.nan)

    def hits(self, k: int) -> Floats:
        """Expected Hits@k of each fact, NaN where it is left out."""
        return self.per_fact(self.rows.hits(k))

    @cached_property
    def mean_ranks(self) -> Floats:
        """Of each fact, see :class:`Side`."""
        return self.per_fact(self._ranks)

    @cached_property
    def mean_log_ranks(self) -> Floats:
        """Of each fact, see :class:`Side`."""
        return self.per_fact(np.log10(self._ranks))

    @property
    def _ranks(self) -> Floats:
        """Realistic rank of each prediction of the run; infinite where it is only known to be greater than some."""
        return np.where(np.isnan(self.rows.rank) & ~np.isnan(self.rows.above), np.inf, self.rows.rank)

    @cached_property
    def beyond(self) -> Floats:
        """Of each fact the least rank at which a search for it stopped; infinite where none did."""
        found = np.full(len(self.facts), np.inf)
        np.fmin.at(found, self.fact_of, np.where(np.isnan(self.rows.rank), self.rows.above, np.nan)[self.places])
        return found

    @cached_property
    def relations(self) -> Sequence[str]:
        """Of each fact."""
        return [self.rows.relations[query] for query in self.queries]

    @cached_property
    def subjects(self) -> Sequence[str | None]:
        """Of each fact its id; None where it has none."""
        return [self.rows.subjects[query] for query in self.queries]

    @cached_property
    def labels(self) -> Sequence[str | None]:
        """Of each fact by the key of clusters."""
        return [self.rows.cluster_label(query) if self.cluster else None for query in self.queries]

    @cached_property
    def spaces(self) -> Sequence[str]:
        """Digest of the candidates of each fact that were ranked, whatever their order."""
        digests = {
            name: hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()[:16]
            for name, (ids, _) in self.rows.candidates.items()
        }
        named = [digests.get(self.rows.spaces[query] or "", "") for query in self.queries]
        said = zip(self.fact_of.tolist(), (self.rows.not_ranked[place] for place in self.places.tolist()), strict=True)
        lacking = grouped((fact, digest) for fact, digest in said if digest)
        return [
            " without ".join([name, *sorted(set(lacking[fact]))]) if fact in lacking else name
            for fact, name in enumerate(named)
        ]

    @cached_property
    def sizes(self) -> Floats:
        """Number of candidates of each fact."""
        return self.rows.number_of_candidates[self.places][self._first]

    @cached_property
    def alteration(self) -> str:
        """Into which other wording the facts were put (``--alter``); :data:`AS_IT_IS` where into none."""
        return str(self.rows.identity.get("options", {}).get("alter", AS_IT_IS))

    @cached_property
    def reading(self) -> str:
        """Template-based, template-free, both (relations differ) or without templates: as the option says, else by
        whether queries had sentences of their own. Another wording is none of these, though it is asked as a sentence:
        "misprimed", or "template-free, misprimed" where the option says of which."""
        option = self.rows.identity.get("options", {}).get("reading")
        if self.alteration != AS_IT_IS:
            return f"{option}, {self.alteration}" if option in READINGS else self.alteration
        if option in READINGS:
            return str(option)
        natural = np.array([bool(self.rows.sentences[query]) for query in self.rows.query[self.places]], dtype=bool)
        if not natural.any():
            return BY_TEMPLATE if (self.rows.template[self.places] >= 0).any() else NEITHER
        # A fact that has no sentence is left unscored, which tells nothing of how the others were asked.
        return FREE if natural[self.rows.scored[self.places]].all() else BOTH

    @property
    def parameters(self) -> int | None:
        """Of the model, as the run noted; None where it did not."""
        about = self.run.manifest.get("circumstances", {}).get("model") or {}
        found = about.get("parameters") if isinstance(about, dict) else None
        return found if isinstance(found, int) else None

    @cached_property
    def wording(self) -> str:
        """Plain, through a chat template, or behind its shuffled tokens."""
        options = self.rows.identity.get("options", {})
        if not options.get("chat"):
            return PLAIN
        return SHUFFLED if options.get("shuffle_chat") else CHAT

    def asked_about(self, facts: Iterable[str]) -> list[str]:
        """Names of the subjects, as the prompt has them; "" where a fact has none."""
        named = self.rows.table.column("subject").take(self.places[self._first[self.at(facts)]]).to_pylist()
        return [name or "" for name in named]

    def golds_of(self, facts: Iterable[str]) -> list[list[str]]:
        """Ids of the right answers."""
        return [self.rows.gold[self.queries[place]] for place in self.at(facts).tolist()]

    def parts(self, key: str) -> dict[str, Outcome]:
        """One for each value of *key* among its queries, see :meth:`Rows.values_of`; in order of appearance. Queries of
        one fact may be in different parts. :raises BadInput: no query has it."""
        if key not in self.rows.keys:
            raise BadInput(f"{self.path} cannot be broken down by '{key}': it has {', '.join(self.rows.keys)}")
        asked = zip(self.rows.query[self.places].tolist(), self.places.tolist(), strict=True)
        each = grouped((value, place) for query, place in asked for value in self.rows.values_of(query, key))
        return {
            value: Outcome(self.run, self.rows, self.scoring, self.model, np.array(own), f"{key}:{value}")
            for value, own in each.items()
        }

    @cached_property
    def why_untold(self) -> str:
        """Of facts that are scored and whose value cannot be told: why."""
        return STOPPED if np.isnan(self.rows.correct[self.places]).all() else WRITTEN

    @cached_property
    def recipe_without_name(self) -> str:
        """How its numbers were made; see :func:`fathom.results.numbers.recipe`."""
        return recipe(self.rows, "", self.scoring)

    @cached_property
    def queries(self) -> list[int]:
        """Of each fact its first query."""
        return self.rows.query[self.places][self._first].tolist()  # type: ignore[no-any-return]


_KEPT = (
    *("path", "model", "probe", "scoring", "data", "reading", "wording", "part", "cluster", "why_untold"),
    *("recipe_without_name", "facts", "relations", "subjects", "labels", "spaces", "_told"),
    *("scored", "sizes", "beyond", "mean_ranks", "mean_log_ranks"),
)
"""Of a side, besides the places of its facts and why some are left out."""


class Kept(Side):
    """What is left of an outcome when its run has been read: half a megabyte for BEAR's 7,731 facts, so that many runs
    can be laid side by side.

    :param values: of each metric, NaN where a fact is left out or has none. :param right: expected Hits@1.
    :param groups: of each key of the queries the values of each fact, see :meth:`Rows.values_of`.
    """

    values: Mapping[str, Floats]
    right: Floats
    groups: Mapping[str, Sequence[Sequence[str]]]

    def called(self, model: str) -> Kept:
        """The same by another name of its model."""
        other = copy(self)
        other.model = model
        return other


class Keeper:
    """Keeps what a comparison needs of runs that are read one by one, what they have in common once.

    :param metrics: whose values are kept; they may be told as late as the first run.
    """

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self.metrics = metrics
        self._known: dict[Sequence[Any], Sequence[Any]] = {}
        self._places: dict[Sequence[str], Mapping[str, int]] = {}

    def keep(self, outcome: Outcome) -> Kept:
        """Nothing of its rows."""
        kept, rows = Kept(), outcome.rows
        for name in _KEPT:
            own = getattr(outcome, name)
            setattr(kept, name, self._shared(own) if isinstance(own, list) else own)
        kept.place = self._places.setdefault(kept.facts, outcome.place)
        kept.left_out = {fact: sys.intern(reason) for fact, reason in outcome.left_out.items()}
        kept.values = {one.name: outcome.per_fact(rows.columns(one)[0]) for one in self.metrics}
        kept.right = outcome.hits(1)
        kept.groups = {key: self._values(outcome, key) for key in rows.keys}
        return kept

    def _values(self, outcome: Outcome, key: str) -> Sequence[Sequence[str]]:
        """Of each fact, as its first query says."""
        said = [outcome.rows.said_of(query, key) for query in outcome.queries]
        told = {text: tuple(values_in(key, text)) for text in set(said)}
        return self._shared(map(told.__getitem__, said))

    def _shared(self, values: Iterable[Value]) -> Sequence[Value]:
        own = tuple(values)
        return self._known.setdefault(own, own)


def outcome_of(run: RunFolder, scorings: Sequence[str] = (), model: str | None = None, cluster: str = "") -> Outcome:
    """One run.

    :param scorings: which to take of a run that has several; one with one needs none.
    :param cluster: key by which queries were drawn together, as for :class:`Rows`.
    :raises BadInput: unfinished, without ranks, several scorings and none chosen.
    """
    rows = _finished(run, cluster)
    [scoring, *more] = _wanted(run, rows.scorings, scorings)
    if more:
        several = ", ".join((scoring, *more))
        raise BadInput(f"{run.path} has several of --scoring {','.join(scorings)}: name one of {several}")
    outcome = Outcome(run, rows, scoring, model or short_names([run])[0])
    if not np.isnan(rows.correct[outcome.places]).all():
        raise BadInput(f"{run.path} has written answers and no ranks: ask with the cloze or the statement probe")
    check_scored(outcome)
    return outcome


def wanted_of(run: RunFolder, scorings: Sequence[str], model: str, cluster: str = "") -> list[Outcome]:
    """One run in each of *scorings* that it has, with ranks or credit; one with one scoring needs none. Their rows are
    without prompts and answers.

    :raises BadInput: unfinished, nothing scored, several scorings and none chosen.
    """
    rows = _finished(run, cluster, _NOT_COMPARED)
    found = [Outcome(run, rows, scoring, model) for scoring in _wanted(run, rows.scorings, scorings)]
    for outcome in found:
        check_scored(outcome)
    return found


def _finished(run: RunFolder, cluster: str, without: Sequence[str] = ()) -> Rows:
    if not run.is_complete():
        raise BadInput(f"{run.path} is unfinished: type its command again, it goes on where it stopped")
    return Rows(run, False, cluster, without)  # all candidates' scores of many runs would fill memory


def check_scored(outcome: Side) -> None:
    """:raises BadInput: none of its facts has a value."""
    if not outcome.told():
        [(why, _)] = Counter(outcome.left_out.values()).most_common(1) or [("it has no predictions", 0)]
        raise BadInput(f"{outcome.path} has no ranks to compare ({why})")


def every_scoring(run: RunFolder, model: str, cluster: str = "") -> list[Outcome]:
    """Of a run that a study has made, whatever its probe gives: ranks or credit."""
    rows = Rows(run, with_scores=False, cluster=cluster)
    return [Outcome(run, rows, scoring, model) for scoring in rows.scorings]


def outcomes_of(
    runs: Sequence[RunFolder], scorings: Sequence[str] = (), cluster: str = "", k: int | None = max(CUTS)
) -> list[Outcome]:
    """One per run, in their order.

    :param scorings: which to take of runs that have several; runs with one need none.
    :param cluster: key by which queries were drawn together, as for :class:`Rows`.
    :param k: every rank must be known as far; None where any will do.
    :raises BadInput: with the faults of all runs.
    """
    found, faults = [], []
    there: set[str] = set()
    for run, model in zip(runs, short_names(runs), strict=True):
        try:
            there |= set(run.predictions().column("scoring").to_pylist())
            found.append(outcome_of(run, scorings, model, cluster))
            if k is not None:
                check_depth(found[-1], k)
        except BadInput as error:
            faults += error.faults
    refuse([*faults, *unknown_scorings(scorings, there)])
    return found


def unknown_scorings(scorings: Sequence[str], there: set[str]) -> list[str]:
    """A line for each that no run has."""
    known = ", ".join(sorted(there))
    return [f"--scoring {name}: no run has it; there is {known}" for name in scorings if name not in there]


def _wanted(run: RunFolder, own: Sequence[str], scorings: Sequence[str]) -> list[str]:
    wanted = [name for name in scorings if name in own] if len(own) > 1 else list(own)
    if not wanted:
        raise BadInput(f"{run.path} has the scorings {', '.join(own) or 'none'}: choose one with --scoring")
    return wanted


def check_depth(outcome: Outcome, k: int) -> None:
    """:raises BadInput: a search stopped before rank *k*."""
    stopped = outcome.beyond[outcome.beyond < k]
    if stopped.size:
        raise BadInput(
            f"{outcome.path} stopped at rank {stopped.min():.0f} and cannot tell Acc@{k}: "
            f"ask without --max-rank, or with {k} or more"
        )


def by_column(outcomes: Sequence[Outcome]) -> dict[tuple[str, str], dict[str, Outcome]]:
    """(data, reading) → model → its run. :raises BadInput: two runs of one model, data set and reading."""
    found: dict[tuple[str, str], dict[str, Outcome]] = {}
    faults = []
    for outcome in outcomes:
        models = found.setdefault((outcome.data, outcome.reading), {})
        if outcome.model in models:
            faults.append(
                f"{models[outcome.model].path} and {outcome.path} are both of {outcome.model} on {outcome.data}, "
                f"{outcome.reading}: give one of them (fathom study pools compares answer pools)"
            )
        models[outcome.model] = outcome
    refuse(faults)
    return found


def names_of(candidates: Mapping[str, tuple[Sequence[str], Sequence[str]]]) -> dict[str, str]:
    """Name of each candidate by its id. :param candidates: as a run has them."""
    return {id_: name for ids, names in candidates.values() for id_, name in zip(ids, names, strict=True)}
