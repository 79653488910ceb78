"""The ontology probe (OntoProbe, Wu et al. 2023): types, super-classes, super-properties, domains and ranges.

A preset of the cloze probe, plus soft templates: three learnt tokens between subject and answer. They are trained once
per task and scoring on the subset ``train``, with the best epoch chosen on ``dev``; or, cross-validated, once per fold
on the others. Without training, no items are held out. See docs/methods/ontology.md.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fathom.base.errors import BadInput, refuse
from fathom.base.options import EVERYTHING, FOLDS, typed
from fathom.base.progress import Progress
from fathom.base.reading import Faults, read_json_lines, stands
from fathom.data.folds import FOLD, LEAST, folds_of_queries, taught, with_folds
from fathom.data.prompts.ontology import HIERARCHIES, TASKS
from fathom.data.queries import Query, QuerySet
from fathom.data.templates import SUBJECT, Prompt, Template
from fathom.engine.models.base import Model
from fathom.engine.scoring.slots import CandidateTokens, Slot, SlotScoring, encode_slots, slot_scores
from fathom.probes.base import Facts
from fathom.probes.options import OntologyOptions, OntologyT, StatementOptions, complete_folds
from fathom.probes.slot import NO_ESTIMATE, SlotProbe
from fathom.store.files import write_json
from fathom.training.soft import (
    GoldSlot,
    SoftPlan,
    learn,
    learnt_file,
    load_learnt,
    random_start,
    save_learnt,
    word_start,
)

Wordings = dict[str, tuple[Template, ...]]
SOFT = Template("[X] <s1> <s2> <s3> [Y] .")
SOFT_TOKENS = 3
WORDS = {
    "type": ("is", "a", "particular"),
    "subClassOf": ("is", "a", "particular"),
    "subPropertyOf": ("implies", "the", "property"),
    "domain": ("'s", "domain", "is"),
    "range": ("'s", "range", "is"),
}
"""Initial words for ``--soft-init words``, from the reference code."""
TRAIN, DEV = "train", "dev"
TRAINING, ITEMS = "training.json", "items.json"
"""Artifacts for the frequency baseline. If training items are held out, their gold answers per task; otherwise subject
and gold answers of all items, each excluded for its own query."""
HIERARCHY = "hierarchy.json"
"""Artifact with all superordinates of each class and property of the data, by candidate set."""


class _Lesson(NamedTuple):
    """Training data of one learnt template.

    :param fold: fold of the items that it evaluates, from 1; None if these are held out.
    :param dev: queries that choose the epoch.
    """

    task: str
    fold: int | None
    train: list[Query]
    dev: list[Query]

    def file(self, way: SlotScoring) -> str:
        return learnt_file(self.task, self.fold, way.name)


class OntologyProbe(SlotProbe):
    """See :mod:`fathom.probes.ontology`.

    :raises BadInput: also for user templates with mistakes, tasks without items to learn from, and learnt tokens of a
        model that takes no vectors.
    """

    name = "ontology"
    options: OntologyOptions

    def __init__(self, options: OntologyOptions, model: Model, queryset: QuerySet) -> None:
        self.user_templates = _user_templates(options, queryset)
        self.tasks = list(queryset.by_relation())
        new: Wordings = dict.fromkeys(self.tasks, (SOFT,)) if options.soft else self.user_templates
        super().__init__(options, model, _reworded(queryset, new))
        if options.soft:
            model.require_vectors()
        self.reads_text = not options.soft
        self._learnt: dict[SlotScoring, Tensor] = {}
        self._trained = 0
        self._able: dict[str, frozenset[str]] = {}
        keys = dict.fromkeys((query.relation, _fold(query)) for query in self.queryset.queries)
        templates = sorted(keys, key=lambda key: (self.tasks.index(key[0]), key[1] or 0))
        self._first_learnt = {key: model.vocabulary_size + SOFT_TOKENS * at for at, key in enumerate(templates)}
        """Id of each template's ``<s1>``, by task and fold: ids of learnt tokens follow the vocabulary."""
        self._lessons = [self._lesson(*key) for key in templates] if options.soft else []
        self._check_lessons()

    @staticmethod
    def _alternative(options: OntologyOptions, model: Model) -> str:  # type: ignore[override]
        """Return the statement probe's command for the same queries and candidates."""
        usual = StatementOptions().model_dump()
        differing = {"reduction"} if options.subset != EVERYTHING else {"reduction", "subset"}
        same = options.model_dump(include=usual.keys() - differing)  # the two probes reduce other things
        wanted = [
            word for name, value in same.items() if value != usual[name] for word in typed(type(options), name, value)
        ]
        how = "learnt templates need masks: use words" if options.soft else "use statements"
        less = " (without --own-templates)" if options.own_templates else ""
        command = f"fathom probe statement --model {shlex.quote(model.identity.name)} --data … --out …"
        return f"{how}{less}: {command} {shlex.join(wanted)}".rstrip()

    @classmethod
    def complete_options(cls, options: OntologyT, data: QuerySet) -> OntologyT:  # type: ignore[override]
        return complete_folds(options, data)

    @classmethod
    def prepare_queries(cls, options: OntologyOptions, queryset: QuerySet) -> QuerySet:
        """Return the queries with their folds, if templates are cross-validated."""
        if not (options.cross_validate and options.soft):
            return queryset
        return with_folds(queryset, options.folds or FOLDS, options.seed)

    def count_texts(self, shard: str) -> int:
        if self.options.soft:
            raise BadInput(f"--soft: {NO_ESTIMATE}")
        return super().count_texts(shard)

    def resolved(self) -> Facts:
        texts = {task: [template.text for template in kept] for task, kept in sorted(self.user_templates.items())}
        digest = hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16] if texts else None
        return {**super().resolved(), "own_templates": digest}

    def circumstances(self) -> Facts:
        return {**super().circumstances(), **({"trainings": self._trained} if self.options.soft else {})}

    def _notes(self) -> list[str]:
        if not self.options.soft or self.options.subset != "test":
            return super()._notes()
        whole = (self.queryset.whole or self.queryset).by_relation()
        wanted = [task for task in whole if not self.options.relations or task in self.options.relations]
        bare = [f"{task} ({len(whole[task])} items)" for task in wanted if not self._subset(task, "test")]
        note = f"not evaluated, as no items are held out: {', '.join(bare)}; --cross-validate evaluates them"
        return super()._notes() + ([note] if bare else [])

    def prepare(self, artifacts: Path, progress: Progress) -> None:
        """Write the counts for the frequency baseline, and train the missing soft templates."""
        super().prepare(artifacts, progress)
        self._write_answers(artifacts)
        soft, number = artifacts / "soft", len(self.ways) * len(self._lessons)
        for at, (way, lesson) in enumerate(product(self.ways, self._lessons)):
            progress(at, number)
            if not stands(file := soft / lesson.file(way)):
                self._train(lesson, way, file)
        for way in self.ways if self._lessons else ():
            vectors = [load_learnt(soft / lesson.file(way)) for lesson in self._lessons]
            self._learnt[way] = torch.cat(vectors).to(self.model.device)

    def _write_answers(self, artifacts: Path) -> None:
        whole = self.queryset.whole or self.queryset
        asked, train = (whole.subsets.get(name or "", frozenset()) for name in (self.options.subset, TRAIN))
        held_out = asked and asked.isdisjoint(train)
        training, items = {}, {}
        for task, queries in self._whole.items():
            if held_out and (learnt := self._subset(task, TRAIN)):
                training[task] = [list(query.gold) for query in learnt]
            else:
                items[task] = [[query.subject_id or query.id, list(query.gold)] for query in queries]
        above = {
            space: {query.subject: list(query.gold) for query in whole.queries if query.relation == task}
            for space, task in HIERARCHIES.items()
        }
        for name, noted in ((TRAINING, training), (ITEMS, items), (HIERARCHY, above)):
            if noted:
                write_json(artifacts / name, noted)

    def _train(self, lesson: _Lesson, way: SlotScoring, file: Path) -> None:
        options, task = self.options, lesson.task
        start = (
            random_start(self.model, SOFT_TOKENS, options.seed, task)
            if options.soft_init == "random"
            else word_start(self.model, WORDS.get(task, WORDS["type"]))
        )
        plan = SoftPlan(options.loss, options.epochs, options.learning_rate, options.batch_size, options.seed)
        names = self._names(self._space_of(task), " ")
        items, validation = (self._items(lesson, queries) for queries in (lesson.train, lesson.dev))
        save_learnt(file, learn(self.model, names, way, items, validation, start, plan, self.budget))
        self._trained += 1

    def _lesson(self, task: str, fold: int | None) -> _Lesson:
        """Return a template's training data; with folds, all but its own and the next, which chooses the epoch."""
        if fold is None:
            return _Lesson(task, None, self._subset(task, TRAIN), self._subset(task, DEV))
        queries = {query.id: query for query in self._whole[task]}
        fold_of = folds_of_queries(self._whole[task], self.options.folds or FOLDS, self.options.seed)
        parts = taught(fold_of, fold - 1, self._learnable(task))
        return _Lesson(task, fold, *([queries[id_] for id_ in ids] for ids in parts))

    def _learnable(self, task: str) -> frozenset[str]:
        if task not in self._able:
            name = self._space_of(task)
            alike = _Lesson(task, next(fold for name, fold in self._first_learnt if name == task), [], [])
            queries = [_plain(query, name, alike) for query in self._whole[task]]
            slots, _ = self._sentences(queries, 0, self.queryset.candidates[name])
            self._able[task] = frozenset(item.query.id for item in slots)
        return self._able[task]

    def _items(self, lesson: _Lesson, queries: Sequence[Query]) -> list[GoldSlot]:
        """Return the learnable queries, with learnt tokens numbered as for a single template."""
        name = self._space_of(lesson.task)
        space, ranked = self.queryset.candidates[name], self._names(name, " ").lengths > 0
        slots, _ = self._sentences([_plain(query, name, lesson) for query in queries], 0, space)
        first = self._first_learnt[lesson.task, lesson.fold]

        def alone(ids: Sequence[int]) -> tuple[int, ...]:
            return tuple(id_ - first + self.model.vocabulary_size if id_ >= first else id_ for id_ in ids)

        return [
            GoldSlot(
                Slot(alone(item.slot.before), alone(item.slot.after)),
                tuple(place for place in space.places(item.query.gold) if ranked[place]),
            )
            for item in slots
        ]

    @cached_property
    def _whole(self) -> dict[str, list[Query]]:
        """All items of the selected tasks, selected or not."""
        whole = (self.queryset.whole or self.queryset).by_relation()
        return {task: whole[task] for task in self.tasks}

    def _subset(self, task: str, subset: str) -> list[Query]:
        whole = self.queryset.whole or self.queryset
        ids = whole.subsets.get(subset, frozenset())
        return [query for query in whole.queries if query.relation == task and query.id in ids] if ids else []

    def _space_of(self, task: str) -> str:
        return next(query.candidates for query in self.queryset.queries if query.relation == task)

    def _check_lessons(self) -> None:
        """:raises BadInput: each task that nothing can be learnt of."""
        faults = {}
        for lesson in self._lessons:
            for part, queries in ((TRAIN, lesson.train), (DEV, lesson.dev)):
                if lesson.task not in faults and not self._items(lesson, queries):
                    faults[lesson.task] = self._lacking(lesson, part, len(queries))
        refuse(faults.values())

    def _lacking(self, lesson: _Lesson, part: str, count: int) -> str:
        task, others = lesson.task, ",".join(name for name in self.tasks if name != lesson.task)
        drop = f"drop the task with --relations {others}" if others else "use words, without --soft"
        if lesson.fold is None:
            return (
                f"--soft: none of the {count} items of {task} in the subset {part} can be learnt from; it needs some: "
                f"use --cross-validate, or {drop} (docs/methods/ontology.md)"
            )
        return (
            f"--cross-validate: {task} has {len(self._whole[task])} items, and none of those to {part} fold "
            f"{lesson.fold} can be learnt from; it needs at least {LEAST}, one each to evaluate, choose the epoch and "
            f"learn from: {drop}"
        )

    def _encoded(self, queries: Sequence[Query], prompts: Sequence[Prompt]) -> list[Slot | None]:
        if not self.options.soft:
            return super()._encoded(queries, prompts)
        first = [self._first_learnt[query.relation, _fold(query)] for query in queries]
        return encode_slots(self.model.tokenizer, prompts, first)

    def _slot_scores(self, slots: Sequence[Slot], names: CandidateTokens) -> NDArray[np.float32]:
        """Score each way with its own vectors; ways share no passes."""
        if not self.options.soft:
            return super()._slot_scores(slots, names)
        self._passes += len(set(slots)) * sum(len(names.masks([way])) for way in self.ways)
        return np.concatenate(
            [slot_scores(self.model, slots, names, [way], self.budget, self._learnt[way]) for way in self.ways]
        )


