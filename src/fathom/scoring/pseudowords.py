"""Pseudowords: embeddings that mean nothing, for things that no model can know (Wu et al. 2023, section 3.2.2).

They lie around the mask token, which stands for any word, nearer to it than any other token does.
"""

from __future__ import annotations

import zlib

import torch
from torch import Tensor

from fathom.errors import BadInput
from fathom.models.base import Model

ATTEMPTS = 1000
"""How often a pseudoword is drawn again where it lies too near to another."""


def pseudowords(model: Model, count: int, alpha: float, *seed: object) -> Tensor:
    """Vectors at distance d = α · min‖z_mask − z_t‖ from the mask token's, t any other token, and no nearer than d to
    each other; directions are drawn evenly.

    :param alpha: between 0 and 1.
    :param seed: anything that has a text.
    :returns: float32, shape (count, d), on the CPU; no number of the model changes.
    :raises BadInput: a token has the mask token's embedding, or they do not fit around it.
    """
    mask, distance = _around(model, alpha)
    generator = torch.Generator().manual_seed(zlib.crc32("|".join(map(str, seed)).encode()))
    found: list[Tensor] = []
    for _ in range(count * ATTEMPTS):
        if len(found) == count:
            break
        direction = torch.randn(len(mask), generator=generator, dtype=torch.float64)
        drawn = (mask + distance * direction / direction.norm()).float()
        if all((drawn.double() - other.double()).norm() >= distance for other in found):
            found.append(drawn)
    if len(found) < count:
        raise BadInput(
            f"{count} pseudowords do not fit around the mask token of '{model.identity.name}', whose embeddings have "
            f"{len(mask)} numbers: ask with fewer --pairs"
        )
    return torch.stack(found)


def _around(model: Model, alpha: float) -> tuple[Tensor, float]:
    """The mask token's embedding, float64, and the distance to keep from it. Rows of the matrix that no token of the
    tokenizer has do not count."""
    mask_id = model.tokenizer.mask_token_id
    count = min(len(model.tokenizer), model.vocabulary_size)
    with torch.no_grad():
        every = model.embed(torch.arange(count, device=model.device)).double().cpu()
    distances = (every - every[mask_id]).norm(dim=1)
    distances[mask_id] = torch.inf
    nearest = int(distances.argmin())
    if distances[nearest] == 0:
        token = model.tokenizer.convert_ids_to_tokens(nearest)
        raise BadInput(
            f"the token {token!r} of '{model.identity.name}' has the embedding of its mask token, so that there is no "
            "room for pseudowords: such a model cannot be asked"
        )
    return every[mask_id], alpha * float(distances[nearest])
