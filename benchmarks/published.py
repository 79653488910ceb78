"""The published data sets of the catalogue, compared with what the json and csv modules read of the same files."""

from __future__ import annotations

import csv
import gzip
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness import DATA, Table, benchmark

from fathom.base.errors import BadInput, RunFailed
from fathom.data.fetch import fetch as fetch_entry
from fathom.data.formats import examine
from fathom.data.options import FetchOptions
from fathom.data.published import PublishedDataset, catalogue
from fathom.data.queries import Query, QuerySet

Expected = tuple[str, ...]
"""Of a query: subject, text (of a sentence or question, "" for neither) and the names of the gold answers. Of a graph:
split, head, relation and tail."""


def text_of(file: Path) -> str:
    """Return the text of a file, compressed or not; of ``x.jsonl`` that of ``x.jsonl.gz`` if only this is there."""
    packed = file.with_name(f"{file.name}.gz")
    file = file if file.exists() else packed
    return gzip.decompress(file.read_bytes()).decode() if file.suffix == ".gz" else file.read_text(encoding="utf-8")


def lines(file: Path) -> list[Any]:
    return [json.loads(line) for line in text_of(file).split("\n") if line.strip()]


def files(folder: Path, pattern: str) -> list[Path]:
    return sorted({*folder.glob(pattern), *folder.glob(f"{pattern}.gz")})


def bear(folder: Path) -> Iterator[Expected]:
    for file in files(folder, "P*.jsonl"):
        yield from ((row["sub_label"], "", row["obj_label"]) for row in lines(file))


def kamel(folder: Path) -> Iterator[Expected]:
    for file in files(folder, "P*/test.jsonl"):
        for row in lines(file):
            yield row["sub_label"], "", *sorted({label["chosen"] for label in row["obj_label"]})


def lama(folder: Path) -> Iterator[Expected]:
    """An id has one name, the first."""
    names: dict[str, str] = {}
    for file in (*files(folder, "P*.jsonl"), *files(folder, "*test.jsonl")):
        for row in lines(file):
            id_ = row.get("obj_uri") or row.get("obj") or row["obj_label"]
            subject = "" if folder.name == "Squad" else row.get("sub_label", row.get("sub")) or ""
            yield subject, "", names.setdefault(id_, row["obj_label"])


def biolama(folder: Path) -> Iterator[Expected]:
    for row in lines(folder / "wikidata_triples.jsonl"):
        yield row["sub_label"], "", *sorted(set(row["obj_labels"]))


def popqa(folder: Path) -> Iterator[Expected]:
    """The first gold answer; the others are names that the table mixes."""
    for file in files(folder, "*.tsv"):
        for row in csv.DictReader(text_of(file).split("\n"), delimiter="\t"):
            yield row["subj"], f"{row['question']} [Y]", row["obj"]


def counterfact(folder: Path) -> Iterator[Expected]:
    for file in files(folder, "counterfact-*.json"):
        for row in json.loads(text_of(file)):
            for name in ("prompt", "rephrase_prompt"):
                yield row["subject"], f"{row[name].rstrip()} [Y]", row["ground_truth"]
            yield "", f"{row['locality_prompt'].rstrip()} [Y]", row["locality_ground_truth"]


def zsre(folder: Path) -> Iterator[Expected]:
    for file in files(folder, "zsre_mend*.json"):
        for row in json.loads(text_of(file)):
            for name in ("src", "rephrase"):
                yield row["subject"], f"{row[name].rstrip()} [Y]", *sorted(set(row["answers"]))
            yield "", f"{row['loc'].rstrip()} [Y]", row["loc_ans"]


def tofu(folder: Path) -> Iterator[Expected]:
    seen = set()
    for file in files(folder, "*_perturbed.json"):
        for row in lines(file):
            key = (file.name[:6], row["question"], row["answer"])
            if key not in seen:
                seen.add(key)
                yield "", f"{row['question'].rstrip()} [Y]", row.get("paraphrased_answer", row["answer"])


