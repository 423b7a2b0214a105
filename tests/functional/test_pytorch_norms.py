"""The samples and error inputs of PyTorch's operator database; PyTorch computes them in float64."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

import fastgrad
from checking import same_bits
from rounding import error_in_ulp

DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32, "float64": torch.float64}
#: ULP of a value; or so much of the terms that are added up to it. A float64 peer is no better than this
#: library.
ULP = {"bfloat16": 1.0, "float32": 1.0, "float64": 4.0}
OF_TERMS = {"bfloat16": 1e-6, "float32": 2**-22, "float64": 1e-14}

#: What PyTorch takes and this library does not, or not so: operator, reason, how many of the samples. (Those
#: of group_norm mean to leave out weight or bias, but an override brings both back.)
DEVIATIONS = {
    ("group_norm", "eps is negative"): 4,
    ("layer_norm", "eps is negative"): 1,
    ("native_layer_norm", "eps is negative"): 4,
    ("rms_norm", "eps is negative"): 1,
    ("rms_norm", "eps is None: PyTorch takes that of the dtype"): 4,
    ("batch_norm", "x has no channel axis"): 2,
    ("instance_norm", "weight without a bias: the gradient of a bias comes too"): 1,
    ("native_layer_norm", "weight without a bias: the gradient of a bias comes too"): 4,
    ("native_layer_norm", "bias without a weight: its gradient is that of op.grad only"): 4,
    ("instance_norm", "running statistics are not kept"): 8,
}


def _database(name: str) -> Any:
    return next(
        own
        for own in op_db
        if own.name in (name, f"nn.functional.{name}") and not own.variant_test_name
    )


def _samples(name: str, dtype: str) -> list:
    torch.manual_seed(0)
    database = _database(name)
    assert DTYPES[dtype] in database.dtypes
    own = list(database.reference_inputs("cpu", DTYPES[dtype], requires_grad=False))
    assert len(own) >= len(list(database.sample_inputs("cpu", DTYPES[dtype])))
    return own


def _numpy(tensor: torch.Tensor | None, dtype: str) -> np.ndarray | None:
    """Exactly."""
    if tensor is None:
        return None
    wide = tensor.detach().to(torch.float64).numpy()
    return wide.astype(getattr(ml_dtypes, dtype, dtype))


def _float64(value: Any, with_gradient: bool = False) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().to(torch.float64).clone().requires_grad_(with_gradient)


def _wide(array: np.ndarray) -> torch.Tensor:
    return torch.tensor(array.astype(np.float64))


def _arguments(name: str, sample: Any) -> dict[str, Any]:
    """The arguments of a sample by PyTorch's names."""
    names = {
        "group_norm": ("num_groups", "weight", "bias", "eps"),
        "layer_norm": ("normalized_shape", "weight", "bias", "eps"),
        "native_layer_norm": ("normalized_shape", "weight", "bias", "eps"),
        "rms_norm": ("normalized_shape", "weight", "eps"),
        "instance_norm": ("running_mean", "running_var", "weight", "bias"),
        "batch_norm": ("running_mean", "running_var", "weight", "bias"),
        "native_batch_norm": (
            *("weight", "bias", "running_mean", "running_var"),
            *("training", "momentum", "eps"),
        ),
    }[name]
    return {**dict(zip(names, sample.args, strict=False)), **sample.kwargs}


class Peer:
    """What PyTorch gives for a sample, in float64: `y`, statistics, gradients of what is given.

    Parameters
    ----------
    name : str
    sample : SampleInput
    dtype : str
        Of the gradient that comes in.
    eps : float, optional
        In the place of one that the sample leaves to the dtype.
    """

    def __init__(self, name: str, sample: Any, dtype: str, eps: float | None = None):
        arguments = _arguments(name, sample)
        x = _float64(sample.input, True)
        own = {key: _float64(value) for key, value in arguments.items()}
        for key in ("weight", "bias"):
            own[key] = _float64(own.get(key), True)
        if name == "rms_norm":
            del own["bias"]
            own["eps"] = own.get("eps", eps)
        results = _call_peer(name, x, own)
        results = results if isinstance(results, tuple) else (results,)
        self.y, *self.stats = (_to_numpy(result) for result in results)
        rng = np.random.default_rng(1)
        self.dy = rng.normal(0, 1, self.y.shape).astype(getattr(ml_dtypes, dtype, dtype))
        wanted = {"x": x, "weight": own["weight"], "bias": own.get("bias")}
        given = {key: value for key, value in wanted.items() if value is not None}
        found = torch.autograd.grad(results[0], list(given.values()), _wide(self.dy))
        self.gradients = dict(zip(given, map(_to_numpy, found), strict=True))
        self.running = [_to_numpy(own[key]) for key in ("running_mean", "running_var")
                        if own.get(key) is not None]  # fmt: skip


