"""Which facts separate models, which errors do models share, and which labels are worth a look?

*Discrimination* is the point-biserial correlation, over models, of being right with the accuracy on the other facts.
Labels are ranked by evidence for another answer (:func:`label_evidence`). It proves nothing: models share errors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations, count
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fathom.base.errors import BadInput, refuse
from fathom.results.claims import p_in_words, percent
from fathom.results.estimates import Estimate, combined, correlation_over_models, point_estimate
from fathom.results.facts import RunFacts, common_facts, names_of
from fathom.results.loading import distinguished, read_runs
from fathom.results.metrics.significance import LEVEL, PERMUTATIONS, holm
from fathom.results.rows import NONE, Floats, grouped
from fathom.results.tables import Table
from fathom.store.folder import RunFolder
from fathom.studies.options import ItemsOptions

RIGHT = 0.5
"""A model is right on a fact if more than this share of its templates has the right answer."""
FEWEST = 3
"""Models that a correlation over models needs."""
ALL = "(all)"
OVER_PAIRS = "no interval: pairs of models share models"
SHARED = ("relation", "facts", "models", "pairs", "same", "expected", "most frequent")
Row = dict[str, Any]


class Fact(NamedTuple):
    """A fact, as in the first run that scored it, with the answers of all models.

    :param candidates: their number without the labelled answers. :param right_ids: of its right answers.
    :param right: share of right answers by model. :param wrong: id of its first answer, of models that are wrong.
    """

    id: str
    relation: str
    subject: str
    label: str
    space: str
    candidates: int
    right_ids: set[str]
    right: dict[int, float]
    wrong: dict[int, str]
    names: dict[str, str]


class Items(NamedTuple):
    """All facts over all models.

    :param facts: those with the most evidence for another answer first, those of one model last.
    :param shared_errors: over all relations, followed by each relation with models that are both wrong on a fact.
    """

    accuracy: dict[str, Estimate]
    facts: list[Row]
    shared_errors: list[Row]
    common: int
    left_out: int
    listed: int

    @property
    def labels_to_check(self) -> list[Row]:
        """The facts that several models scored and at least one of them has wrong."""
        return [row for row in self.facts if row["other"] and row["models"] > 1]


def analyse(runs: Sequence[RunFolder], options: ItemsOptions = ItemsOptions()) -> Items:
    """Describe each fact over the models that scored it.

    :raises BadInput: fewer than two runs, or no fact in common.
    """
    facts: dict[str, Fact] = {}
    numbers = count()

    def read(outcome: RunFacts) -> RunFacts:
        _read_answers(outcome, next(numbers), facts)
        return outcome.release((), {})

    sides = read_runs(runs, options.scoring, options.cluster, read, without=(), fewest=1)
    if len(sides) < 2:
        raise BadInput("expected runs of two models or more, as facts are described over models: found one")
    same = [
        name for (name, _), times in Counter((side.model, side.content_hash) for side in sides).items() if times > 1
    ]
    refuse(f"several runs of {name}: give one of each model, as facts are described over models" for name in same)
    every, common = list(facts.values()), common_facts(sides)
    recipe = combined("", [side.recipe("") for side in sides])
    models = distinguished([side.distinguishing for side in sides])
    right = np.array([[fact.right.get(model, np.nan) for fact in every] for model in range(len(sides))])
    is_common = np.isin(list(facts), common)
    return Items(
        dict(zip(models, [side.mean("accuracy", side.hits(1)) for side in sides], strict=True)),
        _describe(every, right, is_common, f"correlation of right with other facts{recipe}"),
        _shared_errors(every, len(sides), options.seed, f"same wrong answer{recipe}"),
        len(common),
        len(set[str]().union(*(side.facts for side in sides))) - len(common),
        options.listed,
    )


def _read_answers(outcome: RunFacts, model: int, facts: dict[str, Fact]) -> None:
    """Add the answers of one model to the facts."""
    rows, names, hits = outcome.rows, names_of(outcome.rows.candidates), outcome.hits(1)
    votes: list[Counter[str]] = [Counter() for _ in outcome.facts]
    for at, prediction in zip(outcome.fact_of.tolist(), outcome.places.tolist(), strict=True):
        tops = rows.top_answers(prediction) if rows.scored[prediction] else ()
        votes[at].update(tops if len(tops) == 1 else ())
    for id_ in outcome.scored_facts:
        at = outcome.place[id_]
        gold = rows.gold[outcome.queries[at]]
        right_ids = rows.right_ids(outcome.queries[at])
        if id_ not in facts:
            about = (
                outcome.relations[at],
                outcome.subjects[at] or id_,
                "; ".join(names.get(answer, answer) for answer in gold),
            )
            candidates = max(1, int(outcome.sizes[at]) - len(gold))
            facts[id_] = Fact(id_, *about, outcome.spaces[at], candidates, right_ids, {}, {}, {})
        fact = facts[id_]
        fact.right[model] = float(hits[at])
        first = [answer for answer, votes_for in votes[at].items() if votes_for == max(votes[at].values())]
        if len(first) == 1 and hits[at] <= RIGHT and first[0] not in right_ids | fact.right_ids:
            fact.wrong[model] = first[0]
            fact.names.setdefault(first[0], names.get(first[0], first[0]))


def _numbered(facts: Sequence[Fact], models: int) -> tuple[Ints, Ints]:
    """Number the answers: wrong ones, shape (models, facts), and right ones, shape (facts, most); −1: there is none."""
    answers = sorted({answer for fact in facts for answer in fact.wrong.values()})
    number = {answer: at for at, answer in enumerate(answers)}
    wrong = [[number.get(fact.wrong.get(model, ""), -1) for fact in facts] for model in range(models)]
    right = [[number[answer] for answer in fact.right_ids if answer in number] for fact in facts]
    most = max(map(len, right))
    return np.array(wrong), np.array([numbers + [-1] * (most - len(numbers)) for numbers in right], dtype=np.int64)


def _describe(facts: Sequence[Fact], right: Floats, is_common: Mask, recipe: str) -> list[Row]:
    """Return a row for each fact. :param right: shape (models, facts)."""
    rest = rest_accuracy(right, is_common)
    least = 1 / (2 + is_common.sum())
    accuracy = np.clip(np.nan_to_num(rest, nan=0.5), least, 1 - least)
    evidence = np.empty(right.shape)
    for places in grouped(((fact.relation, fact.space), place) for place, fact in enumerate(facts)).values():
        of_space = [facts[place] for place in places]
        wrong, _ = _numbered(of_space, len(right))
        candidates = np.array([fact.candidates for fact in of_space])
        evidence[:, places] = label_evidence(right[:, places] > RIGHT, wrong, accuracy[:, places], candidates)
    rows = []
    for place, fact in enumerate(facts):
        scored = ~np.isnan(right[:, place]) & ~np.isnan(rest[:, place])
        discrimination = point_estimate("fewer than three models", recipe)
        if scored.sum() >= FEWEST:
            discrimination = correlation_over_models(right[scored, place], rest[scored, place], recipe)
        best = int(np.argmax(evidence[:, place]))
        rival = fact.wrong.get(best, "")
        row = {"fact": fact.id, "relation": fact.relation, "label": fact.label, "models": len(fact.right)}
        row |= {"difficulty": 1 - fmean(fact.right.values()), "discrimination": discrimination}
        row |= {"other": fact.names.get(rival, ""), "models for other": list(fact.wrong.values()).count(rival)}
        rows.append(row | {"evidence": float(evidence[best, place]), "right": right[:, place].tolist()})
    return sorted(rows, key=lambda row: (row["models"] < 2, -row["evidence"], row["fact"]))


def _shared_errors(facts: Sequence[Fact], models: int, seed: int, recipe: str) -> list[Row]:
    """Return a row for all relations and one for each, the smallest p value first."""
    draw = np.random.default_rng(seed)
    agreeing: dict[str, Ints] = {}
    wrong: dict[str, list[Fact]] = {}
    for (relation, _), of_space in grouped(((fact.relation, fact.space), fact) for fact in facts).items():
        # Facts of one subject have the same prompts, so their answers are not independent.
        independent = list({fact.subject: fact for fact in of_space}.values())
        counts = count_shared_errors(*_numbered(independent, models), PERMUTATIONS, draw)
        both_wrong = [fact for fact in independent if len(fact.wrong) > 1]
        for name in (ALL, relation or NONE) if both_wrong else ():
            agreeing[name] = agreeing.get(name, 0) + counts
            wrong[name] = wrong.get(name, []) + both_wrong
    p_values = {name: float(np.mean(counts >= counts[0])) for name, counts in agreeing.items()}
    single = [name for name in p_values if name != ALL]
    p_values |= dict(zip(single, holm([p_values[name] for name in single]).tolist(), strict=True))
    rows: list[Row] = []
    for name, some in wrong.items():
        pairs = sum(len(fact.wrong) * (len(fact.wrong) - 1) // 2 for fact in some)
        same = point_estimate(OVER_PAIRS, recipe, agreeing[name][0] / pairs, pairs, ".1%")
        row = {"relation": name, "facts": len(some), "models": len({model for fact in some for model in fact.wrong})}
        row |= {"pairs": pairs, "same": same._replace(p_value=p_values[name])}
        rows.append(row | {"expected": agreeing[name][1:].mean() / pairs, "most frequent": _most_frequent(some)})
    rows.sort(key=lambda row: row["expected"] - row["same"].value)
    return sorted(rows, key=lambda row: (row["relation"] != ALL, row["same"].p_value))


def _most_frequent(facts: Sequence[Fact]) -> str:
    """Return the wrong answer to one fact that most models give; "" if no two models agree."""
    first = {fact.id: Counter(fact.wrong.values()).most_common(1)[0] for fact in facts}
    fact = max(facts, key=lambda fact: first[fact.id][1])
    (answer, named), label = first[fact.id], fact.label
    return f"{fact.id}: {fact.names[answer]} instead of {label} ({named} of {len(fact.right)})" if named > 1 else ""


def conclude(findings: Items) -> list[str]:
    sentences = ["No two models are wrong on the same fact."]
    if findings.shared_errors:
        whole, clearest, *others = findings.shared_errors
        sentences = [f"Where two models are both wrong, they give the same wrong answer in {_cases(whole, '')}."]
        if others and clearest["same"].p_value < LEVEL:
            sentences.append(f"The excess is clearest in {clearest['relation']}: {_cases(clearest, 'adjusted ')}.")
    for row in findings.labels_to_check[:1]:
        models = f"{row['models for other']} of {row['models']} models say {row['other']}"
        sentences.append(f"Most worth a look: {row['fact']}, labelled {row['label']}: {models}.")
    return sentences


def _cases(row: Row, adjusted: str) -> str:
    same, expected = row["same"], percent(row["expected"])
    excess = "" if same.p_value < LEVEL else "no significant excess, "
    values = f"{percent(same.value)} of cases, {expected} expected by chance"
    return f"{values} ({excess}{adjusted}{p_in_words(same.p_value)})"


def tables(findings: Items) -> list[Table]:
    models = [(name, accuracy.n, accuracy) for name, accuracy in findings.accuracy.items()]
    notes = [f"{findings.left_out} facts that not all models scored do not count in the accuracy on other facts"]
    chance = [
        "pairs: of models that are both wrong on a fact; same: share of these that give the same wrong answer",
        "expected: the same with each model's wrong answers permuted among the facts that it has wrong",
        "p: permutation test of same against expected, for single relations adjusted (Holm)",
    ]
    columns = ("fact", "label", "other", "models for other", "models", "evidence")
    labels = [{name: row[name] for name in columns} for row in findings.labels_to_check[: findings.listed]]
    order = ["models for other: how many name it first, perhaps by a shared error; sorted by the evidence for it"]
    valid = [row for row in findings.facts if not np.isnan(row["discrimination"].value)]
    negative = [row for row in valid if row["discrimination"].value < 0]
    negative.sort(key=lambda row: row["discrimination"].value)
    separation = [
        "difficulty: share of the models that are wrong",
        "discrimination: point-biserial correlation over models of being right with the accuracy on the other facts",
        f"negative for {len(negative):,} of {len(valid):,} facts; unknown for {len(findings.facts) - len(valid):,}, "
        "which all models have right, or wrong, or fewer than three scored",
    ]
    shown, formats = ("fact", "label", "difficulty", "discrimination"), {"difficulty": ".1%"}
    return [
        Table.of(models, "models", notes[: findings.left_out], columns=("model", "facts", "accuracy")),
        Table.of(findings.shared_errors, "shared errors", chance, columns=SHARED, formats={"expected": ".1%"}),
        Table.of(labels, "labels worth a look", order, columns=columns, hidden=("evidence",)),
        Table.of(negative[: findings.listed], "negative discrimination", separation, columns=shown, formats=formats),
    ]


def files(findings: Items) -> dict[str, Table]:
    columns = ("fact", "relation", "label", "models", "difficulty", "other", "models for other", "evidence")
    rows = [(*map(row.get, columns), row["discrimination"].value, *row["right"]) for row in findings.facts]
    return {"items-facts": Table((*columns, "discrimination", *findings.accuracy), tuple(rows), "facts")}


# --- evidence and shared errors


Ints = npt.NDArray[np.integer[Any]]
Mask = npt.NDArray[np.bool_]

STEPS = 16
"""Steps of a permutation; after n steps, an answer can be at any of 2ⁿ items."""


def rest_accuracy(right: Floats, common: Mask) -> Floats:
    """Return the accuracy of each model on the common items other than each item, shape (models, items).

    :param right: share of right answers, shape (models, items), NaN where a model was not evaluated.
    :param common: the items on which all models were evaluated, shape (items). If there is no other, the result is NaN.
    """
    filled = np.where(common, right, 0.0)
    others = common.sum() - common
    return np.where(others > 0, (filled.sum(axis=1, keepdims=True) - filled) / np.maximum(others, 1), np.nan)


def label_evidence(right: Mask, wrong: Ints, accuracy: Floats, sizes: Ints) -> Floats:
    """Return the evidence for each model's wrong answer against the label, in items of one answer space.

    It is the logarithm of a likelihood ratio. If the label is right, a wrong answer is one of the model's wrong answers
    to other items. If the other answer is right, a model names it as often as it is right on other items. The ratios
    are multiplied as if models erred independently. They do not: the evidence orders labels and proves nothing.

    :param right: whether each model is right, shape (models, items).
    :param wrong: number of each model's wrong answer, shape (models, items); −1 where it has none.
    :param accuracy: of each model on other items, above 0 and below 1, shape (models, items).
    :param sizes: number of wrong candidates of each item, at least 1, shape (items).
    :returns: shape (models, items); −∞ where there is no wrong answer.
    """
    models, items = np.nonzero(wrong >= 0)
    answers = wrong[models, items]
    counts = np.zeros((len(wrong), answers.max(initial=0) + 1))
    np.add.at(counts, (models, answers), 1)
    same = wrong[:, items] == answers
    # Shares of the wrong answers to other items, with one more answer for every candidate.
    of_model = counts[models, answers] / (counts[models].sum(axis=1) - 1 + sizes[items])
    wrong_here = (wrong[:, items] >= 0).sum(axis=0)
    of_all = (counts[:, answers].sum(axis=0) - same.sum(axis=0) + 1) / (counts.sum() - wrong_here + sizes[items])
    odds = accuracy / (1 - accuracy)
    gain = np.zeros(wrong.shape)
    gain[models, items] = np.log1p(odds[models, items] * 2 / (of_model + of_all))
    loss = np.where(right, np.minimum(0.0, -np.log(odds * sizes)), np.where(wrong >= 0, np.log1p(-accuracy), 0.0))
    evidence = np.full(wrong.shape, -np.inf)
    evidence[models, items] = (loss.sum(axis=0) - np.log(sizes))[items] + (same * gain[:, items]).sum(axis=0)
    return evidence


def count_shared_errors(wrong: Ints, right: Ints, permutations: int, draw: np.random.Generator) -> Ints:
    """Count the pairs of models that give the same wrong answer to the same item, as observed and in permutations.

    A permutation exchanges the wrong answers of each model among the items that it has wrong. It never gives an item an
    answer that is right there: no model can err so, and chance agreement would seem too rare. Observed and permuted
    arrangements are all as many symmetric random steps from a hidden one, so they are exchangeable, and the rank of the
    observed count is an exact p value (Besag and Clifford, "Generalized Monte Carlo significance tests", 1989).

    :param wrong: number of each model's wrong answer, shape (models, items); −1 where it has none.
    :param right: numbers of the right answers of each item, shape (items, most right answers), padded with −1.
    :returns: the observed count, followed by those of the permutations, shape (1 + permutations).
    """
    models, items = np.nonzero(wrong >= 0)
    kind = np.int16 if max(wrong.max(initial=0), right.max(initial=0)) < 2**15 else np.int32  # smaller is faster
    observed: Ints = wrong[models, items, np.newaxis].astype(kind)
    right = right[items].astype(kind)
    steps = [_random_pairs(models, draw) for _ in range(STEPS)]
    hidden = observed.copy()
    for pairs in reversed(steps):
        _exchange(hidden, pairs, right, draw)
    permuted = np.repeat(hidden, permutations, axis=1)
    for pairs in steps:
        _exchange(permuted, pairs, right, draw)
    answers = np.hstack([observed, permuted])
    places = np.full(wrong.shape, -1)
    places[models, items] = np.arange(len(models))
    same = np.zeros(1 + permutations, dtype=np.int64)
    for first, second in combinations(places, 2):
        both_wrong = (first >= 0) & (second >= 0)
        same += np.sum(answers[first[both_wrong]] == answers[second[both_wrong]], axis=0)
    return same


def _random_pairs(models: Ints, draw: np.random.Generator) -> tuple[Ints, Ints]:
    """Draw disjoint pairs of answers, each of one model. :param models: of each answer."""
    order, start = np.lexsort([draw.random(len(models)), models]), int(draw.integers(2))
    first, second = order[start:-1:2], order[start + 1 :: 2]
    of_one_model = models[first] == models[second]
    return first[of_one_model], second[of_one_model]


def _exchange(answers: Ints, pairs: tuple[Ints, Ints], right: Ints, draw: np.random.Generator) -> None:
    """Exchange the answers of each pair with a chance of 1/2 if both stay wrong.

    :param answers: one arrangement in each column. :param right: right answers to the item of each row.
    """
    at_first, at_second = pairs
    first, second = answers[at_first], answers[at_second]
    moves = draw.integers(2, size=first.shape, dtype=bool)
    for column in right.T[:, :, np.newaxis]:
        moves &= (second != column[at_first]) & (first != column[at_second])
    change = (first ^ second) * moves
    answers[at_first] = first ^ change
    answers[at_second] = second ^ change
