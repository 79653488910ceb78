"""The soft-max over the vocabulary, three ways: milliseconds of the processor for the scores of 512 states, one thread.

    python benchmarks/head.py

Fathom's slices of the vocabulary beside all logits at once and torch's own ``linear_cross_entropy`` (torch 2.13,
where there is one), which knows one token for each state; GPT-2-small's head, random weights, float32.
"""

from __future__ import annotations

import time
from statistics import median

import numpy as np
import torch
from torch.nn import functional

from fathom.models.base import LinearHead
from fathom.scoring.head import CPU_LOGITS, _by_vocabulary_slices

STATES, WIDTH, VOCABULARY, ROUNDS = 512, 768, 50257, 7


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    states, weight = torch.randn(STATES, WIDTH), torch.randn(VOCABULARY, WIDTH) / WIDTH**0.5
    rows, tokens = torch.arange(STATES), torch.randint(VOCABULARY, (STATES,))
    head = LinearHead(lambda hidden: hidden, weight, None)

    def at_once() -> torch.Tensor:
        logits = functional.linear(states, weight)
        return logits[rows, tokens] - torch.logsumexp(logits, dim=-1)

    ways = {
        "slices of the vocabulary (Fathom)": lambda: _by_vocabulary_slices(head, states, rows, tokens, CPU_LOGITS),
        "all logits at once": at_once,
    }
    if hasattr(functional, "linear_cross_entropy"):
        chunked = torch.nn.LinearCrossEntropyOptions()
        ways["linear_cross_entropy, chunked"] = lambda: (
            -functional.linear_cross_entropy(states, weight, tokens, reduction="none", options=chunked)
        )
        ways["linear_cross_entropy, whole"] = lambda: (
            -functional.linear_cross_entropy(states, weight, tokens, reduction="none")
        )
    taken: dict[str, list[float]] = {name: [] for name in ways}
    scores = {}
    with torch.inference_mode():
        for _ in range(ROUNDS):
            for name, way in list(ways.items()):
                start = time.process_time()
                try:
                    scores[name] = way()
                except (RuntimeError, TypeError, ValueError) as error:
                    print(f"{name} cannot: {str(error).splitlines()[0]}")
                    del ways[name], taken[name]
                    continue
                taken[name].append(1000 * (time.process_time() - start))
    print("| way | median, ms | least, ms | largest difference, nats |\n|---|---:|---:|---:|")
    ours = next(iter(scores.values())).numpy()
    for name, own in taken.items():
        off = np.abs(scores[name].numpy() - ours).max()
        print(f"| {name} | {median(own):.0f} | {min(own):.0f} | {off:.0e} |")


if __name__ == "__main__":
    main()
