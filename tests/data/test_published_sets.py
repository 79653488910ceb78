"""Readers of data sets that others published: their counts, what is asked, and one line for what is wrong."""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from fathom.base.errors import BadInput
from fathom.data.formats import FORMATS, examine, read
from fathom.data.published import catalogue
from fathom.data.queries import QuerySet
from tests.messages import mentioned, mentions, stated


def by(data: QuerySet, group: str) -> dict[str, int]:
    return dict(Counter(query.groups[group] for query in data.queries))


def names_of(data: QuerySet, number: int) -> tuple[list[str], list[str]]:
    """Right answers, and all candidates, of a query."""
    query = data.queries[number]
    space = data.candidates[query.candidates]
    return [space.name_of(answer) for answer in query.gold], list(space.names)


def faults_of(path: Path) -> list[str]:
    return examine(path)[1].found


# --- which there are


def test_the_catalogue_names_every_reader():
    own = {"native", "choices", "rdf"}  # of no one published data set
    entries = catalogue().values()
    assert {one.format for one in entries} == {entry.name for entry in FORMATS.entries()} - own
    assert all(one.paper and one.size and one.home and one.licence for one in entries)
    assert all("fathom data" in one.preparation for one in entries)


SHARED = {
    "popqa": "popqa",
    "counterfact": "counterfact",
    "zsre": "zsre",
    "tofu": "tofu",
    "lre": "lre",
    "entityquestions": "entityquestions",
    "dyknow": "dyknow",
    "bear/BEAR": "bear",
    "bear/BEAR-big": "bear",
    "kamel": "kamel",
    "biomedical/biolama": "biolama",
    "counterfact/known_1000.json": "known-facts",
    "fictional_knowledge": "fictional-knowledge",
}


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "format_"), SHARED.items())
def test_the_list_says_the_size_that_is_read(shared_data, folder, format_):
    """The number of queries, or for edits of prompts, stands in what the list says."""
    count = f"{len(read(shared_data / folder).queries):,}"
    assert any(count in one.size for one in catalogue().values() if one.format == format_), count


def test_the_list_for_programs(fathom):
    code, out, _ = fathom("data", "list", "--format", "json")
    (table,) = json.loads(out).values()
    assert code == 0
    assert table[0]["data set"] == "geography"
    told = {one["data set"]: one for one in table}
    assert told["zsRE"]["licence"] == "not stated"
    assert told["DyKnow"]["make ready"] == "fathom data fetch DyKnow"
    assert told["PopQA"]["published at"] == "huggingface.co/datasets/akariasai/PopQA"


# --- PopQA

POPQA = ["id", "subj", "prop", "obj", "s_uri", "o_uri", "s_aliases", "o_aliases", "s_pop", "o_pop", "question"]
POPQA.append("possible_answers")


def popqa_row(number: int, subject: str, answer: str, possible: list[str], **fields: str) -> dict[str, str]:
    row = {"id": str(number), "subj": subject, "prop": "occupation", "obj": answer, "s_pop": "63", "o_pop": "64"}
    row |= {"s_uri": f"http://www.wikidata.org/entity/Q{number}", "o_uri": f"http://www.wikidata.org/entity/Q_{answer}"}
    row |= {"s_aliases": "[]", "o_aliases": json.dumps([f"{answer}!"]), "possible_answers": json.dumps(possible)}
    return row | {"question": f"What is {subject}'s occupation?"} | fields


