"""The command line: every command, as a table and as JSON, and what a user may get wrong."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import fastgrad
from fastgrad.cli.app import app

OPERATOR = """
import fastgrad
from fastgrad import maths as m

@fastgrad.elementwise
def softer(x, slope=1.0):
    return x * m.sigmoid(slope * x)

@fastgrad.elementwise
def careless(x):
    return m.where(x > 0.0, x, 0.0)

number = 3
"""


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "own_operators.py"
    path.write_text(OPERATOR)
    yield path
    sys.modules.pop("own_operators", None)


def test_help_lists_the_commands():
    text = run("--help")
    for command in ("info", "show", "check", "demo", "compare", "warmup", "cache"):
        assert command in text
    assert run("--version").strip() == fastgrad.__version__


def test_info():
    found = json.loads(run("info", "--json"))
    assert found["fastgrad"] == fastgrad.__version__
    assert found["threads"] == fastgrad.get_num_threads()
    assert found["packages"]["numba"] != "not installed"
    assert "block size" in run("info")


def test_show():
    text = run("show", "gelu_grad", "--choice", "approximate=tanh", "--no-source")
    assert text.startswith("gelu_tanh(x)") and "def body" not in text
    found = json.loads(run("show", "layer_norm", "--dtype", "bfloat16", "--json"))
    assert found["operator"] == "layer_norm" and "def tiles" in found["text"]


def test_check(file):
    assert "softer: passes" in run("check", f"{file}:softer", "--dtype", "float32")
    found = json.loads(run("check", f"{file}:careless", "--dtype", "float32", "--json", code=1))
    assert found["ok"] is False
    assert [row["what"] for row in found["rows"] if not row["ok"]] == ["float32 special values"]


def test_warmup_and_cache():
    found = json.loads(run("warmup", "silu", "swish_grad", "--dtype", "float32", "--json"))
    assert found["kernels"] == 5
    found = json.loads(run("cache", "info", "--json"))
    assert found["folder"] and found["files"] > 0
    assert str(fastgrad.cache.folder()) in run("cache", "info").replace("\n", "")


def test_cache_clear(tmp_path):
    code = "from fastgrad.cli import main; main()"
    environment = {
        "FASTGRAD_CACHE_DIR": str(tmp_path),
        "PATH": "",
        "PYTHONPATH": ":".join(sys.path),
    }
    for arguments, expected in (("warmup silu", "2 kernels are ready"), ("cache clear", "removed")):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments.split()],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert expected in done.stdout
    assert not list(tmp_path.glob("*.py"))


def test_the_modules_have_their_own_options():
    for command in ("demo", "compare"):
        done = subprocess.run(
            [sys.executable, "-m", "fastgrad", command, "--help"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "usage:" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "geluu"), "there is no operator 'geluu'; did you mean gelu"),
        (("check", "nowhere:op"), "nowhere cannot be imported"),
        (("check", "nowhere.py:op"), "no such file: nowhere.py"),
        (("check", "fastgrad:silou"), "fastgrad has no 'silou'; did you mean silu"),
        (("show", "math:pi"), "math:pi is no operator, but a float"),
        (("show", "gelu", "--dtype", "int8"), "dtype must be one of"),
        (("show", "gelu", "--choice", "tanh"), "--choice takes name=value"),
        (("show", "gelu", "--choice", "approximate=erf"), "approximate must be one of"),
        (("warmup", "silu", "--dtype", "float8"), "dtypes must be among"),
    ],
)
def test_what_a_user_may_get_wrong(arguments, message):
    assert message in run(*arguments, code=2)


def test_without_typer_it_says_what_to_install():
    code = "import sys; sys.modules['typer'] = None\nfrom fastgrad.cli import main\nmain()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'fastgrad[cli]'" in done.stderr and "Traceback" not in done.stderr
