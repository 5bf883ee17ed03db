"""The questions. Each is asked of a scene and returns (question, answer)."""

from __future__ import annotations

from collections.abc import Callable

from slem_demo.metrics import summarise
from slem_demo.trace import Method, n_accepted_draft
from slem_demo.views.lessons.scene import (
    Ending,
    Scene,
    accepted,
    equal_ids,
    n_ids_before,
    per,
    predicted_speedup,
    prices,
    size_of,
    speedup,
    speedups_by_k,
    target_step_s,
    two_cuts,
    two_ids,
    which_ids,
)
from slem_demo.views.lessons.words import as_one, capital, count, duration, each, nth, percent, quote


def own_vocabulary(s: Scene) -> tuple[str, str]:
    sizes = f"{s.trace.draft.vocab_size:,} tokens, the target {s.trace.target.vocab_size:,}" if s.trace.draft else "its own tokens"
    ids = f": {two_ids(s)}" if two_ids(s) else ""
    return (
        "Why does the draft not write tokens of the target?",
        f"It has learnt to write in its own vocabulary: {sizes}. An id means something else in each{ids}. "
        "So any small model can be the draft, whatever its tokenizer.",
    )


def more_at_once(s: Scene) -> tuple[str, str]:
    by_position = s.run.acceptance_by_position or [0.0]
    return (
        "Why not draft much more at once?",
        "A later candidate counts only if all before it were right. In this run the first candidate was accepted in "
        f"{percent(by_position[0])} of the rounds that had one, the {nth(len(by_position))} in {percent(by_position[-1])}. "
        "But each token of a draft costs a pass of the draft model, right or wrong.",
    )


def draft_price(s: Scene) -> tuple[str, str]:
    draft, times = s.trace.draft, (s.r.draft_s or 0.0, s.r.verify_s or 0.0)
    sizes = f" The draft has {size_of(draft)}, the target {size_of(s.trace.target)}." if draft else ""
    return (
        f"Are {count(len(s.draft), 'pass')} of the draft not slow?",
        f"Each is much smaller than a pass of the target.{sizes} Here {count(len(s.draft), 'token')} took {duration(times[0])} to draft, "
        f"and the one target pass {duration(times[1])}.",
    )


def shared_dice(s: Scene) -> tuple[str, str]:
    others = [t for t in s.beside if t.request.method is Method.SLEM]
    rates = "; ".join(f"{_DICE[t.request.draft_noise]}, {accepted(summarise(t))}" for t in others)
    same = all(t.output_ids == s.trace.output_ids for t in others)
    compared = f" {'All' if same else 'Not all'} of these runs wrote the same ids." if others else ""
    return (
        "How can a draft guess what the dice will say?",
        "It may roll the same dice. The noise on a token depends on the seed, the place and the token's bytes, so both models add "
        f"the same noise to a token that both have. That gives {accepted(s.run)}. {capital(rates)}.{compared}",
    )


_DICE = {"greedy": "with the draft's likeliest token instead", "independent": "with dice of its own", "shared": "with the target's dice"}


def draft_step_cost(s: Scene) -> tuple[str, str]:
    c, _, k = prices(s.trace, s.target) if s.target else (0.0, 0.0, 0.0)
    return (
        "What does a draft step cost?",
        f"In this run a draft step took {duration(per(s.run.draft_s, s.run.num_draft_tokens))}. That is c = {c:.3f} of a step of the "
        f"target alone. With {k:.1f} draft steps a round, drafting costs {k * c:.2f} target steps a round before anything is checked.",
    )


def last_token(s: Scene) -> tuple[str, str]:
    n, most = s.trace.request.max_new_tokens, s.run.num_output_tokens
    return (
        "Why not draft all the same?",
        f"The run may write {n} tokens, and this one is number {most}. Each target pass gives one token of the target's own in any case, "
        "so a draft could add nothing.",
    )


def why_text(s: Scene) -> tuple[str, str]:
    return (
        "Why go through text at all?",
        f"Text is what both vocabularies can write. {two_cuts(s)} Comparing strings of text needs no map between the two.",
    )


def is_m_k(s: Scene) -> tuple[str, str]:
    return (
        "Does K draft tokens mean K candidates?",
        f"Not in general. Here {count(len(s.draft), 'draft token')} became {count(len(s.candidate), 'candidate')}; over the whole run "
        f"{s.run.num_draft_tokens} became {s.run.num_candidate_tokens}. The target's tokenizer cuts the text as it likes.",
    )


def encoded_alone(s: Scene) -> tuple[str, str]:
    n_before = n_ids_before(s)
    return (
        "Is the drafted text encoded by itself?",
        "No, together with the text before it; what follows the committed ids are the candidates. "
        f"The {n_before} ids committed so far (the prompt's among them) are never encoded again: they stay as they are.",
    )


