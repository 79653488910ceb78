"""What studies call the models of several runs."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.store.folder import RunFolder


def short_names(runs: Sequence[RunFolder]) -> list[str]:
    """The model of each run by the last part of its name, by all of it where two models are alike in that part, and
    with a part of its content's hash where they are alike in all (a folder trained anew).

    Runs of one model, wherever its folder stood, get one name; two models never do.
    """
    about = [run.manifest["identity"]["model"] for run in runs]
    models = [(_last_part(str(one["name"])), str(one.get("content_hash"))) for one in about]
    first: dict[tuple[str, str], str] = {}
    for model, one in zip(models, about, strict=True):
        first.setdefault(model, str(one["name"]))
    shorts, wholes = [short for short, _ in first], list(first.values())

    def told_apart(model: tuple[str, str]) -> str:
        short, content = model
        if shorts.count(short) == 1:
            return short
        whole = first[model]
        return whole if wholes.count(whole) == 1 else f"{whole}@{content[:8]}"

    return [told_apart(model) for model in models]


def _last_part(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2] or name
