"""The demo of PyTorch on a tiny configuration: both trainings begin alike, and it shows what it promises."""

import numpy as np
import pytest
import torch

from fastgrad.demo.unet import __main__ as demo
from fastgrad.demo.unet import network, report, training
from fastgrad.demo.unet.sides import Training

TINY = ["--steps", "2", "--batch", "2", "--channels", "8", "--patch", "8"]


def test_demo_runs_and_both_sides_begin_alike(tmp_path, capsys):
    file = tmp_path / "demo.png"
    assert demo.main([*TINY, "--output", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "equal to rounding" in shown and "kept for the" in shown
    assert file.read_bytes().startswith(b"\x89PNG")


def test_target_of_the_network_has_unit_variance():
    torch.manual_seed(0)
    clean = network.DEVIATION * torch.randn(64, 3, 16, 16)
    sigma = torch.linspace(0.02, 2, 64)
    loss = network.loss(lambda x, level: torch.zeros_like(x), clean, torch.randn_like(clean), sigma)
    assert float(loss) == pytest.approx(1, rel=0.03)


@pytest.mark.parametrize(
    ("stock", "patched", "said"),
    [([1.2], [1.0], "1.20 times faster"), ([1.0], [1.2], "SLOWER"), ([1.0], [1.01], "as long as")],
)
def test_report_says_what_is_slower(stock, patched, said):
    def made(seconds, kept):
        return Training(training.Start(1.0, kept, ""), [1.0], seconds, 1, [np.zeros(1)])

    assert said in report.gains(made(stock, 100), made(patched, 66))
    assert "66 %" in report.gains(made(stock, 100), made(patched, 66))


@pytest.mark.parametrize("wrong", [["--channels", "12"], ["--steps", "0"], ["--patch", "6"]])
def test_wrong_options_are_refused(wrong, capsys):
    with pytest.raises(SystemExit):
        demo.arguments(wrong)
    assert "multiple of" in capsys.readouterr().err
