"""Episodes in processes of their own, each with a deadline."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import fastgrad

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Episode:
    """What happens in it follows from these, but for the moments at which threads and processes act."""

    kind: str
    seed: int
    seconds: float = 8.0

    @property
    def arguments(self) -> tuple[str, str, str]:
        return self.kind, str(self.seed), str(self.seconds)

    @property
    def command(self) -> str:
        """The command that repeats it."""
        options = f"--kind {self.kind} --seconds {self.seconds:g} --episodes 1"
        return f"make stress SEED={self.seed} ARGS='{options}'"


@dataclass
class Outcome:
    """How an episode ended: `fault` is the text of what it found, or empty."""

    episode: Episode
    seconds: float
    fault: str = ""
    counts: dict[str, int] = field(default_factory=dict)


def warm_up() -> None:
    """Compile the operators that episodes call where that was not done yet: about a minute."""
    names = "['swish', 'silu', 'gelu', 'sigmoid']"
    dtypes = "['float32', 'float64', 'float16', 'bfloat16']"
    code = f"import fastgrad; fastgrad.warmup({names}, {dtypes})"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def copy_kernels(scratch: Path) -> None:
    """Let episodes begin with the kernels that there are, and leave their own in `scratch`."""
    known = fastgrad.cache.folder()
    if known is not None:
        with contextlib.suppress(shutil.Error):  # other processes remove files meanwhile
            shutil.copytree(known, scratch / "kernels", ignore=shutil.ignore_patterns("*.part"))


def run(episode: Episode, scratch: Path, deadline: float) -> Outcome:
    """Run an episode; whatever it has started is killed at its end, or at the deadline.

    Parameters
    ----------
    episode : Episode
        What to run.
    scratch : Path
        A folder for what it writes: its kernels are of no use to anybody else.
    deadline : float
        Seconds.
    """
    start = time.monotonic()
    environment = {"FASTGRAD_CACHE_DIR": str(scratch / "kernels"), "TMPDIR": str(scratch)}
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tools.stress.episode", *episode.arguments],
            env={**os.environ, **environment},
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        code = _wait(process, deadline)
        output.seek(0)
        text = output.read()
    outcome = Outcome(episode, time.monotonic() - start)
    if code == 0:
        outcome.counts = json.loads(text.splitlines()[-1])
    else:
        reason = f"no end after {deadline:g} s" if code is None else f"exit code {code}"
        outcome.fault = f"{reason}\n{text.strip()}"
    return outcome


def _wait(process: subprocess.Popen, deadline: float) -> int | None:
    """The exit code; None at the deadline, when all its processes have shown where they are."""
    try:
        return process.wait(timeout=deadline)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGUSR1)
        time.sleep(1)
        return None
    finally:
        _kill_group(process)


def _kill_group(process: subprocess.Popen) -> None:
    """End what is left of an episode: children of one that has failed."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()
