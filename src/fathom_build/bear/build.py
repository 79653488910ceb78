"""The build: facts of Wikidata, one filter after the other, balanced variants, and a folder in BEAR's layout.

The folder is the small variant; ``big/`` in it is the large one, as BEAR-big is next to BEAR.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from fathom._version import VERSION
from fathom.base.errors import BadInput, RunFailed, all_of, refuse
from fathom.base.progress import Progress, log, unseen
from fathom.base.reading import Json, stands
from fathom.base.reading.bounds import MEGABYTE
from fathom.data.formats import read
from fathom.data.formats.base import ABOUT
from fathom.data.formats.bear import DATES, POPULARITIES, BearInstance, BearRelation, write_bear, write_shared
from fathom.data.queries import QuerySet
from fathom.data.statistics import CountTokens
from fathom.results.tables import Table, render
from fathom.store.files import check_name, make_folder, write_json, write_json_lines, write_text
from fathom.store.locks import exclusive_folder
from fathom.store.outputs import obstacles, signature_of, whole_folder
from fathom_build.bear.balance import ChosenRelation, sample
from fathom_build.bear.facts import (
    LEFT_OVER,
    Answer,
    FactPool,
    FactStore,
    Instance,
    Log,
    gather,
    pool_of,
    read_views,
    wanted_of,
)
from fathom_build.bear.plan import BearPlan, read_plan
from fathom_build.bear.review import (
    DROP,
    SHEET,
    Decisions,
    Outlier,
    balance,
    by_relation,
    left_out,
    outliers_of,
    read_decisions,
    sizes,
    slot_notes,
    write_audit,
    write_decisions,
    write_template_sheet,
)
from fathom_build.bear.sources import Dump, WikidataServer, WikidataSource, sources_of
from fathom_build.ontology.sources import Endpoint
from fathom_build.options import BearBuildOptions
from fathom_build.sheets import AUDIT_FILE, REVIEW_FILE, Notes

LOG_FILE, ALIASES, STATISTICS = "log.jsonl", "aliases.jsonl", "statistics.json"
LICENCE = "CC0-1.0 (Wikidata)"
INFEASIBLE = "relation is infeasible in the largest variant"
_NO_FORECAST = "–: a dump below 64 MB, or partly read already; triples and endpoints cannot be estimated"
_WORTH_KEEPING = MEGABYTE
"""Bytes of parts that are kept and mentioned after a refusal."""


class BuiltBear(NamedTuple):
    """A probe that was made.

    :param chosen: relations of each variant, infeasible ones included; the variants from the largest on.
    :param outliers: answers for a person to decide on.
    :param counts: what was left out of each relation, by reason.
    """

    out: Path
    chosen: dict[str, list[ChosenRelation]]
    outliers: list[Outlier]
    counts: dict[str, dict[str, int]]
    notes: list[str]
    tables: list[Table]


def build_bear(
    options: BearBuildOptions, progress: Progress = unseen, count_tokens: CountTokens | None = None
) -> BuiltBear:
    """Write a balanced probe to a new folder.

    :param progress: called with (bytes read, bytes to read) of each pass.
    :param count_tokens: counts the tokens of texts, for the share of answers that are one token.
    :raises BadInput: all that is wrong with options and files, or no relation is feasible; nothing is written.
    :raises MadeBefore: the same call has made the folder.
    """
    endpoints = [Endpoint(address, options) for address in options.endpoint]
    plan, views, desk, signature = _checked(options)
    wanted = wanted_of(plan)
    sources, decisions = all_of(
        lambda: sources_of(options.input, wanted, desk, options, progress),
        lambda: read_decisions(options.review, plan.properties),
    )
    sources += [WikidataServer(endpoint, wanted, progress) for endpoint in endpoints]
    with _desk(desk, options.parts is not None), _fact_store(desk, views) as store:
        builder = _Builder(store, plan, decisions, options.audit)
        gather(sources, store, plan)
        builder.choose()
        with whole_folder(options.out, signature) as folder:
            tables = builder.write(folder, sources, count_tokens)
    return BuiltBear(options.out, builder.chosen, builder.outliers, builder.counts(), builder.notes, tables)


def forecast_bear(options: BearBuildOptions) -> Table:
    """Return the time and the space on the disk that each source takes. Nothing is written, and no server is called.

    :raises BadInput: as the build would, before it reads.
    """
    plan, _, desk, _ = _checked(options)
    sources = sources_of(options.input, wanted_of(plan), desk, options, unseen)
    works = [(source.name, source.forecast() if isinstance(source, Dump) else None) for source in sources]
    rows = tuple((name, *(work or [None] * 4)) for name, work in (*works, *((at, None) for at in options.endpoint)))
    notes = ("minutes: at most, for each of two passes; GB on the disk: with what is sorted", _NO_FORECAST)
    return Table(("source", "minutes", "processes", "GB on the disk", "GB free"), rows, "estimates", notes=notes)


def _checked(options: BearBuildOptions) -> tuple[BearPlan, Mapping[int, int] | None, Path, Json]:
    """Return the plan, the page views, the folder of parts and the signature of a build."""
    files = [*options.input, *filter(None, (options.plan, options.review, options.views))]
    decisive = options.model_dump(mode="json", include={"endpoint", "partial", "tokenizer", "audit"})
    signature = signature_of("build bear", decisive, files=files)
    desk = options.parts or check_name(options.out).with_name(f"{options.out.name}.parts")
    plan, views, _ = all_of(
        lambda: read_plan(options.plan), lambda: read_views(options.views), lambda: _check(options, desk, signature)
    )
    return plan, views, desk, signature


@contextmanager
def _desk(desk: Path, keep: bool) -> Iterator[None]:
    """Keep others out of the folder of parts, and remove the parts if the build succeeds, unless *keep*."""
    with exclusive_folder(desk):
        try:
            yield
        except BaseException as error:
            parts = list(_parts(desk))
            size = sum(file.stat().st_size for folder in parts for file in folder.iterdir())
            if isinstance(error, BadInput) and size < _WORTH_KEEPING:
                _remove([] if keep else parts)
            elif parts:
                log(f"{desk} has what was read of the dump; the same command reads that instead")
            raise
        if not keep:
            _remove(_parts(desk))


def _parts(desk: Path) -> Iterator[Path]:
    return desk.glob("[0-9a-f]" * 16)


def _remove(folders: Iterable[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _fact_store(desk: Path, views: Mapping[int, int] | None) -> Iterator[FactStore]:
    """Open an empty store in the folder, and remove it in the end."""
    file = desk / ".facts.sqlite"
    try:
        make_folder(desk)
        file.unlink(missing_ok=True)  # of a command that was killed
        store = FactStore(file, views)
    except (OSError, sqlite3.Error) as error:
        raise RunFailed(f"cannot write {file}: {error}") from error
    try:
        yield store
    except sqlite3.Error as error:
        raise RunFailed(f"cannot keep facts in {desk}: {error}; what was read of a dump is kept") from error
    finally:
        store.close()
        file.unlink(missing_ok=True)


def _check(options: BearBuildOptions, desk: Path, signature: Json) -> None:
    faults = obstacles(options.out, signature)
    if stands(desk) and not desk.is_dir():
        faults.append(f"{desk} is not a folder: give another one with --parts")
    if not options.input and not options.endpoint:
        faults.append("nothing to build from: give Wikidata's dump with --input, or a server with --endpoint")
    refuse(faults)


class _Builder:
    """One build, from facts on disk to files."""

    def __init__(self, store: FactStore, plan: BearPlan, decisions: Decisions, audit: int) -> None:
        self._store, self._plan, self._decisions, self._audit = store, plan, decisions, audit
        self._log = Log()
        self.chosen: dict[str, list[ChosenRelation]] = {name: [] for name in plan.variants()}
        self.outliers: list[Outlier] = []
        self.notes = Notes()
        self._facts: dict[str, int] = {}

    def choose(self) -> None:
        """Choose the instances of each relation in each variant. :raises BadInput: no relation is feasible in any."""
        for relation in self._plan.relations:
            for line in self._store.statements.lines():
                if line["relation"] == relation.property and line["why"]:
                    what = f"statements that do not count: {line['why']}"
                    self._log.say(relation.property, what, count=line["left_out"], examples=line["examples"])
            dropped = frozenset(
                number
                for (choices, number), choice in self._decisions.items()
                if choices == relation.property and choice.decision == DROP
            )
            pool = pool_of(self._store, relation, self._plan, dropped, self._log)
            self._facts[relation.property] = pool.facts
            self.outliers += outliers_of(self._store, pool, self._decisions)
            self._choose_of(pool)
        if not any(choice.answers for choices in self.chosen.values() for choice in choices):
            raise BadInput(["no relation meets the constraints of the plan: nothing is written", *self._infeasible()])
        self._note_relations()

    def _infeasible(self) -> Iterable[str]:
        for name, choices in self.chosen.items():
            for choice in choices:
                yield f"{choice.relation} in {name}: {choice.why}"
        for relation, counts in self.counts().items():
            reasons = "; ".join(f"{count:,} {why}" for why, count in counts.items() if count and why != INFEASIBLE)
            yield f"{relation}: of {self._facts[relation]:,} facts that count, left out: {reasons or 'none'}"

    def _choose_of(self, pool: FactPool) -> None:
        """Choose each smaller variant from the larger one, if that is feasible."""
        for place, (name, limits) in enumerate(self._plan.variants().items()):
            choice = sample(pool, name, limits, self._plan)
            self.chosen[name].append(choice)
            about = {"cardinality": choice.cardinality, "chosen": choice.configuration, "infeasible": choice.why}
            self._log.say(choice.relation, f"configuration of {name}", **about, others=dict(choice.others))
            if place == 0:
                rest = sum(len(answer.instances) for answer in pool.answers) - choice.total
                self._log.drop(choice.relation, LEFT_OVER if choice.answers else INFEASIBLE, count=rest)
            if choice.answers:
                relation = pool.relation.model_copy(update={"cardinality": choice.cardinality})
                pool = pool._replace(answers=list(choice.answers), relation=relation)

    def _note_relations(self) -> None:
        for name, choices in self.chosen.items():
            gone = [f"{choice.relation} ({choice.why})" for choice in choices if not choice.answers]
            self.notes.add_all(gone, f"relations are infeasible in {name} and left out")
        largest = {choice.relation: choice for choice in next(iter(self.chosen.values()))}
        for relation in self._plan.relations:
            self.notes += slot_notes(relation, largest[relation.property])
            subjects, several = self._store.subjects(relation.property)
            if several > subjects / 2:
                self.notes.append(
                    f"{relation.property}: {several:,} of {subjects:,} subjects have several answers: lists of answers "
                    "may be incomplete, so that right answers count as wrong; think of leaving the relation out"
                )
        open_ = [f"{choice.relation} {choice.name}" for choice in self.outliers if not choice.decision]
        self.notes.add_all(open_, f"answers are of another kind than most: decide on them in {REVIEW_FILE}")

    def counts(self) -> dict[str, dict[str, int]]:
        """Count what was left out of each relation, by reason, including statements that do not count."""
        logs = self._store.statements, self._log
        return {
            property_: {why: count for log in logs for why, count in log.counts_of(property_).items() if why}
            for property_ in self._plan.properties
        }

    def write(self, folder: Path, sources: Sequence[WikidataSource], count_tokens: CountTokens | None) -> list[Table]:
        """Write all files. :returns: tables about them."""
        for source in sources:
            self.notes += dict.fromkeys(source.notes)
        feasible = ((name, [choice for choice in choices if choice.answers]) for name, choices in self.chosen.items())
        variants = {name: choices for name, choices in feasible if choices}
        *_, root = variants  # the smallest is the folder itself
        places = {name: folder if name == root else folder / name for name in variants}
        relations = {name: [self._relation(choice) for choice in choices] for name, choices in variants.items()}
        for name, place in places.items():
            place.mkdir(exist_ok=True)
            write_bear(place, relations[name], spaces=place == folder)
            write_json(place / ABOUT, {"licence": LICENCE})
        lite = _positions(relations["big"], relations["small"]) if len(relations) > 1 else {}
        write_shared(
            folder, list({choice.id: choice for choices in relations.values() for choice in choices}.values()), lite
        )
        tables = self._tables(variants, {name: read(place) for name, place in places.items()}, count_tokens)
        self._write_review(folder, variants, tables)
        write_json(folder / "manifest.json", self._manifest(root, variants, sources))
        return tables

    def _relation(self, choice: ChosenRelation) -> BearRelation:
        plan = next(instance for instance in self._plan.relations if instance.property == choice.relation)
        answers = [(f"Q{answer.number}", answer.name) for answer in choice.answers]
        instances = [
            BearInstance(
                f"Q{instance.subject}",
                instance.name,
                self._store.aliases(instance.subject),
                place,
                _groups(instance, answer),
            )
            for place, answer in enumerate(choice.answers)
            for instance in answer.instances
        ]
        return BearRelation(choice.relation, plan.templates, answers, instances, plan.domains)

    def _tables(
        self,
        variants: Mapping[str, Sequence[ChosenRelation]],
        data: Mapping[str, QuerySet],
        count_tokens: CountTokens | None,
    ) -> list[Table]:
        largest = {choice.relation: choice.total for choice in next(iter(self.chosen.values()))}
        tables = [left_out(self._log, self._facts, largest), sizes(variants)]
        for name, choices in self.chosen.items():
            tables.append(by_relation(name, choices))
            if name in data:
                tables.append(balance(name, data[name], count_tokens))
        return tables

    def _write_review(
        self, folder: Path, variants: Mapping[str, Sequence[ChosenRelation]], tables: Sequence[Table]
    ) -> None:
        largest = {choice.relation: choice for choices in reversed(list(variants.values())) for choice in choices}
        used: dict[tuple[str, int], list[str]] = {}
        for name, choices in variants.items():
            for choice in choices:
                for answer in choice.answers:
                    used.setdefault((choice.relation, answer.number), []).append(name)
        write_decisions(folder / REVIEW_FILE, self.outliers, used)
        write_template_sheet(folder / SHEET, self._plan, largest)
        if self._audit:
            write_audit(folder / AUDIT_FILE, self._plan, largest, self._audit)
        write_json_lines(folder / LOG_FILE, self._log.lines())
        write_json_lines(folder / ALIASES, self._names(largest.values()))
        write_json(folder / STATISTICS, {table.title: table.objects() for table in tables})
        write_text(folder / "statistics.md", render(list(tables), "md") + "\n")

    def _names(self, choices: Iterable[ChosenRelation]) -> Iterable[Json]:
        """Yield all entities with their other names, each once."""
        names = {answer.number: answer.name for choice in choices for answer in choice.answers}
        names |= {at.subject: at.name for choice in choices for answer in choice.answers for at in answer.instances}
        for number, name in sorted(names.items()):
            yield {"id": f"Q{number}", "label": name, "aliases": self._store.aliases(number)}

    def _manifest(
        self, root: str, variants: Mapping[str, Sequence[ChosenRelation]], sources: Sequence[WikidataSource]
    ) -> Json:
        """Return the manifest. It is independent of day and place, so the same data give the same bytes."""
        return {
            "command": "fathom build bear",
            "fathom": VERSION,
            "options": self._plan.model_dump(mode="json"),
            "sources": [source.name for source in sources],
            "variants": {name: "." if name == root else name for name in variants},
            "instances": {name: sum(choice.total for choice in choices) for name, choices in variants.items()},
            "decisions": sum(bool(choice.decision) for choice in self.outliers),
            "left_out": self.counts(),
            "notes": list(self.notes),
        }


def _positions(big: Sequence[BearRelation], small: Sequence[BearRelation]) -> dict[str, list[int]]:
    """Return the rows of the small variant's instances in the large one, by relation."""

    def pairs(relation: BearRelation) -> list[tuple[str, str]]:
        return [(instance.subject_id, relation.answers[instance.answer][0]) for instance in relation.instances]

    rows = {relation.id: {pair: row for row, pair in enumerate(pairs(relation))} for relation in big}
    return {
        relation.id: sorted(rows[relation.id][pair] for pair in pairs(relation))
        for relation in small
        if relation.id in rows
    }


def _groups(instance: Instance, answer: Answer) -> dict[str, str | int]:
    dates = zip(DATES, (instance.valid_from, instance.valid_until), strict=True)
    popular = zip(POPULARITIES, (instance.popularity, answer.popularity), strict=True)
    return {name: date for name, date in dates if date} | dict(popular)
