"""The examples in docstrings print what they say."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

import fastgrad
from fastgrad.functional import _activations, _clipped, _rectifiers, _sigmoids

DOCUMENTED = {
    name: getattr(module, name).__doc__
    for module in (_activations, _clipped, _rectifiers, _sigmoids)
    for name in module.__all__
    if ">>>" in getattr(module, name).__doc__
}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_examples(name):
    scope = {"fastgrad": fastgrad, "np": np}
    example = doctest.DocTestParser().get_doctest(DOCUMENTED[name], scope, name, name, 0)
    said: list[str] = []
    failed, tried = doctest.DocTestRunner(verbose=False).run(example, out=said.append)
    assert tried and not failed, "".join(said)
