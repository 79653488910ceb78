"""Labelled prompts of ``fathom build cloze`` from two corpora: is the answer the listed entity, and is it asked?

The documents of each corpus are divided at random into a development and a held-out part. The rules of the builder were
changed after reading prompts of the development parts alone. Then 200 prompts were drawn from each held-out part, and
labelled twice by the guide in docs/notes/labelling.md. After one more change, 200 others were drawn and labelled.
``labelled.tsv`` identifies all by document and offset.

- ``biomedical``: PubMed records, and the sentences of PubMed in BC5CDR and BC2GM, twenty as a document; their chemicals
  and genes.
- ``general``: manuals and news that installable packages ship (:data:`MANUALS`, :data:`NEWS`); countries and languages
  of ISO 3166 and 639, Pygments' languages and formats, and Freebase's places, people and organisations (FB15k-237).
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import random
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from harness import DATA, Table, benchmark, share_interval
from sklearn.metrics import cohen_kappa_score

from fathom_build.cloze import corpora
from fathom_build.cloze.build import build_cloze
from fathom_build.options import ClozeBuildOptions, ClozeFiles

LABELS = Path(__file__).with_name("labelled.tsv")
SEED, DRAWN = "20261126", 200
HELD_OUT = 128
"""First byte of a digest from which its document is held out."""
BIOMEDICAL, GENERAL = "biomedical", "general"
PUBMED = ("pubmedsample18n0001.xml.gz", "medsamp2014.xml.gz")
TOGETHER = 20
"""Sentences of BC5CDR and BC2GM that count as a document."""
MANUALS = {
    "python": ("usr/share/doc/python3.11/html", "*.html"),
    "debian-faq": ("usr/share/doc/debian/FAQ", "*.html*"),
    "debian-reference-en": ("usr/share/debian-reference", "*.html*"),
    "git": ("usr/share/doc/git", "*.html"),
    "nodejs": ("usr/share/doc/nodejs", "*.md"),
    "cmake": ("usr/share/cmake-3.25/Help", "*.rst"),
    "npm": ("usr/lib/node_modules/npm/docs/content", "*.md"),
}
"""Folders of the packages python3.11-doc, debian-faq, debian-reference-en, git-doc, nodejs and cmake-data."""
CHAPTERS = ["faq", "howto", "tutorial", "library", "reference", "whatsnew", "extending", "using", "installing"]
"""Folders of Python's documentation without its C API, indices and sources."""
NEWS = "gensim/test/test_data/lee_background.cor"
"""300 news stories of Australia's public broadcaster, one a line, in the wheel of gensim 4.4.0."""
KINDS = {
    "places": "city town country state county capital region province island continent river borough municipality "
    "sovereign territory republic district village prefecture neighborhood metropolitan mountain ocean sea community "
    "settlement",
    "people": "actor actress singer politician president writer author musician player footballer director composer "
    "producer philosopher king queen emperor poet novelist comedian rapper screenwriter songwriter scientist physicist "
    "mathematician historian economist journalist lawyer painter artist model businessman entrepreneur leader "
    "statesman guitarist drummer pianist cinematographer editor designer",
    "organisations": "company corporation university college school organization organisation party team club band "
    "network channel label studio army navy agency institution newspaper association union league airline software "
    "bank church government parliament",
}
"""Words of Wikidata's descriptions that determine the list of an entity; the first that fits counts."""
OTHER_KINDS = (
    "film album song series episode award genre novel profession occupation instrument disambiguation surname name"
)
LISTS = {BIOMEDICAL: ("chemicals", "genes"), GENERAL: ("countries", "languages", "software", *KINDS)}


def is_held_out(document: str) -> bool:
    return hashlib.sha256(f"{SEED} {document}".encode()).digest()[0] >= HELD_OUT


# ------------------------------------------------------------------------------------------------------------- corpora


