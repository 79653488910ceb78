"""Memory of an ontology in models: runs of the five memorising tasks side by side (section 4.1, appendices B and C
of Wu et al. 2023)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from fathom.base.errors import BadInput, all_of, refuse
from fathom.base.options import FOLDS
from fathom.data.folds import folds_of
from fathom.data.hierarchy import KINDS, RIGHT, Above, kind_of_answer
from fathom.data.prompts.ontology import TASKS
from fathom.results.baselines import verdict_text
from fathom.results.claims import Claim, Decision, decide
from fathom.results.estimates import Estimate, combined, mean
from fathom.results.loading import short_names
from fathom.results.metrics.ranking import by_frequency_of_others, finest_rank, hits_at_k
from fathom.results.rows import Floats, Ints, Rows, grouped
from fathom.results.samples import Sample
from fathom.results.tables import Axes, Cell, Plot, Table
from fathom.results.tasks import (
    EACH_ITEM,
    FORMATS,
    LEGEND,
    MEASURED,
    OF_MEMORY,
    OF_THE_FINEST,
    ByFrequency,
    Setting,
    TaskLine,
    above_in_words,
    baselines_of,
    hierarchy_of,
    lines_of,
    measured,
    metrics,
    over,
    sample_items,
)
from fathom.store.folder import RunFolder
from fathom.studies.options import OntologyStudyOptions

SELECTING = (
    "relations", "split", "subset", "exclude_tails", "tail_tokens", "single_token", "tokens_after_space", "limit",
    "seed",
)  # fmt: skip
"""Options that select items. A limit draws, by seed, from all selected relations."""
SHOWN = 5
EXAMPLES = ("task", "model", "asked", "right", "the five best, ✓ right")
BASELINE = "frequency baseline"
FLATTERS = (
    "the best setting of each model by MRR, chosen on the same items, as in the paper: its verdict, from the paired "
    "difference of its MRR finest, is optimistic (--cross-validate avoids this)"
)
BY_FOLDS = "the best setting of each model by MRR, chosen for each fold of the items on the other folds"
About = tuple[str, str, bool]
"""Task, model, and whether its templates are learnt."""


class SettingsCompared(NamedTuple):
    """Values of one part of a setting, averaged over the settings that share all other parts and have every value.

    :param means: for each value the estimates of :data:`MEASURED`.
    """

    part: str
    means: dict[str, tuple[Estimate, ...]]
    settings: int


class ChosenSettings(NamedTuple):
    """The settings of one model and task, for each fold of the items the best on the other folds.

    :param settings: number of folds that each was chosen for.
    :param numbers: over all folds, by the names of :data:`fathom.results.tasks.OF_MEMORY`.
    :param queries: for each item the run that answered it, and the query.
    :param reciprocal: 1 / rank of each item's finest answer, shape (items).
    """

    settings: Mapping[Setting, int]
    numbers: dict[str, Estimate]
    queries: list[tuple[Rows, int]]
    reciprocal: Floats


@dataclass(frozen=True)
class Ontology:
    """Findings of the study.

    :param baselines: of each task for which a run records the training answers.
    :param by_folds: the best settings by cross-validation; empty without it.
    :param decisions: whether each of the best is above the frequency baseline, as one family.
    """

    lines: list[TaskLine]
    baselines: dict[str, ByFrequency]
    best: dict[About, TaskLine]
    comparisons: list[SettingsCompared]
    examples: list[tuple[str, ...]]
    by_folds: dict[About, ChosenSettings] = field(default_factory=dict)
    decisions: dict[About, Decision] = field(default_factory=dict)

    @property
    def tasks(self) -> list[str]:
        return list(dict.fromkeys(line.setting.task for line in self.lines))


def analyse(runs: Sequence[RunFolder], options: OntologyStudyOptions = OntologyStudyOptions()) -> Ontology:
    """Compare runs by task, model and setting.

    :param runs: of the ontology probe, or of the cloze or the statement probe on the same queries and candidates.
    :raises BadInput: runs that are unfinished, lack full ranks, or differ in items or candidates; a repeated setting.
    """
    seed, folds = options.seed, options.folds
    pairs = zip(runs, short_names(runs), strict=True)
    read: list[_OntologyRun] = all_of(*(partial(_read, *pair, options.cluster) for pair in pairs))
    _check_comparable(read)
    lines = [line for side in read for line in lines_of(side.run, side.rows, side.model)]
    _check_settings(lines)
    if folds is not None and not options.cross_validate:
        raise BadInput(f"--folds {folds} needs --cross-validate")
    scored = grouped((line.setting[:3], line) for line in lines if line.numbers)
    by_folds = {
        about: _choose_by_folds(group, folds or FOLDS, seed)
        for about, group in scored.items()
        if options.cross_validate
    }
    best = {about: max(group, key=lambda line: line.mrr) for about, group in scored.items()}
    baselines: dict[str, ByFrequency] = {}
    for side in read:
        baselines = baselines_of(side.run, side.rows, seed) | baselines
    comparisons = [_comparison(part, lines) for part in ("masks", "pooling", "loss")]  # appendix B
    shown = _examples(read, best, options.examples)
    findings = Ontology(lines, baselines, best, list(filter(None, comparisons)), shown, by_folds)
    return replace(findings, decisions=decide({about: _claim(findings, about) for about in best}))


def _claim(findings: Ontology, about: About) -> Claim | None:
    """Declare that a model's best setting is above the frequency baseline of the task."""
    baseline, by_folds = findings.baselines.get(about[0]), findings.by_folds.get(about)
    if baseline is None:
        return None
    if by_folds is None:
        return baseline.claim(findings.best[about])
    return baseline.claim_of_items(about[0], by_folds.queries, by_folds.reciprocal)


