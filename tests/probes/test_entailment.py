"""The entailment study: texts as golden files, pseudowords where they should be, scores as a loop gives them, and the
plan of runs with its halves, counts and means."""

from __future__ import annotations

import re
from collections import Counter
from copy import copy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from fathom.base.errors import BadInput
from fathom.data.folds import FOLD
from fathom.data.formats import read
from fathom.data.formats.ontoprobe import read_patterns
from fathom.data.prompts.entailment import (
    ABSENT,
    GIVEN,
    IMPLICIT,
    REMEMBERED,
    WORDINGS,
    RuleWording,
    TokenStart,
    items,
    phrase_of,
    sources,
    text_of,
)
from fathom.data.prompts.ontology import RULES
from fathom.data.selection.filters import select
from fathom.data.selection.options import Selection
from fathom.data.templates import capitalized
from fathom.engine.models.base import Attention
from fathom.engine.scoring.memory import Budget
from fathom.engine.scoring.pseudowords import pseudowords
from fathom.engine.scoring.slots import CandidateTokens, MaskCount, Slot, SlotPooling, SlotScoring
from fathom.results.estimates import NOTHING
from fathom.results.loading import folder_names
from fathom.results.metrics.uncertainty import interval
from fathom.results.samples import Origin
from fathom.results.tables import render
from fathom.results.tables import save as draw
from fathom.results.tasks import MEASURED
from fathom.store.folder import RunFolder
from fathom.studies.options import EntailmentStudyOptions
from fathom.studies.reasoning import entailment
from fathom.studies.reasoning.entailment import Entailment, EntailmentLine, EntailmentSetting, Trial, line_of, means_of
from fathom.studies.reasoning.plan import BY_DESIGN, KEYS
from fathom.studies.reasoning.runs import HALVED, halves
from fathom.training.soft import GoldSlot, SoftPlan, learn, random_start
from tests.cli.test_cli import bert, save
from tests.conftest import build, make_local
from tests.messages import correspond, mentioned, mentions, stated
from tests.probes.test_cloze import KINDS, SHAPE
from tests.probes.test_ontology import digest

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
GOLDEN = Path(__file__).parents[1] / "golden" / "entailment"
CHOSEN = ("rdfs3", "rdfs7", "rdfs9")
"""One rule of each kind of candidates; enough for most tests."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    pytest.importorskip("pyoxigraph")
    from fathom_build.ontology import build_ontology
    from fathom_build.options import OntologyBuildOptions

    out = tmp_path_factory.mktemp("ontology") / "town"
    build_ontology(
        OntologyBuildOptions(input=[EXAMPLES / "town.ttl"], out=out, patterns=EXAMPLES / "town-patterns.tsv")
    )
    return out


def texts_of(folder: Path) -> list[str]:
    """All that is asked about: a name that the tokenizer does not know at all is not ranked."""
    data = read(folder)
    texts = [name for space in data.candidates.values() for name in space.names]
    texts += [capitalized(query.subject) for query in data.queries]
    texts += [pattern for task in read_patterns(folder).values() for pattern in task.values()]
    return [*texts, "One has to be a particular if one is Therefore, implies ."]


@pytest.fixture(scope="module", params=KINDS)
def model(request, folder):
    tokenizer = KINDS[request.param](texts_of(folder) * 3)
    shape = SHAPE | {"max_position_embeddings": 200}
    network = build(request.param, vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, **shape)
    return make_local(network, tokenizer, Attention.BIDIRECTIONAL)


def quiet(name: str):
    return lambda done, total: None


def asked(model, folder: Path, out: Path, rules=CHOSEN, wordings=("words",), **options):
    return asked_several({"tiny": lambda: model}, folder, out, rules, wordings, **options)


def asked_several(models, folder: Path, out: Path, rules, wordings=("words",), **options):
    given = {"rules": rules, "wordings": wordings, "pairs": 2, "untrained": 0}
    return entailment.analyse(list(models.items()), folder, EntailmentStudyOptions(**given | options), out, quiet)


def of_words(found: Entailment) -> RunFolder:
    """The last run that asks what follows."""
    return [made for made in found.runs if made.path.name in WORDINGS][-1]


def without_recipes(lines: list[EntailmentLine]) -> list[EntailmentLine]:
    """Of other rules, the data that is asked has another digest."""
    return [
        line._replace(numbers={name: number._replace(recipe="") for name, number in line.numbers.items()})
        for line in lines
    ]


# ---------------------------------------------------------------------------------------------------- texts


@pytest.mark.parametrize("rule", RULES)
def test_texts_are_those_of_the_golden_files(folder, rule):
    """Three items of each rule: what P2's remembering asks, and the text with both premises, one, and none."""
    data = select(read(folder), Selection(subset="test")).data
    found, left_out = items(data, read_patterns(folder), rule)
    assert left_out == []
    lines = []
    for item in found[:3]:
        lines += [f"# {item.query.id}: {item.query.subject}", f"right: {', '.join(item.gold)}"]
        for name, wording in WORDINGS.items():
            forms = (*GIVEN, REMEMBERED) if name in ("words", "learnt-templates") else GIVEN
            lines += [f"{name}, {form}: {text_of(rule, form, wording, item)}" for form in forms]
        lines.append("")
    assert "\n".join(lines) == (GOLDEN / f"{rule}.txt").read_text(encoding="utf-8")


