"""A rewritten forward does what its source says, whatever the modules are."""

import copy
import functools

import pytest
import torch
from torch import nn

from fastgrad.torch.patching import patch


def doubled(function):
    @functools.wraps(function)
    def wrapper(self, *args, **kwargs):
        return 2 * function(self, *args, **kwargs)

    return wrapper


class Logged(nn.Linear):
    """Says when it is called."""

    log: list = []  # noqa: RUF012

    def forward(self, input):
        self.log.append(self.name)
        return super().forward(input)


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        for name in ("a", "b", "c"):
            setattr(self, name, Logged(6, 6))
            getattr(self, name).name = name
        self.norm, self.act = nn.LayerNorm(6), nn.SiLU()

    def forward(self, x):
        return self.act(self.a(x))


class GateLast(Base):
    def forward(self, x):
        return self.b(x) * self.act(self.a(x))


class GateFirst(Base):
    def forward(self, x):
        return self.act(self.a(x)) * self.b(x)


class NoGate(Base):
    """A product of two layers, beside one that is fused."""

    def forward(self, x):
        x = self.act(self.c(x)) * x
        return self.a(x) * self.b(self.c(x))


class PreNorm(Base):
    def forward(self, x):
        x = x + self.a(x)
        x = x + self.b(self.norm(x))
        return self.c(x)


class NotTheFirstCall(Base):
    """`a` comes before the norm, so the norm stays where it is."""

    def forward(self, x):
        x = x + self.act(x) * x
        x = self.a(x) + self.norm(x)
        return x


class Optional(Base):
    def forward(self, x, more=None):
        x = self.a(x) + x
        if more is not None:
            x = x * more
        kept = x
        x = self.norm(x)
        return self.b(x) + kept


class Branches(Base):
    def forward(self, x, more=None):
        if more is None:
            x = self.norm(x)
        elif more > 1:
            x = self.a(x)
        x = self.act(x)
        return x + self.norm(x + self.b(x))


class Halves(Base):
    """Both halves are used again: they stay."""

    def forward(self, x):
        u, g = x.chunk(2, dim=-1)
        y = u * self.act(g)
        return y + u + g


class Tried(Base):
    def forward(self, x):
        try:
            y = self.a(x)
            y = self.act(y)
            raise ValueError
        except ValueError:
            x = y
        return self.norm(x + y)


class Inherits(Base):
    @doubled
    def forward(self, x, *, scale: float = 3.0):
        """Decorated, with a default, a closure and a comprehension."""
        x = super().forward(x)
        x = self.norm(x + scale)
        parts = [self.act(part) * part for part in x.split(3, -1)]
        return torch.cat(parts, -1)


@pytest.mark.parametrize(
    ("make", "inputs"),
    [
        (GateLast, ()), (GateFirst, ()), (NoGate, ()), (PreNorm, ()), (NotTheFirstCall, ()),
        (Optional, ()), (Optional, (2.0,)), (Branches, ()), (Branches, (1,)), (Branches, (2,)),
        (Halves, ()), (Tried, ()), (Inherits, ()),
    ],
)  # fmt: skip
def test_same_values_in_the_same_order(make, inputs):
    x, model = torch.randn(4, 6), make()
    stock = copy.deepcopy(model)
    report = patch(model)
    assert any(own.name == "" for own in report.replaced), report
    Logged.log.clear()
    found, order = model(x, *inputs), [*Logged.log]
    Logged.log.clear()
    torch.testing.assert_close(found, stock(x, *inputs), rtol=1e-5, atol=1e-5)
    assert order == Logged.log


def test_keywords_and_signature():
    model = Inherits()
    stock = copy.deepcopy(model)
    patch(model)
    x = torch.randn(4, 6)
    torch.testing.assert_close(model(x, scale=1.0), stock(x, scale=1.0), rtol=1e-5, atol=1e-5)
    assert type(model).forward.__wrapped__.__kwdefaults__ == {"scale": 3.0}
    assert type(model).forward.__doc__ == Inherits.forward.__doc__


def test_private_names_are_left():
    class Private(Base):
        def forward(self, x):
            self.__seen = x
            return self.norm(x + self.__seen)

    report = patch(Private())
    assert report.left[0].reason == "its forward uses private names of its class"


def test_code_without_source_is_left():
    space = {"Base": Base}
    exec("class Made(Base):\n    def forward(self, x):\n        return self.norm(x + x)", space)
    report = patch(space["Made"]())
    assert report.left[0].reason == "its source cannot be read"


def test_a_class_that_cannot_be_derived_from():
    class Final(Base):
        def __init_subclass__(cls):
            raise TypeError("final")

        def forward(self, x):
            return self.norm(x + x)

    report = patch(Final())
    assert report.left[0].reason == "no class can be derived from its class: final"
