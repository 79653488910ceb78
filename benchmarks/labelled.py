"""The quality stage of ``fathom build cloze`` against 200 labelled sentences of a foreign corpus.

    python benchmarks/labelled.py --draw              # the sentences, without what the filter says of them
    python benchmarks/labelled.py                     # precision and recall against labelled.tsv

The corpus: abstracts of PubMed as BC5CDR and BC2GM have them (CC BY 4.0; tokens joined into text), their annotated
chemicals and genes the lists of entities. Drawn by seed: 100 sentences of each that name one entity once, before any
filter of quality or of words. Labelled by one reader, an automated one, before the filter was run on them, and
checked by no second one: ``leak`` where the rest of the sentence says
the answer or what tells it from others (in another case, form or word, or by its short or long form), ``boilerplate``
where it is no prose but tokens, an address or a table, ``none`` elsewhere.
``labelled.tsv`` has the number of each drawn sentence, its answer and its label.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from fathom.building.cloze.entities import ListedEntity, read_entities
from fathom.building.cloze.options import ClozeBuildOptions, Fault
from fathom.building.cloze.sentences import KEPT, Selector
from fathom.metrics.agreement import share_interval

DATA = Path(os.environ.get("FATHOM_DATA") or Path(__file__).resolve().parents[1] / ".." / "shared" / "data")
LABELS = Path(__file__).parent / "labelled.tsv"
SETS = (("chemicals", "BC5CDR-chem-IOB"), ("genes", "BC2GM-IOB"))
EACH, SEED = 100, 20261123


def sentences(folder: Path) -> Iterator[str]:
    """Of the test part, tokens joined as in running text."""
    [file] = [path for path in sorted(folder.iterdir()) if path.name.startswith("test")]
    for block in gzip.decompress(file.read_bytes()).decode().split("\n\n"):
        words = [line.split("\t")[0] for line in block.splitlines() if line.strip()]
        text = re.sub(r" ([,.;:%)\]])", r"\1", re.sub(r"([(\[]) ", r"\1", " ".join(words)))
        yield re.sub(r" ([-/']) ", r"\1", text)


def drawn() -> list[tuple[int, str, str, ListedEntity]]:
    """Number, masked sentence, answer as it stood, and its entity."""
    found: list[tuple[int, str, str, ListedEntity]] = []
    for type_, folder in SETS:
        every = ClozeBuildOptions(keep=get_args(Fault))
        listed = read_entities([f"{type_}={DATA / 'biomedical' / 'ner' / f'{type_}.tsv'}"], every)
        selector = Selector(listed.entities, every, ())
        named = [
            (sentence.masked, sentence.surface, listed.entities[sentence.entity])
            for text in sentences(DATA / "biomedical" / "ner" / folder)
            for sentence in selector.sentences(text)
            if sentence.outcome == KEPT and sentence.entity is not None
        ]
        chosen = random.Random(SEED).sample(named, EACH)
        found += [(len(found) + place, *one) for place, one in enumerate(chosen)]
    return found


def judged(masked: str, surface: str, entity: ListedEntity) -> str:
    """What the filter says of a sentence, as it stood."""
    selector = Selector([entity], ClozeBuildOptions(), ())
    [*outcomes] = [sentence.outcome for sentence in selector.sentences(masked.replace("[Y]", surface))]
    return next((outcome for outcome in outcomes if outcome != KEPT), KEPT)


def share(name: str, hits: int, of: int) -> str:
    value, low, high = share_interval(hits, of)
    return f"| {name} | {hits} of {of} | {value:.3f} [{low:.3f}, {high:.3f}] |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", action="store_true", help="print the sentences alone")
    chosen = parser.parse_args()
    if chosen.draw:
        for number, masked, surface, _ in drawn():
            print(f"{number}\t{surface}\t{masked}")
        return
    with LABELS.open(encoding="utf-8", newline="") as file:
        labels = {int(row["number"]): row for row in csv.DictReader(file, delimiter="\t")}
    right, said, wrong = 0, 0, []
    for number, masked, surface, entity in drawn():
        assert labels[number]["answer"] == surface, f"{number}: not the sentence that was labelled"
        label, outcome = labels[number]["label"], judged(masked, surface, entity)
        said += outcome != KEPT
        right += label != "none" and outcome != KEPT
        if (label != "none") != (outcome != KEPT):
            wrong.append(f"{number}\t{label}, filter: {outcome}\t{surface}\t{masked}")
    print(share("precision", right, said))
    print(share("recall", right, sum(row["label"] != "none" for row in labels.values())))
    print("\n".join(wrong))


if __name__ == "__main__":
    main()
