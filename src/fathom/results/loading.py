"""Reading runs by fact, with the faults of all of them at once; names of models, and designs of planted ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from fathom.base.errors import BadInput, all_of, refuse
from fathom.base.reading import Faults, read_json_lines, repetition, stands
from fathom.results.facts import CUTS, FOLDER, WRITTEN, RunFacts
from fathom.results.rows import Rows, grouped
from fathom.store.folder import RunFolder
from fathom.store.predictions import SCHEMA

Value = TypeVar("Value")


class _HasFolder(Protocol):
    folder: RunFolder


AnyRun: TypeAlias = str | Path | RunFolder | _HasFolder
"""A run: its folder, or a result in Python."""
NOT_COMPARED = ("prompt", "gold_scores", "gold_tokens", "gold_ranks", "top_ids", "top_scores", "answers")


def open_runs(runs: Sequence[AnyRun]) -> list[RunFolder]:
    """Open runs. :raises BadInput: with each that is none."""
    return all_of(*(partial(open_run, run) for run in runs))


def open_run(run: AnyRun) -> RunFolder:
    """Open a run. :raises BadInput: it is none."""
    if isinstance(run, str | Path):
        return RunFolder.open(run)
    return run if isinstance(run, RunFolder) else run.folder


def read_facts(run: RunFolder, scorings: Sequence[str] = (), model: str | None = None, cluster: str = "") -> RunFacts:
    """Read one run in one scoring.

    :param scorings: which to take of a run that has several.
    :param cluster: key by which queries were drawn together, as for :class:`Rows`.
    :raises BadInput: unfinished, without ranks, several scorings and none chosen.
    """
    outcome, *more = wanted_of(run, scorings, model or short_names([run])[0], cluster, without=())
    if more:
        several = ", ".join(side.scoring for side in (outcome, *more))
        raise BadInput(f"{run.path} has several of --scoring {','.join(scorings)}: name one of {several}")
    check_ranked(outcome)
    return outcome


def wanted_of(
    run: RunFolder,
    scorings: Sequence[str],
    model: str,
    cluster: str = "",
    without: Sequence[str] = NOT_COMPARED,
    first: bool = False,
    templates: Sequence[int] = (),
) -> list[RunFacts]:
    """Read one run in each of *scorings* that it has, with ranks or credit.

    :param without: columns of predictions not to read.
    :param templates: to take; none for all.
    :param first: take the run's first scoring if it has several and none of *scorings*.
    :raises BadInput: unfinished, nothing scored, several scorings and none chosen.
    """
    run.refuse_unfinished()
    rows = Rows(run, False, cluster, without)  # all candidates' scores of many runs would fill memory
    several = len(rows.scorings) > 1
    names = [name for name in scorings if name in rows.scorings] if several else rows.scorings
    if first and not names:
        names = rows.scorings[:1]
    if not names:
        raise BadInput(f"{run.path} has the scorings {', '.join(rows.scorings) or 'none'}: choose one with --scoring")
    rows.templates = tuple(templates)
    outcomes = [RunFacts(run, rows, scoring, model) for scoring in names]
    for outcome in outcomes:
        check_scored(outcome)
    return outcomes


def check_ranked(outcome: RunFacts) -> None:
    """:raises BadInput: its answers are written and have no rank, or none of its facts has a value."""
    if outcome.why_undefined == WRITTEN:
        instead = "use the cloze or the statement probe, or join the facts of ranked and written answers by"
        raise BadInput(f"{outcome.path} has written answers and no ranks: {instead} fathom study profile")
    check_scored(outcome)


def check_scored(outcome: RunFacts) -> None:
    """:raises BadInput: none of its facts has a value."""
    if not outcome.scored_facts:
        [(why, _)] = Counter(outcome.left_out.values()).most_common(1) or [("it has no predictions", 0)]
        raise BadInput(f"{outcome.path} has no ranks to compare ({why})")


def read_scorings(run: RunFolder, model: str, cluster: str = "") -> list[RunFacts]:
    """Read all scorings of a run. :raises BadInput: it is unfinished."""
    run.refuse_unfinished()
    rows = Rows(run, with_scores=False, cluster=cluster)
    return [RunFacts(run, rows, scoring, model) for scoring in rows.scorings]


def read_all_facts(
    runs: Sequence[RunFolder], scorings: Sequence[str] = (), cluster: str = "", k: int | None = max(CUTS)
) -> list[RunFacts]:
    """Read one scoring of each run, in their order.

    :param scorings: which to take of runs that have several.
    :param cluster: key by which queries were drawn together, as for :class:`Rows`.
    :param k: depth to which every rank must be known; None for any.
    :raises BadInput: with the faults of all runs.
    """

    def load(run: RunFolder, model: str) -> list[RunFacts]:
        outcome = read_facts(run, scorings, model, cluster)
        if k is not None:
            check_depth(outcome, k)
        return [outcome]

    return _read_each(runs, scorings, load, lambda outcome: outcome)


def _read_each(
    runs: Sequence[RunFolder],
    scorings: Sequence[str],
    load: Callable[..., list[RunFacts]],
    reduce: Callable[[RunFacts], Value],
    faults: Iterable[str] = (),
) -> list[Value]:
    """Read runs one after the other.

    :param load: takes a run and the name of its model.
    :param reduce: what to hold of each while the next run is read.
    :raises BadInput: with the faults of all runs, and the scorings that no run has.
    """
    lines, results, available = list(faults), [], set[str]()
    for run, model in zip(runs, short_names(runs), strict=True):
        try:
            for outcome in load(run, model=model):
                available |= set(outcome.rows.scorings)
                results.append(reduce(outcome))
            del outcome  # with its rows, before those of the next run
        except BadInput as error:
            lines += error.faults
    unknown = [name for name in scorings if available and name not in available]
    refuse([*lines, *(f"--scoring {name}: no run has it; there is {', '.join(sorted(available))}" for name in unknown)])
    return results


def read_runs(
    runs: Sequence[RunFolder],
    scoring: Sequence[str],
    cluster: str,
    reduce: Callable[[RunFacts], Value],
    without: Sequence[str] = NOT_COMPARED,
    fewest: int = 2,
    first: bool = False,
    templates: Sequence[int] = (),
) -> list[Value]:
    """Read each run in each given scoring that it has.

    :param reduce: what to hold of each while the next run is read.
    :param without: columns of predictions not to read.
    :param first: take a run's first scoring if it has several and none of *scoring*.
    :param templates: to take of each run; none for all.
    :raises BadInput: with the faults of all runs; fewer results than *fewest*, 1 or 2.
    """

    load = partial(wanted_of, scorings=scoring, cluster=cluster, without=without, first=first, templates=templates)
    places = grouped((run.path.resolve(), run.path) for run in runs)
    twice = [
        f"{paths[0]} is given {'twice' if len(paths) == 2 else f'{len(paths)} times'}: give it once "
        "(several scorings of one run: --scoring A,B)"
        for paths in places.values()
        if len(paths) > 1
    ]
    results = _read_each(runs, scoring, load, reduce, twice)
    if len(results) < fewest:
        raise BadInput("expected two runs or more, or several scorings of one (--scoring A,B): found one")
    return results


def shared_templates(runs: Sequence[RunFolder]) -> tuple[int, ...]:
    """Return the templates that runs of one probe and reading have in common; none if they have the same ones, or none
    in common."""
    identities = [run.manifest["identity"] for run in runs]
    ways = {(identity["probe"], identity["options"].get("reading")) for identity in identities}
    asked = {tuple(identity["options"].get("templates") or ()) for identity in identities}
    if len(ways) > 1 or len(asked) == 1:
        return ()
    used = [_templates_of(run) for run in runs]
    shared = set.intersection(*used)
    return () if all(templates == shared for templates in used) else tuple(sorted(shared))


def _templates_of(run: RunFolder) -> set[int]:
    """Return the templates of a run; without the option, all that its data have."""
    asked = run.manifest["identity"]["options"].get("templates")
    others = [name for name in SCHEMA.names if name != "template"]
    return set(asked) if asked else set(run.predictions(without=others).column("template").to_pylist())


def check_same(runs: Sequence[RunFolder], parts: Sequence[str]) -> None:
    """Check that runs agree in parts of their identity. :raises BadInput: they do not, or there is none."""
    if not runs:
        raise BadInput("expected a run or more, found none")
    for part in parts:
        identities = [run.manifest["identity"][part] for run in runs]
        kinds = {identity.get("content_hash") or identity["name"]: identity["name"] for identity in identities}
        if len(kinds) > 1:
            raise BadInput(f"expected runs of one {part}, found {', '.join(map(str, kinds.values()))}")


def check_depth(outcome: RunFacts, k: int) -> None:
    """:raises BadInput: a search stopped before rank *k*."""
    stopped = outcome.beyond[outcome.beyond < k]
    if stopped.size:
        raise BadInput(
            f"{outcome.path} stopped at rank {stopped.min():.0f}, so Acc@{k} is unknown: "
            f"evaluate without --max-rank, or with {k} or more"
        )


def group_by_data(outcomes: Sequence[RunFacts]) -> dict[tuple[str, str], dict[str, RunFacts]]:
    """Group by (data, reading), then model. :raises BadInput: two runs of one model, data set and reading."""
    columns: dict[tuple[str, str], dict[str, RunFacts]] = {}
    faults = []
    for outcome in outcomes:
        models = columns.setdefault((outcome.data, outcome.reading), {})
        if outcome.model in models:
            faults.append(
                f"{models[outcome.model].path} and {outcome.path} are both of {outcome.model} on {outcome.data}, "
                f"{outcome.reading}: give one of them (fathom compare compares answer pools)"
            )
        models[outcome.model] = outcome
    refuse(faults)
    return columns


# --- names of models


class _Model(NamedTuple):
    """:param names: its name or folder, and its adapter's. :param content: hash of its files."""

    names: tuple[str, ...]
    content: str
    revision: str = "main"

    def called(self, parts: int = 1) -> str:
        """Return the last *parts* parts of each name."""
        return "+".join("/".join(name.rstrip("/").split("/")[-parts:]) for name in self.names)

    def calls(self, deepest: int) -> list[str]:
        """Return what it may be called, the shortest first. :param deepest: most parts of a name."""
        ends = (self.revision, self.content[:8])
        return [*map(self.called, range(1, deepest + 1)), *(f"{self.called()}@{end}" for end in ends)]


