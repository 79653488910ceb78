"""The numbers of a run: headline, breakdown and ``metrics.json``.

Conventions. Accuracy is expected Hits@1, or the mean credit where answers are written; a headline number is the mean
over templates of each template's mean over its scored predictions; where queries have sentences of their own, the mean
over queries of each query's mean over its sentences. F1 is that of mean precision and mean recall.
Perplexity is of every prompt whose probability was recorded: the mean over prompts, and that of all their tokens.
Unscored predictions are left out of every mean and counted beside it. Scorings are never mixed.
Intervals are at 95 %, from a bootstrap over relations of the values of queries, each averaged over templates (with the
weight its predictions have in the headline number, so that the interval is around exactly that number). What is of one
relation alone has its queries resampled, and a note that says so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from fathom.errors import BadInput
from fathom.metrics.bootstrap import Interval, interval
from fathom.metrics.confidence import expected_calibration_error
from fathom.metrics.consistency import consistency
from fathom.metrics.generation import mean_f1
from fathom.metrics.perplexity import corpus_perplexity, mean_perplexity
from fathom.probes import PROBES
from fathom.results.answers import bins_of, confident, error_table, reliability_table
from fathom.results.rows import Floats, Ints, Rows, Run
from fathom.results.tables import Cell, Table, to_json, to_markdown, to_text
from fathom.store.folder import RunFolder
from fathom.studies.ontology_tables import task_table

__all__ = [
    "Breakdown",
    "Headline",
    "Number",
    "Part",
    "Summary",
    "error_table",
    "metrics_json",
    "recipe",
    "reliability_table",
    "summarise",
]

FORMAT = 1
NONE = "(none)"
STANDARD_BREAKDOWNS = ("template", "relation", "cardinality", "domain")

_ONE_RELATION = "of one relation, whose queries were resampled"
_SHARE, _ANY_RANK = (0.0, 1.0), (1.0, np.inf)
_NUMBER = re.compile(r"(?<!\S)\d+(?![^\s,;]| has no name)")  # not in a name as in P36, nor an id of digits
_NO_SHARE = ("mean_rank", "perplexity", "corpus_perplexity")
_CUTS = ("hits@3", "hits@5", "hits@10", "hits@25", "hits@50", "hits@100")
_PERCENT = ("accuracy", *_CUTS, "consistency", "precision", "recall", "f1")


class Number(NamedTuple):
    """A value with what it needs to be read. :param low: None where there is no interval (ECE). :param n: how many
    predictions it is of (consistency: queries)."""

    value: float
    low: float | None
    high: float | None
    clusters: int | None
    note: str
    n: int
    recipe: str


@dataclass(frozen=True)
class Headline:
    """The numbers of one scoring.

    :param queries: how many distinct queries were asked. :param predictions: queries × templates.
    :param unscored: how many of these have no number, and :param reasons: why.
    :param deviation: sample standard deviation (n − 1) of accuracy over templates; None for one template.
    :param numbers: accuracy, hits@5, hits@10, mrr, mean_rank, precision, recall, f1, consistency, confidence, margin,
        uncertainty, brier, perplexity, corpus_perplexity, ece: those that the run's predictions can tell; of the
        ontology probe hits@25, hits@50 and mrr_all as well.
    """

    scoring: str
    templates: tuple[int, ...]
    queries: int
    predictions: int
    unscored: int
    reasons: Mapping[str, int]
    deviation: float | None
    numbers: Mapping[str, Number]

    @property
    def accuracy(self) -> Number | None:
        return self.numbers.get("accuracy")


class Part(NamedTuple):
    """One line of a breakdown. :param n: scored predictions. :param accuracy: None where nothing was scored.
    :param precision: of written answers, as recall and f1; None where there are none."""

    keys: tuple[str, ...]
    scoring: str
    queries: int
    n: int
    unscored: int
    accuracy: Number | None
    mrr: Number | None
    precision: Number | None = None
    recall: Number | None = None
    f1: Number | None = None


class Breakdown(NamedTuple):
    """A run in parts. :param by: the keys whose combinations they are."""

    by: tuple[str, ...]
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Summary:
    """:param queries: how many the run is of, asked or not. :param notes: on candidates that are left out or tie.
    :param tasks: of the ontology probe, in place of the headline's numbers: they would mix tasks."""

    queries: int
    headlines: tuple[Headline, ...]
    breakdowns: tuple[Breakdown, ...] = ()
    notes: tuple[str, ...] = ()
    tasks: Table | None = None

    @property
    def tables(self) -> list[Table]:
        """The headline, or the tasks, then the breakdowns that were asked for."""
        return [self.tasks or _headline_table(self), *map(_parts_table, self.breakdowns)]

    def to_text(self) -> str:
        return "\n\n".join(map(to_text, self.tables))

    def to_markdown(self) -> str:
        return "\n\n".join(map(to_markdown, self.tables))

    def to_json(self) -> str:
        """The first table's rows as a list of objects."""
        return to_json(self.tables[0])