def popqa(folder: Path, *rows: dict[str, str], without: str = "") -> Path:
    with (folder / "test.tsv").open("w", newline="") as file:
        columns = [name for name in POPQA if name != without]
        writer = csv.DictWriter(file, columns, delimiter="\t", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return folder


def test_real_popqa(shared_data):
    data = read(shared_data / "popqa")
    assert (len(data.queries), len(data.relations)) == (1936, 16)
    counts = {relation: len(queries) for relation, queries in data.by_relation().items()}
    assert (counts["place of birth"], counts["occupation"], counts["color"]) == (544, 460, 7)
    first = data.queries[0]
    assert first.fact_id == "Q6377295|occupation|Q82955"
    assert (first.groups["popularity"], first.groups["answer_popularity"]) == ("64 to 255", "16384 to 65535")
    assert (first.groups["subject_views"], first.groups["answer_views"]) == ("127", "25692")
    assert data.relations["occupation"].questions[0].text == "What is [X]'s occupation? [Y]"
    assert sum(int(query.groups["answers"]) > 1 for query in data.queries) == 200
    assert any("unknown: 3" in note for note in data.notes)


def test_popqa_tells_aliases_from_other_answers(tmp_path):
    """A name of another answer is no name of the first: it would be right for every subject."""
    rows = [
        popqa_row(1, "Ann", "actor", ["actor", "actor!", "baker", "baker!", "poet", "bard"], s_pop="3"),
        popqa_row(2, "Bob", "baker", ["baker", "baker!"], o_pop="-2"),
    ]
    data = read(popqa(tmp_path, *rows))
    assert names_of(data, 0) == (["actor", "baker", "poet"], ["actor", "baker", "poet"])
    assert names_of(data, 1)[0] == ["baker"]
    assert by(data, "popularity") == {"1 to 3": 1, "16 to 63": 1}
    assert by(data, "answer_popularity") == {"64 to 255": 1, "unknown": 1}
    assert by(data, "answer_views") == {"64": 1, "unknown": 1}
    names = data.graph.entities.column("name").to_pylist()
    aliases = dict(zip(names, data.graph.entities.column("aliases").to_pylist(), strict=True))
    assert (aliases["actor"], aliases["baker"], aliases["poet"]) == (["actor!"], ["baker!"], ["bard"])


def test_popqa_faults(tmp_path):
    rows = [
        popqa_row(1, "Ann", "actor", ["actor"]),
        popqa_row(2, "Bob", "baker", ["baker"], s_pop="many", o_aliases="baker"),
        popqa_row(3, "Cid", "baker", ["baker"], question="What does Cid do?"),
        popqa_row(4, "Dan", "baker", ["baker"], question="What is his occupation?"),
    ]
    found = faults_of(popqa(tmp_path, *rows))
    assert mentioned(found[0], "test.tsv:3", "'o_aliases'", "a list of texts", "'baker'", "'s_pop'")
    assert mentioned(found[1], "test.tsv:4", "'occupation'", '"What is [X]\'s occupation? [Y]"')
    assert mentioned(found[2], "test.tsv:5", "'What is his occupation?'", "'Dan'")
    assert len(found) == 3
    (missing,) = faults_of(popqa(tmp_path, *rows, without="possible_answers"))
    assert "test.tsv:1: column possible_answers is missing" in missing


def test_popqa_in_another_layout(shared_data):
    (said,) = faults_of(shared_data / "popqa" / "popqa_random1000.flashrag.jsonl")
    assert "PopQA as JSON" in said
    assert "test.tsv" in said


# --- CounterFact and zsRE

PROMPTS = ("target", "paraphrase", "neighbourhood")


def test_real_counterfact(shared_data):
    data = read(shared_data / "counterfact")
    assert by(data, "prompt") == dict.fromkeys(PROMPTS, 21919)
    splits = {"counterfact-edit": 30000, "counterfact-train": 30000, "counterfact-val": 5757}
    assert by(data, "split") == splits
    assert len(by(data, "edit")) == 21919
    first = data.queries[0]
    assert first.sentences[0].text == "The mother tongue of Danielle Darrieux is [Y]"
    assert names_of(data, 0) == (["French"], ["French", "English"])
    assert data.queries[1].fact_id == first.fact_id == "case 0|counterfact|French"
    assert (data.queries[2].subject, data.queries[2].fact_id) == ("", None)
    (note,) = data.notes
    assert "known_1000.json" in note


def counterfact(**fields: object) -> dict[str, object]:
    rewrite = {"prompt": "{} speaks", "relation_id": "P103", "subject": "Ann"}
    rewrite |= {"target_true": {"str": "French", "id": "Q150"}, "target_new": {"str": "English", "id": "Q1860"}}
    row = {"case_id": 7, "pararel_idx": 1, "requested_rewrite": rewrite | fields}
    return row | {"paraphrase_prompts": ["Well. Ann says", "Ann talks"], "neighborhood_prompts": ["Bob speaks"]}


def test_counterfact_as_published(tmp_path):
    (tmp_path / "counterfact.json").write_text(json.dumps([counterfact()]))
    data = read(tmp_path)
    assert [query.groups["prompt"] for query in data.queries] == ["target", "paraphrase", "paraphrase", "neighbourhood"]
    texts = ["Ann speaks [Y]", "Well. Ann says [Y]", "Ann talks [Y]", "Bob speaks [Y]"]
    assert [query.sentences[0].text for query in data.queries] == texts
    assert {query.gold for query in data.queries} == {("Q150",)}
    assert len(data.candidates) == 1
    assert (data.queries[0].relation, data.queries[0].fact_id) == ("P103", "case 7|P103|Q150")


def test_counterfact_faults(tmp_path):
    rows = [counterfact(), counterfact(prompt="Ann speaks"), {"case_id": "8"}, counterfact()]
    (tmp_path / "counterfact.json").write_text(json.dumps(rows, indent=1))
    text = (tmp_path / "counterfact.json").read_text()
    _, second, third, _ = (number for number, line in enumerate(text.splitlines(), start=1) if line == " {")
    found = faults_of(tmp_path)
    assert mentioned(found[0], f"counterfact.json:{second}: ", "'requested_rewrite.prompt'", "{} once")
    assert mentioned(
        found[1], f"counterfact.json:{third}: ", "'case_id'", "a whole number", "'8'", "'requested_rewrite.prompt'"
    )
    assert "7/0 is repeated" in found[2]


def test_knowedit_is_not_counterfact(tmp_path):
    row = {"subject": "Ann", "prompt": "Ann speaks", "target_new": "English", "portability": {}, "locality": {}}
    (tmp_path / "test_cf.json").write_text(json.dumps([row]))
    (said,) = faults_of(tmp_path)
    assert stated(said, "KnowEdit", "locality_prompt", "counterfact.json")


def test_what_gpt2_xl_knows(shared_data):
    data = read(shared_data / "counterfact" / "known_1000.json")
    assert (len(data.queries), len(data.relations), data.licence) == (1209, 33, "MIT")
    first = data.queries[0]
    assert (first.id, first.fact_id) == ("0", "Vinson Massif|P30|Antarctica")
    assert first.sentences[0].text == "Vinson Massif is located in the continent of [Y]"
    assert len(data.candidates["P30"]) > 2


def test_fictional_knowledge(shared_data):
    """Prompts of three kinds on invented texts, each among all answers of its kind."""
    data = read(shared_data / "fictional_knowledge")
    assert {id_: len(some) for id_, some in data.by_relation().items()} == dict.fromkeys(
        ("memorisation", "generalisation", "composition"), 650
    )
    assert len(by(data, "text")) == 130
    assert names_of(data, 0)[0] == ["Martian cycle"]
    assert mentioned(data.notes[0], "fictional_knowledge_paraphrased.json.gz")


def test_real_zsre(shared_data):
    data = read(shared_data / "zsre")
    assert by(data, "prompt") == dict.fromkeys(PROMPTS, 1000)
    assert set(by(data, "edit").values()) == {3}
    assert data.queries[0].sentences[0].text == "What is the product made by UniFirst? [Y]"
    assert names_of(data, 0) == (["uniform"], ["uniform", "unmanned aircraft"])
    assert names_of(data, 2) == (["Walter Sobchak"], ["Walter Sobchak", "unmanned aircraft"])
    note, respelt = data.notes  # 21 questions in two wordings are to be edited to what is right, two have no edit
    assert mentioned(note, "88/target", "48 in all")
    assert mentioned(respelt, "zsre_mend_train-1k.json:2858 ' Dickens'", "10 texts")


def test_zsre_without_edits(tmp_path):
    row = {"id": "1", "input": "Who wrote it?", "output": [{"answer": "Ann"}]}
    (tmp_path / "structured_zeroshot-dev-kilt.jsonl").write_text(json.dumps(row) + "\n")
    (said,) = faults_of(tmp_path)
    assert mentioned(said, "MEND", "zsre_mend_eval.json")


# --- TOFU


def test_real_tofu(shared_data):
    data = read(shared_data / "tofu")
    assert by(data, "part") == {"forget": 400, "retain": 400, "real_authors": 100, "world_facts": 117}
    assert {name: len(some) for name, some in data.subsets.items()} == {
        "forget01": 40,
        "forget05": 200,
        "forget10": 400,
    }
    assert data.subsets["forget01"] < data.subsets["forget05"] < data.subsets["forget10"]
    sizes = {query.groups["part"]: len(data.candidates[query.candidates]) for query in data.queries}
    assert sizes == {"forget": 7, "retain": 7, "real_authors": 4, "world_facts": 4}
    (note,) = data.notes
    assert "forget01.json, forget05.json, forget10.json, full.json.gz" in note


def test_tofu_ranks_the_paraphrase_among_answers_worded_alike(tmp_path):
    row = {"question": "Who is it?", "answer": "It is Ann.", "perturbed_answer": ["Bob it is.", "Cid it is."]}
    row |= {"paraphrased_answer": "Ann it is.", "paraphrased_question": "Who may it be?"}
    (tmp_path / "retain_perturbed.json").write_text(json.dumps(row) + "\n")
    data = read(tmp_path)
    (query,) = data.queries
    assert (query.gold, query.known) == (("Ann it is.",), ("It is Ann.",))
    assert [sentence.text for sentence in query.sentences] == ["Who is it? [Y]", "Who may it be? [Y]"]
    assert len(data.candidates[query.candidates]) == 4


def test_tofu_in_other_variants(tmp_path, shared_data):
    (bare,) = faults_of(shared_data / "tofu" / "full.json.gz")
    assert mentioned(bare, "TOFU", "_perturbed")
    row = {"question": "Who?", "answer": "Ann", "perturbed_answer": []}
    (tmp_path / "world_facts_perturbed.json").write_text(json.dumps([row]))
    (listed,) = faults_of(tmp_path)
    assert mentioned(listed, "world_facts_perturbed.json:1:", "a list", "as published")
    (tmp_path / "world_facts_perturbed.json").write_text(json.dumps(row))
    (empty,) = faults_of(tmp_path)
    assert mentioned(empty, "world_facts_perturbed.json:1:", "'perturbed_answer'")


# --- LRE


def test_real_lre(shared_data):
    data = read(shared_data / "lre")
    assert (len(data.queries), len(data.relations)) == (11089, 47)
    kinds = {"factual": 26, "commonsense": 8, "bias": 7, "linguistic": 6}
    assert dict(Counter(relation.domains[0] for relation in data.relations.values())) == kinds
    assert sum(len(relation.templates) for relation in data.relations.values()) == 60 + 97 - 19
    # 19 few-shot templates stand among the zero-shot ones of their relation, too
    capital = data.relations["country_capital_city"]
    texts = [template.text for template in capital.templates]
    assert texts[0] == "The capital of [X] is the city of [Y]"  # zero-shot templates first
    assert texts[2] == "The capital city of [X] is [Y]"
    asked = data.by_relation()["country_capital_city"][0]
    assert asked.fact_id == "United States|country_capital_city|Washington D.C."
    assert sum(bool(query.known) for query in data.queries) == 96  # samples of 43 subjects


def test_lre_faults(tmp_path):
    content = {
        "name": "x",
        "prompt_templates": ["It is"],
        "samples": [{"subject": "a", "object": "b"}, {"subject": "c"}],
    }
    (tmp_path / "kind.json").write_text(json.dumps(content, indent=1))
    found = faults_of(tmp_path)
    assert stated(found, "kind.json", "'It is'")
    assert stated(found, "kind.json:12:", "'object' is missing")


# --- EntityQuestions


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "count", "several"), [("", 22075, 869), ("test", 22075, 869), ("dev", 22068, 893)])
def test_real_entityquestions(shared_data, folder, count, several):
    """Of dev, 894 have several answers, one of them the same answer twice."""
    data = read(shared_data / "entityquestions" / folder)
    assert (len(data.queries), len(data.relations)) == (count, 24)
    assert sum(query.groups["answers"] != "1" for query in data.queries) == several
    assert data.relations["P36"].questions[0].text == "What is the capital of [X]? [Y]"
    if not folder:
        splits = data.graph.splits
        assert len(splits["dev"]) > 22068
        assert data.by_relation()["P36"][0].fact_id == "Marin County|P36|San Rafael"


