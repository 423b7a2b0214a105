"""The demo on a tiny configuration: its two trainings agree, and it shows what it promises."""

import tracemalloc

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import make_vjp
from rich.console import Console

from fastgrad.demo import __main__ as demo
from fastgrad.demo import denoiser, photographs, report, tape, training

TINY = training.Config(patch=4, hidden=64, batch=32, steps=3)


@pytest.fixture(scope="module")
def step():
    """Weights (none of them 0 or 1) and a batch."""
    rng = np.random.default_rng(7)
    weights = denoiser.Weights(
        *(
            weight + np.float32(0.1) * rng.standard_normal(weight.shape, dtype=np.float32)
            for weight in denoiser.initial_weights(TINY)
        )
    )
    clean = photographs.sample_patches(photographs.load_photographs(), TINY.batch, TINY.patch, rng)
    return weights, photographs.add_noise(clean, TINY.noise, rng), clean


@pytest.fixture(scope="module")
def trainings():
    return [training.train(module, TINY) for module in ("denoiser", "tape")]


def relative(got, exact):
    return np.linalg.norm(got - exact) / np.linalg.norm(exact)


def test_gradients_by_hand_agree_with_the_tape(step):
    weights, noisy, clean = step
    by_hand = denoiser.loss_and_gradient(weights, noisy, clean, training.Meter())
    by_tape = tape.loss_and_gradient(weights, noisy, clean, training.Meter())
    assert by_hand[0] == pytest.approx(by_tape[0], rel=1e-6)
    for name, got, exact in zip(denoiser.Weights._fields, by_hand[1], by_tape[1], strict=True):
        assert got.dtype == exact.dtype == np.float32, name
        assert relative(got, exact) < 5e-6, name


def test_gradients_by_hand_agree_with_central_differences(step):
    weights, noisy, clean = step
    _, gradient = denoiser.loss_and_gradient(weights, noisy, clean, training.Meter())
    rng = np.random.default_rng(8)
    wide = denoiser.Weights(*(weight.astype(np.float64) for weight in weights))
    noisy, clean = noisy.astype(np.float64), clean.astype(np.float64)
    for number, slope in enumerate(gradient):
        direction = rng.standard_normal(slope.shape)
        losses = []
        for move in (1e-6, -1e-6):
            moved = list(wide)
            moved[number] = moved[number] + move * direction
            moved = denoiser.Weights(*moved)
            losses.append(tape.loss_and_gradient(moved, noisy, clean, training.Meter())[0])
        expected = (losses[0] - losses[1]) / 2e-6
        scale = float(np.linalg.norm(slope))
        assert np.vdot(slope, direction) == pytest.approx(expected, abs=1e-5 * scale)


def test_both_trainings_agree_and_measure(trainings):
    fast, composed = trainings
    agree, sentence = report.agreement(fast, composed)
    assert agree, sentence
    hidden_bytes = 4 * TINY.batch * TINY.hidden
    statistics = 2 * 8 * TINY.batch * denoiser.GROUPS
    assert fast.kept == 2 * hidden_bytes + statistics
    assert composed.kept > 3 * fast.kept
    for one in trainings:
        assert len(one.losses) == len(one.forward) == len(one.backward) == TINY.steps
        assert min(one.forward) > 0
        assert min(one.backward) > 0
        assert one.peak >= one.start > 0


def test_disagreement_is_noticed(trainings):
    fast, composed = trainings
    wrong = training.Training(**{**vars(composed), "losses": [2 * x for x in composed.losses]})
    agree, sentence = report.agreement(fast, wrong)
    assert not agree
    assert "NOT equal" in sentence


