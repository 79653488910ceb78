"""The ontology probe (OntoProbe, Wu et al. 2023): types, super-classes, super-properties, domains and ranges.

A preset of the cloze probe, and besides it soft templates: three learnt tokens between subject and answer, trained once
for each task and way of scoring on the data's subset ``train``, the best epoch chosen on ``dev``. See
docs/methods/ontology.md.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fathom.data.queries import Query, QuerySet
from fathom.data.templates import SUBJECT, Prompt, Template
from fathom.errors import BadInput, refuse
from fathom.models.base import Model
from fathom.probes.base import Facts, Progress
from fathom.probes.options import OntologyOptions, StatementOptions
from fathom.probes.slot import SlotProbe
from fathom.prompts.ontology import TASKS
from fathom.reading import Faults, read_json_lines, stands
from fathom.scoring.slots import Names, Slot, Way, encode_slots, slot_scores
from fathom.store.files import write_json
from fathom.training.soft import (
    GoldSlot,
    SoftPlan,
    learn,
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
"""What ``--soft-init words`` begins with: the reference code's words."""
TRAIN, DEV = "train", "dev"
TRAINING = "training.json"
"""Artifact: of each task the right answers of the training items, which the frequency baseline counts."""


class Probe(SlotProbe):
    """See :class:`fathom.probes.slot.SlotProbe`.

    :raises BadInput: also for own templates with mistakes, and for tasks without items to learn from.
    """

    name = "ontology"
    options: OntologyOptions

    def __init__(self, options: OntologyOptions, model: Model, queryset: QuerySet) -> None:
        self.own = _own_templates(options, queryset)
        self.tasks = list(queryset.by_relation())
        new: Wordings = dict.fromkeys(self.tasks, (SOFT,)) if options.soft else self.own
        super().__init__(options, model, _reworded(queryset, new))
        self._learnt: dict[Way, Tensor] = {}
        self._trained = 0
        if options.soft:
            self._check_tasks()

    @staticmethod
    def _instead(options: Any, model: Model) -> str:
        """The statement probe's command for the same queries and candidates."""
        usual = StatementOptions()
        same = {name: getattr(options, name) for name in StatementOptions.model_fields if hasattr(options, name)}
        same.pop("reduction")  # the two probes reduce other things
        wanted = [_flag(name, value) for name, value in same.items() if value != getattr(usual, name)]
        how = "learnt templates need masks, so ask it by words" if options.soft else "ask it by statements"
        less = " (--own-templates are left out)" if options.own_templates else ""
        command = ["fathom probe statement --model", shlex.quote(model.identity.name), "--data … --out …", *wanted]
        return f"{how}{less}: {' '.join(command)}"

    def resolved(self) -> Facts:
        """With a digest of the user's own templates."""
        own = {relation: [template.text for template in templates] for relation, templates in sorted(self.own.items())}
        digest = hashlib.sha256(json.dumps(own).encode()).hexdigest()[:16] if own else None
        return {**super().resolved(), "own_templates": digest}

    def circumstances(self) -> Facts:
        """Also how many trainings it took."""
        return {**super().circumstances(), **({"trainings": self._trained} if self.options.soft else {})}

    def prepare(self, artifacts: Path, progress: Progress) -> None:
        """Note what the frequency baseline counts, and train the soft templates that are not there yet."""
        super().prepare(artifacts, progress)
        seen = {task: [list(query.gold) for query in self._subset(task, TRAIN)] for task in self.tasks}
        write_json(artifacts / TRAINING, {task: golds for task, golds in seen.items() if golds})
        if not self.options.soft:
            return
        files = {
            (way, task): artifacts / "soft" / f"{quote(task, safe='')}-{way.name}.safetensors"
            for way in self.ways
            for task in self.tasks
        }
        for number, ((way, task), file) in enumerate(files.items()):
            progress(number, len(files))
            if not stands(file):
                self._train(task, way, file)
        for way in self.ways:
            vectors = [load_learnt(files[way, task]) for task in self.tasks]
            self._learnt[way] = torch.cat(vectors).to(self.model.device)

    def _train(self, task: str, way: Way, file: Path) -> None:
        options = self.options
        start = (
            random_start(self.model, SOFT_TOKENS, options.seed, task)
            if options.soft_init == "random"
            else word_start(self.model, WORDS.get(task, WORDS["type"]))
        )
        plan = SoftPlan(options.loss, options.epochs, options.learning_rate, options.batch_size, options.seed)
        names = self._names(self._space_of(task), " ")
        items, validation = self._items(task, TRAIN), self._items(task, DEV)
        save_learnt(file, learn(self.model, names, way, items, validation, start, plan, self.budget))
        self._trained += 1

    def _items(self, task: str, subset: str) -> list[GoldSlot]:
        """Those of the task that can be learnt from, its learnt tokens numbered as if it were alone."""
        name = self._space_of(task)
        space, ranked = self.queryset.candidates[name], self._names(name, " ").lengths > 0
        queries = [replace(query, sentences=(), candidates=name) for query in self._subset(task, subset)]
        asked, _ = self._sentences(queries, 0, space)
        first = self._first_learnt(task)

        def alone(ids: Sequence[int]) -> tuple[int, ...]:
            return tuple(id_ - first + self.model.vocabulary_size if id_ >= first else id_ for id_ in ids)

        return [
            GoldSlot(
                Slot(alone(item.slot.before), alone(item.slot.after)),
                tuple(place for place in space.places(item.query.gold) if ranked[place]),
            )
            for item in asked
        ]

    def _first_learnt(self, task: str) -> int:
        """The id of the task's ``<s1>``: learnt tokens are numbered on from the vocabulary, task by task."""
        return self.model.vocabulary_size + SOFT_TOKENS * self.tasks.index(task)

    def _subset(self, task: str, subset: str) -> list[Query]:
        whole = self.queryset.whole or self.queryset
        ids = whole.subsets.get(subset, frozenset())
        return [query for query in whole.queries if query.relation == task and query.id in ids] if ids else []

    def _space_of(self, task: str) -> str:
        """Name of the candidate set that the task's queries choose among."""
        return next(query.candidates for query in self.queryset.queries if query.relation == task)

    def _check_tasks(self) -> None:
        faults = [
            f"--soft: none of the {len(self._subset(task, subset))} items of {task} in the subset {subset} can be "
            "learnt from; it needs some (docs/methods/ontology.md)"
            for task in self.tasks
            for subset in (TRAIN, DEV)
            if not self._items(task, subset)
        ]
        refuse(faults)

    def _encoded(self, queries: Sequence[Query], prompts: Sequence[Prompt]) -> list[Slot | None]:
        if not self.options.soft:
            return super()._encoded(queries, prompts)
        first = [self._first_learnt(query.relation) for query in queries]
        return encode_slots(self.model.tokenizer, prompts, first)

    def _slot_scores(self, slots: Sequence[Slot], names: Names) -> NDArray[np.float32]:
        """Each way has vectors of its own, so that ways share no passes."""
        if not self.options.soft:
            return super()._slot_scores(slots, names)
        self._passes += len(set(slots)) * sum(len(names.masks([way])) for way in self.ways)
        return np.concatenate(
            [slot_scores(self.model, slots, names, [way], self.budget, self._learnt[way]) for way in self.ways]
        )