def summarise(run: Run, by: Sequence[str] = ()) -> Summary:
    """All numbers of *run*.

    :param by: one breakdown each: template, scoring, relation, direction, or any key of the queries' groups. Keys
        joined by "+" are crossed: "relation+template" gives one line per pair. A group "A; B" counts in A and in B.
    :raises BadInput: an unknown key (all that there are get named), or predictions that are not of one run.
    """
    rows = Rows(run)
    crossed = [tuple(key.strip() for key in keys.split("+")) for keys in by]
    _check_keys(rows, [key for keys in crossed for key in keys])
    headlines = tuple(_headline(rows, scoring) for scoring in rows.scorings)
    breakdowns = tuple(Breakdown(keys, tuple(_parts(rows, keys))) for keys in crossed)
    notes = tuple(_of_candidates(run.manifest))
    tasks = None
    if isinstance(run, RunFolder) and rows.identity.get("probe") == "ontology":
        tasks = _task_table(run, headlines, notes)
    return Summary(len(rows.query_ids), headlines, breakdowns, notes, tasks)


def recipe(run: Run, metric: str, scoring: str, templates: Iterable[int]) -> str:
    """How a number was made, in one line: what must agree before two numbers may be compared.

    The data's hash is of the whole data set; what was selected from it stands behind. The model's hash is of its
    weights, configuration and tokenizer.
    """
    return _recipe(run.manifest["identity"], metric, scoring, templates)


def metrics_json(run: Run) -> dict[str, Any]:
    """The content of RUN/metrics.json: per scoring the numbers with interval and recipe, and the usual breakdowns."""
    rows = Rows(run)
    there = _keys(rows)
    scorings: dict[str, Any] = {}
    for scoring in rows.scorings:
        line = _headline(rows, scoring)
        scorings[scoring] = {
            "templates": list(line.templates),
            "queries": line.queries,
            "predictions": line.predictions,
            "unscored": line.unscored,
            "reasons": dict(line.reasons),
            "accuracy_deviation_over_templates": line.deviation,
            "metrics": {name: _plain(number) for name, number in line.numbers.items()},
            "by": {},
        }
    for key in STANDARD_BREAKDOWNS:
        if key in there:
            for part in _parts(rows, (key,)):
                scorings[part.scoring]["by"].setdefault(key, {})[part.keys[0]] = _plain_part(part)
    version = str(rows.identity.get("version", ""))
    return {"format": FORMAT, "fathom": version, "queries": len(rows.query_ids), "scorings": scorings}


# --- one scoring


def _headline(rows: Rows, scoring: str) -> Headline:
    asked = rows.of(scoring)
    scored = asked[rows.scored[asked]]
    reasons = Counter(reason for place in asked.tolist() if (reason := rows.reason[place]) is not None)
    per_template = _template_means(rows, scored, rows.hits(1))
    return Headline(
        scoring=scoring,
        templates=tuple(sorted(set(rows.template[asked].tolist()))),
        queries=len(set(rows.query[asked].tolist())),
        predictions=len(asked),
        unscored=len(asked) - len(scored),
        reasons=dict(reasons.most_common()),
        deviation=float(np.std(per_template, ddof=1)) if len(per_template) > 1 and not rows.natural else None,
        numbers=_numbers(rows, scoring, scored),
    )


