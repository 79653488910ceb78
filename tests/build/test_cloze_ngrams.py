"""What neighbouring words alone would answer: by hand, against a count of everything, and as a baseline of a run."""

from __future__ import annotations

import json
import math
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fathom.cli import make_app
from fathom.data.formats import read
from fathom.data.selection.pools import DATA, pooled
from fathom.results.summary import summarise
from fathom_build.cloze.build import WITHOUT_MODEL, build_cloze
from fathom_build.cloze.rows import BACKOFF, WINDOW, Neighbours, NgramRank, Ngrams, Row
from fathom_build.options import ClozeBuildOptions, ClozeFiles
from tests.answerers import answered, frequent_first
from tests.build.test_build_cloze import LOOSE, OPTIONS, dropped, facts, names
from tests.messages import stated


def ngrams(folder: Path, said: list[tuple[int, str, str]]):
    """:param said: entity, masked sentence, document."""
    neighbours = Neighbours(folder / "neighbours")
    for one in said:
        neighbours.add(*one)
    return neighbours.model()


def scores_of(model: Ngrams, rows: list[Row]) -> np.ndarray:
    """Scores of all entities that occur, shape (queries, entities)."""
    scored = model.score(rows)
    scores = scored.others[:, model.level]
    scores[scored.query, scored.entity] = scored.score
    return scores


def row(entity: int, masked: str, document: str) -> Row:
    return Row(entity, masked, "", document, "", 0, "", 0)


def test_by_hand(tmp_path):
    """Asked is "she took [Y] daily." of document d, of two others: 0 twice after "took", 1 once; only 1 before
    "daily". S(0 | took) = 2/3 · 0.4 as "she took" was never counted, S(daily | 0) = 0.4 · 1/3 (one of three gaps),
    S(. | 0 daily) = 0.4 · 1; S(1 | took) = 1/3 · 0.4, S(daily | 1) = 1, S(. | 1 daily) = 1."""
    asked = (0, "She took [Y] daily.", "d")
    said = [(0, "We took [Y] and", "a"), (0, "They took [Y] then", "b"), (1, "I took [Y] daily.", "c"), asked]
    found = ngrams(tmp_path, said)
    [scores] = scores_of(found, [row(*asked)]).tolist()
    assert scores == pytest.approx([BACKOFF * 2 / 3 * BACKOFF / 3 * BACKOFF, BACKOFF / 3])
    assert list(found.ranks([row(*asked)], [[0, 1], [0, 1, 2]])) == [(NgramRank(2, 2, 2), NgramRank(2, 2, 3))]
    assert [str(NgramRank(1, 1, 5)), str(NgramRank(2, 4, 5))] == ["1 of 5", "2-4 of 5"]


def test_answers_of_one_document_are_tied(tmp_path):
    """The answer is in its own document alone: level with the names that are in none."""
    said = [(0, "Only [Y] here.", "d"), (0, "Again [Y] here.", "d"), (1, "Then [Y].", "a")]
    found = ngrams(tmp_path, said)
    assert list(found.ranks([row(*said[0])], [[0, 1, 2, 3]])) == [(NgramRank(2, 4, 4),)]


def test_the_same_sentence_elsewhere_is_left_out(tmp_path):
    said = [(0, "So [Y] heals.", "a"), (0, "so [Y] heals.", "b"), (1, "More [Y] kills.", "c")]
    found = ngrams(tmp_path, said)
    for asked in said[:2]:
        assert list(found.ranks([row(*asked)], [[0, 1]])) == [(NgramRank(2, 2, 2),)]