def _reworded(data: QuerySet, templates: Wordings) -> QuerySet:
    """*data* with other templates for some relations, also where queries have sentences of their own."""
    if not templates:
        return data
    relations = {
        id_: replace(relation, templates=templates.get(id_, relation.templates))
        for id_, relation in data.relations.items()
    }
    queries = [replace(query, sentences=()) if query.relation in templates else query for query in data.queries]
    return replace(data, queries=tuple(queries), relations=relations)


def _own_templates(options: OntologyOptions, data: QuerySet) -> Wordings:
    """Those of the file, by relation.

    :raises BadInput: each line that is no template of a relation of *data*.
    """
    file = options.own_templates
    if file is None:
        return {}
    if options.soft:
        raise BadInput("--own-templates are words, --soft has learnt tokens instead: give one of them")
    faults = Faults()
    found: dict[str, list[Template]] = {}
    for line, row in read_json_lines(file, {"relation": str, "template": str}, faults):
        template = Template(row["template"])
        if row["relation"] not in data.relations:
            there = ", ".join(data.relations)
            faults.add(file, line, f"{data.name} has no relation {row['relation']!r}: it has {there}")
        elif wrong := template.faults() or ([] if SUBJECT in template.text else [f"no {SUBJECT} for the subject"]):
            faults.add(file, line, "; ".join(wrong))
        else:
            found.setdefault(row["relation"], []).append(template)
    if not found and not faults.found:
        faults.add(file, None, f'no template in it: write {{"relation": "{TASKS[0]}", "template": "[X] is a [Y] ."}}')
    faults.stop_if_any()
    return {relation: tuple(dict.fromkeys(templates)) for relation, templates in found.items()}


def _flag(name: str, value: Any) -> str:
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{flag}" if value else f"--no-{flag}"
    return f"--{flag} {shlex.quote(','.join(map(str, value)) if isinstance(value, tuple) else str(value))}"
