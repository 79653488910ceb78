"""One scoring of one run by fact: the representation that metrics, comparisons, studies and the report share.

The value of a fact is the mean over its templates, sentences and directions. A fact with an unscored prediction has no
value; it is counted with its reason.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fathom.base.errors import BadInput, refuse
from fathom.base.reading import first_few
from fathom.results import estimates
from fathom.results.estimates import MINUS, NOTHING, Estimate, Noise, combined, point_estimate, recipe
from fathom.results.metrics.table import SHARE, Metric
from fathom.results.rows import NATS, Floats, Ints, Rows, best_gold, grouped, split_values
from fathom.results.samples import RELATION, Sample, drawn
from fathom.store.folder import RunFolder, run_path, shown_path
from fathom.store.manifest import CHAT_FRAME

CUTS = (1, 5, 10)
ACCURACIES = tuple(f"Acc@{k}" for k in CUTS)
BY_TEMPLATE, FREE, BOTH, NEITHER = "template-based", "template-free", "both", "without templates"
READINGS = (BY_TEMPLATE, FREE)
UNALTERED = "no"
PLAIN, CHAT, SHUFFLED = "plain", "chat", "shuffled chat"
STOPPED = "a search stopped too early to tell"
WRITTEN = "written or chosen answers have no rank"
ACCURACY = "accuracy"
_RELEASED = ("rows", "run", "places", "fact_of", "_first", "queries")
_KEPT = (
    *(
        "data",
        "reading",
        "wording",
        "options",
        "why_undefined",
        "recipe_without_name",
        "relations",
        "subjects",
        "labels",
    ),
    *(
        "spaces",
        "sizes",
        "beyond",
        "mean_ranks",
        "mean_log_ranks",
        "groups",
        "content_hash",
        "chat_frame",
        "parameters",
    ),
)
"""Properties that comparisons use after the predictions were released."""
FOLDER = "folder"
LONGEST_IN_LABEL = 24
"""Characters of a setting in the label of a run."""
Value = TypeVar("Value")
Shared = dict[Any, Any]


def excluded_by_limit(run: RunFolder) -> int:
    """Return the number of queries that ``--limit`` excluded."""
    return int(run.manifest.get("circumstances", {}).get("left_out", {}).get("queries", {}).get("limit", 0))


class RunFacts:
    """One scoring of one run. Arrays and sequences have one entry per fact, in order of appearance.

    :param rows: the run's predictions; :meth:`release` drops them.
    :param places: predictions to include, by default all of this scoring.
    :param part: "key:value" where these are a part of the run, for recipes.
    """

    def __init__(
        self, run: RunFolder, rows: Rows, scoring: str, model: str, places: Ints | None = None, part: str = ""
    ) -> None:
        identity = rows.identity
        self.declared = rows.declared
        self.run, self.rows, self.scoring, self.model, self.part = run, rows, scoring, model, part
        self.path, self.cluster = shown_path(run.path), rows.cluster
        self.full_name = str(identity["model"]["name"])
        self.data = str(identity.get("data", {}).get("name"))
        self.probe = str(identity["probe"])
        self.precision = str(identity["model"].get("dtype") or "")
        self.attention = str(identity.get("resolved", {}).get("attention", ""))
        self.places = rows.of(scoring) if places is None else places
        """Positions of its predictions in the rows."""
        ids = [rows.fact_ids[query] or rows.query_ids[query] for query in rows.query[self.places].tolist()]
        self.facts: Sequence[str] = list(dict.fromkeys(ids))
        """``fact_id``, else ``query_id`` of a sentence without a known subject."""
        self.place: Mapping[str, int] = {fact: number for number, fact in enumerate(self.facts)}
        self.fact_of: Ints = np.array([self.place[fact] for fact in ids], dtype=np.int64)
        """Index of each prediction's fact."""
        _, self._first = np.unique(self.fact_of, return_index=True)
        reasons = zip(ids, self.places.tolist(), strict=True)
        self.left_out = {fact: reason for fact, place in reasons if (reason := rows.reason[place]) is not None}
        """Facts with an unscored prediction, and the reason."""
        self.scored = np.array([fact not in self.left_out for fact in self.facts], dtype=bool)
        self._values: dict[str, Floats] = {}
        self._at: tuple[Iterable[str], Ints] | None = None

    def release(self, metrics: Sequence[Metric], shared: Shared) -> RunFacts:
        """Drop the predictions, keep what comparisons need: half a megabyte for BEAR's 7,731 facts.

        :param metrics: whose values are kept, in addition to accuracy.
        :param shared: equal sequences of several runs are stored once in it.
        """
        for metric in metrics:
            self.values(metric)
        self.hits(1)
        for name in _KEPT:
            value = getattr(self, name)
            self.__dict__[name] = _shared(value, shared) if isinstance(value, list) else value
        self.__dict__["groups"] = {key: _shared(values, shared) for key, values in self.groups.items()}
        self.facts = _shared(self.facts, shared)
        self.place = shared.setdefault(("place", id(self.facts)), self.place)
        self.left_out = {fact: sys.intern(reason) for fact, reason in self.left_out.items()}
        for name in _RELEASED:
            self.__dict__.pop(name, None)
        return self

    # --- values

    def per_fact(self, values: Floats) -> Floats:
        """Return the mean over each fact's predictions, shape (facts); NaN where one is NaN or unscored.

        :param values: one per prediction of the run, as :class:`Rows` has them.
        """
        sums = np.bincount(self.fact_of, values[self.places], minlength=len(self.facts))
        return np.where(self.scored, sums / np.bincount(self.fact_of, minlength=len(self.facts)), np.nan)

    def values(self, metric: Metric) -> Floats:
        """Return a metric of each fact, shape (facts); NaN where the fact has none."""
        if metric.name not in self._values:
            self._values[metric.name] = self.per_fact(self.rows.columns(metric)[0])
        return self._values[metric.name]

    def hits(self, k: int) -> Floats:
        """Return expected Hits@k of each fact; NaN where the fact is unscored."""
        name = ACCURACY if k == 1 else f"hits@{k}"
        if name not in self._values:
            self._values[name] = self.per_fact(self.rows.hits(k))
        return self._values[name]

    @cached_property
    def mean_ranks(self) -> Floats:
        """Mean rank of each fact's predictions; infinite where a search stopped, NaN where unscored."""
        return self.per_fact(self._ranks)

    @cached_property
    def mean_log_ranks(self) -> Floats:
        """Mean decimal logarithm of the ranks, likewise."""
        return self.per_fact(np.log10(self._ranks))

    @cached_property
    def gold_log_probs(self) -> Floats:
        """Mean log-probability of each fact's best gold answer in nats; NaN where the scores are none."""
        values = np.full(len(self.rows.rank), np.nan)
        if self.rows.declared.scoring(self.scoring)["unit"] == NATS and "gold_scores" in self.rows.table.column_names:
            for place, scores in enumerate(self.rows.table.column("gold_scores").to_pylist()):
                values[place] = scores[best_gold(scores)] if scores else np.nan
        return self.per_fact(values)

    @property
    def _ranks(self) -> Floats:
        """Rank of each prediction of the run; infinite where a search stopped before it."""
        return np.where(np.isnan(self.rows.rank) & ~np.isnan(self.rows.above), np.inf, self.rows.rank)

    @cached_property
    def beyond(self) -> Floats:
        """The lowest rank at which a search for the fact stopped; infinite where none did."""
        lowest = np.full(len(self.facts), np.inf)
        np.fmin.at(lowest, self.fact_of, np.where(np.isnan(self.rows.rank), self.rows.above, np.nan)[self.places])
        return lowest

    @cached_property
    def stopped(self) -> set[str]:
        """Facts whose rank is only known to be greater than some number."""
        exact = (self.beyond == np.inf) | ~self.scored
        return {fact for fact, is_exact in zip(self.facts, exact, strict=True) if not is_exact}

    # --- sampling units and groups

    @cached_property
    def queries(self) -> list[int]:
        """Index of each fact's first query."""
        return self.rows.query[self.places][self._first].tolist()  # type: ignore[no-any-return]

    @cached_property
    def relations(self) -> Sequence[str]:
        """Relation of each fact, "" where it has none."""
        return [self.rows.relations[query] for query in self.queries]

    @cached_property
    def subjects(self) -> Sequence[str | None]:
        """Subject id of each fact; None where it has none."""
        return [self.rows.subjects[query] for query in self.queries]

    @cached_property
    def labels(self) -> Sequence[str | None]:
        """Value of the cluster key of each fact; None where it has none."""
        return [self.rows.cluster_label(query) if self.cluster else None for query in self.queries]

    @cached_property
    def groups(self) -> Mapping[str, Sequence[Sequence[str]]]:
        """Values of each fact under every key, by its first query, see :meth:`Rows.values_of`."""
        texts = {key: [self.rows.text_of(query, key) for query in self.queries] for key in self.rows.keys}
        values = {key: {text: tuple(split_values(key, text)) for text in set(column)} for key, column in texts.items()}
        return {key: [values[key][text] for text in column] for key, column in texts.items()}

    def at(self, facts: Iterable[str]) -> Ints:
        if self._at is None or self._at[0] is not facts:  # callers pass the same list again and again
            self._at = facts, np.array([self.place[fact] for fact in facts], dtype=np.int64)
        return self._at[1]

    def shown_relations(self, facts: Iterable[str]) -> list[str]:
        """Return the relation of each fact for readers: its label if the id is an address."""
        return [self.declared.shown(RELATION, relation) for relation in self.relations_of(facts)]

    def relations_of(self, facts: Iterable[str]) -> list[str]:
        return [self.relations[place] for place in self.at(facts).tolist()]

    def sample(self, facts: Iterable[str]) -> Sample:
        """Return how these facts were drawn."""
        places = self.at(facts).tolist()
        relations, subjects = ([values[at] for at in places] for values in (self.relations, self.subjects))
        return drawn(self.cluster, relations, (self.labels[at] for at in places), subjects=subjects).numbered()

    @cached_property
    def scored_facts(self) -> Sequence[str]:
        return self.facts if self.scored.all() else [fact for fact in self.facts if fact not in self.left_out]

    def parts(self, key: str) -> dict[str, RunFacts]:
        """Split by the values of *key*, in order of appearance. Queries of one fact may be in different parts.

        :raises BadInput: no query has this key.
        """
        if key not in self.rows.keys:
            raise BadInput(f"{self.path} cannot be broken down by '{key}': it has {', '.join(self.rows.keys)}")
        queries = zip(self.rows.query[self.places].tolist(), self.places.tolist(), strict=True)
        parts = grouped((value, place) for query, place in queries for value in self.rows.values_of(query, key))
        return {
            value: RunFacts(self.run, self.rows, self.scoring, self.model, np.array(places), f"{key}:{value}")
            for value, places in parts.items()
        }

    def only(self, facts: Sequence[str]) -> RunFacts:
        places = self.places[np.isin(self.fact_of, self.at(facts))]
        return RunFacts(self.run, self.rows, self.scoring, self.model, places, f"facts:{len(facts)} in common")

    # --- candidates and answers

    @cached_property
    def spaces(self) -> Sequence[str]:
        """Digest of each fact's ranked candidates, regardless of their order."""
        digests = {
            name: hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()[:16]
            for name, (ids, _) in self.rows.candidates.items()
        }
        named = [digests.get(self.rows.spaces[query] or "", "") for query in self.queries]
        pairs = zip(self.fact_of.tolist(), (self.rows.not_ranked[place] for place in self.places.tolist()), strict=True)
        lacking = grouped((fact, digest) for fact, digest in pairs if digest)
        return [
            " without ".join([name, *sorted(set(lacking[fact]))]) if fact in lacking else name
            for fact, name in enumerate(named)
        ]

    @cached_property
    def sizes(self) -> Floats:
        """Number of candidates of each fact."""
        return self.rows.number_of_candidates[self.places][self._first]

    @property
    def mean_candidates(self) -> float:
        """Mean number of candidates of the scored facts; NaN where there are none."""
        sizes = self.sizes[self.scored]
        return float(np.mean(sizes)) if sizes.any() else float("nan")

    def subject_names(self, facts: Iterable[str]) -> list[str]:
        """Return the names of the subjects as in the prompt; "" where a fact has none."""
        places = self.places[self._first[self.at(facts)]]
        return [name or "" for name in self.rows.table.column("subject").take(places).to_pylist()]

    def gold_ids_of(self, facts: Iterable[str]) -> list[list[str]]:
        return [self.rows.gold[self.queries[place]] for place in self.at(facts).tolist()]

    def best_golds(self) -> dict[str, tuple[str, int | None]]:
        """Return name and recorded tokens of the best gold answer of each scored fact, by the last of its templates."""
        rows, scored = self.rows, self.rows.scored[self.places]
        columns = rows.table.select(["gold_scores", "gold_tokens"]).take(self.places[scored]).to_pydict()
        places, golds = (self.fact_of[scored].tolist(), rows.query[self.places[scored]].tolist()), {}
        for fact, query, scores, tokens in zip(*places, *columns.values(), strict=True):
            best = best_gold(scores)
            name = rows.names[rows.spaces[query] or ""][rows.gold[query][best]]
            golds[self.facts[fact]] = name, tokens[best] if tokens else None
        return golds

    # --- the run

    @cached_property
    def options(self) -> Mapping[str, Any]:
        options = dict(self.rows.identity.get("options", {}))
        return options | {"templates": list(self.rows.templates)} if self.rows.templates else options

    @property
    def settings(self) -> Mapping[str, str]:
        """Options that have a value, in words; a path is its last part."""
        return {name.replace("_", " "): text for name, value in self.options.items() if (text := _in_words(value))}

    @cached_property
    def content_hash(self) -> str:
        """Digest of the model's weights, configuration and tokenizer."""
        return str(self.rows.identity["model"].get("content_hash"))

    @cached_property
    def chat_frame(self) -> str:
        """What the chat template writes around the words; "" without one, or if the run did not record it."""
        return str(self.rows.identity.get("resolved", {}).get(CHAT_FRAME, ""))

    @property
    def alteration(self) -> str:
        """The value of ``--alter``, by default :data:`UNALTERED`."""
        return str(self.options.get("alter", UNALTERED))

    @cached_property
    def reading(self) -> str:
        """Template-based, template-free, both (relations differ) or without templates.

        By the option, else by whether queries have their own sentences. An alteration such as "misprimed" is added.
        """
        option = self.options.get("reading")
        if self.alteration != UNALTERED:
            return f"{option}, {self.alteration}" if option in READINGS else self.alteration
        if option in READINGS:
            return str(option)
        natural = np.array([bool(self.rows.sentences[query]) for query in self.rows.query[self.places]], dtype=bool)
        if not natural.any():
            return BY_TEMPLATE if (self.rows.template[self.places] >= 0).any() else NEITHER
        # A fact without a sentence is unscored, which shows nothing about how the others were asked.
        return FREE if natural[self.rows.scored[self.places]].all() else BOTH

    @cached_property
    def wording(self) -> str:
        """Plain, through a chat template, or after its shuffled tokens."""
        if not self.options.get("chat"):
            return PLAIN
        return SHUFFLED if self.options.get("shuffle_chat") else CHAT

    @cached_property
    def parameters(self) -> int | None:
        """Number of the model's parameters; None where the run did not record it."""
        about = self.run.manifest.get("circumstances", {}).get("model")
        number = about.get("parameters") if isinstance(about, dict) else None
        return number if isinstance(number, int) else None

    @property
    def name(self) -> str:
        """Probe, scoring and model."""
        return f"{self.probe} {self.scoring} {self.model}"

    @property
    def distinguishing(self) -> Mapping[str, str]:
        """What may distinguish it from other runs: the model, its settings, how many facts, and its folder's name."""
        named = {
            "model": self.model,
            "probe": self.probe,
            "scoring": self.scoring,
            "data": self.data,
            "reading": self.reading,
            "wording": self.wording,
            "dtype": self.precision,
            "quantize": self.settings.get("quantize", ""),
        }
        options = {
            name: name if text == "yes" else f"{name}={text[:LONGEST_IN_LABEL]}"
            for name, text in self.settings.items()
            if name not in named
        }
        return {**named, **options, "facts": f"{len(self.facts):,} facts", FOLDER: run_path(self.path).resolve().name}

    def called(self, model: str) -> RunFacts:
        """Return the same facts with another name of the model."""
        facts = copy(self)
        facts.model = model
        return facts

    # --- estimates

    @cached_property
    def why_undefined(self) -> str:
        """Reason why scored facts may lack a value."""
        return STOPPED if np.isnan(self.rows.correct[self.places]).all() else WRITTEN

    @cached_property
    def recipe_without_name(self) -> str:
        """Recipe of its estimates; see :func:`fathom.results.estimates.recipe`."""
        return recipe(self.rows, "", self.scoring)

    def recipe(self, name: str) -> str:
        """Return the recipe of an estimate over facts, each the mean of its templates or sentences."""
        return f"{name}{self.recipe_without_name}|mean:facts{f'|{self.part}' if self.part else ''}"

    def mean(
        self,
        name: str,
        values: Floats,
        facts: Sequence[str] | None = None,
        sample: Sample | None = None,
        form: str = ".1%",
    ) -> Estimate:
        """Return the mean of shares over facts with its interval; undefined if there are none or one has no value.

        :param name: for the recipe.
        :param values: one per fact of the run.
        :param facts: by default the scored ones.
        :param sample: how the facts were drawn, if already known.
        """
        facts = self.scored_facts if facts is None else facts
        shares, line = values[self.at(facts)], self.recipe(name)
        if not len(shares) or np.isnan(shares).any():
            return point_estimate(self.why_undefined if len(shares) else NOTHING, line, form=form)
        return estimates.mean(shares, sample or self.sample(facts), line, form=form)


