"""`warmup`, and that nothing a call brings along makes a kernel of its own."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fastgrad
from processes import COMPUTE, run_python
from rounding import DTYPES

NO_COMPILATION = """
from numba.core import event
with event.install_recorder("numba:compile") as recorder:
    {calls}
assert not recorder.buffer, recorder.buffer
"""


def test_counts():
    assert fastgrad.warmup("sigmoid") == 2
    assert fastgrad.warmup([fastgrad.swish], dtypes=[np.float32, "bfloat16"]) == 6
    assert fastgrad.warmup("gelu", np.float16) == 4
    assert fastgrad.warmup(fastgrad.swish, everything=True) == 8
    assert fastgrad.warmup([fastgrad.silu_grad, "silu_grad"]) == 4  # one operator, named twice
    assert fastgrad.warmup([]) == 0
    known = [op for op in vars(fastgrad).values() if hasattr(op, "grad")]
    known = {id(op): op for op in known if not isinstance(op, type)}.values()
    operators = [one for op in known for one in getattr(op, "operators", [op])]
    assert len(operators) > 40
    usual = [len(op.specialisations(everything=False)) for op in operators]
    assert fastgrad.warmup() == sum(usual)
    assert fastgrad.warmup("mse_loss") == 3  # the mean, its gradient, both in one pass
    assert fastgrad.warmup(fastgrad.kl_div) == 6


def test_after_it_nothing_is_compiled(tmp_path):
    calls = """
    for dtype in (np.float32, np.float16):
        for size in (10, 1 << 18):
            own_x, own_dy = x[:size].astype(dtype), dy[:size].astype(dtype)
            fastgrad.swish(own_x, 1.5), fastgrad.swish_grad(own_dy, own_x)
            fastgrad.swish.grad(own_dy[::-1], own_x[::-1], np.ones(1))
    """
    warm = 'assert fastgrad.warmup("swish", ["float32", np.float16], progress=False) == 6\n'
    run_python(
        COMPUTE + warm + NO_COMPILATION.format(calls=calls), FASTGRAD_CACHE_DIR=str(tmp_path)
    )


def test_operators_of_the_user():
    @fastgrad.elementwise
    def shifted(x, by=1.0):
        return x + by

    assert fastgrad.warmup(shifted) == 3
    assert [str(own) for own in shifted.specialisations(everything=False)] == [
        "forward",
        "gradient of x",
        "gradient of x, by",
    ]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("tanhh",), ValueError, "no operator is called 'tanhh'; there are: .*gelu"),
        ((3,), TypeError, "ops must be operators or their names, got int: 3"),
        (([None],), TypeError, "ops must be"),
        (("gelu", "int32"), ValueError, "dtypes must be among float16.*got 'int32'"),
        (("gelu", [np.float32, np.int8]), ValueError, "dtypes must be among"),
        (("gelu", [object()]), ValueError, "dtypes must be among"),
    ],
)
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        fastgrad.warmup(*arguments)


def test_progress(capsys, monkeypatch):
    fastgrad.warmup("silu", progress=True)
    assert "2/2" in capsys.readouterr().err
    fastgrad.warmup("silu", progress=False)
    fastgrad.warmup("silu")  # no terminal
    assert capsys.readouterr().err == ""
    monkeypatch.setitem(__import__("sys").modules, "tqdm", None)
    fastgrad.warmup("silu", progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[1] == "fastgrad warmup 2/2: silu gradient of x float32"
    fastgrad.warmup("silu")
    assert capsys.readouterr().err == ""


def test_B67_specialisations_are_bounded():
    """Layout, byte order, writability, order of `wrt`: none makes a kernel beyond those listed."""

    @fastgrad.elementwise
    def op(x, scale=1.0):
        return x * scale

    for dtype in DTYPES[1:3]:
        x = np.ones((4, 6), dtype)
        frozen = x.copy()
        frozen.flags.writeable = False
        layouts = (x, x[:, ::2], x.T, x[::-1], frozen, x.astype(x.dtype.newbyteorder()), x[:0])
        wrts = (None, "x", "scale", ("scale", "x"), ("x", "scale"))
        for array, wrt in itertools.product(layouts, wrts):
            for scale in (2, 2.0, np.float16(2), np.full(array.shape[0], 2, dtype)):
                axis = 0 if isinstance(scale, np.ndarray) else None
                op(array, scale, axis=axis)
                op.grad(array, array, scale, wrt=wrt, axis=axis)
    listed = op.specialisations()
    assert len(listed) == 2 * (1 + 3)
    assert set(op._runners) <= set(listed)
    assert all(len(runner._walks) <= 2 for runner in op._runners.values())


def test_order_of_wrt_and_out():
    rng = np.random.default_rng(0)

    @fastgrad.elementwise
    def product(a, b, scale=1.0):
        return a * b * scale

    dy, a, b = rng.normal(size=(3, 50))
    da, db, dscale = product.grad(dy, a, b, 3.0)
    out_a, out_b = np.empty(50), np.empty(50)
    got = product.grad(dy, a, b, 3.0, wrt=("scale", "b", "a"), out=(out_b, out_a))
    assert got[0] == dscale and got[1] is out_b and got[2] is out_a
    assert (out_a == da).all() and (out_b == db).all()
    got = product.grad(dy, a, b, 3.0, wrt=("b", "a"), out=(None, out_a))
    assert got[1] is out_a and (got[0] == db).all()
    with pytest.raises(ValueError, match="out has 3 arrays"):
        product.grad(dy, a, b, wrt=("b", "a"), out=(out_b, out_a, np.empty(50)))
