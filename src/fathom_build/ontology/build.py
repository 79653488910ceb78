"""The build: an ontology from RDF files or SPARQL endpoints, and the files of the memorising tasks (section 2.2)."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

from fathom._version import VERSION
from fathom.base.errors import BadInput, all_of, refuse
from fathom.base.progress import Progress, unseen
from fathom.base.reading import Json
from fathom.data.formats import read
from fathom.data.formats.ontology import Axioms, read_axioms, write_axioms
from fathom.data.formats.ontoprobe import (
    LEAST_ITEMS,
    SPLIT_SIZES,
    OntologyClass,
    OntologyProperty,
    clean,
    is_ontoprobe,
    read_shape,
    task_lines,
    write_ontoprobe,
)
from fathom.data.nonce import nonce_words
from fathom.data.prompts.ontology import RULES, TASKS, few_items, one_answer
from fathom.data.templates import ANSWER, SUBJECT
from fathom.results.tables import Table
from fathom.store.files import write_json, write_text
from fathom.store.outputs import obstacles, signature_of, whole_folder
from fathom_build.ontology.gathering import (
    SIDES,
    Classes,
    Properties,
    gather_classes,
    gather_properties,
    unknown_patterns,
)
from fathom_build.ontology.hierarchy import read_assertions, vocabulary, with_disjoint
from fathom_build.ontology.intake import LABEL_PROPERTIES, Intake, Naming, note_omissions
from fathom_build.ontology.sources import Endpoint, Source, find_files, load, not_read
from fathom_build.options import OntologyBuildOptions
from fathom_build.sheets import Notes, read_pairs

FORMAT = 1
NAMES = "names.tsv"
"""Of an ontology with nonce names: what each stands for."""
_ENDS = tuple(accumulate(SPLIT_SIZES.values(), initial=0))
"""Where the splits of a task begin and end among its items."""


class BuiltOntology(NamedTuple):
    """:param tasks: items of each.
    :param defaults: labels whose pattern is the default.
    :param from_iris: labels that are ends of IRIs, as nothing else names what has them.
    """

    out: Path
    classes: list[OntologyClass]
    properties: list[OntologyProperty]
    tasks: dict[str, int]
    defaults: set[str]
    notes: list[str]
    from_iris: list[str]


def build_ontology(options: OntologyBuildOptions, progress: Progress = unseen) -> BuiltOntology:
    """Write classes, properties and task files to a new folder in OntoProbe's layout.

    :param progress: called with (bytes read, bytes to read) of files, then (classes done, classes).
    :raises BadInput: everything wrong with the options or files, an endpoint that does not answer, or no item of any
        task; nothing is written.
    :raises MadeBefore: the same call has made the folder.
    """
    endpoints = [Endpoint(address, options) for address in options.endpoint]
    naming = Naming(options.language, options.label_property or LABEL_PROPERTIES, options.names_from_iris)
    part = {"endpoints": list(options.endpoint), "instances": options.instances, "seed": options.seed}
    read_from = [*options.input, *([options.patterns] if options.patterns is not None else [])]
    part |= {"nonce": True} if options.nonce else {}
    signature = signature_of("build ontology", part | naming._asdict(), files=read_from)
    shape = options.input[0] if options.nonce and len(options.input) == 1 and is_ontoprobe(options.input[0]) else None
    files, patterns, *_ = all_of(
        lambda: [] if shape else find_files(options.input),
        lambda: read_patterns(options.patterns),
        lambda: refuse([*_option_faults(options), *obstacles(options.out, signature)]),
        naming.iris,
    )
    notes = Notes()
    notes.add_all(not_read(options.input), "files in folders are in a syntax that is not read")
    classes, properties, axioms, triples = (
        _read(shape, options.instances)
        if shape
        else _gather(options, files, endpoints, patterns, naming, notes, progress)
    )
    notes.add_all(unknown_patterns(patterns, properties.entries), f"names in {options.patterns} are of no property")
    nonce = NonceNames(classes, properties, options.seed) if options.nonce else None
    if nonce:
        classes, properties, axioms = nonce.rename(classes, properties, axioms)
    tasks = {task: _shuffled(rows, task, options.seed) for task, rows in _tasks(classes, properties.entries).items()}
    some = _with_items(tasks, ", ".join(source.name for source in (*files, *endpoints)), notes)
    _note_rules(some, properties, notes)
    counts = {task: len(some.get(task, ())) for task in TASKS}
    called = [*classes.from_iris, *properties.from_iris]
    built = BuiltOntology(options.out, classes.entries, properties.entries, counts, properties.defaults, notes, called)
    with whole_folder(options.out, signature) as folder:
        write_ontoprobe(folder, built.classes, built.properties, built.defaults, some)
        write_axioms(folder, axioms)
        if nonce:
            write_text(folder / NAMES, nonce.lines())
        labels = {"labels": {"language": naming.language, "properties": naming.iris()}} if naming != Naming() else {}
        write_json(folder / "manifest.json", _manifest(built, options, files, triples) | labels)
    return built


def _gather(
    options: OntologyBuildOptions,
    files: Sequence[Path],
    endpoints: Sequence[Endpoint],
    patterns: Mapping[str, str],
    naming: Naming,
    notes: Notes,
    progress: Progress,
) -> tuple[Classes, Properties, Axioms, int]:
    """Gather what all sources contain, and count the triples of the files that are kept."""
    with ExitStack() as stack:
        sources: list[Source] = list(endpoints)
        intake = Intake(naming)
        triples = 0
        if files:
            store = load(files, options.out.parent, stack, progress, intake.take)
            triples = len(store)
            sources.insert(0, store)
            intake.note(notes)
        read = partial(read_assertions, files, endpoints, intake.predicates, notes)
        classes = gather_classes(sources, options.instances, options.seed, naming, notes, progress, read)
        properties = gather_properties(sources, classes, patterns, naming, notes)
        axioms = with_disjoint(properties.axioms, sources, classes.entries, notes)
        intake.note_bare(notes, classes.label_of)
        if classes.bare or properties.bare:
            intake.note_languages(notes)
        note_omissions(sources, {file.name for file in files}, notes)
    return classes, properties, axioms, triples


def _read(shape: Path, instances: int) -> tuple[Classes, Properties, Axioms, int]:
    """Read the shape of a folder in OntoProbe's layout, with at most so many instances of each class."""
    read(shape)  # which checks it
    entries, all_ = read_shape(shape)
    entries = [entry._replace(instances=entry.instances[:instances]) for entry in entries]
    classes = {name for entry in entries for name in (entry.label, *entry.superclasses)}

    def among(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(name for name in names if name in classes)

    properties = [entry._replace(domains=among(entry.domains), ranges=among(entry.ranges)) for entry in all_]
    axioms = read_axioms(shape)
    return Classes(entries, {}, {}, (), {}, (), 0), Properties(properties, axioms, set(), (), 0), axioms, 0


def _tasks(classes: Classes, properties: Sequence[OntologyProperty]) -> dict[str, list[Json]]:
    """Return the items of each task. All that is stated of a thing, or follows, is right."""
    tasks = task_lines(classes.entries, properties)
    above = {class_.label: class_.superclasses for class_ in classes.entries}
    for row in tasks["type"]:
        stated = classes.types.get(clean(row["uuu"]), ())
        row["xxx"] = list(dict.fromkeys((*row["xxx"], *(name for kind in stated for name in (kind, *above[kind])))))
    return tasks


def read_patterns(file: Path | None) -> dict[str, str]:
    """Read a line for each property: its label, IRI or number (P54), a tab, and "[X] plays for [Y] .".

    :raises BadInput: every line that is not so.
    """
    if file is None:
        return {}
    return read_pairs(
        file,
        f"a property, a tab, and a sentence with {SUBJECT} and {ANSWER}, each once",
        lambda name, pattern: (
            (name, pattern) if name and pattern.count(SUBJECT) == 1 and pattern.count(ANSWER) == 1 else None
        ),
    )


def _option_faults(options: OntologyBuildOptions) -> Iterator[str]:
    if not options.input and not options.endpoint:
        yield "nothing to build from: give RDF files with --input, or a server with --endpoint"
    if options.nonce and options.patterns is not None:
        yield "--patterns, --nonce: give only one of them; nonce words have sentences of their own"


def _with_items(tasks: Mapping[str, list[Json]], sources: str, notes: Notes) -> dict[str, list[Json]]:
    """Return the tasks with items. :raises BadInput: there is none."""
    some = {task: rows for task, rows in tasks.items() if rows}
    none = ", ".join(task for task in tasks if task not in some)
    if not some:
        advice = f"load more with --input{', or see what was left out' if notes else ''}"
        raise BadInput([f"{sources}: no items for any task ({none}): {advice}", *notes])
    if none:
        notes.append(f"tasks left out, as nothing is stated that they could ask for: {none}")
    few = [f"{task} has {len(rows)}" for task, rows in some.items() if len(rows) < LEAST_ITEMS]
    if few:
        held_out = f"{SPLIT_SIZES['train']} to train, {SPLIT_SIZES['dev']} to validate, 1 to test"
        notes.append(
            f"tasks with fewer than {LEAST_ITEMS} items ({held_out}): {', '.join(few)}; all their items are asked, and "
            "learnt templates (--soft) need --cross-validate"
        )
    return some


def _note_rules(tasks: Mapping[str, list[Json]], properties: Properties, notes: Notes) -> None:
    """Note the rules of entailment that have too few items, or the same answer everywhere."""
    open_ = {side: {entry.label for entry in properties.entries if side in entry.one_of} for side in SIDES}
    answers = {
        rule: [next(iter(row["xxx"])) for row in tasks.get(task, ()) if open_.get(task, set()).isdisjoint(row["uuu"])]
        for rule, task in RULES.items()
    }
    notes += [*few_items(answers), *one_answer(answers)]


def _shuffled(rows: list[Json], task: str, seed: int) -> list[Json]:
    """Shuffle rows after sorting them, so that the order in which sources answer decides nothing."""
    ordered = sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))
    random.Random(f"{seed} {task}").shuffle(ordered)
    return ordered


