"""What does a model learn and forget as it trains? Runs of its checkpoints, in the order of their steps.

A checkpoint knows a fact if it ranks its answer first, in more than half of the templates. ``learnt`` is the first
checkpoint that knows the fact, ``forgotten`` the one since which none does. Facts that the first checkpoint knows were
learnt before it, so they are counted apart. Runs that cannot be used are left out, each with a line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from fathom.base.errors import BadInput, FathomError
from fathom.results import estimates
from fathom.results.baselines import NO_KNOWLEDGE, AccuracyChange, RunBaselines, decide_changes
from fathom.results.claims import percent
from fathom.results.estimates import Estimate
from fathom.results.facts import RunFacts, common_facts, difference, names_of
from fathom.results.loading import open_run, wanted_of
from fathom.results.rows import grouped
from fathom.results.tables import Axes, Plot, Table
from fathom.store.folder import RunFolder, differences
from fathom.studies.options import RunsOptions

STEP = re.compile(r"(?:step|checkpoint|ckpt|epoch|iter)[-_]?(\d+)|(\d+)$", re.IGNORECASE)
"""The step in the name or the revision of a checkpoint."""
_UNREAD = ("prompt", "top_ids", "top_scores", "gold_tokens", "gold_ranks", "answers", "answer_ids")
LISTED = 20
"""Facts of each training in the table; ``facts.csv`` has all."""


class FactCourse(NamedTuple):
    """One fact during the training.

    :param learnt: step of the first checkpoint that knows it; None if none does.
    :param forgotten: step of the checkpoint since which none knows it; None if the last one does.
    """

    fact: str
    relation: str
    subject: str
    answers: str
    learnt: int | None
    forgotten: int | None


class Course(NamedTuple):
    """One training, in one scoring.

    :param checkpoints: rows, with steps of the training, or places in the order if the names have no steps.
    :param relations: accuracy of each at each checkpoint.
    :param facts: those that all checkpoints scored.
    :param changes: from each checkpoint to the next, then from the first to the last.
    """

    model: str
    probe: str
    checkpoints: list[dict[str, Any]]
    sides: list[RunFacts]
    relations: dict[str, list[Estimate]]
    facts: list[FactCourse]
    changes: list[AccuracyChange]

    @property
    def about(self) -> dict[str, str]:
        """Cells that identify the course."""
        return {"model": self.model, "probe": self.probe}

    @property
    def steps(self) -> list[int]:
        """Of the checkpoints."""
        return [row["step"] for row in self.checkpoints]


class Learning(NamedTuple):
    """The courses of all trainings. :param left_out: a line for each run that cannot be used."""

    courses: list[Course]
    left_out: list[str]


def analyse(runs: Sequence[RunFolder], options: RunsOptions = RunsOptions()) -> Learning:
    """Follow each training through its checkpoints.

    :raises BadInput: no run can be used; with the line of each.
    """
    left_out: list[str] = []
    sides: list[RunFacts] = []
    courses: list[Course] = []
    for run in runs:
        try:
            sides += wanted_of(run, options.scoring, name_of(open_run(run.path)), options.cluster, _UNREAD)
        except FathomError as error:  # the others are followed
            left_out += str(error).splitlines()[:1]
    trainings = grouped(((_training_of(side.model), f"{side.probe} {side.scoring}"), side) for side in sides)
    for (folder, probe), of_training in trainings.items():
        try:
            steps, alike = _in_order(list(_alike(of_training, left_out)))
            alone = len(alike) == 1 and step_of(alike[0].model) is None  # a model, not a checkpoint
            courses.append(_course(alike[0].model if alone else folder, probe, steps, alike))
        except BadInput as error:  # such as other candidates
            left_out += error.faults
    if not courses:
        raise BadInput(left_out or "expected a run or more, found none")
    return Learning(_decided(courses), left_out)


def name_of(run: RunFolder) -> str:
    """Return name and revision of a run's model."""
    model = run.manifest["identity"]["model"]
    return "@".join(filter(None, (str(model["name"]).rstrip("/"), model.get("revision"))))


