"""Training on several processes: a patched model in PyTorch's DistributedDataParallel, on the CPU.

    torchrun --nproc-per-node=2 examples/torch/ddp.py

A small residual network learns the handwritten digits that scikit-learn ships. Each process takes its share
of every batch; gradients are averaged over gloo, and batch norms take the statistics of the whole batch. On
several machines the same command, with torchrun's --nnodes and --rdzv-endpoint, runs on each.
"""

from __future__ import annotations

import argparse
import os
import time

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import fastgrad
import fastgrad.torch


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.GroupNorm(8, channels),
            nn.SiLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.SiLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.branch(x)


def make_model(channels: int = 32) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, channels, 3, padding=1),
        Block(channels),
        nn.AvgPool2d(2),
        Block(channels),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.LayerNorm(channels),
        nn.Linear(channels, 10),
    )


def share_cores() -> int:
    """As many threads for each process of this machine as it has cores for it."""
    processes = int(os.environ["LOCAL_WORLD_SIZE"])
    threads = max(1, len(os.sched_getaffinity(0)) // processes)
    torch.set_num_threads(threads)
    fastgrad.set_num_threads(threads)
    return threads


def distributed_model() -> DistributedDataParallel:
    torch.manual_seed(0)  # the same weights everywhere
    model = make_model()
    fastgrad.torch.patch(model)
    model = fastgrad.torch.SyncBatchNorm.convert_sync_batchnorm(model)
    return DistributedDataParallel(model)


def own_part_of_digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Every n-th digit, for n processes; the same number of them in each."""
    digits = load_digits()
    rank, world = dist.get_rank(), dist.get_world_size()
    count = len(digits.target) // world * world
    images = torch.from_numpy(digits.images[:count]).float().unsqueeze(1) / 8 - 1
    return images[rank::world], torch.from_numpy(digits.target[:count])[rank::world]


def train_epoch(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    images: torch.Tensor,
    labels: torch.Tensor,
    batch: int,
) -> float:
    """The mean loss over all processes."""
    losses = []
    for chosen in torch.randperm(len(labels)).split(batch):
        loss = nn.functional.cross_entropy(model(images[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    mean = torch.stack(losses).mean()
    dist.all_reduce(mean)
    return float(mean) / dist.get_world_size()


def weights_are_the_same(model: nn.Module) -> bool:
    """Whether all processes have the same bits."""
    own = nn.utils.parameters_to_vector(model.parameters()).detach()
    everyone = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, own)
    return all(torch.equal(own, other) for other in everyone)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=128, help="of all processes together")
    options = parser.parse_args()

    dist.init_process_group("gloo")
    threads = share_cores()
    model = distributed_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    images, labels = own_part_of_digits()
    share = max(1, options.batch // dist.get_world_size())
    say = print if dist.get_rank() == 0 else lambda text: None
    say(f"{dist.get_world_size()} processes with {threads} threads each")
    for epoch in range(1, options.epochs + 1):
        began = time.perf_counter()
        loss = train_epoch(model, optimizer, images, labels, share)
        seconds = time.perf_counter() - began
        speed = len(labels) * dist.get_world_size() / seconds
        say(f"epoch {epoch}: loss {loss:.4f}, {speed:,.0f} digits a second")
    same = weights_are_the_same(model)
    say(f"all processes have the same weights, bit for bit: {'yes' if same else 'NO'}")
    # gloo's threads give back what they have sent, for which they need Python's lock; while the group is
    # destroyed they would wait for it forever (pytorch/pytorch#56297). Sleeping leaves it to them before.
    dist.barrier()
    time.sleep(0.3)
    dist.destroy_process_group()
    if not same:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
