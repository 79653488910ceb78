"""Commands on runs, such as ``fathom metrics``, ``compare``, ``report``, ``plot``, ``import`` and ``export``."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, ClassVar, Literal

import typer

from fathom.base.errors import BadInput, refuse
from fathom.base.options import ARGUMENT, CLUSTER, DATA, REPEATED, SCORING, TWO_WAYS, Given, Group, Names, also, opt
from fathom.base.progress import starting
from fathom.base.reading.objects import Declared
from fathom.base.registry import CommandEntry
from fathom.base.rights import RIGHTS
from fathom.cli.commands import add_command, new_group, single
from fathom.cli.formats import Overwrite, TableOptions, breakdown_command, notes, say, say_unfinished
from fathom.cli.junit import junit_of, report_error, write_junit
from fathom.data.options import NewFolder
from fathom.data.selection.options import SelectionOptions, Words
from fathom.probes.options import Numbers
from fathom.store.folder import RunFolder
from fathom.studies.options import ComparisonOptions

if TYPE_CHECKING:
    from fathom.results.tables import Table

FAILED = 3
"""Exit code of a comparison that fails its condition."""
EXAMPLES = {
    "show": "fathom show runs/gpt2",
    "resume": "fathom resume runs/gpt2",
    "metrics": "fathom metrics runs/gpt2 --by relation,template --errors 5",
    "compare": "fathom compare runs/gpt2 runs/gpt2-medium runs/gpt2-large --metrics accuracy,hits@5",
    "diff": "fathom diff runs/before runs/after --by relation --list 10",
    "report": "fathom report runs/gpt2 runs/gpt2-medium runs/bert -o report.html",
    "plot": "fathom plot runs/gpt2 runs/bert --by relation --out figure.pdf",
    "import": "fathom import results/gpt2 --data BEAR --out runs/gpt2",
    "lm-eval": "fathom export lm-eval geography --out tasks",
    "every-eval-ever": "fathom export every-eval-ever runs/gpt2 --out exported",
    "merge": "fathom merge runs/gpt2-1 runs/gpt2-2 --out runs/gpt2",
}


def make(entry: CommandEntry) -> typer.Typer:
    if entry.name == "export":
        app = new_group(entry.does, EXAMPLES["lm-eval"])
        add_command(app, lm_eval, name="lm-eval", example=EXAMPLES["lm-eval"])
        add_command(app, every_eval_ever, name="every-eval-ever", example=EXAMPLES["every-eval-ever"])
        return app
    command = import_ if entry.name == "import" else globals()[entry.name]
    failed = report_error if entry.name == "compare" else None
    return single(entry.does, command, EXAMPLES[entry.name], failed)


class RunOptions(Declared):
    group: ClassVar = Group.SELECTION


class MetricsOptions(TableOptions):
    group: ClassVar = Group.SELECTION

    run: Path | None = opt(None, "Folder of a run.", ARGUMENT)
    list_: bool = opt(False, "Only list the metrics, each with its meaning, formula and source.", Group.OUTPUT)
    by: Words = opt(
        (),
        "One table by each of relation, cardinality, domain, template, …; a+b crosses two; popularity:10 takes ten "
        "bins.",
    )
    errors: int = opt(
        0, "Also list this many wrong answers: the most confident ones or, of written answers, the first.", ge=0
    )
    consistency: str | None = opt(
        None,
        "Also show how often the answers to one fact agree between each two values of: template, language, prompt, or "
        "another key.",
    )
    groups: Path | None = opt(
        None, "JSON Lines with query_id and fields to break down by, e.g. planted.jsonl of a planted model.", Group.DATA
    )
    check: bool = opt(
        False,
        "Also simulate how often the verdict would be wrong on these facts, in 200 draws without a true difference.",
    )
    all_: bool = opt(False, "Show all metrics, not only the most used ones.", Group.OUTPUT)
    cluster: str = opt("", CLUSTER, Group.OUTPUT)


class CompareOptions(RunOptions, ComparisonOptions):
    """Options of ``fathom compare``."""

    runs: tuple[Path, ...] = opt(..., "Folders of finished runs.", ARGUMENT, REPEATED)
    fail_if: Literal["worse", "not-equivalent", "different"] | None = opt(
        None, "Exit with code 3 if a run is worse than the first by --margin, not equivalent to it, or different."
    )
    junit: Path | None = opt(
        None, "Also write the conditions of --fail-if, or the error, as tests of a JUnit file.", Group.OUTPUT
    )


class DiffOptions(RunOptions):
    before: Path = opt(..., "Folder of the run before.", ARGUMENT)
    after: Path = opt(..., "Folder of the run after.", ARGUMENT)
    by: str = opt("", "Also report each group: relation, direction, or any key of the data's groups.")
    k: int = opt(1, "A fact is known if its answer is among the first k.", ge=1)
    list_: int = opt(0, "Also list this many learnt and forgotten facts; JSON and CSV have all.", ge=0)
    scoring: Words = opt((), SCORING)
    cluster: str = opt("", TWO_WAYS, Group.OUTPUT)


class ReportOptions(RunOptions):
    group: ClassVar = Group.OUTPUT

    runs: tuple[Path, ...] = opt((), "Folders of finished runs.", ARGUMENT, REPEATED)
    serve: Path | None = opt(
        None, "Instead of writing a file, serve a local page of all runs in this folder until Ctrl-C."
    )
    port: int = opt(0, "Port of --serve; by default a free one.", ge=0, le=65535)
    out: Path = opt(Path("report.html"), "File to write.", also("-o"))
    title: str = opt("", "Title of the page.")
    groups: Path | None = opt(None, "JSON Lines with query_id and further fields to filter by, such as planted.jsonl.")
    cluster: str = opt("", CLUSTER)
    overwrite: Overwrite = False


class PlotOptions(RunOptions):
    runs: tuple[Path, ...] = opt(..., "Folders of finished runs.", ARGUMENT, REPEATED)
    out: Path = opt(..., "File to write: .pdf, .png or .svg.", Group.OUTPUT, also("-o"))
    by: str = opt("", "A row for each value of: relation, direction, or a key of the data's groups, such as domain.")
    metric: str = opt("accuracy", "accuracy, mrr or hits@k, such as hits@10.")
    groups: Path | None = opt(None, "JSON Lines with query_id and further fields for --by, such as planted.jsonl.")
    cluster: str = opt("", CLUSTER, Group.OUTPUT)
    overwrite: Overwrite = False


class MergeOptions(RunOptions):
    runs: tuple[Path, ...] = opt(..., "Folders of one run, each with another --part.", ARGUMENT, REPEATED)
    out: NewFolder


class OneRun(RunOptions):
    """A run."""

    run: Path = opt(..., "Folder of a run.", ARGUMENT)


class ResumeOptions(OneRun):
    dry_run: bool = opt(
        False,
        "Only print the state of the run, and the estimated time and memory of all of it; no weights are read.",
        Group.RUN,
    )
    trust_remote_code: bool = opt(False, "Let the run execute code that comes with its model.", Group.MODEL)
    allow_pickle: bool = opt(False, "Let the run read .bin weights, which can run code.", Group.MODEL)
    server: str | None = opt(None, "Let the run query this server, which its manifest names.", Group.SERVER)
    key_env: str | None = opt(None, "Environment variable with the server's key.", Group.SERVER)
    ray_address: str | None = opt(None, "Let the run use this Ray cluster, which its manifest names.", Group.CLUSTER)

    def rights(self) -> Given:
        """Return the rights that were typed."""
        return {name: value for name in RIGHTS if (value := getattr(self, name, None))}


class ShowOptions(OneRun):
    verify: bool = opt(False, "Check files against their digests, ids and bounds, and ranks against scores.")


class ImportOptions(RunOptions):
    results: Path = opt(..., "Folder of results, or a file of samples.", ARGUMENT)
    data: str = opt("BEAR", "The data set that was evaluated.", Group.DATA)
    out: NewFolder


def import_(options: ImportOptions) -> None:
    from fathom.probes.run.imported import import_results

    folder = import_results(options.results, options.out, options.data)
    count = len(folder.queries())
    say(f"written to {options.out}: {count:,} queries; next: fathom metrics {options.out}")


def show(options: ShowOptions) -> None:
    from fathom.probes.run.request import command_line
    from fathom.probes.run.shards import is_finished
    from fathom.probes.run.verification import verify
    from fathom.results.summary import summarise

    folder = RunFolder.open(options.run)
    verified = verify(folder) if options.verify else ""
    noted = folder.manifest["circumstances"]
    say(folder.describe())
    command = noted.get("command")
    if command:
        say(f"made by\n  {command_line(command, options.run.resolve())}")
    about = {"begun": noted.get("begun"), "sessions": noted.get("sessions"), "device": noted.get("device")}
    about |= {"seconds": f"{noted['seconds']:.0f}"} if "seconds" in noted else {}
    about |= {"fathom": noted.get("versions", {}).get("fathom")}
    say("; ".join(f"{name}: {value}" for name, value in about.items() if value is not None))
    if folder.finished():
        so_far = "" if folder.is_complete() else "so far: "
        summary = summarise(folder)
        say(so_far + "\n".join(summary.answer))
        if recipe := summary.tables[0].recipe:
            say(f"recipe: {recipe}")
    if lacking := folder.lacking():
        say(lacking)
    if verified:
        say(verified)
    part = ((command or {}).get("options") or {}).get("part")
    if part and is_finished(part, folder) and not folder.is_complete():
        say(f"next: fathom merge {options.run} …, with the other parts")
    else:
        say(f"next: fathom {'metrics' if folder.is_complete() else 'resume'} {options.run}")


def resume(options: ResumeOptions) -> None:
    with starting("loading libraries"):
        from fathom.api import forecast_resumed, open_run, resume_run

    if options.dry_run:
        estimate = forecast_resumed(options.run, **options.rights())
        say("\n".join([open_run(options.run).folder.describe(), *estimate.lines()]))
        return
    result = resume_run(options.run, **options.rights())
    if not result.is_complete():
        say_unfinished(options.run, result.folder.describe())
        return
    say(result.summary().to_text())
    say(f"written to {options.run}; more: {breakdown_command(options.run, result.keys)}")


def metrics(options: MetricsOptions) -> None:
    from fathom.results.answers import consistency_table, error_table
    from fathom.results.checking import check_run, in_words
    from fathom.results.summary import metrics_table, summarise
    from fathom.results.tables import write_tables

    if options.list_:
        options.show([metrics_table()])
        return
    if options.run is None:
        raise BadInput("run is missing: expected Folder of a run")
    folder = RunFolder.open(options.run)
    if options.groups is not None:
        folder = folder.grouped_by(options.groups)
    summary = summarise(folder, options.by, options.cluster, options.all_)
    more = [consistency_table(folder, options.consistency, options.cluster)] if options.consistency else []
    more += [error_table(folder, options.errors)] if options.errors else []
    answer = [*summary.answer, *(in_words(check_run(folder, options.cluster)) if options.check else [])]
    if options.format == "csv" and len(options.by) + len(more) > 1:
        raise BadInput("a CSV file holds one table: request one breakdown (a+b crosses two), or --format json")

    def tables_in(form: str) -> list[Table]:
        tables = [*summary.tables_in(form), *more]
        return tables[-1:] if form == "csv" else tables  # the headline has other columns than the breakdown

    if not folder.is_complete():
        notes([f"{options.run} is unfinished: numbers cover the finished part only{folder.lacking('; ')}"])
    options.show(tables_in(options.format), answer)
    if options.out is not None:
        write_tables(tables_in, options.out, "summary", answer, options.overwrite)  # a run has a metrics.json


def compare(options: CompareOptions, printed: TableOptions) -> None:
    from fathom.plans.comparison import analyse

    if options.fail_if:  # other pairs would make the family larger, and decide nothing
        options = options.model_copy(update={"to_first": True})
    refuse(["--junit holds the conditions of --fail-if: give both"] * bool(options.junit and not options.fail_if))
    comparison = analyse(options.runs, options)
    judged = comparison.judged(options.fail_if) if options.fail_if else {}
    failing = [condition for condition, (fails, _) in judged.items() if fails]
    if options.junit is not None:
        write_junit(options.junit, junit_of(judged), printed.overwrite)
    if printed.format == "json":
        from fathom.api.comparison import record_of

        say(record_of(comparison).model_dump_json(indent=2))
        printed.write(comparison, "compare")
    else:
        printed.present(comparison, "compare")
    if failing:
        notes(failing)
        raise typer.Exit(FAILED)


def diff(options: DiffOptions, printed: TableOptions) -> None:
    from fathom.results.diff import diff as compare_two

    settings = dict(options)
    printed.present(compare_two(listed=settings.pop("list_"), **settings), "diff")


def report(options: ReportOptions) -> None:
    if options.serve is not None:
        _serve(options)
        return
    from fathom.studies.report.page import report as write_report

    refuse(["RUNS is missing: expected folders of finished runs, or --serve FOLDER"] * (not options.runs))
    page = write_report(**options.model_dump(exclude={"serve", "port"}))
    notes(page.notes)
    size = f"{page.path.stat().st_size / 1e6:.1f} MB"
    say(f"{page.path}: {page.runs} of {len(options.runs)} runs, {size}; open it in a browser")


def _serve(options: ReportOptions) -> None:
    from fathom.studies.report.serve import RunsServer

    refuse(["--serve shows all runs of its folder: remove the others"] * bool(options.runs))
    with RunsServer(options.serve or Path(), options.port) as server:
        say(f"{server.address}\nopen this address in a browser on this machine; Ctrl-C ends")
        with suppress(KeyboardInterrupt):
            server.serve_forever()


def plot(options: PlotOptions) -> None:
    from fathom.studies.report.figure import write_figure

    say(f"written to {write_figure(**dict(options))}")


def merge(options: MergeOptions) -> None:
    from fathom.api import merge_runs

    result = merge_runs(options.runs, options.out)
    left = "" if result.is_complete() else f"; fathom probe … --out {options.out} finishes it"
    say(f"written to {options.out}: {result.folder.describe()}{left}")


class TaskOptions(SelectionOptions):
    config_only: ClassVar[Names] = ("reading", "sentences", "any_surface", "alter", "add_candidates", "single_token")

    data: str = opt(..., DATA, ARGUMENT)
    templates: Numbers = opt((), "Use only these templates, counted from 0, separated by commas.", Group.PROMPTS)
    task: str = opt("fathom", "Name of the task.", Group.OUTPUT, pattern=r"^[\w-]+$")
    out: NewFolder


class RunExportOptions(OneRun):
    organisation: str = opt("unknown", "Organisation that made the evaluation.", Group.OUTPUT)
    out: NewFolder


def lm_eval(options: TaskOptions) -> None:
    """Write a data set as a task of lm-evaluation-harness, whose scores are those of the statement probe."""
    from fathom.data.formats import read
    from fathom.data.formats.lm_eval import write_task
    from fathom.data.selection.filters import select

    data = select(read(options.data, options.columns), options).data
    documents, left_out = write_task(data, options.out, options.task, options.templates)
    notes([f"{left_out:,} queries that cannot be ranked are not in the task"][:left_out])
    say(f"written to {options.out}: {documents:,} documents")
    run = f"lm_eval run --tasks {options.task} --include_path {quote(str(options.out))} --model hf"
    say(
        f"next: {run} --model_args pretrained=…,dtype=float32 --log_samples --output_path results\n"
        f"then: fathom import results --data {quote(options.data)} --out runs/from-harness"
    )


def every_eval_ever(options: RunExportOptions) -> None:
    """Write a run in the schema of Every Eval Ever: its numbers with intervals, and every scored prediction."""
    from fathom.probes.run.exported import export_every_eval_ever

    say(f"written to {export_every_eval_ever(RunFolder.open(options.run), options.out, options.organisation)}")
