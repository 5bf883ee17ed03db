"""The live plots as plotly figures without data; the page adds points to them in place."""

from __future__ import annotations

import json

import plotly.graph_objects as go

PHASES = {"prefill_s": "prefill", "draft_s": "draft", "retokenise_s": "re-tokenise", "verify_s": "verify", "other_s": "other"}
COLOURS = {"prefill_s": "#57606a", "draft_s": "#d4a72c", "retokenise_s": "#cf222e", "verify_s": "#54aeff", "other_s": "#8250df"}
LANES = {"slem": "SLEM", "target": "target alone"}


def acceptance() -> go.Figure:
    """Tokens gained by each round, and their running mean."""
    figure = go.Figure()
    figure.add_scatter(x=[], y=[], mode="markers", name="this round", marker={"size": 4, "color": "#1a7f37", "symbol": "circle-open"})
    figure.add_scatter(x=[], y=[], mode="lines", name="mean so far", line={"width": 2, "color": "#0969da"})
    return styled(figure, "Tokens gained by round", x="round", y="tokens")


def speedup() -> go.Figure:
    """Measured speedup over the race, the predicted one beside it, and 1×."""
    figure = go.Figure()
    figure.add_scatter(x=[], y=[], mode="lines", name="measured", line={"width": 2, "color": "#0969da"})
    figure.add_scatter(x=[], y=[], mode="lines", name="predicted", line={"width": 2, "color": "#bf8700", "dash": "dash"})
    figure.add_hline(y=1, line={"width": 1, "dash": "dot", "color": "#8c959f"})
    return styled(figure, "Speedup against the target alone", x="SLEM tokens", y="×")


def phases() -> go.Figure:
    """Where each lane's seconds went."""
    figure = go.Figure()
    for phase, name in PHASES.items():
        marker = {"color": COLOURS[phase], "line": {"width": 1, "color": "rgba(127,127,127,.8)"}}
        figure.add_bar(x=[0] * len(LANES), y=list(LANES.values()), orientation="h", name=name, marker=marker)
    figure.update_layout(barmode="stack", yaxis={"autorange": "reversed"}, legend={"traceorder": "normal"})
    return styled(figure, "Seconds by phase", x="", y="")


def live_plots() -> dict[str, object]:
    """{name: plotly JSON} of the three plots."""
    figures = {"acceptance": acceptance(), "speedup": speedup(), "phases": phases()}
    return {name: json.loads(figure.to_json()) for name, figure in figures.items()}


def styled(figure: go.Figure, title: str, x: str, y: str) -> go.Figure:
    """Transparent and small; the page sets the ink for light and dark."""
    figure.update_layout(
        template="none",
        title={"text": title, "font": {"size": 13}, "x": 0, "xref": "paper", "y": 0.97, "yanchor": "top"},
        height=230,
        margin={"l": 44, "r": 8, "t": 36, "b": 62},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"size": 12, "family": "system-ui, DejaVu Sans, sans-serif"},
        legend={"orientation": "h", "y": -0.28, "x": 0, "yanchor": "top"},
        uirevision="live",
        showlegend=True,
    )
    figure.update_xaxes(title={"text": x, "standoff": 4}, zeroline=False, gridcolor="rgba(127,127,127,.2)", rangemode="tozero")
    figure.update_yaxes(
        title={"text": y, "standoff": 4}, zeroline=False, gridcolor="rgba(127,127,127,.2)", rangemode="tozero", automargin=True
    )
    return figure
