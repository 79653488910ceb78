"""What models remember of an ontology: runs of the five memorising tasks side by side (section 4.1, appendices B and C
of Wu et al. 2023)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fathom.errors import BadInput, all_of, refuse
from fathom.options import FOLDS
from fathom.results.baselines import verdict_of
from fathom.results.claims import Claim, Decision
from fathom.results.estimates import Estimate
from fathom.results.names import short_names
from fathom.results.plots import Plot
from fathom.results.rows import Rows, grouped
from fathom.results.tables import Cell, Table
from fathom.results.tasks import (
    EACH_ITEM,
    LEGEND,
    MEASURED,
    ByFrequency,
    Setting,
    TaskLine,
    above_in_words,
    baselines_of,
    decide_all,
    items_drawn,
    lines_of,
    measured,
    metrics,
    over,
)
from fathom.store.folder import RunFolder
from fathom.studies.ontology_folds import Chosen, chosen_by_folds

SELECTING = (
    "relations", "split", "subset", "exclude_tails", "tail_tokens", "single_token", "tokens_after_space", "limit",
    "seed",
)  # fmt: skip
"""Options that choose which items are asked. A limit draws, by seed, from all relations that are asked."""
SHOWN = 5
BASELINE = "frequency baseline"
FLATTERS = (
    "the best setting of each model by MRR, chosen on the items it is shown for, as in the paper: the verdict, from "
    "the paired difference of its MRR, flatters it (--cross-validate does not)"
)
BY_FOLDS = (
    "the best setting of each model by MRR, chosen for each fold of the items on the other folds: no item has a say in "
    "what it is shown for"
)


class SettingsCompared(NamedTuple):
    """Values of one part of a setting, each averaged over the settings that are alike in all else and that all values
    have.

    :param means: of each value the numbers of :data:`MEASURED`.
    :param settings: over how many.
    """

    part: str
    means: dict[str, tuple[Estimate, ...]]
    settings: int


class Example(NamedTuple):
    """One item as it was asked.

    :param answers: names of the right ones.
    :param top: names of the best candidates, the best first.
    """

    setting: Setting
    prompt: str
    answers: tuple[str, ...]
    top: tuple[str, ...]


@dataclass(frozen=True)
class Ontology:
    """What runs remember.

    :param baselines: of each task for which a run says what there was to learn from.
    :param best: (task, model, soft or not) → the line of the highest MRR.
    :param chosen: so the best on other items than those that it is shown for; empty where that was not asked for.
    :param decisions: whether each of the best is above the frequency baseline, as one family.
    """

    lines: list[TaskLine]
    baselines: dict[str, ByFrequency]
    best: dict[tuple[str, str, bool], TaskLine]
    comparisons: list[SettingsCompared]
    examples: list[Example]
    chosen: dict[tuple[str, str, bool], Chosen] = field(default_factory=dict)
    decisions: dict[tuple[str, str, bool], Decision | None] = field(default_factory=dict)

    @property
    def tasks(self) -> list[str]:
        """In the order of the runs."""
        return list(dict.fromkeys(line.setting.task for line in self.lines))


def analyse(
    runs: Sequence[RunFolder],
    examples: Iterable[str] = (),
    seed: int = 0,
    cluster: str = "",
    cross_validate: bool = False,
    folds: int | None = None,
) -> Ontology:
    """The runs side by side.

    :param runs: of the ontology probe, or of the cloze or the statement probe on the same queries and candidates.
    :param examples: ids of queries to show with their best answers; by default the first of each task.
    :param seed: of the order in which the baseline lists what it has not seen.
    :param cluster: key by which items were drawn together, as for :class:`Rows`.
    :param cross_validate: choose the best setting of each model on other items than those that it is shown for.
    :param folds: of these items, drawn by *seed*.
    :raises BadInput: runs that are unfinished, without full ranks, or of other items or candidates; two of one setting.
    """
    read: list[_Read] = all_of(*(partial(_read, *one, cluster) for one in zip(runs, short_names(runs), strict=True)))
    _check_comparable(read)
    lines = [line for one in read for line in lines_of(one.run, one.rows, one.model)]
    _check_settings(lines)
    scored = grouped((line.setting[:3], line) for line in lines if line.numbers)
    if folds is not None and not cross_validate:
        raise BadInput(f"--folds {folds}: they are those of --cross-validate: type it, too")
    chosen = {
        about: chosen_by_folds(own, folds or FOLDS, seed) for about, own in (scored if cross_validate else {}).items()
    }
    best = {about: max(own, key=lambda line: line.mrr) for about, own in scored.items()}
    baselines: dict[str, ByFrequency] = {}
    for one in read:
        baselines = baselines_of(one.run, one.rows, seed) | baselines
    compared = [_comparison(part, lines) for part in ("masks", "pooling", "loss")]  # appendix B
    shown = _examples(read, best, list(examples))
    found = Ontology(lines, baselines, best, [one for one in compared if one], shown, chosen)
    return replace(found, decisions=dict(zip(best, decide_all([_claim(found, about) for about in best]), strict=True)))


def _claim(findings: Ontology, about: tuple[str, str, bool]) -> Claim | None:
    """Declare that a model's best setting is above the frequency baseline of the task."""
    baseline, one = findings.baselines.get(about[0]), findings.chosen.get(about)
    if baseline is None:
        return None
    return (
        baseline.claim(findings.best[about])
        if one is None
        else baseline.claim_of_items(about[0], one.asked, one.reciprocal)
    )