def _to_numpy(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().numpy()


def _call_peer(name: str, x: torch.Tensor, own: dict[str, Any]) -> Any:
    if name == "native_layer_norm":
        return torch.native_layer_norm(
            x, own["normalized_shape"], own["weight"], own["bias"], own["eps"]
        )
    if name == "native_batch_norm":
        names = ("weight", "bias", "running_mean", "running_var", "training", "momentum", "eps")
        return torch.native_batch_norm(x, *(own[key] for key in names))
    return getattr(torch.nn.functional, name)(x, **own)


def _check(what: str, got: np.ndarray, exact: np.ndarray, dtype: str, terms: float) -> None:
    """Within a few ULP, of what terms of that size may add up to."""
    assert got.shape == exact.shape, what
    assert got.dtype == np.dtype(getattr(ml_dtypes, dtype, dtype)), what
    if not got.size:
        return
    error = error_in_ulp(got, exact, got.dtype)
    near = np.abs(got.astype(np.float64) - exact) <= OF_TERMS[dtype] * terms
    right = (error <= ULP[dtype]) | near
    assert right.all(), (
        f"{what}: {(~right).sum()} of {got.size} off, worst {np.where(right, 0, error).max():.3g} ULP, "
        f"got {got[~right][0]!r}, exact {exact[~right][0]!r}"
    )


class Own:
    """A sample as this library takes it.

    Attributes
    ----------
    arguments : tuple
        Of the call, up to eps: `x`, …, `gamma`, `beta`.
    """

    def __init__(self, name: str, sample: Any, dtype: str):
        found = _arguments(name, sample)
        self.name = name.removeprefix("native_")
        self.x = _numpy(sample.input, dtype)
        self.gamma = _numpy(found.get("weight"), dtype)
        self.beta = _numpy(found.get("bias"), dtype)
        self.running = [_numpy(found.get(key), dtype) for key in ("running_mean", "running_var")]
        self.training = found.get("training", False)
        self.keywords: dict[str, Any] = {}
        if "eps" in found:
            self.keywords["eps"] = found["eps"]
        if self.name == "rms_norm" and "eps" not in found:
            self.keywords["eps"] = torch.finfo(torch.float64).eps
        if self.name in ("layer_norm", "rms_norm"):
            self.keywords["axes"] = len(found["normalized_shape"])
        self.more = (found["num_groups"],) if self.name == "group_norm" else ()
        self.momentum = found.get("momentum", 0.1)

    @property
    def operator(self) -> Any:
        return getattr(fastgrad, self.name)

    @property
    def parameters(self) -> tuple:
        return (self.gamma,) if self.name == "rms_norm" else (self.gamma, self.beta)

    def forward(self, **keywords: Any) -> Any:
        """The value; a batch norm's with running averages in training."""
        if self.name == "batch_norm":
            options = {"training": self.training, "momentum": self.momentum}
            own = (self.x, self.gamma, self.beta, *self.running)
            return fastgrad.batch_norm(*own, **options, **self.keywords, **keywords)
        return self.operator(self.x, *self.more, *self.parameters, **self.keywords, **keywords)

    def backward(self, dy: np.ndarray, **keywords: Any) -> dict[str, np.ndarray | None]:
        """The gradients of `…_grad` by PyTorch's names."""
        if self.name == "batch_norm":
            keywords["training"] = self.training
        grad = getattr(fastgrad, f"{self.name}_grad")
        found = grad(dy, self.x, *self.more, self.gamma, **self.keywords, **keywords)
        return dict(zip(("x", "weight", "bias"), found, strict=False))

    def deviation(self) -> str:
        """Why this sample is no sample of this library; empty if it is one."""
        if self.keywords.get("eps", 0.0) < 0:
            return "eps is negative"
        if self.name == "batch_norm" and self.x.ndim < 2:
            return "x has no channel axis"
        return ""

    def refused(self) -> str:
        """What is said about that."""
        messages = {
            "eps is negative": "eps must be a number of at least 0",
            "x has no channel axis": "x must have a batch and a channel axis",
        }
        return messages[self.deviation()]


def _terms(own: Own, peer: Peer) -> dict[str, float]:
    """About the size of what is added up: for the value, and for gradients."""
    value = _largest(peer.y) + _largest(own.beta)
    gradient = max(_largest(peer.dy), 1.0) * max(_largest(own.gamma), 1.0)
    return {"y": value, "d": gradient * max(own.x.size, 1) ** 0.5}


def _largest(array: np.ndarray | None) -> float:
    return 0.0 if array is None else float(np.abs(array.astype(np.float64)).max(initial=0.0))


def _checked(name: str, dtype: str) -> Iterator[tuple[Own, Any]]:
    """The samples that are none of the deviations; those are refused before anything is computed."""
    for sample in _samples(name, dtype):
        own = Own(name, sample, dtype)
        if not own.deviation():
            yield own, sample
            continue
        out = np.full_like(own.x, 7)
        with pytest.raises(ValueError, match=own.refused()):
            own.forward(out=out)
        with pytest.raises(ValueError, match=own.refused()):
            own.backward(own.x, **({"mean": out, "rstd": out} if name == "batch_norm" else {}))
        assert (out == 7).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["group_norm", "layer_norm", "rms_norm", "instance_norm"])