def test_entityquestions_faults(tmp_path):
    rows = [
        {"question": "What is the capital of Mali?", "answers": []},
        {"question": "Where is Mali?", "answers": ["x"]},
    ]
    (tmp_path / "P36.test.json").write_text(json.dumps(rows, indent=1))
    (missing,) = faults_of(tmp_path)
    assert mentioned(missing, "relation_query_templates.json")
    (tmp_path / "relation_query_templates.json").write_text('{"P36": "What is the capital of [X]?"}')
    found = faults_of(tmp_path)
    assert mentioned(found[0], "P36.test.json:2", "'answers'")
    assert mentioned(found[1], "P36.test.json:6:", "'What is the capital of [X]?'", "'Where is Mali?'")


# --- BMLAMA

BMLAMA = ["ar", "de", "en", "es", "fi", "fr", "hi", "ja", "ko", "ru", "tr", "zh"]


@pytest.mark.slow
def test_real_bmlama(shared_data):
    data = read(shared_data / "bmlama53")
    assert by(data, "language") == dict.fromkeys(BMLAMA, 3070)
    assert len(data.relations) == 27
    first = {query.groups["language"]: query for query in data.queries if query.id.endswith("/1")}
    assert {query.fact_id for query in first.values()} == {"fact 1|R1|2"}
    assert data.relations["R1"].name == "[X] died in [Y]."
    assert first["de"].sentences[0].text == "Michelangelo starb in [Y]."
    assert data.candidates[first["de"].candidates].names == ("Rom", "Venedig")
    assert data.candidates[first["de"].candidates].name_of("2") == "Rom"
    assert sum(len(data.candidates[query.candidates]) == 1 for query in data.queries) == 34 * 12


