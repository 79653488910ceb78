"""Building a data set from texts: each step by hand on small inputs, then the real samples."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from fathom.base.errors import BadInput, RunFailed
from fathom.cli import make_app
from fathom.data.formats import examine, read
from fathom.store.outputs import whole_folder
from fathom_build.cloze import build as cloze_build
from fathom_build.cloze.build import DUPLICATE, REPLACED, WITHDRAWN, BuiltCloze, build_cloze, forecast_cloze
from fathom_build.cloze.documents import Medline, Unit, UnreadableDocument
from fathom_build.cloze.entities import AMBIGUOUS, ListedEntity, NameFinder, read_entities
from fathom_build.cloze.rows import Occurrences
from fathom_build.cloze.sentences import (
    ADDRESS,
    BLOCKED,
    BLOCKED_FILE,
    FRAGMENT,
    HYPHENATED,
    MARKED,
    PART,
    SEVERAL,
    SHARED,
    SHORT,
    Selector,
    read_blocked,
)
from fathom_build.options import ClozeBuildOptions, ClozeFiles
from fathom_build.sheets import Reservoir
from tests.messages import correspond, mentioned, mentions, stated

LOOSE = {"min_words": 0, "min_letters": 1, "quality": False}
"""For texts that are shorter than those of a corpus."""
QUALITY = {"quality": True}
OPTIONS = ClozeBuildOptions(**LOOSE)


def entity(name: str, *aliases: str, type_: str = "chemicals") -> ListedEntity:
    return ListedEntity(name, type_, (name, *aliases))


def article(pmid: int, *paragraphs: str, version: int = 1, year: int = 2022, title: str = "", more: str = "") -> str:
    abstract = "".join(f"<AbstractText>{text}</AbstractText>" for text in paragraphs)
    return (
        f'<PubmedArticle><MedlineCitation><PMID Version="{version}">{pmid}</PMID><Article><Journal><JournalIssue>'
        f"<PubDate><Year>{year}</Year><Month>Mar</Month></PubDate></JournalIssue></Journal>"
        f"<ArticleTitle>{title}</ArticleTitle><Abstract>{abstract}</Abstract><Language>eng</Language>{more}</Article>"
        "</MedlineCitation></PubmedArticle>\n"
    )


def medline(path: Path, *records: str) -> Path:
    text = f"<?xml version='1.0' encoding='utf-8'?>\n<PubmedArticleSet>\n{''.join(records)}</PubmedArticleSet>\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def names(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


def build(folder: Path, inputs: list[Path], chemicals: str, **options: object) -> BuiltCloze:
    """With one list of chemicals."""
    listed = names(folder / "chemicals.txt", chemicals)
    return build_cloze(
        ClozeFiles(input=inputs, entities=[listed], out=folder / "out"), ClozeBuildOptions(**(LOOSE | options))
    )


def facts(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "facts.jsonl").read_text(encoding="utf-8").splitlines()]


def texts(folder: Path) -> list[str]:
    return [fact["sentences"][0] for fact in facts(folder)]


def dropped(built: BuiltCloze) -> dict[str, int]:
    return {step.what: step.dropped for step in built.steps if step.dropped}


def texts_to_build_from(folder: Path) -> None:
    """What the examples in the documents need: PubMed files and lists of names."""
    sentences = (
        "Aspirin keeps platelets from clumping together in narrow arteries.",
        "TP53 stops damaged cells from dividing until repairs are finished.",
        "Tin melts easily and shines like polished silver spoons.",
        "BRCA1 repairs broken strands before daughter cells separate.",
        "Lithium calms restless minds and prevents later relapses.",
    )
    medline(folder / "pubmed" / "1.xml.gz", *(article(pmid, text) for pmid, text in enumerate(sentences)))
    names(folder / "chemicals.tsv", "5\taspirin\n3\ttin\n2\tlithium\n")
    names(folder / "genes.txt", "TP53\nBRCA1\n")


# Names in texts


@pytest.mark.parametrize(
    ("listed", "text", "found"),
    [
        (["penicillin"], "Penicillin and penicillinase", ["Penicillin"]),  # any case, at word boundaries
        (["glucose", "glucose oxidase"], "The glucose oxidase assay", ["glucose oxidase"]),  # longest
        (["oxidase", "glucose oxid"], "The glucose oxidase assay", ["oxidase"]),  # the longer one stands within a word
        (["acid", "nitric acid", "acid rain"], "nitric acid rain", ["nitric acid"]),  # leftmost before longest
        (["NO"], "NO is no oxide; No.", ["NO"]),  # short names as written
        (["tin"], "Tin and tin, not TIN", ["Tin", "tin"]),  # short ones in small letters may begin a sentence
        (["mRNA"], "mRNA, not MRNA", ["mRNA"]),
        (["Ca(2+)"], "Ca(2+)-free", ["Ca(2+)"]),  # ends with no letter: nothing to ask of what follows
        (["β-alanine"], "Β-ALANINE and Xβ-alanine", ["Β-ALANINE"]),
        (["aspirin"], "İ takes aspirin", ["aspirin"]),  # "İ" in small letters would be two signs
        (["E. coli"], "E. coli grows", ["E. coli"]),
    ],
)
def test_mentions(listed, text, found):
    mentions = NameFinder([entity(name) for name in listed], OPTIONS).find(text)
    assert [text[mention.start : mention.end] for mention in mentions] == found


@pytest.mark.parametrize(("case", "count"), [("smart", 2), ("exact", 1), ("ignore", 2)])
def test_case_rule(case, count):
    assert len(NameFinder([entity("lead")], ClozeBuildOptions(**LOOSE, case=case)).find("Lead is lead.")) == count
    assert len(NameFinder([entity("NO")], ClozeBuildOptions(**LOOSE, case=case)).find("no")) == (case == "ignore")


def test_names_of_two_entities_are_ambiguous():
    both = [entity("insulin"), entity("insulin", type_="genes"), entity("adrenaline", "epinephrine")]
    finder = NameFinder(both, OPTIONS)
    assert [mention.entity for mention in finder.find("insulin or epinephrine")] == [AMBIGUOUS, 2]
    assert finder.ambiguous == {"insulin": [0, 1]}


@given(st.text("ab -A", max_size=30), st.lists(st.text("abA -", min_size=1, max_size=4), min_size=1, max_size=6))
def test_mentions_against_a_naive_search(text, listed):
    """Every place, every name, longest first: what the automata find faster."""
    listed = list(dict.fromkeys(name for name in (" ".join(name.split()) for name in listed) if name.strip("- ")))
    options = ClozeBuildOptions(**LOOSE, case="exact")

    def joins(sign: str) -> bool:
        return sign.isalnum()

    def stands(name: str, at: int) -> bool:
        end = at + len(name)
        return (
            text.startswith(name, at)
            and not (at and joins(name[0]) and joins(text[at - 1]))
            and not (end < len(text) and joins(name[-1]) and joins(text[end]))
        )

    expected, at = [], 0
    while at < len(text):
        here = max((name for name in listed if stands(name, at)), key=len, default="")
        if here:
            expected.append((at, at + len(here)))
        at += len(here) or 1
    if listed:
        found = NameFinder([entity(name) for name in listed], options).find(text)
        assert [(mention.start, mention.end) for mention in found] == expected


# Sentences


def selected(
    text: str, *listed: ListedEntity, blocked: tuple[str, ...] = (), **options: object
) -> list[tuple[str, str]]:
    selector = Selector(listed, ClozeBuildOptions(**(LOOSE | options)), blocked)
    return [(s.outcome, s.masked) for s in selector.sentences(text)]


def test_one_occurrence_of_one_entity():
    listed = entity("penicillin"), entity("aspirin", "acetylsalicylic acid")
    text = (
        "Penicillin is used to treat infections. Aspirin and penicillin differ. Aspirin is aspirin. It rains. "
        "It is acetylsalicylic acid."
    )
    assert selected(text, *listed) == [
        ("kept", "[Y] is used to treat infections."),
        (SEVERAL, ""),
        (SEVERAL, ""),
        ("no entity named", ""),
        ("kept", "It is [Y]."),
    ]
    assert selected("It rains.", *listed) == []  # not even split


@pytest.mark.parametrize(
    ("text", "options", "outcome"),
    [
        ("We examine aspirin.", {}, BLOCKED),  # "we " in any case
        ("Newer aspirin.", {}, "kept"),  # no space after "we"
        ("There is aspirin.", {}, BLOCKED),  # "here": sub-strings, not words
        ("However aspirin works.", {}, "kept"),  # "However." has a full stop
        ("Aspirin (ASA) works.", {}, BLOCKED),
        ("Aspirin holds [Y].", {}, MARKED),
        ("Aspirin holds [MASK].", {}, MARKED),
        ("Aspirin of the aspirates is old.", {"min_words": 3}, SHORT),  # aspirates, old
        ("Aspirin thins sticky honey.", {"min_words": 3}, "kept"),
        ("An aspirin-like drug.", {}, "kept"),
        ("An aspirin-like drug.", QUALITY, "kept"),
        ("A drug, aspirin-3.", QUALITY, HYPHENATED),
        ("A drug, 5-aspirin.", QUALITY, HYPHENATED),
        ("It melts at 4 °aspirin.", QUALITY, PART),
        ("It takes 4 aspirin.", QUALITY, "kept"),
        ("Of aspirin.5 nothing is known.", QUALITY, PART),
        ("Include aspirin.h first.", QUALITY, PART),
        ("As aspirin et al. have shown.", QUALITY, PART),
        ("Aspirin in old age", QUALITY, FRAGMENT),
        ("5 mg of aspirin helps.", QUALITY, FRAGMENT),
        ("and aspirin helps.", QUALITY, FRAGMENT),
        ("mRNA and aspirin help.", QUALITY, "kept"),
        ("c-Fos and aspirin help.", QUALITY, "kept"),
        ("“In aspirin lies hope.”", QUALITY, "kept"),
        ("Aspirin (doi: 10.1000/182) helps.", QUALITY | {"blocked": ()}, ADDRESS),
    ],
)
def test_why_sentences_are_left_out(text, options, outcome):
    chosen = {"blocked": tuple(read_blocked(BLOCKED_FILE))} | options
    assert [found[0] for found in selected(text, entity("aspirin"), **chosen)] == [outcome]


def test_the_papers_list_ofread_blocked():
    paper = [
        "here",
        "we ",
        "investigate",
        "study",
        "propose",
        "outline",
        "(",
        "our ",
        "performed",
        "suggest",
        "However.",
    ]
    assert read_blocked(BLOCKED_FILE) == paper


def test_blocked_file_faults(tmp_path):
    assert read_blocked(Path(names(tmp_path / "a", '# remark\nfoo \n\n" bar"\n'))) == ["foo ", " bar"]
    with pytest.raises(BadInput, match="a:1: expected") as error:
        read_blocked(Path(names(tmp_path / "a", '"open\n""\n')))
    assert "every sentence" in str(error.value)


def test_a_name_is_never_cut():
    """sentencex ends a sentence after "Qx."; the name goes on."""
    text = "It holds Qx. Wyz in water. It is old."
    assert selected("Alpha beta. Gamma rays.", entity("beta. Gamma")) == [("kept", "Alpha [Y] rays.")]
    assert [found[1] for found in selected(text, entity("Qx. Wyz"))] == ["It holds [Y] in water.", ""]


@given(st.text("aB. ?é𝛼\n", max_size=60))
def test_offsets_lead_to_the_sentence(text):
    text = " ".join(f"aspirin {text}".split())
    for sentence in Selector([entity("aspirin")], OPTIONS, ()).sentences(text):
        assert text[sentence.offset :].startswith(sentence.text)
        assert sentence.masked.replace("[Y]", sentence.surface) == sentence.text or sentence.entity is None


# Entity lists


def listed(tmp_path: Path, text: str, name: str = "chemicals.tsv", prefix: str = "", **options: object):
    return read_entities([prefix + names(tmp_path / name, text)], ClozeBuildOptions(**(LOOSE | options)))


def test_layouts(tmp_path):
    found = listed(tmp_path, "aspirin\tASA\tacetylsalicylic acid\ntin\n")
    assert found.entities == (entity("aspirin", "ASA", "acetylsalicylic acid"), entity("tin"))
    assert [e.name for e in listed(tmp_path, "235\tcocaine\n2\ttin\n").entities] == ["cocaine", "tin"]
    typed = "".join(f"{kind}\tname {kind}{number}\n" for kind in ("A", "B") for number in range(10))
    assert listed(tmp_path, typed).types == ["A", "B"]
    assert listed(tmp_path, typed, prefix="drugs=").types == ["drugs"]
    assert [e.names for e in listed(tmp_path, "#name\taliases\n2\t3\n").entities] == [("2", "3")]
    rows = '{"id": "Q1", "name": "tin", "aliases": ["Sn"]}\n{"name": "TP53", "type": "genes"}\n'
    assert listed(tmp_path, rows, "c.jsonl").entities == (
        ListedEntity("Q1", "c", ("tin", "Sn")),
        ListedEntity("TP53", "genes", ("TP53",)),
    )


def test_duplicates_and_empty_lines_are_counted(tmp_path):
    names = listed(tmp_path, "#name\nGlucose\n\nglucose\tdextrose\n  \nNO\nno\nGlucose\n")
    # "NO" and "no" are found in different places: two entities. "glucose" and "Glucose" are one.
    assert [e.names for e in names.entities] == [("Glucose", "glucose", "dextrose"), ("NO",), ("no",)]
    empty, repeated = names.notes[1:]
    assert mentioned(empty, "chemicals.tsv: 2 ")
    assert mentioned(repeated, "chemicals.tsv: 2 ", "line 4: 'glucose'")


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.txt", "", "no names"),
        ("a.txt", "#count\tname\nx\ty\n", ("a.txt:2:", r"'x\ty'")),
        ("a.txt", "(-)\n", ("a.txt:1:", "'(-)'")),
        ("a.jsonl", '{"id": "Q1"}\n', "a.jsonl:1: expected"),
        ("a.jsonl", "{\n", "a.jsonl:1: not JSON"),
        ("a.jsonl", '{"id": "Q", "name": "a"}\n{"id": "Q", "name": "b"}\n', ("'a' and 'b'", "id 'Q'")),
    ],
)
def test_entity_list_faults(tmp_path, name, text, expected):
    with pytest.raises(BadInput) as error:
        listed(tmp_path, text, name)
    assert mentioned(str(error.value), expected)


def test_entity_lists_that_cannot_be_read_all_at_once(tmp_path):
    (tmp_path / "latin.txt").write_bytes("Müller\n".encode("latin-1"))
    with pytest.raises(BadInput) as error:
        read_entities([str(tmp_path / "missing"), f"x={tmp_path / 'latin.txt'}"], OPTIONS)
    assert [part in str(error.value) for part in ("missing: file is missing", "latin.txt:1: not UTF-8 text")] == [
        1,
        1,
    ]


# Which record counts


def test_the_last_record_counts(tmp_path, monkeypatch):
    monkeypatch.setattr("fathom_build.cloze.rows._AT_ONCE", 2)  # several parts
    found = Occurrences(tmp_path / "o")
    found.add(("a", 1))
    found.add(("b", 2))
    found.add()  # no key
    found.add(("a", 1))  # replaces the first
    found.add(("b", 1))  # an older version of the second
    found.add(("a", 1), ("c", 1), deleted=True)  # withdraws a, and c, which is not there yet
    found.add(("c", 1))
    resolved = found.resolve("last")
    assert np.flatnonzero(resolved.beaten).tolist() == [0, 3, 4]
    assert np.flatnonzero(resolved.withdrawn).tolist() == [0, 3]
    assert list(tmp_path.iterdir()) == []


@given(st.lists(st.sampled_from("abcde"), max_size=40))
def test_the_first_of_each(tmp_path_factory, keys):
    found = Occurrences(tmp_path_factory.mktemp("o") / "o")
    for key in keys:
        found.add((key, 1))
    assert found.resolve("first").beaten.tolist() == [key in keys[:place] for place, key in enumerate(keys)]


def test_later_files_and_versions_replace(tmp_path):
    folder = tmp_path / "in"
    medline(folder / "1.xml", article(1, "Old aspirin."), article(2, "Kept aspirin."), article(3, "Third aspirin."))
    deleted = '<DeleteCitation><PMID Version="1">3</PMID></DeleteCitation>'
    medline(folder / "2.xml.gz", article(1, "New aspirin.", version=2), deleted)
    medline(folder / "3.xml", article(1, "Corrected old aspirin."))
    built = build(tmp_path, [folder], "aspirin\n")
    assert texts(built.out) == ["Kept [Y].", "New [Y]."]
    assert dropped(built) == {WITHDRAWN: 1, REPLACED: 2}


def test_json_lines_with_one_id_replace_too(tmp_path):
    lines = [{"id": 1, "text": "Old aspirin."}, {"text": "Plain aspirin."}, {"id": 1, "text": "New aspirin."}]
    file = names(tmp_path / "a.jsonl", "\n".join(map(json.dumps, lines)))
    built = build(tmp_path, [Path(file)], "aspirin\n")
    assert [(f["sentences"], f["groups"]["document"]) for f in facts(built.out)] == [
        (["Plain [Y]."], "a.jsonl:2"),
        (["New [Y]."], "1"),
    ]


# Records


def test_markup_labels_and_titles(tmp_path):
    more = '<AbstractText Label="RESULTS">Then H<sub>2</sub>O and <i>aspirin</i> &amp; α.</AbstractText>'
    record = article(7, "No name.", title="On aspirin.").replace("</Abstract>", f"{more}</Abstract>")
    file = medline(tmp_path / "a.xml", record)
    assert [f["sentences"] for f in facts(build(tmp_path / "1", [file], "aspirin\n").out)] == [
        ["Then H2O and [Y] & α."]
    ]
    first, second = facts(build(tmp_path / "2", [file], "aspirin\n", titles=True).out)
    assert first["groups"] | second["groups"] == {
        "document": "7",
        "date": "2022-03-01",
        "offset": "21",  # after "On aspirin." and "No name.", with a line break each: 11 + 1 + 8 + 1
        "section": "RESULTS",
        "source": "a.xml",
        "mention": "aspirin",
    }
    assert (first["sentences"], first["groups"]["offset"], first["groups"]["section"]) == (["On [Y]."], "0", "TITLE")


@pytest.mark.parametrize(
    ("after", "kept"), [("2021", True), ("2022-02-28", True), ("2022-03", False), ("2022-03-01", False), (None, True)]
)
def test_date_filter(tmp_path, after, kept):
    """The record has March 2022, so its first day: "after March" and "after its first day" leave it out."""
    file = medline(tmp_path / "a.xml", article(1, "Is aspirin."))
    if kept:
        assert len(facts(build(tmp_path, [file], "aspirin\n", after=after).out)) == 1
    else:
        with pytest.raises(BadInput, match=mentions("'not after 2022-03-")):
            build(tmp_path, [file], "aspirin\n", after=after)
        assert not (tmp_path / "out").exists()


def test_the_earliest_date_counts(tmp_path):
    received = '<PubmedData><History><PubMedPubDate PubStatus="received"><Year>2021</Year><Month>12</Month><Day>5</Day>'
    history = received + "</PubMedPubDate></History></PubmedData></PubmedArticle>"
    file = medline(tmp_path / "a.xml", article(1, "Is aspirin.").replace("</PubmedArticle>", history))
    assert facts(build(tmp_path, [file], "aspirin\n").out)[0]["groups"]["date"] == "2021-12-05"


def test_undated_texts_are_left_out_by_a_date(tmp_path):
    names(tmp_path / "in" / "a.txt", "Is aspirin.")
    names(tmp_path / "in" / "b.jsonl", '{"id": "x", "text": "Has aspirin.", "date": "2022-05"}')
    built = build(tmp_path, [tmp_path / "in"], "aspirin\n", after="2022-04")
    assert dropped(built) == {"without a date": 1}
    assert facts(built.out)[0]["groups"]["date"] == "2022-05-01"


def test_languages(tmp_path):
    french = article(2, "Est aspirin.").replace("eng", "fre")
    file = medline(tmp_path / "a.xml", article(1, "Is aspirin."), french)
    assert dropped(build(tmp_path / "1", [file], "aspirin\n")) == {"in another language": 1}
    assert texts(build(tmp_path / "3", [file], "aspirin\n", language="fr").out) == ["Est [Y]."]
    with pytest.raises(BadInput, match="--language xx"):
        build(tmp_path / "4", [file], "aspirin\n", language="xx")


def test_broken_records_are_left_out_by_name(tmp_path):
    good = article(1, "Good aspirin.")
    broken = article(2, "Bad aspirin.").replace("</Article>", "")
    unclosed = article(3, "Lost aspirin.").replace("</PubmedArticle>\n", "")
    entity_ = article(4, "Has &beta; aspirin.")
    file = medline(tmp_path / "a.xml", good, broken, unclosed, entity_, article(5, "Last aspirin."))
    raw = file.read_bytes()
    raw = raw.replace(b"Good", b"Good \xff") + article(6, "Cut aspirin.").encode()[:-30]
    file.write_bytes(raw)
    built = build(tmp_path, [file], "aspirin\n")
    assert texts(built.out) == ["Last [Y]."]
    assert dropped(built) == {"cannot be read": 5}
    broken_notes = [note for note in built.notes if note.startswith("a.xml: byte")]
    places = [
        raw.index(f'1">{pmid}<'.encode()) - len('<PubmedArticle><MedlineCitation><PMID Version="')
        for pmid in (1, 2, 3, 4, 6)
    ]
    for note, place, reason in zip(
        broken_notes,
        places,
        ("Invalid bytes", "tag mismatch", "no </PubmedArticle>", "'beta'", "no </Pub"),
        strict=True,
    ):
        assert mentioned(note, f"a.xml: byte {place:,}: ", reason), note


def test_records_of_any_cut(monkeypatch, tmp_path):
    """Wherever blocks end, the same records come out."""
    file = medline(tmp_path / "a.xml", *(article(pmid, "Text. " * pmid) for pmid in range(1, 9)))
    whole = list(Medline(titles=False).units(io.BytesIO(file.read_bytes())))
    assert len(whole) == 8
    raw = file.read_bytes()
    assert all(raw[unit.place :].startswith(unit.content) for unit in whole)
    for size in (1, 7, 40, 333):
        monkeypatch.setattr("fathom_build.cloze.documents._BLOCK", size)
        reader = Medline(titles=False)
        assert list(reader.units(io.BytesIO(raw))) == whole


def test_the_older_layout_and_other_encodings(tmp_path):
    inner = article(1, "Schön aspirin.").strip().removeprefix("<PubmedArticle>").removesuffix("</PubmedArticle>")
    text = f'<?xml version="1.0" encoding="ISO-8859-1"?><MedlineCitationSet>{inner}</MedlineCitationSet>'
    (tmp_path / "a.xml").write_bytes(text.encode("latin-1"))
    assert texts(build(tmp_path, [tmp_path / "a.xml"], "aspirin\n").out) == ["Schön [Y]."]
    with pytest.raises(UnreadableDocument, match="UTF-16"):
        next(Medline(titles=False).units(io.BytesIO(text.encode("utf-16"))))


def test_a_record_is_asked_for_before_the_next_is_read():
    """Memory does not grow with the file: a stream without end gives its records one by one."""

    class Endless(io.RawIOBase):
        read_so_far = 0

        def read1(self, size: int = -1) -> bytes:
            Endless.read_so_far += size
            return (article(1, "Is aspirin.").encode() * (size // 300))[:size].ljust(size)

    units = Medline(titles=False).units(Endless())
    for _ in range(1000):
        assert isinstance(next(units), Unit)
    assert Endless.read_so_far <= 2 << 20


def test_plain_text(tmp_path):
    text = "\ufeffThis is\n  aspirin.\nSame paragraph.\n\nAnother  aspirin."
    file = Path(names(tmp_path / "in" / "a.txt", text))
    found = facts(build(tmp_path / "1", [file.parent], "aspirin\n").out)
    # "This is aspirin. Same paragraph." is 32 long, then a line break.
    assert [(f["sentences"], f["groups"]["offset"]) for f in found] == [
        (["This is [Y]."], "0"),
        (["Another [Y]."], "33"),
    ]
    assert found[0]["groups"]["document"] == found[0]["groups"]["source"] == "in/a.txt"
    by_line = facts(build(tmp_path / "2", [file], "aspirin\n", lines=True).out)
    assert [f["groups"]["document"] for f in by_line] == ["a.txt:2", "a.txt:5"]


def test_wrong_encodings_are_named(tmp_path):
    folder = tmp_path / "in"
    names(folder / "a.txt", "Good aspirin.")
    (folder / "b.txt").write_bytes("Schönes aspirin.".encode("latin-1"))
    (folder / "c.jsonl").write_bytes(b'{"text": "Fine aspirin."}\n{"text": "\xff"}\nno\n[]\n')
    built = build(tmp_path, [folder], "aspirin\n")
    assert texts(built.out) == ["Good [Y].", "Fine [Y]."]
    expected = (
        ("in/b.txt: ", "UTF-8", "line 1", "iconv"),
        ("in/c.jsonl: line 2: ", "UTF-8 (byte 10)", "iconv"),
        ("in/c.jsonl: line 3: ", "JSON", "(column 1)"),
        ("in/c.jsonl: line 4: ", '{"id": "…", "text": "…", "date": "…"}'),
    )
    assert correspond(built.notes[-4:], *expected)


def test_a_damaged_gzip_gives_what_stands_before(tmp_path):
    random.seed(0)
    noise = " ".join(str(random.random()) for _ in range(20_000))
    file = medline(tmp_path / "a.xml.gz", article(1, "Is aspirin."), article(2, noise), article(3, noise))
    file.write_bytes(file.read_bytes()[:-50_000])
    built = build(tmp_path, [file], "aspirin\n")
    assert texts(built.out) == ["Is [Y]."]
    assert any("file is skipped" in note for note in built.notes)


# The whole


def test_counts_frequencies_and_round_trip(tmp_path):
    """Sentences of chemicals: aspirin 3, tin 1, so mean 2, sd 1. One says the same as another."""
    chemicals = names(tmp_path / "chemicals.txt", "aspirin\tASA\ntin\nlead\n")
    genes = names(tmp_path / "genes.jsonl", '{"id": "G1", "name": "TP53"}\n{"id": "G2", "name": "lead"}\n')
    file = medline(
        tmp_path / "a.xml",
        article(1, "Aspirin helps. Tin shines. We saw tin.", "ASA helps too. Lead is named."),
        article(2, "TP53 binds. aspirin helps. ASPIRIN cures. TP53 and tin."),
        article(3, "No name."),
        article(4),
    )
    built = build_cloze(ClozeFiles(input=[file], entities=[chemicals, genes], out=tmp_path / "out"), OPTIONS)
    assert [(step.what, step.dropped, step.left) for step in built.steps if step.dropped or not step.by_type] == [
        ("records", 0, 4),
        ("without text", 1, 3),
        ("name no entity", 1, 2),
        ("sentences of paragraphs that name an entity", 0, 9),
        ("no entity named", 0, 9),
        (SEVERAL, 1, 8),
        (SHARED, 1, 7),
        (BLOCKED, 1, 6),
        (DUPLICATE, 1, 5),
    ]
    assert built.steps[-1].by_type == {"chemicals": 4, "genes": 1}
    first, second = built.frequencies
    assert (first.type, first.sentences, first.entities, first.mean, first.sd, first.most, first.least) == (
        ("chemicals", 4, 2, 2.0, 1.0, 3, 1)
    )
    assert (second.sentences, second.sd) == (1, 0.0)
    queryset, faults = examine(built.out)
    assert faults.found == []
    assert queryset is not None
    assert queryset.candidates["chemicals"].names == ("aspirin", "tin")  # "lead" does not occur
    assert queryset.candidates["genes"].ids == ("G1",)
    asked = [(q.id, q.gold, *q.sentences) for q in queryset.queries]
    assert asked == [
        ("chemicals/0", ("aspirin",), ("[Y] helps.", "")),
        ("chemicals/1", ("tin",), ("[Y] shines.", "")),
        ("chemicals/2", ("aspirin",), ("[Y] helps too.", "ASA")),
        ("chemicals/3", ("aspirin",), ("[Y] cures.", "")),
        ("genes/0", ("G1",), ("[Y] binds.", "")),
    ]
    assert queryset.queries[2].groups["mention"] == "ASA"
    counted = [json.loads(line) for line in (built.out / "entities.jsonl").read_text().splitlines()]
    assert [(row["name"], row["sentences"]) for row in counted] == [
        ("aspirin", 3),
        ("tin", 1),
        ("lead", 0),
        ("TP53", 1),
        ("lead", 0),
    ]
    assert sorted(path.name for path in built.out.iterdir()) == [
        ".made",
        "entities.jsonl",
        "facts.jsonl",
        "manifest.json",
        "relations.jsonl",
        "review.csv",
    ]


def test_same_inputs_same_bytes(tmp_path):
    file = medline(tmp_path / "a.xml", *(article(pmid, f"Case {pmid} has aspirin.") for pmid in range(50)))
    for out in ("one", "two"):
        listed_ = names(tmp_path / "chemicals.txt", "aspirin\n")
        build_cloze(
            ClozeFiles(input=[file], entities=[listed_], out=tmp_path / out), ClozeBuildOptions(**LOOSE, sample=5)
        )
    other = build_cloze(
        ClozeFiles(input=[file], entities=[listed_], out=tmp_path / "three"),
        ClozeBuildOptions(**LOOSE, sample=5, seed=1),
    )
    for path in (tmp_path / "one").glob("[!.]*"):  # .made says of when the inputs are
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
    assert (other.out / "review.csv").read_bytes() != (tmp_path / "one" / "review.csv").read_bytes()
    assert (other.out / "facts.jsonl").read_bytes() == (tmp_path / "one" / "facts.jsonl").read_bytes()


def test_all_faults_at_once_and_nothing_written(tmp_path):
    names(tmp_path / "out" / "mine.txt", "x")
    names(tmp_path / "empty" / "notes.docx", "x")
    with pytest.raises(BadInput) as error:
        build_cloze(
            ClozeFiles(
                input=[tmp_path / "none", tmp_path / "empty", Path(names(tmp_path / "a.pdf", "x"))],
                entities=[str(tmp_path / "missing.txt")],
                out=tmp_path / "out",
                blocked=tmp_path / "no-list",
            ),
            ClozeBuildOptions(**LOOSE),
        )
    faults = error.value.faults
    for number, expected in enumerate(
        (
            "none:",
            ("empty:", ".xml"),
            "a.pdf:",
            ("missing.txt:", "missing"),
            "--blocked",
            ("out ", "delete it"),
        )
    ):
        assert mentioned(faults[number], expected)


def test_which_filter_emptied_it(tmp_path):
    file = medline(tmp_path / "a.xml", article(1, "We saw aspirin. Our aspirin."))
    with pytest.raises(BadInput) as error:
        build(tmp_path, [file], "aspirin\n")
    first, *counted = error.value.faults
    assert f"{BLOCKED!r} (2 of 2)" in first
    assert counted[0] == "          1  after: records"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.xml", "chemicals.txt"]
    with pytest.raises(BadInput, match=mentions("'name no entity'")):
        build(tmp_path, [file], "tin\n")
    other = Path(names(tmp_path / "other.xml", "<html/>"))
    unblocked = medline(tmp_path / "c.xml", article(1, "They saw aspirin."))
    notes = build(tmp_path / "2", [unblocked, other], "aspirin\n").notes
    assert notes[-1] == "other.xml: no records"
    with pytest.raises(BadInput, match="no record"):
        build(tmp_path, [medline(tmp_path / "b.xml")], "tin\n")


def test_files_without_a_record_are_named(tmp_path):
    """Also where nothing else is there: bytes of no format, in a file that is called XML."""
    noise = tmp_path / "noise.xml"
    noise.write_bytes(bytes(range(256)) * 20)
    with pytest.raises(BadInput, match=mentions("no record", "noise.xml")):
        build(tmp_path, [noise], "aspirin\n")
    many = tmp_path / "many"
    many.mkdir()
    for number in range(23):
        (many / f"{number:02}.xml").write_bytes(b"")
    with pytest.raises(BadInput) as error:
        build(tmp_path, [many], "aspirin\n")
    assert stated(error.value.faults, "many/19.xml: no records")
    assert mentioned(error.value.faults[-1], "3 more files")


def test_a_folder_is_whole_or_not_there(tmp_path):
    def write_and_raise(error: Exception) -> None:
        with whole_folder(tmp_path / "out") as folder:
            (folder / "a").write_text("half")
            raise error

    with pytest.raises(ValueError, match="stop"):
        write_and_raise(ValueError("stop"))
    with pytest.raises(RunFailed, match="cannot write"):
        write_and_raise(OSError(28, "No space left on device"))
    assert list(tmp_path.iterdir()) == []


# Review


def test_sample_is_fair_and_repeatable():
    """Each of ten is drawn in about 3 of 10 samples of three: 600 ± 4 · √(2000 · 0.3 · 0.7) = 600 ± 82 of 2,000."""
    drawn = [0] * 10
    for seed in range(2000):
        sample = Reservoir(3, str(seed))
        for number in range(10):
            sample.add({"n": number})
        for row in sample.in_order():
            drawn[row["n"]] += 1
    assert all(518 <= count <= 682 for count in drawn)


# The command


def test_the_commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = (f"Patient {pmid} took aspirin, which thins honey and calms headaches within minutes." for pmid in range(3))
    medline(tmp_path / "in" / "a.xml", *(article(pmid, text) for pmid, text in enumerate(said)))
    names(tmp_path / "list.txt", "aspirin\n")
    words = ["build", "cloze", "--input", "in", "--entities", "drugs=list.txt", "--out", "out", "--after", "2021-12"]
    found = CliRunner().invoke(make_app(), words)
    assert found.exit_code == 0, found.output
    assert DUPLICATE in found.output
    assert CliRunner().invoke(make_app(), ["data", "check", "out"]).exit_code == 0
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["options"]["after"] == "2021-12-31"
    assert manifest["inputs"][0]["records"] == 3
    row, *_ = csv.DictReader((tmp_path / "out" / "review.csv").read_text(encoding="utf-8-sig").splitlines())
    assert (row["type"], row["answer"], row["reviewer_1"], row["reviewer_2"]) == ("drugs", "aspirin", "", "")


def test_building_loads_no_model_library(tmp_path):
    import subprocess

    code = (
        "import sys; import fathom_build.cloze.build, fathom_build.command, fathom.base.options;"
        "print([m for m in ('torch', 'transformers', 'pandas', 'scipy') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# What fresh eyes found


def test_a_name_in_any_case_and_one_as_written_are_one_name(tmp_path):
    """IRON is short for something in one list, and iron is in the other in any case: which is meant is unknown."""
    lists = [names(tmp_path / "chemicals.txt", "iron\n"), names(tmp_path / "genes.txt", "IRON\nTP53\n")]
    document = tmp_path / "a.txt"
    document.write_text("IRON is what many need. Much iron is lost. TP53 is a gene.")
    built = build_cloze(ClozeFiles(input=[document], entities=lists, out=tmp_path / "out"), OPTIONS)
    assert sorted(texts(built.out)) == ["Much [Y] is lost.", "[Y] is a gene."]
    assert dropped(built)[SHARED] == 1


def test_of_two_that_say_the_same_the_one_with_the_own_name_stays(tmp_path):
    listed_ = tmp_path / "drugs.jsonl"
    listed_.write_text('{"id": "a", "name": "Aspirin", "aliases": ["Acetylsalicylic acid"]}\n')
    document = tmp_path / "a.txt"
    document.write_text("Acetylsalicylic acid thins the blood.\n\nAspirin thins the blood.")
    built = build_cloze(ClozeFiles(input=[document], entities=[str(listed_)], out=tmp_path / "out"), OPTIONS)
    assert [fact["groups"]["mention"] for fact in facts(built.out)] == ["Aspirin"]


@pytest.mark.parametrize("date", ["2022-13-45", "2022-02-31", "03/2022"])
def test_dates_that_are_none_are_named(tmp_path, date):
    document = tmp_path / "a.jsonl"
    rows = [{"text": "Glucose helps.", "date": date}, {"text": "Glucose heals.", "date": "2022-03"}]
    document.write_text("".join(json.dumps(row) + "\n" for row in rows))
    built = build_cloze(
        ClozeFiles(input=[document], entities=[names(tmp_path / "sugars.txt", "Glucose\n")], out=tmp_path / "out"),
        OPTIONS,
    )
    assert [fact["groups"]["date"] for fact in facts(built.out)] == ["2022-03-01"]
    assert stated(built.notes, "line 1", "a date")


# Real samples


@pytest.mark.slow
def test_real_samples(shared_data, tmp_path):
    """Counts in the data's own README: 177 records, 155 of them in English; 161 older ones, most of the same PMIDs."""
    folder = shared_data / "biomedical"
    lists = [f"chemicals={folder / 'ner' / 'chemicals.tsv'}"]
    new = build_cloze(
        ClozeFiles(input=[folder / "pubmed" / "pubmedsample18n0001.xml.gz"], entities=lists, out=tmp_path / "new")
    )
    assert (new.steps[0].left, dropped(new)["in another language"]) == (177, 22)
    assert read(new.out).queries
    genes = f"genes={folder / 'ner' / 'genes.tsv'}"
    two = build_cloze(
        ClozeFiles(
            input=[folder / "pubmed" / "pubmedsample18n0001.xml.gz"], entities=[*lists, genes], out=tmp_path / "two"
        )
    )
    # As in the tutorial:
    assert [step.left for step in two.steps] == [177, 155, 103, 63, 483, 214, 137, 133, 126, 66, 64, 63]
    assert two.steps[-1].by_type == {"chemicals": 35, "genes": 28}
    old = build_cloze(
        ClozeFiles(input=[folder / "pubmed" / "medsamp2014.xml.gz"], entities=lists, out=tmp_path / "old")
    )
    assert old.steps[0].left == 161
    both = build_cloze(
        ClozeFiles(input=[folder / "pubmed", folder / "pubmed-29768149.xml"], entities=lists, out=tmp_path / "both")
    )
    assert both.steps[0].left == 177 + 161 + 3 + 3 + 1
    assert all(fact["groups"]["date"] for fact in facts(both.out))