class _OntologyRun(NamedTuple):
    """A run. :param items: for each task, query id → number among the rows."""

    run: RunFolder
    model: str
    rows: Rows
    items: dict[str, dict[str, int]]

    def candidates(self, task: str) -> dict[str, str]:
        """Return the names of the task's candidates by their ids."""
        space = self.rows.spaces[next(iter(self.items[task].values()))]
        ids, names = self.rows.candidates[space] if space is not None else ((), ())
        return dict(zip(ids, names, strict=True))


def _read(run: RunFolder, model: str, cluster: str) -> _OntologyRun:
    """:raises BadInput: it is unfinished, or lacks ranks of gold answers."""
    run.refuse_unfinished()
    rows = Rows(run, with_scores=False, cluster=cluster)
    reciprocal = rows.reciprocal_of_all()[rows.scored]
    if not reciprocal.size:
        raise BadInput(f"{run.path} has no scored item: fathom metrics {run.path} --facts names the reasons")
    if np.isnan(reciprocal).any():
        raise BadInput(
            f"{run.path} lacks the ranks of all right answers: use the ontology probe, or the statement probe without "
            "--max-rank"
        )
    if any("conclusion" in groups for groups in rows.groups):
        raise BadInput(f"{run.path} has arguments of reasoning; expected only tasks such as {', '.join(TASKS)}")
    items = {task: {rows.query_ids[place]: place for place in places} for task, places in rows.by_relation().items()}
    return _OntologyRun(run, model, rows, items)


def _check_comparable(read: Sequence[_OntologyRun]) -> None:
    """:raises BadInput: two runs evaluated a task on other items or among other candidates."""
    faults = []
    first: dict[str, _OntologyRun] = {}
    for side in read:
        for task, items in side.items.items():
            earlier = first.setdefault(task, side)
            both = f"{earlier.run.path} and {side.run.path}"
            if earlier.items[task].keys() != items.keys():
                *flags, last = _differing(earlier, side)
                listed = f"{', '.join(flags)} and {last}" if flags else last
                faults.append(f"{both} evaluated different items of {task}: run both with the same {listed}")
            elif earlier.candidates(task).keys() != side.candidates(task).keys():
                faults.append(f"{both} ranked {task} among different candidates: run both with the same --pool")
    refuse(faults)


def _differing(first: _OntologyRun, second: _OntologyRun) -> list[str]:
    """Return the selecting flags that differ between two runs, or the usual ones if none does."""
    options, others = (side.rows.identity.get("options", {}) for side in (first, second))
    names = [name for name in SELECTING if options.get(name) != others.get(name)]
    if not (options.get("limit") or others.get("limit")):
        names = [name for name in names if name not in ("relations", "seed")]
    return [f"--{name.replace('_', '-')}" for name in names or ("data", "relations", "subset", "limit", "seed")]