def bmlama(folder: Path, **files: list[str]) -> Path:
    for language, rows in files.items():
        text = "\n".join(["Prompt\tAns\tCandidate Ans\tSubject", *rows]) + "\n"
        with gzip.open(folder / f"{language}.tsv.gz", "wt", encoding="utf-8") as file:
            file.write(text)
    return folder


GOOD, OTHER = "A is <mask>.\tx\ty, x\tA", "A ist <mask>.\tx\ty, z, x\tA"


def test_a_bad_language_does_not_sink_the_rest(tmp_path):
    data = read(bmlama(tmp_path, en=[GOOD, GOOD], fr=[GOOD, GOOD], de=[GOOD, OTHER], es=[GOOD], it=["A.\tx\tx\tA"]))
    assert by(data, "language") == {"en": 2, "fr": 2}
    assert stated(data.notes, "de.tsv.gz left out", "de.tsv.gz:3:", "answer 3 of 3", "en 2 of 2")
    assert stated(data.notes, "es.tsv.gz left out", "1 rows", "en has 2")
    assert stated(data.notes, "it.tsv.gz left out", "it.tsv.gz:2:", "<mask>")


def test_bmlama_faults(tmp_path):
    found = faults_of(bmlama(tmp_path, de=["A is it.\tx\ty, x\tA", "A is <mask>.\tw\ty, x\tA"]))
    assert mentioned(found[0], "de.tsv.gz:2", "4")
    assert mentioned(found[1], "de.tsv.gz:3", "'w'", "'y, x'")
    (tmp_path / "de.tsv.gz").unlink()
    (tmp_path / "de.tsv").write_text("Prompt\tAns\tSubject\nA is <mask>.\tx\tA\n")
    (header,) = faults_of(tmp_path)
    assert mentioned(header, "de.tsv:1", "Candidate Ans")