def test_an_update_replaces_real_records(shared_data, tmp_path):
    """Two of three abstracts begin with "CHANGED FOR TESTING" in the later file: only these are read."""
    folder = shared_data / "biomedical" / "pubmed"
    pair = [folder / f"pubmed21n1016_excerpt_{name}.xml.gz" for name in ("original", "partially_changed")]
    words = "CHANGED\nterahertz\nlaser\nfibre\nfiber\n"
    blocked = tmp_path / "blocked"
    blocked.write_text("# none\n")
    listed_ = names(tmp_path / "words.txt", words)
    built = build_cloze(ClozeFiles(input=pair, entities=[listed_], out=tmp_path / "a", blocked=blocked), OPTIONS)
    assert dropped(built)[REPLACED] == 3
    assert sum(text == "[Y] FOR TESTING." for text in texts(built.out)) == 1  # the same sentence twice: once
    assert {fact["groups"]["source"] for fact in facts(built.out)} == {pair[1].name}
    back = build_cloze(ClozeFiles(input=pair[::-1], entities=[listed_], out=tmp_path / "b", blocked=blocked), OPTIONS)
    assert not any("TESTING" in text for text in texts(back.out))


def test_real_lists(shared_data):
    folder = shared_data / "biomedical"
    chemdner = read_entities([str(folder / "chemdner" / "train_mentions.tsv")], OPTIONS)
    assert chemdner.types == [
        "SYSTEMATIC", "TRIVIAL", "FAMILY", "FORMULA", "ABBREVIATION", "IDENTIFIER", "MULTIPLE", "NO CLASS"
    ] or len(chemdner.types) == 8  # fmt: skip
    assert chemdner.about[0]["layout"] == "type"
    assert read_entities([str(folder / "ner" / "genes.tsv")], OPTIONS).about[0]["lines"] == 15_829


