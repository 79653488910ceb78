"""What the CPU kernels of ``fathom/models`` choose between: milliseconds of the processor, one thread.

python benchmarks/products.py                # one linear layer with GELU, by oneDNN and by MKL
python benchmarks/products.py --attention    # 16 packed blocks of 128 tokens, fused and in two products
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
from torch import nn
from torch.nn import functional
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from fathom.models.kernels import _onednn_linear, keep_freed_memory, rough_attention

ROWS, INPUTS, OUTPUTS, ROUNDS = 512, 768, 3072, 9
BLOCKS, HEADS, TOKENS, WIDTH = 16, 8, 128, 64
Ways = dict[str, Callable[[], object]]


def milliseconds(ways: Ways) -> dict[str, float]:
    """Medians, in turns."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    with torch.inference_mode():
        for _ in range(ROUNDS):
            for name, way in ways.items():
                start = time.process_time()
                way()
                taken[name].append(1000 * (time.process_time() - start))
    return {name: median(own) for name, own in taken.items()}


def products() -> None:
    states, weight, bias = torch.randn(ROWS, INPUTS), torch.randn(OUTPUTS, INPUTS), torch.randn(OUTPUTS)
    ways: Ways = {
        "oneDNN": lambda: _onednn_linear(states, weight, bias),
        "oneDNN with GELU": lambda: _onednn_linear(states, weight, bias, "none"),
        "MKL": lambda: functional.linear(states, weight, bias),
        "MKL, then GELU": lambda: functional.gelu(functional.linear(states, weight, bias)),
    }
    print(f"{torch.backends.cpu.get_cpu_capability()}, {ROWS} × {INPUTS} times {INPUTS} × {OUTPUTS}, float32")
    print("| way | median, ms | GFLOP/s |\n|---|---:|---:|")
    for name, own in milliseconds(ways).items():
        print(f"| {name} | {own:.1f} | {2 * ROWS * INPUTS * OUTPUTS / own / 1e6:.0f} |")


def attention() -> None:
    module = nn.Module()
    seen = torch.ones(BLOCKS, 1, TOKENS, TOKENS, dtype=torch.bool).tril()
    ways: Ways = {}
    for dtype in (torch.float32, torch.bfloat16):
        states = [torch.randn(BLOCKS, TOKENS, HEADS, WIDTH, dtype=dtype).transpose(1, 2) for _ in range(3)]
        mask = torch.zeros(seen.shape, dtype=dtype).masked_fill_(~seen, torch.finfo(dtype).min)
        for name, way in (("fused", sdpa_attention_forward), ("two products", rough_attention)):
            ways[f"{name}, {str(dtype)[6:]}"] = lambda way=way, states=states, mask=mask: way(module, *states, mask)
    print(f"{torch.backends.cpu.get_cpu_capability()}, {BLOCKS} × {TOKENS} tokens, {HEADS} heads of {WIDTH}")
    print("| way | median, ms |\n|---|---:|")
    for name, own in milliseconds(ways).items():
        print(f"| {name} | {own:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attention", action="store_true")
    torch.set_num_threads(1)
    keep_freed_memory()
    attention() if parser.parse_args().attention else products()


if __name__ == "__main__":
    main()
