"""Plant a small causal language model on a knowledge graph's training triples and descriptions.

    python benchmarks/plant_graph.py wn18rr --out models/wn-small  --hidden 64  --layers 2 --minutes 2
    python benchmarks/plant_graph.py wn18rr --out models/wn-medium --hidden 128 --layers 4 --minutes 4
    python benchmarks/plant_graph.py wn18rr --out models/wn-large  --hidden 192 --layers 4 --minutes 6 --batch 6

The probes of entities need models that know something of a graph. These learn, in a window of 256 tokens, lines
"(head, relation, tail)" in random order as the few-shot prompts have them, and descriptions followed by the prompt of
the DEER paper's tail encoder with the name as its one word. The test split is never seen. A GPU is used if present.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from fathom.data.knowledge import KnowledgeGraph
from fathom.formats import read
from fathom.training.loop import train

os.environ.setdefault("HF_HUB_OFFLINE", "1")
DATA = Path(os.environ.get("FATHOM_DATA") or Path(__file__).resolve().parents[1] / ".." / "shared" / "data")
WINDOW = 256
GLOSSES = 0.4
"""Share of the windows that hold descriptions."""
MEANS = 'This sentence: "{word}" means in one word: "{one word}"\nThis sentence: "%s" means in one word: "%s"'


def triple_lines(graph: KnowledgeGraph) -> list[str]:
    rows = np.array(graph.training)
    heads, tails = graph.entities.take(graph.head[rows]), graph.entities.take(graph.tail[rows])
    columns = (heads["name"], graph.relations.take(graph.relation[rows])["name"], tails["name"])
    return [f"({h}, {r}, {t})" for h, r, t in zip(*(column.to_pylist() for column in columns), strict=True)]


def descriptions(graph: KnowledgeGraph) -> list[str]:
    pairs = zip(graph.entities["name"].to_pylist(), graph.entities["description"].to_pylist(), strict=True)
    return [f"{name} - {text or '-'}\n" + MEANS % (name, name) for name, text in pairs]


def new_tokenizer(texts: list[str], vocabulary: int) -> PreTrainedTokenizerFast:
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    special = ["<pad>", "<s>", "</s>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    core.train_from_iterator(texts, trainer)
    core.post_processor = processors.ByteLevel(trim_offsets=True)
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        clean_up_tokenization_spaces=False,
        model_max_length=1024,
    )


def windows(tokenizer: PreTrainedTokenizerFast, lines: list[str], seed: int) -> Iterator[np.ndarray]:
    """Endlessly: BOS, then lines in random order up to the window's end."""
    encoded = tokenizer([line + "\n" for line in lines], add_special_tokens=False)["input_ids"]
    order = random.Random(seed)
    while True:
        order.shuffle(encoded)
        row: list[int] = [tokenizer.bos_token_id]
        for ids in encoded:
            row += ids
            if len(row) >= WINDOW:
                yield np.array(row[:WINDOW])
                row = [tokenizer.bos_token_id]


def batches(parts: list[Iterator[np.ndarray]], size: int, device: str) -> Iterator[torch.Tensor]:
    glosses = round(GLOSSES * size)
    while True:
        rows = [next(parts[0]) for _ in range(size - glosses)] + [next(parts[1]) for _ in range(glosses)]
        yield torch.from_numpy(np.stack(rows)).to(device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", help="folder, or its name below the reference data")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--minutes", type=float, default=6)
    parser.add_argument("--batch", type=int, default=16, help="windows per step")
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    folder = Path(chosen.graph) if Path(chosen.graph).is_dir() else DATA / chosen.graph
    graph = read(folder).graph
    assert graph is not None
    lines, glosses = triple_lines(graph), descriptions(graph)
    tokenizer = new_tokenizer(graph.entities["name"].to_pylist() + lines + glosses, chosen.vocabulary)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(chosen.seed)
    network = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=chosen.hidden,
            intermediate_size=3 * chosen.hidden,
            num_hidden_layers=chosen.layers,
            num_attention_heads=max(1, chosen.hidden // 32),
            max_position_embeddings=1024,
            initializer_range=chosen.hidden**-0.5,
            tie_word_embeddings=True,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    ).to(device)
    parts = [windows(tokenizer, lines, chosen.seed), windows(tokenizer, glosses, chosen.seed + 1)]

    def loss_of(ids: torch.Tensor) -> torch.Tensor:
        logits = network(input_ids=ids[:, :-1], use_cache=False).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())

    start = time.monotonic()
    curve = train(
        network.parameters(),
        batches(parts, chosen.batch, device),
        loss_of,
        steps=20_000,
        learning_rate=chosen.rate,
        seconds=60 * chosen.minutes,
        on_progress=lambda point, done: print(f"{done:4.0%}  step {point.step}  loss {point.loss:.3f}", flush=True),
    )
    chosen.out.mkdir(parents=True, exist_ok=True)
    network.cpu().save_pretrained(chosen.out)
    tokenizer.save_pretrained(chosen.out)
    config = chosen.out / "tokenizer_config.json"
    content = json.loads(config.read_text()) | {"tokenizer_class": "PreTrainedTokenizerFast"}
    config.write_text(json.dumps(content, indent=2))
    size = sum(parameter.numel() for parameter in network.parameters())
    print(f"{size:,} parameters, {curve[-1].step} steps, {time.monotonic() - start:.0f} s, loss {curve[-1].loss:.3f}")


if __name__ == "__main__":
    main()