def test_samples(name, dtype):
    for own, sample in _checked(name, dtype):
        peer = Peer(name, sample, dtype, own.keywords.get("eps"))
        _check_sample(own, peer, own.forward(), own.backward(peer.dy), dtype)


def _check_sample(own: Own, peer: Peer, y: np.ndarray, found: dict, dtype: str) -> None:
    terms = _terms(own, peer)
    _check(f"{own.name} y", y, peer.y, dtype, terms["y"])
    for key, exact in peer.gradients.items():
        _check(f"{own.name} d{key}", found[key], exact, dtype, terms["d"])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_samples_of_batch_norm(dtype):
    """Training with new averages, which PyTorch writes into its arguments, and inference without."""
    for own, sample in _checked("batch_norm", dtype):
        peer = Peer("batch_norm", sample, dtype)
        y, *averages, mean, rstd = own.forward(return_stats=True)
        assert len(averages) == (2 if own.training and own.running[0] is not None else 0)
        for got, exact in zip(averages, peer.running, strict=False):
            _check("running", got, exact, dtype, 1.0)
        statistics = {} if own.training else {"mean": mean, "rstd": rstd}
        _check_sample(own, peer, y, own.backward(peer.dy, **statistics), dtype)


def test_native_layer_norm():
    """Statistics, and backward with them; without both where weight or bias is missing."""
    for own, sample in _checked("native_layer_norm", "float32"):
        peer = Peer("native_layer_norm", sample, "float32")
        if own.gamma is not None and own.beta is not None:
            y, mean, rstd = own.forward(return_stats=True)
            for got, exact in zip((mean, rstd), peer.stats, strict=True):
                np.testing.assert_allclose(got, exact.reshape(got.shape), rtol=1e-12, atol=1e-12)
            found = own.backward(peer.dy, mean=mean, rstd=rstd)
        else:
            y, found = own.forward(), own.backward(peer.dy)
        if own.gamma is None and own.beta is not None:
            assert found["bias"] is None  # a deviation
            gradients = fastgrad.layer_norm.grad(
                peer.dy, own.x, None, own.beta, wrt=("x", "beta"), **own.keywords
            )
            found = dict(zip(("x", "bias"), gradients, strict=True))
        if own.gamma is not None and own.beta is None:
            assert found["bias"].shape == own.gamma.shape  # a deviation
        _check_sample(own, peer, y, found, "float32")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_native_batch_norm(dtype):
    """The statistics of the batch; PyTorch returns none at inference."""
    for own, sample in _checked("native_batch_norm", dtype):
        peer = Peer("native_batch_norm", sample, dtype)
        y, *_, mean, rstd = own.forward(return_stats=True)
        _check("y", y, peer.y, dtype, _terms(own, peer)["y"])
        for got, exact in zip((mean, rstd), peer.stats, strict=True):
            assert exact.size == (got.size if own.training else 0)
            if own.training:
                np.testing.assert_allclose(got, exact, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["group_norm", "layer_norm"])
