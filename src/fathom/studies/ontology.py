"""What models remember of an ontology: runs of the five memorising tasks side by side (section 4.1, appendices B and C
of Wu et al. 2023)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fathom.data.templates import ANSWER, SUBJECT, capitalized
from fathom.errors import BadInput
from fathom.metrics.bootstrap import Interval, interval
from fathom.metrics.ranking import by_frequency, hits_at_k, reciprocal_mean_rank, reciprocal_rank
from fathom.results.facts import candidate_digests
from fathom.results.names import short_names
from fathom.store.folder import RunFolder

CUTS = (1, 5, 10, 25, 50)
SELECTING = (
    "relations", "split", "subset", "exclude_tails", "tail_tokens", "single_token", "tokens_after_space", "limit",
    "seed",
)  # fmt: skip
"""Options that choose which items are asked. A limit draws, by seed, from all relations that are asked."""
EACH_ITEM = "(a sentence for each item)"
SHOWN = 5


class Setting(NamedTuple):
    """One way to ask one model one task. :param prompt: the template, or for learnt ones where they began.
    :param masks: several or one, "" for statements. :param pooling: mean, max, first, or a statement's scoring.
    :param loss: of learnt templates, "" else. :param seed: None but for learnt templates."""

    task: str
    model: str
    soft: bool
    prompt: str
    masks: str
    pooling: str
    loss: str
    seed: int | None


class Numbers(NamedTuple):
    """:param recalls: R@K for :data:`CUTS`, of any gold answer. :param mrr: of the best one. :param mrr_all: 1 / mean
    rank of all. :param items: how many these are of."""

    recalls: tuple[float, ...]
    mrr: Interval
    mrr_all: float
    items: int


class Line(NamedTuple):
    """:param template: its number in the run. :param numbers: None where nothing was scored."""

    setting: Setting
    numbers: Numbers | None
    unscored: int
    run: RunFolder
    template: int
    scoring: str


class Comparison(NamedTuple):
    """Values of one part of a setting, each averaged over the settings that are alike in all else and that all values
    have. :param means: of each value R@K, MRR, MRRₐ. :param settings: over how many."""

    part: str
    means: dict[str, tuple[float, ...]]
    settings: int


class Example(NamedTuple):
    """:param answers: names of the right ones. :param top: names of the best candidates, the best first."""

    setting: Setting
    prompt: str
    answers: tuple[str, ...]
    top: tuple[str, ...]


@dataclass(frozen=True)
class Ontology:
    """:param baselines: of each task, where a run says what there was to learn from.
    :param best: (task, model, soft or not) → the line of the highest MRR."""

    lines: list[Line]
    baselines: dict[str, Numbers]
    best: dict[tuple[str, str, bool], Line]
    comparisons: list[Comparison]
    examples: list[Example]

    @property
    def tasks(self) -> list[str]:
        return list(dict.fromkeys(line.setting.task for line in self.lines))


def ontology(runs: Sequence[RunFolder], examples: Iterable[str] = (), seed: int = 0) -> Ontology:
    """:param runs: of the ontology probe, or of the cloze or the statement probe on the same queries and candidates.
    :param examples: ids of queries to show with their best answers; by default the first of each task.
    :param seed: of the order in which the baseline lists what it has not seen.
    :raises BadInput: runs that are unfinished, without full ranks, or of other items or candidates; two of one setting.
    """
    faults: list[str] = []
    read: list[_Read] = []
    for run, name in zip(runs, short_names(runs), strict=True):
        try:
            _check_whole(run)
            read.append(_read(run, name))
        except BadInput as error:
            faults += error.faults
    if faults:
        raise BadInput(faults)
    _check_comparable(read)
    lines = [line for one in read for line in _lines(one)]
    _check_settings(lines)
    best: dict[tuple[str, str, bool], Line] = {}
    for line in lines:
        key = (line.setting.task, line.setting.model, line.setting.soft)
        if line.numbers and (key not in best or line.numbers.mrr.estimate > _mrr(best[key])):
            best[key] = line
    return Ontology(lines, _baselines(read, seed), best, _comparisons(lines), _examples(read, best, list(examples)))


def one_run(run: RunFolder) -> tuple[list[Line], dict[str, Numbers]]:
    """The numbers of one run of the ontology probe, of what is finished of it, and the baseline of each task."""
    read = _read(run, *short_names([run]))
    return _lines(read), _baselines([read], seed=0)


class _Read(NamedTuple):
    """A run. :param queries: of each task its queries, by id. :param table: predictions without all their scores.
    :param space_of: candidate set of each task."""

    run: RunFolder
    model: str
    identity: dict[str, Any]
    queries: dict[str, dict[str, dict[str, Any]]]
    table: pa.Table
    space_of: dict[str, str]


def _check_whole(run: RunFolder) -> None:
    """:raises BadInput: it is unfinished, or has no rank of some right answers."""
    if not run.is_complete():
        raise BadInput(f"{run.path} is unfinished: type its command again, it goes on where it stopped")
    table = run.predictions()
    reasons, ranks = (table.column(name).to_pylist() for name in ("unscored", "gold_ranks"))
    told = [of_item is not None for of_item, reason in zip(ranks, reasons, strict=True) if reason is None]
    if not told or not all(told):
        raise BadInput(
            f"{run.path} lacks the ranks of all right answers: ask with the ontology probe, or with the statement "
            "probe without --max-rank"
        )


def _read(run: RunFolder, model: str) -> _Read:
    queries: dict[str, dict[str, dict[str, Any]]] = {}
    for row in run.queries().select(["query_id", "relation", "gold", "candidates"]).to_pylist():
        queries.setdefault(row["relation"] or "", {})[row["query_id"]] = row
    space_of = {task: next(iter(rows.values()))["candidates"] for task, rows in queries.items()}
    return _Read(run, model, run.manifest["identity"], queries, run.predictions().drop_columns(["scores"]), space_of)


def _check_comparable(read: Sequence[_Read]) -> None:
    """:raises BadInput: a task that two runs asked of other items or among other candidates."""
    faults = []
    first: dict[str, tuple[_Read, str]] = {}
    for one in read:
        digests = candidate_digests(one.run)
        for task, queries in one.queries.items():
            other, digest = first.setdefault(task, (one, digests[one.space_of[task]]))
            if other.queries[task].keys() != queries.keys():
                faults.append(
                    f"{other.run.path} and {one.run.path} asked different items of {task}: ask both with the same "
                    + _listed(_differing(other, one))
                )
            elif digest != digests[one.space_of[task]]:
                faults.append(
                    f"{other.run.path} and {one.run.path} ranked {task} among different candidates: ask both with the "
                    "same --pool"
                )
    if faults:
        raise BadInput(faults)


def _differing(one: _Read, other: _Read) -> list[str]:
    """The flags that choose items and had other values in the other run; the usual ones where none had."""
    options, others = (read.identity.get("options", {}) for read in (one, other))
    found = [name for name in SELECTING if options.get(name) != others.get(name)]
    if not (options.get("limit") or others.get("limit")):
        found = [name for name in found if name not in ("relations", "seed")]
    return [f"--{name.replace('_', '-')}" for name in found or ("data", "relations", "subset", "limit", "seed")]


def _listed(flags: Sequence[str]) -> str:
    *first, last = flags
    return f"{', '.join(first)} and {last}" if first else last


def _lines(one: _Read) -> list[Line]:
    """One for each task, template and scoring."""
    rows: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    task_of = {id_: task for task, queries in one.queries.items() for id_ in queries}
    for row in one.table.to_pylist():
        rows.setdefault((task_of[row["query_id"]], row["template"], row["scoring"]), []).append(row)
    lines = []
    for (task, template, scoring), own in rows.items():
        scored = [row for row in own if row["unscored"] is None]
        numbers = _numbers(scored) if scored else None
        setting = _setting(one, task, scoring, own)
        lines.append(Line(setting, numbers, len(own) - len(scored), one.run, template, scoring))
    return lines


def _numbers(rows: Sequence[dict[str, Any]]) -> Numbers:
    optimistic, pessimistic = ([row[f"rank_{kind}"] for row in rows] for kind in ("optimistic", "pessimistic"))
    return _summed(
        lambda k: hits_at_k(optimistic, pessimistic, k), [row["rank"] for row in rows], [r["gold_ranks"] for r in rows]
    )


def _summed(
    hits: Callable[[int], npt.NDArray[np.float64]], best: Sequence[float], every: Sequence[Sequence[float]]
) -> Numbers:
    """:param best: rank of the best gold answer of each item. :param every: unfiltered ranks of all of them."""
    recalls = tuple(float(hits(k).mean()) for k in CUTS)
    mrr = interval(reciprocal_rank(best), None, limits=(0.0, 1.0))
    return Numbers(recalls, mrr, float(reciprocal_mean_rank(every).mean()), len(best))


def _setting(one: _Read, task: str, scoring: str, rows: Sequence[dict[str, Any]]) -> Setting:
    options = one.identity.get("options", {})
    soft = bool(options.get("soft"))
    masked, _, pooling = scoring.rpartition("mask-")
    filled = "mask-" in scoring
    return Setting(
        task,
        one.model,
        soft,
        f"learnt from {options['soft_init']}" if soft else _wording(rows),
        ("one" if masked else "several") if filled else "",
        pooling if filled else scoring,
        options["loss"] if soft else "",
        options["seed"] if soft else None,
    )


def _wording(rows: Sequence[dict[str, Any]]) -> str:
    """The template that made the prompts, where it is one."""
    found = {
        str(row["prompt"]).replace(capitalized(row["subject"]), SUBJECT, 1).replace(row["subject"], SUBJECT, 1)
        for row in rows
        if row["prompt"] and row["subject"]
    }
    [text] = found if len(found) == 1 else [EACH_ITEM]
    return text if SUBJECT in text and ANSWER in text else EACH_ITEM


def _check_settings(lines: Sequence[Line]) -> None:
    """:raises BadInput: a setting that stands in two runs."""
    seen: dict[tuple[Setting, int], Line] = {}
    faults = []
    for line in lines:
        # Sentences of each item's own are told apart by their number.
        key = (line.setting, line.template if line.setting.prompt == EACH_ITEM else 0)
        if key in seen:
            faults.append(
                f"{seen[key].run.path} and {line.run.path} are both of {line.setting.model}, {line.setting.task}, "
                f"{line.setting.prompt}, {line.scoring}: give one of them"
            )
        seen[key] = line
    if faults:
        raise BadInput(dict.fromkeys(faults))


def _mrr(line: Line) -> float:
    return line.numbers.mrr.estimate if line.numbers else 0.0


def _baselines(read: Sequence[_Read], seed: int) -> dict[str, Numbers]:
    """Answering every item of a task with the training answers by frequency, then the others by lot."""
    found: dict[str, Numbers] = {}
    for one in read:
        file = one.run.path / "artifacts" / "training.json"
        seen = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        candidates = one.run.candidates()
        for task in one.queries.keys() & seen.keys() - found.keys():
            order = by_frequency(
                (gold for golds in seen[task] for gold in golds), candidates[one.space_of[task]][0], seed
            )
            place = {id_: number for number, id_ in enumerate(order, start=1)}
            golds = [[place[id_] for id_ in row["gold"] if id_ in place] for row in one.queries[task].values()]
            ranks = [[float(rank) for rank in of_item] for of_item in golds if of_item]
            best = [min(of_item) for of_item in ranks]
            found[task] = _summed(lambda k, best=best: hits_at_k(best, best, k), best, ranks)  # type: ignore[misc]
    return found


def _comparisons(lines: Sequence[Line]) -> list[Comparison]:
    """Masks, pooling and losses (appendix B)."""
    compared = [_comparison(part, lines) for part in ("masks", "pooling", "loss")]
    return [one for one in compared if one is not None]


def _comparison(part: str, lines: Sequence[Line]) -> Comparison | None:
    """None where there are no two values to compare."""
    alike: dict[tuple[Any, ...], dict[str, Numbers]] = {}
    for line in lines:
        value = getattr(line.setting, part)
        if line.numbers and value and line.setting.masks:
            rest = tuple(own for name, own in line.setting._asdict().items() if name != part)
            alike.setdefault((*rest, line.template), {})[value] = line.numbers
    values = list(dict.fromkeys(value for found in alike.values() for value in found))
    whole = [found for found in alike.values() if len(found) == len(values)]
    if len(values) < 2 or not whole:
        return None
    means = {
        value: tuple(
            np.mean(
                [(*found[value].recalls, found[value].mrr.estimate, found[value].mrr_all) for found in whole], axis=0
            ).tolist()
        )
        for value in values
    }
    return Comparison(part, means, len(whole))


def _examples(read: Sequence[_Read], best: dict[tuple[str, str, bool], Line], wanted: Sequence[str]) -> list[Example]:
    """Each example as every model's best setting, by words and learnt, has it (table 7)."""
    there = {id_ for one in read for queries in one.queries.values() for id_ in queries}
    if strangers := [id_ for id_ in wanted if id_ not in there]:
        raise BadInput(f"--examples {','.join(strangers)}: no such query; expected ids such as {min(there)}")
    found = []
    by_run = {one.run.path: one for one in read}
    for (task, _, _), line in best.items():
        one = by_run[line.run.path]
        ids, names = one.run.candidates()[one.space_of[task]]
        name_of = dict(zip(ids, names, strict=True))
        shown = [id_ for id_ in wanted if id_ in one.queries[task]] if wanted else list(one.queries[task])[:1]
        for row in one.table.to_pylist():
            if row["query_id"] in shown and (row["template"], row["scoring"]) == (line.template, line.scoring):
                gold = one.queries[task][row["query_id"]]["gold"]
                top = tuple(name_of[id_] for id_ in (row["top_ids"] or [])[:SHOWN])
                answers = tuple(name_of.get(id_, id_) for id_ in gold)
                found.append(Example(line.setting, str(row["prompt"]), answers, top))
    return found
