"""Processes share a cache folder while its files are damaged and some of them are killed.

Files are cut off, emptied, deleted, swapped with others', flipped in one bit, made unreadable, or replaced
by folders, links and pipes; the folder is made read-only, removed, or becomes a file. Each process that is
not killed gives the right bits, ends with exit code 0 and warns at most once.

As a program, ``python -m tools.stress.cache_faults SEED``, this is one of these processes.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .arrays import Rng
from .judge import Fault

#: Processes at once, and seconds that one may take to compile everything on a busy machine.
PROCESSES, PATIENCE = 3, 150.0
#: The share of processes that are killed, and when at the latest.
KILLED, KILL_SECONDS = 0.25, 15.0


def episode(rng: Rng, seconds: float) -> Counter[str]:
    """Start processes until the time is up, damaging what they share."""
    done, seed = Counter[str](), int(rng.integers(1 << 30))
    with tempfile.TemporaryDirectory() as scratch:
        undisturbed = os.environ.get("FASTGRAD_CACHE_DIR") or Path(scratch, "undisturbed")
        expected = Process(seed, Path(undisturbed), scratch).result()
        place, running = Path(scratch, "disturbed"), list[Process]()
        end = time.monotonic() + seconds
        while running or time.monotonic() < end:
            while len(running) < PROCESSES and time.monotonic() < end:
                is_killed = rng.random() < KILLED
                life = float(rng.uniform(0, KILL_SECONDS)) if is_killed else np.inf
                running.append(Process(seed, place, scratch, life))
            with contextlib.suppress(OSError, ValueError):  # there is nothing left to damage
                FAULTS[rng.integers(len(FAULTS))](rng, place)
                done["damages"] += 1
            time.sleep(float(rng.exponential(0.3)))
            for process in [own for own in running if own.has_ended()]:
                running.remove(process)
                done["killed" if process.is_killed else "processes"] += 1
                got = expected if process.is_killed else process.result()
                if got != expected:
                    raise Fault(f"a process gave {got!r} instead of {expected!r}")
    return done


class Process:
    """A process that computes, with `place` as its cache folder and all others in `scratch`."""

    def __init__(self, seed: int, place: Path, scratch: str, life: float = np.inf):
        elsewhere = {"TMPDIR": scratch, "HOME": scratch, "XDG_CACHE_HOME": ""}
        # `_end` closes them.
        self._files = [tempfile.TemporaryFile("w+") for _ in range(2)]  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tools.stress.cache_faults", str(seed)],
            env={**os.environ, "FASTGRAD_CACHE_DIR": str(place), **elsewhere},
            stdout=self._files[0],
            stderr=self._files[1],
        )
        self._start, self._life = time.monotonic(), life
        self.is_killed = False

    def has_ended(self) -> bool:
        """Whether it has, by itself or because its life, or our patience, is over."""
        age = time.monotonic() - self._start
        if self._process.poll() is None and age > self._life:
            self.is_killed = True
            self._end()
        return self._process.poll() is not None or age > PATIENCE

    def _end(self) -> list[str]:
        """Its output and errors."""
        self._process.kill()
        self._process.wait()
        texts = []
        for file in self._files:
            file.seek(0)
            texts.append(file.read())
            file.close()
        return texts

    def result(self) -> str:
        """What it printed.

        Raises
        ------
        Fault
            If it does not end well in time, or complains of more than one thing.
        """
        try:
            code = self._process.wait(timeout=self._start + PATIENCE - time.monotonic())
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGUSR1)  # the stacks of its threads
            time.sleep(1)
            raise Fault("a process hangs:\n" + "".join(self._end())) from None
        output, errors = self._end()
        # A warning is a line, and the line of the program that it is about.
        if code or len(errors.splitlines()) > 2 or ("Warning" not in errors and errors):
            raise Fault(f"a process ended with exit code {code}:\n{errors}")
        return output


# --- What may happen to the folder -----------------------------------------------------------------


def _file(rng: Rng, place: Path, pattern: str = "*") -> Path:
    """A random one; raises ValueError where there is none."""
    files = sorted(path for path in place.glob(pattern) if path.is_file())
    return files[rng.integers(len(files))]


def _cut(rng: Rng, place: Path) -> None:
    path = _file(rng, place)
    os.truncate(path, int(rng.integers(0, path.stat().st_size + 1)))


def _flip(rng: Rng, place: Path) -> None:
    path = _file(rng, place)
    content = bytearray(path.read_bytes())
    content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    path.write_bytes(content)


def _swap(rng: Rng, place: Path) -> None:
    """Another file's content, sealed as it is: another kernel, perhaps with the same arguments."""
    path = _file(rng, place)
    path.write_bytes(_file(rng, place, f"*{path.suffix}").read_bytes())


def _becoming(make: Callable[[Path], object]) -> Callable[[Rng, Path], None]:
    def replace(rng: Rng, place: Path) -> None:
        path = _file(rng, place)
        path.unlink()
        make(path)

    return replace


def _folder_is_gone(rng: Rng, place: Path) -> None:
    shutil.rmtree(place)


def _folder_is_a_file(rng: Rng, place: Path) -> None:
    shutil.rmtree(place)
    place.write_text("not a folder")
    time.sleep(0.3)
    place.unlink()


def _folder_is_read_only(rng: Rng, place: Path) -> None:
    """For everybody but root."""
    place.chmod(0o555)
    time.sleep(0.3)
    place.chmod(0o755)


_FILE_FAULTS: tuple[Callable[[Rng, Path], object], ...] = (
    *(_cut, _flip, _swap),
    lambda rng, place: os.truncate(_file(rng, place), 0),
    lambda rng, place: _file(rng, place).unlink(),
    lambda rng, place: _file(rng, place).write_bytes(rng.bytes(500)),
    lambda rng, place: _file(rng, place).chmod(0),
    _becoming(Path.mkdir),
    _becoming(lambda path: path.symlink_to("nowhere")),
    _becoming(lambda path: path.symlink_to(path)),
    _becoming(os.mkfifo),
)
FAULTS = (*_FILE_FAULTS, *_FILE_FAULTS, _folder_is_read_only, _folder_is_gone, _folder_is_a_file)


def _compute(seed: int) -> None:
    """A process's work, a little different from each other's order."""
    import fastgrad

    from .works import Work

    faulthandler.register(signal.SIGUSR1, all_threads=True)
    works = [Work(np.random.default_rng([seed, index])) for index in range(2)]
    results = {}
    for index in np.random.default_rng(os.getpid()).permutation(len(works)):
        results[int(index)] = works[index]()
        fastgrad.set_num_threads(2)
    print([results[index] for index in range(len(works))])


if __name__ == "__main__":
    _compute(int(sys.argv[1]))