def naive(said: list[tuple[int, str, str]], asked: int, entities: int) -> list[float]:
    """From the definition, sentence by sentence."""

    def words(text):
        before, after = (re.findall(r"\w+|[^\w\s]", part.casefold()) for part in text.split("[Y]"))
        return tuple([None, None, *before][-2:]), tuple([*after, None, None][:2])

    entity, text, document = said[asked]
    first = {}
    for number, one in enumerate(said):
        first.setdefault((one[0], one[1].casefold()), number)
    counted = [
        (said[number][0], *words(said[number][1]))
        for number in first.values()
        if not (said[number][2] == document and abs(number - asked) <= WINDOW)
        and (said[number][0], said[number][1].casefold()) != (entity, text.casefold())
    ]
    left, right = words(text)

    def count(w=None, before=0, after=0):
        return sum(
            (w is None or e == w)
            and (not before or before_ == left if before == 2 else not before or before_[1] == left[1])
            and (not after or after_ == right if after == 2 else not after or after_[0] == right[0])
            for e, before_, after_ in counted
        )

    scores = []
    for w in range(entities):
        score = BACKOFF**2 * count(w) / (count() or 1)
        if count(w, before=1):
            score = BACKOFF * count(w, before=1) / count(before=1)
        if count(w, before=2):
            score = count(w, before=2) / count(before=2)
        if count(after=1):
            score *= count(w, after=1) / count(w) if count(w, after=1) else BACKOFF * count(after=1) / count()
        if count(after=2):
            score *= (
                count(w, after=2) / count(w, after=1)
                if count(w, after=2)
                else BACKOFF * count(after=2) / count(after=1)
            )
        scores.append(score)
    return scores


@pytest.mark.parametrize("seed", range(3))
def test_against_the_definition(tmp_path, seed):
    """Long documents, short ones, and repeated sentences."""
    draw = np.random.default_rng(seed)
    sides = ["", "a", "a b", "b a", "c a", "the b"]
    said = []
    for number in range(260):
        before, after = draw.choice(sides, 2)
        document = f"d{number // 4}" if number < 120 else "long"
        said.append((int(draw.integers(4)), f"{before} [Y] {after}".strip(), document))
    found = ngrams(tmp_path, said)
    asked = [n for n, one in enumerate(said) if said.index(one) == n]
    scores = scores_of(found, [row(*said[number]) for number in asked])
    for own, number in zip(scores.tolist(), asked, strict=True):
        assert own == pytest.approx(naive(said, number, 4), rel=1e-12)


