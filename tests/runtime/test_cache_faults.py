"""Whatever is wrong with the cache or its folder, every process computes the right answer.

B64 (installs and places that cannot be written) and B65 (damage and races) of the faults that users of
Numba's own cache have met. Each case runs in processes of its own, with a deadline.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import fastgrad
from processes import FORK, run_python

PACKAGE = Path(fastgrad.__file__).parent

#: No folder is named, and there is no home.
NOWHERE = {
    "FASTGRAD_CACHE_DIR": "",
    "NUMBA_CACHE_DIR": "",
    "XDG_CACHE_HOME": "",
    "HOME": "/nonexistent",
}

#: The child's work: `setup` is done before fastgrad is imported, `size` elements are computed.
WORK = """
import json, os, sys, tempfile, warnings
{setup}
import numpy as np
import fastgrad

complaints = []
warnings.simplefilter("always", RuntimeWarning)
warnings.showwarning = lambda message, *_: complaints.append(str(message))

x = np.linspace(-3, 3, {size}, dtype=np.float32)
if not abs(fastgrad.{operator}(x) - {expected}).max() < 1e-6:  # no assert: there is python -O
    sys.exit("wrong results")

found = fastgrad.cache.info()
print(json.dumps(dict(
    folder=str(found.folder), compiled=found.compiled, loaded=found.loaded, complaints=complaints,
    package=fastgrad.__file__, modules=[name for name in sys.modules if "fastgrad" not in name],
)))
"""
SIGMOID = {"operator": "sigmoid", "expected": "1 / (1 + np.exp(-x))"}
SILU = {"operator": "silu", "expected": "x / (1 + np.exp(-x))"}

#: Elements that need one kernel, and that need a launch and a pool of threads too.
SMALL, LARGE = 100, 1 << 18


def work(setup: str = "", *, size: int = SMALL, what=SIGMOID, **environment: str):
    """What a process reports that computes `size` elements."""
    code = WORK.format(setup=setup, size=size, **what)
    return SimpleNamespace(**json.loads(run_python(code, **environment)))


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """The first process of all, on an empty folder."""
    folder = tmp_path_factory.mktemp("first")
    report = work(size=LARGE, FASTGRAD_CACHE_DIR=str(folder), OMP_NUM_THREADS="2")
    assert report.compiled > 3 and report.loaded == 0 and report.complaints == []
    report.files = folder
    return report


@pytest.fixture
def base() -> Iterator[Path]:
    """A folder that other users can reach, unlike pytest's."""
    path = Path(tempfile.mkdtemp(prefix="fastgrad-test-"))
    path.chmod(0o755)
    yield path
    for folder in [path, *(entry for entry in path.rglob("*") if entry.is_dir())]:
        folder.chmod(0o755)
    shutil.rmtree(path)


def as_another_user(first, base: Path) -> str:
    """Code after which the process is an ordinary user's, with a read-only install: root may write all.

    What it will import is imported before: the interpreter may lie where that user cannot read.
    """
    site = copy_of_package(base / "site")
    make_read_only(site)
    return f"""
import importlib
for name in {[*first.modules, "tempfile", "pkgutil"]}:
    if name not in sys.modules:
        try:
            importlib.import_module(name)
        except ImportError:
            pass
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
sys.path.insert(0, {str(site)!r})
"""


def make_read_only(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)


def give_away(folder: Path) -> None:
    """Make the folder and what is in it the property of the user of `as_another_user`."""
    if os.geteuid() == 0:
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, 65534, 65534, follow_symlinks=False)


def copy_of_package(target: Path) -> Path:
    unneeded = shutil.ignore_patterns("bench", "demo", "__pycache__")
    shutil.copytree(PACKAGE, target / "fastgrad", ignore=unneeded)
    return target


def folder_for_temporary_files(base: Path) -> Path:
    path = base / "tmp"
    path.mkdir()
    path.chmod(0o1777)
    return path


# --- B64: where nothing can be written ------------------------------------------------------------


