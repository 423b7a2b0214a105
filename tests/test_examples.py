"""Every example runs, passes its check and says how fast it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize("name", ["custom_activation", "fused_bias_activation", "custom_loss"])
def test_example(name):
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py", "--size", "16"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "passes" in done.stdout and "PyTorch's autodiff" in done.stdout
