"""Mutation testing: whether the tests notice a changed number, operator, comparison or condition.

Cosmic Ray's operators change one place of a module at a time, in a copy of the sources, and the module's tests run. A
change that they pass has survived.

    python benchmarks/mutation.py [--sample 20] [--seed new] [--only fathom/plans] [--jobs 2] [--minutes 120]

Survivors stand in the file as they are found. Some change nothing that can be seen, such as ``<`` to ``<=`` where no
two values are equal; each other one is a test to be written. *places* counts wherever operators fit; of these,
annotations and what is raised are not changed. A change that makes tests run five times as long is killed.
"""

from __future__ import annotations

import argparse
import ast
import csv
import importlib
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SWAPS = "Add_Sub Sub_Add Mul_Div Div_Mul FloorDiv_Mul Mod_Mul Pow_Mul BitOr_BitAnd BitAnd_BitOr"
COMPARED = "Eq_NotEq NotEq_Eq Lt_LtE Lt_Gt LtE_Lt LtE_Gt Gt_GtE Gt_Lt GtE_Gt GtE_Lt Is_IsNot IsNot_Is"
KEYWORDS = "TrueWithFalse FalseWithTrue AndWithOr OrWithAnd BreakWithContinue ContinueWithBreak"
OPERATORS = [
    *(f"ReplaceBinaryOperator_{pair}" for pair in SWAPS.split()),
    *(f"ReplaceComparisonOperator_{pair}" for pair in COMPARED.split()),
    *(f"ReplaceUnaryOperator_Delete_{sign}" for sign in ("USub", "Invert", "Not")),
    *(f"Replace{pair}" for pair in KEYWORDS.split()),
    *("NumberReplacer", "AddNot", "ZeroIterationForLoop"),
]
KEPT = "golden::test_a_run_of_an_earlier_version_is_read"
TESTS = {  # test files, the fastest first → modules; the slowest first, so that no process ends long before the others
    "entailment": "fathom/studies/reasoning/entailment",
    "controls_memory grid": "fathom_kgc/studies/memory fathom_kgc/studies/memory_tables",
    "study_contract choice": "fathom/studies/reasoning/choice",
    "chains": "fathom/studies/reasoning/chains",
    "presets_cells presets": "fathom/plans/tables fathom/plans/presets",
    "forecast_links": "fathom_kgc/links/forecast",
    "reasoning": "fathom/studies/reasoning/conclusions fathom/studies/reasoning/shortcuts",
    "claims presets": "fathom/plans/claims",
    "compare report study_contract ontology::test_metrics_of_the_probe_by_hand ontology::test_a_line_for_each_task "
    "ontology::test_a_template_is_recognised_in_its_prompts "
    "ontology::test_a_task_without_training_items_has_no_baseline "
    "ontology::test_what_cannot_be_scored_stands_in_the_table ontology::test_the_study_by_hand "
    "ontology_finest ontology::test_models_have_short_names_that_tell_them_apart "
    "studies": "fathom/results/tasks fathom/studies/ontology",
    "study_contract controls approaches": (
        "fathom/studies/perplexity fathom/studies/rankings fathom/studies/relations fathom/studies/repeated"
    ),
    "robustness": "fathom/results/alterations",
    "watch": "fathom/studies/learning",
    "compare study_contract studies controls_memory::TestMemory::test_every_metric_of_every_cell controls "
    "approaches": "fathom/results/facts fathom/results/loading",
    "claims edges estimates reasoning": "fathom/results/claims",
    "checking compare": "fathom/results/checking",
    "ci": "fathom/cli/junit",
    f"claims estimates edges report samples baselines studies study_contract approaches {KEPT}": (
        "fathom/results/estimates"
    ),
    "studies compare::test_two_scorings_of_one_run_agree_as_two_runs_do study_contract controls controls_planned": (
        "fathom/studies/agreement fathom/studies/compute_time fathom/studies/length_bias"
    ),
    "samples baselines report compare": "fathom/results/samples fathom/results/baselines",
    "study_validity": "fathom/studies/validity",
    f"report baselines approaches {KEPT}": "fathom/results/summary",
    "shown report leakage study_contract": "fathom/results/tables",
    f"rows report study_contract {KEPT}": "fathom/results/rows",
    "leakage seen knowledge": "fathom/results/datasets",
    f"report {KEPT}": "fathom/results/answers",
    "by_number metrics": "fathom/results/bins",
    "uncertainty studies approaches": "fathom/results/metrics/correlation",
    "uncertainty edges": "fathom/results/metrics/uncertainty",
    "discrimination study_validity": "fathom/results/discrimination",
    "study_profile study_contract": "fathom/studies/profile",
    "study_calibration study_contract": "fathom/studies/calibration",
    "study_items study_contract": "fathom/studies/items",
    "significance": "fathom/results/metrics/significance",
    "compare estimates ci": "fathom/results/compare fathom/results/comparison",
    "diff edits": "fathom/results/diff",
    f"metrics_table metrics report study_calibration approaches::test_perplexity_by_hand {KEPT}": (
        "fathom/results/metrics/confidence fathom/results/metrics/table"
    ),
    "metrics_table metrics ontology_folds::test_the_frequency_of_others_by_hand by_number::test_rankc_by_hand "
    "ontology_finest rows ontology::test_the_frequency_baseline approaches": "fathom/results/metrics/ranking",
}
SLOW = "not killed and not learnt and not transformers_serve and not the_commands_print"
WARM = ("torch._dynamo", "transformers.modeling_utils", "scipy.stats", "pyarrow.parquet", "pydantic", "pytest")
"""Imported once, for the forks in which mutants are tested."""
FORK = multiprocessing.get_context("fork")


