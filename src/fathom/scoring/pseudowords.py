"""Pseudowords: embeddings that mean nothing, for things that no model can know (Wu et al. 2023, section 3.2.2).

Those of a masked model lie around the mask token, which stands for any word, nearer to it than any other token does. A
causal model has no such token: there they lie around the mean of all embeddings, which is no word's either, at a share
of the distance that words have from it. (The nearest token would not do: models have tokens that no text had, and these
lie at the mean.)
"""

from __future__ import annotations

import zlib

import torch
from torch import Tensor

from fathom.errors import BadInput
from fathom.models.base import Attention, Model

ATTEMPTS = 1000
"""How often a pseudoword is drawn again where it lies too near to another."""
ROWS = 8192
"""Embeddings held in double precision at a time."""


def refuse_ids_alone(model: Model) -> None:
    """:raises BadInput: a model that is asked by the numbers of its tokens, among which no vector can stand."""
    if not model.takes_vectors:
        raise BadInput(
            f"'{model.identity.name}' takes the numbers of its tokens and no vectors, so it cannot be asked with "
            "pseudowords or learnt tokens: ask it by words, or another model"
        )


def pseudowords(model: Model, count: int, alpha: float, *seed: object) -> Tensor:
    """Vectors at distance d from a centre c, no nearer than d to each other; directions are drawn evenly. Of masked
    models c is the mask token's embedding and d = α · min‖c − z_t‖, t any other token; of causal models c is the mean
    of all embeddings and d = α · median‖c − z_t‖, t any token.

    :param alpha: between 0 and 1.
    :param seed: anything that has a text.
    :returns: float32, shape (count, d), on the CPU; no number of the model changes.
    :raises BadInput: a token has the mask token's embedding, all tokens have one embedding, the pseudowords do not fit
        around the centre, or the model takes no vectors.
    """
    refuse_ids_alone(model)
    is_causal = model.attention is Attention.CAUSAL
    centre, distance = (_around_the_mean if is_causal else _around_the_mask)(model, alpha)
    generator = torch.Generator().manual_seed(zlib.crc32("|".join(map(str, seed)).encode()))
    found: list[Tensor] = []
    for _ in range(count * ATTEMPTS):
        if len(found) == count:
            break
        direction = torch.randn(len(centre), generator=generator, dtype=torch.float64)
        drawn = (centre + distance * direction / direction.norm()).float()
        if all((drawn.double() - other.double()).norm() >= distance for other in found):
            found.append(drawn)
    if len(found) < count:
        raise BadInput(
            f"{count} pseudowords do not fit around the {'mean embedding' if is_causal else 'mask token'} of "
            f"'{model.identity.name}', whose embeddings have {len(centre)} numbers: ask with fewer --pairs"
        )
    return torch.stack(found)


def embed_with(model: Model, ids: Tensor, vectors: Tensor | None) -> Tensor:
    """Input embeddings, ids behind the vocabulary being rows of *vectors*.

    :param vectors: shape (rows, d); None where no id is behind the vocabulary.
    :returns: shape (…, d).
    :raises BadInput: *vectors* for a model that takes none.
    """
    if vectors is None:
        return model.embed(ids)
    refuse_ids_alone(model)
    row = ids - model.vocabulary_size
    own = model.embed(ids.clamp(max=model.vocabulary_size - 1))
    return torch.where((row >= 0)[..., None], vectors[row.clamp(min=0)].to(own.dtype), own)


def _around_the_mean(model: Model, alpha: float) -> tuple[Tensor, float]:
    """The mean of all embeddings, float64, and the distance to keep from it. Rows that no token has do not count."""
    count = min(len(model.tokenizer), model.vocabulary_size)
    with torch.no_grad():
        parts = [torch.arange(start, min(start + ROWS, count), device=model.device) for start in range(0, count, ROWS)]
        mean = torch.stack([model.embed(part).double().sum(0).cpu() for part in parts]).sum(0) / count
        distances = torch.cat([(model.embed(part).double().cpu() - mean).norm(dim=1) for part in parts])
    middle = float(distances.median())
    if middle == 0:
        raise BadInput(
            f"the tokens of '{model.identity.name}' have one embedding, so that there is no room for pseudowords: such "
            "a model cannot be asked"
        )
    return mean, alpha * middle


def _around_the_mask(model: Model, alpha: float) -> tuple[Tensor, float]:
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
