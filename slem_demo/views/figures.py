"""Figures of a comparison of methods, from plain data. Every method has a colour, a symbol and a dash of its own; every phase a pattern."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import plotly.graph_objects as go

from slem_demo.metrics import Interval, Summary
from slem_demo.views.plots import COLOURS, PHASES, styled

HIDDEN = "hidden"  # the phase of what a method does not show by phase
PATTERNS = {"prefill_s": "", "draft_s": "/", "retokenise_s": "x", "verify_s": "", "other_s": ".", HIDDEN: "-"}


@dataclass(frozen=True)
class Look:
    """How one method is told from the others, with and without colour."""

    colour: str
    symbol: str
    dash: str


# At least 3 : 1 on white and on black, and apart for the colour-blind (after Okabe and Ito).
LOOKS = (
    Look("#1f77d0", "circle", "solid"),
    Look("#d55e00", "diamond", "dash"),
    Look("#00936b", "square", "dot"),
    Look("#b5609a", "triangle-up", "dashdot"),
    Look("#7a62d8", "triangle-down", "longdash"),
    Look("#9a6f1c", "x", "longdashdot"),
    Look("#7a7f87", "cross", "solid"),
)


@dataclass(frozen=True)
class Measured:
    """One method: what the figures draw of it. None or empty: not measured (yet), or not shown by the method.

    `speedup` and `decode_only` are over the target alone; `round_cost` is a round's draft steps and its verify pass, in target steps;
    `by_position`: see `survival`; `ms`: milliseconds per output token by phase.
    """

    name: str
    speedup: Interval | None = None
    decode_only: Interval | None = None
    acceptance_length: float | None = None
    round_cost: float | None = None
    by_position: Sequence[float] = ()
    ms: Mapping[str, float] = field(default_factory=dict)


def survival(summaries: Sequence[Summary]) -> list[float]:
    """Share of all rounds that accepted at least 1, 2, … candidates: its sum is the mean of accepted candidates a round.

    >>> rounds that accepted 0, 2, 1, 1 candidates: the histogram [1, 2, 1] gives [0.75, 0.25]
    """
    longest = max((len(s.acceptance_histogram) for s in summaries), default=0)
    rounds = [sum(s.acceptance_histogram[n] for s in summaries if n < len(s.acceptance_histogram)) for n in range(longest)]
    return [sum(rounds[n:]) / sum(rounds) for n in range(1, longest)]


def milliseconds(summaries: Sequence[Summary]) -> dict[str, float]:
    """Per output token, by phase; what no phase accounts for is `HIDDEN`."""
    n_tokens = sum(s.num_output_tokens for s in summaries)
    if not n_tokens:
        return {}
    found = {name: 1000 * sum(getattr(s, name) or 0.0 for s in summaries) / n_tokens for name in PHASES}
    total = 1000 * sum(s.seconds for s in summaries) / n_tokens
    rest = total - sum(found.values())
    return found | {HIDDEN: rest if any(s.verify_s is None for s in summaries) else 0.0}


def figures(rows: Sequence[Measured], enough: int) -> dict[str, object]:
    """{name: plotly JSON}. The first row is the target alone; an interval is drawn for at least `enough` prompts."""
    looks = {row.name: LOOKS[i % len(LOOKS)] for i, row in enumerate(rows[1:])}
    found = {
        "speedups": speedups(rows[1:], looks, enough),
        "theory": theory(rows[1:], looks, enough),
        "positions": positions(rows[1:], looks),
        "phases": phases(rows),
    }
    return {name: json.loads(figure.to_json()) for name, figure in found.items()}


def speedups(rows: Sequence[Measured], looks: Mapping[str, Look], enough: int) -> go.Figure:
    """Speedup over the target alone, one line a method."""
    figure = go.Figure()
    for row in rows:
        value, look = row.speedup, looks[row.name]
        figure.add_scatter(
            x=[value.median if value else None],
            y=[row.name],
            name=row.name,
            mode="markers+text",
            text=[f"{value.median:.2f}×" if value else ""],
            textposition="top center",
            cliponaxis=False,
            marker=_marker(look, value, enough),
            error_x=_error(look, value, enough),
            hovertemplate="%{y}: %{x:.2f}×<extra></extra>",
        )
    names = [row.name for row in rows]
    figure.add_vline(x=1, line={"width": 1.5, "dash": "dash", "color": "#8c959f"})
    figure = _tall(styled(figure, "Speedup over the target alone", x="times as fast", y=""))
    figure.update_yaxes(categoryorder="array", categoryarray=names[::-1], range=[-0.6, len(names) - 0.3], showgrid=False)
    return figure.update_layout(showlegend=False, margin={"b": 44, "r": 24})


def theory(rows: Sequence[Measured], looks: Mapping[str, Look], enough: int) -> go.Figure:
    """Measured speedup of decoding against the acceptance length; lines are the speedup if a round cost only its passes."""
    figure = go.Figure()
    longest = max((row.acceptance_length or 0.0 for row in rows), default=0.0) * 1.1 or 1.0
    for row in rows:
        look, value, length = looks[row.name], row.decode_only, row.acceptance_length
        shown = value if length is not None else None
        figure.add_scatter(
            x=[length if shown else None],
            y=[shown.median if shown else None],
            name=row.name,
            legendgroup=row.name,
            showlegend=shown is not None,
            mode="markers",
            marker=_marker(look, shown, enough),
            error_y=_error(look, shown, enough),
            hovertemplate="%{x:.2f} tokens a pass: %{y:.2f}×<extra>" + row.name + "</extra>",
        )
        figure.add_scatter(
            x=[0, longest] if row.round_cost else [None, None],
            y=[0, longest / row.round_cost] if row.round_cost else [None, None],
            name=f"{row.name}, predicted",
            legendgroup=row.name,
            showlegend=False,
            mode="lines",
            line={"width": 1.5, "color": look.colour, "dash": look.dash},
            hoverinfo="skip",
        )
    figure.add_hline(y=1, line={"width": 1.5, "dash": "dash", "color": "#8c959f"})
    title = "Decoding: marks measured, lines predicted"
    return _tall(styled(figure, title, x="output tokens per target pass", y="times as fast"))


def positions(rows: Sequence[Measured], looks: Mapping[str, Look]) -> go.Figure:
    """How far into a draft the target goes along."""
    figure = go.Figure()
    for row in rows:
        look, shares = looks[row.name], list(row.by_position)
        figure.add_scatter(
            x=list(range(1, len(shares) + 1)),
            y=shares,
            name=row.name,
            mode="lines+markers",
            line={"width": 2, "color": look.colour, "dash": look.dash},
            marker={"size": 7, "color": look.colour, "symbol": look.symbol},
            hovertemplate="candidate %{x}: %{y:.0%}<extra>" + row.name + "</extra>",
        )
    figure = _tall(styled(figure, "Acceptance by position", x="candidate in its round", y="accepted, of all rounds"))
    longest = max((len(row.by_position) for row in rows), default=0) or 8
    figure.update_xaxes(range=[0.5, longest + 0.5], dtick=1 if longest < 10 else 2, tick0=1)
    return figure.update_yaxes(range=[0, 1.02], tickformat=".0%")


def phases(rows: Sequence[Measured]) -> go.Figure:
    """Where an output token's time goes."""
    figure = go.Figure()
    names = PHASES | {HIDDEN: "not shown by phase"}
    for phase, name in names.items():
        pattern = {"shape": PATTERNS[phase], "fillmode": "overlay", "fgcolor": "rgba(255,255,255,.8)", "size": 6, "solidity": 0.3}
        marker = {"color": COLOURS.get(phase, "#7a7f87"), "line": {"width": 1, "color": "rgba(127,127,127,.8)"}, "pattern": pattern}
        figure.add_bar(
            x=[row.ms.get(phase) for row in rows],
            y=[row.name for row in rows],
            orientation="h",
            name=name,
            marker=marker,
            hovertemplate="%{y}, " + name + ": %{x:.2f} ms<extra></extra>",
        )
    figure.update_layout(barmode="stack", legend={"traceorder": "normal"})
    figure = _tall(styled(figure, "Time of an output token by phase", x="ms", y=""))
    return figure.update_yaxes(categoryorder="array", categoryarray=[row.name for row in rows][::-1], showgrid=False)


def _marker(look: Look, value: Interval | None, enough: int) -> dict[str, object]:
    """Open where there are too few prompts to claim an interval."""
    is_claimed = value is not None and value.n >= enough
    return {
        "size": 10,
        "color": look.colour,
        "symbol": look.symbol + ("" if is_claimed else "-open"),
        "line": {"width": 2, "color": look.colour},
    }


def _error(look: Look, value: Interval | None, enough: int) -> dict[str, object]:
    if value is None or value.n < enough:
        return {"visible": False}
    return {
        "type": "data",
        "symmetric": False,
        "array": [value.high - value.median],
        "arrayminus": [value.median - value.low],
        "color": look.colour,
        "thickness": 2,
        "width": 5,
    }


def _tall(figure: go.Figure) -> go.Figure:
    return figure.update_layout(
        height=310, margin={"b": 96}, uirevision="compare", legend={"y": -0.24}, title={"x": 0, "xref": "container"}
    )