@pytest.mark.parametrize("optimised", [False, True])
def test_B64_read_only_install_no_home(first, base, optimised):
    """Another user's process, in a container as it were; also with python -OO and no bytecode."""
    temporary = folder_for_temporary_files(base)
    environment = {**NOWHERE, "TMPDIR": str(temporary)}
    if optimised:
        environment |= {"PYTHONOPTIMIZE": "2", "PYTHONDONTWRITEBYTECODE": "1"}
    setup = as_another_user(first, base)
    size = SMALL if optimised else LARGE
    cold = work(setup, size=size, **environment)
    assert Path(cold.package).is_relative_to(base)
    assert cold.complaints == []
    assert cold.compiled > 0
    assert Path(cold.folder).parent == temporary
    assert stat.S_IMODE(os.stat(cold.folder).st_mode) == 0o700
    again = work(setup, size=size, **environment)
    assert (again.compiled, again.loaded) == (0, cold.compiled)
    assert not list(base.rglob("__pycache__"))


def test_B64_nowhere_to_write(first, base):
    """No home, no folder for temporary files: one warning, right results."""
    setup = as_another_user(first, base) + "tempfile.tempdir = '/nonexistent'"
    report = work(setup, **NOWHERE)
    assert report.folder == "None"
    assert len(report.complaints) == 1
    for part in ("/nonexistent", "FASTGRAD_CACHE_DIR", "cannot keep compiled kernels"):
        assert part in report.complaints[0]


def test_B64_full_disk(tmp_path):
    """Files may have 4 KiB: sources are kept, machine code is not. One warning, no remains."""
    setup = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))"
    report = work(setup, FASTGRAD_CACHE_DIR=str(tmp_path))
    assert len(report.complaints) == 1 and f"no space in {tmp_path}" in report.complaints[0]
    assert {path.suffix for path in tmp_path.iterdir()} == {".py"}


def test_B64_read_only_warm_folder_is_read(first, base):
    """As in a container image: what is there is loaded; what is not goes to a folder of the user's."""
    image = base / "image"
    shutil.copytree(first.files, image)
    make_read_only(image)
    temporary = folder_for_temporary_files(base)
    environment = {**NOWHERE, "FASTGRAD_CACHE_DIR": str(image), "TMPDIR": str(temporary)}
    setup = as_another_user(first, base)
    report = work(setup, size=LARGE, OMP_NUM_THREADS="2", **environment)
    assert (report.compiled, report.loaded) == (0, first.compiled)
    new = work(setup, what=SILU, **environment)
    assert (new.compiled, Path(new.folder).parent) == (1, temporary)
    assert work(setup, what=SILU, **environment).loaded == 1


def test_B64_read_only_warm_folder_and_nowhere_to_write(first, base):
    """Nothing to complain of as long as nothing is to be kept."""
    shutil.copytree(first.files, base / "image")
    make_read_only(base / "image")
    setup = as_another_user(first, base) + "tempfile.tempdir = '/nonexistent'"
    report = work(setup, **{**NOWHERE, "FASTGRAD_CACHE_DIR": str(base / "image")})
    assert (report.compiled, report.loaded, report.complaints) == (0, 1, [])


def test_B64_imported_from_a_zip(first, tmp_path):
    """Kernels of an archive are named as those of the folder that it was made of."""
    archive = tmp_path / "fastgrad.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in PACKAGE.rglob("*.py"):
            file.write(path, path.relative_to(PACKAGE.parent))
    setup = f"sys.path.insert(0, {str(archive)!r})"
    folder = str(tmp_path / "cache")
    cold = work(setup, size=LARGE, FASTGRAD_CACHE_DIR=folder, OMP_NUM_THREADS="2")
    assert cold.package.startswith(str(archive))
    assert cold.compiled == first.compiled
    assert names_in(Path(folder)) == names_in(first.files)
    again = work(setup, size=LARGE, FASTGRAD_CACHE_DIR=folder, OMP_NUM_THREADS="2")
    assert (again.compiled, again.loaded) == (0, first.compiled)