def test_every_learnt_token_has_a_source():
    """As many as there are in the text, numbered from 1 in their order."""
    assert sources("rdfs9", "both", RuleWording()) == ()
    assert sources("rdfs9", "none", RuleWording(conjunction=True)) == (TokenStart("conjunction", 0),)
    three = [[TokenStart(task, place) for place in range(3)] for task in ("subClassOf", "type")]
    conjunction = [TokenStart("conjunction", 0)]
    assert list(sources("rdfs9", "both", RuleWording(True, True))) == [
        *three[0], *conjunction, *three[1], *conjunction, *three[1]
    ]  # fmt: skip
    assert list(sources("rdfs9", "P1", RuleWording(True, True))) == [*three[0], *conjunction, *three[1]]
    assert list(sources("rdfs11", "P2", RuleWording(True, False))) == [*three[0], *three[0]]
    assert sources("rdfs7", "P2", RuleWording(True, False)) == ()
    assert [one.task for one in sources("rdfs5", REMEMBERED, RuleWording(True, True))] == ["subPropertyOf"] * 3


def test_patterns_without_words_between_are_left_out(folder):
    assert phrase_of("[X]'s mother is [Y] .") == "'s mother is"
    assert phrase_of("[X] plays [Y]") == "plays"
    for pattern in ("In [Y] lives [X] .", "[X] sees [Y] often .", "[X] [Y] .", "[X] and [X] see [Y] .", ""):
        assert phrase_of(pattern) == ""
    data, patterns = read(folder), read_patterns(folder)
    changed = {task: dict(own) for task, own in patterns.items()}
    changed["subPropertyOf"]["rows for"] = "For [Y] rows [X] ."
    changed["subPropertyOf"]["member of"] = "[X] belongs to [Y] as well ."
    found, left_out = items(data, changed, "rdfs7")
    assert all(item.query.subject != "rows for" for item in found)
    place = next(q.id for q in data.queries if q.relation == "subPropertyOf" and q.subject == "rows for")
    left = [line for line in left_out if "(rows for)" in line]
    assert correspond(left, ("rdfs7", place, "'For [Y] rows [X] .'"))
    assert stated(left_out, "(swims for)", "no pattern")
    assert items(data, changed, "rdfs5")[1] == []


# ---------------------------------------------------------------------------------------------------- pseudowords


def test_pseudowords_meet_both_conditions(model):
    """d = α · distance of the nearest other token, by a loop; every word at d, every two at d or more."""
    table = model.network.get_input_embeddings().weight.detach().double()
    mask = model.tokenizer.mask_token_id
    nearest = min(float((table[t] - table[mask]).norm()) for t in range(len(table)) if t != mask)
    for alpha in (0.5, 0.9):
        found = pseudowords(model, 20, alpha, 0, "rdfs2").double()
        distances = (found - table[mask]).norm(dim=1).numpy()
        np.testing.assert_allclose(distances, alpha * nearest, rtol=1e-6)
        apart = torch.cdist(found, found, compute_mode="donot_use_mm_for_euclid_dist")
        apart.fill_diagonal_(torch.inf)
        assert float(apart.min()) >= alpha * nearest
        others = torch.cdist(found, table[[t for t in range(len(table)) if t != mask]])
        assert float(others.min()) >= (1 - alpha) * nearest - 1e-6  # the triangle inequality
    again, other = pseudowords(model, 2, 0.5, 0, "rdfs2"), pseudowords(model, 2, 0.5, 0, "rdfs3")
    assert torch.equal(again, pseudowords(model, 20, 0.5, 0, "rdfs2")[:2])
    assert not torch.equal(again, other)


def flat(rows: list[list[float]], tokens: int | None = None) -> SimpleNamespace:
    """A model that is nothing but an embedding matrix; its first token is the mask."""
    table = torch.tensor(rows)

    class Tokenizer:
        mask_token_id = 0

        def __len__(self) -> int:
            return tokens or len(rows)

        def convert_ids_to_tokens(self, id_: int) -> str:
            return f"t{id_}"

    return SimpleNamespace(
        tokenizer=Tokenizer(),
        attention=Attention.BIDIRECTIONAL,
        require_vectors=lambda: None,
        embed=lambda ids: table[ids],
        vocabulary_size=len(rows),
        device=table.device,
        identity=SimpleNamespace(name="flat"),
    )


def test_pseudowords_in_the_plane():
    """The mask token at (1, 1), its nearest at (1, 3): d = 1. Six points of a circle are a radius apart at most."""
    plane = flat([[1.0, 1.0], [1.0, 3.0], [9.0, 1.0]])
    found = pseudowords(plane, 3, 0.5, 0)
    np.testing.assert_allclose((found - torch.tensor([1.0, 1.0])).norm(dim=1), 1.0, rtol=1e-6)
    assert all(float((found[a] - found[b]).norm()) >= 1 for a in range(3) for b in range(a))
    with pytest.raises(BadInput, match=mentions("7", "'flat'", "--pairs")):
        pseudowords(plane, 7, 0.5, 0)


def test_rows_that_no_token_has_do_not_count():
    padded = flat([[0.0, 0.0], [0.0, 4.0], [0.0, 1.0]], tokens=2)
    np.testing.assert_allclose(pseudowords(padded, 1, 0.5, 0).norm(dim=1), 2.0, rtol=1e-6)
    with pytest.raises(BadInput, match=mentions("'t1'", "'flat'")):
        pseudowords(flat([[0.0, 1.0], [0.0, 1.0]]), 1, 0.5, 0)


# ---------------------------------------------------------------------------------------------------- scores


