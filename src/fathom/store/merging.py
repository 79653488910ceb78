"""Merging the folders of a run's parts into one."""

from __future__ import annotations

import filecmp
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from fathom.base.errors import BadInput, refuse
from fathom.store.folder import RunFolder, add_up, compared, differences
from fathom.store.locks import AT_WORK, exclusive_folder
from fathom.store.manifest import PARTS, RUN, RunManifest, read_manifest, write_sealed
from fathom.store.outputs import obstacles, signature_of, whole_folder

_NAMED = 5
"""Most shared shards that are named."""


def merge_runs(
    runs: Sequence[RunFolder], out: Path, finish: Callable[[RunFolder], object] = lambda run: None
) -> RunFolder:
    """Copy the predictions, circumstances and artefacts of all folders to a new one.

    :param runs: two or more folders of one run, finished or not, with no shard in common.
    :param out: must not exist; the run in it may be unfinished, and is finished by its command.
    :param finish: called with the merged run before it is put in place.
    :raises BadInput: folders of other runs, with shards in common or with a process at work; *out* exists.
    :raises MadeBefore: the same folders have been merged into *out*.
    :raises RunFailed: the disk is full; nothing is left of *out*.
    """
    if len(runs) < 2:
        raise BadInput(f"expected two or more folders, found {len(runs)}")
    files = (file for run in runs for file in (run.path / RUN, *map(run.file_of, sorted(run.finished()))))
    signature = signature_of("merge", {}, files=files)
    refuse(obstacles(out, signature))
    refuse(_other_runs(runs) or _shared_shards(runs))
    with ExitStack() as stack:
        for run in runs:
            stack.enter_context(exclusive_folder(run.path))
        refuse(_shared_shards(runs))  # a process may have finished another shard meanwhile
        with whole_folder(out, signature) as folder:
            _copy_all(runs, folder)
            finish(RunFolder(folder))
    return RunFolder(out)


def _other_runs(runs: Sequence[RunFolder]) -> list[str]:
    first, faults = runs[0].manifest, []
    for run in runs[1:]:
        manifest = run.manifest
        lines = list(differences(compared(first["identity"]), compared(manifest["identity"])))
        if not lines and manifest["plan"] != first["plan"]:
            lines = [f"  plan: there {len(first['plan']):,} shards, here {len(manifest['plan']):,}"]
        if not lines and (run.queries(), run.candidates()) != (runs[0].queries(), runs[0].candidates()):
            lines = ["  queries.parquet or candidates.parquet"]
        if lines:
            faults += [f"{run.path} is not part of the same run as {runs[0].path}: leave it out", *lines]
    return faults


def _shared_shards(runs: Sequence[RunFolder]) -> list[str]:
    first_with: dict[str, RunFolder] = {}
    faults = []
    for run in runs:
        shared: dict[Path, list[str]] = {}
        for shard in sorted(run.finished()):
            if shard in first_with:
                shared.setdefault(first_with[shard].path, []).append(shard)
            first_with.setdefault(shard, run)
        for place, shards in shared.items():
            names = ", ".join(shards[:_NAMED]) + (", …" if len(shards) > _NAMED else "")
            faults.append(
                f"{run.path} and {place} both have {len(shards):,} of the shards ({names}): give folders of different "
                "parts, such as --part 1/2 and --part 2/2"
            )
    return faults


def _copy_all(runs: Sequence[RunFolder], folder: Path) -> None:
    manifest = read_manifest(runs[0].path, RunManifest)
    for run in runs[1:]:
        run_manifest = read_manifest(run.path, RunManifest)
        add_up(manifest["circumstances"], run_manifest["circumstances"])
        manifest["digests"] = run_manifest.get("digests", {}) | manifest.get("digests", {})
    for name in ("queries.parquet", "candidates.parquet"):
        shutil.copyfile(runs[0].path / name, folder / name)
    differing = [name for run in runs for name in _copy_missing(run.path, folder)]
    if differing:
        manifest["circumstances"]["merged"] = [f"of several the first was kept: {', '.join(dict.fromkeys(differing))}"]
    write_sealed(folder / RUN, manifest)


def _copy_missing(run: Path, target: Path) -> list[str]:
    """Copy missing files. :returns: names of files that exist with other content."""
    differing = []
    for folder in ("predictions", PARTS, "artifacts"):
        for file in sorted((run / folder).rglob("*")):
            name = file.relative_to(run)
            if file.is_symlink():  # it may lead anywhere
                raise BadInput(f"{file} is a link: put the file in its place, or remove it")
            if not file.is_file() or file.name.endswith(".tmp") or file.name == AT_WORK:
                continue
            if not (target / name).exists():
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target / name)
            elif not filecmp.cmp(file, target / name, shallow=False):
                differing.append(name.as_posix())
    return differing
