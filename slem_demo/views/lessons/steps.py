"""Each of the six steps in words, with the round's own tokens and numbers."""

from __future__ import annotations

from collections.abc import Callable

from slem_demo.metrics import summarise
from slem_demo.trace import REASON_TEXT
from slem_demo.views.lessons.scene import Ending, Scene, speedup, two_ids
from slem_demo.views.lessons.words import as_one, count, duration, each, nth, percent, quote


def draft_step(s: Scene) -> str:
    n, k, draft = len(s.draft), s.trace.request.k, s.trace.draft
    if not n:
        why = REASON_TEXT[s.r.reason] if s.r.reason else "there was no draft"
        return f"In this round nothing was drafted: {why}. The round is a plain step of the target, and steps 2 and 5 have nothing to do."
    fewer = "" if n == k or k == "auto" else f", of the K = {k} that it may write"
    of = f" of its own vocabulary (of {draft.vocab_size:,})" if draft else ""
    took = f" Writing them took {duration(s.r.draft_s)}." if s.r.draft_s is not None else ""
    k_is = f"K = {k} tokens" if n == k else count(n, "token")
    return f"The draft model reads the text so far and writes {k_is}{of}{fewer}, one after the other: {each(s.draft)}.{took}"


def string_step(s: Scene) -> str:
    m = len(s.candidate)
    if not s.draft:
        return "There is no drafted text, so there is nothing to encode."
    joined = f"Joined, they are the string {as_one(s.draft)}."
    if not m:
        return f"{joined} It gave no candidates: {REASON_TEXT[s.r.reason] if s.r.reason else 'there were none'}."
    is_shorter = s.picture["candidate"][-1]["end"] < len(s.picture["columns"])
    rest = " The rest is not sent, for the run has no room for more." if is_shorter else ""
    wrote = f"The target's tokenizer (vocabulary {s.trace.target.vocab_size:,}) writes it in {count(m, 'token')}"
    return f"{joined} {wrote}, the candidates: {each(s.candidate)}.{rest} {_boundaries(s)}"


def _boundaries(s: Scene) -> str:
    """What became of the draft's boundaries, in this string."""
    last = min(s.picture["draft"][-1]["end"], s.picture["candidate"][-1]["end"])
    inner = [b["end"] for b in s.picture["draft"] if 0 < b["end"] < last]
    ends = {b["end"] for b in s.picture["candidate"]}
    n_both, n_new = sum(end in ends for end in inner), sum(0 < end < last and end not in inner for end in ends)
    if n_both < len(inner):
        new = f", and it sets {n_new} of its own" if n_new else ""
        return f"Of the draft's {count(len(inner), 'inner boundary')}, it keeps {n_both}{new}."
    if n_new:
        return f"It keeps all of the draft's boundaries and sets {n_new} more."
    ids = two_ids(s)
    return f"The boundaries are the draft's, but the ids are not: {ids}." if ids else "The boundaries are the draft's."


def pass_step(s: Scene) -> str:
    m, took = len(s.candidate), f" It took {duration(s.r.verify_s)}." if s.r.verify_s is not None else ""
    if not m:
        return f"The target reads the last committed token alone, so the pass gives one position: what comes next.{took}"
    places = f"{m + 1} positions: one behind the committed text and one behind each candidate"
    return f"One pass of the target reads the last committed token and the {count(m, 'candidate')} together. It gives {places}.{took}"


def choice_step(s: Scene) -> str:
    rule = (
        "At each position the target takes its likeliest token (temperature 0)."
        if s.is_greedy
        else f"At each position the target rolls its dice (temperature {s.trace.request.temperature:g}, seed {s.trace.request.seed})."
    )
    up_to = "" if s.ending in (Ending.BONUS, Ending.PLAIN) else ", up to where the round ends"
    chosen = f"Its choices{up_to}: {each(s.r.committed)}." if len(s.r.committed) > 1 else f"Its choice is {each(s.r.committed)}."
    return " ".join([rule, chosen, *_odds(s)])


def _odds(s: Scene) -> list[str]:
    """How likely the last choice was, beside the refused candidate or the best of the others."""
    rows, own = s.picture["choices"], each(s.own)
    if not rows:
        return []
    chosen = next((c for c in rows if c["role"] == "chosen"), None)
    if chosen is None:
        best = f"the likeliest, {quote(rows[0]['text'])}, had a probability of {percent(rows[0]['probability'])}"
        return [f"{own} is not among its {len(rows)} likeliest there: {best}."]
    had = f"{own} had a probability of {percent(chosen['probability'])}"
    other = next((c for c in rows if c["role"] == "candidate"), None)
    if other:
        return [f"{had}, the candidate {quote(other['text'])} {percent(other['probability'])}."]
    other = next((c for c in rows if c["role"] == ""), None)
    return [f"{had}, the best other, {quote(other['text'])}, {percent(other['probability'])}." if other else f"{had}."]