def naive(model, text: str, vectors: dict[str, torch.Tensor], name: str) -> float:
    """One candidate, one pass: mask tokens stand in for the marks, whose vectors are then put in by hand."""
    tokenizer, table = model.tokenizer, model.network.get_input_embeddings().weight.detach()
    own = tokenizer(f", {name}", add_special_tokens=False)["input_ids"]
    own = own[len(tokenizer(",", add_special_tokens=False)["input_ids"]) :]
    order = [
        mark for mark in re.findall(r"<x>|<y>|<s\d+>|\[Y\]", text) for _ in range(len(own) if mark == "[Y]" else 1)
    ]
    mask = str(tokenizer.mask_token)
    shown = re.sub(r"<x>|<y>|<s\d+>", mask, text).replace("[Y]", " ".join([mask] * len(own)))
    ids = torch.tensor(tokenizer(shown)["input_ids"])
    places = (ids == tokenizer.mask_token_id).nonzero()[:, 0].tolist()
    inputs = table[ids]
    for place, mark in zip(places, order, strict=True):
        if mark != "[Y]":
            inputs[place] = vectors[mark]
    with torch.no_grad():
        log_probs = torch.log_softmax(model.network(inputs_embeds=inputs[None]).logits[0], dim=-1)
    at = [place for place, mark in zip(places, order, strict=True) if mark == "[Y]"]
    return float(np.mean([float(log_probs[place, token]) for place, token in zip(at, own, strict=True)]))


@pytest.mark.slow
@pytest.mark.parametrize("wording", ["words", "learnt"])
def test_scores_equal_a_loop(model, folder, tmp_path, wording):
    """Each pair's own vectors, each text's own learnt tokens: within 1e-5 of one pass for the candidate; and no number
    of the model has changed."""
    before = digest(model)
    found = asked(model, folder, tmp_path, wordings=[wording], epochs=1, learning_rate=0.1)
    assert digest(model) == before
    made = of_words(found)
    assert made.path == tmp_path / "tiny" / wording
    pairs = load_file(made.path / "artifacts" / "pseudowords.safetensors")
    groups = {row["query_id"]: dict(row["groups"]) for row in made.queries().to_pylist()}
    rows = made.predictions().to_pylist()
    chosen = [rows[place] for place in np.random.default_rng(0).permutation(len(rows))[:80]]
    for row in chosen:
        about = groups[row["query_id"]]
        rule, pair = about["rule"], int(about["pair"])
        vectors = {"<x>": pairs[rule][2 * pair], "<y>": pairs[rule][2 * pair + 1]}
        if wording == "learnt":
            learnt = load_file(made.path / "artifacts" / "soft" / f"{rule}-{about['given']}.safetensors")["vectors"]
            vectors |= {f"<s{number + 1}>": vector for number, vector in enumerate(learnt)}
        expected = [naive(model, row["prompt"], vectors, name) for name in row["top_ids"][:3]]
        np.testing.assert_allclose(row["top_scores"][:3], expected, atol=1e-5)
    assert {(groups[row["query_id"]]["pair"], groups[row["query_id"]]["given"]) for row in chosen} == {
        (pair, given) for pair in "01" for given in GIVEN
    }


def test_fixed_vectors_stay(model):
    """Beside learnt rows, further ones that texts refer to: they get no step and no decay, and shape the loss."""
    names, way = CandidateTokens([[7], [8, 9]]), SlotScoring(MaskCount.SEVERAL, SlotPooling.MEAN)
    size = model.vocabulary_size
    items_ = [GoldSlot(Slot((7, size), (size + 1, 8)), (1,))]
    start, fixed, plan = random_start(model, 1, 0), random_start(model, 1, 1), SoftPlan(epochs=3, learning_rate=0.1)
    kept = fixed.clone()
    learnt = learn(model, names, way, items_, items_, start, plan, Budget(3, model.device), fixed)
    assert learnt.vectors.shape == start.shape
    assert torch.equal(fixed, kept)
    assert learnt.curve[-1].loss < learnt.curve[0].loss
    other = learn(model, names, way, items_, items_, start, plan, Budget(None, model.device), fixed * 2)
    assert other.curve[0].loss != learnt.curve[0].loss


# ---------------------------------------------------------------------------------------------------- the study


def test_halves_by_hand():
    """0.5 0.2 0.2 0.1 0.05: the better two, the worse two, and the third, which came after its equal, in neither."""
    split = halves({"a": 0.2, "b": 0.05, "c": 0.5, "d": 0.2, "e": 0.1})
    assert split.of == {"c": IMPLICIT, "a": IMPLICIT, "e": ABSENT, "b": ABSENT}
    assert split.middle == "d"
    assert (split.better, split.worse) == (pytest.approx(0.35), pytest.approx(0.075))
    assert halves({"a": 0.1, "b": 0.2}).of == {"b": IMPLICIT, "a": ABSENT}
    assert halves({"a": 0.1}) == ({}, pytest.approx(np.nan, nan_ok=True), pytest.approx(np.nan, nan_ok=True), "a")


@pytest.fixture(scope="module")
def done(folder, tmp_path_factory):
    """A study by words of a BERT, its model and its folder."""
    tokenizer = KINDS["BertForMaskedLM"](texts_of(folder) * 2)
    shape = SHAPE | {"max_position_embeddings": 200, "vocab_size": len(tokenizer)}
    model = make_local(build("BertForMaskedLM", **shape), tokenizer, Attention.BIDIRECTIONAL)
    out = tmp_path_factory.mktemp("study")
    return SimpleNamespace(found=asked(model, folder, out, list(RULES)), model=model, out=out, folder=folder)


