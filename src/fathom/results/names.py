"""Names of models in tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fathom.base.errors import BadInput
from fathom.store.folder import RunFolder


class _Model(NamedTuple):
    """:param whole: name or folder, with the adapter's. :param short: their last parts. :param content: its hash."""

    whole: str
    short: str
    content: str


def short_names(runs: Sequence[RunFolder]) -> list[str]:
    """Return the last part of each model's name, with "+" and the adapter's; two models never get the same name.

    If two models share that part, all of the name; if they share that, a part of the content's hash as well.
    """
    models = []
    for identity in (run.manifest["identity"] for run in runs):
        names = [str(identity["model"]["name"]), identity.get("options", {}).get("adapter")]
        names = [name for name in names if name]
        content = str(identity["model"].get("content_hash"))
        models.append(_Model("+".join(names), "+".join(map(last_part, names)), content))
    return _unique_names(models)


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
    """Return names of folders for models that are not loaded yet: :func:`short_names` with "-" in place of "/".

    :raises BadInput: one is given twice, or there is none.
    """
    whole = [name.rstrip("/") for name in models]
    short = _unique_names([_Model(name, last_part(name), name) for name in whole])
    names = [name.strip("/.").replace("/", "-") for name in short]
    if not names or len(set(names)) < len(names):
        raise BadInput(f"a model is given twice in {', '.join(models)}" if models else "expected a model or more")
    return names


def last_part(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2] or name


def _unique_names(models: Sequence[_Model]) -> list[str]:
    first: dict[tuple[str, str], _Model] = {}
    for model in models:
        first.setdefault((model.short, model.content), model)
    shorts, wholes = [short for short, _ in first], [model.whole for model in first.values()]

    def name(model: _Model) -> str:
        if shorts.count(model.short) == 1:
            return model.short
        whole = first[model.short, model.content].whole
        return whole if wholes.count(whole) == 1 else f"{whole}@{model.content[:8]}"

    return [name(model) for model in models]