def short_names(runs: Sequence[RunFolder]) -> list[str]:
    """Return the last part of each model's name, with "+" and the adapter's; two models never get the same name.

    If two models share that part, as many parts as distinguish them; if they share all, the revision or a part of the
    content's hash.
    """
    models = []
    for identity in (run.manifest["identity"] for run in runs):
        about = identity["model"]
        names = tuple(filter(None, (str(about["name"]), identity.get("options", {}).get("adapter"))))
        tool = identity.get("resolved", {}).get("imported")  # which records no hash
        models.append(_Model(names, about.get("content_hash") or "", about.get("revision") or tool or "main"))
    return _unique_names(models)


def distinguished(parts: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the first value of each, with those of the others that distinguish equal names, or else its number.

    :param parts: values by kind; "" adds nothing to a name, and a folder's name comes last.
    """
    names = [next(iter(part.values())) for part in parts]
    kinds = dict.fromkeys(kind for part in parts for kind in list(part)[1:])
    for kind in sorted(kinds, key=lambda kind: kind == FOLDER):
        for equal in {name for name in names if names.count(name) > 1}:
            places = [place for place, name in enumerate(names) if name == equal]
            if len({parts[place].get(kind, "") for place in places}) > 1:
                for place in places:
                    names[place] = f"{equal} {parts[place].get(kind, '')}".rstrip()
    return [f"{name} #{place}" if names.count(name) > 1 else name for place, name in enumerate(names, 1)]


def folder_names(models: Sequence[str]) -> list[str]:
    """Return names of folders for models that are not loaded yet: :func:`short_names` with "-" in place of "/".

    :raises BadInput: one is given twice, or there is none.
    """
    short = _unique_names([_Model((name.rstrip("/"),), name.rstrip("/")) for name in models])
    names = [name.strip("/.").replace("/", "-") for name in short]
    if not names or len(set(names)) < len(names):
        raise BadInput(f"a model is given twice in {', '.join(models)}" if models else "expected a model or more")
    return names


def _unique_names(models: Sequence[_Model]) -> list[str]:
    first: dict[tuple[str, str], _Model] = {}
    for model in models:
        first.setdefault((model.called(), model.content), model)
    deepest = max((name.count("/") for model in models for name in model.names), default=0) + 1
    each = [model.calls(deepest) for model in first.values()]
    kinds = list(zip(*each, strict=True))
    unique = [
        next((name for name, kind in zip(labels, kinds, strict=True) if kind.count(name) == 1), labels[-1])
        for labels in each
    ]
    names = dict(zip(first, unique, strict=True))
    return [names[model.called(), model.content] for model in models]


# --- the design of a planted model: how often it has read each fact


FILE = "planted.jsonl"


class PlantedFact(NamedTuple):
    """:param exposures: number of statements of the fact that the model has read.
    :param taught: formats of questions that it was taught with this fact, which is then no test of them.
    :param directions: in which order it was stated: "forward" (the answer last), "reverse", both or none.
    """

    exposures: int
    taught: tuple[str, ...] = ()
    directions: tuple[str, ...] = ()


Design = Mapping[str, PlantedFact]
"""By ``fact_id``, or ``query_id`` of a sentence without a known subject."""


def read_design(file: Path) -> Design:
    """Read which facts a model has read.

    :param file: a planted model's ``planted.jsonl``, or one in its format, see ``docs/howto/plant.md``.
    :raises BadInput: it is missing, or a line is wrong.
    """
    faults = Faults()
    design: dict[str, PlantedFact] = {}
    lines: dict[str, int] = {}
    for line, row in read_json_lines(file, {"query_id": str, "exposures": int}, faults):
        fact = PlantedFact(
            row["exposures"], tuple(map(str, row.get("taught") or ())), tuple(map(str, row.get("directions") or ()))
        )
        key = str(row.get("fact_id") or row["query_id"])
        if why := repetition(lines, row["query_id"], line, f"query_id {row['query_id']!r}"):
            faults.add(file, line, why)
        elif fact.exposures < 0:
            faults.add(file, line, f"{key} has {fact.exposures} exposures: expected 0 or more")
        elif design.setdefault(key, fact).exposures != fact.exposures:
            faults.add(
                file, line, f"{key} has {design[key].exposures} exposures in an earlier line, here {fact.exposures}"
            )
    faults.stop_if_any()
    return design


def design_file(run: RunFolder) -> Path | None:
    """Return the design in the folder of the model that a run evaluated; None if there is none."""
    command = run.manifest["circumstances"].get("command") or {}
    folder = Path(str(command.get("model") or run.manifest["identity"]["model"]["name"]))
    # A relative name would be looked for in the folder where the study runs.
    return folder / FILE if folder.is_absolute() and stands(folder / FILE) else None


def design_of(run: RunFolder, file: Path | None = None) -> Design:
    """Return the design of the model that a run evaluated. :param file: by default the one in the model's folder.

    :raises BadInput: the model has no design.
    """
    file = file or design_file(run)
    if file is None:
        raise BadInput(
            f"{run.path}: the model {run.manifest['identity']['model']['name']} has no {FILE} in its folder, so which "
            "facts it has read is unknown: give --design FILE, or make a model with fathom plant"
        )
    return read_design(file)