@pytest.mark.slow
def test_settings_divide_the_items(done):
    """Every item and pair stands once in each row and column of the 3×3, but for what is left out in the middle."""
    made = RunFolder.open(done.out / "tiny" / "words")
    assert [run_.path.name for run_ in done.found.runs] == [
        "memory-words",
        "premises-words",
        "words",
        "arguments",
    ]
    tested = Counter(query.relation for query in read(done.folder).queries)  # nothing is held back: nothing is learnt
    seen = Counter()
    for groups in made.queries().column("groups").to_pylist():
        about = dict(groups)
        seen[about["rule"], about["pair"], about["premise 1"], about["premise 2"]] += 1
    for rule, task in RULES.items():
        odd = tested[task] % 2
        for pair in "01":

            def count(first: str, second: str, rule=rule, pair=pair) -> int:
                return seen[rule, pair, first, second]

            everything = count("explicit", "explicit")
            assert tested[task] - 2 * odd <= everything <= tested[task] - odd  # the two middles may be one item
            for rows in (
                [("explicit", "implicit"), ("explicit", "absent")],
                [("implicit", "explicit"), ("absent", "explicit")],
                [(first, second) for first in ("implicit", "absent") for second in ("implicit", "absent")],
            ):
                assert sum(count(*cell) for cell in rows) == everything
    for line in done.found.lines:
        total = sum(seen[line.setting.rule, pair, line.setting.first, line.setting.second] for pair in "01")
        assert len(line.items) + line.unscored == total
        assert line.unscored == 0


