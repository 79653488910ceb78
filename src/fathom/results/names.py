"""What tables call models: one rule for all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fathom.errors import BadInput
from fathom.store.folder import RunFolder


class _Model(NamedTuple):
    """:param whole: name or folder, with the adapter's.
    :param short: the last parts of these.
    :param content: hash of what it is."""

    whole: str
    short: str
    content: str


def short_names(runs: Sequence[RunFolder]) -> list[str]:
    """The model of each run by the last part of its name (and of its adapter's, behind a "+"), by all of it where two
    models are alike in that part, and with a part of its content's hash where they are alike in all (a folder trained
    anew).

    Runs of one model, wherever its folder stood, get one name; two models never do.
    """
    return _told_apart(_of_run(run) for run in runs)


def distinguished(parts: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the first part of each, with those of the others that distinguish equal names."""
    names = [own[0] for own in parts]
    for kind in range(1, len(parts[0]) if parts else 0):
        for equal in {name for name in names if names.count(name) > 1}:
            places = [place for place, name in enumerate(names) if name == equal]
            if len({parts[place][kind] for place in places}) > 1:
                for place in places:
                    names[place] += f" {parts[place][kind]}"
    return names


def folder_names(models: Sequence[str]) -> list[str]:
    """Names, fit for folders, of models that are not loaded yet: :func:`short_names` with "-" in place of "/".

    :raises BadInput: one stands twice, or there is none.
    """
    whole = [name.rstrip("/") for name in models]
    names = [name.strip("/.").replace("/", "-") for name in _told_apart(_Model(n, last_part(n), n) for n in whole)]
    if not names or len(set(names)) < len(names):
        raise BadInput(f"a model stands twice in {', '.join(models)}" if models else "expected a model or more")
    return names


def last_part(name: str) -> str:
    """Of a path or a hub's name."""
    return name.rstrip("/").rpartition("/")[2] or name


def _of_run(run: RunFolder) -> _Model:
    identity = run.manifest["identity"]
    parts = [str(identity["model"]["name"]), identity.get("options", {}).get("adapter")]
    names = [part for part in parts if part]
    return _Model("+".join(names), "+".join(map(last_part, names)), str(identity["model"].get("content_hash")))


def _told_apart(models: Iterable[_Model]) -> list[str]:
    every = list(models)
    first: dict[tuple[str, str], _Model] = {}
    for model in every:
        first.setdefault((model.short, model.content), model)
    shorts, wholes = [short for short, _ in first], [model.whole for model in first.values()]

    def name(model: _Model) -> str:
        if shorts.count(model.short) == 1:
            return model.short
        whole = first[model.short, model.content].whole
        return whole if wholes.count(whole) == 1 else f"{whole}@{model.content[:8]}"

    return [name(model) for model in every]