def test_B64_bytecode_alone(tmp_path):
    """As in a frozen application, which has no sources to tell versions apart by."""
    site = copy_of_package(tmp_path / "site")
    compile_all = "import compileall; compileall.compile_dir({!r}, quiet=2, legacy=True)"
    run_python(compile_all.format(str(site)))
    for path in site.rglob("*.py"):
        path.unlink()
    setup = f"sys.path.insert(0, {str(site)!r})"
    cold, warm = (work(setup, FASTGRAD_CACHE_DIR=str(tmp_path / "cache")) for _ in range(2))
    assert cold.package.endswith(".pyc")
    assert (cold.compiled, warm.compiled, warm.loaded) == (1, 0, 1)


def test_B64_privileges_dropped_while_running(base):
    """A server that begins as root: its folder is out of reach afterwards, and another one is used."""
    home = base / "home"
    home.mkdir(mode=0o700)
    temporary = folder_for_temporary_files(base)
    code = f"""
import os
from fastgrad.runtime import cache
path = cache.publish("name", cache.seal("name", b"x"))
assert path.is_relative_to({str(home)!r}), path
if os.geteuid() == 0:
    os.setuid(65534)
else:
    os.chmod({str(home)!r}, 0)
assert cache.load("name") is None
assert cache.publish("name", cache.seal("name", b"y")).parent == cache.folder()
assert cache.folder().parent == type(path)({str(temporary)!r}), cache.folder()
assert cache.load("name") == b"y"
"""
    run_python(code, **{**NOWHERE, "HOME": str(home), "TMPDIR": str(temporary)})


# --- B65: damage ----------------------------------------------------------------------------------


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("part", [0, 0.5])
def test_B65_every_file_truncated(first, tmp_path, part):
    folder = tmp_path / "cache"
    shutil.copytree(first.files, folder)
    for path in folder.iterdir():
        os.truncate(path, int(path.stat().st_size * part))
    size = LARGE if part else SMALL
    damaged = work(size=size, FASTGRAD_CACHE_DIR=str(folder), OMP_NUM_THREADS="2")
    assert (damaged.compiled, damaged.loaded) == (first.compiled if part else 1, 0)
    again = work(size=size, FASTGRAD_CACHE_DIR=str(folder), OMP_NUM_THREADS="2")
    assert (again.compiled, again.loaded) == (0, damaged.compiled)


def test_B65_unreadable(first, base):
    """Every file, as an ordinary user sees it: compiled again, and replaced. Then the folder."""
    folder = base / "cache"
    shutil.copytree(first.files, folder)
    give_away(folder)
    for path in folder.iterdir():
        path.chmod(0)
    temporary = folder_for_temporary_files(base)
    setup = as_another_user(first, base)
    environment = {**NOWHERE, "FASTGRAD_CACHE_DIR": str(folder), "TMPDIR": str(temporary)}
    report = work(setup, **environment)
    assert (report.folder, report.compiled, report.complaints) == (str(folder), 1, [])
    assert work(setup, **environment).loaded == 1
    folder.chmod(0)
    report = work(setup, **environment)
    assert (Path(report.folder).parent, report.compiled) == (temporary, 1)
    assert report.complaints == []


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_B65_pipe_or_folder_in_its_place(first, tmp_path, make):
    for name in names_in(first.files):
        make(tmp_path / name)
    report = work(FASTGRAD_CACHE_DIR=str(tmp_path))
    assert (report.compiled, report.complaints) == (1, [])
    if make is os.mkfifo:  # whoever put folders there has to take them away
        assert work(FASTGRAD_CACHE_DIR=str(tmp_path)).loaded == 1