def _numbers(rows: Rows, scoring: str, scored: Ints) -> dict[str, Number]:
    sure = confident(rows, scoring)
    wanted: list[tuple[str, Ints, Floats, tuple[float, float]]] = [
        ("accuracy", scored, rows.hits(1), _SHARE),
        *((f"hits@{k}", scored, rows.hits(k), _SHARE) for k in _usual_cuts(rows)),
        *([("hits@100", scored, rows.hits(100), _SHARE)] if rows.most_candidates > 100 else []),
        ("mrr", scored, rows.reciprocal(), _SHARE),
        *_of_ontologies(rows, scored),
        ("mean_rank", scored, rows.rank, _ANY_RANK),
        ("precision", scored, rows.precision, _SHARE),
        ("recall", scored, rows.recall, _SHARE),
        ("confidence", sure, rows.confidence.top_probability, _SHARE),
        ("margin", sure, rows.confidence.margin, _SHARE),
        ("uncertainty", sure, rows.confidence.uncertainty, _SHARE),
        ("brier", sure, rows.confidence.brier, _SHARE),
    ]
    found = {name: _number(rows, name, places, values, limits) for name, places, values, limits in wanted}
    found["f1"] = _f1(rows, scored)
    found["consistency"] = _consistency(rows, scoring)
    found |= _perplexities(rows, scoring)
    found["ece"] = _calibration(rows, scoring, sure)
    return {name: number for name, number in found.items() if number is not None}


def _usual_cuts(rows: Rows) -> tuple[int, ...]:
    """Those of the field beside Hits@1: link prediction has its own."""
    return (3, 10) if rows.identity.get("probe") == "link" else (5, 10)


def _of_ontologies(rows: Rows, scored: Ints) -> list[tuple[str, Ints, Floats, tuple[float, float]]]:
    """What only the ontology probe shows: the field's cuts, and MRRₐ, of the mean rank of all gold answers."""
    if rows.identity.get("probe") != "ontology":
        return []
    cuts = [(f"hits@{k}", scored, rows.hits(k), _SHARE) for k in (25, 50)]
    return [*cuts, ("mrr_all", scored, rows.reciprocal_of_all(), _SHARE)]


def _template_means(rows: Rows, places: Ints, values: Floats) -> list[float]:
    """Mean of each template's predictions."""
    templates = rows.template[places]
    return [float(values[places[templates == template]].mean()) for template in np.unique(templates)]


def _number(rows: Rows, metric: str, places: Ints, values: Floats, limits: tuple[float, float]) -> Number | None:
    """Mean over templates of each template's mean, with its interval; None where any of *places* cannot tell it (a
    stopped search has no rank: leaving it out would flatter the mean)."""
    if not len(places) or np.isnan(values[places]).any():
        return None
    of_query = _per_query(rows, places, values)
    found = interval(of_query.means[0], of_query.clusters, weights=of_query.weights, limits=limits)
    return _with_recipe(rows, metric, places, found, len(places))


def _f1(rows: Rows, places: Ints) -> Number | None:
    """Of mean precision and mean recall, both means as :func:`_number` takes them."""
    if not len(places) or np.isnan(rows.precision[places] + rows.recall[places]).any():
        return None
    of_query = _per_query(rows, places, rows.precision, rows.recall)
    precision, recall = of_query.means
    found = mean_f1(precision, recall, of_query.clusters, of_query.weights)
    return _with_recipe(rows, "f1", places, found, len(places))


class _PerQuery(NamedTuple):
    """:param means: one array per column of values, [queries]. :param weights: of each query in the headline number.
    :param clusters: what resampling keeps together, :func:`_clusters`."""

    means: list[Floats]
    weights: Floats
    clusters: list[str] | None


def _per_query(rows: Rows, places: Ints, *columns: Floats) -> _PerQuery:
    """Values averaged over templates."""
    alike = rows.query if rows.natural else rows.template
    _, number, count = np.unique(alike[places], return_inverse=True, return_counts=True)
    weight = 1.0 / count[number]
    queries, query = np.unique(rows.query[places], return_inverse=True)
    weights = np.bincount(query, weight).astype(float)
    means = []
    for values in columns:
        mean = np.bincount(query, weight * values[places]) / weights
        # Where all agree, weighted means differ by rounding alone; without this the interval could not say so.
        means.append(np.full(len(mean), values[places[0]]) if np.ptp(values[places]) == 0 else mean)
    return _PerQuery(means, weights, _clusters(rows, queries))


