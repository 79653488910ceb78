"""Runs in which nothing is left to do, found without loading the model or a model library."""

from __future__ import annotations

import os
from typing import Any

from fathom._version import VERSION
from fathom.base.options import marked
from fathom.base.reading import as_read_back
from fathom.data.queries import QuerySet
from fathom.engine.models.content import content_hash, gguf_file
from fathom.probes.options import ProbeOptions
from fathom.probes.run.parts import is_finished
from fathom.probes.shared_options import HERE, EvaluationOptions
from fathom.store.files import clear_temporaries
from fathom.store.folder import RunFolder, compared, differences

_FROM_ELSEWHERE = {"adapter", "add_candidates", "pool", "quantize", "server", "tokenizer", "trust_remote_code"}
"""Options that name files or code besides those of model and data."""


def find_finished(probe: str, model: Any, data: QuerySet, options: ProbeOptions, out: Any) -> RunFolder | None:
    """Return the run in *out* if it is the requested one and no shard is left for this process.

    :param model: only a local folder is looked at.
    :returns: None if something is left or differs, or if options, data and the model's folder do not decide it alone.
    """
    if (
        out is None
        or not isinstance(model, str | os.PathLike)
        or not (os.path.isfile(os.path.join(model, "config.json")) or gguf_file(model) is not None)
    ):
        return None
    folder = RunFolder(out)
    if not folder.has_manifest() or not _decide_alone(options) or not is_finished(options.part, folder):
        return None
    before = folder.manifest["identity"]
    now = {
        **before,
        "probe": probe,
        "options": as_read_back(options.identity()),
        "model": before["model"] | {"content_hash": content_hash([str(model)])},
        "data": before["data"] | {"version": data.version, "content_hash": data.content_hash},
        "seed": options.seed,
        "version": VERSION,
    }
    if any(differences(compared(before), compared(now))):
        return None
    clear_temporaries(folder.path)  # of a process that was stopped as it finished
    return folder


def _decide_alone(options: ProbeOptions) -> bool:
    kind = type(options)
    elsewhere = marked(kind, "circumstance") - EvaluationOptions.model_fields.keys() | _FROM_ELSEWHERE
    fields = {name: kind.model_fields[name] for name in elsewhere & kind.model_fields.keys()}
    return options.engine == HERE and all(getattr(options, name) == field.default for name, field in fields.items())