def write_biomedical(folder: Path, *, held_out: bool) -> None:
    """Write the records and sentences of a part."""
    for name in PUBMED:
        content = gzip.decompress((DATA / "biomedical" / "pubmed" / name).read_bytes())
        records = re.findall(
            rb"<PubmedArticle>.*?</PubmedArticle>|<MedlineCitation [^>]*>.*?</MedlineCitation>", content, re.S
        )
        chosen = [one for one in records if is_held_out(re.search(rb"<PMID[^>]*>(\d+)", one)[1].decode()) == held_out]
        tag = b"PubmedArticleSet" if records[0].startswith(b"<Pubmed") else b"MedlineCitationSet"
        head = b'<?xml version="1.0" encoding="utf-8"?>\n'
        (folder / name.removesuffix(".gz")).write_bytes(head + b"<%b>\n%b\n</%b>\n" % (tag, b"\n".join(chosen), tag))
    with (folder / "sentences.jsonl").open("w", encoding="utf-8") as file:
        for corpus in ("BC5CDR-chem-IOB", "BC2GM-IOB"):
            for part in ("train", "devel", "test"):
                said = list(sentences(DATA / "biomedical" / "ner" / corpus / f"{part}.tsv.gz"))
                for start in range(0, len(said), TOGETHER):
                    id_ = f"{corpus}/{part}/{start // TOGETHER}"
                    if is_held_out(id_) == held_out:
                        file.write(json.dumps({"id": id_, "text": "\n\n".join(said[start : start + TOGETHER])}) + "\n")


def sentences(file: Path) -> Iterator[str]:
    """Return tokens joined as in running text."""
    for block in gzip.decompress(file.read_bytes()).decode().split("\n\n"):
        words = [line.split("\t")[0] for line in block.splitlines() if line.strip()]
        text = re.sub(r" ([,.;:%)\]])", r"\1", re.sub(r"([(\[]) ", r"\1", " ".join(words)))
        yield re.sub(r" ([-/']) ", r"\1", text)


def write_general(folder: Path, texts: Path, *, held_out: bool) -> None:
    """Copy the manuals and news of a part."""
    for package, (place, pattern) in MANUALS.items():
        for file in sorted((texts / place).rglob(pattern)):
            inner = file.relative_to(texts / place)
            wanted = package != "python" or inner.parts[0] in CHAPTERS
            name = f"{package}/{file.name if package.startswith('debian') else inner}"
            if wanted and file.is_file() and is_held_out(name) == held_out:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, folder / name)
    stories = (texts / NEWS).read_text(encoding="utf-8", errors="replace").split("\n")
    with (folder / "news.jsonl").open("w", encoding="utf-8") as file:
        for number, story in enumerate(stories):
            if story.strip() and is_held_out(f"lee/{number}") == held_out:
                file.write(json.dumps({"id": f"lee/{number}", "text": story}) + "\n")


def write_lists(folder: Path, texts: Path) -> None:
    """Write the general lists of entities; a name is in the first that has it."""
    from pygments.lexers import get_all_lexers

    codes = texts / "usr" / "share" / "iso-codes" / "json"
    countries = json.loads((codes / "iso_3166-1.json").read_text(encoding="utf-8"))["3166-1"]
    languages = json.loads((codes / "iso_639-2.json").read_text(encoding="utf-8"))["639-2"]
    lists: dict[str, list[list[str]]] = {
        "countries": [
            [c.get("common_name", c["name"]), c["name"], c.get("official_name", c["name"])] for c in countries
        ],
        "languages": [
            [name for name in map(str.strip, one["name"].split(";")) if "(" not in name and "lang" not in name]
            for one in languages
        ],
        "software": [[name] for name, *_ in get_all_lexers()],
        **{kind: [] for kind in KINDS},
    }
    for name, description in described():
        if kind := kind_of(description):
            lists[kind].append([name])
    taken: set[str] = set()
    for kind, entities in lists.items():
        fresh = [
            list(dict.fromkeys(names)) for names in entities if names and not taken & {n.casefold() for n in names}
        ]
        taken |= {name.casefold() for names in fresh for name in names}
        (folder / f"{kind}.txt").write_text("#name\n" + "".join("\t".join(n) + "\n" for n in fresh), encoding="utf-8")


def described() -> Iterator[tuple[str, str]]:
    """Yield FB15k-237's names with Wikidata's descriptions."""
    folder = DATA / "fb15k237"
    about = json.loads(gzip.decompress((folder / "entity2wikidata.json.gz").read_bytes()))
    for line in (folder / "entity2text.txt").read_text(encoding="utf-8").splitlines():
        id_, name = line.split("\t", 1)
        if text := about.get(id_, {}).get("description"):
            yield name.strip(), text


def kind_of(description: str) -> str:
    """Return the list of an entity, "" for none."""
    words = set(re.findall(r"\w+", description.lower()))
    kind = next((kind for kind, marks in KINDS.items() if words & set(marks.split())), "")
    return "" if kind != "people" and words & set(OTHER_KINDS.split()) else kind


# -------------------------------------------------------------------------------------------------------------- prompts


