"""What a run says of each fact: the form in which studies lay runs side by side.

Templates or sentences of a fact are averaged; a fact one of whose predictions was not scored is left out, and counted.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fathom.errors import BadInput, refuse
from fathom.results import numbers
from fathom.results.names import short_names
from fathom.results.numbers import MINUS, NOTHING, Number, combined, recipe, untold
from fathom.results.rows import Floats, Ints, Rows, grouped
from fathom.results.samples import Sample, and_by_subject
from fathom.store.folder import RunFolder

CUTS = (1, 5, 10)
_NOT_COMPARED = ("prompt", "gold_scores", "gold_tokens", "gold_ranks", "top_ids", "top_scores", "answers", "answer_ids")
BY_TEMPLATE, FREE, BOTH, NEITHER = "template-based", "template-free", "both", "without templates"
READINGS = (BY_TEMPLATE, FREE)
STOPPED = "a search stopped too early to tell"
WRITTEN = "written or chosen answers have no rank"


class Outcome:
    """One run in one scoring.

    Its arrays have an entry per prediction of that scoring (``places``) or per fact (``facts``), as their names say.

    :param model: what tables call its model.
    :param places: of predictions of that scoring among the rows; all of them where not given.
    :param part: "key:value" where these are a part of the run, for its recipes.
    """

    def __init__(
        self, run: RunFolder, rows: Rows, scoring: str, model: str, places: Ints | None = None, part: str = ""
    ) -> None:
        identity = rows.identity
        self.run, self.rows, self.scoring, self.model, self.part = run, rows, scoring, model, part
        self.path = str(run.path)
        self.full_name = str(identity["model"]["name"])
        self.data = str(identity.get("data", {}).get("name"))
        self.probe = str(identity["probe"])
        self.attention = str(identity.get("resolved", {}).get("attention", ""))
        self.places = rows.of(scoring) if places is None else places
        """Places of its predictions among the rows."""
        of_query = [fact or query for fact, query in zip(rows.fact_ids, rows.query_ids, strict=True)]
        asked = [of_query[query] for query in rows.query[self.places].tolist()]
        self.facts = list(dict.fromkeys(asked))
        """``fact_id``, else ``query_id`` of a sentence without a known subject; in order of appearance."""
        self.place = {fact: number for number, fact in enumerate(self.facts)}
        self.fact_of: Ints = np.array([self.place[fact] for fact in asked], dtype=np.int64)
        """Of each prediction the number of its fact."""
        _, self._first = np.unique(self.fact_of, return_index=True)
        told = zip(asked, self.places.tolist(), strict=True)
        self.left_out = {fact: reason for fact, place in told if (reason := rows.reason[place]) is not None}
        """Facts with an unscored prediction, and why."""
        self._at: tuple[Iterable[str], Ints] | None = None

    @property
    def name(self) -> str:
        """Probe, scoring and model."""
        return f"{self.probe} {self.scoring} {self.model}"

    @cached_property
    def scored(self) -> npt.NDArray[np.bool_]:
        """Of each fact: whether all its predictions are."""
        return np.array([fact not in self.left_out for fact in self.facts], dtype=bool)

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
    def ranks(self) -> Floats:
        """Realistic rank of each prediction of the run; infinite where it is only known to be greater than some."""
        return np.where(np.isnan(self.rows.rank) & ~np.isnan(self.rows.above), np.inf, self.rows.rank)

    @cached_property
    def beyond(self) -> Floats:
        """Of each fact the least rank at which a search for it stopped; infinite where none did."""
        found = np.full(len(self.facts), np.inf)
        np.fmin.at(found, self.fact_of, np.where(np.isnan(self.rows.rank), self.rows.above, np.nan)[self.places])
        return found

    @cached_property
    def stopped(self) -> set[str]:
        """Facts whose rank is only known to be greater than some number."""
        return {
            fact for fact, known in zip(self.facts, (self.beyond == np.inf) | ~self.scored, strict=True) if not known
        }

    @cached_property
    def relations(self) -> list[str]:
        """Of each fact."""
        return [self.rows.relations[query] for query in self.queries]

    @cached_property
    def spaces(self) -> list[str]:
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
    def reading(self) -> str:
        """Template-based, template-free, both (relations differ) or without templates: as the option says, else by
        whether queries had sentences of their own."""
        option = self.rows.identity.get("options", {}).get("reading")
        if option in READINGS:
            return str(option)
        natural = np.array([bool(self.rows.sentences[query]) for query in self.rows.query[self.places]], dtype=bool)
        if not natural.any():
            return BY_TEMPLATE if (self.rows.template[self.places] >= 0).any() else NEITHER
        # A fact that has no sentence is left unscored, which tells nothing of how the others were asked.
        return FREE if natural[self.rows.scored[self.places]].all() else BOTH

    def at(self, facts: Iterable[str]) -> Ints:
        """Where these facts stand in the arrays of facts."""
        if self._at is None or self._at[0] is not facts:  # the same list is asked for again and again
            self._at = facts, np.array([self.place[fact] for fact in facts], dtype=np.int64)
        return self._at[1]

    def relations_of(self, facts: Iterable[str]) -> list[str]:
        """Of these facts."""
        return [self.relations[place] for place in self.at(facts).tolist()]

    def subjects_of(self, facts: Iterable[str]) -> list[str | None]:
        """Ids; None where a fact has none."""
        return [self.rows.subjects[self.queries[place]] for place in self.at(facts).tolist()]

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

    def cluster_label(self, fact: str) -> str | None:
        """Of one fact by the key of clusters; None where it has none."""
        return self.rows.cluster_label(self.queries[self.place[fact]])

    def sample(self, facts: Iterable[str]) -> Sample:
        """How these facts were drawn."""
        return self.rows.sample([self.queries[place] for place in self.at(facts).tolist()])

    @property
    def why_untold(self) -> str:
        """Of facts that are scored and whose value cannot be told: why."""
        return STOPPED if np.isnan(self.rows.correct[self.places]).all() else WRITTEN

    def two_way_sample(self, facts: Sequence[str]) -> Sample:
        """How these facts were drawn; by default by subject as well as by relation, see :func:`and_by_subject`."""
        own = self.sample(facts)
        return own if self.rows.cluster else and_by_subject(own, self.subjects_of(facts))

    def told(self) -> list[str]:
        """The facts that are not left out."""
        return list(self._told)

    def recipe(self, name: str) -> str:
        """Of a number of this run's facts: templates or sentences are averaged within each, and facts count alike."""
        return f"{name}{self._recipe}|mean:facts{f'|{self.part}' if self.part else ''}"

    def mean(
        self, name: str, values: Floats, facts: Sequence[str] | None = None, sample: Sample | None = None
    ) -> Number:
        """Mean of shares over facts, by default those that are not left out, with its interval; without a value where
        there are no facts, or the share of one cannot be told.

        :param name: of the number, for its recipe.
        :param values: of each fact, as :meth:`hits` gives them.
        :param sample: how the facts were drawn, where it is known already.
        """
        chosen = self.told() if facts is None else facts
        told, made = values[self.at(chosen)], self.recipe(name)
        if not len(told) or np.isnan(told).any():
            return untold(self.why_untold if len(told) else NOTHING, made)
        return numbers.mean(told, sample or self.sample(chosen), made)

    @cached_property
    def _recipe(self) -> str:
        """Without a name."""
        return recipe(self.rows, "", self.scoring)

    @cached_property
    def _told(self) -> dict[str, None]:
        """Facts that are not left out, in order."""
        return dict.fromkeys(fact for fact in self.facts if fact not in self.left_out)

    @cached_property
    def queries(self) -> list[int]:
        """Of each fact its first query."""
        return self.rows.query[self.places][self._first].tolist()  # type: ignore[no-any-return]


