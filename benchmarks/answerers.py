"""Conclusions of the studies of reasoning about answerers whose behaviour is known; the answerers are the tests'."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from harness import DATA, Table, benchmark, scratch

from fathom.data.formats import read
from fathom.data.formats.ontoprobe import is_ontoprobe, read_patterns
from fathom.data.prompts.alterations import arguments
from fathom.data.prompts.ontology import RULES
from fathom_build.ontology import build_ontology
from fathom_build.options import OntologyBuildOptions

STUDIES = ("entailment", "choice", "chains")
ENOUGH = 48
"""Items of a cell in which reasoners are counted."""
SMALL = Path(__file__).parents[1] / "tests" / "ontologies"


def built(files: tuple[Path, ...], folder: Path) -> Iterator[Path]:
    """Yield folders of ontologies: those given, or built from files."""
    for file in files or (*sorted(SMALL.glob("*.ttl")), DATA / "ontologies" / "pizza.owl", DATA / "ontoprobe"):
        if is_ontoprobe(file):
            yield file
        else:
            patterns = SMALL / "patterns.tsv" if file.parent == SMALL else None
            build_ontology(OntologyBuildOptions(input=[file], out=folder / file.stem, patterns=patterns))
            yield folder / file.stem


@benchmark
def reasoners(
    ontologies: tuple[Path, ...] = (), studies: tuple[str, ...] = STUDIES, seeds: int = 2, items: int = 60
) -> None:
    """Count the conclusions of entailment, choice and chains about scripted answerers, without any model.

    A cell is one rule (of chains one depth and form) of one ontology. By default the ontologies are the tests', pizza
    and OntoProbe's. --items: largest number for each task. Reasoners are counted in cells of 48 items or more.
    """
    from tests.reasoners import MEMORY_USERS, REASONERS, SHORTCUTS, concluded, knows, simulated

    answerers = {name: (answer, 0.5) for name, answer in (SHORTCUTS | MEMORY_USERS).items()} | dict(REASONERS)
    positive: Counter[tuple[str, ...]] = Counter()
    every: Counter[tuple[str, ...]] = Counter()
    with scratch() as folder:
        for ontology in built(ontologies, folder):
            queries, patterns = read(ontology), read_patterns(ontology)
            rules = [rule for rule in RULES if arguments(queries, patterns, rule)[0]]
            worlds = {share: knows(queries, patterns, rules, share) for share in (0.0, 0.5, 1.0)}
            for study in studies:
                for seed in range(seeds):
                    texts = simulated(study, queries, patterns, seed, items=items)
                    for name, (answerer, share) in answerers.items():
                        for found in concluded(texts, answerer, worlds[share], seed):
                            if name in REASONERS and found.items < ENOUGH:
                                continue
                            cell = (
                                name,
                                study,
                                found.evidence.conclusion,
                                ontology.name,
                                *list(found.about.values())[1:3],
                            )
                            every[cell] += 1
                            positive[cell] += found.decision.holds
                print(f"{ontology.name}, {study}: {len(texts.queries):,} texts", flush=True)
    conclusions = list(dict.fromkeys(cell[1:3] for cell in every))
    table = Table("answerer", *(f"{study}: {conclusion}" for study, conclusion in conclusions))
    for name in answerers:
        groups = ([cell for cell in every if cell[0] == name and cell[1:3] == about] for about in conclusions)
        table.row(
            name, *(_counts([positive[cell] for cell in cells], [every[cell] for cell in cells]) for cells in groups)
        )


@benchmark
def composed_reasoners(
    ontologies: tuple[Path, ...] = (), studies: tuple[str, ...] = STUDIES, seeds: int = 2, items: int = 60
) -> None:
    """Count the conclusions about answerers composed of ways to read, by the property that they lack.

    Those who answer all texts of a cell as the right one does are merged with it. Cells and options are those of
    ``reasoners``.
    """
    from tests.reasoners import Composed, Ways, composed, concluded, knows, lacks, simulated

    counts: Counter[tuple[str, str, str, bool]] = Counter()
    with scratch() as folder:
        for ontology in built(ontologies, folder):
            queries, patterns = read(ontology), read_patterns(ontology)
            rules = [rule for rule in RULES if arguments(queries, patterns, rule)[0]]
            world = knows(queries, patterns, rules, 0.5)
            for study, seed in product(studies, range(seeds)):
                texts = simulated(study, queries, patterns, seed, items=items)
                rightly: dict[tuple[str, ...], object] = {}
                for ways in composed():
                    for found in concluded(texts, Composed(ways), world, seed):
                        conclusion, answers = found.evidence.conclusion, (found.evidence.values, found.evidence.memory)
                        about = conclusion, *list(found.about.values())[1:3]
                        is_right = ways == Ways()
                        if is_right:
                            rightly[about] = answers
                        if found.items < ENOUGH if is_right else answers == rightly[about]:
                            continue
                        lacking = lacks(ways, conclusion)
                        name = "right" if not lacking else lacking[0] if len(lacking) == 1 else "several"
                        counts[name, study, conclusion, found.decision.holds] += 1
                Composed.forget()
                print(f"{ontology.name}, {study}, seed {seed}: {len(texts.queries):,} texts", flush=True)
    columns = list(dict.fromkeys(key[1:3] for key in counts))
    table = Table("lacks", *(f"{study}: {conclusion}" for study, conclusion in columns))
    for name in dict.fromkeys(key[0] for key in counts):
        pairs = [[counts[name, *about, holds] for holds in (True, False)] for about in columns]
        table.row(name, *(f"{holds} of {holds + refused}" for holds, refused in pairs))


def _counts(positive: list[int], every: list[int]) -> str:
    """Return the pooled count, and that of the worst cell."""
    if not every:
        return "–"
    worst = max(range(len(every)), key=lambda place: positive[place] / every[place])
    return f"{sum(positive)} of {sum(every)} (worst cell {positive[worst]} of {every[worst]})"
