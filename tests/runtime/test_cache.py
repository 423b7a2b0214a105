"""The kernel cache: what is found again, where it lies, how it stays small, and what it reports."""

from __future__ import annotations

import errno
import io
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import pytest

import fastgrad.cache
from fastgrad.runtime import cache
from fastgrad.runtime.cache import complaint, files, places, size

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
print(fastgrad.cache.folder(), len(recorder.buffer))
"""


def run(folder: Path, code: str = CODE, **environment: str) -> tuple[str, int]:
    """The folder that a new process used, and how often it compiled something."""
    full = {**os.environ, "FASTGRAD_CACHE_DIR": str(folder), **environment}
    done = subprocess.run(
        [sys.executable, "-c", code], env=full, capture_output=True, text=True, timeout=300
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


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """The folder of this process for one test, with counts and warnings of its own."""
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "FASTGRAD_CACHE_LIMIT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FASTGRAD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(complaint, "_has_warned", False)
    monkeypatch.setattr(size, "_budgets", {})
    monkeypatch.setattr(files, "_compiled", set())
    monkeypatch.setattr(files, "_loaded", set())
    return tmp_path / "cache"


def name_of(number: int, end: str = ".tiles.bin") -> str:
    return f"some_operator_float32_{number:020x}{end}"


def publish(number: int, length: int, age: float = 0.0, end: str = ".tiles.bin") -> Path:
    """Publish a kernel that fills `length` bytes and was used `age` seconds ago."""
    name = name_of(number, end)
    sealed = cache.seal(name, bytes(length - len(cache.seal(name, b""))))
    path = cache.publish(name, sealed)
    assert path is not None
    os.utime(path, (time.time() - age,) * 2)
    return path


# --- Found again ----------------------------------------------------------------------------------


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


def test_eviction_knows_every_file_by_its_name(warm):
    """What a name of fastgrad's is: were one not, it would stay for ever."""
    names = [path.name for path in warm.iterdir()]
    assert {name.partition("_")[0] for name in names} == {"launch", "pool", "silu"}
    assert len(size._files(warm)) == len(names)


def test_another_program_in_a_file(warm, tmp_path):
    """Sealed, but nothing that can be unpickled. (Cut off, unreadable: test_cache_faults.py.)"""
    for path in warm.iterdir():
        damaged = path.suffix == ".bin" and path.name.startswith("silu")
        content = cache.seal(path.name, b"\x80\x04}.") if damaged else path.read_bytes()
        (tmp_path / path.name).write_bytes(content)
    place, compiled = run(tmp_path)
    assert place == str(tmp_path)
    assert compiled > 0
    assert run(tmp_path)[1] == 0  # and they are replaced


def test_seal_and_load(tmp_path, monkeypatch):
    monkeypatch.setattr(places, "folder", lambda: tmp_path)
    assert cache.load("name") is None
    sealed = cache.seal("name", b"payload")
    cache.publish("name", sealed)
    assert cache.load("name") == b"payload"
    other = cache.seal("another name", b"payload")
    for content in (b"", b"payload", sealed[:-1], sealed + b"x", sealed[:-1] + b"D", other):
        cache.publish("name", content)
        assert cache.load("name") is None


def test_keep_replaces_what_differs(place):
    path = cache.keep(name_of(1, ".py"), b"x = 1\n")
    assert path == place / name_of(1, ".py")
    written = path.stat().st_ino
    assert cache.keep(path.name, b"x = 1\n") == path
    assert path.stat().st_ino == written
    path.write_bytes(b"")
    assert cache.keep(path.name, b"x = 1\n") == path
    assert path.read_bytes() == b"x = 1\n"


def test_digest_separates_its_parts():
    assert cache.digest("ab", "c") != cache.digest("a", "bc")


# --- Where ----------------------------------------------------------------------------------------

WHERE = "import fastgrad; print(fastgrad.cache.folder(), 0)"


@pytest.fixture
def unnamed(place, tmp_path, monkeypatch):
    """Neither FASTGRAD_CACHE_DIR nor NUMBA_CACHE_DIR; a home and a folder for temporary files."""
    monkeypatch.delenv("FASTGRAD_CACHE_DIR")
    for name in ("home", "temporary"):
        (tmp_path / name).mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path