def _check_settings(lines: Sequence[TaskLine]) -> None:
    """:raises BadInput: two runs have the same setting."""
    seen: dict[tuple[Setting, int], TaskLine] = {}
    faults = []
    for line in lines:
        # Templates that are sentences of each item's own are distinguished by their number.
        key = (line.setting, line.template if line.setting.prompt == EACH_ITEM else 0)
        if key in seen:
            about = f"{line.setting.model}, {line.setting.task}, {line.setting.prompt}, {line.scoring}"
            faults.append(f"{seen[key].run.path} and {line.run.path} are both of {about}: give one of them")
        seen[key] = line
    refuse(dict.fromkeys(faults))


def _comparison(part: str, lines: Sequence[TaskLine]) -> SettingsCompared | None:
    """Return None if there are no two values to compare."""
    alike = grouped(
        ((*(setting for name, setting in parts.items() if name != part), line.template), (parts[part], line))
        for line, parts in ((line, line.setting._asdict()) for line in lines)
        if line.numbers and parts[part] and line.setting.masks
    )
    values = list(dict.fromkeys(value for pairs in alike.values() for value, _ in pairs))
    complete = [dict(pairs) for pairs in alike.values() if len(pairs) == len(values)]
    if len(values) < 2 or not complete:
        return None
    means = {value: _means([by_value[value] for by_value in complete]) for value in values}
    return SettingsCompared(part, means, len(complete))


def _queries(pairs: Iterable[tuple[TaskLine, Ints]]) -> list[tuple[Rows, int]]:
    """Return run and query of each prediction."""
    return [(line.rows, query) for line, places in pairs for query in line.rows.query[places].tolist()]


def _means(lines: Sequence[TaskLine]) -> tuple[Estimate, ...]:
    """Return the mean of each of :data:`MEASURED` over settings of equal weight."""
    scored = [(line, line.scored_places) for line in lines]
    sample = sample_items(_queries(scored))
    return tuple(
        over(
            name,
            [line.numbers[name] for line in lines],
            [line.rows.columns(metric)[0][places] for line, places in scored],
            sample,
        )
        for name, metric in metrics().items()
        if name in MEASURED
    )


def _examples(
    read: Sequence[_OntologyRun], best: Mapping[About, TaskLine], wanted: Sequence[str]
) -> list[tuple[str, ...]]:
    """Return each example as every model's best setting, by words and learnt, has it (table 7)."""
    ids = {id_ for run in read for items in run.items.values() for id_ in items}
    if unknown := [id_ for id_ in wanted if id_ not in ids]:
        raise BadInput(f"--examples {','.join(unknown)}: no such query; expected ids such as {min(ids)}")
    examples: list[tuple[str, ...]] = []
    for (task, _, _), line in best.items():
        run, rows = next(run for run in read if run.rows is line.rows), line.rows
        name_of, items = run.candidates(task), run.items[task]
        shown = {items[id_] for id_ in wanted if id_ in items} if wanted else set(list(items.values())[:1])
        for place in line.places.tolist():
            query = int(rows.query[place])
            if query in shown:
                gold, top = rows.gold[query], rows.best(place)[:SHOWN]
                right = ", ".join(name_of.get(id_, id_) for id_ in gold)
                best_names = ", ".join(name_of[id_] + " ✓" * (id_ in gold) for id_ in top)
                examples.append((task, line.setting.model, rows.asked(place)[0], right, best_names))
    return examples


# --- cross-validation