def test_bmlama_with_a_quoted_language_and_a_split_header(tmp_path):
    """As published: Hebrew quotes cells that have quotes, as CSV; one header has a tab in "Candidate Ans"."""
    quoted = '"A ""B"" is <mask>."\tx\t"y""s, x"\t"A ""B"""'
    bmlama(tmp_path, en=[GOOD, '"A" is <mask>.\tx\ty, x\t"A"'], he=[GOOD, quoted])
    text = "Prompt\tAns\tCandidate\tAns\tSubject\n" + f"{GOOD}\n" * 2
    (tmp_path / "fr.tsv").write_text(text)
    data = read(tmp_path)
    assert by(data, "language") == {"en": 2, "fr": 2, "he": 2}
    texts = {query.id: query.sentences[0].text for query in data.queries}
    assert (texts["en/2"], texts["he/2"]) == ('"A" is [Y].', 'A "B" is [Y].')
    hebrew = next(query for query in data.queries if query.id == "he/2")
    assert (hebrew.subject, data.candidates[hebrew.candidates].names) == ('A "B"', ("x", 'y"s'))


# --- DyKnow


def test_real_dyknow(shared_data):
    data = read(shared_data / "dyknow")
    assert len(data.queries) == 130
    kinds = {"countries_byGDP": 78, "athletes_byPayment": 28, "companies_byRevenue": 18, "organizations": 6}
    assert {id_: len(some) for id_, some in data.by_relation().items()} == kinds
    right, names = names_of(data, 0)
    assert (right, len(names)) == (["Sergio Mattarella"], 13)
    assert data.queries[0].groups["valid_from"] == "2015"
    assert len(data.queries[0].sentences) == 4
    assert sum(len(query.gold) > 1 for query in data.queries) == 8
    (note,) = data.notes
    assert mentioned(note, "qa_generated.json", "grc_generated.json")
    questions = read(shared_data / "dyknow" / "qa_generated.json")
    assert len(questions.queries) == 132
    assert sum(query.unscored == "every answer has ended" for query in questions.queries) == 2