def _manifest(built: BuiltOntology, options: OntologyBuildOptions, files: Sequence[Path], triples: int) -> Json:
    """Return the manifest. It is independent of day and place, so the same files give the same bytes."""
    return {
        "format": FORMAT,
        "sources": {
            "files": [{"name": file.name, "bytes": file.stat().st_size} for file in files],
            "triples_kept": triples,
            "endpoints": list(options.endpoint),
        },
        "seed": options.seed,
        "instances_per_class": options.instances,
        "splits": SPLIT_SIZES,
        "counts": {
            "classes": len(built.classes),
            "instances": sum(len(class_.instances) for class_ in built.classes),
            "properties": len(built.properties),
            "tasks": built.tasks,
        },
        "default_patterns": sorted(built.defaults),
        "notes": built.notes,
        "version": VERSION,
    } | ({"labels_from_iris": sorted(built.from_iris)} if built.from_iris else {})


def ontology_tables(built: BuiltOntology) -> list[Table]:
    """Tabulate the numbers of classes, properties and instances, and the items of each task."""
    counts = {
        "classes": len(built.classes),
        "  with instances": sum(bool(entry.instances) for entry in built.classes),
        "  with super-classes": sum(bool(entry.superclasses) for entry in built.classes),
        "instances": sum(len(entry.instances) for entry in built.classes),
        "properties": len(built.properties),
        "  aligned with another vocabulary": sum(
            len(set(map(vocabulary, entry.iris))) > 1 for entry in built.properties
        ),
        "  equivalent to another of their own": sum(
            len(set(map(vocabulary, entry.iris))) < len(entry.iris) for entry in built.properties
        ),
        "default patterns (super-properties', too)": len(built.defaults),
    }
    if built.from_iris:
        counts["labels from the ends of IRIs"] = len(built.from_iris)
    notes = (
        (f'default patterns ("[X]\'s … is [Y] ."): {", ".join(sorted(built.defaults)[:5])}; --patterns gives better',)
        if built.defaults
        else ()
    )
    tasks: tuple[tuple[str | int, ...], ...] = tuple(
        (task, items, *(max(min(items, end) - start, 0) for start, end in pairwise(_ENDS)))
        for task, items in built.tasks.items()
    )
    return [
        Table(("what", "number"), tuple(counts.items()), "the ontology", notes=notes),
        Table(("task", "items", *SPLIT_SIZES), tasks, "the tasks"),
    ]


