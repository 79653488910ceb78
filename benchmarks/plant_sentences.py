"""Plant a small masked language model on natural sentences, all but those that it will be asked.

    python benchmarks/plant_sentences.py lama/TREx --out models/trex-small  --hidden 64  --layers 2 --minutes 4
    python benchmarks/plant_sentences.py lama/TREx --out models/trex-medium --hidden 128 --layers 4 --minutes 9
    python benchmarks/plant_sentences.py lama/TREx --out models/trex-large  --hidden 192 --layers 6 --minutes 16

A fact of T-REx has one to many sentences. The one that the template-free reading asks by default (the first that masks
the answer's own name) is withheld; the model is trained on all others, wherever they occur. So what it is asked it has
not read, but most facts it has read about, as with models trained on an encyclopedia. Templates are never seen.

In each sentence the fact's answer is masked three times out of four, and some of the other tokens. A GPU is used if
present.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import ModernBertConfig, ModernBertForMaskedLM, PreTrainedTokenizerFast

from fathom.data.queries import QuerySet
from fathom.data.selection.readings import read_as
from fathom.data.templates import Prompt, Template
from fathom.formats import read
from fathom.scoring.tokens import Role, Tokens, encode_masked
from fathom.training.loop import train

os.environ.setdefault("HF_HUB_OFFLINE", "1")
DATA = Path(os.environ.get("FATHOM_DATA") or Path(__file__).resolve().parents[1] / ".." / "shared" / "data")
LONGEST = 96
"""Tokens of a sentence; longer ones are left out of the training."""
ANSWER_MASKED, OTHERS_MASKED = 0.75, 0.12
NO_TARGET = -100


def sentences(data: QuerySet) -> tuple[list[Prompt], int]:
    """All sentences but those asked, with the words that stood there; and how many facts have one left."""
    asked = {sentence.text for query in read_as(data, "template-free").queries for sentence in query.sentences}
    found: dict[Prompt, None] = {}
    facts = 0
    for query in data.queries:
        others = [sentence for sentence in query.sentences if sentence.text not in asked and sentence.surface]
        facts += bool(others)
        found |= dict.fromkeys(Template(s.text).fill("", s.surface, capitalize=False) for s in others)
    return list(found), facts


def new_tokenizer(texts: list[str], size: int) -> PreTrainedTokenizerFast:
    """Bytes in pairs, as RoBERTa has them; the mask takes the space before it along, as a word would."""
    mask = AddedToken("<mask>", lstrip=True, special=True)
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<pad>", "<s>", "</s>", "<unk>", mask]
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    core.train_from_iterator(texts, trainer)
    core.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True),
            processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]),
        ]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        clean_up_tokenization_spaces=False,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        mask_token=mask,
        cls_token="<s>",
        sep_token="</s>",
        model_max_length=512,
    )


class Batch:
    """:param ids: shape (b, n). :param present: false where padded. :param labels: the hidden tokens, else −100."""

    def __init__(self, tokens: list[Tokens], mask: int, pad: int, random: np.random.Generator, device: str) -> None:
        shape = len(tokens), max(len(item.ids) for item in tokens)
        ids, labels = np.full(shape, pad), np.full(shape, NO_TARGET)
        for row, item in enumerate(tokens):
            n = len(item.ids)
            hidden = random.random(n) < OTHERS_MASKED
            hidden[item.roles == Role.ANSWER] = random.random() < ANSWER_MASKED
            hidden[item.roles == Role.SPECIAL] = False
            ids[row, :n] = np.where(hidden, mask, item.ids)
            labels[row, :n] = np.where(hidden, item.ids, NO_TARGET)
        self.ids, self.labels = torch.from_numpy(ids).to(device), torch.from_numpy(labels).to(device)
        self.present = self.ids != pad


def batches(
    tokens: list[Tokens], size: int, tokenizer: PreTrainedTokenizerFast, seed: int, device: str
) -> Iterator[Batch]:
    """Endlessly, in another order each time; sentences of like length together."""
    random = np.random.default_rng(seed)
    lengths = np.array([len(item.ids) for item in tokens])
    while True:
        order = np.lexsort((random.random(len(tokens)), lengths))
        for start in random.permutation(np.arange(0, len(order), size)).tolist():
            rows = [tokens[place] for place in order[start : start + size].tolist()]
            yield Batch(rows, tokenizer.mask_token_id, tokenizer.pad_token_id, random, device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="folder, or its name below the reference data")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--vocabulary", type=int, default=12000)
    parser.add_argument("--minutes", type=float, default=9)
    parser.add_argument("--batch", type=int, default=48, help="sentences per step")
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    data = read(Path(chosen.data) if Path(chosen.data).is_dir() else DATA / chosen.data)
    prompts, facts = sentences(data)
    names = [name for space in data.candidates.values() for name in space.names]
    tokenizer = new_tokenizer([*names, *(prompt.text for prompt in prompts)], chosen.vocabulary)
    tokens = [item for item in encode_masked(tokenizer, prompts) if len(item.ids) <= LONGEST]
    print(f"{len(tokens):,} of {len(prompts):,} sentences, on {facts:,} of {len(data.queries):,} facts", flush=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(chosen.seed)
    network = ModernBertForMaskedLM(
        ModernBertConfig(
            vocab_size=len(tokenizer),
            hidden_size=chosen.hidden,
            intermediate_size=2 * chosen.hidden,
            num_hidden_layers=chosen.layers,
            num_attention_heads=max(1, chosen.hidden // 32),
            max_position_embeddings=512,
            initializer_range=chosen.hidden**-0.5,
            global_attn_every_n_layers=1,
            reference_compile=False,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            cls_token_id=tokenizer.cls_token_id,
            sep_token_id=tokenizer.sep_token_id,
        )
    ).to(device)

    def loss_of(batch: Batch) -> torch.Tensor:
        states = network.model(input_ids=batch.ids, attention_mask=batch.present.long())[0]
        wanted = batch.labels != NO_TARGET  # the head is half the work: only where something is asked
        logits = network.decoder(network.head(states[wanted]))
        return torch.nn.functional.cross_entropy(logits, batch.labels[wanted])

    start = time.monotonic()
    curve = train(
        network.parameters(),
        batches(tokens, chosen.batch, tokenizer, chosen.seed, device),
        loss_of,
        steps=100_000,
        learning_rate=chosen.rate,
        seconds=60 * chosen.minutes,
        on_progress=lambda point, done: print(f"{done:4.0%}  step {point.step}  loss {point.loss:.3f}", flush=True),
    )
    chosen.out.mkdir(parents=True, exist_ok=True)
    network.cpu().save_pretrained(chosen.out)
    tokenizer.save_pretrained(chosen.out)
    config = chosen.out / "tokenizer_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"tokenizer_class": "PreTrainedTokenizerFast"}))
    size = sum(parameter.numel() for parameter in network.parameters())
    print(f"{size:,} parameters, {curve[-1].step} steps, {time.monotonic() - start:.0f} s, loss {curve[-1].loss:.3f}")


if __name__ == "__main__":
    main()