def lre(folder: Path) -> Iterator[Expected]:
    for file in files(folder, "*/*.json"):
        yield from ((pair["subject"], "", pair["object"]) for pair in json.loads(text_of(file))["samples"])


def entityquestions(folder: Path) -> Iterator[Expected]:
    templates = json.loads(text_of(folder / "relation_query_templates.json"))
    for file in files(folder, "test/P*.test.json"):
        before, after = templates[file.name.split(".")[0]].split("[X]")
        for row in json.loads(text_of(file)):
            subject = row["question"][len(before) : len(row["question"]) - len(after)]
            yield subject, f"{row['question']} [Y]", *sorted(set(row["answers"]))


def bmlama(folder: Path) -> Iterator[Expected]:
    for file in files(folder, "*.tsv"):
        text = text_of(file)
        quoting = csv.QUOTE_MINIMAL if '""' in text else csv.QUOTE_NONE
        for row in list(csv.reader(text.split("\n"), delimiter="\t", quoting=quoting))[1:]:
            if row:
                yield row[3], row[0].replace("<mask>", "[Y]"), row[1]


def dyknow(folder: Path) -> Iterator[Expected]:
    def nodes(value: dict[str, Any], place: tuple[str, ...]) -> Iterator[Expected]:
        if "answers" not in value:
            for key, inner in value.items():
                yield from nodes(inner, (*place, key))
            return
        now = {answer.split("|")[0].strip() for answer in value["answers"] if "|E:" not in answer}
        every = {answer.split("|")[0].strip() for answer in value["answers"]}
        yield place[1], f"{next(iter(value['questions'].values())).rstrip()} [Y]", *sorted(now or every)

    yield from nodes(json.loads(text_of(folder / "grc_generated.json")), ())


def known(folder: Path) -> Iterator[Expected]:
    for row in json.loads(text_of(folder / "known_1000.json")):
        yield row["subject"], f"{row['prompt'].rstrip()} [Y]", row["attribute"]


def fictional(folder: Path) -> Iterator[Expected]:
    for row in json.loads(text_of(folder / "fictional_knowledge.json")):
        for kind in ("mem", "gen", "hard_gen"):
            for text, answer in zip(row[f"{kind}_input"], row[f"{kind}_target"], strict=True):
                yield "", f"{text.rstrip()} [Y]", answer


def ontoprobe(folder: Path) -> Iterator[Expected]:
    def clean(name: str) -> str:
        return " ".join("".join(" " if sign in "-()/" else sign for sign in name).split())

    for file in files(folder, "memorizing/*.jsonl"):
        for row in lines(file):
            subject = row["uuu"] if isinstance(row["uuu"], str) else next(iter(row["uuu"]))
            yield clean(subject), "", *sorted(set(map(clean, row["xxx"])))


def triples(folder: Path) -> Iterator[Expected]:
    for split, names in {"train": ("train",), "dev": ("dev", "valid"), "test": ("test",)}.items():
        for file in (path for name in names for ending in ("tsv", "txt") for path in files(folder, f"{name}.{ending}")):
            yield from ((split, *line.split("\t")) for line in text_of(file).split("\n") if line)