def _in_words(value: object) -> str:
    """Return "yes", a number, or texts joined by commas; "" if the option is off."""
    if value is None or value is False:
        return ""
    if isinstance(value, list | tuple):
        return ", ".join(map(_in_words, value))
    text = "yes" if value is True else str(value)
    return Path(text).name if Path(text).is_absolute() else text


def _shared(values: Iterable[Value], shared: Shared) -> Sequence[Value]:
    content = tuple(values)
    return shared.setdefault(content, content)  # type: ignore[no-any-return]


def names_of(candidates: Mapping[str, tuple[Sequence[str], Sequence[str]]]) -> dict[str, str]:
    """Return each candidate's name by its id. :param candidates: as a run has them."""
    return {id_: name for ids, names in candidates.values() for id_, name in zip(ids, names, strict=True)}


# --- several runs over the facts that all of them scored


def difference(
    name: str,
    first: RunFacts,
    second: RunFacts,
    values: Sequence[Floats],
    facts: Sequence[str],
    sample: Sample | None = None,
    form: str = "+.1%",
) -> Estimate:
    """Return the mean over facts of first − second, paired by fact; undefined where a fact has no value.

    :param name: of the number, for its recipe.
    :param values: one per fact of each side.
    :param sample: how these were drawn, if already known.
    """
    sides = (first, second)
    terms = [column[side.at(facts)] for side, column in zip(sides, values, strict=True)]
    recipe = combined(name, [side.recipe("") for side in sides])
    if np.isnan(terms).any():
        why = next(side.why_undefined for side, term in zip(sides, terms, strict=True) if np.isnan(term).any())
        return point_estimate(why, recipe, form=form)
    drawn = sample or first.sample(facts)
    return estimates.difference(terms[0], terms[1], drawn, recipe, form=form)


