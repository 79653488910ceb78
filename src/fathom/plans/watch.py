"""The plan of ``fathom watch``: one probe of each checkpoint of a training, then the study of what was learnt when."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from fathom.base.errors import BadInput, FathomError
from fathom.base.options import Given, read_yaml
from fathom.data.formats import locate
from fathom.engine.models.model_files import ADAPTER_FILE
from fathom.engine.models.parts import find_model
from fathom.plans.content import absolute
from fathom.plans.record import WRITTEN_PLAN, write_plan_file
from fathom.probes import PROBES
from fathom.results.loading import folder_names
from fathom.store.folder import RunFolder
from fathom.studies.learning import step_of

CONTENT = Path(__file__).with_suffix(".yaml")
RUNS = "knowledge"
_NUMBERED = re.compile(r"\D*(\d+)")
_SIZES = ("model_type", "hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
"""Attributes of configurations that all checkpoints of one training share."""


def write_plan(
    checkpoints: Sequence[str], data: str, out: Path, probe: str = "", tokenizer: str | None = None, **options: object
) -> tuple[Path, list[str]]:
    """Write the plan of a training's checkpoints into *out*, an ordinary file for ``fathom plan``.

    Checkpoints of an earlier call stay in the plan if they were evaluated, even if the training has deleted them.

    :param checkpoints: folders of checkpoints, folders that contain some, or ``NAME@revision`` on the hub.
    :param options: of all runs; None for the default.
    :returns: the file, and a line for each checkpoint that is missing or cannot be used.
    :raises BadInput: none can be used, there is no such data or probe, or *out* has a plan of other options.
    """
    locate(data)
    if probe and probe not in PROBES:
        raise BadInput(f"--probe {probe}: expected one of {', '.join(PROBES)}")
    expanded = [name for place in checkpoints for name in _expanded(place)]
    names, notes = _usable(expanded, tokenizer)
    if not names:
        raise BadInput(notes)
    models = {short: _planned(name) for short, name in zip(folder_names(names), names, strict=True)}
    content = dict(read_yaml(CONTENT))
    settings = {"probe": probe or None, "tokenizer": tokenizer, **options}
    content["runs"] = {
        RUNS: content["runs"][RUNS] | {name: value for name, value in settings.items() if value is not None}
    }
    content["data"] = {"data": absolute(data)}
    earlier = {name: entry for name, entry in _evaluated(out).items() if entry not in models.values()}
    content["models"] = earlier | models
    return write_plan_file(content, out, grows="models"), [*notes, *_gaps([*earlier, *names], expanded)]


def _expanded(place: str) -> list[str]:
    """Return the numbered folders in a folder by number, unless it is a checkpoint; without any, the folder itself."""
    inner = [path for path in Path(place).iterdir() if path.is_dir()] if Path(place).is_dir() else []
    numbered = {path: int(found[1]) for path in inner if (found := _NUMBERED.fullmatch(path.name))}
    # DeepSpeed saves the state of a checkpoint in a folder such as global_step300.
    if _has_configuration(Path(place)) and not any(map(_has_configuration, numbered)):
        return [place]
    return [str(path) for path in sorted(numbered, key=numbered.__getitem__)] or [place]


def _has_configuration(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("config.json", ADAPTER_FILE))


def _planned(name: str) -> Given:
    """Return a checkpoint as a plan has it. The name of a folder may have an "@"."""
    model, _, revision = (name, "", "") if Path(name).exists() else name.partition("@")
    return {"model": absolute(model)} | ({"revision": revision} if revision else {})


def _usable(names: Sequence[str], tokenizer: str | None) -> tuple[list[str], list[str]]:
    """Return the checkpoints of one model, that of most, and a line for each of the others."""
    sizes: dict[str, dict[str, Any]] = {}
    notes = []
    for name in names:
        planned = _planned(name)
        try:
            _, config = find_model(planned["model"], planned.get("revision"), tokenizer)
        except FathomError as error:  # the others are evaluated
            notes.append(f"{name} is left out: {str(error).splitlines()[0]}")
        else:
            sizes[name] = {size: getattr(config.get_text_config(), size, None) for size in _SIZES}
    usual = max(sizes, key=lambda name: list(sizes.values()).count(sizes[name]), default="")
    for name, size in sizes.items():
        if differing := [
            f"{attribute} {size[attribute]}, not {sizes[usual][attribute]}"
            for attribute in size
            if size[attribute] != sizes[usual][attribute]
        ]:
            notes.append(f"{name} is left out: it is of another model than {usual} ({', '.join(differing)})")
    return [name for name, size in sizes.items() if size == sizes[usual]], notes


def _evaluated(out: Path) -> dict[str, Any]:
    """Return the checkpoints of the plan in *out* whose runs are finished."""
    file = out / WRITTEN_PLAN
    models: Mapping[str, Any] = read_yaml(file).get("models", {}) if file.is_file() else {}
    runs = {name: RunFolder(out / "runs" / RUNS / name / "data") for name in models}
    return {name: entry for name, entry in models.items() if runs[name].has_manifest() and runs[name].is_complete()}


def _gaps(names: Sequence[str], expanded: Sequence[str]) -> list[str]:
    """Return a line for each step that is missing among checkpoints at regular distances.

    :param expanded: checkpoints that are no gap, such as those that were left out with a line of their own.
    """
    noted = set(map(step_of, expanded))
    pairs = list(pairwise(sorted({step for name in names if (step := step_of(name)) is not None})))
    [(usual, count)] = Counter(after - before for before, after in pairs).most_common(1) or [(0, 0)]
    return [
        f"there is no checkpoint of step {step}: what was learnt by then counts as learnt at step {after}"
        for before, after in pairs
        if 2 * count > len(pairs) and (after - before) % usual == 0
        for step in range(before + usual, after, usual)
        if step not in noted
    ]