def test_bytes_on_the_tape_are_those_that_python_allocates():
    meter = training.Meter()
    x = np.random.default_rng(0).standard_normal((256, 256), dtype=np.float32)
    beta = np.ones(256, np.float32)
    found = []

    def swish(given):
        begun = tape.begin(given + 0, meter)
        ended = tape.end(tape.swish(begun * beta), meter)
        found.extend(tape.arrays_kept(begun, ended))
        return ended

    make_vjp(swish)(x)  # imports and caches of the first call
    found.clear()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    vjp, output = make_vjp(swish)(x)
    held = tracemalloc.get_traced_memory()[0] - before - output.nbytes
    tracemalloc.stop()
    kept = sum(array.nbytes for array in found if array is not beta)
    assert held == pytest.approx(kept, rel=0.05)
    assert vjp(anp.ones_like(output)).shape == x.shape


def test_no_training_patch_touches_the_crop():
    patch = 5
    photo = photographs.Photograph("grid", np.zeros((40, 50, 3), np.float32), 11, 13, 9)
    photo.pixels[11:20, 13:22] = 1
    drawn = photographs.sample_patches([photo], 2000, patch, np.random.default_rng(0))
    assert drawn.shape == (2000, patch * patch * 3)
    assert not drawn.any()
    assert photo.crop.all()


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_split_and_join_are_inverse(step):
    picture = np.random.default_rng(0).random((17, 22, 3), dtype=np.float32)
    patches = photographs.split(picture, 4, step)
    np.testing.assert_allclose(
        photographs.join(patches, picture.shape, 4, step), picture, rtol=1e-6
    )


def test_psnr():
    original = np.zeros((8, 8, 3), np.float32)
    assert photographs.psnr(original + np.float32(0.1), original) == pytest.approx(20, abs=1e-5)


def test_training_denoises():
    config = training.Config(patch=4, hidden=64, batch=256, steps=60, learning_rate=5e-3)
    weights = training.train("denoiser", config).weights
    for shown in report.examples(photographs.load_photographs(), weights, config):
        before, after = (
            photographs.psnr(picture, shown.original) for picture in (shown.noisy, shown.denoised)
        )
        assert after > before + 2, shown.name


def test_the_whole_demo_in_small(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv(
        "OPENBLAS_THREAD_TIMEOUT", "4"
    )  # what the demo sets, so that it does not stay
    output = tmp_path / "demo.png"
    status = demo.main(["--steps=2", "--batch=16", "--hidden=32", f"--output={output}"])
    printed = capsys.readouterr().out
    assert status == 0, printed
    assert output.read_bytes().startswith(b"\x89PNG")
    assert output.name in printed
    for promised in (
        "fastgrad",
        "autograd",
        "final loss",
        "norm and activations, ms",
        "their gradients, ms",
        "times fewer bytes",
        "kept for the gradients",
        "peak memory",
        "make test",
        "make compare",
    ):
        assert promised in printed


def test_gains_are_those_of_the_median_step(trainings):
    def measured(one, **numbers):
        return training.Training(**{**vars(one), **numbers})

    fast = measured(trainings[0], forward=[1.0, 2.0, 9.0], backward=[3.0, 2.0, 1.0], kept=10)
    composed = measured(trainings[1], forward=[4.0, 5.0, 90.0], backward=[6.0, 5.0, 4.0], kept=48)
    sentence = report.gains(fast, composed)
    assert "2.5 times less time" in sentence
    assert "4.8 times fewer bytes" in sentence


def test_table_holds_both_columns(trainings):
    shown = report.examples(photographs.load_photographs(), trainings[0].weights, TINY)
    table = report.comparison(*trainings, shown, shown)
    assert [column.header for column in table.columns] == ["", "fastgrad", "autograd", "ratio"]
    console = Console(width=100, record=True, quiet=True)
    console.print(table)
    assert all(len(list(column.cells)) == table.row_count for column in table.columns)


@pytest.mark.parametrize(
    "wrong", ["--steps=0", "--hidden=-1", "--hidden=33", "--output=no/such/folder/x.png"]
)
def test_bad_options_are_named(wrong, capsys):
    with pytest.raises(SystemExit):
        demo.main([wrong])
    assert wrong.split("=")[0] in capsys.readouterr().err