def test_forecast(tmp_path, monkeypatch):
    """Twice the files take twice the space, estimated from equal parts of them; nothing is written."""
    sentence = "Aspirin keeps platelets {} from clumping together in narrow arteries."
    listed = names(tmp_path / "chemicals.txt", "aspirin\ntin\n")
    forecasts = []
    for count in (2, 4):
        folder = tmp_path / str(count)
        for number in range(count):
            records = range(1000 * number, 1000 * number + 200)
            medline(folder / f"{number}.xml", *(article(pmid, sentence.format(f"number{pmid}")) for pmid in records))
        files = ClozeFiles(input=[folder], entities=[listed], out=tmp_path / "out")
        size = sum(file.stat().st_size for file in folder.iterdir())
        monkeypatch.setattr(cloze_build, "_SAMPLE", 2 * size // count)
        forecasts.append(dict(zip((table := forecast_cloze(files)).columns, table.rows[0], strict=True)))
    small, large = forecasts
    assert [small["files"], large["files"]] == [2, 4]
    assert large["GB to read"] == pytest.approx(2 * small["GB to read"], rel=0.01)
    assert large["GB on the disk"] == pytest.approx(2 * small["GB on the disk"], rel=0.05)
    assert small["minutes"] > 0
    assert not (tmp_path / "out").exists()
    with pytest.raises(BadInput, match="no such file"):
        forecast_cloze(ClozeFiles(input=[tmp_path / "none"], entities=[listed], out=tmp_path / "out"))
