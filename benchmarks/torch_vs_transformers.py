"""The built PyTorch model against transformers (eager, sdpa): time and peak memory of a forward pass and of a training step.

    python benchmarks/torch_vs_transformers.py [--rounds 7] [--threads 2] [--device cpu] [--model gpt2|llama]

Both sides of a row take turns in one process, so that what else the machine does meets both alike. A row gives the medians
and their ratio, by the clock and by the processor's time (which a busy machine disturbs less), and the spread of the ratios
of neighbours. Peak memory comes from a process for each side, over that of the weights.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from emission import SPEC
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM

from archspec.compiler.lower import lower
from archspec.compiler.resolve import resolve_text
from archspec.exporters.torch.cache import GrowingCache
from archspec.exporters.torch.module import build

SPECS = {
    "gpt2": """
archspec: 1
name: gpt2
vocab_size: 50257
context_length: 1024
d_model: 768
norm: {kind: layernorm}
embedding: {position: learned}
decoder: {layers: 12, attention: {heads: 12, bias: true}, ffn: {kind: mlp, width: 3072, activation: gelu_tanh, bias: true}}
head: {tied: true}
dropout: {embedding: 0.1, attention: 0.1, residual: 0.1}
""",
    "llama": SPEC,
}
CONFIGS: dict[str, dict[str, object]] = {
    "gpt2": {},
    "llama": {
        "vocab_size": 32000, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "num_key_value_heads": 4, "intermediate_size": 2048, "tie_word_embeddings": True,
    },
}  # fmt: skip

Call = Callable[[Tensor], Tensor]


def ours(name: str, device: str) -> tuple[nn.Module, Call]:
    """The built model and its logits."""
    net = build(lower(resolve_text(SPECS[name]).spec), device=device)
    return net, net


def theirs(name: str, device: str) -> tuple[nn.Module, Call]:
    """The same shape in transformers and its logits."""
    config = AutoConfig.for_model(name, attn_implementation="sdpa", **CONFIGS[name])
    net = AutoModelForCausalLM.from_config(config).to(device)
    return net, lambda ids: net(ids, use_cache=False).logits


SIDES = {"ours": ours, "transformers": theirs}


def forward(call: Call, ids: Tensor) -> None:
    """One pass over ids, no gradients."""
    with torch.no_grad():
        call(ids)


def step(net: nn.Module, call: Call, ids: Tensor) -> None:
    """Forward, loss and backward."""
    net.zero_grad(set_to_none=True)
    logits = call(ids)
    nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()).backward()


def works(side: str, name: str, device: str) -> dict[str, Callable[[], None]]:
    """What is measured, by name."""
    net, call = SIDES[side](name, device)
    ids = torch.randint(0, 32000, (2, 256), generator=torch.Generator().manual_seed(0)).to(device)

    def training(batch: Tensor) -> None:
        net.train()
        step(net, call, batch)
        net.eval()

    net.eval()
    return {
        "forward 1 x 16": lambda: forward(call, ids[:1, :16]),
        "forward 1 x 256": lambda: forward(call, ids[:1]),
        "decode 16 after 64": lambda: decode(net, side, ids[:1]),
        "training 2 x 128": lambda: training(ids[:, :128]),
    }


@torch.no_grad()
def decode(net: nn.Module, side: str, ids: Tensor) -> None:
    """64 tokens at once, then 16 one by one, with the growing cache of each side."""
    cache, past = GrowingCache(), None
    for a, b in ((0, 64), *((i, i + 1) for i in range(64, 80))):
        if side == "ours":
            net(ids[:, a:b], cache=cache)
        else:
            past = net(ids[:, a:b], past_key_values=past, use_cache=True).past_key_values


def seconds(work: Callable[[], None], device: str) -> tuple[float, float]:
    """Wall and processor time of one turn."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - wall, time.process_time() - cpu


def peak(side: str, name: str, device: str) -> float:
    """MiB that a training step holds at most, over the weights. In this process: run it in a fresh one."""
    turn = works(side, name, device)["training 2 x 128"]
    turn()
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        turn()
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    gc.collect()
    reset.write_text("5")
    turn()
    fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
    weights = sum(p.numel() * p.element_size() for p in ours(name, "meta")[0].parameters()) / 2**20
    return int(fields["VmHWM"].split()[0]) / 2**10 - weights


def compare(name: str, rounds: int, device: str) -> None:
    """Prints a row per piece of work."""
    pairs = [works(side, name, device) for side in SIDES]
    for work in pairs[0]:
        turns = [[seconds(side[work], device) for side in pairs] for _ in range(rounds + 1)][1:]  # the first warms up
        (a, a_cpu), (b, b_cpu) = (
            [statistics.median(turn[side][k] for turn in turns) for k in (0, 1)] for side in (0, 1)
        )
        each = [turn[0][0] / turn[1][0] for turn in turns]
        spread = f"[{min(each):.2f} to {max(each):.2f}]"
        print(f"{name:6} {work:20} {a * 1e3:9.1f} ms {b * 1e3:9.1f} ms {a / b:7.2f} {a_cpu / b_cpu:7.2f}   {spread}")


def compare_memory(name: str, device: str, threads: int) -> None:
    """Prints a row for peak memory, each side in a process of its own."""
    # Large blocks go back when they are freed, so that a peak is what is held and not what the allocator kept.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    options = ["--model", name, "--device", device, "--threads", str(threads)]
    found = []
    for side in SIDES:
        command = [sys.executable, __file__, "--peak", side, *options]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
        found.append(float(done.stdout))
    print(f"{name:6} {'memory, training':20} {found[0]:8.0f} MiB {found[1]:8.0f} MiB {found[0] / found[1]:7.2f}")


def main() -> None:
    """The command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--device", default="cpu")
    options.add_argument("--model", choices=sorted(SPECS))
    options.add_argument("--peak", choices=sorted(SIDES), help=argparse.SUPPRESS)
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    if given.peak:
        print(peak(given.peak, given.model, given.device))
        return
    print(f"{'':27} {'archspec':>12} {'transformers':>12}   ratio  of cpu   [of neighbours]")
    for name in [given.model] if given.model else SPECS:
        compare(name, given.rounds, given.device)
        compare_memory(name, given.device, given.threads)


if __name__ == "__main__":
    main()