def test_the_better_half_is_remembered_better(done):
    """By the memorising run's own ranks, of the template that the hypothesis has; the middle is named."""
    memory, data = done.found.runs[0], read(done.folder)
    rows = memory.predictions().to_pylist()
    ranks = {
        row["query_id"]: 1 / row["rank"]
        for row in rows
        if not row["query_id"].startswith("subClassOf") or row["prompt"].endswith("is a particular [Y] .")
    }
    groups = [dict(own) for own in of_words(done.found).queries().column("groups").to_pylist()]
    groups = [about for about in groups if "premise 1" in about]
    for task in ("subClassOf", "domain"):
        own = [about for about in groups if about["task"] == task]
        better = {about["item"] for about in own if about["premise 1"] == "implicit"}
        worse = {about["item"] for about in own if about["premise 1"] == "absent"}
        assert not better & worse
        assert min(ranks[item] for item in better) >= max(ranks[item] for item in worse)
        order = sorted((id_ for id_ in ranks if id_.startswith(task)), key=lambda id_: -ranks[id_])
        assert len(order) % 2 == 1  # 19 classes and 9 domains
        rule = next(rule for rule, its in RULES.items() if its == task)
        [told] = [one for one in done.found.remembered if (one["rule"], one["premise"]) == (rule, "P1")]
        middle = order[len(order) // 2]
        assert told["left out"] == next(query.subject for query in data.queries if query.id == middle)
        assert told["better half"].value == pytest.approx(np.mean([ranks[id_] for id_ in order[: len(order) // 2]]))
        assert (told["better half"].low, told["better half"].note) == (None, HALVED)
        assert told["better half"].recipe.startswith("mrr|data:town@")
        assert not any(about["item"] == middle for about in own)


def test_numbers_by_hand(done):
    """MRR of a cell from the predictions; the mean over rules gives each rule one weight."""
    made = of_words(done.found)
    groups = {row["query_id"]: dict(row["groups"]) for row in made.queries().to_pylist()}
    cells: dict[tuple[str, ...], list[tuple[str, int, float]]] = {}
    for row in made.predictions().to_pylist():
        about = groups[row["query_id"]]
        key = about["rule"], about.get("premise 1"), about.get("premise 2")
        cells.setdefault(key, []).append((about["item"], int(about["pair"]), 1 / row["rank"]))
    for line in done.found.lines:
        own = cells.get((line.setting.rule, line.setting.first, line.setting.second), [])
        if not own:
            assert line.numbers == {}
            continue
        assert line.numbers["MRR"].value == pytest.approx(np.mean([value for *_, value in own]))
        assert set(line.items) == {item for item, *_ in own}
        several = [number for number in line.numbers.values() if number.clusters > 1]
        assert all(number.low <= number.value <= number.high for number in several)
        assert len(several) == len(line.numbers) or len(set(line.items)) == 1
    [mean] = [one for one in done.found.means if (one.first, one.second) == ("explicit", "absent")]
    by_rule = [np.mean([value for *_, value in cells[rule, "explicit", "absent"]]) for rule in RULES]
    assert mean.mrr.value == pytest.approx(np.mean(by_rule))


def test_second_premises_are_asked_of_each_pair(done):
    rows = done.found.runs[1].predictions().to_pylist()
    prompts = {(row["query_id"].split("/")[0], row["prompt"]) for row in rows}
    assert prompts == {
        ("rdfs2", "<x> [Y] <y> ."), ("rdfs3", "<x> [Y] <y> ."), ("rdfs5", "<x> implies [Y] ."),
        ("rdfs7", "<x> [Y] <y> ."), ("rdfs9", "<x> is a particular [Y] ."), ("rdfs11", "<x> is a particular [Y] ."),
    }  # fmt: skip
    scores = {(row["query_id"].split("/")[0], row["query_id"][-1]): tuple(row["top_scores"]) for row in rows}
    assert len(set(scores.values())) == len(RULES) * 2  # every pair of every rule says something else


def test_tables_and_maps(done, tmp_path):
    pytest.importorskip("matplotlib")
    tables = entailment.tables(done.found)
    titles = [table.title for table in tables]
    assert titles == [
        "does it reason?", "gain over each altered text", "items that shortcuts solve", "counterfactual premises",
        "all rules (figure 3)",
        *(f"{rule}, every setting" for rule in RULES),
        "how premises are remembered",
    ]  # fmt: skip
    assert all(len(table.rows) == 9 for table in tables[4:11])
    for row in (row for table in tables[4:] for row in table.objects()):
        assert row["recipe"] or row["note"] == NOTHING
        assert row["note"] or all(row[name] is not None for name in row if name.endswith(("low", "high")))
    files = [draw(plot, tmp_path) for plot in entailment.plots(done.found)]
    assert sorted(file.name for file in files) == sorted(
        f"entailment-tiny-words-{rule}.png" for rule in (*RULES, "all-rules")
    )


def test_pictures_of_several_wordings():
    """Figure 2 is averaged over wordings, as in the paper, beside each; figure 4 lays wordings side by side."""

    def line(wording, ranks):
        answers = [Trial(f"x/{at}", dict.fromkeys(MEASURED, 1 / rank), origin(at)) for at, rank in enumerate(ranks)]
        return line_of(EntailmentSetting("tiny", wording, "rdfs9", "explicit", "absent"), answers, "|data:town")

    def origin(at):
        return Origin("item", "x", "rdfs9", str(at))

    lines = [line("words", [1, 2, 4]), line("learnt", [1, 1, 1])]
    whole = {one.setting.wording: (one.numbers["MRR"], one.numbers["MRR"]) for one in lines}
    plots = {
        plot.name: plot for plot in entailment.plots(Entailment(lines, means_of(lines), whole, [], [], [], [], []))
    }
    maps = [f"entailment-tiny-{wording}-rdfs9" for wording in ("words", "learnt", "all-wordings")]
    assert {*maps, "entailment-wordings"} <= plots.keys()
    figure = pytest.importorskip("matplotlib.figure").Figure()
    axes = figure.subplots()
    plots[maps[-1]].draw(axes)
    said = {text.get_text() for text in axes.texts}
    assert said == {"–", f"{(1.75 / 3 + 1) / 2:.3f}"}  # (1 + 1/2 + 1/4) / 3 by words, 1 learnt
    bars = figure.subplots()
    plots["entailment-wordings"].draw(bars)
    assert [round(patch.get_height(), 3) for patch in bars.patches][:2] == [0.583, 1.0]


@pytest.mark.slow
def test_a_killed_study_goes_on(done, tmp_path, monkeypatch):
    """Killed while the hypothesis is asked; the same call ends with the same lines, and asks nothing twice."""
    real, shards = RunFolder.add_shard, []

    def dies(self, shard, rows):
        if self.path.name == "words" and shards:
            raise KeyboardInterrupt
        shards.extend([shard] if self.path.name == "words" else [])
        real(self, shard, rows)

    monkeypatch.setattr(RunFolder, "add_shard", dies)
    with pytest.raises(KeyboardInterrupt):
        asked(done.model, done.folder, tmp_path, list(RULES))
    monkeypatch.setattr(RunFolder, "add_shard", real)
    again = asked(done.model, done.folder, tmp_path, list(RULES))
    assert again.lines == done.found.lines
    assert again.means == done.found.means

    def refuses(*_):
        raise AssertionError("nothing is left")

    monkeypatch.setattr(RunFolder, "add_shard", refuses)
    assert asked(done.model, done.folder, tmp_path, list(RULES)).lines == done.found.lines
    with pytest.raises(BadInput, match=mentions("0.5", "0.4")):
        asked(done.model, done.folder, tmp_path, list(RULES), alpha=0.4)


def test_halves_are_of_the_memorising_runs_ranks(done, tmp_path):
    """By hand: 1 / rank of the four classes in the memorising run, the better two and the others."""
    found = asked(done.model, done.folder, tmp_path, ["rdfs9"], limit=4, pairs=1)
    own: dict[str, list[float]] = {}
    for row in found.runs[0].predictions().to_pylist():
        if row["prompt"].endswith("is a particular [Y] ."):
            own.setdefault(row["query_id"], []).append(1 / row["rank"])
    assert [len(ranks) for ranks in own.values()] == [1, 1, 1, 1]
    best, second, third, last = sorted((ranks[0] for ranks in own.values()), reverse=True)
    [told] = [line for line in found.remembered if line["premise"] == "P1"]
    assert told["better half"].value == pytest.approx((best + second) / 2)
    assert told["worse half"].value == pytest.approx((third + last) / 2)


def test_all_wordings_ask_the_same_items(done, tmp_path):
    """Drawn once, by --limit, also where a task lends nothing but its learnt template."""
    settings = {"pairs": 1, "epochs": 1, "limit": 5, "seed": 1}
    found = asked(done.model, done.folder, tmp_path, ["rdfs2", "rdfs9"], ["words", "learnt-templates"], **settings)
    assert [table.title for table in entailment.tables(found)][1] == "wordings (figure 4)"
    by_run = {
        folder.path.name: {
            query for query in folder.queries().column("query_id").to_pylist() if not query.startswith("type/")
        }
        for folder in found.runs
        if folder.path.name.startswith("memory")
    }
    assert len(by_run) == 2
    items_asked = set.union(*by_run.values())
    assert len(items_asked) == 5
    assert all(own == items_asked for own in by_run.values())
    learnt = tmp_path / "tiny" / "memory-learnt-templates"
    assert (learnt / "artifacts" / "soft" / "type-mask-mean.safetensors").exists()
    types = [id_ for id_ in RunFolder.open(learnt).queries().column("query_id").to_pylist() if id_[:5] == "type/"]
    assert len(types) == 1


def test_doubles_count_once(done, tmp_path):
    twice = asked(done.model, done.folder, tmp_path, ["rdfs9", "rdfs9"], ["words", "words"])
    own = [line for line in done.found.lines if line.setting.rule == "rdfs9"]
    assert without_recipes(own) == without_recipes(twice.lines)
    assert len(twice.runs) == 4


def test_learnt_wordings(done, tmp_path):
    """Templates alone are asked as the memorising run learnt them; with conjunctions all are trained on, once for each
    way of giving premises; and the pseudowords are the same in all wordings."""
    options = {"epochs": 2, "learning_rate": 0.1}
    found = asked(done.model, done.folder, tmp_path, ["rdfs9"], list(WORDINGS), **options)
    root = tmp_path / "tiny"
    words = load_file(root / "words" / "artifacts" / "pseudowords.safetensors")
    for name in ("learnt-templates", "learnt", "learnt-conjunction", "premises-learnt-templates"):
        assert torch.equal(load_file(root / name / "artifacts" / "pseudowords.safetensors")["rdfs9"], words["rdfs9"])
    memory = root / "memory-learnt-templates" / "artifacts" / "soft"
    loaded = {task: load_file(memory / f"{task}-mask-mean.safetensors")["vectors"] for task in ("subClassOf", "type")}
    assert not list((root / "learnt-templates" / "artifacts").glob("soft/*"))
    pair = words["rdfs9"]
    by_text = {row["prompt"]: row for row in RunFolder.open(root / "learnt-templates").predictions().to_pylist()[:9]}
    text, row = next((text, row) for text, row in by_text.items() if text.count("<s") == 9)
    rows = torch.cat([loaded["subClassOf"], loaded["type"], loaded["type"]])
    vectors = {"<x>": pair[0], **{f"<s{number + 1}>": vector for number, vector in enumerate(rows)}}
    assert row["top_scores"][0] == pytest.approx(naive(done.model, text, vectors, row["top_ids"][0]), abs=1e-5)
    for given, tokens in {"both": 11, "P1": 7, "P2": 7, "none": 4}.items():
        trained = load_file(root / "learnt" / "artifacts" / "soft" / f"rdfs9-{given}.safetensors")["vectors"]
        assert trained.shape == (tokens, 32)
        assert (root / "learnt" / "artifacts" / "soft" / f"rdfs9-{given}.jsonl").exists()
    trainings = {made.path.name: made.manifest["circumstances"].get("trainings") for made in found.runs}
    assert trainings["learnt"] == trainings["learnt-conjunction"] == 4
    assert found.by_wording.keys() == WORDINGS.keys()
    cells = [line.numbers for line in found.lines if line.setting.wording == "learnt" and line.numbers]
    assert len(cells) == 9
    for place, name in enumerate(("MRR", "MRRₐ")):
        number = found.by_wording["learnt"][place]
        assert number.value == pytest.approx(np.mean([cell[name].value for cell in cells]))
        assert number.low < number.value < number.high
    assert "wordings (figure 4)" in [table.title for table in entailment.tables(found)]
    (memory / "type-mask-mean.safetensors").unlink()
    (root / "learnt" / "predictions" / "part-00000.parquet").unlink()
    with pytest.raises(BadInput, match=r"type-mask-mean\.safetensors .* --soft"):
        asked(done.model, done.folder, tmp_path, ["rdfs9"], ["learnt"], **options)


@pytest.mark.slow
def test_several_models_have_a_mean(done):
    """Of two models that say the same, the mean over both is that of one."""
    models = dict.fromkeys(("tiny", "twin"), lambda: done.model)
    found = asked_several(models, done.folder, done.out, list(RULES))
    together = [mean.mrr.value for mean in found.means if mean.model == ""]
    assert together == pytest.approx([mean.mrr.value for mean in found.means if mean.model == "tiny"])
    assert len(together) == 9


def test_a_mean_over_wordings_and_the_rules_in_it():
    """By hand: 0.5 of one wording and 1 of the other; the rule without an item is named."""

    def origin(item: str, rule: str) -> Origin:
        return Origin("item", item, rule, item)

    def line(wording: str, rule: str, ranks: list[float]) -> EntailmentLine:
        answers = [
            Trial(f"i{number}", dict.fromkeys(MEASURED, 1 / rank), origin(f"i{number}", rule))
            for number, rank in enumerate(ranks)
        ]
        return line_of(EntailmentSetting("tiny", wording, rule, "explicit", "absent"), answers, "|data:town")

    lines = [line("words", "rdfs9", [1.0, np.nan, 2.0]), line("learnt", "rdfs9", [1.0]), line("words", "rdfs7", [])]
    means = means_of(lines)
    assert [(mean.wording, mean.mrr.value, mean.rules) for mean in means] == [
        ("words", 0.75, ("rdfs9",)), ("learnt", 1.0, ("rdfs9",)), ("", 0.875, ("rdfs9",))
    ]  # fmt: skip
    [table, *_] = entailment.tables(Entailment(lines, means, {}, [], [], [], [], []))
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [(row["wording"], row["rules"]) for row in rows] == [("words", 1), ("learnt", 1), ("all wordings", 1)]
    assert {row["recipe"] for row in rows} == {"MRR, MRRₐ|data:town|cluster:item"}
    assert stated(table.notes, "rdfs7 of tiny, words (1 of 9 settings)")


KEYED = ("pair", "subject", "query", "fact", "rule")


@pytest.mark.parametrize("key", KEYED)
def test_a_key_may_be_named(done, key):
    """Of a cell, of its mean over rules, which weigh alike, and of what a premise adds; nothing is asked again."""
    found = asked(done.model, done.folder, done.out, list(RULES), cluster=key)
    made = of_words(found)
    about = {row["query_id"]: row | dict(row["groups"]) for row in made.queries().to_pylist()}
    labels = {
        "pair": lambda one: f"{one['rule']} {one['pair']}",  # each rule has pseudowords of its own
        "subject": lambda one: one["subject_id"],
        "query": lambda one: one["query_id"],
        "fact": lambda one: one["fact_id"],
        "rule": lambda one: one["rule"],
    }
    cells = [
        (one, 1 / row["rank"])
        for row in made.predictions().to_pylist()
        for one in [about[row["query_id"]]]
        if (one.get("premise 1"), one.get("premise 2")) == ("explicit", "absent")  # items in the middle have neither
    ]
    sizes = Counter(one["rule"] for one, _ in cells)
    weights = [1 / sizes[one["rule"]] for one, _ in cells]
    clusters = [labels[key](one) for one, _ in cells]
    values, within = [value for _, value in cells], None
    if key == "fact":
        each = {own: [at for at, one in enumerate(clusters) if one == own] for own in dict.fromkeys(clusters)}
        within = [cells[own[0]][0]["rule"] for own in each.values()]
        values = [np.average(np.array(values)[own], weights=np.array(weights)[own]) for own in each.values()]
        weights, clusters = [sum(weights[at] for at in own) for own in each.values()], None
    single = key == "query"  # one value each
    expected = interval(values, clusters, within=within, weights=weights, limits=(0.0, 1.0), single=single)
    [mean] = [one.mrr for one in found.means if (one.first, one.second) == ("explicit", "absent")]
    assert mean[:4] == pytest.approx(expected[:4])
    sample = "fact within relation" if key == "fact" else key
    assert (mean.sample, mean.recipe.rpartition("|")[2]) == (sample, f"cluster:{sample}")
    [line] = [line for line in found.lines if line.setting[2:] == ("rdfs9", "explicit", "absent")]
    own = [(value, labels[key](one)) for one, value in cells if one["rule"] == "rdfs9"]
    if key != "fact":
        columns = [value for value, _ in own], [label for _, label in own]
        expected = interval(*columns, limits=(0.0, 1.0), single=single)
        assert line.numbers["MRR"][:4] == pytest.approx(expected[:4])
    text = render(entailment.tables(found), "text")
    assert ("intervals: for other" if key in ("query", "fact") else f"clustered by {key}") in text
    assert "clustered by item" not in text


def test_every_group_of_texts_is_a_key_or_none_for_a_reason(done):
    groups = {name for row in of_words(done.found).queries().to_pylist() for name, _ in row["groups"]}
    assert groups == {*KEYS, *BY_DESIGN} - {FOLD}


def test_artifacts_can_be_read_by_whom_the_umask_lets(done, tmp_path):
    files = [file for file in (done.out / "tiny").rglob("*") if file.is_file()]
    assert any(file.name == "pseudowords.safetensors" for file in files)
    (tmp_path / "new").touch()
    assert {file.stat().st_mode for file in files} == {(tmp_path / "new").stat().st_mode}


def test_limited_items(done, tmp_path):
    """--limit draws the items whose premises are asked for; all else follows them."""
    found = asked(done.model, done.folder, tmp_path, ["rdfs9"], limit=6)
    assert found.runs[0].queries().num_rows == 6
    assert {
        len(set(line.items)) for line in found.lines if line.setting.first == line.setting.second == "explicit"
    } == {6}
    assert found.runs[1].queries().num_rows == 12


# ---------------------------------------------------------------------------------------------------- bad input


class TestInput:
    def test_all_at_once(self, tmp_path, fathom):
        code, _, error = fathom(
            "study", "entailment", "--model", "m", "--data", "d", "--out", tmp_path / "o", "--wordings", "soft",
            "--alpha", "2", "--masks", "several,one",
        )  # fmt: skip
        assert code == 2
        assert mentioned(error, "--wordings", "words, learnt-conjunction, learnt-templates or learnt")
        assert "found 'soft'" in error
        assert mentioned(error, "--alpha", "less than 1")
        assert mentioned(error, "--masks", "at most 1")
        assert not (tmp_path / "o").exists()

    def test_rules_and_data(self, folder, tmp_path, fathom):
        out = ["--out", tmp_path / "o"]
        code, _, error = fathom("study", "entailment", "--model", "m", "--data", folder, *out, "--rules", "rdfs4,rdfs9")
        assert (code, error) == (2, "error: --rules rdfs4: there is rdfs2, rdfs3, rdfs5, rdfs7, rdfs9, rdfs11\n")
        code, _, error = fathom("study", "entailment", "--model", "m", "--data", "geography", *out)
        assert code == 2
        assert mentioned(error, "ontology/property.json", "fathom build ontology")
        code, _, error = fathom("study", "entailment", "--models", "m,m/", "--data", folder, *out)
        assert code == 2
        assert "in m, m/" in error
        assert not (tmp_path / "o").exists()

    def test_keys_that_there_are_not(self, folder, tmp_path, fathom):
        """Before a model is loaded: there is none of that name."""
        typed = ["study", "entailment", "--model", "m", "--data", folder, "--out", tmp_path / "o", "--cluster"]
        there = "query, fact, relation, subject, answer, item, pair, rule, task"
        code, out, error = fathom(*typed, "colour")
        assert (code, out) == (2, "")
        assert mentioned(error, "--cluster colour", there)
        for key in BY_DESIGN:
            code, _, error = fathom(*typed, key)
            assert code == 2
            assert mentioned(error, f"--cluster {key}", BY_DESIGN[key], there)
        assert not (tmp_path / "o").exists()

    def test_too_few_items(self, folder, tmp_path, done):
        data = tmp_path / "small"
        (data / "memorizing").mkdir(parents=True)
        (data / "ontology").symlink_to(folder / "ontology")
        for file in (folder / "memorizing").iterdir():
            lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
            (data / "memorizing" / file.name).write_text("".join(lines[:21] if file.stem == "domain" else lines))
        lacking = "rdfs2 needs the task domain", "1 items"
        with pytest.raises(BadInput, match=mentions(*lacking)):
            asked(done.model, data, tmp_path / "o", ["rdfs2"])
        found = asked(done.model, data, tmp_path / "o", ["rdfs2", "rdfs9"], limit=3)
        assert stated(found.notes, "left out: ", *lacking)
        assert stated(found.notes, "30 are needed", "rdfs9 (3)")
        assert not stated(found.notes, "--limit"), "the town has fewer than 30"
        assert {line.setting.rule for line in found.lines} == {"rdfs9"}

    def test_models_that_are_neither_masked_nor_causal(self, folder, tmp_path, done):
        model = copy(done.model)
        model.attention = Attention.SEQ2SEQ
        with pytest.raises(
            BadInput,
            match=mentions("seq2seq"),
        ):
            asked(model, folder, tmp_path, ["rdfs9"])

    def test_every_model_is_looked_at_before_the_first_is_asked(self, done, tmp_path):
        causal = make_local(build("GPT2LMHeadModel", vocab_size=600, n_embd=16, n_layer=1, n_head=2))
        models = {"first": lambda: done.model, "second": lambda: causal}
        with pytest.raises(BadInput, match=mentions("--model second", "causal", "--wordings learnt")):
            asked_several(models, done.folder, tmp_path / "o", ["rdfs9"], ["learnt"], pairs=1)
        assert not (tmp_path / "o").exists()

    def test_nothing_to_ask(self, folder, tmp_path, fathom):
        """No rule, no wording, or a limit that leaves no halves: no word of a flag that the command lacks."""
        words = ["study", "entailment", "--model", "m", "--data", folder, "--out", tmp_path / "o"]
        rules = "rdfs2, rdfs3, rdfs5, rdfs7, rdfs9, rdfs11"
        for more, parts in {
            ("--rules", ""): ("--rules", rules),
            ("--rules", "9,rdfs9", "--limit", "1"): ("rdfs9", "2 items", "subClassOf", "--limit 1", "larger"),
            ("--wordings", ","): ("--wordings", "words, learnt-conjunction, learnt-templates, learnt"),
        }.items():
            code, _, error = fathom(*words, *more)
            assert code == 2
            assert mentioned(error, *parts)
        assert not (tmp_path / "o").exists()

    def test_a_limit_that_leaves_a_rule_one_item(self, done, tmp_path):
        def counts(seed: int) -> Counter[str]:
            drawn = select(
                read(done.folder),
                Selection(relations=("subClassOf", "subPropertyOf"), subset="test", limit=4, seed=seed),
            ).data
            return Counter(query.relation for query in drawn.queries)

        seed = next(seed for seed in range(99) if counts(seed)["subPropertyOf"] == 1)
        found = asked(done.model, done.folder, tmp_path / "o", ["rdfs9", "rdfs7"], limit=4, seed=seed)
        assert stated(found.notes, "left out: rdfs7", "2 items", "subPropertyOf", "--limit 4")
        assert {line.setting.rule for line in found.lines} == {"rdfs9"}

    def test_a_command_from_end_to_end(self, folder, tmp_path, fathom):
        save(tmp_path / "bert", bert(640), *(file.read_text() for file in EXAMPLES.glob("town*")))
        words = ["study", "entailment", "--model", tmp_path / "bert", "--data", folder, "--out", tmp_path / "o"]
        code, shown, _ = fathom(*words, "--rules", "rdfs5", "--pairs", "1")
        assert code == 0
        assert "rdfs5, every setting" in shown
        code, shown, _ = fathom(*words[:-1], tmp_path / "later", "--rules", "rdfs5", "--soft", "--dry-run")
        assert code == 0
        assert "bert/learnt-conjunction is not estimated: --soft-conjunction" in " ".join(shown.split())
        assert not (tmp_path / "later").exists()
        made = {path.name for path in (tmp_path / "o").iterdir()}
        assert {"bert", "entailment.csv", "entailment.json", "entailment.md"} <= made


def test_folder_names():
    assert folder_names(["models/a", "b/", "c"]) == ["a", "b", "c"]
    assert folder_names(["a/m", "b/m"]) == ["a-m", "b-m"], "the runs of two models never share a folder"
    for models in (["m", "m/"], ["c", "c"], ["a/m", "x/m", "a-m", "y/a-m"], []):
        with pytest.raises(BadInput, match=r"twice|or more"):
            folder_names(models)