class NonceNames:
    """Nonce words by original name, in the order of the names."""

    def __init__(self, classes: Classes, properties: Properties, seed: int) -> None:
        words = nonce_words(seed)
        axioms = properties.axioms
        in_axioms = (*axioms.symmetric, *axioms.transitive, *(name for pair in axioms.inverse for name in pair))
        in_entries = (name for entry in properties.entries for name in (entry.label, *entry.superproperties))
        in_classes = (name for entry in classes.entries for name in (entry.label, *entry.superclasses))
        things = (clean(name) for entry in classes.entries for name in entry.instances)
        self.properties = {name: f"{next(words)}s" for name in _sorted(in_axioms, in_entries)}
        self.classes = {name: next(words) for name in _sorted(in_classes)}
        self.things = {name: next(words).capitalize() for name in _sorted(things)}

    def lines(self) -> Iterator[str]:
        """Yield a line for each name: what it names, the original and the nonce word."""
        for kind in ("classes", "properties", "things"):
            yield from (f"{kind}\t{name}\t{word}\n" for name, word in getattr(self, kind).items())

    def rename(self, classes: Classes, properties: Properties, axioms: Axioms) -> tuple[Classes, Properties, Axioms]:
        """Return an ontology of the same shape. IRIs are replaced, too."""
        types = {
            self.things[name]: self._classes(kinds) for name, kinds in classes.types.items() if name in self.things
        }
        renamed = Axioms(
            [(self.properties[first], self.properties[second]) for first, second in axioms.inverse],
            [self.properties[name] for name in axioms.symmetric],
            [self.properties[name] for name in axioms.transitive],
            [self._classes(group) for group in axioms.disjoint],
        )
        return (
            classes._replace(entries=list(map(self._class, classes.entries)), types=types, from_iris=()),
            properties._replace(entries=list(map(self._property, properties.entries)), defaults=set(), from_iris=()),
            renamed,
        )

    def _class(self, entry: OntologyClass) -> OntologyClass:
        word = self.classes[entry.label]
        things = dict.fromkeys(self.things[clean(name)] for name in entry.instances)
        return OntologyClass(f"urn:nonce:{word}", word, self._classes(entry.superclasses), tuple(things))

    def _property(self, entry: OntologyProperty) -> OntologyProperty:
        word = self.properties[entry.label]
        return entry._replace(
            iris=(f"urn:nonce:{word}",),
            label=word,
            domains=self._classes(entry.domains),
            ranges=self._classes(entry.ranges),
            superproperties={self.properties[name]: _pattern(self.properties[name]) for name in entry.superproperties},
            pattern=_pattern(word),
        )

    def _classes(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(self.classes[name] for name in names)


def _pattern(word: str) -> str:
    return f"{SUBJECT} {word} {ANSWER} ."


def _sorted(*names: Iterable[str]) -> list[str]:
    return sorted({name for group in names for name in group})