@benchmark
def prompts(
    folder: Path,
    corpus: Literal["biomedical", "general"] = "biomedical",
    texts: Path = Path("/"),
    development: bool = False,
    sheet: bool = False,
) -> None:
    """Build the prompts of a corpus; --sheet: write 200 of the held-out part for labelling.

    --folder: a new folder; --texts: where the packages are unpacked (/ if installed); --development: the other part.
    """
    held_out = not development
    for name in ("texts", "lists"):
        (folder / name).mkdir(parents=True)
    if corpus == BIOMEDICAL:
        write_biomedical(folder / "texts", held_out=held_out)
    else:
        write_general(folder / "texts", texts, held_out=held_out)
        write_lists(folder / "lists", texts)
    files = ClozeFiles(input=(folder / "texts",), entities=lists_of(folder, corpus), out=folder / "built")
    built = build_cloze(files)
    print(*(f"{step.left:7,} {step.what} ({step.dropped:,})" for step in built.steps), *built.notes, sep="\n")
    if sheet:
        write_sheet(folder, drawn(folder / "built"))


def lists_of(folder: Path, corpus: str) -> tuple[str, ...]:
    """Return the lists of entities as ``--entities`` takes them."""
    if corpus == BIOMEDICAL:
        return tuple(f"{kind}={DATA / 'biomedical' / 'ner' / f'{kind}.tsv'}" for kind in LISTS[corpus])
    return tuple(str(folder / "lists" / f"{kind}.txt") for kind in LISTS[corpus])


def drawn(built: Path) -> list[dict[str, Any]]:
    """Draw prompts at random, in random order: none of the first sample."""
    facts = [json.loads(line) for line in (built / "facts.jsonl").read_text(encoding="utf-8").splitlines()]
    first = {(row["document"], row["offset"]) for row in labels() if row["sample"] == "1"}
    fresh = [fact for fact in facts if (fact["groups"]["document"], fact["groups"]["offset"]) not in first]
    return random.Random(SEED).sample(fresh, DRAWN)


def labels() -> list[dict[str, str]]:
    """Read all labelled prompts."""
    with LABELS.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def write_sheet(folder: Path, facts: Sequence[dict[str, Any]]) -> None:
    """Write prompt, masked words, entity, list and the text before; the key to the numbers goes to another file."""
    before = preceding(folder / "texts")
    with (folder / "sheet.tsv").open("w", encoding="utf-8") as sheet, (folder / "key.tsv").open("w") as key:
        for number, fact in enumerate(facts):
            groups, sentence = fact["groups"], fact["sentences"][0]
            prompt = sentence if isinstance(sentence, str) else sentence["text"]
            place = groups["document"], int(groups["offset"])
            cells = (prompt, groups["mention"], fact["answer"], fact["relation"], before(*place))
            print(number, *cells, sep="\t", file=sheet)
            print(number, *place, sep="\t", file=key)


def preceding(folder: Path) -> Any:
    """Return a function of document and offset that returns the 200 characters before."""
    options = ClozeBuildOptions()
    texts: dict[str, str] = {}
    for source in corpora.find_sources([folder], []):
        corpus = corpora.corpus_of(source, options)
        for unit in corpora.units_of(source, corpus):
            if document := corpus.document(unit):
                texts[document.id] = " ".join(part.text for part in document.parts)
    return lambda document, offset: texts[document][max(offset - 200, 0) : offset].strip()


# --------------------------------------------------------------------------------------------------------------- labels


@benchmark
def labelled(sample: Literal["1", "2"] = "2") -> None:
    """Report the labels of a held-out sample: shares by both readings, by either, and agreement."""
    table = Table("corpus", "question", "prompts", "both say yes", "95 %", "either", "95 %", "agreed", "kappa")
    for corpus in (BIOMEDICAL, GENERAL):
        own = [row for row in labels() if (row["sample"], row["corpus"]) == (sample, corpus)]
        for question in ("entity", "asked"):
            pairs = [(row[f"{question}_1"] == "yes", row[f"{question}_2"] == "yes") for row in own]
            cells = []
            for count in (sum(map(all, pairs)), sum(map(any, pairs))):
                share, low, high = share_interval(count, len(pairs))
                cells += [f"{count} ({share:.1%})", f"{low:.1%} to {high:.1%}"]
            agreed = sum(first == second for first, second in pairs)
            kappa = cohen_kappa_score([first for first, _ in pairs], [second for _, second in pairs])
            table.row(corpus, question, len(pairs), *cells, agreed, f"{kappa:.2f}")
