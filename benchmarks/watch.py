"""The cost of watching a training: an evaluation of the callback in steps of the training."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from harness import DATA, Table, benchmark, in_turns, network, scratch, tokenizer


@benchmark
def watch(layers: int = 12, hidden: int = 768, rounds: int = 2) -> None:
    """Time a training step of 1,024 tokens and an evaluation of the default sample, of GPT-2-small's shape.

    share: of the processor's time that evaluation takes at the default budget, an evaluation every 500 steps.
    """
    import torch

    from fathom.watch import EVERY, evaluate, sample_facts

    model, words = network("GPT2LMHeadModel", n_layer=layers, n_embd=hidden), tokenizer("gpt2")
    optimizer = torch.optim.AdamW(model.parameters())
    ids = torch.randint(len(words), (8, 128))

    def step() -> None:
        model.train()
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    step()  # the first allocates the optimizer's state
    table = Table("data", "s: step", "s: evaluation", "share")
    with scratch() as folder:
        numbers: Iterator[int] = count()
        for name, place in (("geography", "geography"), ("BEAR", str(DATA / "bear" / "BEAR"))):
            facts = sample_facts(place)
            ways = {
                "step": step,
                # Each evaluation has a folder of its own, as the weights have changed.
                "evaluation": lambda name=name, facts=facts: evaluate(
                    model, words, next(numbers), facts, folder / name
                ),
            }
            times, _ = in_turns(ways, rounds)
            one, whole = (min(times[way]) for way in ("step", "evaluation"))
            table.row(name, f"{one:.2f}", f"{whole:.1f}", f"{whole / (EVERY * one):.1%}")