def _choose_by_folds(lines: Sequence[TaskLine], folds: int, seed: int) -> ChosenSettings:
    """Choose the best setting of one model and task for each fold of the items on the other folds.

    :raises BadInput: fewer than two subjects, which leaves no other fold.
    """
    [task] = {line.setting.task for line in lines}
    subjects = {
        rows.query_ids[query]: rows.subjects[query] or rows.query_ids[query]
        for rows in (line.rows for line in lines)
        for query in rows.by_relation()[task]
    }
    fold_of = folds_of(task, subjects, folds, seed)
    count = max(fold_of.values()) + 1
    if count < 2:
        raise BadInput(f"--cross-validate: {task} has one item, which leaves none to choose its best setting on")
    best = [_best_elsewhere(lines, fold_of, fold) for fold in range(count)]
    queries = _queries(best)
    sample = sample_items(queries)
    numbers = {}
    for name, metric in metrics().items():
        values = np.concatenate([line.rows.columns(metric)[0][places] for line, places in best])
        recipe = combined(name, [line.numbers[name].recipe for line, _ in best], " and ")
        recipe = f"{recipe}|chosen:on the other of {count} folds, seed {seed}"
        numbers[name] = mean(values, sample, recipe, form=FORMATS[name])
    reciprocal = np.concatenate([line.rows.reciprocal_of_finest()[places] for line, places in best])
    return ChosenSettings(Counter(line.setting for line, _ in best), numbers, queries, reciprocal)


def _best_elsewhere(lines: Iterable[TaskLine], fold_of: Mapping[str, int], fold: int) -> tuple[TaskLine, Ints]:
    """Return the line with the highest MRR on the other folds, and its scored predictions of this fold's items."""
    best, highest = None, -1.0
    for line in lines:
        places = line.scored_places
        inside = np.array([fold_of[line.rows.query_ids[query]] == fold for query in line.rows.query[places].tolist()])
        elsewhere = line.rows.reciprocal()[places[~inside]]
        if len(elsewhere) and elsewhere.mean() > highest:
            best, highest = (line, places[inside]), float(elsewhere.mean())
    if best is None:
        raise BadInput("--cross-validate: all items with a rank are in one fold: exclude the task, or evaluate more")
    return best


# --- tables and a plot


def conclude(findings: Ontology) -> list[str]:
    by_model = grouped((model, decision) for (_, model, _), decision in findings.decisions.items())
    return list(filter(None, (above_in_words(model, decisions) for model, decisions in by_model.items())))


def tables(findings: Ontology) -> list[Table]:
    """Return table 4 (best of each model), 8 to 12 (every setting of each task), appendix B, and table 7 (examples)."""
    return [
        _best_table(findings),
        *depth_tables(findings.best.values()),
        *(_task_table(findings, task) for task in findings.tasks),
        *map(_comparison_table, findings.comparisons),
        Table(EXAMPLES, tuple(findings.examples), "examples (table 7)", notes=("by each model's best setting",)),
    ]


def _best_table(findings: Ontology) -> Table:
    rows: list[tuple[Cell | Estimate, ...]] = []
    for task in findings.tasks:
        if task in findings.baselines:
            baseline = findings.baselines[task]
            rows.append(
                (task, BASELINE, None, None, *measured(baseline.numbers, OF_MEMORY).values(), baseline.items, None)
            )
        rows += [_best_row(findings, about) for about in findings.best if about[0] == task]
    notes = [LEGEND, OF_THE_FINEST, BY_FOLDS if findings.by_folds else FLATTERS]
    missing = [task for task in findings.tasks if task not in findings.baselines]
    if missing:
        notes.append(f"no frequency baseline for {', '.join(missing)}: it needs a run of the ontology probe")
    columns = ("task", "model", "template", "setting", *OF_MEMORY, "items", "verdict")
    return Table.of(rows, "the best of each model and task (table 4)", notes, columns=columns, main="MRR")


def _best_row(findings: Ontology, about: About) -> tuple[Cell | Estimate, ...]:
    task, model, soft = about
    line, by_folds = findings.best[about], findings.by_folds.get(about)
    numbers, items, settings = line.numbers, line.items, _setting_in_words(line.setting)
    if by_folds is not None:
        numbers, items = by_folds.numbers, len(by_folds.queries)
        settings = "; ".join(
            _setting_in_words(setting) + (f" ({count} folds)" if len(by_folds.settings) > 1 else "")
            for setting, count in sorted(by_folds.settings.items(), key=lambda pair: -pair[1])
        )
    verdict = verdict_text(findings.decisions.get(about))
    return task, model, "learnt" if soft else "words", settings, *measured(numbers, OF_MEMORY).values(), items, verdict