def _clusters(rows: Rows, queries: Ints) -> list[str] | None:
    """Relation of each of *queries*; None, each query for itself, where there is one relation alone."""
    relations = [rows.relations[query] for query in queries.tolist()]
    return relations if len(set(relations)) > 1 else None


def _with_recipe(rows: Rows, metric: str, places: Ints, found: Interval, n: int) -> Number:
    line = _recipe(rows.identity, metric, rows.scoring[int(places[0])], sorted(set(rows.template[places].tolist())))
    several = found.clusters == 1 or _clusters(rows, rows.query[places]) is not None
    note = found.note if several else "; ".join(filter(None, (found.note, _ONE_RELATION)))
    return Number(found.estimate, found.low, found.high, found.clusters, note, n, line)


def _consistency(rows: Rows, scoring: str) -> Number | None:
    """Of the queries that have an answer under every template they were asked with, two or more."""
    of_query: dict[int, list[int]] = {}
    for place in rows.of(scoring).tolist():
        of_query.setdefault(int(rows.query[place]), []).append(place)
    tops, queries, used = [], [], []
    for query, places in of_query.items():
        answers = [rows.top_answers(place) if rows.scored[place] else frozenset() for place in places]
        if len(places) > 1 and all(answers):
            tops.append(answers)
            queries.append(query)
            used += places
    if not tops:
        return None
    found = interval(consistency(tops), _clusters(rows, np.array(queries)), limits=_SHARE)
    return _with_recipe(rows, "consistency", np.array(used), found, len(queries))


def _perplexities(rows: Rows, scoring: str) -> dict[str, Number | None]:
    """Of the prompts with a finite log-probability, whether ranked or not; nothing where there are none."""
    asked = rows.of(scoring)
    told = asked[np.isfinite(rows.prompt_log_prob[asked]) & (rows.prompt_tokens[asked] > 0)]
    if not len(told):
        return {}
    clusters = _clusters(rows, rows.query[told])
    missing = "" if len(told) == len(asked) else f"of {len(told)} of {len(asked)} prompts"
    found: dict[str, Number | None] = {}
    for name, function in (("perplexity", mean_perplexity), ("corpus_perplexity", corpus_perplexity)):
        value = function(rows.prompt_log_prob[told], rows.prompt_tokens[told], clusters)
        value = value._replace(note="; ".join(filter(None, (missing, value.note))))
        found[name] = _with_recipe(rows, name, told, value, len(told))
    return found


def _calibration(rows: Rows, scoring: str, sure: Ints) -> Number | None:
    """A bias in itself, so resampling would not give an interval around it: there is none."""
    if not len(sure):
        return None
    value = expected_calibration_error(bins_of(rows, sure))
    line = _recipe(rows.identity, "ece", scoring, sorted(set(rows.template[sure].tolist())))
    return Number(value, None, None, None, "no interval: the error is biased upwards in samples", len(sure), line)


# --- parts


def _keys(rows: Rows) -> list[str]:
    """What a run can be broken down by."""
    return list(dict.fromkeys(("template", "scoring", "relation", "direction", *(k for g in rows.groups for k in g))))


def _check_keys(rows: Rows, by: Sequence[str]) -> None:
    there = _keys(rows)
    unknown = [f"'{key}'" for key in by if key not in there]
    if unknown:
        raise BadInput(f"the run cannot be broken down by {', '.join(unknown)}: it has {', '.join(there)}")


