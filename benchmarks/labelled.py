"""The quality stage of ``fathom build cloze`` against labelled sentences of another corpus, in two samples of 200.

The corpus: abstracts of PubMed as BC5CDR and BC2GM have them (CC BY 4.0; tokens joined into text), their annotated
chemicals and genes the lists of entities, sentences that name one entity once, before any filter of quality or of
words. Labelled by one reader, an automated one, before the filter was run on them, and checked by no second one:
``leak`` where the rest of the sentence says the answer or what tells it from others (in another case, form or word, or
by its short or long form), ``boilerplate`` where it is no prose but tokens, an address or a table, ``none`` elsewhere.
The tables have the number of each drawn sentence, its answer and its label.

- ``first``: 100 of each list from the test parts. The filter's mistakes on it were read, and rules made after them:
  what it shows now is how far they fit.
- ``second``: from the other parts, once the rules stood; 60 of each list that are likelier to leak (:func:`likely`) and
  40 of the others, weighted by how many they stand for. No rule was made after its mistakes; one defect was mended
  (docs/benchmarks.md says which).
"""

from __future__ import annotations

import csv
import gzip
import math
import random
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from harness import DATA, Table, benchmark

from fathom.building.cloze.boilerplate import boilerplate
from fathom.building.cloze.entities import ListedEntity, read_entities
from fathom.building.cloze.leaks import Leaks
from fathom.building.cloze.options import ClozeBuildOptions, Fault
from fathom.building.cloze.sentences import KEPT, Selector
from fathom.metrics.descriptive import share_interval

HERE = Path(__file__).parent
SETS = (("chemicals", "BC5CDR-chem-IOB"), ("genes", "BC2GM-IOB"))
FIRST, SECOND = "first", "second"
LABELS = {FIRST: HERE / "labelled.tsv", SECOND: HERE / "labelled-second.tsv"}
EACH, SEED = 100, 20261123
LIKELY, OTHERS, SECOND_SEED = 60, 40, 20261124
_WORD = re.compile(r"[^\W_]+")


class SampledSentence(NamedTuple):
    """:param weight: how many sentences it stands for, over how many all of the sample do on average."""

    masked: str
    surface: str
    entity: ListedEntity
    weight: float = 1.0
    likely: bool = False


def sentences(folder: Path, parts: Sequence[str]) -> Iterator[str]:
    """Tokens joined as in running text."""
    for part in parts:
        for block in gzip.decompress((folder / f"{part}.tsv.gz").read_bytes()).decode().split("\n\n"):
            words = [line.split("\t")[0] for line in block.splitlines() if line.strip()]
            text = re.sub(r" ([,.;:%)\]])", r"\1", re.sub(r"([(\[]) ", r"\1", " ".join(words)))
            yield re.sub(r" ([-/']) ", r"\1", text)


def likely(masked: str, surface: str) -> bool:
    """Looser than any rule of the filter: four letters that begin a word of the answer and another one of the sentence,
    a bracket around or next to the answer, or a word with two capitals whose letters the answer has in turn.
    """
    before, _, after = masked.partition("[Y]")
    beginnings = {word[:4] for word in _WORD.findall(surface.casefold()) if len(word) >= 4}
    if beginnings & {word[:4] for word in _WORD.findall(f"{before} {after}".casefold())}:
        return True
    inside = before.rfind("(") > before.rfind(")")
    if inside or re.match(r"\W*[(\[]", after):
        return True
    codes = (word.lower() for word in _WORD.findall(f"{before} {after}") if sum(map(str.isupper, word)) >= 2)
    return any(_in_turn(code, surface.lower()) for code in codes)


def _in_turn(letters: str, text: str) -> bool:
    rest = iter(text)
    return letters[0] == text[0] and all(letter in rest for letter in letters)


def named_once(type_: str, folder: str, parts: Sequence[str]) -> list[SampledSentence]:
    """All that name one entity once."""
    every = ClozeBuildOptions(keep=get_args(Fault), min_words=0, min_letters=1, hyphenated=True)
    listed = listed_of(type_)
    selector = Selector(listed, every, ())
    return [
        SampledSentence(sentence.masked, sentence.surface, listed[sentence.entity])
        for text in sentences(DATA / "biomedical" / "ner" / folder, parts)
        for sentence in selector.sentences(text)
        if sentence.outcome == KEPT and sentence.entity is not None
    ]