Parse = Callable[[Path], Iterator[Expected]]
HERE: dict[str, tuple[Parse, tuple[str, ...]]] = {
    "BEAR": (bear, ("bear/BEAR",)),
    "BEAR-big": (bear, ("bear/BEAR-big",)),
    "LAMA": (lama, ("lama/TREx", "lama/Google_RE", "lama/Squad")),
    "ParaRel": (lama, ("lama/TREx_facts",)),
    "KAMEL": (kamel, ("kamel",)),
    "BioLAMA": (biolama, ("biomedical/biolama",)),
    "OntoProbe": (ontoprobe, ("ontoprobe",)),
    "PopQA": (popqa, ("popqa",)),
    "CounterFact": (counterfact, ("counterfact",)),
    "zsRE": (zsre, ("zsre",)),
    "TOFU": (tofu, ("tofu",)),
    "LRE": (lre, ("lre",)),
    "EntityQuestions": (entityquestions, ("entityquestions",)),
    "BMLAMA": (bmlama, ("bmlama53",)),
    "DyKnow": (dyknow, ("dyknow",)),
    "WN18RR": (triples, ("wn18rr",)),
    "FB15k-237": (triples, ("fb15k237",)),
    "CoDEx-S": (triples, ("codex/codex-s",)),
    "CoDEx-M": (triples, ("codex/codex-m",)),
    "Facts that GPT-2 XL knows": (known, ("counterfact/known_1000.json",)),
    "Fictional Knowledge": (fictional, ("fictional_knowledge",)),
}
"""For each data set its independent parser and its folders in the reference data."""


def actual(data: QuerySet, parse: Parse) -> Iterator[Expected]:
    """Yield what the reader gives, in the terms of the parser."""
    if parse is triples:
        assert data.graph is not None
        ids = {name: getattr(data.graph, name).column("id").to_pylist() for name in ("entities", "relations")}
        for split, rows in data.graph.splits.items():
            for row in rows:
                head, tail = (ids["entities"][int(column[row])] for column in (data.graph.head, data.graph.tail))
                yield split, head, ids["relations"][int(data.graph.relation[row])], tail
        return
    for query in data.queries:
        names = [data.candidates[query.candidates].name_of(answer) for answer in query.gold]
        yield query.subject, _text(data, query, parse), *(names[:1] if parse is popqa else sorted(names))


def _text(data: QuerySet, query: Query, parse: Parse) -> str:
    questions = data.relations[query.relation].questions
    if parse in (popqa, entityquestions):
        return questions[0].fill(query.subject, "[Y]", capitalize=False).text
    return query.sentences[0].text if query.sentences and parse not in (lama, ontoprobe) else ""


def places(entry: PublishedDataset, fetch: bool) -> list[Path]:
    """Return the folders of a data set. :raises BadInput: with the reason why it is not here."""
    here = [DATA / folder for folder in HERE[entry.name][1]] if entry.name in HERE else []
    if not fetch and here and all(folder.exists() for folder in here):
        return here
    if entry.unchecked:
        raise BadInput(entry.unchecked)
    if not fetch or not entry.sources:
        raise BadInput(f"not in {DATA.name}")
    folder = fetch_entry(entry, FetchOptions(name=entry.name)).folder
    return [folder / part for part in entry.reads or ("",)]


@benchmark
def published(rows: int = 20, seed: int = 0, fetch: bool = False) -> None:
    """Read every data set of the catalogue that can be obtained, and compare it with an independent parse.

    All queries are compared as a multiset, and ``--rows`` random ones one by one. ``--fetch`` fetches what has an
    address in place of the reference data.
    """
    table = Table("data set", "folder", "queries", "faults", "equal", "random rows equal")
    failed = 0
    for entry in catalogue().values():
        try:
            folders = places(entry, fetch)
        except (BadInput, RunFailed) as error:
            table.row(entry.name, str(error), "", "", "", "")
            continue
        for folder in folders:
            data, faults = examine(folder)
            parse = HERE[entry.name][0]
            expected = Counter(parse(folder if folder.is_dir() else folder.parent))
            found = list(actual(data, parse)) if data is not None else []
            drawn = random.Random(seed).sample(found, min(rows, len(found)))
            same, right = Counter(found) == expected, sum(row in expected for row in drawn)
            failed += not same or bool(faults.found) or right < len(drawn)
            table.row(entry.name, folder.name, len(found), len(faults.found), same, f"{right} of {len(drawn)}")
    if failed:
        sys.exit(f"{failed} data sets differ from their files")