def price_of_text(s: Scene) -> tuple[str, str]:
    spent = s.run.retokenise_s or 0.0
    return (
        "What does the detour through text cost?",
        f"Decoding and encoding took {duration(s.r.retokenise_s or 0.0)} in this round, and {duration(spent)} in the whole run: "
        f"{percent(spent / s.run.seconds)} of its time.",
    )


def cannot_write(s: Scene) -> tuple[str, str]:
    n = sum(not r.candidate for r in s.trace.rounds)
    return (
        "What if a text cannot become candidates?",
        "Then nothing is proposed, and the round is a plain step of the target with a reason beside it. "
        f"In this run that is {n} of {count(s.run.num_rounds, 'round')}. The output is the same either way.",
    )


def one_pass(s: Scene) -> tuple[str, str]:
    n = s.run.num_rounds
    places = (s.run.num_candidate_tokens or 0) / n + 1
    return (
        f"Is a pass over {count(len(s.candidate) + 1, 'position')} not {len(s.candidate) + 1} times as slow?",
        f"No: the positions are computed side by side. This pass took {duration(s.r.verify_s or 0.0)}. In the whole run a pass took "
        f"{duration(per(s.run.verify_s, n))} on average, for {places:.1f} positions: {duration(per(s.run.verify_s, n) / places)} for each.",
    )


def plus_one(s: Scene) -> tuple[str, str]:
    m = len(s.candidate)
    return (
        "Why is there one position more than candidates?",
        f"The first position stands behind the committed text, before any candidate; the last behind the last candidate. That makes "
        f"{m} + 1 = {m + 1}. So even when everything is accepted there is one more token of the target's own.",
    )


def reads_again(s: Scene) -> tuple[str, str]:
    m = len(s.candidate)
    new = f"the last committed token and {count(m, 'candidate')}" if m else "the last committed token"
    return (
        "Does the target read the whole text again in each round?",
        f"No. It keeps what it has computed of the ids before (its KV cache; with the last committed one they are {n_ids_before(s)}) and "
        f"reads only what is new: here {new}. What it computed of refused candidates is dropped.",
    )


def pass_price(s: Scene) -> tuple[str, str]:
    _, v, _ = prices(s.trace, s.target) if s.target else (0.0, 0.0, 0.0)
    n, alone_s = s.run.num_rounds, target_step_s(s.target) if s.target else 0.0
    places = (s.run.num_candidate_tokens or 0) / n + 1
    return (
        "What does a pass over the candidates cost?",
        f"In this run a target pass took {duration(per(s.run.verify_s, n))} on average, for {places:.1f} positions. Alone, with one "
        f"position, the target took {duration(alone_s)}. The ratio is v = {v:.2f}.",
    )


def how_sure(s: Scene) -> tuple[str, str]:
    rows = ", ".join(f"{quote(c['text'])} {percent(c['probability'])}" for c in s.picture["choices"])
    decides = "Only the likeliest is taken" if s.is_greedy else "The dice decide"
    return "How sure was the target?", f"Its best tokens where the round ends: {rows}. {decides}; the draft's opinion counts for nothing."


def behind(s: Scene) -> tuple[str, str]:
    n = max(0, len(s.candidate) - s.r.n_accepted)
    return (
        "What do the positions behind a mismatch say?",
        "What would come next if the refused candidate stood there. It does not, so they are of no use: here that is "
        f"{count(n, 'position')} of {len(s.candidate) + 1}, computed for nothing.",
    )


def dice_are_the_targets(s: Scene) -> tuple[str, str]:
    n_equal, n = equal_ids(s.trace, s.target) if s.target else (0, 0)
    compared = f"Compared with the target alone at the same seed: {n_equal} of {n} ids are equal." if s.target else ""
    return (
        "Could the draft load the target's dice?",
        "No. The noise of a token depends on the seed and the prompt, on the place (bytes written so far) and on the token's own bytes. "
        f"Nothing of it is drafted. {compared}",
    )


def what_is_compared(s: Scene) -> tuple[str, str]:
    return (
        "What is compared, texts or ids?",
        f"Ids of the target: {which_ids(s)}. The same text in other tokens would be a mismatch, for what is committed must be the very ids "
        "that the target chose.",
    )


def half_a_token(s: Scene) -> tuple[str, str]:
    if not s.shared_text:
        return what_is_compared(s)
    (own,), (refused,), same = s.own, s.refused, s.shared_text
    return (
        f"The draft had “{same}” right. Why is that not kept?",
        f"Only whole tokens of the target can be committed, and the target's token there is {each([own])} (id {own.id}). Its “{same}” is "
        f"written all the same, as the beginning of that token; {each([refused])} (id {refused.id}) is another token altogether.",
    )