def test_B65_anything_in_its_place(tmp_path):
    code = """
import os, shutil
from fastgrad.runtime import cache
name = f"operator_{0:020x}.tiles.bin"
path = cache.folder() / name
content = cache.seal(name, b"x")
whole = cache.folder() / "whole"
whole.write_bytes(content)
kinds = {
    "nothing": lambda: None,
    "a pipe": lambda: os.mkfifo(path),
    "a folder": lambda: os.mkdir(path),
    "a link to nothing": lambda: path.symlink_to("nothing"),
    "a link to itself": lambda: path.symlink_to(name),
    "a link to a device": lambda: path.symlink_to("/dev/zero"),
    "a link to a folder": lambda: path.symlink_to("/"),
    "text": lambda: path.write_text("text"),
}
for kind, make in kinds.items():
    make()
    assert cache.load(name) is None, kind
    assert cache.keep(name, content) == (None if kind == "a folder" else path), kind
    assert cache.load(name) == (None if kind == "a folder" else b"x"), kind
    assert kind == "a folder" or not path.is_symlink()
    os.rmdir(path) if kind == "a folder" else path.unlink()
path.symlink_to(whole)  # a user may have reasons
assert cache.load(name) == b"x"
"""
    run_python(code, FASTGRAD_CACHE_DIR=str(tmp_path))


def test_B65_folder_deleted_while_running(tmp_path):
    """Also between a file's being written and its getting its name."""
    code = """
import os, shutil
from fastgrad.runtime import cache
name = f"operator_{0:020x}.tiles.bin"
replace = os.replace
def delete_first(*arguments):
    os.replace = replace
    shutil.rmtree(cache.folder())
    replace(*arguments)
for _ in range(3):
    os.replace = delete_first
    assert cache.publish(name, cache.seal(name, b"x")) == cache.folder() / name
    assert cache.load(name) == b"x"
    assert os.listdir(cache.folder()) == [name]
"""
    run_python(code, FASTGRAD_CACHE_DIR=str(tmp_path / "cache"))


# --- B65: races -----------------------------------------------------------------------------------


def test_B65_publish_load_evict_and_clear_at_once(tmp_path):
    """Processes and threads that get in each other's way: whatever is loaded is whole."""
    code = """
import os, random, warnings
from concurrent.futures import ThreadPoolExecutor
from fastgrad.runtime import cache


def contents(number):
    return bytes([number]) * (500 + number)

def use(seed):
    draw = random.Random(seed)
    for step in range(400):
        number = draw.randrange(20)
        name = f"operator_{number:020x}.tiles.bin"
        payload = cache.load(name)
        assert payload in (None, contents(number))
        cache.publish(name, cache.seal(name, contents(number)))
        if step % 100 == 50:
            cache.clear()
    return True

def child(seed):
    code = 1
    try:
        with ThreadPoolExecutor(2) as threads:
            code = 0 if all(threads.map(use, (seed, seed + 1))) else 2
    finally:
        os._exit(code)

pids = [os.fork() or child(seed) for seed in range(0, 8, 2)]
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
assert codes == [0] * 4, codes
assert cache.usage()[1] <= 5000 + 4 * 5000 / 16 + 2000, cache.usage()
assert not [name for name in os.listdir(cache.folder()) if name.endswith(".part")]
"""
    run_python(code, FASTGRAD_CACHE_DIR=str(tmp_path), FASTGRAD_CACHE_LIMIT="5000")


