"""Conclusions of all studies of reasoning, from arguments and altered texts (:mod:`fathom.data.prompts.alterations`).

The gain of an item is the value of its whole text less that of its *best* altered text. So no mixture of shortcuts, one
of which fits some items and another the rest, has a mean gain above zero. The value is 1 / rank, or the credit of a
choice, as a mean over pairs of pseudowords, and of an altered text that of its best version and order of sentences.
docs/methods/reasoning.md says what a conclusion needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fathom.data.prompts.alterations import (
    ANOTHER_SECOND,
    COUNTERFACTUAL,
    NEEDED,
    OF_MEMORY,
    OF_TEXT,
    PLAIN,
    REMEMBERS,
    SECOND_REVERSED,
    WHOLE,
    needed,
)
from fathom.data.prompts.ontology import ENOUGH_ITEMS
from fathom.results.claims import NO_DIFFERENCE, UNDETERMINED, Claim, Contrast, Decision, decide
from fathom.results.estimates import Estimate, contrast, difference, mean, recipe
from fathom.results.rows import Floats, Rows, grouped
from fathom.results.samples import Sample
from fathom.results.tables import Table
from fathom.studies.reasoning.shortcuts import Place

MOST_UNANSWERED = 0.2
"""Largest share of items without an answer."""
_WHY_LACKING = {ANOTHER_SECOND: "as no other item has an unrelated answer", SECOND_REVERSED: "as both roles have it"}
_ITEMS = "item within rule"
_GAIN, _MORE, _BEYOND = "gain", "gain over unremembered items", "gain over untrained twins"
_NOTES = (
    "gain: 1 / rank of the answer (share of right choices) for the whole text, less that of the item's best altered "
    f"text; {REMEMBERS}: for the items whose premise 1 is remembered",
    "shortcuts: items whose premise 1 a shortcut guesses, which are excluded; detectable: the smallest true gain found "
    "in 80 % of cases",
    "significant: every contrast is above 0, by Holm over all conclusions of the table; p and interval of the gain are "
    "of this family",
)

Values = Mapping[str, Mapping[str, float]]
"""By text and item; NaN without an answer."""


class Evidence(NamedTuple):
    """What a conclusion rests on.

    :param values: of the model, *twins* of its untrained twins.
    :param memory: mean 1 / rank of premise 1 of each item, or share of right choices; None if memory does not matter.
    """

    model: str
    prompt: str
    rule: str
    conclusion: str
    depth: int
    values: Values
    twins: Sequence[Values]
    memory: Mapping[str, float] | None
    solved: Mapping[str, frozenset[str]]
    made: str

    @property
    def rule_and_depth(self) -> str:
        """Return "rdfs9", or "rdfs9, depth 2" for several facts."""
        return self.rule if self.depth == 1 else f"{self.rule}, depth {self.depth}"


class Conclusion(NamedTuple):
    """A conclusion with its contrasts.

    :param items: number that the verdict rests on; *excluded* of those that a shortcut solves.
    :param over: mean gain over each altered text.
    """

    evidence: Evidence
    items: int
    excluded: int
    over: Mapping[str, Estimate]
    decision: Decision

    @property
    def about(self) -> dict[str, str]:
        """What it is on, as columns of a table."""
        evidence = self.evidence
        return {
            "model": evidence.model,
            "prompt": evidence.prompt,
            "rule": evidence.rule_and_depth,
            "conclusion": evidence.conclusion,
        }


def values_by_place(answers: Iterable[tuple[Mapping[str, str], float]]) -> dict[Place, Values]:
    """Return the mean over pairs for each place, text and item, of a text's best order; NaN if one has no answer.

    :param answers: groups of queries, of which those without a conclusion are skipped, and the value of each.
    """
    found: dict[Place, dict[str, dict[str, dict[str, list[float]]]]] = {}
    for groups, value in answers:
        if "conclusion" in groups:
            place = groups["conclusion"], groups["rule"], groups.get("depth", "1"), groups.get("form", PLAIN)
            by_item = found.setdefault(place, {}).setdefault(groups["given"], {})
            by_item.setdefault(groups["item"], {}).setdefault(groups.get("order", "0"), []).append(value)
    return {
        place: {text: {item: _best_order(orders) for item, orders in items.items()} for text, items in texts.items()}
        for place, texts in found.items()
    }


def _best_order(values: Mapping[str, Sequence[float]]) -> float:
    """Return the highest mean over pairs, NaN if an order lacks an answer. :param values: by order of the sentences."""
    means = [sum(over_pairs) / len(over_pairs) for over_pairs in values.values()]
    return math.nan if any(map(math.isnan, means)) else max(means)


def values_of_run(rows: Rows, scores: Floats) -> dict[Place, Values]:
    """Return the values of a run. :param scores: of its predictions."""
    values = np.where(rows.scored, scores, np.nan)
    return values_by_place(zip((rows.groups[query] for query in rows.query.tolist()), values.tolist(), strict=True))


def recipe_of(rows: Rows) -> str:
    """Return the recipe of a run's values."""
    scoring = rows.scorings[0]
    return recipe(rows, "accuracy" if rows.declared.scoring(scoring)["unit"] == "credit" else "MRR", scoring)


