"""From a hub id to a local folder: what is cached is used, anything else is asked for with a deadline."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from slem_demo.errors import SlemError
from slem_demo.models.pairs import Source

FILES = ["*.safetensors", "*.safetensors.index.json", "config.json", "generation_config.json", "tokenizer*", "*.jinja"]
DEADLINE_S = 4.0  # with the seconds that imports take, a refusal comes within ten
MAX_BYTES = 200 * 2**30

T = TypeVar("T")


def fetch(source: Source) -> tuple[Path, str]:
    """(folder, commit) of a hub model, downloaded if it is not in the cache.

    Raises:
        SlemError: the hub does not answer in time, or the model is gated, unknown, too large or has no safetensors.
    """
    assert source.hub_id is not None
    try:
        folder = Path(snapshot_download(source.hub_id, revision=source.revision, allow_patterns=FILES, local_files_only=True))
        if any(folder.glob("*.safetensors")):
            return folder, folder.name
    except LocalEntryNotFoundError:
        pass
    except HFValidationError as error:
        raise SlemError(f"{source.name!r} is no hub id: {error}.") from None
    commit, n_bytes = _ask(source)
    if n_bytes == 0:
        raise SlemError(f"{source.name} has no safetensors weights; only those are loaded.")
    if n_bytes > MAX_BYTES:
        raise SlemError(f"{source.name} is {n_bytes / 2**30:.0f} GiB, more than the {MAX_BYTES / 2**30:.0f} GiB that are allowed.")
    try:
        return Path(snapshot_download(source.hub_id, revision=commit, allow_patterns=FILES)), commit
    except Exception as error:  # network errors are those of whichever HTTP library the hub's client uses
        raise SlemError(f"{source.name} could not be downloaded ({type(error).__name__}); try again.") from None


def _ask(source: Source) -> tuple[str, int]:
    """The commit and the size of the weights, known before anything is downloaded."""
    try:
        info = _within(
            DEADLINE_S,
            lambda: HfApi().model_info(source.hub_id or "", revision=source.revision, timeout=DEADLINE_S, files_metadata=True),
        )
    except GatedRepoError:
        raise SlemError(f"{source.name} is gated: accept its licence on the hub and set HF_TOKEN.") from None
    except RevisionNotFoundError:
        raise SlemError(f"{source.hub_id} has no revision {source.revision!r}.") from None
    except RepositoryNotFoundError:
        raise SlemError(f"The hub knows no model {source.hub_id}; if it is private, set HF_TOKEN.") from None
    except Exception as error:  # network errors are those of whichever HTTP library the hub's client uses
        raise SlemError(
            f"{source.name} is not on this machine and the hub could not be reached ({type(error).__name__}); "
            "check the connection, or use the pair builtin."
        ) from None
    weights = [file for file in info.siblings or [] if file.rfilename.endswith(".safetensors")]
    return info.sha or "", sum(file.size or 0 for file in weights)


def _within(seconds: float, call: Callable[[], T]) -> T:
    """The call's result, or TimeoutError. A client's own time-out counts from each byte received, so it alone can't promise this."""
    results: list[T] = []
    errors: list[Exception] = []

    def work() -> None:
        try:
            results.append(call())
        except Exception as error:  # handed on to the caller below
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError(f"no answer within {seconds:.0f} s")
    return results[0]
