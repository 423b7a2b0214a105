"""The other peers: right results where their library is there, else a reason that says what to do.

None of them has to be installed. Each runs in a process of its own, as in `make compare`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import pytest

from fastgrad.bench.contenders import CONTENDERS, Contender
from fastgrad.bench.contenders.protocol import Readiness, Unsupported
from fastgrad.bench.families.activations import ACTIVATIONS
from fastgrad.bench.families.normalization import NORM_CALLS
from fastgrad.bench.forms import Rows
from fastgrad.bench.pool import Pool
from fastgrad.bench.workloads import MODES, Case

SHAPE = (3, 341)

# What each gives as the reason that it is missing, here or on another machine.
ADVICE = {
    "compiled": "C++ compiler",
    "jax": "jax is not installed: make peers",
    "mindspore": "mindspore is not installed: make peers",
    "autograd": "autograd is not installed: make peers",
}

# Absolute: PyTorch's own formula for gelu, for one, loses all digits of results near 0.
TOLERANCES = {"float64": 1e-6, "float32": 5e-6, "float16": 1e-2, "bfloat16": 5e-2}

# Sums over the batch add up the errors of hundreds of elements.
NORM_TOLERANCE = 5e-5

OTHERS = (
    *("elu_grad", "hardtanh_grad", "own_operator_forward_backward"),
    *("swiglu_packed_forward_backward", "add_gelu_forward_backward"),
)

LACKS_NORMS = {
    "compiled": (),
    "jax": (),
    "mindspore": ("group_norm_nhwc", "group_norm_nhwc_grad", "group_norm_large_grad"),
    "autograd": (
        *("group_norm_nhwc", "group_norm_nhwc_grad"),
        *(name for name, call in NORM_CALLS.items() if call.norm.has_residual),
    ),
}


def norm_case(name: str) -> Case:
    shape = (6, 341) if isinstance(NORM_CALLS[name].norm.form, Rows) else (2, 64, 3, 5)
    return Case(name, shape, "float32", "allocate")


class Peer:
    """One of the peers: its answers to "prepare", none at all if it is missing here."""

    def __init__(self, name: str, pool: Pool) -> None:
        self.name = name
        self._pool = pool

    def prepare(self, cases: Sequence[Case]) -> dict[Case, Readiness]:
        """The answers in those of `cases` that it takes part in."""
        if self.name in self._pool.missing:
            assert ADVICE[self.name] in self._pool.missing[self.name]
            return {}
        answers = {}
        for case in cases:
            try:
                answers[case] = self._pool[self.name].ask("prepare", case)
            except Unsupported:
                continue
        return answers

    def check(self, cases: Sequence[Case], expected: Sequence[Case]) -> None:
        """It takes part in `expected` and no other of `cases`, with right results."""
        answers = self.prepare(cases)
        assert not answers or set(answers) == set(expected)
        for case, answer in answers.items():
            limit = NORM_TOLERANCE if case.operator in NORM_CALLS else TOLERANCES[case.dtype]
            assert answer.accuracy.absolute < limit, case


@pytest.fixture(scope="module", params=ADVICE)
def peer(request) -> Iterator[Peer]:
    with Pool({request.param: CONTENDERS[request.param]}, threads=2, seed=0) as pool:
        yield Peer(request.param, pool)


def reason_of(contender: Contender) -> str:
    """Why `contender` is missing."""
    with Pool({"peer": contender}, threads=2, seed=0) as pool:
        return pool.missing["peer"]


class TestResults:
    def test_operators(self, peer):
        cases = [Case(operator, SHAPE, "float32", "allocate") for operator in ACTIVATIONS]
        peer.check(cases, cases)

    def test_norms(self, peer):
        """Few with a compiler, which takes seconds for each."""
        few = ("group_norm_swish_forward_backward", "add_rms_norm_grad")
        names = few if peer.name == "compiled" else NORM_CALLS
        cases = [norm_case(name) for name in names]
        peer.check(cases, [case for case in cases if case.operator not in LACKS_NORMS[peer.name]])

    def test_others(self, peer):
        """Few: their kernels take long to compile, and everyone prepares them in one way."""
        cases = [Case(name, SHAPE, "float32", "allocate") for name in OTHERS]
        takes_part = peer.name in ("compiled", "jax")
        peer.check(cases, cases if takes_part else [])
        for case, answer in peer.prepare(cases).items():
            compile(answer.code, str(case), "exec")

    def test_modes(self, peer):
        modes = MODES if peer.name == "jax" else ("out", "allocate")
        cases = {mode: Case("swish_grad", SHAPE, "float32", mode) for mode in MODES}
        peer.check(list(cases.values()), [cases[mode] for mode in modes])

    def test_dtypes(self, peer):
        lacks = {"mindspore": {"bfloat16"}, "autograd": {"float16", "bfloat16"}}
        cases = [Case("gelu_tanh_grad", SHAPE, dtype, "out") for dtype in TOLERANCES]
        has = [case for case in cases if case.dtype not in lacks.get(peer.name, ())]
        peer.check(cases, has)

    def test_code_is_what_a_user_can_run(self, peer):
        for mode in MODES:
            cases = [Case(operator, SHAPE, "float32", mode) for operator in ACTIVATIONS]
            for case, answer in peer.prepare(cases).items():
                compile(answer.code, str(case), "exec")

    def test_code_of_norms_is_what_a_user_can_run(self, peer):
        names = ("add_rms_norm_grad",) if peer.name == "compiled" else NORM_CALLS
        for case, answer in peer.prepare([norm_case(name) for name in names]).items():
            compile(answer.code, str(case), "exec")

    def test_bytes_kept(self, peer):
        case = Case("swish_forward_backward", SHAPE, "float32", "allocate")
        arrays = {"compiled": 1, "jax": 3, "autograd": 3}
        for answer in peer.prepare([case]).values():
            kept = None if answer.bytes_kept is None else answer.bytes_kept / case.array_bytes
            assert kept == arrays.get(peer.name)


class TestThreads:
    """As many as asked for, where that is not a setting that the library documents."""

    @pytest.mark.parametrize(
        ("name", "threads", "look"),
        [
            ("jax", 3, "sum('XLAEigen' in thread.read_text() for thread in threads)"),
            ("mindspore", 1, "len(os.sched_getaffinity(0))"),
        ],
    )
    def test_threads(self, tmp_path, monkeypatch, name, threads, look):
        source = (
            "import os, pathlib\n"
            "import numpy as np\n"
            "from fastgrad.bench.workloads import Case\n"
            f"from {CONTENDERS[name].module} import OPERATORS, prepare, start as start_it\n"
            "def start(threads):\n"
            "    start_it(threads)\n"
            "    case = Case('silu', (8,), 'float32', 'out')\n"
            "    prepare(case, {'x': np.ones(8, np.float32)}).call()\n"
            "    threads = pathlib.Path('/proc/self/task').glob('*/comm')\n"
            f"    return {{'found': str({look})}}\n"
        )
        (tmp_path / "looking_contender.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        looking = Contender("looking_contender", "a test")
        with Pool({name: looking}, threads=threads, seed=0) as pool:
            if name in pool.missing:
                assert ADVICE[name] in pool.missing[name]
            else:
                assert pool[name].versions == {"found": str(threads)}


class TestMissing:
    @pytest.mark.parametrize("name", ["jax", "mindspore", "autograd"])
    def test_a_library_that_is_not_installed(self, tmp_path, monkeypatch, name):
        error = f"raise ModuleNotFoundError(\"No module named '{name}'\", name='{name}')\n"
        (tmp_path / f"{name}.py").write_text(error)
        monkeypatch.syspath_prepend(tmp_path)
        assert reason_of(CONTENDERS[name]).endswith(f"{name} is not installed: make peers")

    def test_a_library_that_lacks_something_itself(self, tmp_path, monkeypatch):
        (tmp_path / "jax.py").write_text("import no_such_module\n")
        monkeypatch.syspath_prepend(tmp_path)
        found = reason_of(CONTENDERS["jax"])
        assert found == "ModuleNotFoundError: No module named 'no_such_module'"

    @pytest.mark.parametrize(
        ("compiler", "says"),
        [
            ("no-such-compiler", "needs a C++ compiler: 'no-such-compiler' was not found"),
            ("false", "does not work with 'false'"),
        ],
    )
    def test_no_compiler(self, compiler, says):
        environment = {"CXX": compiler}
        compiled = dataclasses.replace(CONTENDERS["compiled"], environment=environment)
        assert f"torch.compile {says}" in reason_of(compiled)