def evidence_of(
    model: str,
    of_model: Mapping[Place, Values],
    twins: Sequence[Mapping[Place, Values]],
    memory: Mapping[str, Mapping[str, float]],
    solved: Mapping[Place, Mapping[str, frozenset[str]]],
    made: str,
) -> list[Evidence]:
    """Return the evidence for each conclusion on a model.

    :param of_model: values of the model, *twins* of its untrained twins.
    :param memory: of premise 1 of each item, by rule.
    :param solved: items by place and shortcut.
    """
    return [
        Evidence(
            model,
            form,
            rule,
            conclusion,
            int(depth),
            values,
            [twin.get((conclusion, rule, depth, form), {}) for twin in twins],
            memory.get(rule, {}) if conclusion == REMEMBERS else None,
            solved.get((conclusion, rule, depth, form), {}),
            made,
        )
        for (conclusion, rule, depth, form), values in of_model.items()
        if conclusion in NEEDED
    ]


def evidence_of_runs(
    model: str,
    runs: Sequence[Rows],
    memory: Mapping[str, Mapping[str, float]],
    solved: Mapping[Place, Mapping[str, frozenset[str]]],
    scores: Callable[[Rows], Floats] = Rows.reciprocal_or_credit,
) -> list[Evidence]:
    """Return the evidence of a model's run and of its untrained twins' runs. :param scores: of a run's predictions."""
    of_model, *twins = (values_of_run(rows, scores(rows)) for rows in runs)
    return evidence_of(model, of_model, twins, memory, solved, recipe_of(runs[0]))


def counterfactuals(model: str, values: Mapping[Place, Values], made: str) -> list[dict[str, Any]]:
    """Return which answer a model gives where premise 1 names another item's answer, for each rule.

    :param values: whether each answer is first.
    :return: "text": share of items for which the stated answer is first; "memory": for which the true one is.
    """
    found = []
    for (conclusion, rule, *_), texts in values.items():
        if conclusion == COUNTERFACTUAL and OF_TEXT in texts:
            both = [item for item in texts[OF_TEXT] if item in texts.get(OF_MEMORY, ())]
            pairs = np.array([(texts[OF_TEXT][item], texts[OF_MEMORY][item]) for item in both]).reshape(-1, 2)
            pairs = pairs[~np.isnan(pairs).any(axis=1)]
            text, memory = (mean(column, Sample(_ITEMS), f"{made}|rule:{rule}|{conclusion}") for column in pairs.T)
            found.append({"model": model, "rule": rule, "items": len(pairs), "text": text, "memory": memory})
    return found


def is_remembered(value: float) -> bool:
    """Return whether a premise is first, or chosen, more often than not. :param value: mean 1 / rank or credit."""
    return value > 0.5