def _parts(rows: Rows, by: Sequence[str]) -> list[Part]:
    """One per combination of values that occurs, and scoring; sorted, templates as numbers."""
    places_of: dict[tuple[str, tuple[Any, ...]], list[int]] = {}
    of_query = [[_values(rows, query, key) for key in by] for query in range(len(rows.query_ids))]
    for place, (query, template, scoring) in enumerate(
        zip(rows.query.tolist(), rows.template.tolist(), rows.scoring, strict=True)
    ):
        own = {"template": [template], "scoring": [scoring]}
        choices = [own.get(key, values) for key, values in zip(by, of_query[query], strict=True)]
        for keys in product(*choices):
            places_of.setdefault((scoring, keys), []).append(place)
    hits, reciprocal = rows.hits(1), rows.reciprocal()
    order = {scoring: number for number, scoring in enumerate(rows.scorings)}
    parts = []
    for scoring, keys in sorted(places_of, key=lambda part: (order[part[0]], part[1])):
        asked = np.array(places_of[scoring, keys])
        scored = asked[rows.scored[asked]]
        numbers = (
            _number(rows, "accuracy", scored, hits, _SHARE),
            _number(rows, "mrr", scored, reciprocal, _SHARE),
            _number(rows, "precision", scored, rows.precision, _SHARE),
            _number(rows, "recall", scored, rows.recall, _SHARE),
            _f1(rows, scored),
        )
        queries = len(set(rows.query[asked].tolist()))
        named = dict(zip(by, map(str, keys), strict=True))
        parts.append(
            Part(
                tuple(map(str, keys)),
                scoring,
                queries,
                len(scored),
                len(asked) - len(scored),
                *(_of_part(number, named) for number in numbers),
            )
        )
    return parts


def _values(rows: Rows, query: int, key: str) -> list[str]:
    """Where a query counts under *key*; several for "A; B"."""
    if key == "relation":
        return [rows.relations[query] or NONE]
    if key == "direction":
        return [rows.directions[query] or NONE]
    values = [value.strip() for value in (rows.groups[query].get(key) or "").split(";")]
    return list(dict.fromkeys(value for value in values if value)) or [NONE]


def _of_part(number: Number | None, keys: Mapping[str, str]) -> Number | None:
    """With what was selected said in the recipe; template and scoring are there already."""
    if number is None:
        return None
    selected = "".join(f"|{key}:{value}" for key, value in keys.items() if key not in ("template", "scoring"))
    return number._replace(recipe=number.recipe + selected)


# --- recipes, tables, JSON


def _recipe(identity: Mapping[str, Any], metric: str, scoring: str, templates: Iterable[int]) -> str:
    data, model = identity.get("data", {}), identity.get("model", {})
    parts = {
        "data": f"{data.get('name')}@{data.get('content_hash')}",
        **({"candidates": data["pool"]} if "pool" in data else {}),
        "probe": identity.get("probe"),
        "scoring": scoring,
        "templates": ",".join(map(str, templates)),
        "ties": "expected",
        "model": f"{model.get('name')}@{model.get('content_hash')}",
        "dtype": model.get("dtype"),
        "fathom": identity.get("version"),
    }
    return "|".join([metric, *(f"{name}:{value}" for name, value in (parts | _said(identity)).items())])


def _said(identity: Mapping[str, Any]) -> dict[str, str]:
    """The options that are not at their defaults, but for those that stand in the recipe already."""
    options = identity.get("options", {})
    usual = PROBES[identity["probe"]].options().identity() if identity.get("probe") in PROBES else {}
    elsewhere = {"templates", "reduction", "score", "dtype"} | ({"seed"} if not options.get("limit") else set())
    said = {
        name: ",".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in options.items()
        if name not in elsewhere and value != usual.get(name)
    }
    resolved = identity.get("resolved", {})
    own = {name: resolved[name] for name in ("questions", "own_templates") if resolved.get(name) is not None}
    return said | own  # the user's own, by what they say


def _headline_table(summary: Summary) -> Table:
    columns = ("scoring", "metric", "value", "low", "high", "deviation", "n", "unscored", "note", "recipe")
    body: list[tuple[Cell, ...]] = []
    formats, notes = [], []
    for line in summary.headlines:
        if line.accuracy is None:
            body.append(
                (line.scoring, "accuracy", None, None, None, None, 0, line.unscored, "nothing was scored", None)
            )
            formats.append(".4g")
        for name, number in line.numbers.items():
            deviation = line.deviation if name == "accuracy" else None
            head: tuple[Cell, ...] = (line.scoring, name, number.value, number.low, number.high, deviation)
            body.append((*head, number.n, line.unscored, number.note, number.recipe))
            formats.append(".1%" if name in _PERCENT else ".2f" if name in _NO_SHARE else ".4f")
        notes += _notes(line, summary.queries)
    legend = "low, high: 95 % interval over relations; deviation: sample standard deviation over templates"
    legend = f"{summary.queries:,} queries; {legend}"
    hidden = frozenset({"note", "recipe"})
    return Table(columns, tuple(body), "Results", {}, tuple(formats), hidden, (legend, *summary.notes, *notes))


