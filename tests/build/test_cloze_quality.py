"""What ``fathom build cloze`` makes of poor sentences: leaks, boilerplate, odd type, prompts of several answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fathom.base.errors import BadInput
from fathom_build.cloze.build import ORDINARY
from fathom_build.cloze.entities import ListedEntity, NameFinder, read_entities
from fathom_build.cloze.sentences import ADDRESS, LEAKS, OTHER_WORD, PART, Selector
from tests.build.test_build_cloze import (
    OPTIONS,
    article,
    build,
    dropped,
    entity,
    facts,
    medline,
    names,
    selected,
    texts,
)
from tests.messages import stated

# Leaks and boilerplate


@pytest.mark.parametrize(
    ("kind", "text", "listed"),
    [
        ("letters", "The TP53 gene is also tp53 in mouse.", ["TP53"]),
        ("letters", "Beos vim version of VIM.", ["vim"]),
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
    ],
)
def test_sentences_that_say_their_answer(kind, text, listed):
    assert [found[0] for found in selected(text, entity(*listed), quality=True)] == [LEAKS[kind]]
    assert [found[0] for found in selected(text, entity(*listed))] == ["kept"]


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
    assert [found[0] for found in selected(text, entity(name), quality=True)] == ["kept"]


def test_a_word_of_many_names_tells_none_of_them():
    """Three entities may have it, a fourth may not."""
    doors = ["globin door", "globin gate", "globin wall"]
    for others, outcome in ((doors[:2], LEAKS["beginning"]), (doors, "kept")):
        listed = [entity("globin lock"), *map(entity, others)]
        assert [found[0] for found in selected("A globin lock has globins.", *listed, quality=True)] == [outcome]


def test_what_is_left_out_is_counted_with_examples(tmp_path):
    said = [f"TP53 number {n} is also tp53." for n in range(5)]
    file = medline(tmp_path / "a.xml", article(1, *said), article(2, "TP53 is at http://a.org.", "TP53 binds."))
    built = build(tmp_path, [file], "TP53\n", quality=True)
    assert dropped(built) == {LEAKS["letters"]: 5, ADDRESS: 1}
    assert texts(built.out) == ["[Y] binds."]
    assert stated(built.notes, f"{LEAKS['letters']}: 5", "'[Y] number 0 is also tp53.' (TP53)")
    examples = json.loads((built.out / "manifest.json").read_text(encoding="utf-8"))["examples"]
    assert [one["sentence"] for one in examples[LEAKS["letters"]]] == [
        f"[Y] number {n} is also tp53." for n in range(3)
    ]
    assert examples[ADDRESS] == [{"document": "2", "sentence": "[Y] is at http://a.org.", "answer": "TP53"}]
    kept = build(tmp_path / "kept", [file], "TP53\n")
    assert (dropped(kept), len(texts(kept.out))) == ({}, 7)


# Other words with the letters of a name

CODES, WORDS = ("TP53", "BRCA1", "CD4", "MYC", "EGFR"), ("cut", "core", "regulator", "actin")
GENES = tuple(entity(name, type_="genes") for name in (*CODES, *WORDS))
METALS = tuple(entity(name) for name in ("lead", "iron", "zinc", "copper", "cocaine"))


@pytest.mark.parametrize(
    ("text", "listed", "outcome"),
    [
        ("Wings are cut along the margin.", GENES, OTHER_WORD),  # a verb, in a list of codes
        ("The core of a planet melts.", GENES, OTHER_WORD),  # a noun that is a verb elsewhere
        ("Its regulator is broken.", GENES, OTHER_WORD),  # a word for a kind of things
        ("Muscles have actin.", GENES, "kept"),  # no verb
        ("Mutations lead to damage.", METALS, OTHER_WORD),  # after a plural that is no verb
        ("Some of them may lead nowhere.", METALS, OTHER_WORD),
        ("Workers inhaled lead in factories.", METALS, "kept"),
        ("It lacks iron and zinc.", METALS[1:2], "kept"),
        ("Blood needs iron to carry oxygen.", METALS, "kept"),
        ("He saw lead the way.", METALS, OTHER_WORD),
        ("Cut wings heal.", GENES, OTHER_WORD),  # a capital because it is first
        ("Egfr was found.", (*GENES, entity("Egfr", type_="genes")), "kept"),  # no word of the language
        ("Copper was found.", METALS, "kept"),  # in a list of words
        ("It lies in marked contrast to others.", (*METALS, entity("contrast")), OTHER_WORD),
        ("In contrast to others, it lies.", (*METALS, entity("contrast")), OTHER_WORD),
        ("They inject contrast to see vessels.", (*METALS, entity("contrast")), "kept"),
        ("It lies in copper to rest.", METALS, "kept"),  # "copper" is a verb, but in no such phrase
        ("Mark can swim.", [entity("Mark")], "kept"),  # listed with a capital, as proper names are
        ("Bath is in England.", [entity("Bath")], "kept"),
        ("Lead the way.", METALS, OTHER_WORD),
        ("LEAD THE WAY.", METALS, "kept"),  # in capitals it is not judged
        ("His kidneys failed.", [entity("His")], OTHER_WORD),
        ("Replace Tyr by His there.", [entity("His")], "kept"),
        ("Here Max Weber wrote.", [entity("Max", type_="genes")], PART),
        ("Here Max binds.", [entity("Max", type_="genes")], "kept"),
    ],
)
def test_other_words_with_the_letters_of_a_name(text, listed, outcome):
    assert [found[0] for found in selected(text, *listed, quality=True)] == [outcome]
    assert [found[0] for found in selected(text, *listed)] == ["kept"]


def test_verbs_of_other_languages_are_unknown():
    assert [found[0] for found in selected("On cut the wings.", *GENES, quality=True, language="fr")] == ["kept"]


@pytest.mark.parametrize(
    ("introduced", "outcome"),
    [
        ("The left coronary artery (LCA) is narrow.", OTHER_WORD),
        ("Low carotene acetate (LCA) is narrow.", "kept"),  # a listed name ends in it
        ("Low carotene acetates (LCA) are narrow.", "kept"),
        ("A low carotene agent (LCA) is narrow.", "kept"),  # a word for any kind of things
        ("The large artery (LCA) is narrow.", "kept"),  # no long form of it
    ],
)
def test_an_abbreviation_of_something_else(introduced, outcome):
    """Up to the end of its document."""
    listed = entity("LCA"), entity("vinyl acetate")
    selector = Selector(listed, OPTIONS.model_copy(update={"quality": True}), ())
    used = "Stents in LCA are safe."
    selector.sentences(introduced)
    assert [sentence.outcome for sentence in selector.sentences(used)] == [outcome]
    selector.begin()
    assert [sentence.outcome for sentence in selector.sentences(used)] == ["kept"]


def test_each_document_has_abbreviations_of_its_own(tmp_path):
    used = "Stents in LCA are safe."
    first, second = article(1, "The left coronary artery (LCA) is narrow.", used), article(2, used)
    built = build(tmp_path, [medline(tmp_path / "a.xml", first, second)], "LCA\n", quality=True)
    assert dropped(built) == {"holds a blocked sub-string": 1, OTHER_WORD: 1}
    assert [fact["groups"]["document"] for fact in facts(built.out)] == ["2"]


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


# Proper names


def mentioned_names(text: str, *listed: ListedEntity) -> list[str]:
    return [text[found.start : found.end] for found in NameFinder(listed, OPTIONS).find(text)]


def test_proper_names_are_not_found_in_small_letters():
    text = "Turkey sells turkey, and roast TURKEY."
    assert mentioned_names(text, entity("Turkey"), entity("New Zealand")) == ["Turkey"]
    assert mentioned_names(text, entity("Turkey", "turkey")) == ["Turkey", "turkey", "TURKEY"]
    assert stated(
        NameFinder([entity("Turkey"), entity("tin")], OPTIONS).notes(), "1 names", "'Turkey'", "--case ignore"
    )


def test_capitals_of_a_list_may_be_style():
    """Where later words of names are in small letters, the first has its capital as every name in the list."""
    text = "Aspirin is aspirin."
    assert mentioned_names(text, entity("Aspirin"), entity("Acetic acid")) == ["Aspirin", "aspirin"]
    assert mentioned_names(text, entity("Aspirin"), entity("Acetic Acid")) == ["Aspirin"]


def test_names_that_are_mostly_ordinary_words_are_dropped(tmp_path):
    file = Path(names(tmp_path / "a.txt", "Reading is fun. They like reading. Some were reading. Paris is big."))
    built = build(tmp_path, [file], "Reading\nParis\n", quality=True)
    assert dropped(built)[ORDINARY] == 1
    assert [fact["answer"] for fact in facts(built.out)] == ["Paris"]


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