RACE = (
    FORK
    + """
import random, select, signal, sys, time
import numpy as np
import fastgrad
from fastgrad.runtime import cache, compiler
from fastgrad.runtime.cache import files
from fastgrad.runtime.modules import load_module

ROUNDS, PROCESSES, DEADLINE = 20, 8, 120
draw = random.Random(65)

SOURCE = '''
from fastgrad.runtime.compiler import kernel

@kernel("int64, {type}[::1]")
def scale(count, x):
    for i in range(count):
        x[i] = x[i] * {factor} + 1.0
    return True
'''

def small(type, factor=2.0):
    '''A generated module whose kernel takes a tenth of an operator's time to compile.'''
    x = np.arange(1000, dtype=type)
    load_module(f"scale_{type}", SOURCE.format(type=type, factor=factor)).scale.entry(len(x), x)
    return (x == np.arange(1000) * factor + 1.0).all()

def whole(type):
    x = np.linspace(-3, 3, 1000, dtype=type)
    return abs(fastgrad.sigmoid(x) - 1 / (1 + np.exp(-x))).max() < 1e-6

def seconds(work, type):
    begin = time.perf_counter()
    assert work(type)
    return time.perf_counter() - begin

# What Numba imports and sets up when it first compiles, and the functions that operators share: the
# children have no more to do than what they race for.
fastgrad.gelu(np.ones(9, np.float32))
small("float64")
typical = {
    whole: seconds(lambda type: fastgrad.silu(np.ones(9, type)).any(), "float32"),
    small: seconds(lambda type: small(type, 4.0), "float64"),
}

def later(delay, work):
    time.sleep(delay)
    return work("float32")

def victim(tell, work, while_writing):
    '''Say when compiling begins and ends, then wait to be killed.'''
    compile, write = compiler.Kernel._compile, files._write

    def compile_and_tell(kernel):
        os.write(tell, b"begin\\n")
        result = compile(kernel)
        os.write(tell, b"end\\n")
        return result

    def write_half(place, name, content):
        if not name.endswith(".bin"):
            return write(place, name, content)
        part = place / f"{name}.{os.getpid()}.1.part"
        part.write_bytes(content[: len(content) // 2])
        os.write(tell, b"writing\\n")
        signal.pause()

    compiler.Kernel._compile = compile_and_tell
    if while_writing:
        files._write = write_half
    work("float32")
    signal.pause()

def wait_for(listen, word):
    '''What the victim has said up to this word.'''
    said, end = b"", time.monotonic() + DEADLINE
    while word not in said:
        assert select.select([listen], [], [], max(0, end - time.monotonic()))[0], said
        said += os.read(listen, 100)
    return said

def codes(pids):
    '''The exit codes of children, each of which is to end by itself in time.'''
    end, found = time.monotonic() + DEADLINE, {}
    while len(found) < len(pids):
        for pid in set(pids) - set(found):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                found[pid] = os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            for pid in set(pids) - set(found):
                os.kill(pid, signal.SIGKILL)
            sys.exit(f"processes hang: {set(pids) - set(found)}")
        time.sleep(0.005)
    return [found[pid] for pid in pids]

def race(number):
    '''Whether the victim was killed while it compiled, or wrote.'''
    os.environ["FASTGRAD_CACHE_DIR"] = os.path.join(sys.argv[1], str(number))
    work = whole if number % 10 == 0 else small
    while_writing = number % 4 == 3
    listen, tell = os.pipe()
    dying = fork(lambda: victim(tell, work, while_writing))
    # Half of the others begin at once, half when the first files may be there.
    delays = [0] * 4 + [draw.uniform(0, 6 * typical[work]) for _ in range(PROCESSES - 5)]
    others = [fork(lambda: later(delay, work)) for delay in delays]
    said = wait_for(listen, b"writing" if while_writing else b"begin")
    if not while_writing:
        time.sleep(draw.uniform(0, typical[work]))
    os.kill(dying, signal.SIGKILL)
    assert codes([dying]) == [-signal.SIGKILL]
    assert codes(others) == [0] * len(others), "see above"
    os.close(tell)
    said += os.read(listen, 100)  # nobody is left who could say more
    os.close(listen)

    def find():
        before = cache.counts()[0]
        return work("float32") and cache.counts()[0] == before

    assert codes([fork(find)]) == [0], "the next process found nothing"
    return b"end" not in said

killed_early = sum(race(number) for number in range(ROUNDS))
assert killed_early >= ROUNDS // 2, killed_early
"""
)


def test_B65_eight_processes_race_on_an_empty_cache(tmp_path):
    """Twenty rounds; one process is killed while it compiles, or with a file half written.

    The processes are forks of one that has imported Numba: they begin at the same moment.
    """
    code = f"import sys; sys.argv = ['', {str(tmp_path)!r}]\n" + RACE
    run_python(code, seconds=280, FASTGRAD_CACHE_DIR=str(tmp_path / "warm"), OMP_NUM_THREADS="1")
