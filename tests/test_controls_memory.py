"""What the studies of ontologies and of memory conclude of answerers that remember nothing, and of one that does (see
tests/test_controls.py)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from fathom.links.folder import MANIFEST
from fathom.metrics.ranking import by_frequency
from fathom.results.tasks import MEASURED
from fathom.store.files import write_json
from fathom.studies import memory, ontology
from fathom.studies.grid import Cell, CellState, ModelPlan, StudyPlan
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

# --- ontology: models remember more of it than how often answers are right


CLASSES = [[number % 4] if number % 3 else [number % 4, 7 + number % 5] for number in range(60)]
"""Two tasks of thirty items, every third with a second right answer."""
SEEN = {"r0": [["c03"], ["c01", "c08"], ["c03"]], "r1": [["c09"], ["c02", "c00"], ["c02"], ["c00"], ["c02"]]}
"""Right answers of the training items of each task."""


class TestOntology:
    data = world(CLASSES, relations=2, templates=2)

    def asked(self, folder: Path, answer: Answerer, seed: int = 0) -> ontology.Ontology:
        run = answered(folder, answer, self.data, probe="ontology")
        write_json(run.path / "artifacts" / "training.json", SEEN)
        return ontology.ask([run], seed=seed)

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
            assert baseline.verdict(line) == "not above frequency"
            for name in MEASURED:
                assert line.numbers[name].value == pytest.approx(baseline.numbers[name].value), name

    def test_answers_by_lot_and_constant_ones_do_not_beat_it(self, tmp_path: Path) -> None:
        """What is right most often in training is right more often than any other in the items, too."""
        for number, answer in enumerate((at_random(0), at_random(1), lambda *asked: constant(*asked)[::-1])):
            found = self.asked(tmp_path / str(number), answer)
            for line in found.lines:
                baseline = found.baselines[line.setting.task]
                assert line.mrr < baseline.numbers["MRR"].value
                assert baseline.verdict(line) == "not above frequency"

    def test_one_who_knows_beats_it_by_the_template_that_it_understands(self, tmp_path: Path) -> None:
        """By the first template 0.4 of the facts stand first and the others second, by the second all at rank 4: MRR
        0.4 + 0.6/2 and 1/4."""
        well = knowing(known_of(self.data, [0.4]), at_rank(2))
        found = self.asked(tmp_path / "run", lambda *asked: (well, at_rank(4))[asked[2]](*asked))
        for (task, _, _), line in found.best.items():
            assert line.template == 0
            assert line.mrr == pytest.approx(0.7)
            assert line.numbers["R@1"].value == pytest.approx(0.4)
            assert found.baselines[task].verdict(line) == "above"
        assert [line.mrr for line in found.lines if line.template == 1] == pytest.approx([0.25, 0.25])


# --- memory: how much of a link predictor's Hits@10 is memory of names, descriptions, structure


BASE, NAMELESS, MEANINGLESS = "base", "anonymised-er", "fully-anonymised-erd"


def taken_apart(out: Path, hits: Mapping[str, Mapping[str, tuple[float, float]]], **plan: object) -> memory.Memory:
    """A finished grid whose cells rank a share of the test facts within ten (eighth, and the others eleventh).

    :param hits: model → world → Hits@10 with pre-trained and with random weights.
    """
    data = world(EVEN)
    worlds = dict.fromkeys(name for of_model in hits.values() for name in of_model)
    models = {name: ModelPlan(model="simkgc", worlds=tuple(of_model)) for name, of_model in hits.items()}
    states = []
    for name, of_model in hits.items():
        for place, shares in of_model.items():
            for init, share in zip(("pretrained", "random"), shares, strict=True):
                cell = Cell(name, init, place)
                identity = {"kind": "m", "options": {}, "weights": None, "data": {"name": "d", "places": ""}}
                write_json(cell.model_folder(out) / MANIFEST, {"identity": identity, "ended": {"why": "epochs"}})
                answer = knowing(known_of(data, [share]), at_rank(11), well=at_rank(8))
                states.append(CellState(cell, answered(cell.folder(out) / "run", answer, data, probe="link"), ""))
    return memory.ask(StudyPlan(data="graph", worlds=tuple(worlds), models=models, **plan), states, out)


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
        assert {gap.world: round(gap.value.value, 9) for gap in found.gaps} == {
            BASE: 0.7,
            NAMELESS: 0.05,
            MEANINGLESS: 0.25,
        }
        p_values = [term.value.p_value for term in found.terms if term.value is not None]
        assert p_values[0] < 0.001

    def test_worlds_that_lie_evenly_have_no_outlier_and_one_apart_is_told(self, tmp_path: Path) -> None:
        """Gaps of 0.1 to 0.6: quartiles 0.225 and 0.475, fences 0.225 − 1.5 · 0.25 and 0.475 + 1.5 · 0.25. Gaps of 0.2,
        0.25 and 0.3, twice each, and 0.9: quartiles 0.225 and 0.3, fences 0.1125 and 0.4125."""
        even = {f"w{step}": (0.3 + step / 10, 0.3) for step in range(1, 7)}
        apart = {f"w{n}": (0.05 + gap, 0.05) for n, gap in enumerate((0.2, 0.2, 0.25, 0.25, 0.3, 0.3, 0.9))}
        found = taken_apart(tmp_path, {"even": even, "apart": apart})
        of_even, of_apart = ([gap for gap in found.gaps if gap.model == name] for name in ("even", "apart"))
        assert not any(gap.outlier for gap in of_even)
        assert of_even[0].fences == pytest.approx((-0.15, 0.85))
        assert [gap.world for gap in of_apart if gap.outlier] == ["w6"]
        assert of_apart[0].fences == pytest.approx((0.1125, 0.4125))

    def test_contrasts_are_of_pretrained_weights_and_have_a_sign(self, tmp_path: Path) -> None:
        """0.6 − 0.6 in one world and 0.7 − 0.25 in the other, whatever the random weights."""
        hits = {"one": {BASE: (0.6, 0.1), NAMELESS: (0.7, 0.3)}, "other": {BASE: (0.6, 0.5), NAMELESS: (0.25, 0.2)}}
        found = taken_apart(tmp_path, hits, contrasts=(("one", "other"), ("other", "one")))
        told = [(line.first, line.world, round(line.value.value, 9)) for line in found.contrasts]
        assert told == [("one", BASE, 0), ("one", NAMELESS, 0.45), ("other", BASE, 0), ("other", NAMELESS, -0.45)]
        assert found.contrasts[0].value.p_value == 1