def step_of(name: str) -> int | None:
    """Return the step in the name of a checkpoint, such as 300 of out/checkpoint-300 and of NAME@step300."""
    found = STEP.search(last_part(name).rpartition("@")[2])
    return None if found is None else int(found[1] or found[2])


def checkpoint_of(run: RunFolder) -> tuple[str, int] | None:
    """Return training and step of a model that is named as a checkpoint; None for other models."""
    name = name_of(run)
    found = STEP.search(last_part(name).rpartition("@")[2])
    is_checkpoint = found and (found[1] or last_part(name).isdecimal())
    return (_training_of(name), int(found[1] or found[2])) if found and is_checkpoint else None


def last_part(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2] or name


def _training_of(name: str) -> str:
    """Return the name of a training: the model without its revision, or the folder of the checkpoint."""
    model, _, revision = name.partition("@")
    return model if revision else name.removesuffix(last_part(name)).rstrip("/") or name


def _alike(sides: Sequence[RunFacts], left_out: list[str]) -> Iterator[RunFacts]:
    """Yield the runs that agree with most in model and settings; add a line for each of the others."""
    kinds = [repr(sorted(_settings(side).items())) for side in sides]
    usual = sides[kinds.index(Counter(kinds).most_common(1)[0][0])]
    for side in sides:
        if lines := [line.strip() for line in differences(_settings(usual), _settings(side))]:
            left_out.append(f"{side.path} (here) differs from {usual.path} (there): {'; '.join(lines)}")
        else:
            yield side


def _settings(side: RunFacts) -> dict[str, Any]:
    """Return all that checkpoints of one training share."""
    identity: Mapping[str, Any] = side.rows.identity
    options = {name: value for name, value in identity.get("options", {}).items() if name != "revision"}
    model = {"parameters": side.parameters, "dtype": identity["model"].get("dtype")}
    return {**identity, "options": options, "model": model}


def _in_order(sides: Sequence[RunFacts]) -> tuple[list[int], list[RunFacts]]:
    """Return steps and runs, in order; if names lack steps or share them, the runs as given, by their places."""
    by_step = {step: side for side in sides if (step := step_of(side.model)) is not None}
    if len(by_step) < len(sides):
        by_step = dict(enumerate(sides, 1))
    return sorted(by_step), [by_step[step] for step in sorted(by_step)]


def _course(model: str, probe: str, steps: list[int], sides: list[RunFacts]) -> Course:
    """:raises BadInput: the runs have no fact in common, or other candidates."""
    facts = common_facts(sides)
    is_known = np.array([side.hits(1)[side.at(facts)] > 0.5 for side in sides])
    relations = grouped(zip(sides[0].relations_of(facts), facts, strict=True))
    named = [side.called(str(step)) for step, side in zip(steps, sides, strict=True)]
    pairs = [*pairwise(named), *([(named[0], named[-1])] if len(named) > 2 else [])]
    changes = [
        AccuracyChange(
            {"model": model, "probe": probe},
            earlier.model,
            later.model,
            difference("accuracy", later, earlier, [later.hits(1), earlier.hits(1)], facts),
        )
        for earlier, later in pairs
    ]
    checkpoints = [
        {
            "step": step,
            "accuracy": side.mean("accuracy", side.hits(1), facts),
            "gold log-prob": _gold(side, facts),
            "facts": len(facts),
            "unscored": len(side.facts) - len(facts),
            "known": int(now.sum()),
            "learnt": None if before is None else int((now > before).sum()),
            "forgotten": None if before is None else int((now < before).sum()),
        }
        for step, side, before, now in zip(steps, sides, [None, *is_known[:-1]], is_known, strict=True)
    ]
    by_relation = {
        name: [side.mean("accuracy", side.hits(1), group) for side in sides] for name, group in relations.items()
    }
    courses = list(_facts(sides[-1], facts, steps, is_known.T.tolist()))
    return Course(model, probe, checkpoints, named, by_relation, courses, changes)