def make_foreign(path: Path, monkeypatch) -> None:
    """Let another user own the folder, as far as this process can tell."""
    if os.geteuid() == 0:
        os.chown(path, 4242, 4242)
    else:
        other = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: other)


def private(temporary: Path) -> Path:
    return temporary / f"fastgrad-{os.geteuid()}"


def test_unwritable_folder_falls_back(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    other = tmp_path / "xdg"
    place, _ = run(blocked, WHERE, NUMBA_CACHE_DIR="", XDG_CACHE_HOME=str(other))
    assert place == str(other / "fastgrad")
    assert other.joinpath("fastgrad").stat().st_mode & 0o777 == 0o700


def test_numba_cache_dir_is_respected(tmp_path):
    place, _ = run(Path("/proc/none"), WHERE, NUMBA_CACHE_DIR=str(tmp_path))
    assert place == str(tmp_path / "fastgrad")


def test_home_is_used_but_never_made(unnamed, monkeypatch):
    assert cache.folder() == unnamed / "home" / ".cache" / "fastgrad"
    monkeypatch.setenv("HOME", str(unnamed / "nobody"))
    assert cache.folder() == private(unnamed / "temporary")
    assert not (unnamed / "nobody").exists()


def test_relative_folder_stays_where_it_was(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FASTGRAD_CACHE_DIR", "relative")
    assert cache.folder() == tmp_path / "relative"
    monkeypatch.chdir("/")
    assert cache.folder() == tmp_path / "relative"


@pytest.mark.parametrize("owned", [".", ".cache", ".cache/fastgrad"])
def test_home_of_another_user_is_left_alone(unnamed, monkeypatch, owned):
    """As after ``sudo`` that keeps HOME."""
    home = unnamed / "home"
    (home / owned).mkdir(parents=True, exist_ok=True)
    before = sorted(home.rglob("*"))
    make_foreign(home / owned, monkeypatch)
    assert home not in (cache.folder() or Path("/")).parents
    assert sorted(home.rglob("*")) == before


def test_folder_that_another_user_named_for_us_is_trusted(place, monkeypatch):
    published = publish(1, 100)
    make_foreign(place, monkeypatch)
    make_foreign(published, monkeypatch)
    assert cache.load(published.name) is not None


def test_file_of_another_user_is_a_miss(unnamed, monkeypatch):
    published = publish(1, 100)
    assert cache.load(published.name) is not None
    place = cache.folder()
    monkeypatch.setattr(places, "folder", lambda: place)  # trusted until now
    make_foreign(published, monkeypatch)
    assert cache.load(published.name) is None


def test_temporary_folder_is_private(unnamed, monkeypatch):
    monkeypatch.setenv("HOME", "/nonexistent")
    assert cache.folder() == private(unnamed / "temporary")
    assert private(unnamed / "temporary").stat().st_mode & 0o777 == 0o700


def test_temporary_folder_that_others_prepared_is_refused(unnamed, monkeypatch):
    monkeypatch.setenv("HOME", "/nonexistent")
    mine = private(unnamed / "temporary")

    def is_refused() -> bool:
        places._places.cache_clear()
        return cache.folder() is None

    target = unnamed / "target"
    target.mkdir(mode=0o700)
    mine.symlink_to(target)
    assert is_refused()
    mine.unlink()
    mine.mkdir()
    mine.chmod(0o770)
    assert is_refused()
    mine.chmod(0o700)
    assert not is_refused()
    (unnamed / "temporary").chmod(0o777)  # anybody may rename what is in it
    assert is_refused()
    (unnamed / "temporary").chmod(0o1777)
    assert not is_refused()
    make_foreign(mine, monkeypatch)
    monkeypatch.setattr(places, "_candidates", _only(mine))
    assert is_refused()


def _only(path: Path):
    def candidates(*surroundings):
        yield places._Candidate(path, False, places._not_private)

    return candidates


def test_deleted_folder_is_made_again(place):
    publish(1, 100)
    for path in place.iterdir():
        path.unlink()
    place.rmdir()
    assert publish(2, 100).exists()
    assert cache.load(name_of(1)) is None
    assert cache.load(name_of(2)) is not None


def test_no_folder_at_all(place, monkeypatch):
    """One warning, which says what was tried and what helps."""
    monkeypatch.setenv("FASTGRAD_CACHE_DIR", "/proc/none")
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setattr(tempfile, "tempdir", "/proc/none")
    assert cache.folder() is None
    assert cache.load("name") is None
    with pytest.warns(
        RuntimeWarning, match="/proc/none .*/proc/none/fastgrad-.*FASTGRAD_CACHE_DIR"
    ):
        assert cache.publish("name", b"") is None
    assert cache.publish("name", b"") is None
    assert fastgrad.cache.clear() == 0
    assert str(fastgrad.cache.info()).startswith("no folder can be written: 0 files")


class _FullDisk(io.BytesIO):
    """A file that takes eight bytes."""

    def write(self, content):
        if len(content) > 8:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(content)


def test_no_space(place, monkeypatch):
    """One warning; nothing half written is left; and it goes on once there is space."""
    cache.folder()

    def full(path, mode, **options):
        Path(path).touch()
        return _FullDisk()

    with monkeypatch.context() as patch:
        patch.setattr(files, "open", full, raising=False)
        with pytest.warns(RuntimeWarning, match="no space in .*FASTGRAD_CACHE_DIR"):
            assert cache.publish(name_of(1), bytes(100)) is None
        assert cache.publish(name_of(2), bytes(100)) is None
    assert list(place.iterdir()) == []
    assert publish(3, 100).exists()


# --- Size -----------------------------------------------------------------------------------------


def files_in(place: Path) -> set[str]:
    return {path.name for path in place.iterdir()}


def test_least_recently_used_is_evicted(place, monkeypatch):
    monkeypatch.setenv("FASTGRAD_CACHE_LIMIT", "10000")
    for number in range(9):
        publish(number, 1000, age=10_000 * (10 - number))
    assert len(files_in(place)) == 9
    assert cache.load(name_of(0)) is not None  # the oldest is in use
    publish(9, 2000)
    # From 11,000 bytes to 7,500 at most.
    assert files_in(place) == {name_of(number) for number in (0, 5, 6, 7, 8, 9)}


def test_files_of_a_module_go_together(place, monkeypatch):
    monkeypatch.setenv("FASTGRAD_CACHE_LIMIT", "10000")
    publish(1, 1000, age=90_000, end=".run.bin")
    publish(1, 1000, age=10_000, end=".stop.bin")
    publish(2, 4000, age=50_000)
    publish(3, 5000)
    assert files_in(place) == {name_of(1, ".run.bin"), name_of(1, ".stop.bin"), name_of(3)}


def test_what_was_just_published_stays(place, monkeypatch):
    monkeypatch.setenv("FASTGRAD_CACHE_LIMIT", "10000")
    publish(1, 1000, age=90_000)
    assert publish(2, 9500).exists()
    assert files_in(place) == {name_of(2)}
    assert cache.publish(name_of(3), bytes(10_001)) is None


def test_size_is_bounded_however_many_are_published(place, monkeypatch):
    monkeypatch.setenv("FASTGRAD_CACHE_LIMIT", "100000")
    scans = []
    evict = size._evict
    monkeypatch.setattr(size, "_evict", lambda *args: scans.append(1) or evict(*args))
    for number in range(300):
        publish(number, 1000)
        assert cache.usage()[1] <= 100_000
    assert 75 <= cache.usage()[0] <= 100
    assert len(scans) < 60  # and the folder is not looked through at each


def test_only_files_of_ours_are_removed(place, monkeypatch):
    cache.folder()
    foreign = [
        "notes.txt",
        "silu.py",
        "model_0123456789abcdef0123.tiles.bin.bak",
        "model_0123456789abcdef012.tiles.bin",
        "model_0123456789ABCDEF0123.tiles.bin",
        "0model_0123456789abcdef0123.py",
        "my-model_0123456789abcdef0123.py",
        "model_0123456789abcdef0123.bin",
        "model_0123456789abcdef0123.tiles.bin.part",
        "anything.1.2.part",
    ]
    for name in foreign:
        (place / name).write_bytes(bytes(1000))
        os.utime(place / name, (0, 0))
    folder = place / name_of(7)
    folder.mkdir()
    link = place / name_of(8)
    link.symlink_to(place / "notes.txt")
    monkeypatch.setenv("FASTGRAD_CACHE_LIMIT", "3000")
    for number in range(5):
        publish(number, 1000, age=10_000 * (9 - number))
    assert fastgrad.cache.clear() == 3
    assert files_in(place) == {*foreign, folder.name, link.name}


@pytest.mark.parametrize(
    "stem", ["a", "_x9", "größe", "silu_grad_x_beta_float32", "launch_e4de4e69", "pool_kernels"]
)
def test_names_of_ours(place, stem):
    ends = [".py", ".tiles.bin", ".join_team.bin", ".tiles.bin.12.140245.part", ".py.1.2.part"]
    for end in ends:
        assert re.fullmatch(size._OURS, f"{stem}_0123456789abcdef0123{end}")


def test_remains_of_killed_processes_are_removed(place):
    cache.folder()
    for name, age in {".1.2.part": 4000, ".3.4.part": 100}.items():
        path = place / (name_of(1) + name)
        path.write_bytes(b"half")
        os.utime(path, (time.time() - age,) * 2)
    publish(2, 100)
    assert files_in(place) == {name_of(1) + ".3.4.part", name_of(2)}


@pytest.mark.parametrize("text", ["256M", "-1", "1e6", "1_000", "９", "nonsense", "1" * 30])
def test_limit_that_is_no_number_of_bytes(place, monkeypatch, text):
    monkeypatch.setenv("FASTGRAD_CACHE_LIMIT", text)
    with pytest.warns(RuntimeWarning, match="FASTGRAD_CACHE_LIMIT must be a number of bytes"):
        assert cache.limit() == cache.LIMIT
    assert cache.limit() == cache.LIMIT


def test_limit_of_nothing(place, monkeypatch):
    monkeypatch.setenv("FASTGRAD_CACHE_LIMIT", "0")
    assert cache.publish(name_of(1), b"x") is None
    assert files_in(place.parent) <= {"cache"}
    monkeypatch.setenv("FASTGRAD_CACHE_LIMIT", " 5000 ")
    assert cache.limit() == 5000
    monkeypatch.setenv("FASTGRAD_CACHE_LIMIT", "")
    assert cache.limit() == cache.LIMIT == 256 * 2**20


# --- The public module ----------------------------------------------------------------------------


def test_info_and_clear(place):
    publish(1, 1000)
    cache.keep(name_of(1, ".py"), bytes(500))
    cache.load(name_of(1))
    cache.load(name_of(2))  # a miss
    found = fastgrad.cache.info()
    assert found == fastgrad.cache.Info(
        folder=place, files=2, bytes=1500, limit=cache.LIMIT, compiled=1, loaded=0
    )
    files._compiled.clear()  # as in another process
    assert (fastgrad.cache.info().compiled, fastgrad.cache.info().loaded) == (0, 1)
    text = f"{place}: 2 files, 0.0 of 256.0 MiB; this process: 0 kernels compiled, 1 loaded"
    assert str(fastgrad.cache.info()) == text
    assert fastgrad.cache.folder() == place
    assert fastgrad.cache.clear() == 2
    assert fastgrad.cache.info().files == 0
    assert publish(1, 1000).exists()


def test_info_names_folders_that_are_read_only(place, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/proc/none")
    assert fastgrad.cache.info().read_only == (Path("/proc/none/fastgrad"),)
    assert str(fastgrad.cache.info()).endswith("; read only: /proc/none/fastgrad")


def test_one_warning_in_all(place, monkeypatch):
    monkeypatch.setenv("FASTGRAD_CACHE_LIMIT", "nonsense")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cache.limit()
        monkeypatch.setattr(places, "folder", lambda: None)
        cache.publish("name", b"")
    assert len(caught) == 1