def over_seeds(
    name: str,
    trainings: Sequence[Sequence[tuple[int, RunFacts]]],
    values: Callable[[RunFacts], Floats],
    limits: tuple[float, float] = SHARE,
) -> tuple[Estimate, Noise]:
    """Return the mean over facts of Σ sign · value, paired by fact and by seed, for other facts and other seeds.

    With a p value for several sides; undefined where a fact has no value.

    :param trainings: for each seed +1 or −1 and the side, in the same order.
    :param values: takes a side and returns one per fact, between *limits*.
    :raises BadInput: no fact in common, or other candidates.
    """
    signed = trainings[0]
    sides = [[training[place][1] for training in trainings] for place in range(len(signed))]
    facts = common_facts([side for seeds in sides for side in seeds])
    recipes = [combined("", [side.recipe("") for side in seeds], " or ") for seeds in sides]
    recipe = combined(name, recipes, MINUS if [sign for sign, _ in signed] == [1, -1] else " and ")
    terms = np.array([[sign * values(side)[side.at(facts)] for sign, side in training] for training in trainings])
    if np.isnan(terms).any():
        whys = (side.why_undefined for seeds in sides for side in seeds if np.isnan(values(side)[side.at(facts)]).any())
        return point_estimate(next(whys), recipe), Noise(len(trainings))
    low, high = np.sum([[limits[sign < 0] * sign, limits[sign > 0] * sign] for sign, _ in signed], axis=0)
    sample, ends = signed[0][1].sample(facts), (float(low), float(high))
    return estimates.over_seeds(terms.sum(axis=1), sample, recipe, ends, len(signed) > 1)


