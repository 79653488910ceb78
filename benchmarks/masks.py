"""Whether prompts of ``fathom build cloze`` mask an entity, in sentences in which people marked the entities."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from harness import DATA, Table, benchmark, share_interval

from fathom.data.templates import ANSWER
from fathom_build.cloze.build import build_cloze
from fathom_build.options import ClozeBuildOptions, ClozeFiles

FOLDER = DATA / "biomedical"
OPENING, CLOSING = frozenset("([/-'"), frozenset(".,;:)]%/-'")
"""Signs without a space after or before them."""


class MarkedSentence(NamedTuple):
    """:param marked: first and last character of each entity that people marked."""

    text: str
    marked: list[tuple[int, int]]

    @property
    def names(self) -> list[str]:
        return [self.text[start:end] for start, end in self.marked]


def read_marked(folder: str, splits: Sequence[str]) -> Iterator[MarkedSentence]:
    """Yield sentences of files with a token and its tag (B, I, O) per line."""
    for split in splits:
        tokens: list[list[str]] = []
        with gzip.open(FOLDER / "ner" / folder / f"{split}.tsv.gz", "rt", encoding="utf-8") as file:
            for line in (*file, "\n"):
                if line.strip():
                    tokens.append(line.rstrip("\n").split("\t"))
                elif tokens:
                    yield joined(tokens)
                    tokens = []


def joined(tokens: Sequence[Sequence[str]]) -> MarkedSentence:
    """Write tokens as a text."""
    text, marked = "", []
    for token, tag in tokens:
        apart = text and token[0] not in CLOSING and text[-1] not in OPENING
        text += f" {token}" if apart else token
        if tag[0] == "B":
            marked.append((len(text) - len(token), len(text)))
        elif tag[0] == "I" and marked:
            marked[-1] = (marked[-1][0], len(text))
    return MarkedSentence(text, marked)


def prompts(names: Sequence[str], sentences: Sequence[MarkedSentence]) -> Iterator[tuple[str, str, bool]]:
    """Build a data set. Yield the mention and the prompt of each fact, and whether an entity is marked there."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        listed = sorted({text for text in names if any(map(str.isalnum, text))})
        (folder / "names.txt").write_text("#name\n" + "\n".join(listed) + "\n", encoding="utf-8")
        lines = (
            json.dumps({"id": str(number), "text": sentence.text}) + "\n" for number, sentence in enumerate(sentences)
        )
        (folder / "texts.jsonl").write_text("".join(lines), encoding="utf-8")
        files = ClozeFiles(
            out=folder / "out", input=(folder / "texts.jsonl",), entities=(f"names={folder / 'names.txt'}",)
        )
        build_cloze(files, ClozeBuildOptions())
        facts = [json.loads(line) for line in (folder / "out" / "facts.jsonl").open(encoding="utf-8")]
    for fact in facts:
        mention, [prompt] = fact["groups"]["mention"], fact["sentences"]
        start = int(fact["groups"]["offset"]) + prompt.index(ANSWER)
        marked = sentences[int(fact["groups"]["document"])].marked
        yield mention, prompt, any(first < start + len(mention) and start < last for first, last in marked)


@benchmark
def masks(mistakes: int = 10) -> None:
    """Measure how many prompts mask an entity that people marked in these sentences.

    Chemicals of ChemDNER's training articles in all sentences of BC5CDR, and genes of BC2GM's development and test
    sentences in those of its training. Entities that people overlooked count as mistakes. Intervals are Wilson's, 95 %;
    the --mistakes most frequent mentions of each that are not marked are printed.
    """
    chemdner = (FOLDER / "chemdner" / "train_mentions.tsv").read_text(encoding="utf-8").splitlines()
    genes = [name for sentence in read_marked("BC2GM-IOB", ("devel", "test")) for name in sentence.names]
    cases = {
        "chemicals": ([line.split("\t")[-1] for line in chemdner], "BC5CDR-chem-IOB", ("train", "devel", "test")),
        "genes": (genes, "BC2GM-IOB", ("train",)),
    }
    table, unmarked = Table("names", "prompts", "of a marked entity", "95 %"), Counter[tuple[str, str]]()
    hits: Counter[str] = Counter()
    for kind, (names, folder, splits) in cases.items():
        found = list(prompts(names, list(read_marked(folder, splits))))
        unmarked.update((kind, mention) for mention, _, is_marked in found if not is_marked)
        hits.update({"all": len(found), "marked": sum(is_marked for *_, is_marked in found)})
        share, low, high = share_interval(sum(is_marked for *_, is_marked in found), len(found))
        table.row(kind, len(found), f"{100 * share:.1f} %", f"{100 * low:.1f} to {100 * high:.1f}")
    share, low, high = share_interval(hits["marked"], hits["all"])
    table.row("both", hits["all"], f"{100 * share:.1f} %", f"{100 * low:.1f} to {100 * high:.1f}")
    for kind in cases:
        most = Counter({mention: count for (of, mention), count in unmarked.items() if of == kind}).most_common(
            mistakes
        )
        print(f"{kind}, not marked: {', '.join(f'{mention} ({count})' for mention, count in most)}")
