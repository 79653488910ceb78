"""Analyses of runs, one file each, listed in the table STUDIES from which the command line is generated.

A study's module is loaded on first use. It defines

- ``analyse(runs, options)``: returns the findings on finished runs. Entailment and chains choose texts by earlier
  results, so they make their runs themselves: ``analyse(models, data, options, out, announce)``;
- ``plan(options, model, data)``, of these two: their runs, for estimates alone;
- ``conclude(findings)``, optional: sentences on the study's claims, printed first;
- ``tables(findings)``: printed and saved as JSON, CSV and Markdown, each number with its interval and recipe;
- ``plots(findings)``, optional, and ``files(findings)``, optional: further tables, saved as CSV only.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import BaseModel

from fathom.base.errors import BadInput
from fathom.base.registry import Registry
from fathom.results.tables import Panels, Plot, Table
from fathom.studies import options
from fathom.studies.options import RunsOptions

if TYPE_CHECKING:
    from pathlib import Path

    from fathom.data.queries import QuerySet
    from fathom.plans.steps import PlannedStep, StepState
    from fathom.probes import Entry
    from fathom.probes.options import ProbeOptions
    from fathom.store.folder import RunFolder

Announce = Callable[[str], Callable[[int, int], None]]
"""Takes the name of a run; returns a function to call with the pieces done and their total."""

MODEL = "{model}"
PROBES = "Do probes agree, and can they be trusted?"
MODELS = "How do models compare?"
REASONING = "Does a model know an ontology, and reason with it?"
TWO = "runs/gpt2 runs/bert"
IN_PLANS = ""
"""The example of a study without a command."""


class PlannedRun(NamedTuple):
    """A run that a study makes, for estimates.

    :param name: path of its folder below the study's, with :data:`MODEL` for the model's name.
    :param probe: its name, or the entry of one that only studies use.
    :param data: None for those of the study.
    """

    name: str
    probe: str | Entry
    options: ProbeOptions
    data: QuerySet | None = None


@dataclass(frozen=True)
class Study:
    """An entry of STUDIES.

    :param question: heading under which ``fathom study --help`` lists it.
    :param takes: finished runs; models, if ``analyse`` makes the runs; or cells, steps of a plan of which some may have
        failed.
    :param options: of ``analyse``; its fields are flags.
    :param example: a command line, without "fathom study"; empty for a study that only plans and Python make.
    :param without: fields of the options that the study sets itself.
    :param bounds: notes on an estimate of its runs, if these depend on their results.
    :param cells: what the steps are that a study of cells takes, and how a plan gets them.
    :param leaves_out: whether ``analyse`` leaves out runs that cannot be used, such as unfinished ones, and lists them.
    """

    name: str
    question: str
    does: str
    takes: Literal["runs", "models", "cells"]
    module: str
    example: str
    options: type[BaseModel] = RunsOptions
    without: tuple[str, ...] = ()
    cells: str = ""
    leaves_out: bool = False
    bounds: tuple[str, ...] = ()

    def plan(self, options: BaseModel, model: Callable[[], object], data: object) -> list[PlannedRun]:
        """Return the runs that a study of models makes of one. :raises BadInput: by the options or the data.

        :param model: returns its shape.
        :param data: name or folder.
        """
        return list(self._function("plan")(options, model, data))

    def cell_of(self, run: PlannedStep) -> Hashable | None:
        """Return what tells a step from the others of a study of cells; None of one that it cannot take."""
        return self._function("cell_of")(run)  # type: ignore[no-any-return]

    def state_of_cell(self, run: PlannedStep, state: StepState) -> Any:
        """Return what ``analyse`` of a study of cells takes of each step."""
        return self._function("state_of_cell")(run, state)

    def option_faults(self, options: BaseModel, runs: Sequence[str]) -> list[tuple[str, str]]:
        """Return faults of the options of a study of cells, each with its option. :param runs: names in the plan."""
        return list(self._function("option_faults")(options, runs))

    def analyse(self, runs: Sequence[object], *arguments: object, **options: object) -> Any:
        """Return the findings. :param options: of :attr:`options`; a study of models takes *arguments* instead."""
        passed = arguments if self.takes == "models" else (self.options(**options),)
        return self._function("analyse")(runs, *passed)

    def conclude(self, findings: object) -> list[str]:
        """Return sentences on the study's claims; none for a study that only shows numbers."""
        return list(self._function("conclude", lambda findings: [])(findings))

    def tables(self, findings: object, runs: Iterable[RunFolder] = ()) -> list[Table]:
        """Return the tables in the order in which they are printed.

        :param runs: those analysed, whose labels of relations the tables show.
        """
        labels = _labels_of_relations(runs)
        return [replace(table, labels=labels | table.labels) for table in self._function("tables")(findings)]

    def plots(self, findings: object) -> list[Plot | Panels]:
        """Return the plots; none for a study that draws nothing."""
        return list(self._function("plots", lambda findings: [])(findings))

    def files(self, findings: object) -> Mapping[str, Table]:
        """Return further tables by the name of their file, without its ending."""
        return dict(self._function("files", lambda findings: {})(findings))

    def save(self, findings: object, out: Path, overwrite: bool = False, runs: Iterable[RunFolder] = ()) -> bool:
        """Write tables, further tables and plots into a folder. :returns: False if plots need another library."""
        from fathom.results.tables import render, save, write_tables
        from fathom.store.outputs import write_output

        tables = self.tables(findings, runs)
        write_tables(lambda _: tables, out, self.name, self.conclude(findings), overwrite)
        for name, table in self.files(findings).items():
            write_output(out / f"{name}.csv", render([table], "csv") + "\n", overwrite=overwrite)
        labels = _labels_of_relations(runs)
        return all(save(plot, out, overwrite, labels) is not None for plot in self.plots(findings))

    def _function(self, name: str, *default: Callable[[Any], object]) -> Callable[..., Any]:
        return getattr(import_module(self.module), name, *default)  # type: ignore[no-any-return]


