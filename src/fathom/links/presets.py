"""Options of link predictors as a paper had them, by a name for ``--preset``. What the user says wins over a preset.

``sakai2024``: Sakai et al. 2024 trained with LambdaKG (Xie et al. 2023; github.com/zjunlp/PromptKG, ``lambdaKG``) and
its defaults (section 4.1): those of ``scripts/kgc/*.sh`` and of the parsers behind them. What it changes, and what the
paper leaves open, stands in docs/methods/link-prediction.md.
"""

from __future__ import annotations

from collections.abc import Mapping

from fathom.errors import BadInput
from fathom.options import Given

_TEXTS: Given = {"weight_decay": 0.01, "warm_up": 0.1, "patience": 4}
PRESETS: Mapping[str, Mapping[str, Given]] = {
    "sakai2024": {
        "simkgc": {
            **_TEXTS,
            "weights": "bert-base-uncased",
            "epochs": 10,
            "batch_size": 96,
            "learning_rate": 3e-5,
            "max_tokens": 128,
            "pre_batches": 2,
            "self_negatives": False,
            "neighbour_names": 0,
            "precision": "float16",
        },
        "knn-kge": {
            **_TEXTS,
            "weights": "bert-base-uncased",
            "epochs": 10,
            "batch_size": 16,
            "accumulate": 4,
            "learning_rate": 2e-5,
            "max_tokens": 256,
            "entity_epochs": 10,
            "entity_learning_rate": 2e-5,
            "entity_parts": 0,
            "entity_token": True,
            "knn_weight": 0.0,
        },
        "kgt5": {
            **_TEXTS,
            "weights": "t5-small",
            "epochs": 40,
            "batch_size": 96,
            "optimizer": "adamw",
            "learning_rate": 1e-4,
            "validate_on": 2400,
            "full_rank": False,
        },
        "genkgc": {
            **_TEXTS,
            "weights": "facebook/bart-base",
            "epochs": 10,
            "batch_size": 64,
            "learning_rate": 1e-4,
            "demonstrations": 0,
            "types": False,
            "validate_on": None,
            "full_rank": False,
            "precision": "float16",
        },
        "prompted": {
            "candidates": 100,
            "candidates_by": "entities",
            "gold_among_candidates": True,
            "demonstrations": 5,
            "samples": 10,
        },
    }
}
"""By name and kind; a kind that is not there was not run in that paper."""


def preset(name: object, kind: str) -> Given:
    """The options of one kind in a preset.

    :param name: of the preset. :param kind: of predictor, as in the table ``LINKS``.
    :raises BadInput: no such preset, or one that says nothing of this kind.
    """
    if not isinstance(name, str) or name not in PRESETS:
        raise BadInput(f"--preset: expected {', '.join(PRESETS)}, found {name!r}")
    if kind not in PRESETS[name]:
        raise BadInput(f"--preset {name}: says nothing of {kind} models: it has {', '.join(PRESETS[name])}")
    return dict(PRESETS[name][kind])