def _fold(query: Query) -> int | None:
    return int(query.groups[FOLD]) if FOLD in query.groups else None


def _plain(query: Query, candidates: str, lesson: _Lesson) -> Query:
    """Return the query for the lesson's template and candidates."""
    groups = query.groups if lesson.fold is None else {**query.groups, FOLD: str(lesson.fold)}
    return replace(query, sentences=(), candidates=candidates, groups=groups)


def _reworded(data: QuerySet, templates: Wordings) -> QuerySet:
    """Replace templates of some relations, and natural sentences of their queries."""
    if not templates:
        return data
    relations = {
        id_: replace(relation, templates=templates.get(id_, relation.templates))
        for id_, relation in data.relations.items()
    }
    queries = [replace(query, sentences=()) if query.relation in templates else query for query in data.queries]
    return replace(data, queries=tuple(queries), relations=relations)


def _user_templates(options: OntologyOptions, data: QuerySet) -> Wordings:
    """Read the templates of ``--own-templates``, by relation."""
    file = options.own_templates
    if file is None:
        return {}
    if options.soft:
        raise BadInput("--own-templates, --soft: give only one of them")
    faults = Faults()
    templates: dict[str, list[Template]] = {}
    for line, row in read_json_lines(file, {"relation": str, "template": str}, faults):
        template = Template(row["template"])
        if row["relation"] not in data.relations:
            there = ", ".join(data.relations)
            faults.add(file, line, f"{data.name} has no relation {row['relation']!r}: it has {there}")
        elif wrong := template.faults() or ([] if SUBJECT in template.text else [f"no {SUBJECT} for the subject"]):
            faults.add(file, line, "; ".join(wrong))
        else:
            templates.setdefault(row["relation"], []).append(template)
    if not templates and not faults.found:
        faults.add(file, None, f'no template in it: write {{"relation": "{TASKS[0]}", "template": "[X] is a [Y] ."}}')
    faults.stop_if_any()
    return {relation: tuple(dict.fromkeys(texts)) for relation, texts in templates.items()}
