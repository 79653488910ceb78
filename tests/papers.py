"""Small models and data for the presets of papers: a part of the geography facts in the layouts of BEAR and T-REx."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from fathom.data.formats import read
from fathom.data.queries import QuerySet
from fathom.training.options import PlantOptions
from fathom.training.planting import plant

SHAPE = {"epochs": 2, "hidden_size": 16, "layers": 1, "heads": 2, "vocabulary": 400}
KINDS = {"gpt2": "causal", "other": "causal", "bert-base-cased": "masked"}
"""Three models, two of which have names that papers know."""
ANIMALS = ("fox", "dog", "cat", "owl", "bee", "bear", "wolf", "hare")
RELATIONS = {"_hypernym": "hypernym", "_part": "part of"}
WORDING = "One has to be a particular if one implies Therefore What is the type of has the Answer Reply"
QUESTIONS = {
    "rdfs9-02": "X is a class {}. Therefore, ",
    "rdfs9-12": "X is the class {}. Therefore, ",
    "rdfs9-22": "class {} is a kind. X is a class {}. Therefore, ",
    "rdfs11-02": "X implies class {}. Therefore, ",
    "rdfs11-22": "class {} is a kind. X implies class {}. Therefore, ",
}
"""Files of questions by rule and premises, with the premises before each question."""
TEMPLATES = {
    "P36": ("The capital of [X] is [Y].", "[Y] is the capital of [X].", "[X] has the capital [Y]."),
    "P30": ("[X] is in [Y].", "[X] is part of [Y].", "The continent of [X] is [Y]."),
}


def plant_models(folder: Path, data: QuerySet, kinds: Mapping[str, str], **options: Any) -> list[Path]:
    """Models of these kinds that have read the facts."""
    for seed, (name, kind) in enumerate(kinds.items()):
        plant(data, PlantOptions(kind=kind, seed=seed, **SHAPE, **options), folder / name)
    return [folder / name for name in kinds]


def facts(capitals: int = 6, subjects: int = 4) -> dict[str, list[tuple[str, str]]]:
    """Subjects and answers: a relation 1:1, and one of three answers."""
    data = read("geography")
    named: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for query in data.queries:
        named[query.relation].append((query.subject, data.candidates[query.candidates].name_of(query.gold[0])))
    by_answer: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for pair in named["continent"]:
        by_answer[pair[1]].append(pair)
    largest = sorted(by_answer.values(), key=len)[-3:]
    return {"P36": named["capital"][:capitals], "P30": [pair for own in largest for pair in own[:subjects]]}


def write_bear(folder: Path, **sizes: int) -> Path:
    """The layout of BEAR."""
    folder.mkdir(parents=True)
    metadata: dict[str, Any] = {}
    for relation, pairs in facts(**sizes).items():
        answers = list(dict.fromkeys(answer for _, answer in pairs))
        space = {"answer_space_labels": answers, "answer_space_ids": answers}
        metadata[relation] = {"templates": TEMPLATES[relation], **space}
        _write(
            folder / f"{relation}.jsonl",
            [
                {"sub_id": subject, "sub_label": subject, "obj_id": answer, "obj_label": answer}
                | {"sub_aliases": [], "answer_idx": answers.index(answer)}
                for subject, answer in pairs
            ],
        )
    (folder / "metadata_relations.json").write_text(json.dumps(metadata))
    return folder


def write_trex(folder: Path, **sizes: int) -> Path:
    """The layout of LAMA's T-REx, with a sentence for each fact."""
    folder.mkdir(parents=True)
    for relation, pairs in facts(**sizes).items():
        lines = [
            {"uuid": f"{relation}-{number}", "sub_uri": subject, "sub_label": subject, "obj_uri": answer}
            | {"obj_label": answer, "predicate_id": relation, "evidences": [_evidence(subject, answer)]}
            for number, (subject, answer) in enumerate(pairs)
        ]
        _write(folder / f"{relation}.jsonl", lines)
    templates = [{"relation": name, "template": own[0], "label": name} for name, own in TEMPLATES.items()]
    _write(folder / "relations.jsonl", templates)
    return folder


def _evidence(subject: str, answer: str) -> dict[str, str]:
    sentence = f"Nobody who has seen {subject} forgets [MASK] , they say ."
    return {"sub_surface": subject, "obj_surface": answer, "masked_sentence": sentence}


def _write(file: Path, lines: list[dict[str, Any]]) -> None:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_graph(folder: Path, size: int = 24, seed: int = 0) -> list[str]:
    """The layout of WN18RR, with two relations, and names of one word. :returns: all words in it."""
    folder.mkdir(parents=True)
    draw = Random(seed)
    names = [f"{colour}{animal}" for colour in ("red", "blue", "old", "new") for animal in ANIMALS][:size]
    triples = [(draw.choice(names), relation, draw.choice(names)) for relation in RELATIONS for _ in range(40)]
    triples = list(dict.fromkeys(triples))
    draw.shuffle(triples)
    for split, own in (("train", triples[:45]), ("dev", triples[45:50]), ("test", triples[50:])):
        (folder / f"{split}.tsv").write_text("".join("\t".join(triple) + "\n" for triple in own))
    (folder / "entity2text.txt").write_text("".join(f"{name}\t{name}\tone that is {name}\n" for name in names))
    (folder / "relation2text.txt").write_text("".join(f"{id_}\t{name}\n" for id_, name in RELATIONS.items()))
    return [
        *names,
        *" ".join(RELATIONS.values()).split(),
        *["one", "that", "is", "This", "sentence", "means", "in", "word"],
    ]


