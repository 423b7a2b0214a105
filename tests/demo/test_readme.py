"""The example of the README runs as it stands."""

import re
from pathlib import Path

import numpy as np

README = Path(__file__).parents[2] / "README.md"


def test_example_runs(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    names = {"__name__": "readme_example"}
    exec(compile(example, str(README), "exec"), names)
    x, slope = names["x"], 0.5
    gate = 1 / (1 + np.exp(-(slope * x.astype(float) + 1)))
    np.testing.assert_allclose(names["y"], x * gate, rtol=1e-5)
    np.testing.assert_allclose(
        names["dx"], gate + slope * x * gate * (1 - gate), rtol=1e-4, atol=1e-6
    )
    unit = x / np.sqrt((x.astype(float) ** 2).sum(axis=1, keepdims=True) + 1e-12)
    np.testing.assert_allclose(names["unit"], unit, rtol=1e-5, atol=1e-8)
    assert names["dgamma"].shape == names["dscale"].shape == (1024,)
    assert "soft_gate" in capsys.readouterr().out