def difference(
    name: str,
    signed: Sequence[tuple[int, Outcome]],
    values: Sequence[Floats],
    facts: Sequence[str],
    sample: Sample | None = None,
) -> Number:
    """Σ sign · value over facts that all have, paired by fact, with interval and p value; without a value where that of
    one cannot be told.

    :param name: of the number, for its recipe.
    :param signed: +1 or −1 and the outcome.
    :param values: of each outcome's facts.
    :param facts: in common.
    :param sample: how these were drawn, where it is known already.
    """
    terms = [sign * own[outcome.at(facts)] for (sign, outcome), own in zip(signed, values, strict=True)]
    plus = sum(sign > 0 for sign, _ in signed)
    between = MINUS if (len(signed), plus) == (2, 1) else " and "
    made = combined(name, [outcome.recipe("") for _, outcome in signed], between)
    if np.isnan(terms).any():
        return untold(
            next(o.why_untold for (_, o), own in zip(signed, terms, strict=True) if np.isnan(own).any()), made
        )
    limits = (float(plus - len(signed)), float(plus))
    drawn = sample or signed[0][1].sample(facts)
    return numbers.difference(np.sum(terms, axis=0), np.zeros(len(facts)), drawn, made, limits)


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
    _check_scored(outcome)
    return outcome


