"""Tables and a picture of what models remember of an ontology."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fathom.results.tables import Cell, Table
from fathom.store.folder import RunFolder
from fathom.studies.entities_tables import picture
from fathom.studies.ontology import CUTS, EACH_ITEM, Comparison, Line, Numbers, Ontology, Setting, one_run

RECALLS = tuple(f"R@{k}" for k in CUTS)
_FORMATS = dict.fromkeys(RECALLS, ".1%") | dict.fromkeys(("MRR", "low", "high", "MRRₐ"), ".3f")
_MEASURED = (*RECALLS, "MRR", "low", "high", "MRRₐ", "items")
_LEGEND = (
    "R@K: a right answer is among the first K (ties: expected); MRR: of the best right answer, low and high 95 % of "
    "resamples of the items; MRRₐ: 1 / mean unfiltered rank of all right answers"
)
_BY = (
    "frequency: the baseline, the answers of the training items, the most frequent first; n: items with a rank; "
    "intervals of all numbers: metrics.json"
)


def ontology_tables(found: Ontology) -> list[Table]:
    """Table 4 (the best of each model), 8 to 12 (every setting of each task), appendix B, and table 7 (examples)."""
    return [
        _best(found),
        *(_task(found, task) for task in found.tasks),
        *map(_compared, found.comparisons),
        _examples(found),
    ]


def _best(found: Ontology) -> Table:
    body: list[tuple[Cell, ...]] = []
    for task in found.tasks:
        if task in found.baselines:
            body.append((task, "frequency baseline", None, None, *_measured(found.baselines[task])))
        for (own, model, soft), line in found.best.items():
            if own == task:
                kind = "learnt" if soft else "words"
                body.append((task, model, kind, _said(line.setting), *_measured(line.numbers)))
    notes = [_LEGEND, "the best setting of each model by MRR, chosen on the items it is shown for, as in the paper"]
    missing = [task for task in found.tasks if task not in found.baselines]
    if missing:
        notes.append(f"no frequency baseline for {', '.join(missing)}: no run of the ontology probe asked it")
    columns = ("task", "model", "template", "setting", *_MEASURED)
    return Table(columns, tuple(body), "the best of each model and task (table 4)", _FORMATS, notes=tuple(notes))


def _task(found: Ontology, task: str) -> Table:
    body: tuple[tuple[Cell, ...], ...] = tuple(
        (*_setting(line.setting), *_measured(line.numbers), line.unscored)
        for line in sorted((line for line in found.lines if line.setting.task == task), key=_order)
    )
    if task in found.baselines:
        body = (("frequency baseline", *(None,) * 5, *_measured(found.baselines[task]), 0), *body)
    columns = ("model", "template", "masks", "pooling", "loss", "seed", *_MEASURED, "unscored")
    return Table(columns, body, f"{task}, every setting (tables 8 to 12)", _FORMATS)


def task_table(run: RunFolder, notes: Sequence[str]) -> Table:
    """One run of the ontology probe: a line for each task, and below it the frequency baseline.

    What a run has several of (templates, numbers of masks, poolings) is a column, and each of them has a line.
    """
    lines, baselines = one_run(run)
    tasks = list(dict.fromkeys(line.setting.task for line in lines))
    several = {
        "template": len({(line.setting.task, line.template) for line in lines}) > len(tasks),
        "masks": len({line.setting.masks for line in lines}) > 1,
        "pooling": len({line.setting.pooling for line in lines}) > 1,
    }
    told = [name for name, there in several.items() if there]
    body: list[tuple[Cell, ...]] = []
    for task in tasks:
        for line in lines:
            if line.setting.task == task:
                own = {"template": _template(line), "masks": line.setting.masks, "pooling": line.setting.pooling}
                note = line.numbers.mrr.note if line.numbers else "nothing was scored"
                measured = _measured(line.numbers)[:-1]
                count = line.numbers.items if line.numbers else 0
                body.append((task, "model", *map(own.get, told), *measured, count, line.unscored, note))
        if task in baselines:
            base = baselines[task]
            nothing = (None,) * len(told)
            body.append((task, "frequency", *nothing, *_measured(base)[:-1], base.items, None, base.mrr.note))
    columns = ("task", "by", *told, *_MEASURED[:-1], "n", "unscored", "note")
    return Table(columns, tuple(body), "Results", _FORMATS, hidden=frozenset({"note"}), notes=(_LEGEND, _BY, *notes))


def _template(line: Line) -> str:
    """Sentences of each item's own have nothing in common but their number."""
    return line.setting.prompt if line.setting.prompt != EACH_ITEM else f"sentence {line.template + 1} of each item"


def _order(line: Line) -> tuple[Any, ...]:
    setting = line.setting
    return setting.model, setting.soft, setting.prompt, setting.masks, setting.pooling, setting.loss, setting.seed or 0


def _setting(setting: Setting) -> tuple[Cell, ...]:
    return setting.model, setting.prompt, setting.masks or None, setting.pooling, setting.loss or None, setting.seed


def _said(setting: Setting) -> str:
    masks = f"{setting.masks} mask{'s' if setting.masks == 'several' else ''}" if setting.masks else ""
    return ", ".join(filter(None, (setting.prompt, masks, setting.pooling, setting.loss)))


def _measured(numbers: Numbers | None) -> tuple[Cell, ...]:
    if numbers is None:
        return (None,) * len(_MEASURED)
    mrr = numbers.mrr
    return (*numbers.recalls, mrr.estimate, mrr.low, mrr.high, numbers.mrr_all, numbers.items)


def _compared(one: Comparison) -> Table:
    body: tuple[tuple[Cell, ...], ...] = tuple((value, *means) for value, means in one.means.items())
    note = f"means over {one.settings} settings (tasks, models, templates, …) that differ in nothing else"
    return Table((one.part, *RECALLS, "MRR", "MRRₐ"), body, f"{one.part} (appendix B)", _FORMATS, notes=(note,))


def _examples(found: Ontology) -> Table:
    body: tuple[tuple[Cell, ...], ...] = tuple(
        (
            example.setting.task,
            example.setting.model,
            example.prompt,
            ", ".join(example.answers),
            ", ".join(name + (" ✓" if name in example.answers else "") for name in example.top),
        )
        for example in found.examples
    )
    columns = ("task", "model", "asked", "right", "the five best, ✓ right")
    return Table(columns, body, "examples (table 7)", notes=("by each model's best setting",))


def draw_comparisons(found: Ontology, path: Path) -> Path | None:
    """A group of bars for each metric, one group of bars for each value (figures 5 to 7).

    :returns: None where matplotlib is not installed or there is nothing to compare.
    """
    if not found.comparisons:
        return None
    metrics = (*RECALLS, "MRR", "MRRₐ")
    bars = [(f"{one.part}: {value}", means) for one in found.comparisons for value, means in one.means.items()]

    def draw(axes: Any) -> None:
        width = 0.8 / len(bars)
        for number, (label, means) in enumerate(bars):
            places = [at + (number - (len(bars) - 1) / 2) * width for at in range(len(metrics))]
            axes.bar(places, means, width, label=label)
        axes.set_xticks(range(len(metrics)), metrics)
        axes.legend(fontsize=7)

    return picture(path, draw, "", "mean")