class Mutant(NamedTuple):
    line: int
    old: str
    new: str
    source: str


class ModuleResult(NamedTuple):
    """:param seconds: of one mutant; NaN where the tests fail without a change."""

    module: str
    places: int
    killed: int
    survivors: list[Mutant]
    seconds: float


class Meaning(ast.NodeTransformer):
    """Leaves what can change a number or a decision."""

    def visit(self, node: ast.AST) -> Any:
        match node:
            case ast.Raise():
                return ast.Raise()
            case ast.keyword(arg="strict" | "frozen"):  # they only guard
                return None
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp(op=ast.BitOr() | ast.BitAnd())) if name[
                0
            ].isupper():  # alias of a type
                return None
            case ast.arguments():  # their defaults, not the markers among them
                return super().visit(ast.Tuple([*node.defaults, *filter(None, node.kw_defaults)]))
        for annotated in {"annotation", "returns"} & set(node._fields):
            setattr(node, annotated, None)
        return super().visit(node)


def meaning(source: str) -> str:
    """Equal of two sources that compute the same; empty of one that is no Python."""
    try:
        return ast.dump(Meaning().visit(ast.parse(source)))
    except SyntaxError:
        return ""


def mutants(source: str, seed: str) -> tuple[int, Iterator[Mutant]]:
    """Places where operators fit; in random order, mutants that mean something else than the source and each other."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    nodes, operators = list(ast_nodes(get_ast(source))), [get_operator(f"core/{name}")() for name in OPERATORS]
    fits = [(operator, sum(len(list(operator.mutation_positions(node))) for node in nodes)) for operator in operators]
    places = [(operator, number) for operator, count in fits for number in range(count)]
    random.Random(seed).shuffle(places)

    def made() -> Iterator[Mutant]:
        seen = {"", meaning(source)}
        for operator, number in places:
            changed = mutate_code(source, operator, number)
            if (said := meaning(changed)) not in seen:
                seen.add(said)
                pairs = zip(source.splitlines(), changed.splitlines(), strict=True)
                line, (old, new) = next((at, pair) for at, pair in enumerate(pairs, start=1) if pair[0] != pair[1])
                yield Mutant(line, " ".join(old.split()), " ".join(new.split()), changed)

    return len(places), made()


def prepare(folder: Path) -> None:
    """A process with its own copy of the sources, which is what its forks import."""
    copy = folder / str(os.getpid())
    for part in ("src", "tests", "docs"):
        shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    os.environ.setdefault("FATHOM_DATA", str(ROOT.parent / "shared" / "data"))
    os.environ |= {"PYTHONPATH": str(copy / "src"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    os.chdir(copy)
    sys.path[:] = [str(copy / "src"), *(path for path in sys.path if Path(path) != Path(__file__).parent)]
    for name in WARM:
        importlib.import_module(name)


def passes(tests: str, limit: float) -> bool:
    """Whether all pass within so many seconds, in a process of their own."""
    child = FORK.Process(target=_test, args=(tests,))
    child.start()
    child.join(limit)
    if child.is_alive() and child.pid:
        os.killpg(child.pid, signal.SIGKILL)
        child.join()
    return child.exitcode == 0


def _test(tests: str) -> None:
    import pytest

    os.setpgrp()  # so that what tests start can be ended with them
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    named = [name.partition("::") for name in tests.split()]
    files = [f"{next(Path('tests').rglob(f'test_{file}.py'))}{separator}{test}" for file, separator, test in named]
    # Plain assertions: plugins that are imported already could not be rewritten, which is a warning and so an error.
    how = ["-x", "-q", "-p", "no:cacheprovider", "--assert=plain", "--basetemp=made", "-k", SLOW]
    os._exit(pytest.main([*files, *how]))


def examine(module: str, tests: str, sample: int | None, end: float, seed: str = "") -> ModuleResult:
    """:param end: no mutant is begun later, by the clock. :param seed: for other mutants than before."""
    if time.time() > end:
        return ModuleResult(module, 0, 0, [], 0.0)
    file = Path("src", f"{module}.py")
    source = file.read_text(encoding="utf-8")
    places, found = mutants(source, seed=f"{seed}{module}")
    sys.dont_write_bytecode, began = False, time.time()
    if not passes(tests, limit=600):
        return ModuleResult(module, places, 0, [], float("nan"))
    limit, done, survivors = 20 + 5 * (time.time() - began), 0, []
    sys.dont_write_bytecode, began = True, time.time()  # two mutants of one second and size would be taken for one
    for mutant in islice(found, sample):
        if time.time() > end:
            break
        file.write_text(mutant.source, encoding="utf-8")
        survivors += [mutant] if passes(tests, limit) else []
        done += 1
    file.write_text(source, encoding="utf-8")
    return ModuleResult(module, places, done - len(survivors), survivors, (time.time() - began) / max(done, 1))


def show(result: ModuleResult) -> None:
    tested = result.killed + len(result.survivors)
    share = f"{result.killed / tested:.0%}" if tested else "–"
    seconds = f"{result.seconds:.1f}" if result.seconds == result.seconds else "its tests fail without a change"
    numbers = f"{result.places:>6} {tested:>7} {result.killed:>6} {len(result.survivors):>8}"
    print(f"{result.module:40} {numbers} {share:>6} {seconds:>8}", flush=True)


def main() -> None:
    said = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    said.add_argument("--sample", type=int, help="so many mutants of each module, the same each time; all without it")
    said.add_argument("--seed", default="", help="for another sample")
    said.add_argument("--only", default=[""], nargs="+", help="modules whose names begin with one of these")
    said.add_argument("--jobs", type=int, default=2)
    said.add_argument("--minutes", type=float, default=120, help="no mutant is begun later")
    said.add_argument("--out", default="mutation.csv")
    arguments = said.parse_args()
    of = {
        module: tests
        for tests, modules in TESTS.items()
        for module in modules.split()
        if module.startswith(tuple(arguments.only))
    }
    print(f"a sample: at most {arguments.sample} mutants of each module" if arguments.sample else "all mutants")
    print(f"{'module':40} {'places':>6} {'mutants':>7} {'killed':>6} {'survived':>8} {'share':>6} {'seconds each':>8}")
    began, done = time.time(), []
    with tempfile.TemporaryDirectory() as folder, open(arguments.out, "w", encoding="utf-8", newline="") as out:
        table = csv.writer(out)
        table.writerow(("file:line", "old", "new"))
        spawn, end = multiprocessing.get_context("spawn"), began + 60 * arguments.minutes
        with ProcessPoolExecutor(arguments.jobs, spawn, initializer=prepare, initargs=(Path(folder),)) as pool:
            for future in as_completed(
                pool.submit(examine, module, of[module], arguments.sample, end, arguments.seed) for module in of
            ):
                done.append(future.result())
                show(done[-1])
                at = f"src/{done[-1].module}.py"
                table.writerows((f"{at}:{mutant.line}", mutant.old, mutant.new) for mutant in done[-1].survivors)
                out.flush()
    tested = sum(result.killed + len(result.survivors) for result in done)
    survivors = [mutant for result in done for mutant in result.survivors]
    seconds = arguments.jobs * (time.time() - began) / max(tested, 1)
    show(ModuleResult("all", sum(result.places for result in done), tested - len(survivors), survivors, seconds))


if __name__ == "__main__":
    main()
