"""A run task by task: R@K, MRR and MRRₐ for each relation, template and scoring, next to the frequency baseline.

For runs of the ontology probe (section 4.1 and appendix C of Wu et al. 2023), alone and side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import TypeAdapter, ValidationError

from fathom.base.errors import BadInput
from fathom.base.reading import file_exists, json_file
from fathom.data.hierarchy import Above, finest
from fathom.data.templates import ANSWER, SUBJECT, capitalized
from fathom.results.baselines import BaselineComparison, above_chance, verdict_text
from fathom.results.claims import UNDETERMINED, Claim, Decision
from fathom.results.estimates import NOTHING, Estimate, combined, difference, mean, measure, point_estimate, recipe
from fathom.results.metrics.ranking import (
    ByOthers,
    by_frequency,
    by_frequency_of_others,
    hits_at_k,
    reciprocal_mean_rank,
    reciprocal_rank,
)
from fathom.results.metrics.table import Metric, hits, metric
from fathom.results.rows import Floats, Ints, Rows, grouped
from fathom.results.samples import Sample, sample_of_origins
from fathom.results.tables import Cell, Table
from fathom.store.folder import RunFolder

CUTS = (1, 5, 10, 25, 50)
RECALLS = tuple(f"R@{k}" for k in CUTS)
MEASURED = (*RECALLS, "MRR", "MRRₐ")
"""Of the paper."""
FINEST, REMEMBERED = "MRR finest", "remembered"
OF_MEMORY = (*MEASURED, FINEST, REMEMBERED)
FORMATS = dict.fromkeys((*RECALLS, REMEMBERED), ".1%") | dict.fromkeys(("MRR", "MRRₐ", FINEST), ".3f")
EACH_ITEM = "(a sentence for each item)"
NO_RANKS = "the ranks of all right answers were not recorded"
LEGEND = (
    "R@K: a right answer is among the first K (ties: expected); MRR: of the best right answer, low and high at "
    "95 %; MRRₐ: 1 / mean unfiltered rank of all right answers"
)
OF_THE_FINEST = (
    "MRR finest: of the finest right answer, coarser ones excluded, as the root is right of everything; remembered: "
    "items where it ranks first"
)
_BY = (
    "frequency: the baseline, the most frequent answers of the training items, or of a task's other items if all items "
    "are evaluated; verdict: above it if the paired difference in MRR finest is significant, by Holm over all lines; "
    "n: items with a rank; intervals of all numbers: metrics.json"
)


class Setting(NamedTuple):
    """One way to evaluate one model on one task.

    :param prompt: the template, or the initial one of learnt templates.
    :param masks: several or one, "" for statements.
    :param pooling: mean, max, first, or a statement's scoring.
    :param loss: of learnt templates, else ""; *seed* likewise, else None.
    """

    task: str
    model: str
    soft: bool
    prompt: str
    masks: str
    pooling: str
    loss: str
    seed: int | None


class TaskLine(NamedTuple):
    """The numbers of one setting.

    :param numbers: by the names of :data:`OF_MEMORY`; empty if nothing was scored.
    :param places: of its predictions among the rows, scored or not.
    """

    setting: Setting
    numbers: Mapping[str, Estimate]
    items: int
    unscored: int
    run: RunFolder
    template: int
    scoring: str
    rows: Rows
    places: Ints

    @property
    def mrr(self) -> float:
        """MRR; 0 where nothing was scored."""
        return self.numbers["MRR"].value if self.numbers else 0.0

    @property
    def scored_places(self) -> Ints:
        """Of its scored predictions among the rows."""
        return self.places[self.rows.scored[self.places]]


def lines_of(run: RunFolder, rows: Rows, model: str) -> list[TaskLine]:
    """Return a line for each task, template and scoring, in order of appearance."""
    keys = enumerate(zip(rows.relation_of(), rows.template.tolist(), rows.scoring, strict=True))
    lines = []
    for (task, template, scoring), of_setting in grouped((key, place) for place, key in keys).items():
        places = np.array(of_setting)
        scored = places[rows.scored[places]]
        setting, unscored = _setting(rows, model, task, scoring, places), len(places) - len(scored)
        each = ((name, measure(rows, entry, scored)) for name, entry in metrics().items())
        numbers = {name: number.shown(FORMATS[name]) for name, number in each if number is not None}
        lines.append(TaskLine(setting, numbers, len(scored), unscored, run, template, scoring, rows, places))
    return lines


def metrics() -> dict[str, Metric]:
    """Return the metrics of :data:`OF_MEMORY` by name."""
    others = map(metric, ("mrr", "mrr_all", "mrr_finest", "remembered"))
    return dict(zip(OF_MEMORY, (*map(hits, CUTS), *others), strict=True))


def over(
    name: str, numbers: Sequence[Estimate], values: Sequence[Sequence[float] | Floats], sample: Sample
) -> Estimate:
    """Return the mean of several lines' numbers, each with the same weight.

    :param values: of each number, which is their mean.
    :param sample: how all values were drawn, end to end.
    """
    weights = np.concatenate([np.full(len(column), 1 / len(column)) for column in values])
    recipe = combined(name, [number.recipe for number in numbers], " and ")
    return mean(np.concatenate(values), sample, recipe, weights=weights, form=FORMATS.get(name, ".3f"))


def sample_items(asked: Sequence[tuple[Rows, int]]) -> Sample:
    """Return how items were drawn: by the user's cluster key, else by item, of several tasks within each.

    :param asked: run and query of each value; queries may be repeated.
    """
    if any(rows.cluster for rows, _ in asked):
        return sample_of_origins([rows.origin(query) for rows, query in asked])
    items = [rows.query_ids[query] for rows, query in asked]
    tasks = [rows.relations[query] for rows, query in asked]
    return Sample("item within task", items, tasks) if len(set(tasks)) > 1 else Sample("item", items)


def _setting(rows: Rows, model: str, task: str, scoring: str, places: Ints) -> Setting:
    options, about = rows.identity.get("options", {}), rows.declared.scoring(scoring)
    soft = bool(options.get("soft"))
    return Setting(
        task,
        model,
        soft,
        f"learnt from {options['soft_init']}" if soft else _wording(rows, places),
        about.get("masks", ""),
        about.get("pooling", scoring),
        options["loss"] if soft else "",
        options["seed"] if soft else None,
    )


def _wording(rows: Rows, places: Ints) -> str:
    """Return the template of the prompts, if they share one."""
    templates = {
        str(row["prompt"]).replace(capitalized(row["subject"]), SUBJECT, 1).replace(row["subject"], SUBJECT, 1)
        for row in rows.table.select(["prompt", "subject"]).take(places).to_pylist()
        if row["prompt"] and row["subject"]
    }
    [text] = templates if len(templates) == 1 else [EACH_ITEM]
    return text if SUBJECT in text and ANSWER in text else EACH_ITEM


class ByFrequency(NamedTuple):
    """The frequency baseline of one task.

    :param reciprocal: 1 / rank of each item's finest right answer, by the id of its query.
    """

    numbers: dict[str, Estimate]
    items: int
    reciprocal: Mapping[str, float]

    def claim(self, line: TaskLine) -> Claim | None:
        """Declare that the MRR of a line's finest answers is above the baseline's; None where nothing was scored."""
        places = line.scored_places
        asked = [(line.rows, query) for query in line.rows.query[places].tolist()] if line.numbers else []
        return self.claim_of_items(line.setting.task, asked, line.rows.reciprocal_of_finest()[places])

    def claim_of_items(self, task: str, asked: Sequence[tuple[Rows, int]], reciprocal: Floats) -> Claim | None:
        """Declare it of 1 / rank of items, shape (n).

        :param asked: run and query of each item.
        """
        ids = [rows.query_ids[query] for rows, query in asked]
        if not ids or not all(id_ in self.reciprocal for id_ in ids):
            return None
        others = [self.reciprocal[id_] for id_ in ids]
        further = difference(reciprocal, others, sample_items(asked), f"{FINEST} − frequency")
        return above_chance(task, [BaselineComparison("frequency", float(np.mean(others)), further)])


def baselines_of(run: RunFolder, rows: Rows, seed: int = 0) -> dict[str, ByFrequency]:
    """Answer every item of a task with the most frequent right answers.

    Those of the training items if these are not evaluated, then the others at random; else those of the task's other
    items (:func:`by_frequency_of_others`).

    :returns: by task, if the run records the answers of training items or of all items.
    """
    artifacts, each = run.path / "artifacts", {}
    training: _Training = _recorded(artifacts / "training.json", _Training, '[["right answer", …], …]')
    items: _Items = _recorded(artifacts / "items.json", _Items, '[["subject", ["right answer", …]], …]')
    above = hierarchy_of(run)
    for task, queries in rows.by_relation().items():
        space = rows.spaces[queries[0]]
        if space is None or task not in training | items:
            continue
        place = {id_: at for at, id_ in enumerate(rows.candidates[space][0])}
        golds = {query: [place[id_] for id_ in rows.gold[query] if id_ in place] for query in queries}
        ranked = [query for query in queries if golds[query]]
        counted = _Counted(training.get(task), items.get(task, []), place, seed)
        of_finest = counted.of_finest(above.get(space, {}))
        subjects = [rows.subjects[query] or rows.query_ids[query] for query in ranked]
        right = [golds[query] for query in ranked]
        finest = [
            [place[rows.gold[query][at]] for at in rows.at_distance(query) if rows.gold[query][at] in place] or gold[:1]
            for query, gold in zip(ranked, right, strict=True)
        ]
        best, fine = counted.ranks(subjects, right), of_finest.ranks(subjects, finest, right)
        each[task] = _by_frequency(rows, ranked, best, fine, f"answers:{counted.source()}|relation:{task}")
    return each


class _Counted(NamedTuple):
    """Right answers by whose frequency the baseline answers.

    :param training: of the training items, None if these are evaluated too.
    :param items: subject and right answers of all items.
    :param seed: of the order of unseen answers.
    """

    training: list[list[str]] | None
    items: list[tuple[str, list[str]]]
    place: Mapping[str, int]
    seed: int

    def of_finest(self, above: Above) -> _Counted:
        """Return the same with the finest right answers alone; without a hierarchy all are as fine."""
        if not above:
            return self

        def fine(golds: list[str]) -> list[str]:
            return finest(golds, above)

        training = None if self.training is None else list(map(fine, self.training))
        return self._replace(training=training, items=[(subject, fine(golds)) for subject, golds in self.items])

    def source(self) -> str:
        if self.training is None:
            return "other items' by frequency"
        return f"training items' by frequency, others at random {self.seed}"

    def ranks(
        self, subjects: Sequence[str], right: Sequence[Sequence[int]], excluded: Sequence[Sequence[int]] = ()
    ) -> ByOthers:
        """Rank right answers by frequency. :param excluded: of each item the answers to exclude."""
        if self.training is None:
            every = [(subject, [self.place[id_] for id_ in ids if id_ in self.place]) for subject, ids in self.items]
            pairs = list(zip(subjects, right, strict=True))
            return by_frequency_of_others(every, pairs, len(self.place), excluded)
        order = by_frequency((gold for answers in self.training for gold in answers), self.place, self.seed)
        rank = {self.place[id_]: float(number) for number, id_ in enumerate(order, start=1)}
        ranks = [[rank[gold] for gold in golds] for golds in right]
        first = np.array([min(of_item) for of_item in ranks])
        for at, others in enumerate(excluded):
            first[at] -= sum(rank[answer] < first[at] for answer in others)
        return ByOthers(first, first, ranks)


def _by_frequency(rows: Rows, queries: Sequence[int], ranked: ByOthers, finest: ByOthers, made: str) -> ByFrequency:
    """:param queries: of the ranks. :param finest: of the finest right answers. :param made: end of the recipe."""
    first, last = ranked.optimistic, ranked.pessimistic
    best, of_finest = (reciprocal_rank(side.optimistic, side.pessimistic) for side in (ranked, finest))
    remembered = hits_at_k(finest.optimistic, finest.pessimistic, 1)
    of_all = reciprocal_mean_rank(ranked.ranks)
    values = [*(hits_at_k(first, last, k) for k in CUTS), best, of_all, of_finest, remembered]
    data = recipe(rows, "", "", ()).split("|")[1]
    sample = sample_items([(rows, query) for query in queries]) if rows.cluster else Sample("item")
    named = zip(OF_MEMORY, values, strict=True)
    numbers = {name: mean(of_item, sample, f"{name}|{data}|{made}", form=FORMATS[name]) for name, of_item in named}
    reciprocal = zip((rows.query_ids[query] for query in queries), of_finest.tolist(), strict=True)
    return ByFrequency(numbers, len(best), dict(reciprocal))


def hierarchy_of(run: RunFolder) -> dict[str, Above]:
    """Return all superordinates by candidate set and name; {} if the run records none."""
    expected = '{"name": ["superordinate", …]}'
    recorded: dict[str, Above] = _recorded(run.path / "artifacts" / "hierarchy.json", _Hierarchies, expected)
    return recorded


_Hierarchies = dict[str, dict[str, list[str]]]
_Training = dict[str, list[list[str]]]
_Items = dict[str, list[tuple[str, list[str]]]]


def _recorded(file: Path, kind: Any, expected: str) -> Any:
    """Read right answers by task; {} without the file. :raises BadInput: it is damaged."""
    content = json_file(file) if file_exists(file) else {}
    try:
        return TypeAdapter(kind).validate_python(content)
    except ValidationError as error:
        raise BadInput(f'{file}: expected {{"task": {expected}, …}}: make the run anew') from error


def above_in_words(model: str, decisions: Iterable[Decision]) -> str:
    """Return for which tasks a model is above the frequency baseline; "" if none has one."""
    by_task = grouped((decision.claim.name, decision) for decision in decisions)
    above = [task for task, of_task in by_task.items() if any(decision.holds for decision in of_task)]
    unknown = sum(all(decision.word == UNDETERMINED for decision in of_task) for of_task in by_task.values())
    named = f": {', '.join(above)}" if above else ""
    rest = f"; it cannot be determined for {unknown}" if unknown else ""
    number = f"{len(above)} of {len(by_task)} tasks"
    return f"{model} is above the frequency baseline in {number}{named}{rest}." if by_task else ""


class Tasks(NamedTuple):
    """A run task by task. :param claims: that a line is above the frequency baseline, by its place among the lines."""

    lines: list[TaskLine]
    baselines: Mapping[str, ByFrequency]
    claims: Mapping[int, Claim]


def tasks_of(run: RunFolder, rows: Rows) -> Tasks:
    """Return all lines of a run, and what they claim."""
    lines, baselines = lines_of(run, rows, ""), baselines_of(run, rows)
    claims = {
        place: claim
        for place, line in enumerate(lines)
        if (baseline := baselines.get(line.setting.task)) and (claim := baseline.claim(line))
    }
    return Tasks(lines, baselines, claims)


def task_table(tasks: Tasks, decisions: Mapping[int, Decision], notes: Sequence[str]) -> Table:
    """Return a line for each task with the frequency baseline below it, and the verdicts.

    Templates, numbers of masks or poolings are a column if a run has several, with a line for each.
    """
    lines = tasks.lines
    names = list(dict.fromkeys(line.setting.task for line in lines))
    several = {
        "template": len({(line.setting.task, line.template) for line in lines}) > len(names),
        "masks": len({line.setting.masks for line in lines}) > 1,
        "pooling": len({line.setting.pooling for line in lines}) > 1,
    }
    shown = [name for name, there in several.items() if there]
    rows: list[dict[str, Cell | Estimate]] = []
    for task in names:
        for place, line in enumerate(lines):
            if line.setting.task != task:
                continue
            settings = {"template": _template(line), "masks": line.setting.masks, "pooling": line.setting.pooling}
            about = {"task": task, "by": "model"} | {name: settings[name] for name in shown}
            verdict = verdict_text(decisions.get(place))
            counts = {"n": line.items, "unscored": line.unscored, "verdict": verdict}
            rows.append({**about, **measured(line.numbers, OF_MEMORY), **counts})
        if task in tasks.baselines:
            baseline = tasks.baselines[task]
            numbers = measured(baseline.numbers, OF_MEMORY)
            rows.append({"task": task, "by": "frequency", **numbers, "n": baseline.items})
    return Table.of(rows, "Results", (LEGEND, OF_THE_FINEST, _BY, *notes), main="MRR")


def measured(numbers: Mapping[str, Estimate], names: Sequence[str] = MEASURED) -> dict[str, Estimate]:
    """Return the estimates of some names, undefined where there is none."""
    nothing = point_estimate(NO_RANKS if numbers else NOTHING)
    return {name: numbers.get(name, nothing) for name in names}


def _template(line: TaskLine) -> str:
    """Return the template, or the number of the sentence if each item has its own."""
    return line.setting.prompt if line.setting.prompt != EACH_ITEM else f"sentence {line.template + 1} of each item"
