"""What ``fathom build cloze`` makes of poor sentences: leaks, boilerplate, odd type, prompts of several answers."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import get_args

import pytest

from fathom.building.cloze.boilerplate import BOILERPLATE
from fathom.building.cloze.build import build_cloze
from fathom.building.cloze.counts import DUPLICATE, MERGED, NEAR
from fathom.building.cloze.duplicates import NearDuplicates
from fathom.building.cloze.entities import ListedEntity, read_entities
from fathom.building.cloze.leaks import LEAKS
from fathom.building.cloze.options import ClozeBuildOptions, Fault
from fathom.building.cloze.sentences import Selector
from fathom.building.options import ClozeFiles
from fathom.data.selection.filters import select
from fathom.data.selection.options import Selection
from fathom.errors import BadInput
from fathom.formats import examine
from tests.messages import mentions, stated
from tests.test_build_cloze import OPTIONS, article, build, dropped, entity, facts, medline, names, selected, texts

# Leaks and boilerplate


@pytest.mark.parametrize(
    ("kind", "text", "listed"),
    [
        ("letters", "The TP53 gene is also tp53 in mouse.", ["TP53"]),
        ("letters", "beos vim version of VIM.", ["vim"]),
        ("letters", "Of interleukin-6 many say interleukin 6.", ["interleukin-6"]),
        ("letters", "A critical section is a CriticalSection.", ["critical section"]),
        ("letters", "Genes are many, one is a Gene.", ["gene"]),
        ("letters", "Insulin is cut from proinsulin.", ["insulin"]),
        ("letters", "A GABAergic cell makes GABA.", ["GABA"]),
        ("letters", "Hemoglobin is lost in methemoglobinemia.", ["hemoglobin"]),
        ("letters", "TNF-α is TNF alpha.", ["TNF-α"]),
        ("letters", "What IL-6 does is done by IL6.", ["IL-6"]),
        ("letters", "What IL6 does is done by IL 6.", ["IL6"]),
        ("letters", "Aspirin is Acetylsalicylic-Acid.", ["aspirin", "acetylsalicylic acid"]),
        ("letters", "Aspirin is one of the salicylates.", ["aspirin", "salicylate"]),
        ("beginning", "One therapy among many therapies.", ["therapy"]),
        ("beginning", "A bacterium lives among bacteria.", ["bacterium"]),
        ("beginning", "Serotonin fires serotonergic cells.", ["serotonin"]),
        ("beginning", "Nicotine fires nicotinic receptors.", ["nicotine"]),
        ("beginning", "Havana is where Cubans rule Cuba.", ["Cuba"]),
        ("beginning", "Ottawa is where Canadians rule Canada.", ["Canada"]),
        ("beginning", "The PEP4 gene lacks in the pep4-3 mutation.", ["PEP4 gene"]),
        ("beginning", "The dopamine receptor has dopaminergic activity.", ["dopamine receptor"]),
        ("beginning", "The HIV LTR has effects on HIV.", ["HIV LTR"]),
        ("beginning", "Of beta-endorphin we know that endorphins heal.", ["beta-endorphin"]),
        ("beginning", "Aspirin has an acetylsalicylic ring.", ["aspirin", "acetylsalicylic acid"]),
        ("abbreviation", "Cerebral blood flow was measured as CBF alone.", ["CBF"]),
        ("abbreviation", "Tumor necrosis factor alpha was low where TNFA was.", ["tumor necrosis factor alpha"]),
        ("abbreviation", "Tumor necrosis factor (TNF) kills.", ["tumor necrosis factor"]),
        ("abbreviation", "Tumor necrosis factor alpha (TNF-A; see below) kills.", ["tumor necrosis factor"]),
        ("abbreviation", "Here tumor necrosis factor (TNF) kills.", ["TNF"]),
        ("abbreviation", "Much TNF [tumor necrosis factor] kills.", ["TNF"]),
        ("abbreviation", "Much TNF [tumor necrosis factor] kills.", ["tumor necrosis factor"]),
    ],
)
def test_sentences_that_say_their_answer(kind, text, listed):
    assert [found[0] for found in selected(text, entity(*listed))] == [LEAKS[kind]]
    # The same word may be of a later kind, too.
    later = tuple(LEAKS)[tuple(LEAKS).index(kind) :]
    assert [found[0] for found in selected(text, entity(*listed), keep=later)] == ["kept"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("There is no NO.", "NO"),  # a little word
        ("Co is a co-factor.", "Co"),
        ("Tin in testing.", "tin"),
        ("Iron in the environment.", "iron"),  # within a word, and too short to be there on purpose
        ("The amine was examined.", "amine"),
        ("CD4 is not CD40.", "CD4"),  # one digit more is another name
        ("Glucose is not glucagon.", "glucose"),
        ("Fibrinogen (Figure 2) clots.", "fibrinogen"),
        ("Aspirin (Bayer) helps.", "aspirin"),
        ("Aspirin (AFP) helps.", "aspirin"),  # no f
        ("Aspirin (1999) helps.", "aspirin"),
        ("Magnesium and tumor necrosis factor (TNF) mix.", "magnesium"),  # of other words
        ("A toad goes to ad.", "toad"),  # two words
        ("Aspirin is no aspirate.", "aspirin"),
        ("The PEP4 gene is a gene.", "PEP4 gene"),  # what kind of thing it is
        ("The set of what SET domain proteins do.", "SET domain"),
        ("SEC4 is not SEC40.", "SEC4"),
        ("Positron emission CT (PET) shows much.", "CT"),  # a code stands for no letter of another
        ("In P (P < 0.05) patients.", "patients"),
        ("Behavioral phenotypes and AChE make no BPA.", "BPA"),  # "and" between, and a code
        ("Blood, pressure and air, BPA.", "BPA"),
        ("It is of the United Nations, NATO and others.", "NATO"),  # a list
        ("Tumor necrosis factor is no TNFR.", "tumor necrosis factor"),
    ],
)
def test_sentences_that_only_seem_to(text, name):
    assert [found[0] for found in selected(text, entity(name))] == ["kept"]


def test_a_word_of_many_names_tells_none_of_them():
    """Three entities may have it, a fourth may not."""
    doors = ["globin door", "globin gate", "globin wall"]
    for others, outcome in ((doors[:2], LEAKS["beginning"]), (doors, "kept")):
        listed = [entity("globin lock"), *map(entity, others)]
        assert [found[0] for found in selected("A globin lock has globins.", *listed)] == [outcome]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("token", "Aspirin is [MASK] today."),
        ("token", "Aspirin ends here </s>"),
        ("token", "Aspirin is <|endoftext|> today."),
        ("url", "Aspirin is at https://example.org/a today."),
        ("url", "Aspirin (doi: 10.1000/182) helps."),
        ("url", "Ask me@example.org for aspirin."),
        ("table", "Aspirin | 3 | 4"),
        ("table", "Aspirin 12.5 3.4 <0.01 7 (8)"),
        ("table", "Aspirin ..... 17"),
    ],
)
def test_boilerplate(kind, text):
    assert [found[0] for found in selected(text, entity("aspirin"))] == [BOILERPLATE[kind]]
    assert [found[0] for found in selected(text, entity("aspirin"), keep=(kind,))] == ["kept"]


@pytest.mark.parametrize("text", ["Aspirin in 3 of 10 mice.", "Aspirin <s cures> [mask] 5 mg/day... or more."])
def test_prose_with_numbers_and_brackets(text):
    assert [found[0] for found in selected(text, entity("aspirin"))] == ["kept"]


def test_what_is_left_out_is_counted_with_examples(tmp_path):
    said = [f"TP53 number {n} is also tp53." for n in range(5)]
    file = medline(tmp_path / "a.xml", article(1, *said), article(2, "TP53 is at http://a.org.", "TP53 binds."))
    built = build(tmp_path, [file], "TP53\n")
    assert dropped(built) == {LEAKS["letters"]: 5, BOILERPLATE["url"]: 1}
    assert texts(built.out) == ["[Y] binds."]
    assert stated(built.notes, f"{LEAKS['letters']}: 5", "'[Y] number 0 is also tp53.' (TP53)")
    examples = json.loads((built.out / "manifest.json").read_text(encoding="utf-8"))["examples"]
    assert [one["sentence"] for one in examples[LEAKS["letters"]]] == [
        f"[Y] number {n} is also tp53." for n in range(3)
    ]
    assert examples[BOILERPLATE["url"]] == [{"document": "2", "sentence": "[Y] is at http://a.org.", "answer": "TP53"}]
    kept = build(tmp_path / "kept", [file], "TP53\n", keep="letters,beginning,url")
    assert (dropped(kept), len(texts(kept.out))) == ({}, 7)


def test_kinds_to_keep_are_those_that_are_looked_for():
    assert set(get_args(Fault)) == {*BOILERPLATE, *LEAKS}


# Typography


@pytest.mark.parametrize(
    ("listed", "printed"),
    {
        "D'Arcy force": "D’Arcy force",
        "beta-alanine": "beta‑alanine",
        "fluorine": "ﬂuorine",
        "aspirin": "as\u00adpi\u00adrin",
        "TP53": "ＴＰ５３",
    }.items(),
)
def test_typography_hides_no_name(listed, printed):
    """In both directions; the sentence stays as it stood, and so do the offsets."""
    for name, text in ((listed, printed), (printed, listed)):
        paragraph = f"So ﬁne. It’s “{text}” here\u00ad. Then more."
        first, sentence, _ = Selector([entity(name)], OPTIONS, ()).sentences(paragraph)
        assert (sentence.outcome, sentence.surface, sentence.masked) == ("kept", text, "It’s “[Y]” here\u00ad.")
        assert paragraph[sentence.offset :].startswith(sentence.text)
        assert first.outcome == "no entity named"


def test_a_soft_hyphen_ends_no_word():
    assert selected("It is as\u00adpirin\u00adate.", entity("aspirin")) == []


def test_an_answer_in_other_type_is_its_own_name(tmp_path):
    """So that it is asked without --any-surface; what stood there is kept as the mention."""
    file = Path(names(tmp_path / "a.txt", "The D’Arcy force is weak."))
    (fact,) = facts(build(tmp_path, [file], "D'Arcy force\n").out)
    assert (fact["sentences"], fact["answer"]) == (["The [Y] is weak."], "D'Arcy force")
    assert fact["groups"]["mention"] == "D’Arcy force"


# One prompt, several right answers


def cities(folder: Path, **options: object):
    """Three are cities, Berlin twice; Zürich first by another name."""
    said = ["Zuerich is a city.", "Paris is a city. Berlin is a city.", "Berlin is a City. Paris is old."]
    file = Path(names(folder / "a.txt", "\n\n".join(said)))
    return build(folder, [file], "#name\nParis\nBerlin\nZürich\tZuerich\n", **options)


def test_one_prompt_is_one_query(tmp_path):
    built = cities(tmp_path)
    assert dropped(built) == {DUPLICATE: 1, MERGED: 2}
    assert [step.left for step in built.steps][-3:] == [5, 4, 2]
    several, one = facts(built.out)
    # Paris was masked by its own name, so that the sentence is asked without --any-surface.
    assert several["answers"] == ["Paris", "Zürich", "Berlin"]
    assert several["sentences"] == ["[Y] is a city."]
    assert (several["groups"]["answers"], several["groups"]["mention"]) == ("3", "Paris")
    assert (one["answer"], one["groups"].get("answers")) == ("Paris", None)
    assert stated(built.notes, f"{MERGED}: 2", "'[Y] is a city.' (Paris, Zürich, Berlin)")
    queryset, faults = examine(built.out)
    assert faults.found == []
    assert queryset is not None
    assert [query.gold for query in queryset.queries] == [("Paris", "Zürich", "Berlin"), ("Paris",)]
    assert [(f.sentences, f.entities, f.most) for f in built.frequencies] == [(4, 3, 2)]
    assert "Paris | Zürich | Berlin" in (built.out / "review.csv").read_text(encoding="utf-8")


def test_prompts_can_be_left_apart(tmp_path):
    built = cities(tmp_path, merge=False)
    assert dropped(built) == {DUPLICATE: 1}
    assert [fact["answer"] for fact in facts(built.out)] == ["Zürich", "Paris", "Berlin", "Paris"]


def test_prompts_of_two_types_stay_two(tmp_path):
    """Their candidates differ."""
    lists = [names(tmp_path / "genes.txt", "TP53\n"), names(tmp_path / "drugs.txt", "aspirin\n")]
    file = Path(names(tmp_path / "a.txt", "TP53 helps. Aspirin helps."))
    built = build_cloze(ClozeFiles(input=[file], entities=lists, out=tmp_path / "out"), OPTIONS)
    assert sorted(fact["relation"] for fact in facts(built.out)) == ["drugs", "genes"]


# Lists of entities


@pytest.mark.parametrize("name", ["[MASK]", "acid <mask>", "<|endoftext|>", "</s>", "[Y]", "vitamin [X]"])
def test_names_that_mark_a_place_are_refused(tmp_path, name):
    with pytest.raises(BadInput) as error:
        build(tmp_path, [Path(names(tmp_path / "a.txt", "Aspirin helps."))], f"aspirin\n{name}\n")
    assert f"chemicals.txt:2: {name!r}" in str(error.value)
    assert not (tmp_path / "out").exists()


def test_names_that_fold_to_one_text_are_one_entity(tmp_path):
    file = Path(names(tmp_path / "a.txt", "Beta‑alanine helps. NO acts. No way."))
    built = build(tmp_path, [file], "beta-alanine\nbeta‐alanine\nNO\nno\n")
    assert stated(built.notes, "chemicals.txt: 1 ", "line 2: 'beta‐alanine'")
    assert [fact["groups"]["mention"] for fact in facts(built.out)] == ["Beta‑alanine", "NO", "No"]


def test_of_names_that_fold_to_one_text_the_plain_one_is_asked(tmp_path):
    """A ligature would be another token to every model. An id of its own stays, one that was made of the name goes."""
    drugs = names(tmp_path / "drugs.txt", "ﬁbrin\nfibrin\tclot\ntin\n")
    rows = ({"id": "D1", "name": "ﬁbrin"}, {"id": "D2", "name": "fibrin"})
    with_ids = names(tmp_path / "with_ids.jsonl", "\n".join(map(json.dumps, rows)))
    assert read_entities([drugs, with_ids], OPTIONS).entities == (
        ListedEntity("fibrin", "drugs", ("fibrin", "ﬁbrin", "clot")),
        ListedEntity("tin", "drugs", ("tin",)),
        ListedEntity("D1", "with_ids", ("fibrin", "ﬁbrin")),
    )


def test_signs_that_are_none_are_white_space(tmp_path):
    file = Path(names(tmp_path / "a.txt", "Pure\0 tin\x1b shines\x7f on us."))
    built = build(tmp_path, [file], "tin\n")
    assert texts(built.out) == ["Pure [Y] shines on us."]


def test_parts_of_longer_names_do_not_count(tmp_path):
    file = Path(names(tmp_path / "a.txt", "Glucose oxidase works. Glucose heals."))
    built = build(tmp_path, [file], "#name\nglucose\nglucose oxidase\toxidase\nglucosealcohol\n")
    assert [fact["answer"] for fact in facts(built.out)] == ["glucose oxidase", "glucose"]


# Documents that nearly repeat others


def deposits(folder: Path) -> Path:
    """An abstract of forty words, the same with one word changed, and another of as many words."""
    words = [f"word{number}" for number in range(40)]
    changed = [*words[:39], "other"]
    rest = [f"term{number}" for number in range(40)]
    lines = (
        json.dumps({"id": name, "text": f"Aspirin helps {extra}. {' '.join(own)}."})
        for name, extra, own in (("first", "much", words), ("again", "more", changed), ("third", "less", rest))
    )
    return Path(names(folder / "a.jsonl", "\n".join(lines)))


def test_documents_that_nearly_repeat_others_are_left_out_if_asked(tmp_path):
    """43 words make 39 runs of five, of which 3 hold "more" and 1 "other": 35 of 43 are shared, 0.81."""
    file = deposits(tmp_path)
    assert len(facts(build(tmp_path / "all", [file], "aspirin\n").out)) == 3
    built = build(tmp_path / "few", [file], "aspirin\n", near_duplicates=0.6)
    assert dropped(built)[NEAR] == 1
    assert [fact["groups"]["document"] for fact in facts(built.out)] == ["first", "third"]
    assert stated(built.notes, f"{NEAR}: 1", "'[Y] helps more.' (Aspirin)")
    assert len(facts(build(tmp_path / "strict", [file], "aspirin\n", near_duplicates=0.95).out)) == 3


def test_the_estimate_is_near_the_share(tmp_path):
    """Documents whose runs of five words share a known part: those well above are found, those well below are not."""
    base = [f"w{number}" for number in range(400)]
    for kept, expected in ((380, "base"), (250, "")):
        near = NearDuplicates(0.8)
        assert near.repeats("base", " ".join(base)) == ""
        other = [*base[:kept], *(f"x{number}" for number in range(400 - kept))]
        assert near.repeats("other", " ".join(other)) == expected


def test_few_near_the_share_are_missed():
    """Sixty pairs that share 0.85: of such, an index that weighs both errors alike finds two in three."""
    near = NearDuplicates(0.8)
    found = 0
    for pair in range(60):
        base = [f"w{pair}x{number}" for number in range(400)]
        near.repeats("base", " ".join(base))
        found += near.repeats("other", " ".join([*base[:368], *(f"x{number}" for number in range(32))])) == "base"
    assert found >= 53


# Splits


def test_no_document_nor_its_like_stands_in_two_splits(tmp_path):
    """Twenty chains of three documents, of which neighbours share 0.88; each document says two things."""
    lines = []
    for chain in range(20):
        words = [f"w{chain}x{n}" for n in range(430)]
        for link in range(3):
            own = " ".join(words[15 * link : 15 * link + 400])
            said = f"Aspirin of {chain} and {link} helps. Pure aspirin {chain} {link} heals. {own}."
            lines.append(json.dumps({"id": f"{chain}-{link}", "text": said}))
    random.Random(3).shuffle(lines)
    file = Path(names(tmp_path / "a.jsonl", "\n".join(lines)))
    built = build(tmp_path, [file], "aspirin\n", splits=(60, 20, 20))
    split_of: dict[str, set[str]] = {}
    for fact in facts(built.out):
        split_of.setdefault(fact["groups"]["document"].split("-")[0], set()).add(fact["groups"]["split"])
    assert len(split_of) == 20
    assert all(len(found) == 1 for found in split_of.values())
    queryset, _ = examine(built.out)
    assert queryset is not None
    assert {name: len(ids) for name, ids in queryset.subsets.items()} == {"train": 72, "dev": 24, "test": 24}
    assert len(select(queryset, Selection(subset="test")).data.queries) == 24
    again = build(tmp_path / "again", [file], "aspirin\n", splits=(60, 20, 20))
    assert facts(again.out) == facts(built.out)
    other = build(tmp_path / "other", [file], "aspirin\n", splits=(60, 20, 20), seed=1)
    assert facts(other.out) != facts(built.out)
    fewer = build(tmp_path / "fewer", [file], "aspirin\n", splits=(50, 0, 50), near_duplicates=0.6)
    assert len({fact["groups"]["document"].split("-")[0] for fact in facts(fewer.out)}) == 20
    assert {fact["groups"]["split"] for fact in facts(fewer.out)} == {"train", "test"}


def test_splits_that_cannot_be(tmp_path):
    with pytest.raises(BadInput, match=mentions("--splits 80,20", "80,10,10")):
        ClozeBuildOptions(splits=(80, 20))
    with pytest.raises(BadInput, match=mentions("dev, test", "1 queries", "1 such")):
        build(tmp_path, [Path(names(tmp_path / "a.txt", "Aspirin helps."))], "aspirin\n", splits="80,10,10")
    assert not (tmp_path / "out").exists()