def wanted_of(run: RunFolder, scorings: Sequence[str], model: str, cluster: str = "") -> list[Outcome]:
    """One run in each of *scorings* that it has, with ranks or credit; one with one scoring needs none. Their rows are
    without prompts and answers.

    :raises BadInput: unfinished, nothing scored, several scorings and none chosen.
    """
    rows = _finished(run, cluster, _NOT_COMPARED)
    found = [Outcome(run, rows, scoring, model) for scoring in _wanted(run, rows.scorings, scorings)]
    for outcome in found:
        _check_scored(outcome)
    return found


def _finished(run: RunFolder, cluster: str, without: Sequence[str] = ()) -> Rows:
    if not run.is_complete():
        raise BadInput(f"{run.path} is unfinished: type its command again, it goes on where it stopped")
    return Rows(run, False, cluster, without)  # all candidates' scores of many runs would fill memory


def _check_scored(outcome: Outcome) -> None:
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


def common_facts(outcomes: Sequence[Outcome], same_candidates: bool = True) -> list[str]:
    """Facts that all scored, in the order of the first.

    :param same_candidates: False where other candidates are the question.
    :raises BadInput: none, or ranked among other candidates.
    """
    first, *others = outcomes
    refuse(f"{one.path} has no ranked facts at all" for one in outcomes if not one.told())
    both = first.told()
    for other in others:
        if other._told.keys() != first._told.keys():
            both = [fact for fact in both if fact in other._told]
    if not both:
        raise BadInput(
            f"{', '.join(outcome.path for outcome in outcomes)} have no ranked fact in common: "
            "they need the same data, or data with the same fact_id"
        )
    for other in others if same_candidates else ():
        if (first.facts, first.spaces) == (other.facts, other.spaces):
            continue
        spaces = [list(map(side.spaces.__getitem__, side.at(both).tolist())) for side in (first, other)]
        for fact, own, its in zip(both, *spaces, strict=True) if spaces[0] != spaces[1] else ():
            if own != its:
                mine, theirs = first.place[fact], other.place[fact]
                raise BadInput(
                    f"{first.path} ranked {fact} among {first.sizes[mine]:.0f} candidates, {other.path} among "
                    f"{other.sizes[theirs]:.0f} others: ask both with the same --pool, --candidates, --single-token "
                    "and selection, of names that both can rank (fathom study pools compares answer pools)"
                )
    return both


def names_of(candidates: Mapping[str, tuple[Sequence[str], Sequence[str]]]) -> dict[str, str]:
    """Name of each candidate by its id. :param candidates: as a run has them."""
    return {id_: name for ids, names in candidates.values() for id_, name in zip(ids, names, strict=True)}