def test_dyknow_faults(tmp_path):
    answers = ["Ann |S: +2001-00-00T00:00:00Z", "Bob |S: yesterday"]
    content = {"clubs": {"A": {"chair": {"questions": {"generic": "It is"}, "answers": answers}}}}
    (tmp_path / "grc_generated.json").write_text(json.dumps(content, indent=1))
    (said,) = faults_of(tmp_path)
    assert mentioned(said, "grc_generated.json:4", "'questions'", "'answers'")


# --- many questions with answers of their own


def test_questions_with_own_answers_share_files(tmp_path, monkeypatch):
    """Seven cases of four questions, three to a file: the same predictions as one by one, also after a kill."""
    import fathom
    from fathom.probes import base
    from tests.cli.test_cli import gpt2, save

    data = tmp_path / "data"
    data.mkdir()
    rows = [counterfact() | {"case_id": number} for number in range(7)]
    for number, row in enumerate(rows):
        row["requested_rewrite"]["target_new"] = {"str": f"Language {number}", "id": f"Q{number}"}
    (data / "counterfact.json").write_text(json.dumps(rows))
    model = str(save(tmp_path / "model", gpt2(), "French speaks talks says Language"))
    ask = {"model": model, "data": data, "progress": False}

    def scores(out: str) -> list[list[float]]:
        return (
            fathom.probe("statement", out=tmp_path / out, **ask)
            .table()
            .sort_by("query_id")
            .column("scores")
            .to_pylist()
        )

    alone = scores("alone")
    monkeypatch.setattr(base, "FEW_SHARDS", 5)
    monkeypatch.setattr(base, "ENOUGH_QUERIES", 9)
    assert scores("together") == alone
    parts = sorted(path.name for path in (tmp_path / "together" / "predictions").iterdir())
    assert len(parts) == 3
    assert parts[0] == "part-00000-00002.parquet"
    (tmp_path / "together" / "predictions" / parts[1]).unlink()
    assert scores("together") == alone
    monkeypatch.setattr(base, "ENOUGH_QUERIES", 5)
    (tmp_path / "together" / "predictions" / parts[1]).unlink()
    with pytest.raises(BadInput, match=mentions(" shards")):
        scores("together")
