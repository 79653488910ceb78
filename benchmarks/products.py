"""One linear layer with GELU by oneDNN and by MKL: milliseconds of the processor, one thread. What
``fathom/models/kernels.py`` chooses between.

    python benchmarks/products.py
"""

from __future__ import annotations

import time
from statistics import median

import torch
from torch.nn import functional

from fathom.models.kernels import _onednn_linear

ROWS, INPUTS, OUTPUTS, ROUNDS = 512, 768, 3072, 9


def main() -> None:
    torch.set_num_threads(1)
    states, weight, bias = torch.randn(ROWS, INPUTS), torch.randn(OUTPUTS, INPUTS), torch.randn(OUTPUTS)
    ways = {
        "oneDNN": lambda: _onednn_linear(states, weight, bias),
        "oneDNN with GELU": lambda: _onednn_linear(states, weight, bias, "none"),
        "MKL": lambda: functional.linear(states, weight, bias),
        "MKL, then GELU": lambda: functional.gelu(functional.linear(states, weight, bias)),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    with torch.inference_mode():
        for _ in range(ROUNDS):
            for name, way in ways.items():
                start = time.process_time()
                way()
                taken[name].append(time.process_time() - start)
    print(f"{torch.backends.cpu.get_cpu_capability()}, {ROWS} × {INPUTS} times {INPUTS} × {OUTPUTS}, float32")
    print("| way | median, ms | GFLOP/s |\n|---|---:|---:|")
    for name, own in taken.items():
        print(f"| {name} | {1000 * median(own):.1f} | {2 * ROWS * INPUTS * OUTPUTS / median(own) / 1e9:.0f} |")


if __name__ == "__main__":
    main()
