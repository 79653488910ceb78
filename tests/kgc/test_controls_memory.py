"""What the studies of ontologies and of memory conclude of answerers that remember nothing, and of one that does (see
tests/studies/test_controls.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fathom.results.baselines import verdict_text
from fathom.results.claims import decide
from fathom.results.estimates import Noise
from fathom.results.metrics.ranking import by_frequency
from fathom.results.metrics.significance import holm, smallest_difference
from fathom.results.metrics.uncertainty import ONE_SEED, at_confidence, crossed
from fathom.results.tasks import MEASURED, ByFrequency, TaskLine
from fathom.store.files import write_json
from fathom.studies import ontology
from fathom.studies.options import OntologyStudyOptions
from fathom_kgc.links.base import MANIFEST
from fathom_kgc.studies import MemoryOptions, memory, memory_tables
from fathom_kgc.studies.memory import Cell, CellState
from tests.answerers import (
    EVEN,
    Answerer,
    answered,
    at_random,
    at_rank,
    constant,
    frequent_first,
    knowing,
    known_of,
    world,
)
from tests.messages import stated

# --- ontology: models remember more of it than how often answers are right


CLASSES = [[number % 4] if number % 3 else [number % 4, 7 + number % 5] for number in range(60)]
"""Two tasks of thirty items, every third with a second right answer."""
SEEN = {"r0": [["c03"], ["c01", "c08"], ["c03"]], "r1": [["c09"], ["c02", "c00"], ["c02"], ["c00"], ["c02"]]}
"""Right answers of the training items of each task."""


def verdict_on(baseline: ByFrequency, line: TaskLine) -> str | None:
    return verdict_text(decide({"it": baseline.claim(line)}).get("it"))


class TestOntology:
    data = world(CLASSES, relations=2, templates=2)

    def asked(self, folder: Path, answer: Answerer, seed: int = 0) -> ontology.Ontology:
        run = answered(folder, answer, self.data, probe="ontology")
        write_json(run.path / "artifacts" / "training.json", SEEN)
        return ontology.analyse([run], OntologyStudyOptions(seed=seed))

    @pytest.mark.parametrize("seed", [0, 3])
    def test_an_answerer_led_by_frequency_is_the_baseline(self, seed: int, tmp_path: Path) -> None:
        """In every number of every task and template, whatever the lot by which the unseen are listed."""
        orders = {
            task: by_frequency((id_ for golds in SEEN[task] for id_ in golds), self.data.candidates["all"].ids, seed)
            for task in SEEN
        }
        assert [orders[task][:3] for task in SEEN] == [["c03", "c01", "c08"], ["c02", "c00", "c09"]]
        found = self.asked(
            tmp_path / "run", lambda query, *more: frequent_first(orders[query.relation])(query, *more), seed
        )
        assert len(found.lines) == 4
        for line in found.lines:
            baseline = found.baselines[line.setting.task]
            assert baseline.items == line.items == 30
            assert verdict_on(baseline, line) == "not above frequency"
            for name in MEASURED:
                assert line.numbers[name].value == pytest.approx(baseline.numbers[name].value), name

    def test_ties_of_the_baseline_are_broken_at_random(self, tmp_path: Path) -> None:
        """Four items of as many subjects with two answers, each right twice: with its own item an answer is level with
        the other, without it one behind. So its place is 1 or 2, and it is first in half of all cases."""
        data = world([[0], [1], [0], [1]], relations=1, size=2)
        run = answered(tmp_path / "run", at_rank(1), data, probe="ontology")
        every = [[query.subject, list(query.gold)] for query in data.queries]
        write_json(run.path / "artifacts" / "items.json", {"r0": every})
        baseline = ontology.analyse([run]).baselines["r0"]
        assert baseline.numbers["R@1"].value == pytest.approx(1 / 2)
        assert baseline.numbers["MRR"].value == pytest.approx((1 + 1 / 2) / 2)

    def test_answers_by_lot_and_constant_ones_do_not_beat_it(self, tmp_path: Path) -> None:
        """What is right most often in training is right more often than any other in the items, too."""
        for number, answer in enumerate((at_random(0), at_random(1), lambda *asked: constant(*asked)[::-1])):
            found = self.asked(tmp_path / str(number), answer)
            for line in found.lines:
                baseline = found.baselines[line.setting.task]
                assert line.mrr < baseline.numbers["MRR"].value
                [contrast] = baseline.claim(line).contrasts
                word = "below" if contrast.estimate.high < 0 else "not above"
                assert verdict_on(baseline, line) == f"{word} frequency"

    def test_one_who_knows_beats_it_by_the_template_that_it_understands(self, tmp_path: Path) -> None:
        """By the first template 0.4 of the facts stand first and the others second, by the second all at rank 4: MRR
        0.4 + 0.6/2 and 1/4."""
        well = knowing(known_of(self.data, [0.4]), at_rank(2))
        found = self.asked(tmp_path / "run", lambda *asked: (well, at_rank(4))[asked[2]](*asked))
        for (task, _, _), line in found.best.items():
            assert line.template == 0
            assert line.mrr == pytest.approx(0.7)
            assert line.numbers["R@1"].value == pytest.approx(0.4)
            assert verdict_on(found.baselines[task], line) == "above"
        assert [line.mrr for line in found.lines if line.template == 1] == pytest.approx([0.25, 0.25])


# --- memory: how much of a link predictor's Hits@10 is memory of names, descriptions, structure


BASE, NAMELESS, MEANINGLESS = "base", "anonymised-er", "fully-anonymised-erd"


Hits = Mapping[str, Mapping[str, tuple[float, float]]]
"""Model → world → Hits@10 with pre-trained and with random weights."""


def grid_of(out: Path, *hits: Hits) -> list[CellState]:
    """A finished grid whose cells rank a share of the test facts within ten (eighth, and the others eleventh).

    :param hits: of each seed.
    """
    data = world(EVEN)
    states = []
    for seed, of_seed in enumerate(hits):
        for name, of_model in of_seed.items():
            for place, shares in of_model.items():
                for init, share in zip(("pretrained", "random"), shares, strict=True):
                    cell = Cell(name, init, place, seed)
                    identity = {"kind": "m", "options": {}, "weights": None, "data": {"name": "d", "places": ""}}
                    folder = out / name / init / place / str(seed)
                    write_json(folder / "model" / MANIFEST, {"identity": identity, "ended": {"why": "epochs"}})
                    answer = knowing(known_of(data, [share]), at_rank(11), well=at_rank(8))
                    run = answered(folder / "run", answer, data, probe="link")
                    states.append(CellState(cell, folder / "model", out / "worlds" / place, run))
    return states


def taken_apart(out: Path, *hits: Hits, **options: object) -> memory.Memory:
    """Of :func:`grid_of`."""
    return memory.analyse(grid_of(out, *hits), MemoryOptions(**options))


def terms(found: memory.Memory) -> dict[str, float]:
    return {term.name: round(term.value.value, 9) for term in found.terms if term.value is not None}


class TestMemory:
    @pytest.mark.parametrize(
        ("hits", "descriptions", "structure"),
        [
            # Pre-trained weights help everywhere alike.
            ({BASE: (0.8, 0.3), NAMELESS: (0.8, 0.3), MEANINGLESS: (0.8, 0.3)}, (0, 0), 0.3),
            # They help wherever descriptions can be read, with names or without.
            ({BASE: (0.75, 0.25), NAMELESS: (0.65, 0.15), MEANINGLESS: (0.1, 0.1)}, (0.55, 0.05), 0.1),
            # Both kinds of weights read names, and nothing but names.
            ({BASE: (0.9, 0.9), NAMELESS: (0.35, 0.35), MEANINGLESS: (0.35, 0.35)}, (0, 0), 0.35),
        ],
    )
    def test_one_who_remembers_no_name_shows_no_memory(
        self,
        hits: Mapping[str, tuple[float, float]],
        descriptions: tuple[float, float],
        structure: float,
        tmp_path: Path,
    ) -> None:
        found = taken_apart(tmp_path, {"m": hits})
        gap = {name: pretrained - random for name, (pretrained, random) in hits.items()}
        assert terms(found) == {
            "memory of names (base)": 0,
            f"memory of names ({MEANINGLESS})": pytest.approx(gap[MEANINGLESS] - gap[NAMELESS]),
            "descriptions (pretrained)": descriptions[0],
            "descriptions (random)": descriptions[1],
            "structure": structure,
        }  # fmt: skip
        value = found.terms[0].value
        assert value is not None
        assert value.low <= 0 <= value.high
        assert value.p_value is not None
        assert value.p_value > 0.05

    def test_every_term_has_its_cells_and_signs(self, tmp_path: Path) -> None:
        """Memory (0.9 − 0.2) − (0.5 − 0.45) = 0.65, descriptions 0.5 − 0.35 and 0.45 − 0.1, structure 0.1; Hits@1 would
        be 0 throughout. Without the anonymised half memory would be 0.7, with a sign turned 0.75."""
        hits = {BASE: (0.9, 0.2), NAMELESS: (0.5, 0.45), MEANINGLESS: (0.35, 0.1)}
        found = taken_apart(tmp_path, {"m": hits})
        assert terms(found) == {
            "memory of names (base)": 0.65,
            f"memory of names ({MEANINGLESS})": 0.2,
            "descriptions (pretrained)": 0.15,
            "descriptions (random)": 0.35,
            "structure": 0.1,
        }
        assert {gap.name: round(gap.value.value, 9) for gap in found.gaps} == {
            BASE: 0.7,
            NAMELESS: 0.05,
            MEANINGLESS: 0.25,
        }
        p_values = [term.value.p_value for term in found.terms if term.value is not None]
        assert p_values[0] < 0.001
        shown = [str(term.value) for term in found.terms]
        assert shown[0].startswith("+0.650 [")
        assert shown[-1].startswith("0.100 ["), "of one cell, it is no difference"
        memory_of_names, _, *formulas = (term.formula for term in found.terms)
        assert memory_of_names == f"[H(base, p) − H(base, r)] − [H({NAMELESS}, p) − H({NAMELESS}, r)]"
        descriptions = [f"H({NAMELESS}, {init}) − H({MEANINGLESS}, {init})" for init in "pr"]
        assert formulas == [*descriptions, f"H({MEANINGLESS}, r)"]

    def test_without_a_control_the_worlds_decide_whether_known_names_help(self, tmp_path: Path) -> None:
        """Memory of names is 0.65, or 0.9 − 0.2 − (0.9 − 0.2) = 0."""
        helped = {BASE: (0.9, 0.2), NAMELESS: (0.5, 0.45)}
        not_helped = dict.fromkeys((BASE, NAMELESS), (0.9, 0.2))
        said = memory.conclude(taken_apart(tmp_path, {"m": helped, "n": not_helped}))
        assert len(said) == 4
        assert stated(said[0], "m gains from known names: significant, +65.0 points")
        assert stated(said[1], "n gains from known names: no significant difference")
        assert all(f"{name}: whether it remembers answers needs a control" in "".join(said[2:]) for name in "mn")

    def test_with_a_control_answers_must_help_beyond_it(self, tmp_path: Path) -> None:
        """Of the control's pre-training on sham triples 0.9 and 0.3 are right in base: beyond are 0 and 0.6."""
        helped = {BASE: (0.9, 0.2), NAMELESS: (0.5, 0.45)}
        grid = {"m": helped, "n": helped, "sham": {BASE: (0.9, 0.2)}, "weak": {BASE: (0.3, 0.2)}}
        said = memory.conclude(taken_apart(tmp_path, grid, controls={"m": "sham", "n": "weak"}))
        assert [decided.split(",")[0] for decided in said] == [
            "m remembers answers: no significant difference",
            "n remembers answers: significant",
        ]

    def test_other_metrics_have_the_same_effects(self, tmp_path: Path) -> None:
        """Facts stand at rank 8 or 11, so that 0.65 more of them within ten are 0.65 · (1/8 − 1/11) of MRR, and three
        ranks less each; none is at rank 1. Hits@10 alone decides."""
        hits = {BASE: (0.9, 0.2), NAMELESS: (0.5, 0.45), MEANINGLESS: (0.35, 0.1)}
        found = taken_apart(tmp_path, {"m": hits})
        by_metric = {name: effects.terms[0].value.value for name, effects in found.effects.items()}
        expected = {"hits@1": 0, "hits@3": 0, "hits@10": 0.65, "mrr": 0.65 * (1 / 8 - 1 / 11), "mean_rank": -1.95}
        assert by_metric == pytest.approx(expected)
        row = memory_tables.tables(found)[-1].objects()[0]
        assert (row["effect"], row["of"], row["MR"]) == ("term", "memory of names (base)", pytest.approx(-1.95))
        assert row["MR low"] < row["MR"] < row["MR high"] < 0
        assert "Hits@10" not in row

    def test_worlds_that_lie_evenly_have_no_outlier_and_one_apart_is_told(self, tmp_path: Path) -> None:
        """Gaps of 0.1 to 0.6: quartiles 0.225 and 0.475, fences 0.225 − 1.5 · 0.25 and 0.475 + 1.5 · 0.25. Gaps of 0.2,
        0.25 and 0.3, twice each, and 0.9: quartiles 0.225 and 0.3, fences 0.1125 and 0.4125."""
        even = {f"w{step}": (0.3 + step / 10, 0.3) for step in range(1, 7)}
        apart = {f"w{n}": (0.05 + gap, 0.05) for n, gap in enumerate((0.2, 0.2, 0.25, 0.25, 0.3, 0.3, 0.9))}
        found = taken_apart(tmp_path, {"even": even, "apart": apart})
        of_even, of_apart = ([gap for gap in found.gaps if gap.model == name] for name in ("even", "apart"))
        assert not any(gap.outlier for gap in of_even)
        assert of_even[0].fences == pytest.approx((-0.15, 0.85))
        assert [gap.name for gap in of_apart if gap.outlier] == ["w6"]
        [shown] = [table for table in memory_tables.tables(found) if "outlier" in table.columns]
        rows = [row for row in shown.objects() if row["model"] == "apart"]
        assert [row["world"] for row in rows if row["outlier"]] == ["w6"]
        assert (rows[0]["fence low"], rows[0]["fence high"]) == pytest.approx((0.1125, 0.4125))
        assert of_apart[0].fences == pytest.approx((0.1125, 0.4125))

    def test_contrasts_are_of_pretrained_weights_and_have_a_sign(self, tmp_path: Path) -> None:
        """0.6 − 0.6 in one world and 0.7 − 0.25 in the other, whatever the random weights."""
        hits = {"one": {BASE: (0.6, 0.1), NAMELESS: (0.7, 0.3)}, "other": {BASE: (0.6, 0.5), NAMELESS: (0.25, 0.2)}}
        found = taken_apart(tmp_path, hits, contrasts=(("one", "other"), ("other", "one")))
        told = [(line.model, line.name, round(line.value.value, 9)) for line in found.contrasts]
        forth, back = "one − other", "other − one"
        assert told == [(forth, BASE, 0), (forth, NAMELESS, 0.45), (back, BASE, 0), (back, NAMELESS, -0.45)]
        assert found.contrasts[0].value.p_value == 1
        assert found.contrasts[1].value.interval[1:3] == pytest.approx(
            crossed([known(0.7) - known(0.25)], within=np.repeat(range(5), 20), limits=(-1.0, 1.0))[1:3]
        )

    def test_a_model_has_the_terms_of_its_own_worlds(self, tmp_path: Path) -> None:
        """Of a model that takes no part in base there is no memory to miss: (0.5 − 0.2) − (0.4 − 0.3)."""
        hits = {"m": {BASE: (0.9, 0.2), NAMELESS: (0.5, 0.45)}, "n": {NAMELESS: (0.4, 0.3), MEANINGLESS: (0.5, 0.2)}}
        found = taken_apart(tmp_path, hits)
        own = {term.name: term.value for term in found.terms if term.model == "n"}
        assert list(own) == [
            f"memory of names ({MEANINGLESS})",
            "descriptions (pretrained)",
            "descriptions (random)",
            "structure",
        ]
        assert own[f"memory of names ({MEANINGLESS})"].value == pytest.approx(0.2)

    def test_every_metric_of_every_cell(self, tmp_path: Path) -> None:
        """0.9 of the facts at rank 8 and 0.1 at rank 11: MRR 0.9 / 8 + 0.1 / 11, MR 0.9 · 8 + 0.1 · 11."""
        found = taken_apart(tmp_path, {"m": {BASE: (0.9, 0.2)}})
        numbers = {name: number.value for name, number in found.cells[0].numbers.items()}
        mrr = 0.9 / 8 + 0.1 / 11
        assert numbers == pytest.approx({"hits@1": 0, "hits@3": 0, "hits@10": 0.9, "mrr": mrr, "mean_rank": 8.3})
        [*_, table, _] = memory_tables.tables(found)
        assert table.columns[3:7] == ("seeds", "Hits@1", "Hits@1 low", "Hits@1 high")
        row = table.objects()[0]
        assert [row[name] for name in ("Hits@1", "Hits@3", "Hits@10", "MRR", "MR")] == pytest.approx(
            [0, 0, 0.9, mrr, 8.3]
        )
        assert 8 <= row["MR low"] < 8.3 < row["MR high"]
        axes = pytest.importorskip("matplotlib.figure").Figure().subplots()
        memory_tables.plots(found)[0].draw(axes)
        assert [bar.get_height() for bar in axes.patches if bar.get_height()] == [0.9, 0.2]