@cache
def listed_of(type_: str) -> Sequence[ListedEntity]:
    """The entities of a type."""
    return read_entities([f"{type_}={DATA / 'biomedical' / 'ner' / f'{type_}.tsv'}"], ClozeBuildOptions()).entities


def drawn(sample: str) -> list[SampledSentence]:
    """Return the sample's sentences by number."""
    if sample == FIRST:
        return [
            one
            for type_, folder in SETS
            for one in random.Random(SEED).sample(named_once(type_, folder, ["test"]), EACH)
        ]
    found: list[SampledSentence] = []
    draw = random.Random(SECOND_SEED)
    for type_, folder in SETS:
        every = list(dict.fromkeys(named_once(type_, folder, ["train", "devel"])))
        marked = [one._replace(likely=likely(one.masked, one.surface)) for one in every]
        for wanted, is_likely in ((LIKELY, True), (OTHERS, False)):
            stratum = [one for one in marked if one.likely == is_likely]
            weight = len(stratum) / wanted / len(every) * (LIKELY + OTHERS)
            found += [one._replace(weight=weight) for one in draw.sample(stratum, wanted)]
    draw.shuffle(found)  # so that their order does not reveal the strata
    return found


def judged(one: SampledSentence) -> str:
    """Return the filter's decision on a sentence, given the whole list."""
    before, _, after = one.masked.partition("[Y]")
    kind = leaks_of(one.entity.type).kind(before, after, one.surface, listed_of(one.entity.type).index(one.entity))
    return boilerplate(f"{before}{one.surface}{after}", ()) or kind


@cache
def leaks_of(type_: str) -> Leaks:
    """The search for leaks in sentences of a type."""
    return Leaks([entity.names for entity in listed_of(type_)], ())


def share(name: str, sentences: Sequence[SampledSentence], hits: Sequence[SampledSentence]) -> tuple[str, ...]:
    """Return a row of the table: counted, with Wilson's interval, and weighted."""
    value, low, high = share_interval(len(hits), len(sentences))
    weighted = sum(one.weight for one in hits) / (sum(one.weight for one in sentences) or 1)
    counted = f"{len(hits)} of {len(sentences)}", f"{value:.3f} [{low:.3f}, {high:.3f}]"
    effective = sum(one.weight for one in sentences) ** 2 / (sum(one.weight**2 for one in sentences) or 1)
    low, high = wilson(weighted, effective)
    return name, *counted, f"{weighted:.3f} [{low:.3f}, {high:.3f}]"


def wilson(part: float, of: float, z: float = 1.959964) -> tuple[float, float]:
    """The interval of a weighted share; *of* is how many sentences of one weight would tell as much (Kish)."""
    middle, wide = part + z * z / (2 * of), z * math.sqrt(part * (1 - part) / of + z * z / (4 * of * of))
    return tuple((middle + sign * wide) / (1 + z * z / of) for sign in (-1, 1))


@benchmark
def labelled(sample: Literal["first", "second"] = "second", draw: bool = False) -> None:
    """Measure the quality stage against labelled sentences; --draw: print the sentences alone."""
    sentences = drawn(sample)
    if draw:
        print("\n".join(f"{number}\t{one.surface}\t{one.masked}" for number, one in enumerate(sentences)))
        return
    with LABELS[sample].open(encoding="utf-8", newline="") as file:
        labels = {int(row["number"]): row for row in csv.DictReader(file, delimiter="\t")}
    bad, said, wrong = [], [], []
    for number, one in enumerate(sentences):
        assert labels[number]["answer"] == one.surface, f"{number}: not the sentence that was labelled"
        label, outcome = labels[number]["label"], judged(one)
        bad += [one] * (label != "none")
        said += [one] * bool(outcome)
        if (label != "none") != bool(outcome):
            wrong.append(f"{number}\t{label}, filter: {outcome or KEPT}\t{one.surface}\t{one.masked}")
    right = [one for one in said if one in bad]
    table = Table("", "counted", "Wilson, 95 %", "weighted")
    table.row(*share("precision", said, right))
    table.row(*share("recall", bad, right))
    for is_likely in (True, False):
        own = [[one for one in group if one.likely == is_likely] for group in (said, bad, right)]
        name = "likely" if is_likely else "others"
        print(f"{name}: {len(own[0])} left out, {len(own[1])} labelled, {len(own[2])} of both")
    print("\n".join(wrong))