def was_it_wrong(s: Scene) -> tuple[str, str]:
    if s.ending is not Ending.CUT:
        return what_is_compared(s)
    n_mismatches = (s.run.num_tested_tokens or 0) - s.run.num_accepted_tokens
    return (
        "Was the draft wrong here?",
        f"No, it had only run out of tokens (K = {s.trace.request.k}), and the target writes {each(s.own)} as one token. Of the "
        f"{count(n_mismatches, 'mismatch')} in this run, {s.run.num_cut_tokens} came about so. They cost a candidate, not a word.",
    )


def how_counted(s: Scene) -> tuple[str, str]:
    n_draft = n_accepted_draft(s.r, s.n_pending)
    n_bytes = sum(len(t.bytes) for t in s.candidate[: s.r.n_accepted])
    return (
        "How much of the draft was accepted?",
        f"That depends on the unit: {s.r.n_accepted} of {count(len(s.candidate), 'candidate')}; {n_draft} of "
        f"{count(len(s.draft), 'draft token')}, where one counts only if all of its bytes were accepted; {n_bytes} of "
        f"{count(sum(len(t.bytes) for t in s.draft), 'byte')}. Only bytes can be compared between vocabularies.",
    )


def no_mismatch(s: Scene) -> tuple[str, str]:
    n = sum(bool(r.candidate) and r.n_accepted == len(r.candidate or ()) for r in s.trace.rounds)
    return (
        "How often is there no mismatch?",
        f"In this run in {n} of {count(s.run.num_rounds, 'round')}. A longer draft makes it rarer, and worth more when it happens.",
    )


def prediction(s: Scene) -> tuple[str, str]:
    if s.target is None:
        return more_at_once(s)
    (c, v, k), length = prices(s.trace, s.target), s.run.mean_acceptance_length or 0.0
    return (
        "Do these costs explain the speed?",
        f"A round gives {length:.2f} tokens on average and costs K·c + v = {k:.1f} × {c:.3f} + {v:.2f} = {k * c + v:.2f} target steps. "
        f"That predicts {length:.2f} / {k * c + v:.2f} = {predicted_speedup(s.trace, s.target):.2f}×; measured were "
        f"{speedup(s.trace, s.target):.2f}×. The prediction leaves out reading the prompt ({duration(s.run.prefill_s)} here) and "
        f"all but the models' own work ({duration((s.run.retokenise_s or 0.0) + (s.run.other_s or 0.0))}).",
    )


def worst_case(s: Scene) -> tuple[str, str]:
    return (
        "What is the least that a round can give?",
        f"One token, the target's own. In this run {s.run.acceptance_histogram[0]} of {count(s.run.num_rounds, 'round')} gave just that. "
        "A bad draft costs time, never a token and never the text.",
    )


def gain(s: Scene) -> tuple[str, str]:
    n = len(s.r.committed)
    return (
        "What was gained?",
        f"The target alone needs {count(n, 'pass')} for {count(n, 'token')}; this round needed one. In the whole run that was "
        f"{s.run.num_output_tokens} in {count(s.run.num_rounds, 'pass')}, {s.run.mean_acceptance_length or 0:.2f} tokens a pass.",
    )


def draft_goes_on(s: Scene) -> tuple[str, str]:
    return (
        "How does the draft go on?",
        f"It reads the committed text, now ending in {as_one(s.r.committed)}, in its own tokens, as if it had written that itself. "
        "What was thrown away is forgotten, in its cache too.",
    )


def still_lossless(s: Scene) -> tuple[str, str]:
    n_equal, n = equal_ids(s.trace, s.target) if s.target else (0, 0)
    compared = f" Compared with the target alone: {n_equal} of {n} ids are equal." if s.target else ""
    return (
        "Is that the text that the target alone would have written?",
        f"Every committed id is the target's own choice after the ids before it, with or without a draft.{compared}",
    )


def which_k(s: Scene) -> tuple[str, str]:
    if s.target is None:
        return more_at_once(s)
    ratios = speedups_by_k(s)
    shown = "; ".join(f"K = {k}: {ratio:.2f}×" for k, ratio in ratios.items())
    best = max(ratios, key=ratios.__getitem__)
    n_paid = sum(ratio > 1 for ratio in ratios.values())
    verdict = f"{n_paid} of these {len(ratios)} paid, K = {best} best." if n_paid else "None of these paid."
    return (
        "Which K would have paid?",
        f"The same request was recorded with others, measured beside the target alone: {shown}. {verdict} "
        f"(The run of median time of {s.runs} each, taken in turn.)",
    )


QUESTIONS: dict[str, Callable[[Scene], tuple[str, str]]] = {
    f.__name__: f
    for f in (
        *(own_vocabulary, more_at_once, draft_price, shared_dice, draft_step_cost, last_token),
        *(why_text, is_m_k, encoded_alone, price_of_text, cannot_write),
        *(one_pass, plus_one, reads_again, pass_price),
        *(how_sure, behind, dice_are_the_targets),
        *(what_is_compared, half_a_token, was_it_wrong, how_counted, no_mismatch, prediction),
        *(worst_case, gain, draft_goes_on, still_lossless, which_k),
    )
}
