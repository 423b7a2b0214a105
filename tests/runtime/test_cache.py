"""The kernel cache: what is found again, and that nothing wrong in it ever surfaces."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastgrad.runtime import cache

CODE = """
import sys
import numpy as np
import fastgrad
assert "numba" not in sys.modules, "importing fastgrad must not import Numba"
from numba.core import event
with event.install_recorder("numba:compile") as recorder:
    x = np.linspace(-3, 3, 100, dtype=np.float32)
    assert abs(fastgrad.silu(x) - x / (1 + np.exp(-x))).max() < 1e-6
    assert abs(fastgrad.silu(np.ones(1 << 18, np.float32)) - 0.7310586).max() < 1e-6
print(fastgrad.runtime.cache.folder(), len(recorder.buffer))
"""


def run(folder: Path, **environment: str) -> tuple[str, int]:
    """The folder that a new process used, and how often it compiled something."""
    full = {**os.environ, "FASTGRAD_CACHE_DIR": str(folder), **environment}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env=full, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    place, count = done.stdout.split()
    return place, int(count)


@pytest.fixture(scope="module")
def warm(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    run(folder)
    return folder


def test_second_process_compiles_nothing(warm):
    before = {path: path.stat().st_mtime_ns for path in warm.iterdir()}
    assert run(warm) == (str(warm), 0)
    assert {path: path.stat().st_mtime_ns for path in warm.iterdir()} == before


def test_files_are_named_by_content_and_readable(warm):
    sources = list(warm.glob("silu_float32_*.py"))
    assert len(sources) == 1
    assert "y = Mul(x, v0)" in sources[0].read_text()
    assert sources[0].with_suffix(".tiles.bin").exists()
    assert not list(warm.glob("*.part"))


def test_damaged_files_are_a_miss(warm, tmp_path):
    """Each kernel in another way: cut off, of another program. (Empty and flipped: below.)"""
    for path in warm.iterdir():
        content = path.read_bytes()
        if path.suffix == ".bin":
            damaged = content[: len(content) // 2], cache.seal(b"\x80\x04}.")
            content = damaged[path.name.startswith("launch")]
        (tmp_path / path.name).write_bytes(content)
    place, compiled = run(tmp_path)
    assert place == str(tmp_path)
    assert compiled > 0
    assert run(tmp_path)[1] == 0  # and they are replaced


def test_unwritable_folder_falls_back(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    other = tmp_path / "xdg"
    place, _ = run(blocked, NUMBA_CACHE_DIR="", XDG_CACHE_HOME=str(other))
    assert place == str(other / "fastgrad")


def test_numba_cache_dir_is_respected(tmp_path):
    place, _ = run(Path("/proc/none"), NUMBA_CACHE_DIR=str(tmp_path))
    assert place == str(tmp_path / "fastgrad")


def test_seal_and_load(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    assert cache.load("name") is None
    sealed = cache.seal(b"payload")
    cache.publish("name", sealed)
    assert cache.load("name") == b"payload"
    for content in (b"", b"payload", sealed[:-1], sealed + b"x", sealed[:-1] + b"D"):
        cache.publish("name", content)
        assert cache.load("name") is None


def test_no_folder_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "folder", lambda: None)
    assert cache.publish("name", b"") is None
    assert cache.load("name") is None


def test_digest_separates_its_parts():
    assert cache.digest("ab", "c") != cache.digest("a", "bc")