def conclude(findings: Ontology) -> list[str]:
    """For which tasks each model is above the frequency baseline."""
    by_model = grouped((model, decision) for (_, model, _), decision in findings.decisions.items())
    return [said for model, decisions in by_model.items() if (said := above_in_words(model, decisions))]


class _Read(NamedTuple):
    """A run.

    :param items: of each task, query id → number among the rows.
    """

    run: RunFolder
    model: str
    rows: Rows
    items: dict[str, dict[str, int]]

    def candidates(self, task: str) -> dict[str, str]:
        """Names of the task's candidates by their ids."""
        space = self.rows.spaces[next(iter(self.items[task].values()))]
        ids, names = self.rows.candidates[space] if space is not None else ((), ())
        return dict(zip(ids, names, strict=True))


def _read(run: RunFolder, model: str, cluster: str) -> _Read:
    """:raises BadInput: it is unfinished, or has no rank of some right answers."""
    if not run.is_complete():
        raise BadInput(f"{run.path} is unfinished: type its command again, it goes on where it stopped")
    rows = Rows(run, with_scores=False, cluster=cluster)
    told = ~np.isnan(rows.reciprocal_of_all()[rows.scored])
    if not told.size or not told.all():
        raise BadInput(
            f"{run.path} lacks the ranks of all right answers: ask with the ontology probe, or with the statement "
            "probe without --max-rank"
        )
    items = {task: {rows.query_ids[place]: place for place in own} for task, own in rows.by_relation().items()}
    return _Read(run, model, rows, items)


def _check_comparable(read: Sequence[_Read]) -> None:
    """:raises BadInput: a task that two runs asked of other items or among other candidates."""
    faults = []
    first: dict[str, tuple[_Read, set[str]]] = {}
    for one in read:
        for task, items in one.items.items():
            candidates = one.candidates(task).keys()
            other, others = first.setdefault(task, (one, set(candidates)))
            if other.items[task].keys() != items.keys():
                faults.append(
                    f"{other.run.path} and {one.run.path} asked different items of {task}: ask both with the same "
                    + _listed(_differing(other, one))
                )
            elif others != candidates:
                faults.append(
                    f"{other.run.path} and {one.run.path} ranked {task} among different candidates: ask both with the "
                    "same --pool"
                )
    refuse(faults)


def _differing(one: _Read, other: _Read) -> list[str]:
    """The flags that choose items and had other values in the other run; the usual ones where none had."""
    options, others = (read.rows.identity.get("options", {}) for read in (one, other))
    found = [name for name in SELECTING if options.get(name) != others.get(name)]
    if not (options.get("limit") or others.get("limit")):
        found = [name for name in found if name not in ("relations", "seed")]
    return [f"--{name.replace('_', '-')}" for name in found or ("data", "relations", "subset", "limit", "seed")]


