"""SLEM speculative decoding, to see, teach and measure.

    import slem_demo

    pair = slem_demo.load_pair("builtin")
    for event in slem_demo.decode(pair, "In the beginning"):
        print(event)

Names are loaded on first use, so that `import slem_demo.engine` loads no transformers and `import slem_demo.views` no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slem_demo.benchmark import bench
    from slem_demo.errors import SlemError
    from slem_demo.models.loading import decode, load_pair
    from slem_demo.trace import Trace

__all__ = ["SlemError", "Trace", "bench", "decode", "load_pair"]

_HOME = {
    "SlemError": "slem_demo.errors",
    "Trace": "slem_demo.trace",
    "bench": "slem_demo.benchmark",
    "decode": "slem_demo.models.loading",
    "load_pair": "slem_demo.models.loading",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