def _gold(side: RunFacts, facts: Sequence[str]) -> Estimate | None:
    """Return the mean log-probability of the gold answers; None if some have none."""
    values = side.gold_log_probs[side.at(facts)]
    line = side.recipe("gold log-probability")
    is_defined = not np.isnan(values).any()
    return estimates.mean(values, side.sample(facts), line, (-np.inf, 0.0), form=".2f") if is_defined else None


def _facts(
    side: RunFacts, facts: Sequence[str], steps: Sequence[int], is_known: Sequence[list[bool]]
) -> Iterator[FactCourse]:
    """Yield the course of each fact. :param is_known: whether each checkpoint knows it, of each fact."""
    names = names_of(side.rows.candidates)
    about = zip(facts, side.relations_of(facts), side.subject_names(facts), side.gold_ids_of(facts), strict=True)
    for (fact, relation, subject, golds), of_fact in zip(about, is_known, strict=True):
        learnt = steps[of_fact.index(True)] if any(of_fact) else None
        forgotten = steps[len(of_fact) - of_fact[::-1].index(True)] if any(of_fact) and not of_fact[-1] else None
        yield FactCourse(fact, relation, subject, ", ".join(names.get(id_, id_) for id_ in golds), learnt, forgotten)


def _decided(courses: Sequence[Course]) -> list[Course]:
    """Decide as one family which changes of all courses are significant and which checkpoints are above baselines."""
    claims = {
        (*course.about.values(), side.model): RunBaselines(side).claim(1, [fact.fact for fact in course.facts])
        for course in courses
        for side in course.sides
    }
    changes = {
        (place, number): change for place, course in enumerate(courses) for number, change in enumerate(course.changes)
    }
    decided, _ = decide_changes(changes, claims, lambda step, model: (*step.about.values(), model))
    return [
        course._replace(changes=[decided[place, number] for number in range(len(course.changes))])
        for place, course in enumerate(courses)
    ]


def conclude(findings: Learning) -> list[str]:
    """State how the accuracy of each training changed, how many facts it learnt and forgot, and what was left out."""
    courses = [f"{course.model}, {course.probe}: {_summary(course)}" for course in findings.courses]
    return [*courses, *(f"Left out: {line}" for line in findings.left_out)]


def _summary(course: Course) -> str:
    first, last = course.checkpoints[0], course.checkpoints[-1]
    first_known = f"{first['known']} of {first['facts']} facts"
    if not course.changes:
        accuracy = percent(first["accuracy"].value)
        return f"accuracy {accuracy}, {first_known} known. One checkpoint shows no change: give at least two."
    later = sum(fact.learnt not in (None, first["step"]) for fact in course.facts)
    lost = sum(fact.forgotten is not None for fact in course.facts)
    ends = ", ".join(f"{percent(row['accuracy'].value)} at step {row['step']}" for row in (first, last))
    counts = f"{first_known} were known at the first checkpoint, {later} were learnt after it, {lost} forgotten"
    return f"accuracy {ends} ({course.changes[-1].verdict}); {counts}."


# --- tables and plots


def tables(findings: Learning) -> list[Table]:
    family = "difference: paired by fact; verdicts by Holm over all changes and checkpoints"
    columns = ("model", "probe", "from", "to", "difference", "verdict", "above baseline")
    changes = [change.row for course in findings.courses for change in course.changes]
    changed = [Table.of(changes, "changes between checkpoints", (family, NO_KNOWLEDGE), columns=columns)]
    note = "learnt, forgotten: facts known here and not at the checkpoint before, and the reverse"
    half = "half learnt by: first checkpoint that knows half of the facts in the column learnt"
    rows = [course.about | row for course in findings.courses for row in course.checkpoints]
    relations = [row for course in findings.courses for row in _relation_rows(course)]
    changed_last = _facts_table(findings.courses, "facts that changed last, and the steps", LISTED)
    return [
        Table.of(rows, "knowledge by checkpoint", (note,), main="accuracy").without_empty("gold log-prob"),
        *(changed if changes else []),
        Table.of(relations, "by relation, at the first and the last checkpoint", (half,), inline=True),
        *([changed_last] if changed_last.rows else []),
    ]