def test_samples_in_another_layout(name):
    """The database's own strided copies of its samples: the same bits."""
    for sample in _samples(name, "float32"):
        own = Own(name, sample, "float32")
        if own.deviation() or own.gamma is None or own.beta is None or not own.x.size:
            continue
        other = sample.noncontiguous()
        x = other.input.detach().numpy()
        strided = own.operator(x, *own.more, *own.parameters, **own.keywords)
        assert same_bits(strided, own.forward())


# --- What is not taken ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["group_norm", "native_layer_norm", "rms_norm"])
def test_error_inputs(name):
    """What PyTorch refuses is refused; a count of axes has no lengths that may be wrong."""
    count = 0
    for error in _database(name).error_inputs("cpu"):
        sample = error.sample_input
        with pytest.raises(error.error_type, match=error.error_regex):
            _call_peer(name, sample.input, _arguments(name, sample))
        own = Own(name, sample, "float32")
        count += 1
        if "Given normalized_shape" in error.error_regex:
            assert own.forward().shape == own.x.shape
            shape = tuple(_arguments(name, sample)["normalized_shape"])
            own.gamma = np.ones(shape, np.float32)
        with pytest.raises(ValueError, match=_OWN_MESSAGES[_key(error.error_regex)]):
            own.forward()
    assert count == {"group_norm": 2, "native_layer_norm": 4, "rms_norm": 3}[name]


_OWN_MESSAGES = {
    "Expected at least 2 dimensions": "x must have a batch and a channel axis",
    "Expected number of channels": r"num_groups must divide the channels, 7 in x .* got 2",
    "Expected normalized_shape": "axes must be at least 1, got 0",
    "Expected weight": r"gamma must have the shape \(1, 2, 3\) .* got \(1, 2\)",
    "Expected bias": r"beta must have the shape \(1, 2, 3\) .* got \(1, 2\)",
    "Given normalized_shape": r"gamma must have the shape \(2, 3\) .* got \(2, 2\)",
}


def _key(regex: str) -> str:
    return next(key for key in _OWN_MESSAGES if regex.startswith(key))


def test_deviations_are_all():
    """Each kind is in the database as often as the list says: a new one shows here."""
    found: dict[tuple[str, str], int] = {}
    for name in (*("group_norm", "layer_norm", "native_layer_norm", "rms_norm", "instance_norm"),
                 "batch_norm"):  # fmt: skip
        for sample in _database(name).sample_inputs("cpu", torch.float32):
            own, given = Own(name, sample, "float32"), _arguments(name, sample)
            reasons = [own.deviation()]
            if not reasons[0] and own.gamma is None and own.beta is not None:
                reasons.append("bias without a weight: its gradient is that of op.grad only")
            if not reasons[0] and own.gamma is not None and own.beta is None and name != "rms_norm":
                reasons.append("weight without a bias: the gradient of a bias comes too")
            if name == "rms_norm" and "eps" not in given:
                reasons.append("eps is None: PyTorch takes that of the dtype")
            if name == "instance_norm" and "running_mean" in given:
                reasons.append("running statistics are not kept")
            for reason in filter(None, reasons):
                found[name, reason] = found.get((name, reason), 0) + 1
    assert found == DEVIATIONS


def test_eps_is_a_number():
    with pytest.raises(TypeError, match="eps must be a number, got NoneType"):
        fastgrad.rms_norm(np.ones((2, 3)), eps=None)


def test_an_instance_norm_keeps_no_running_statistics():
    assert "running_mean" not in inspect.signature(fastgrad.instance_norm).parameters
    with pytest.raises(TypeError, match="running_mean"):
        fastgrad.instance_norm(np.ones((2, 3, 4)), running_mean=np.zeros(3))


def test_no_statistics_at_inference():
    """As in PyTorch; and so is one element a channel in training."""
    x = np.ones((1, 3))
    with pytest.raises(RuntimeError, match="running_mean must be defined in evaluation mode"):
        torch.nn.functional.batch_norm(torch.tensor(x), None, None, training=False)
    with pytest.raises(ValueError, match="running_mean and running_var must be given"):
        fastgrad.batch_norm(x, training=False)
    with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
        torch.nn.functional.batch_norm(torch.tensor(x), None, None, training=True)
    with pytest.raises(ValueError, match="one element a channel"):
        fastgrad.batch_norm(x)
    with pytest.raises(ValueError, match="more than 1 spatial element"):
        torch.nn.functional.instance_norm(torch.ones(2, 3, 1))
    assert fastgrad.instance_norm(np.ones((2, 3, 1))).shape == (2, 3, 1)  # a deviation