def _listed(flags: Sequence[str]) -> str:
    *first, last = flags
    return f"{', '.join(first)} and {last}" if first else last


def _check_settings(lines: Sequence[TaskLine]) -> None:
    """:raises BadInput: a setting that stands in two runs."""
    seen: dict[tuple[Setting, int], TaskLine] = {}
    faults = []
    for line in lines:
        # Sentences of each item's own are told apart by their number.
        key = (line.setting, line.template if line.setting.prompt == EACH_ITEM else 0)
        if key in seen:
            about = f"{line.setting.model}, {line.setting.task}, {line.setting.prompt}, {line.scoring}"
            faults.append(f"{seen[key].run.path} and {line.run.path} are both of {about}: give one of them")
        seen[key] = line
    refuse(dict.fromkeys(faults))


def _comparison(part: str, lines: Sequence[TaskLine]) -> SettingsCompared | None:
    """None where there are no two values to compare."""
    alike = grouped(
        ((*(own for name, own in parts.items() if name != part), line.template), (parts[part], line))
        for line, parts in ((line, line.setting._asdict()) for line in lines)
        if line.numbers and parts[part] and line.setting.masks
    )
    values = list(dict.fromkeys(value for found in alike.values() for value, _ in found))
    whole = [dict(found) for found in alike.values() if len(found) == len(values)]
    if len(values) < 2 or not whole:
        return None
    return SettingsCompared(part, {value: _means([found[value] for found in whole]) for value in values}, len(whole))


def _means(lines: Sequence[TaskLine]) -> tuple[Estimate, ...]:
    """Of each of :data:`MEASURED` the mean over settings, each of which has the same weight."""
    scored = [line.places[line.rows.scored[line.places]] for line in lines]
    asked = [
        (line.rows, query)
        for line, places in zip(lines, scored, strict=True)
        for query in line.rows.query[places].tolist()
    ]
    sample = items_drawn(asked)
    return tuple(
        over(
            name,
            [line.numbers[name] for line in lines],
            [line.rows.columns(metric)[0][places] for line, places in zip(lines, scored, strict=True)],
            sample,
        )
        for name, metric in metrics().items()
    )


def _examples(
    read: Sequence[_Read], best: Mapping[tuple[str, str, bool], TaskLine], wanted: Sequence[str]
) -> list[Example]:
    """Each example as every model's best setting, by words and learnt, has it (table 7)."""
    there = {id_ for one in read for items in one.items.values() for id_ in items}
    if strangers := [id_ for id_ in wanted if id_ not in there]:
        raise BadInput(f"--examples {','.join(strangers)}: no such query; expected ids such as {min(there)}")
    found = []
    for (task, _, _), line in best.items():
        one, rows = next(one for one in read if one.rows is line.rows), line.rows
        name_of, items = one.candidates(task), one.items[task]
        shown = {items[id_] for id_ in wanted if id_ in items} if wanted else set(list(items.values())[:1])
        for place in line.places.tolist():
            query = int(rows.query[place])
            if query in shown:
                answers = tuple(name_of.get(id_, id_) for id_ in rows.gold[query])
                top = tuple(name_of[id_] for id_ in rows.best(place)[:SHOWN])
                found.append(Example(line.setting, rows.asked(place)[0], answers, top))
    return found


# --- tables and a picture


def tables(findings: Ontology) -> list[Table]:
    """Table 4 (the best of each model), 8 to 12 (every setting of each task), appendix B, and table 7 (examples)."""
    return [
        _best(findings),
        *(_task(findings, task) for task in findings.tasks),
        *map(_compared, findings.comparisons),
        Table(
            ("task", "model", "asked", "right", "the five best, ✓ right"),
            tuple(
                (
                    one.setting.task,
                    one.setting.model,
                    one.prompt,
                    ", ".join(one.answers),
                    ", ".join(name + (" ✓" if name in one.answers else "") for name in one.top),
                )
                for one in findings.examples
            ),
            "examples (table 7)",
            notes=("by each model's best setting",),
        ),
    ]


