"""A program run by several processes that find each other, over gloo."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

#: What every program begins with: its rank, the group, and `save`, which hands tensors to the test.
_START = """
import os, sys
import torch
import torch.distributed as dist
from torch import nn
import fastgrad, fastgrad.torch

rank, world, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.set_num_threads(1)
fastgrad.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world)

def save(**tensors):
    torch.save(tensors, f"{folder}/{rank}.pt")
"""
# Without destructors: while the group is destroyed, gloo's threads may wait for Python's lock forever.
_END = """
dist.barrier()
sys.stdout.flush()
os._exit(0)
"""


def run_ranks(code: str, folder: Path, world: int = 2, seconds: float = 150) -> list[Any]:
    """What each rank of the program saves; all have to end in time, with exit code 0."""
    program = folder / "program.py"
    program.write_text(_START + code + _END)
    logs = [folder / f"{rank}.log" for rank in range(world)]
    processes = [
        _start([str(program), str(rank), str(world), str(folder)], log)
        for rank, log in enumerate(logs)
    ]
    end = time.monotonic() + seconds
    try:
        for rank, process in enumerate(processes):
            process.wait(max(0.1, end - time.monotonic()))
            assert process.returncode == 0, f"rank {rank}\n{logs[rank].read_text()[-3000:]}"
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [torch.load(folder / f"{rank}.pt") for rank in range(world)]


def _start(arguments: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, *arguments],
            env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