def _of_candidates(manifest: Mapping[str, Any]) -> list[str]:
    """What a probe noted of candidates that it could not rank, or not tell apart."""
    noted = manifest.get("circumstances", {})
    if "notes" in noted:
        return list(noted["notes"])
    if manifest["identity"].get("probe") not in ("cloze", "ontology"):  # a run of an earlier version
        return []
    return [f"{what}: {said}" for what, said in noted.items() if what.startswith(("excluded ", "tied "))]


def _task_table(run: RunFolder, headlines: Sequence[Headline], notes: Sequence[str]) -> Table:
    found = recipe(
        run,
        "R@K,MRR,MRRₐ",
        ",".join(line.scoring for line in headlines),
        sorted({number for line in headlines for number in line.templates}),
    )
    reasons = dict.fromkeys(f"{count} × unscored: {why}" for line in headlines for why, count in _alike(line.reasons))
    return task_table(run, (*notes, *reasons, found))


def _notes(line: Headline, queries: int) -> list[str]:
    notes = [f"{line.scoring}: {count} × unscored: {why}" for why, count in _alike(line.reasons)]
    if line.queries < queries:
        notes.append(f"{line.scoring}: {line.queries} of {queries} queries were asked so far")
    if line.accuracy is not None:
        if line.accuracy.note:
            notes.append(f"{line.scoring}: {line.accuracy.note}")
        notes.append(line.accuracy.recipe)
    return notes


def _alike(reasons: Mapping[str, int]) -> list[tuple[str, int]]:
    """Reasons and how often each, those that differ only in numbers as one with their range: "of 101 to 125 tokens"."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for why in reasons:
        groups.setdefault(tuple(_NUMBER.split(why)), []).append(why)
    together = [(_in_one(words, whys), sum(map(reasons.__getitem__, whys))) for words, whys in groups.items()]
    return sorted(together, key=lambda line: -line[1])


def _in_one(words: tuple[str, ...], whys: Sequence[str]) -> str:
    """:param words: what *whys* share, between their numbers."""
    numbers = zip(*map(_NUMBER.findall, whys), strict=True)
    ranges = [
        f"{min(found, key=int)} to {max(found, key=int)}" if len(set(found)) > 1 else found[0] for found in numbers
    ]
    return words[0] + "".join(found + rest for found, rest in zip(ranges, words[1:], strict=True))


def _parts_table(found: Breakdown) -> Table:
    by = found.by if "scoring" in found.by else ("scoring", *found.by)
    # Written answers have no rank but a precision.
    further = ("mrr",) if all(part.precision is None for part in found.parts) else ("precision", "recall", "f1")
    columns = (*by, "queries", "n", "unscored", "accuracy", "low", "high", *further, "note", "recipe")
    body: list[tuple[Cell, ...]] = []
    for part in found.parts:
        keys = part.keys if "scoring" in found.by else (part.scoring, *part.keys)
        share, others = part.accuracy, [getattr(part, name) for name in further]
        numbers: tuple[Cell, ...] = (share.value, share.low, share.high) if share else (None, None, None)
        said: tuple[Cell, ...] = (share.note, share.recipe) if share else ("nothing was scored", None)
        body.append(
            (*keys, part.queries, part.n, part.unscored, *numbers, *(n.value if n else None for n in others), *said)
        )
    formats = dict.fromkeys(("accuracy", "low", "high", "precision", "recall", "f1"), ".1%") | {"mrr": ".4f"}
    return Table(columns, tuple(body), f"By {' and '.join(found.by)}", formats, hidden=frozenset({"recipe"}))


def _plain(number: Number) -> dict[str, Any]:
    """As JSON can hold it: an open end of an interval is null."""
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value
        for name, value in number._asdict().items()
    }


def _plain_part(part: Part) -> dict[str, Any]:
    numbers = {"accuracy": part.accuracy, "mrr": part.mrr}
    if part.precision is not None:
        numbers |= {"precision": part.precision, "recall": part.recall, "f1": part.f1}
    return {
        "queries": part.queries,
        "n": part.n,
        "unscored": part.unscored,
        **{name: None if number is None else _plain(number) for name, number in numbers.items()},
    }