def _best(findings: Ontology) -> Table:
    body: list[tuple[Cell | Estimate, ...]] = []
    for task in findings.tasks:
        if task in findings.baselines:
            baseline = findings.baselines[task]
            body.append((task, BASELINE, None, None, *measured(baseline.numbers).values(), baseline.items, None))
        body += [_best_line(findings, about) for about in findings.best if about[0] == task]
    notes = [LEGEND, BY_FOLDS if findings.chosen else FLATTERS]
    missing = [task for task in findings.tasks if task not in findings.baselines]
    if missing:
        notes.append(f"no frequency baseline for {', '.join(missing)}: no run of the ontology probe asked it")
    columns = ("task", "model", "template", "setting", *MEASURED, "items", "verdict")
    return Table.of(body, "the best of each model and task (table 4)", notes, columns=columns, main="MRR")


def _best_line(findings: Ontology, about: tuple[str, str, bool]) -> tuple[Cell | Estimate, ...]:
    """Of one task and model, by words or learnt."""
    task, model, soft = about
    said = (task, model, "learnt" if soft else "words")
    line, verdict = findings.best[about], verdict_of(findings.decisions[about])
    if (one := findings.chosen.get(about)) is None:
        return *said, _said(line.setting), *measured(line.numbers).values(), line.items, verdict
    settings = "; ".join(
        _said(setting) + (f" ({count} folds)" if len(one.settings) > 1 else "")
        for setting, count in sorted(one.settings.items(), key=lambda of: -of[1])
    )
    return *said, settings, *measured(one.numbers).values(), len(one.asked), verdict


def _task(findings: Ontology, task: str) -> Table:
    body: list[tuple[Cell | Estimate, ...]] = []
    if task in findings.baselines:
        baseline = findings.baselines[task]
        body.append((BASELINE, *(None,) * 5, *measured(baseline.numbers).values(), baseline.items, 0))
    body += [
        (*_setting(line.setting), *measured(line.numbers).values(), line.items or None, line.unscored)
        for line in sorted((line for line in findings.lines if line.setting.task == task), key=_order)
    ]
    columns = ("model", "template", "masks", "pooling", "loss", "seed", *MEASURED, "items", "unscored")
    return Table.of(body, f"{task}, every setting (tables 8 to 12)", columns=columns, main="MRR")


def _order(line: TaskLine) -> tuple[Any, ...]:
    setting = line.setting
    return setting.model, setting.soft, setting.prompt, setting.masks, setting.pooling, setting.loss, setting.seed or 0


def _setting(setting: Setting) -> tuple[Cell, ...]:
    return setting.model, setting.prompt, setting.masks or None, setting.pooling, setting.loss or None, setting.seed


def _said(setting: Setting) -> str:
    masks = f"{setting.masks} mask{'s' if setting.masks == 'several' else ''}" if setting.masks else ""
    return ", ".join(filter(None, (setting.prompt, masks, setting.pooling, setting.loss)))


def _compared(one: SettingsCompared) -> Table:
    rows = [(value, *means) for value, means in one.means.items()]
    notes = [f"means over {one.settings} settings (tasks, models, templates, …) that differ in nothing else"]
    return Table.of(rows, f"{one.part} (appendix B)", notes, columns=(one.part, *MEASURED), main="MRR")


def plots(findings: Ontology) -> list[Plot]:
    """A group of bars for each metric, one bar for each value (figures 5 to 7)."""
    bars = [(f"{one.part}: {value}", means) for one in findings.comparisons for value, means in one.means.items()]

    def draw(axes: Any) -> None:
        width = 0.8 / len(bars)
        for number, (label, means) in enumerate(bars):
            places = [at + (number - (len(bars) - 1) / 2) * width for at in range(len(MEASURED))]
            axes.bar(places, [mean.value for mean in means], width, label=label)
        axes.set_xticks(range(len(MEASURED)), MEASURED)
        axes.legend(fontsize=7)

    return [Plot("ontology", draw, "", "mean")] if bars else []
