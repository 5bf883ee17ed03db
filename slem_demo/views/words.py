"""A run in words: the caption of its figures, what one is looking at, and what the terms mean. Every number is of the run."""

from __future__ import annotations

from slem_demo.metrics import Summary
from slem_demo.trace import Environment, ModelInfo, Request, Trace
from slem_demo.views.live import Comparison

PAPER = (
    "The method is Algorithm 2 (SLEM) of Timor, Mamou, Korat, Berchansky, Jain, Pereg, Wasserblat, Harel: Accelerating LLM Inference "
    "with Lossless Speculative Decoding Algorithms for Heterogeneous Vocabularies, ICML 2025, arXiv 2502.05202."
)
GLOSSARY = {
    "draft model": "A small model that writes ahead. What it writes can only change how quickly the text comes, never the text.",
    "target": "The model whose text is wanted. Every token of the output is its own choice.",
    "candidates": "The drafted text in the target's own tokens: what the target checks.",
    "target pass": "One computation of the target. It costs about the same for one token as for a few.",
    "round": "A draft, its candidates, one target pass, and the tokens that it adds to the text.",
    "acceptance length": "Tokens that a round adds to the text, on average: those accepted, and one of the target's own.",
    "draft step": "One token of the draft model: K of them make a draft.",
    "lossless": "The ids that come out are the ids that the target alone would have written.",
}


def caption(trace: Trace) -> str:
    """What a figure of this run needs under it: models and revisions, settings, machine."""
    models = f"Target {_model(trace.target)}" + (f"; draft {_model(trace.draft)}" if trace.draft else "")
    return f"{models}. {settings(trace.request)}. {machine(trace.environment)}."


def settings(r: Request) -> str:
    """The settings that decide a run's text and its rounds."""
    dice = "greedy" if r.temperature == 0 else f"temperature {r.temperature:g}, seed {r.seed}, the draft's dice {r.draft_noise}"
    filters = [f"{name.replace('_', '-')} {value:g}" for name in ("top_k", "top_p") if (value := getattr(r, name)) is not None]
    chat = ["as a conversation"] * r.chat
    return ", ".join([f"Method {r.method}, K {r.k}", dice, *filters, *chat, f"at most {r.max_new_tokens} tokens"])


def machine(e: Environment) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in e.versions.items())
    return "; ".join([e.machine, f"{e.device}, {e.dtype}, {_count(e.threads, 'thread')}", *[versions] * bool(versions)])


def story(s: Summary, race: Comparison | None = None) -> list[str]:
    """What one is looking at, with the numbers of this run; before it has a round, in general."""
    if not s.num_rounds:
        return [
            "A small draft model writes a few words ahead. Its text is cut into candidates, tokens of the target, and one target pass "
            "checks them all. What the target would have written itself is kept; the first that it would not is replaced by its own.",
            PAPER,
        ]
    return [*_rounds(s), *_times(s, race), _lossless(race), PAPER]


def _rounds(s: Summary) -> list[str]:
    n = f"{_count(s.num_output_tokens, 'token')} came out of {_count(s.num_rounds, 'round')}"
    if not s.num_candidate_tokens:
        return [f"{n}. Nothing was proposed, so each round is one plain target pass."]
    return [
        f"The draft model wrote {s.num_draft_tokens:,} tokens of its own vocabulary. Their text, cut anew, is {s.num_candidate_tokens:,} "
        f"candidates in the target's vocabulary; the target accepted {s.num_accepted_tokens:,} of them.",
        f"{n}, each with one target pass: an acceptance length of {s.mean_acceptance_length:.2f}. The target alone needs a target pass "
        "for every token.",
    ]


def _times(s: Summary, race: Comparison | None) -> list[str]:
    found = []
    if s.verify_s and s.num_draft_tokens:
        step_ms, pass_ms = 1000 * (s.draft_s or 0) / s.num_draft_tokens, 1000 * s.verify_s / s.num_rounds
        found.append(f"On average a target pass took {pass_ms:.1f} ms and a draft step {step_ms:.2f} ms.")
    if race and race.speedup:
        slower = "so drafting cost time here" if race.speedup < 1 else "prompt and all"
        found.append(f"Beside the target alone in the same race that was {race.speedup:.2f} times its speed, {slower}.")
    return found


def _lossless(race: Comparison | None) -> str:
    if race is None or not race.n_compared:
        return "Whether it was lossless was not checked in this run: that takes the race against the target alone."
    if race.first_difference is not None:
        return f"Not lossless: id {race.first_difference + 1} is another than the target alone wrote. {race.why or ''}".strip()
    return (
        "That it was lossless was checked, not assumed: the target continued the same prompt alone, and all of the "
        f"{race.n_compared:,} ids that both wrote are the same in the same places."
    )


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'s' * (n != 1)}"


def _model(m: ModelInfo) -> str:
    revision = f" ({m.source}, revision {m.revision[:12]})" if m.revision else f" ({m.source})"
    return m.name + revision