def _task_table(findings: Ontology, task: str) -> Table:
    rows: list[tuple[Cell | Estimate, ...]] = []
    if task in findings.baselines:
        baseline = findings.baselines[task]
        rows.append((BASELINE, *(None,) * 5, *measured(baseline.numbers, OF_MEMORY).values(), baseline.items, 0))
    of_task = [line for line in findings.lines if line.setting.task == task]
    for line in sorted(of_task, key=lambda line: (*line.setting[1:7], line.setting.seed or 0)):
        _, model, _, prompt, masks, pooling, loss, seed = line.setting
        numbers = measured(line.numbers, OF_MEMORY).values()
        rows.append(
            (model, prompt, masks or None, pooling, loss or None, seed, *numbers, line.items or None, line.unscored)
        )
    columns = ("model", "template", "masks", "pooling", "loss", "seed", *OF_MEMORY, "items", "unscored")
    return Table.of(rows, f"{task}, every setting (tables 8 to 12)", columns=columns, main="MRR")


def _setting_in_words(setting: Setting) -> str:
    masks = f"{setting.masks} mask{'s' if setting.masks == 'several' else ''}" if setting.masks else ""
    return ", ".join(filter(None, (setting.prompt, masks, setting.pooling, setting.loss)))


def _comparison_table(compared: SettingsCompared) -> Table:
    rows = [(value, *means) for value, means in compared.means.items()]
    notes = [f"means over {compared.settings} settings (tasks, models, templates, …) that differ in nothing else"]
    return Table.of(rows, f"{compared.part} (appendix B)", notes, columns=(compared.part, *MEASURED), main="MRR")


def files(findings: Ontology) -> dict[str, Table]:
    return {"unknown-axioms": unknown_axioms(findings.best.values())}


def plots(findings: Ontology) -> list[Plot]:
    """Draw a group of bars for each metric, one bar for each value (figures 5 to 7)."""
    bars = [(f"{group.part}: {value}", means) for group in findings.comparisons for value, means in group.means.items()]

    def draw(axes: Axes) -> None:
        width = 0.8 / len(bars)
        for number, (label, means) in enumerate(bars):
            places = [at + (number - (len(bars) - 1) / 2) * width for at in range(len(MEASURED))]
            axes.bar(places, [mean.value for mean in means], width, label=label)
        axes.set_xticks(range(len(MEASURED)), MEASURED)
        axes.legend(fontsize=7)

    return [Plot("ontology", draw, "", "mean")] if bars else []


# --- by distance in the hierarchy


BY_DISTANCE = (
    "of each model's best setting; distance: steps to the right answer, by the longest way; accuracy: it ranks before "
    "all wrong answers; frequency: the same for the most frequent right answer of the other items at this distance"
)
FIRST_ANSWERS = (
    "of each model's best setting; too general: right, but not the finest; too specific: below the finest; "
    "sibling, cousin: a class directly, or two steps, above the finest right answer is above it"
)


class _Item(NamedTuple):
    """One item as a model's best setting answered it. :param ranks: of the right answers, unfiltered."""

    line: TaskLine
    query: int
    place: int
    ranks: list[float]

    @property
    def rows(self) -> Rows:
        return self.line.rows

    @property
    def gold(self) -> list[str]:
        """Ids of the right answers."""
        return self.rows.gold[self.query]

    @property
    def steps(self) -> list[int]:
        """Distances of the right answers."""
        return self.rows.distances[self.query] or []


def depth_tables(best: Iterable[TaskLine]) -> list[Table]:
    """Return accuracy by distance, and the first answers by kind; none without a hierarchy of several steps."""
    items = [item for line in best for item in _items(line)]
    if max((step for item in items for step in item.steps), default=1) < 2:
        return []
    by_line = grouped(
        ((item.line.setting.task, item.line.setting.model, item.line.setting.soft), item) for item in items
    )
    above = _above(items)
    rows = [row for about, of_line in by_line.items() for row in _by_distance(about[:2], of_line)]
    kinds = [_first_answers(about[:2], of_line, above) for about, of_line in by_line.items()]
    return [
        Table.of(rows, "accuracy by distance in the hierarchy", (BY_DISTANCE,), main="accuracy"),
        Table.of(kinds, "first answers", (FIRST_ANSWERS,), without_interval=KINDS[1:], main=RIGHT),
    ]


