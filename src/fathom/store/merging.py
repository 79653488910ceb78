"""Parts of one run, each asked into a folder of its own, as one folder."""

from __future__ import annotations

import filecmp
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from fathom.errors import BadInput, refuse
from fathom.store.files import AT_WORK, alone_in, whole_folder, write_json
from fathom.store.folder import RunFolder, add_up, compared, differences
from fathom.store.manifest import PARTS, RUN, RunManifest, read_manifest

_NAMED = 5
"""How many shards are named that two folders have."""


def merge_runs(runs: Sequence[RunFolder], out: Path) -> RunFolder:
    """A new folder with the predictions, circumstances and artefacts of all; the others stay as they are.

    :param runs: two or more folders of one run, finished or not, with no shard in common.
    :param out: must not exist; the run in it may be unfinished, and is finished by its command.
    :raises BadInput: folders of other runs or with shards in common, with everything that is wrong; one in which a
        process is at work; *out* is there.
    :raises RunFailed: the disk is full; nothing is left of *out*.
    """
    if len(runs) < 2:
        raise BadInput(f"expected two folders or more to put together, found {len(runs)}")
    if out.exists():
        raise BadInput(f"{out} is there already: delete it, or choose another --out")
    refuse(_strangers(runs) or _in_common(runs))
    with ExitStack() as stack:
        for run in runs:
            stack.enter_context(alone_in(run.path))
        refuse(_in_common(runs))  # what was at work until now may have come to an end
        with whole_folder(out) as made:
            _put_together(runs, made)
    return RunFolder(out)


def _strangers(runs: Sequence[RunFolder]) -> list[str]:
    """What tells a folder's run from that of the first."""
    first, faults = runs[0].manifest, []
    for run in runs[1:]:
        other = run.manifest
        lines = list(differences(compared(first["identity"]), compared(other["identity"])))
        if not lines and other["plan"] != first["plan"]:
            lines = [f"  plan: there {len(first['plan']):,} shards, here {len(other['plan']):,}"]
        if lines:
            faults += [f"{run.path} is no part of the same run as {runs[0].path}: leave it out", *lines]
    return faults


def _in_common(runs: Sequence[RunFolder]) -> list[str]:
    """Shards that two folders have."""
    of: dict[str, RunFolder] = {}
    faults = []
    for run in runs:
        twice: dict[Path, list[str]] = {}
        for shard in sorted(run.finished()):
            if shard in of:
                twice.setdefault(of[shard].path, []).append(shard)
            of.setdefault(shard, run)
        for other, shards in twice.items():
            named = ", ".join(shards[:_NAMED]) + (", …" if len(shards) > _NAMED else "")
            faults.append(
                f"{run.path} and {other} both have {len(shards):,} of the shards ({named}): give folders of different "
                "parts, such as --part 1/2 and --part 2/2"
            )
    return faults


def _put_together(runs: Sequence[RunFolder], made: Path) -> None:
    manifest = read_manifest(runs[0].path, RunManifest)
    for run in runs[1:]:
        add_up(manifest["circumstances"], read_manifest(run.path, RunManifest)["circumstances"])
    for name in ("queries.parquet", "candidates.parquet"):
        shutil.copyfile(runs[0].path / name, made / name)
    differing = [name for run in runs for name in _copied(run.path, made)]
    if differing:
        manifest["circumstances"]["merged"] = [f"of several the first was kept: {', '.join(dict.fromkeys(differing))}"]
    write_json(made / RUN, manifest)


def _copied(run: Path, made: Path) -> list[str]:
    """Copy what is not there yet. :returns: names of files that are there and differ."""
    differing = []
    for folder in ("predictions", PARTS, "artifacts"):
        for file in sorted((run / folder).rglob("*")):
            name = file.relative_to(run)
            if not file.is_file() or file.name.endswith(".tmp") or file.name == AT_WORK:
                continue
            if (made / name).exists():
                differing += [] if filecmp.cmp(file, made / name, shallow=False) else [name.as_posix()]
                continue
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, made / name)
    return differing