def write_ontology(folder: Path, items: int = 24) -> list[str]:
    """The layout of OntoProbe, with four test items in each task, and questions. :returns: all texts in it."""
    kinds, places = [f"kind {letter}" for letter in "abcdef"], range(items)
    classes = [
        {"rdfs:label": f"class {n}", "rdfs:subClassOf": [kinds[n % 6]], "is rdf:type of": [f"thing {n}"]}
        for n in places
    ]
    above = [f"super {letter}" for letter in "uvwxyz"]
    properties = [
        {"rdfs:label": f"property {n}", "rdfs:domain": kinds[n % 6], "rdf:range": kinds[(n + 1) % 6]}
        | {
            "rdfs:subPropertyOf": {above[n % 6]: f"[X] has the {above[n % 6]} [Y] ."},
            "pattern": f"[X] does {n} to [Y] .",
        }
        for n in places
    ]
    named = [({f"property {n}": f"[X] does {n} to [Y] ."}, n) for n in places]
    tasks = {
        "type": [(f"thing {n}", [f"class {n}", kinds[n % 6]]) for n in places],
        "subClassOf": [(f"class {n}", [kinds[n % 6]]) for n in places],
        "subPropertyOf": [(own, {above[n % 6]: f"[X] has the {above[n % 6]} [Y] ."}) for own, n in named],
        "domain": [(own, [kinds[n % 6]]) for own, n in named],
        "range": [(own, [kinds[(n + 1) % 6]]) for own, n in named],
    }
    for part in ("ontology", "memorizing", "multiple_choice/memorizing", "multiple_choice/reasoning"):
        (folder / part).mkdir(parents=True)
    for name, content in (("class", [*classes, *({"rdfs:label": kind} for kind in kinds)]), ("property", properties)):
        (folder / "ontology" / f"{name}.json").write_text(json.dumps(content))
    for task, pairs in tasks.items():
        _write(folder / "memorizing" / f"{task}.jsonl", [{"uuu": asked, "xxx": right} for asked, right in pairs])
    choices = " ".join(
        f"({letter}) {kind}{',' * (letter != 'f')}" for letter, kind in zip("abcdef", kinds, strict=True)
    )
    for part in ("memorizing/type", "memorizing/subClassOf", *(f"reasoning/{rule}" for rule in QUESTIONS)):
        given = QUESTIONS.get(part.rpartition("/")[2], "")
        asked = "X" if given else f"{'thing' if part.endswith('type') else 'class'} {{}}"
        lines = [
            {"prompt": f"{given}What is the type of {asked}? {choices}".replace("{}", str(n))}
            | {"gold": f"({'abcdef'[n % 6]}) {kinds[n % 6]}"}
            | ({} if not given or part.endswith("-22") else {"premise": f"subClassOf/{n}"})
            for n in range(8)
        ]
        _write(folder / "multiple_choice" / f"{part}.jsonl", lines)
    patterns = [str(own["pattern"]) for own in properties]
    return [*kinds, *above, *patterns, choices, *(f"thing {n} class {n} property {n}" for n in places), WORDING]


def write_places(folder: Path, capitals: int = 12) -> Path:
    """A graph of countries, capitals and continents in the layout of WN18RR; every third capital is held out."""
    folder.mkdir(parents=True)
    triples = [(subject, name, answer) for name, pairs in facts(capitals, 6).items() for subject, answer in pairs]
    held_out = {"dev": triples[1:capitals:3], "test": triples[0:capitals:3]}
    train = [one for one in triples if one not in [*held_out["dev"], *held_out["test"]]]
    for split, own in {"train": train, **held_out}.items():
        lines = ("\t".join(part.replace(" ", "_") for part in one) for one in own)
        (folder / f"{split}.tsv").write_text("".join(f"{line}\n" for line in lines))
    entities = list(dict.fromkeys(part for subject, _, answer in triples for part in (subject, answer)))
    near = [f" near {other}" * (place % 4 == 0) for place, other in enumerate([*entities[1:], ""])]
    described = (
        f"{name.replace(' ', '_')}\t{name}\ta place on maps{about}\n"
        for name, about in zip(entities, near, strict=True)
    )
    (folder / "entity2text.txt").write_text("".join(described))
    (folder / "relation2text.txt").write_text("P36\thas the capital\nP30\tis in\n")
    return folder


def table(out: Path, name: str) -> list[dict[str, Any]]:
    """Return the rows of the only table of a number in the paper."""
    [rows] = json.loads((out / "papers" / f"{name}.json").read_text()).values()
    found: list[dict[str, Any]] = rows
    return found