# --- several seeds: the noise of training


SEEDS: tuple[dict[str, tuple[float, float]], ...] = (
    {BASE: (0.9, 0.2), NAMELESS: (0.5, 0.45), MEANINGLESS: (0.35, 0.1)},
    {BASE: (0.8, 0.3), NAMELESS: (0.6, 0.4), MEANINGLESS: (0.3, 0.15)},
    {BASE: (0.85, 0.25), NAMELESS: (0.55, 0.5), MEANINGLESS: (0.4, 0.2)},
)


def known(share: float) -> np.ndarray:
    """Which of the hundred facts: the first of the twenty of each relation."""
    return np.tile(np.arange(20) < round(20 * share), 5).astype(float)


class TestSeeds:
    def test_terms_are_means_over_seeds_and_hold_both_kinds_of_noise(self, tmp_path: Path) -> None:
        """Memory 0.65, 0.5 − 0.2 and 0.6 − 0.05; descriptions 0.15, 0.3, 0.15 and 0.35, 0.25, 0.3; structure 0.1, 0.15,
        0.2. The interval is that of the table of facts and seeds."""
        found = taken_apart(tmp_path, *({"m": hits} for hits in SEEDS))
        assert terms(found) == {
            "memory of names (base)": 0.5,
            f"memory of names ({MEANINGLESS})": 0.1,
            "descriptions (pretrained)": 0.2,
            "descriptions (random)": 0.3,
            "structure": 0.15,
        }
        assert {gap.name: round(gap.value.value, 9) for gap in found.gaps} == {
            BASE: 0.6,
            NAMELESS: 0.1,
            MEANINGLESS: 0.2,
        }
        table = [
            known(hits[BASE][0]) - known(hits[BASE][1]) - known(hits[NAMELESS][0]) + known(hits[NAMELESS][1])
            for hits in SEEDS
        ]
        told = crossed(table, within=np.repeat(range(5), 20), limits=(-2.0, 2.0))
        term = found.terms[0]
        assert term.value[1] < told[1] < told[2] < term.value[2]  # simultaneous for the terms
        assert term.value.interval[1:3] == pytest.approx(told[1:3])
        assert term.value.p_value == pytest.approx(told.p_value)
        assert term.value.sample == "fact within relation and seed"
        assert term.value.smallest == pytest.approx(smallest_difference(told.error, told.degrees))
        assert term.noise.seeds == 3
        assert term.noise.training == pytest.approx(told.seed_error)
        assert term.noise.facts**2 + term.noise.training**2 == pytest.approx(told.error**2)
        assert (
            0.05 < term.noise.training < 0.11
        )  # of 0.65, 0.3 and 0.55 √(0.0325 / 3) = 0.104, less what facts make of it
        structure = found.terms[-1].value
        assert (structure.p_value, structure.smallest) == (None, None)
        assert structure[1:3] == pytest.approx(
            crossed([known(hits[MEANINGLESS][1]) for hits in SEEDS], within=np.repeat(range(5), 20), limits=(0.0, 1.0))[
                1:3
            ]
        )
        assert structure.low > 0

    def test_seeds_of_one_model_are_no_difference(self, tmp_path: Path) -> None:
        """0.5, 0.6, 0.4 and 0.6, 0.45, 0.5: the first two of one seed alone would differ by a tenth of all facts."""
        seeds = [
            {"one": {BASE: (one, 0.1)}, "other": {BASE: (other, 0.1)}}
            for one, other in ((0.5, 0.6), (0.6, 0.45), (0.4, 0.5))
        ]
        pair = (("other", "one"),)
        [alone] = taken_apart(tmp_path / "one", seeds[0], contrasts=pair).contrasts
        assert alone.value.value == pytest.approx(0.1)
        assert alone.adjusted < 0.01
        assert ONE_SEED in alone.value.note
        [three] = taken_apart(tmp_path / "three", *seeds, contrasts=pair).contrasts
        assert three.value.value == pytest.approx(1 / 60)
        assert three.value.low < 0 < three.value.high
        assert three.adjusted > 0.5
        assert three.value.note == ""

    def test_what_a_seed_lacks_is_left_out_of_that_seed_alone(self, tmp_path: Path) -> None:
        """Without base from pre-trained weights by the second seed: memory is of the others, structure of all."""
        states = grid_of(tmp_path, *({"m": hits} for hits in SEEDS))
        lacking = [
            state._replace(run=None, failed="no memory") if state.cell == Cell("m", "pretrained", BASE, 1) else state
            for state in states
        ]
        found = memory.analyse(lacking)
        assert terms(found)["memory of names (base)"] == 0.6
        assert terms(found)["structure"] == 0.15
        assert [term.noise.seeds for term in found.terms] == [2, 3, 3, 3, 3]
        assert "only 2 seeds" in found.terms[0].value.note
        assert found.cells[0].why == "epochs (2), failed: no memory (1)"
        assert found.cells[0].hits.value == pytest.approx((0.9 + 0.85) / 2)

    def test_cells_of_no_seed_in_common(self, tmp_path: Path) -> None:
        states = grid_of(tmp_path, *({"m": hits} for hits in SEEDS[:2]))
        there = {Cell("m", "pretrained", BASE, 0), Cell("m", "random", BASE, 1), Cell("m", "random", MEANINGLESS, 0)}
        found = memory.analyse([state if state.cell in there else state._replace(run=None) for state in states])
        formulas = {term.name: term.formula for term in found.terms}
        assert terms(found) == {"structure": 0.1}
        assert formulas["memory of names (base)"].endswith(f"(no cell {NAMELESS} pretrained, {NAMELESS} random)")
        assert found.gaps == []
        lacking = next(line for line in found.cells if line.cell == Cell("m", "pretrained", NAMELESS))
        assert (lacking.hits, lacking.numbers, lacking.noise, lacking.why) == (None, {}, Noise(0), "not yet")
        assert lacking.trainings[0][1:] == (None, 0, "not yet", 0, None, 0.0)
        only = {Cell("m", init, world, seed) for init, seed in (("pretrained", 0), ("random", 1)) for world in SEEDS[0]}
        found = memory.analyse([state if state.cell in only else state._replace(run=None) for state in states])
        assert found.terms[0].formula.endswith("one seed for all)")

    def test_claims_terms_gaps_and_contrasts_of_a_metric_are_one_family(self, tmp_path: Path) -> None:
        """A claim, four terms, four gaps and a contrast of Hits@10 are ten tests; other metrics have no claim."""
        hits = {BASE: (0.5, 0.3), NAMELESS: (0.4, 0.35), MEANINGLESS: (0.35, 0.2)}
        found = taken_apart(tmp_path, {"m": hits, "n": {BASE: (0.5, 0.45)}}, contrasts=(("m", "n"),))
        for name, effects in found.effects.items():
            tested = [effect for kind in effects for effect in kind if effect.adjusted is not None]
            p_values = [effect.value.p_value for effect in tested]
            decisions = found.decisions if name == memory.HITS else []
            p_values += [found.terms[0].value.p_value for _ in decisions]
            adjusted = [*(effect.adjusted for effect in tested), *(decision.p_value for decision in decisions)]
            assert adjusted == pytest.approx(holm(p_values).tolist())
            if name == memory.HITS:
                assert len(adjusted) == 10
        gap = found.gaps[0]
        assert gap.adjusted == pytest.approx(10 * gap.value.p_value)
        assert gap.value[1:3] == pytest.approx(at_confidence(gap.value.interval, 1 - 0.05 / 10))

    def test_tables_say_what_can_be_seen_and_what_one_seed_lacks(self, tmp_path: Path) -> None:
        one = taken_apart(tmp_path / "one", {"m": SEEDS[0]}, contrasts=(("m", "m"),))
        three = taken_apart(tmp_path / "three", *({"m": hits} for hits in SEEDS), contrasts=(("m", "m"),))
        for found, words in ((one, "these facts and 1 seed,"), (three, "these facts and 3 seeds,")):
            cells, apart, gaps, contrasts, metrics, *_ = memory_tables.tables(found)
            for table in (cells, apart, gaps, contrasts):
                assert any(words in note and "cannot be seen" in note for note in table.notes), table.title
                assert stated(table.notes, "another training") == (found is one)
            for table in (cells, apart, gaps, contrasts, metrics):
                assert any(ONE_SEED in note for note in table.notes) == (found is one), table.title
            assert ("error by facts" in cells.hidden) == (found is one)
            assert {"error by facts", "formula"} <= apart.hidden
            smallest = sorted(gap.value.smallest for gap in found.gaps)
            assert stated(cells.notes, f"below {smallest[0]:.3f} to {smallest[-1]:.3f}")
            row = apart.objects()[0]
            assert row["smallest"] == found.terms[0].value.smallest
            assert row["p (Holm)"] == found.terms[0].adjusted
            assert row["seeds"] == len(found.cells[0].trainings)
            assert row["error by training"] == found.terms[0].noise.training
        assert len(memory_tables.tables(one)) == 6
        trainings = memory_tables.tables(three)[-1].objects()
        assert [(row["world"], row["seed"], row["Hits@10"]) for row in trainings[:4]] == [
            (BASE, 0, 0.9),
            (BASE, 1, 0.8),
            (BASE, 2, 0.85),
            (BASE, 0, 0.2),
        ]

    def test_the_table_of_cells_tells_of_all_trainings(self, tmp_path: Path) -> None:
        """The most facts that one of them left out, what all took together, and epochs only where they are alike."""
        found = taken_apart(tmp_path, *({"m": hits} for hits in SEEDS))
        trained = [
            one._replace(unscored=unscored, seconds=seconds, epochs=epochs, best_epoch=3)
            for one, unscored, seconds, epochs in zip(
                found.cells[0].trainings, (1, 4, 2), (10.0, 20.0, 40.0), (5, 4, 5), strict=True
            )
        ]
        found = replace(found, cells=[found.cells[0]._replace(trainings=tuple(trained)), *found.cells[1:]])
        row = memory_tables.tables(found)[0].objects()[0]
        assert [row[name] for name in ("unscored", "seconds", "epochs", "best")] == [4, 70, None, 3]
        of_each = memory_tables.tables(found)[-1].objects()[:3]
        assert [(row["seed"], row["epochs"], row["seconds"]) for row in of_each] == [(0, 5, 10), (1, 4, 20), (2, 5, 40)]
