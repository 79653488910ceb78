"""Data sets built from ontologies: published ones from file to numbers, and a large one made up at random."""

from __future__ import annotations

import random
import re
from pathlib import Path

from harness import Table, benchmark, fathom_command, peak, scratch, timed

import fathom
from fathom.data.prompts.ontology import TASKS
from fathom.store.folder import RunFolder

SPECIAL = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


HEAD = """@prefix : <http://e.org/> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
"""


def small_bert(folder: Path, data: fathom.QuerySet) -> None:
    """Save a model of random weights, with a token for each word of the data."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

    names = [name for space in data.candidates.values() for name in space.names]
    asked = [text for query in data.queries for text in (query.subject, *(s.text for s in query.sentences))]
    worded = [template.text for relation in data.relations.values() for template in relation.templates]
    words = set(re.findall(r"\w+|[^\w\s]+", " ".join((*names, *asked, *worded))))
    forms = sorted(words | {word[0].upper() + word[1:] for word in words})
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys((*SPECIAL.values(), *forms)))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL["unk_token"]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL).save_pretrained(folder)
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertForMaskedLM(BertConfig(vocab_size=len(vocabulary), **shape)).save_pretrained(folder)


def line_of(file: Path, folder: Path, most: int) -> list[str]:
    """Return a row of the table."""
    fathom_command("build", "ontology", "--input", file, "--out", folder / "data")
    fathom_command("data", "check", folder / "data")
    data = fathom.read_data(folder / "data")
    items = {task: len(queries) for task, queries in data.by_relation().items()}
    small_bert(folder / "bert", data)
    ask = ["probe", "ontology", "--model", folder / "bert", "--data", folder / "data"]
    fathom_command(*ask, "--templates", 0, "--out", folder / "words")
    few = [task for task, number in items.items() if 3 <= number <= most]
    learnt = ["--soft", "--cross-validate", "--epochs", 1, "--relations", ",".join(few), "--out", folder / "learnt"]
    asked = {"words": sum(items.values()), "learnt": sum(items[task] for task in few)}
    if few:
        fathom_command(*ask, *learnt)
    for name, number in asked.items():
        found = len(RunFolder.open(folder / name).queries()) if number else 0
        if found != number:
            raise SystemExit(f"{file}: {found} items were asked {name}, expected {number}")
    counts = (folder / "data" / "manifest.json").read_text(encoding="utf-8")
    classes, properties = (re.findall(rf'"{what}": (\d+)', counts)[0] for what in ("classes", "properties"))
    return [
        f"`{file.name}`",
        classes,
        properties,
        *(str(items.get(task, 0)) for task in TASKS),
        *map(str, asked.values()),
    ]


@benchmark
def ontologies(*files: Path, most: int = 200, folder: Path | None = None) -> None:
    """Build, check and probe published ontologies, one row per file.

    Each goes through `fathom build ontology`, `fathom data check`, `fathom probe ontology` with a small BERT of random
    weights whose vocabulary are the words of the data, and `fathom probe ontology --soft --cross-validate --epochs 1`
    for tasks of up to --most items. A command that fails, or evaluates another number of items than the data have, ends
    it.
    """
    table = Table("file", "classes", "properties", *TASKS, "given templates", "learnt, by folds")
    for file in files:
        with scratch(folder) as place:
            table.row(*line_of(file, place, most))


def make(file: Path, classes: int, instances: int) -> None:
    """An ontology in Turtle."""
    draw = random.Random(0)
    with file.open("w", encoding="utf-8") as out:
        out.write(HEAD)
        for number in range(classes):
            above = f":C{(number - 1) // 8}" if number else "owl:Thing"
            part = f"owl:equivalentClass [ owl:intersectionOf ( {above} [ owl:someValuesFrom :C0 ] ) ]"
            stated = part if number % 10 == 9 else f"rdfs:subClassOf {above}"
            out.write(f':C{number} a owl:Class ; rdfs:label "class {number}"@en ; {stated} .\n')
        for number in range(instances):
            first, second = draw.sample(range(classes), 2)
            out.write(f":Thing_{number} a :C{first} , :C{second} .\n")


@benchmark
def ontology_size(classes: int = 100_000, instances: int = 200_000, folder: Path | None = None) -> None:
    """Measure building a data set from a large random ontology.

    A class is below one of an eighth as many (and every tenth is defined by an intersection), a thing is stated to be
    of two classes that have nothing to do with each other. One thread.
    """
    from fathom_build.ontology import build_ontology
    from fathom_build.options import OntologyBuildOptions

    with scratch(folder) as place:
        file = place / "ontology.ttl"
        make(file, classes, instances)
        built, took = timed(lambda: build_ontology(OntologyBuildOptions(input=(file,), out=place / "built")))
        size = file.stat().st_size / 1e6
    columns = ("instances", "file, MB", "items of type", "items of subClassOf", "s", "s of the processor", "peak, GiB")
    cells = (f"{instances:,}", f"{size:.0f}", f"{built.tasks['type']:,}", f"{built.tasks['subClassOf']:,}")
    Table("classes", *columns).row(f"{len(built.classes):,}", *cells, *(f"{s:.0f}" for s in took), f"{peak():.2f}")