def test_places_are_those_of_all_scores(tmp_path):
    """Of 40 names, most far from any context that is asked; pools that overlap, names unseen."""
    draw = np.random.default_rng(5)
    sides = [f"{a} {b}" for a, b in product("abcdefg", repeat=2)]
    said = []
    for number in range(400):
        before, after = draw.choice(sides, 2)
        said.append((int(draw.integers(40) ** 2 // 40), f"{before} [Y] {after}", f"d{number // 3}"))
    found = ngrams(tmp_path, said)
    pools = [range(20), range(10, 44), range(44)]
    asked = [row(*one) for one in said]
    for scores, query, ranks in zip(scores_of(found, asked), asked, found.ranks(asked, pools), strict=True):
        own = dict(zip(found.entities.tolist(), scores.tolist(), strict=True))
        best = own[query.entity]
        expected = []
        for pool in pools:
            wrong = [own.get(entity, 0.0) for entity in pool if entity != query.entity]
            if query.entity in pool:
                ahead, upto = (sum(s > best * f for s in wrong) for f in (1 + 1e-9, 1 - 1e-9))
                ties = sum(s == 0 for s in wrong) if best == 0 else 0
                expected.append((1 + ahead, 1 + upto + ties, len(pool)))
        assert list(map(tuple, ranks)) == expected


# In the data set


ADJECTIVES = ("red", "blue", "green", "pale")
DRUGS = ("aspirin", "lithium", "insulin", "morphine")


def corpus(folder: Path) -> list[Path]:
    """Each adjective goes with one drug in three documents; and sentences that tell nothing."""
    said = [f"{where} {adjective} {drug} is sold." for where, (adjective, drug) in product(
        ("Much", "Some", "Cheap"), zip(ADJECTIVES, DRUGS, strict=True))]  # fmt: skip
    said += [f"Case{n} of {drug} number{n}." for n, drug in enumerate(DRUGS * 3)]
    lines = (json.dumps({"id": str(n), "text": text}) for n, text in enumerate(said))
    file = folder / "a.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    return [file]


def test_answerable_sentences_are_marked_counted_and_dropped(tmp_path):
    """The twelve that an adjective gives away, no other; the three drugs of the others are equally frequent."""
    listed = [names(tmp_path / "drugs.txt", "\n".join(DRUGS)), names(tmp_path / "genes.txt", "TP53")]
    built = build_cloze(ClozeFiles(input=corpus(tmp_path), entities=listed, out=tmp_path / "out"), OPTIONS)
    marked = [fact["groups"]["answerable"] for fact in facts(built.out)]
    assert marked == ["yes"] * 12 + ["no"] * 12
    assert facts(built.out)[0]["groups"]["n-gram"] == "1 of 4"
    assert facts(built.out)[0]["groups"]["n-gram among all"] == "1 of 4"  # TP53 does not occur
    assert stated(
        built.notes, WITHOUT_MODEL, "kept", "12 of 24 drugs", "12 without", "'Much red [Y] is sold.' (aspirin)"
    )
    fewer = build_cloze(
        ClozeFiles(input=corpus(tmp_path), entities=listed, out=tmp_path / "fewer"),
        ClozeBuildOptions(**LOOSE, exclude_guessable=True),
    )
    assert dropped(fewer) == {WITHOUT_MODEL: 12}
    assert stated(fewer.notes, WITHOUT_MODEL, "excluded", "12 of 24 drugs", "12 without")
    assert len(facts(fewer.out)) == 12


def test_a_result_has_the_ngram_baseline(tmp_path):
    """An answerer that only ever says aspirin is right in 6 of 24; neighbouring words are in the 12 sold and, of the
    others, where each answer has two other sentences of its kind and five altogether, as often as lot would have it."""
    built = build_cloze(
        ClozeFiles(
            input=corpus(tmp_path), entities=[names(tmp_path / "drugs.txt", "\n".join(DRUGS))], out=tmp_path / "out"
        ),
        OPTIONS,
    )
    data = read(built.out)
    folder = answered(tmp_path / "run", frequent_first(DRUGS), data)
    [headline] = summarise(folder).headlines
    [one] = [one for one in headline.baselines["accuracy"] if one.baseline == "n-gram"]
    ranks = [fact["groups"]["n-gram"].split(" of ")[0].split("-") for fact in facts(built.out)]
    places = [(int(rank[0]), int(rank[-1])) for rank in ranks]
    assert one.value == pytest.approx(np.mean([(1 / (1 + last - first)) * (first == 1) for first, last in places]))
    assert one.value >= 0.5
    assert headline.accuracy is not None
    assert math.isclose(headline.accuracy.value, 0.25)
    assert "n-gram" in (headline.verdict("accuracy") or "")
    assert pooled(data, data.queries, DATA, None)[1][0].groups["n-gram"] == "1 of 4"


def test_data_info_tells_of_the_pool_that_the_cloze_probe_asks(tmp_path):
    """Two types of two: by lot one half of each, one quarter of all."""
    lists = [names(tmp_path / "drugs.txt", "aspirin\ntin"), names(tmp_path / "genes.txt", "TP53\nBRCA1")]
    file = Path(names(tmp_path / "a.txt", "Aspirin heals. Tin shines. TP53 binds. BRCA1 mends."))
    built = build_cloze(ClozeFiles(input=[file], entities=lists, out=tmp_path / "out"), OPTIONS)
    printed = CliRunner().invoke(make_app(), ["data", "info", str(built.out)], env={"COLUMNS": "200"}).output
    assert re.search(r"all\s+│?\s*4\s.*50\.00 %", printed)
    assert re.search(r"--pool data.*25\.00 %", printed)


def test_each_type_becomes_a_data_set(tmp_path):
    """Answers are ranked among those of their own type."""
    file = tmp_path / "texts.txt"
    file.write_text(
        "Gold is heavier than all ordinary kitchen metals. Lyon is larger than all neighbouring French towns."
    )
    for name, word in (("metals", "gold"), ("towns", "Lyon"), ("none", "zzz")):
        (tmp_path / f"{name}.txt").write_text(f"{word}\n")
    lists = [str(tmp_path / f"{name}.txt") for name in ("metals", "towns", "none")]
    options = OPTIONS.model_copy(update={"each_type": True})
    built = build_cloze(ClozeFiles(input=[file], entities=lists, out=tmp_path / "out"), options)
    assert sorted(folder.name for folder in (tmp_path / "out").iterdir() if folder.is_dir()) == ["metals", "towns"]
    data = {name: read(tmp_path / "out" / name) for name in ("metals", "towns")}
    assert {
        name: [len(own.queries), *own.candidates["towns" if name == "towns" else "metals"].names]
        for name, own in data.items()
    } == {"metals": [1, "gold"], "towns": [1, "Lyon"]}
    assert [(row.type, row.sentences) for row in built.frequencies] == [("metals", 1), ("towns", 1)]
