"""The command line of `fastgrad.bench.compare`: its options, and errors that name what is known."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from fastgrad.bench.contenders import CONTENDERS, SELF
from fastgrad.bench.readme import NoSection, around_section
from fastgrad.bench.workloads import DTYPES, WORKLOADS, Shape

#: The rows that are no operators: import and first call of a fresh process, and an operator that is new.
SECOND_PROCESS = "second_process"
NEW_OPERATOR = "new_operator"
PROCESSES = (SECOND_PROCESS, NEW_OPERATOR)

#: Named tables of rows: a selection of every operator's sizes in every dtype, all of them, those of all
#: activations' gradients, and those of the source articles.
NAMED_WORKLOADS = ("default", "full", "activations", "articles")

PEERS = [name for name in CONTENDERS if name != SELF]

#: What decides a measurement, where neither the command line nor a stored run says it.
DEFAULTS: dict[str, Any] = {
    "workload": "default",
    "rounds": 11,
    "max_rounds": 33,
    "precision": 2.0,
    "threads": 2,
    "seed": 0,
    "peers": PEERS,
}

#: Where operators, shapes, dtypes or peers are chosen there is time for more. On a noisy machine it takes so
#: many for two runs to agree within 5 %, and for a change of 10 % to show.
MAX_ROUNDS_OF_A_SELECTION = 200


def parser(description: str | None) -> argparse.ArgumentParser:
    """For all options; those of `DEFAULTS` are None where they are not given (see `settle`)."""
    made = argparse.ArgumentParser(
        prog="fastgrad.bench.compare",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_rows(made.add_argument_group("what is measured"))
    _add_sampling(made.add_argument_group("how"))
    output = made.add_argument_group("what is written, besides the tables in the terminal")
    output.add_argument("--json", type=_new_file, metavar="FILE", help="everything measured")
    output.add_argument("--markdown", type=_new_file, metavar="FILE", help="the tables")
    output.add_argument("--picture", type=_new_file, metavar="FILE.png", help="the ratios, drawn")
    output.add_argument(
        "--readme", type=_file_with_section, metavar="FILE", help="its section about a run"
    )
    return made


def settle(options: argparse.Namespace, stored: Mapping[str, Any]) -> None:
    """Give every option of `DEFAULTS` its value: what was given, or stored, or the default."""
    for name, default in DEFAULTS.items():
        if getattr(options, name) is None:
            setattr(options, name, stored.get(name, default))


def _add_rows(group: Any) -> None:
    operators = [*WORKLOADS, *PROCESSES]
    group.add_argument(
        "--workload",
        choices=NAMED_WORKLOADS,
        help="of every operator a selection of sizes and dtypes (default: minutes) or all (full: an "
        "hour), all of the activations' gradients (activations: half an hour), or the articles' tables",
    )
    group.add_argument(
        "--op", type=names_of("operator", operators), default=[], help=", ".join(operators)
    )
    group.add_argument(
        "--shape",
        type=shapes,
        default=[],
        help="such as 1024,32x64x56x56; N×C×… for norms over channels, wherever they are stored",
    )
    group.add_argument(
        "--dtype", type=names_of("dtype", DTYPES), default=[], help=", ".join(DTYPES)
    )
    group.add_argument(
        "--peers", type=names_of_peers, help=f"none, or of {', '.join(PEERS)}; all by default"
    )
    group.add_argument(
        "--repeat",
        type=Path,
        metavar="RUN.json",
        help="measure a stored run once more, as it was measured, and show what moved",
    )


def _add_sampling(group: Any) -> None:
    def add(name: str, kind: Callable[[str], Any], text: str, metavar: str | None = None) -> None:
        default = DEFAULTS[name.replace("-", "_")]
        group.add_argument(f"--{name}", type=kind, metavar=metavar, help=f"{text} ({default})")

    add("rounds", at_least(2), "samples of each contender")
    add("max-rounds", at_least(2), "with those added while a ratio is not known well enough")
    add("precision", _percentage, "half the 95 %% interval of a ratio's median", "PERCENT")
    add("threads", at_least(1), "of every contender")
    add("seed", int, "of the inputs and the order")


def names_of_peers(text: str) -> list[str]:
    """The peers of a list with commas; none for `none`."""
    return [] if text.strip() == "none" else names_of("peer", PEERS)(text)


def names_of(kind: str, known: Iterable[str]) -> Callable[[str], list[str]]:
    known = list(known)

    def parse(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(
                    f"unknown {kind} {name!r}; known: {', '.join(known)}"
                )
        return names

    return parse


def shapes(text: str) -> list[Shape]:
    return [_shape(one.strip()) for one in text.split(",") if one.strip()]


def _shape(text: str) -> Shape:
    lengths = text.split("x")
    if not all(length.isdecimal() and int(length) for length in lengths):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no shape; write positive lengths with x between them, as in 8192x4096"
        )
    return tuple(int(length) for length in lengths)


def at_least(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.strip().isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be an integer of at least {least}, got {text}")
        return int(text)

    return parse


def _percentage(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 100:
        raise argparse.ArgumentTypeError(f"must be a percentage between 0 and 100, got {text}")
    return value


# A run takes minutes: what could not be written at its end is refused at its beginning.


def _new_file(text: str) -> Path:
    file = Path(text)
    if not file.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {file.parent}")
    return file


def _file_with_section(text: str) -> Path:
    file = Path(text)
    try:
        around_section(file)
    except NoSection as reason:
        raise argparse.ArgumentTypeError(str(reason)) from None
    return file