def _labels_of_relations(runs: Iterable[RunFolder]) -> dict[str, str]:
    from fathom.results.rows import read_declarations

    labels: dict[str, str] = {}
    for run in runs:
        with suppress(BadInput):  # a run that the study left out
            labels |= read_declarations(run.manifest).relations
    return labels


def _module(name: str) -> str:
    package = "reasoning." if name in ("entailment", "chains", "choice") else ""
    return f"fathom.studies.{package}{name.replace('-', '_')}"


def _of_runs(name: str, question: str, does: str, kind: type[BaseModel] = RunsOptions, runs: str = TWO) -> Study:
    return Study(name, question, does, "runs", _module(name), runs and f"{name} {runs}", kind)


def _of_models(
    name: str, does: str, kind: type[BaseModel], without: tuple[str, ...], more: str = "", bounds: tuple[str, ...] = ()
) -> Study:
    example = f"{name} --model bert-base-cased --data path/to/OntoProbe{more} --out studies/{name}"
    return Study(name, REASONING, does, "models", _module(name), example, kind, without, bounds=bounds)


STUDIES: Registry[Study] = Registry(
    "study",
    "fathom.studies",
    (
        _of_runs(
            "agreement", PROBES,
            "Do probes agree? Correlation of ranks, quadrants of hits and misses, for each model and data set.",
            options.AgreementOptions,
        ),
        _of_runs(
            "length-bias", PROBES,
            "Does a probe favour short names? Correlation of the gold answer's rank with its number of tokens.",
            options.LengthBiasOptions,
        ),
        _of_runs(
            "profile", PROBES,
            "In which tasks does one model know a fact? Ranking, choice, generation, or one direction only.",
            options.ProfileOptions, "runs/gpt2-statement runs/gpt2-generation",
        ),
        _of_runs(
            "calibration", PROBES,
            "Does confidence predict correctness? Calibration error, Brier score and AUROC, with temperature scaling.",
            options.CalibrationOptions,
        ),
        _of_runs(
            "repeated", PROBES,
            "Does a model give the same answers to all queries? How often each entity is among the best 1, 5 and 10.",
            options.RepeatedOptions, IN_PLANS,
        ),
        _of_runs(
            "validity", PROBES,
            "Which probe separates facts that a planted model has read from others? AUROC, biases, agreement.",
            options.ValidityOptions, "runs/planted-statement runs/planted-vocabulary",
        ),
        _of_runs(
            "compute-time", PROBES,
            "How long does a probe take? Time against number of queries, extrapolated to all of them.",
            options.TimeOptions, IN_PLANS,
        ),
        Study(
            "learning", MODELS,
            "What does a model learn and forget as it trains? Runs of its checkpoints, by step, relation and fact.",
            "runs", _module("learning"), "learning knowledge/checkpoint-0 knowledge/checkpoint-500", leaves_out=True,
        ),
        _of_runs(
            "rankings", MODELS,
            "Do template-based and template-free probing rank models alike? Places per data set, and their agreement.",
            runs=IN_PLANS,
        ),
        _of_runs(
            "items", MODELS, "Which facts separate models, which errors are shared, and which labels are doubtful?",
            options.ItemsOptions, "runs/gpt2 runs/gpt2-medium runs/bert",
        ),
        _of_runs(
            "relations", MODELS, "How do two data sets, such as BEAR and T-REx, compare on shared relations?",
            runs=IN_PLANS,
        ),
        _of_runs(
            "perplexity", MODELS,
            "Do models answer better what they predict better? Accuracy against perplexity, of runs with --perplexity.",
            runs=IN_PLANS,
        ),
        _of_runs(
            "ontology", REASONING,
            "Do models remember an ontology? Each task's best against the frequency baseline, settings, examples.",
            options.OntologyStudyOptions,
        ),
        _of_models(
            "entailment",
            "Does a model reason with what it remembers? Six rules, premises stated, remembered, or neither.",
            options.EntailmentStudyOptions, options.DECIDED_BY_ENTAILMENT,
            bounds=("an upper bound: the memory runs decide which items have texts in each wording; all are counted",),
        ),
        _of_models(
            "chains",
            "How many steps does a model follow? Arguments of one, two, three steps, in order, reworded and shuffled.",
            options.ChainStudyOptions, options.DECIDED_BY_CHAINS, " --depth 3",
        ),
        _of_runs(
            "choice", REASONING,
            "Does a model know, and does it reason? Accuracy by task and rule, and conclusions from altered texts.",
            options.ChoiceStudyOptions,
        ),
    ),
)  # fmt: skip
