"""A run as a picture: the ratio to each peer, by operator, dtype and size."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastgrad.bench.contenders import SELF
from fastgrad.bench.extras import require
from fastgrad.bench.results import Results, Row
from fastgrad.bench.tables import shape_text
from fastgrad.bench.workloads import DTYPES, WORKLOADS, Shape

# Okabe and Ito's colours, which people tell apart whatever their sight; the markers differ as well. Their
# yellow is too light on white: olive and grey stand last instead.
_COLOURS = (
    *("#0072B2", "#56B4E9", "#D55E00", "#009E73", "#CC79A7", "#E69F00"),
    *("#000000", "#8B8B00", "#8C8C8C"),
)
_MARKERS = "osD^vPX<>"

_PANEL_WIDTH, _PANEL_HEIGHT = 3.6, 2.5  # inches
_DODGE = 0.7  # the share of a size's place that the markers of all peers take, and at most for each
_LARGEST_DODGE = 0.16
_CHARACTERS_AN_INCH = 16  # of the small print
_TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def draw(results: Results, file: Path) -> None:
    """Write the picture to `file`; its ending names the format."""
    # Without pyplot, so no display is asked for.
    figure = require("matplotlib.figure").Figure(layout="constrained")
    operators = _operators(results)
    dtypes = [name for name in DTYPES if any(row.case.dtype == name for row in results.rows)]
    if not operators:
        figure.text(0.5, 0.5, "nothing to compare with was measured", ha="center")
    else:
        figure.set_size_inches(
            max(7, _PANEL_WIDTH * len(dtypes) + 0.7), _PANEL_HEIGHT * len(operators) + 1.6
        )
        panels = figure.subplots(
            len(operators), len(dtypes), sharex="row", sharey="row", squeeze=False
        )
        for line, operator in zip(panels, operators):
            for panel, dtype in zip(line, dtypes):
                _draw_panel(panel, results, operator, dtype)
            line[0].set_ylabel("peer's time / fastgrad's", fontsize=8)
        _draw_legend(figure, panels, results)
    characters = int(_CHARACTERS_AN_INCH * figure.get_size_inches()[0])
    figure.supxlabel(_below(results, characters), fontsize=8, x=0.01, ha="left")
    figure.savefig(file, dpi=150)


def _operators(results: Results) -> list[str]:
    return list(dict.fromkeys(row.case.operator for row in results.rows if row.ratios))


def _draw_panel(panel: Any, results: Results, operator: str, dtype: str) -> None:
    of_operator = [row for row in results.rows if _is_drawn(row, operator)]
    of_operator.sort(key=lambda row: (row.case.elements, row.case.shape))
    shapes = list(dict.fromkeys(row.case.shape for row in of_operator))
    rows = [row for row in of_operator if row.case.dtype == dtype]
    peers = [name for name in _peers(results) if any(name in row.ratios for row in of_operator)]
    panel.set_title(f"{operator}, {dtype}", fontsize=9)
    panel.set_yscale("log")
    panel.axhspan(1e-3, 1, color="0.94", zorder=0)
    panel.axhline(1, color="0.3", linewidth=1, zorder=1)
    for between in range(1, len(shapes)):
        panel.axvline(between - 0.5, color="0.85", linewidth=0.5, zorder=1)
    step = min(_LARGEST_DODGE, _DODGE / len(peers))
    for index, peer in enumerate(peers):
        offset = step * (index - (len(peers) - 1) / 2)
        _draw_peer(panel, rows, peer, shapes, offset, _style(results, peer))
    panel.set_xlim(-0.5, len(shapes) - 0.5)
    panel.set_xticks(range(len(shapes)), [_shape_label(shape) for shape in shapes])
    panel.tick_params(axis="x", labelrotation=20, labelsize=7)
    panel.tick_params(axis="y", labelsize=8)
    panel.grid(axis="y", color="0.85", linewidth=0.5)
    _set_limits(panel, of_operator)
    if not rows:
        panel.text(0.5, 0.5, "not measured", transform=panel.transAxes, ha="center", color="0.5")


def _draw_peer(
    panel: Any,
    rows: Sequence[Row],
    peer: str,
    shapes: Sequence[Shape],
    offset: float,
    style: dict[str, str],
) -> None:
    """Medians with whiskers at the quartiles, along a thin line that leads the eye."""
    taking_part = [row for row in rows if peer in row.ratios]
    spreads = [row.ratios[peer] for row in taking_part]
    places = [shapes.index(row.case.shape) + offset for row in taking_part]
    medians = [one.median for one in spreads]
    panel.plot(places, medians, color=style["color"], linewidth=0.8, alpha=0.4, zorder=2)
    panel.errorbar(
        places,
        medians,
        yerr=[
            [one.median - one.low for one in spreads],
            [one.high - one.median for one in spreads],
        ],
        linestyle="none",
        markersize=4,
        elinewidth=1.2,
        zorder=3,
        **style,
    )


def _set_limits(panel: Any, rows: Sequence[Row]) -> None:
    """Room for every whisker, the line at 1, and ticks at round numbers."""
    spreads = [one for row in rows for one in row.ratios.values()]
    low = min([0.75, *(one.low for one in spreads)]) / 1.15
    high = max([1.4, *(one.high for one in spreads)]) * 1.15
    panel.set_ylim(low, high)
    ticks = [tick for tick in _TICKS if low <= tick <= high]
    panel.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    panel.minorticks_off()


def _draw_legend(figure: Any, panels: Any, results: Results) -> None:
    """One entry a peer, whichever panels it is in, and the missing ones with them."""
    lines = require("matplotlib.lines")
    handles = [
        lines.Line2D([], [], linestyle="none", markersize=6, label=peer, **_style(results, peer))
        for peer in _peers(results)
    ]
    handles += [
        lines.Line2D([], [], linestyle="none", label=f"{peer}: missing") for peer in results.missing
    ]
    columns = min(len(handles), 3 + 2 * panels.shape[1])
    figure.legend(handles=handles, loc="outside upper center", ncols=columns, frameon=False)


def _below(results: Results, width: int) -> str:
    """What the picture shows, on what, and who is not in it."""
    machine, settings = results.machine, results.settings
    lines = [
        "Above 1 fastgrad is faster. Medians; whiskers at the quartiles of the ratios of each round. "
        "Into memory made before (out=) where there is such a row.",
        f"{machine['processor']}, {settings['threads']} threads, {machine['date']}, "
        f"commit {machine['commit'] or 'unknown'}",
    ]
    lines += [f"missing: {name}: {reason}" for name, reason in results.missing.items()]
    for name in results.versions:
        failed = sum(name in row.failures for row in results.rows)
        if failed:
            lines.append(f"{name} failed in {failed} rows")
    return "\n".join(textwrap.fill(line, width) for line in lines)


def _peers(results: Results) -> list[str]:
    return [name for name in results.versions if name != SELF]


def _style(results: Results, peer: str) -> dict[str, str]:
    index = _peers(results).index(peer)
    colour = _COLOURS[index % len(_COLOURS)]
    return {"color": colour, "marker": _MARKERS[index % len(_MARKERS)]}


def _is_drawn(row: Row, operator: str) -> bool:
    """The first mode stands for all: `out` where there is one."""
    return row.case.operator == operator and row.case.mode == WORKLOADS[operator].modes[0]


def _shape_label(shape: Shape) -> str:
    return f"{shape[0]:,}" if len(shape) == 1 else shape_text(shape)