def judge(evidence: Sequence[Evidence]) -> list[Conclusion]:
    """Decide on all conclusions as one family."""
    weighed = dict(enumerate(map(_Weighed, evidence)))
    decisions = decide({number: weighing.claim() for number, weighing in weighed.items()})
    return [
        Conclusion(weighing.evidence, len(weighing.items), weighing.excluded, weighing.over(), decisions[number])
        for number, weighing in weighed.items()
    ]


class _Weighed:
    """The gains of one conclusion's items."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence, values = evidence, evidence.values
        self.altered = needed(evidence.conclusion, evidence.rule, evidence.depth)
        self.every = list(values.get(WHOLE, ()))
        texts = (WHOLE, *self.altered)
        whole = [item for item in self.every if all(item in values.get(text, ()) for text in texts)]
        lacking = {text: sum(item not in values.get(text, ()) for item in self.every) for text in texts}
        self._lacking = {text: count for text, count in lacking.items() if count}
        answered = [item for item in whole if not np.isnan([values[text][item] for text in texts]).any()]
        self.complete, self.unanswered = len(whole), len(whole) - len(answered)
        remembered = [item for item in answered if evidence.memory is None or item in evidence.memory]
        self.not_asked, answered = len(answered) - len(remembered), remembered
        solved = frozenset().union(*evidence.solved.values())
        self.items = [item for item in answered if item not in solved]
        self.excluded = len(answered) - len(self.items)
        self.gains = self._gains(values)
        self.remembered = [is_remembered((evidence.memory or {}).get(item, 0.0)) for item in self.items]

    def _gains(self, values: Values) -> Floats:
        """Return whole − best altered text of each item; NaN where untrained twins lack an answer."""
        columns = [[values.get(text, {}).get(item, np.nan) for item in self.items] for text in (WHOLE, *self.altered)]
        answers = np.array(columns, dtype=float).reshape(len(columns), len(self.items))
        return np.asarray(answers[0] - answers[1:].max(axis=0))

    def over(self) -> dict[str, Estimate]:
        """Return the mean gain over each altered text, of all items that no shortcut solves."""
        values, over = self.evidence.values, {}
        for text in self.altered if self.items else ():
            gains = [values[WHOLE][item] - values[text][item] for item in self.items]
            over[text] = self._mean(np.array(gains), f"over {text}")
        return over

    def claim(self) -> Claim:
        """Claim that the gain is above zero, and that nothing is missing."""
        evidence = self.evidence
        name = " ".join((evidence.model, evidence.prompt, evidence.rule_and_depth, evidence.conclusion))
        objection = ""
        if self.unanswered > MOST_UNANSWERED * self.complete:
            objection = f"{self.unanswered} of {self.complete} items lack an answer"
        elif self.not_asked > MOST_UNANSWERED * self.complete:
            objection = (
                f"whether the model remembers premise 1 is unknown for {self.not_asked} of {self.complete} items"
            )
        if missing := self._missing():
            return Claim(name, (Contrast(_GAIN, None, 1, missing),), objection=objection)
        of = np.ones(len(self.items), dtype=bool) if evidence.memory is None else np.array(self.remembered)
        contrasts = [Contrast(_GAIN, self._mean(self.gains[of], _GAIN), 1, refutes=False)]
        if evidence.memory is not None:
            more = contrast(self.gains, of, Sample(_ITEMS), self._recipe(_MORE), limits=(-1.0, 1.0))
            contrasts.append(Contrast(_MORE, more.shown("+.3f"), 1, refutes=False))
        if evidence.twins:
            twins = np.mean([self._gains(twin) for twin in evidence.twins], axis=0)
            both = of & ~np.isnan(twins)
            beyond = self._mean((self.gains - twins)[both], _BEYOND, 2.0)
            contrasts.append(Contrast(_BEYOND, beyond, 1, refutes=False))
        return Claim(name, tuple(contrasts), objection=objection)

    def _missing(self) -> str:
        """Return why nothing can be concluded, with the number of items."""
        if len(self.items) < ENOUGH_ITEMS:
            counts = {
                "are solved by one": self.excluded,
                "have no answer": self.unanswered,
                "have a premise 1 whose memory is unknown": self.not_asked,
            }
            counts |= {
                f"lack '{text}', {_WHY_LACKING.get(text, 'which is not evaluated')}": count
                for text, count in self._lacking.items()
            }
            why = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
            few = f"{len(self.items)} items that no shortcut solves, {ENOUGH_ITEMS} are needed"
            return f"{few} (of {len(self.every)}: {why})" if why else few
        if self.evidence.memory is None:
            return ""
        remembered = sum(self.remembered)
        if min(remembered, len(self.items) - remembered) < ENOUGH_ITEMS // 3:
            share = f"{remembered} of {len(self.items)}"
            return f"premise 1 of {share} items is remembered: {ENOUGH_ITEMS // 3} of each kind are needed"
        return ""

    def _mean(self, values: Floats, name: str, limit: float = 1.0) -> Estimate:
        return difference(
            values, np.zeros(len(values)), Sample(_ITEMS), self._recipe(name), (-limit, limit), form="+.3f"
        )

    def _recipe(self, name: str) -> str:
        evidence = self.evidence
        return f"{evidence.made}|rule:{evidence.rule_and_depth}|{evidence.conclusion}|{name}"


# --- tables


def summarise(conclusions: Sequence[Conclusion]) -> list[str]:
    """Return for how many prompts and rules each model reaches each conclusion."""
    by_model = grouped(((line.evidence.model, line.evidence.conclusion), line) for line in conclusions)
    sentences = []
    for (model, conclusion), of_conclusion in by_model.items():
        holds = [
            f"{line.evidence.prompt} {line.evidence.rule_and_depth}" for line in of_conclusion if line.decision.holds
        ]
        names = f" ({', '.join(holds)})" if holds else ""
        unknown = sum(line.decision.word == UNDETERMINED for line in of_conclusion)
        rest = f"; {unknown} cannot be determined" if unknown else ""
        what = f"{model} {conclusion}: significant for {len(holds)} of {len(of_conclusion)} prompts and rules"
        sentences.append(f"{what}{names}{rest}.")
    return sentences


def conclusion_tables(
    conclusions: Sequence[Conclusion], against: Sequence[Mapping[str, Any]] = (), notes: Sequence[str] = ()
) -> list[Table]:
    """Return the verdicts, the gains over each altered text, the items that each shortcut solves, and the answers to
    counterfactual premises, without empty tables."""
    rows = []
    for line in conclusions:
        estimates = {contrast.name: contrast.estimate for contrast in line.decision.claim.contrasts}
        smallest = line.decision.smallest if line.decision.word == NO_DIFFERENCE else None
        gain = estimates.get(_GAIN) if line.decision.p_value is None else line.decision.estimate
        rows.append(
            line.about
            | {"verdict": line.decision.word, "because": line.decision.reason or None, "items": line.items}
            | {"shortcuts": line.excluded, "gain": gain, "detectable": smallest}
            | {_MORE: estimates.get(_MORE), _BEYOND: estimates.get(_BEYOND)}
        )
    over = [line.about | {"over": text, "gain": gain} for line in conclusions for text, gain in line.over.items()]
    solved = {tuple(line.about.values())[1:]: line.evidence.solved for line in conclusions}
    alone = [
        {"rule": rule, "prompt": prompt, "conclusion": conclusion}
        | {name: len(items) for name, items in by_shortcut.items()}
        for (prompt, rule, conclusion), by_shortcut in solved.items()
    ]
    verdicts = Table.of(rows, "does it reason?", (*_NOTES, *notes), main="gain", formats={"detectable": ".3f"})
    tables = [
        verdicts.without_empty("detectable", _MORE, _BEYOND) if rows else verdicts,
        Table.of(over, "gain over each altered text", ["mean over the items of the verdict"], main="gain"),
        Table.of(alone, "items that shortcuts solve", ["without a model: docs/methods/reasoning.md"]),
        Table.of(
            against,
            "counterfactual premises",
            ["text: share of items for which the stated answer is first; memory: the answer that it replaces"],
            inline=True,
        ),
    ]
    return [table for table in tables if table.rows]