def common_facts(outcomes: Sequence[RunFacts], same_candidates: bool = True) -> Sequence[str]:
    """Return the facts that all scored, in the order of the first.

    :param same_candidates: False if other candidates are the question.
    :raises BadInput: none, ranked among other candidates, or with one correct answer here and several there.
    """
    first, *others = outcomes
    refuse(f"{outcome.path} has no ranked facts at all" for outcome in outcomes if not outcome.scored_facts)
    both = first.scored_facts
    refuse(line for second in others for line in _other_answers(first, second))
    for second in others:
        if second.scored_facts != first.scored_facts:
            both = [fact for fact in both if fact in second.place and fact not in second.left_out]
    if not both:
        raise BadInput(
            f"{', '.join(outcome.path for outcome in outcomes)} have no ranked fact in common: "
            "they need the same data, or data with the same fact_id"
        )
    for second in others if same_candidates else ():
        if (first.facts, first.spaces) == (second.facts, second.spaces):
            continue
        spaces = [list(map(side.spaces.__getitem__, side.at(both).tolist())) for side in (first, second)]
        for fact, first_space, second_space in zip(both, *spaces, strict=True) if spaces[0] != spaces[1] else ():
            if first_space != second_space:
                mine, theirs = first.place[fact], second.place[fact]
                raise BadInput(
                    f"{first.path} ranked {fact} among {first.sizes[mine]:.0f} candidates, {second.path} among "
                    f"{second.sizes[theirs]:.0f} others: use the same --pool, --candidates, --single-token, "
                    "--trailing-space and selection for both"
                )
    return both


def _other_answers(first: RunFacts, second: RunFacts) -> Iterator[str]:
    """Yield a line if facts have several correct answers in one of two runs and a single one in the other.

    In reverse, each answer is asked for by itself.
    """
    if first.options.get("reverse") != second.options.get("reverse"):
        return
    for several, single in ((first, second), (second, first)) if first.facts != second.facts else ():
        heads = {fact.removesuffix("*"): fact for fact in several.facts if fact.endswith("|*")}
        absent = {start for start, fact in heads.items() if fact not in single.place}
        differing = absent.intersection(fact[: fact.rfind("|") + 1] for fact in single.facts) if absent else ()
        if differing:
            yield (
                f"{len(differing):,} facts have several correct answers in {several.path} and one in {single.path}: "
                f"{first_few([heads[start] for start in heads if start in differing])}; "
                "evaluate both models on the same version of the data"
            )