def mismatch_step(s: Scene) -> str:
    n, m = s.r.n_accepted, len(s.candidate)
    if s.ending is Ending.PLAIN:
        return "There are no candidates, so there is nothing to compare and no mismatch."
    if s.ending is Ending.STOP:
        return f"The first {count(n, 'candidate')} are the target's own choices, and the run ends inside them."
    if s.ending is Ending.BONUS:
        return f"All {m} candidates are the target's own choices, id for id. There is no mismatch in this round."
    first = {
        0: "Already the first candidate is not the target's own choice",
        1: "The first candidate is the target's own choice, id for id. The 2nd is not",
    }
    kept = first.get(n, f"The first {n} candidates are the target's own choices, id for id. The {nth(n + 1)} is not")
    return f"{kept}: {each(s.refused)} against {each(s.own)}. {_where(s)}"


def _where(s: Scene) -> str:
    """Where the strings part, in the tokens of both."""
    if s.ending is Ending.CUT:
        return "The candidate is only the beginning of the target's token: the draft ended there. It counts as a mismatch all the same."
    in_draft = _place_in_draft(s)
    if s.ending is Ending.INSIDE:
        return f"Both begin with “{s.shared_text}”, so they part inside a token of the target; in the draft's tokens that is {in_draft}."
    if s.shared_text:
        return f"They share only the space that they begin with; in the draft's tokens they part {in_draft}."
    return (
        f"They differ from the first character, so they part where a token of the target begins; in the draft's tokens that is {in_draft}."
    )


def _place_in_draft(s: Scene) -> str:
    blocks, at = s.picture["draft"], s.picture["parts_at"]
    if at is None or not blocks or at >= blocks[-1]["end"]:
        return "at its end"
    if at == 0:
        return "at its beginning"
    inside = next((b for b in blocks if b["start"] < at < b["end"]), None)
    if inside:
        return f"in the middle of {quote(inside['text'])}"
    before = next(b for b in reversed(blocks) if b["end"] <= at)
    after = next(b for b in blocks if b["start"] >= at)
    return f"between {quote(before['text'])} and {quote(after['text'])}"


def commit_step(s: Scene) -> str:
    n, lost = s.r.n_accepted, s.candidate[s.r.n_accepted :]
    kept = [each(s.candidate[:n])] if n else []
    own = [f"the target's own {each(s.own)}"] if s.own else []
    away = f" Thrown away: {each(lost)}." if lost else ""
    more = f" {each(s.own)} is the bonus: the position behind the last candidate." if s.ending is Ending.BONUS else ""
    return f"Committed: {' and '.join([*kept, *own])}, {count(len(s.r.committed), 'token')} from one target pass.{more}{away}{_outcome(s)}"


def _outcome(s: Scene) -> str:
    """What the whole run came to beside the target alone, where both were timed."""
    if s.target is None or s.runs == 1:
        return ""
    ours, alone, ratio = s.run.seconds, summarise(s.target).seconds, speedup(s.trace, s.target)
    verdict = "slower" if ratio < 1 else "faster"
    return f" The whole run took {duration(ours)}, the target alone {duration(alone)}: {ratio:.2f}×, {verdict}."


Text = Callable[[Scene], str]


STEPS: tuple[tuple[str, str, tuple[str, ...], Text], ...] = (
    ("1 · The draft writes", "y₁ … y_K ← draft(decode(committed))", ("draft",), draft_step),
    ("2 · Its text is re-tokenised", "x₁ … x_m ← encode_target(decode_draft(y₁ … y_K))", ("string", "candidate"), string_step),
    ("3 · One target pass", "p₁ … p_{m+1} ← target(committed, x₁ … x_m)", ("candidate", "phases"), pass_step),
    ("4 · The target chooses", "t_j ← choose(p_j)  for j = 1 … m+1", ("own", "choices"), choice_step),
    ("5 · The first mismatch", "n ← the largest n with x₁ … x_n = t₁ … t_n", ("candidate", "own", "parts"), mismatch_step),
    ("6 · Commit", "committed ← committed, x₁ … x_n, t_{n+1}", ("candidate", "own", "text"), commit_step),
)