def unknown_axioms(best: Iterable[TaskLine]) -> Table:
    """Return a row for each item whose finest right answer is not before all wrong ones."""
    items = [item for line in best for item in _items(line)]
    above = _above(items)
    columns = ("task", "model", "subject", "right", "rank", "answered", "kind")
    rows = [
        (
            *(item.line.setting.task, item.line.setting.model, item.rows.subjects[item.query]),
            "; ".join(item.gold[at] for at in item.rows.at_distance(item.query)),
            rank,
            "; ".join(sorted(answers)),
            "; ".join(dict.fromkeys(_kind(item, answer, above) for answer in sorted(answers))),
        )
        for item in items
        if (rank := float(item.rows.finest_rank[item.place])) > 1
        for answers in [item.rows.top_answers(item.place)]
    ]
    return Table(columns, tuple(rows), "axioms that the model does not know")


def _items(line: TaskLine) -> Iterator[_Item]:
    ranks = line.rows.table.column("gold_ranks").to_pylist()
    for place in line.scored_places.tolist():
        yield _Item(line, int(line.rows.query[place]), place, ranks[place] or [])


def _above(items: Iterable[_Item]) -> dict[str, Above]:
    """Return all superordinates by candidate set, as the runs of the ontology probe record them."""
    found: dict[str, Above] = {}
    for run in {str(item.line.run.path): item.line.run for item in items}.values():
        found = hierarchy_of(run) | found
    return found


def _by_distance(about: tuple[str, str], items: list[_Item]) -> Iterator[dict[str, object]]:
    for distance in sorted({step for item in items for step in item.steps}):
        some = [item for item in items if distance in item.steps]
        places = [item.rows.at_distance(item.query, distance) for item in some]
        hits = [
            float(np.mean([finest_rank(item.ranks, [at]) <= 1 for at in at_distance]))
            for item, at_distance in zip(some, places, strict=True)
        ]
        right = [{item.gold[at] for at in at_distance} for item, at_distance in zip(some, places, strict=True)]
        sample, made = _sample(some), f"distance:{distance}"
        yield {
            **dict(zip(("task", "model"), about, strict=True)),
            "distance": distance,
            "accuracy": mean(hits, sample, _recipe("accuracy", some, made)),
            "frequency": mean(_by_frequency(some, right), sample, _recipe("accuracy of the most frequent", some, made)),
            "items": len(some),
        }


def _by_frequency(items: Sequence[_Item], right: Sequence[Collection[str]]) -> Floats:
    """Return for each item the chance that the most frequent answer of the others is right."""
    number = {answer: at for at, answer in enumerate(sorted({answer for golds in right for answer in golds}))}
    pairs = [
        (item.rows.subjects[item.query] or item.rows.query_ids[item.query], [number[answer] for answer in golds])
        for item, golds in zip(items, right, strict=True)
    ]
    ranks = by_frequency_of_others(pairs, pairs, len(number))
    return hits_at_k(ranks.optimistic, ranks.pessimistic, 1)


def _first_answers(about: tuple[str, str], items: list[_Item], above: Mapping[str, Above]) -> dict[str, object]:
    """Return the share of each kind of answer; tied first answers share an item."""
    shares = {kind: np.zeros(len(items)) for kind in KINDS}
    for at, item in enumerate(items):
        answers = item.rows.top_answers(item.place)
        for answer in answers:
            shares[_kind(item, answer, above)][at] += 1 / len(answers)
    sample = _sample(items)
    made = {kind: mean(share, sample, _recipe("share", items, f"answer:{kind}")) for kind, share in shares.items()}
    return {**dict(zip(("task", "model"), about, strict=True)), "items": len(items), **made}


def _kind(item: _Item, answer: str, above: Mapping[str, Above]) -> str:
    """Return the kind of an answer, "" without a hierarchy."""
    space = item.rows.spaces[item.query] or ""
    return kind_of_answer(answer, item.gold, item.steps, above.get(space, {})) if item.steps else ""


def _recipe(name: str, items: Sequence[_Item], part: str) -> str:
    return f"{combined(name, [items[0].line.numbers['MRR'].recipe])}|{part}"


def _sample(items: Iterable[_Item]) -> Sample:
    return sample_items([(item.rows, item.query) for item in items])