def _relation_rows(course: Course) -> Iterator[dict[str, Any]]:
    for relation, facts in grouped((fact.relation, fact) for fact in course.facts).items():
        learnt = sorted(fact.learnt for fact in facts if fact.learnt is not None)
        yield {
            **course.about,
            "relation": relation,
            "first": course.relations[relation][0],
            "last": course.relations[relation][-1],
            "facts": len(facts),
            "learnt": len(learnt),
            "forgotten": sum(fact.forgotten is not None for fact in facts),
            "half learnt by": learnt[(len(learnt) - 1) // 2] if learnt else None,
        }


def _facts_table(courses: Sequence[Course], title: str = "facts", most: int | None = None) -> Table:
    """Return a row for each fact. :param most: of each training, only so many facts, the last changed first."""
    rows = [
        (course.model, course.probe, *fact)
        for course in courses
        for fact in (course.facts if most is None else _changed_last(course)[:most])
    ]
    return Table(("model", "probe", *FactCourse._fields), tuple(rows), title, hidden=frozenset({"fact"}))


def _changed_last(course: Course) -> list[FactCourse]:
    """Return the facts that were learnt or forgotten after the first checkpoint, those that changed last first."""
    steps = {fact: fact.learnt if fact.forgotten is None else fact.forgotten for fact in course.facts}
    changed = [(step, fact) for fact, step in steps.items() if step is not None and step != course.steps[0]]
    return [fact for _, fact in sorted(changed, key=lambda pair: pair[0], reverse=True)]


def files(findings: Learning) -> dict[str, Table]:
    rows = [
        {**course.about, "relation": relation, "step": step, "accuracy": number}
        for course in findings.courses
        for relation, numbers in course.relations.items()
        for step, number in zip(course.steps, numbers, strict=True)
    ]
    return {"facts": _facts_table(findings.courses), "relations": Table.of(rows, "accuracy by relation and step")}


def plots(findings: Learning) -> list[Plot]:
    kinds = {
        "": (_draw_accuracy, "accuracy"),
        "-facts": (_draw_facts, "facts learnt (up) and forgotten (down)"),
        "-relations": (_draw_relations, ""),
    }
    return [
        Plot(f"learning-{number}{kind}", partial(draw, course), "step", label, f"{course.model}, {course.probe}")
        for number, course in enumerate(course for course in findings.courses if course.changes)
        for kind, (draw, label) in kinds.items()
    ]


def _draw_accuracy(course: Course, axes: Axes) -> None:
    accuracy = [row["accuracy"] for row in course.checkpoints]
    lows = [share.value if share.low is None else share.low for share in accuracy]
    highs = [share.value if share.high is None else share.high for share in accuracy]
    axes.fill_between(course.steps, lows, highs, alpha=0.2)
    axes.plot(course.steps, [share.value for share in accuracy], marker="o", markersize=3)
    axes.set_ylim(0, None)


def _draw_facts(course: Course, axes: Axes) -> None:
    axes.bar(range(len(course.steps)), [row["learnt"] or 0 for row in course.checkpoints])
    axes.bar(range(len(course.steps)), [-(row["forgotten"] or 0) for row in course.checkpoints])
    _label_steps(course, axes)


def _draw_relations(course: Course, axes: Axes) -> None:
    """Draw a row for each relation and a column for each checkpoint: lines of many relations would cover each other."""
    values = [[share.value for share in numbers] for numbers in course.relations.values()]
    picture = axes.imshow(values, aspect="auto", vmin=0, vmax=1, cmap="cividis", interpolation="nearest")
    axes.set_yticks(range(len(values)), list(course.relations), fontsize=8 if len(values) < 30 else 5)
    axes.figure.colorbar(picture, ax=axes, label="accuracy")
    _label_steps(course, axes)


def _label_steps(course: Course, axes: Axes) -> None:
    """Label at most ten checkpoints with their steps."""
    places = range(0, len(course.steps), -(-len(course.steps) // 10))
    axes.set_xticks(places, [str(course.steps[place]) for place in places], rotation=45)
