"""Shared by all tests: pinned threads, no hub, one load of the built-in pair."""

from __future__ import annotations

import os

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"

import pytest
import torch

from slem_demo.models.loading import Pair, Placement, load_pair

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def builtin() -> Pair:
    return load_pair("builtin", Placement("cpu", "float32"))
