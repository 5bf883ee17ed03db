"""Updates of the live view, as a list."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from slem_demo.engine.decode import Prompts, slem
from slem_demo.trace import Event, Request
from slem_demo.ui.stream import deltas
from slem_demo.views.fates import COMMITTED
from tests.fakes import LONG, SHORT, TEXT, scripted_drafter, scripted_target

PROMPT = "In"


def run() -> list[Event]:
    request = Request.checked(pair="fake", prompt=PROMPT, k=3, max_new_tokens=400)
    target = scripted_target(LONG, LONG.encode(PROMPT), LONG.encode(TEXT))
    return list(slem(target, scripted_drafter(SHORT, PROMPT + TEXT, 0.3), Prompts(LONG.encode(PROMPT), SHORT.encode(PROMPT)), request))


def ticking(step: float) -> Callable[[], float]:
    """A clock that moves by `step` whenever it is read."""
    times = itertools.count(0.0, step)
    return lambda: next(times)


def test_deltas_carry_every_round_once_in_order_and_join_to_the_text() -> None:
    events = run()
    for tick in (0.0, 0.01, 1.0):
        updates = list(deltas(PROMPT, events, clock=ticking(tick)))
        rounds = [r for u in updates for r in u["rounds"]]
        assert [r["round"] for r in rounds] == list(range(len(events) - 2))
        assert [u["seq"] for u in updates] == list(range(len(updates)))
        assert len({u["run"] for u in updates}) == 1
        text = "".join(s["text"] for r in rounds for s in r["spans"] if s["fate"] in COMMITTED)
        assert text == TEXT
        assert (updates[0]["prompt"], updates[0]["rounds"], updates[0]["state"]) == (PROMPT, [], "streaming")
        assert updates[-1]["state"] == "finished"


def test_fast_rounds_travel_together_and_slow_ones_alone() -> None:
    events = run()
    together = list(deltas(PROMPT, events, clock=lambda: 0.0))
    assert len(together) == 3, "the prompt, the first round at once, and the end"
    assert len(together[1]["rounds"]) == 1
    assert len(list(deltas(PROMPT, events, clock=ticking(1.0)))) == len(events)


def test_an_update_is_no_larger_late_in_a_run() -> None:
    events = run()
    sizes = [len(str(u)) for u in deltas(PROMPT, events, clock=ticking(1.0))][1:-1]
    assert max(sizes[-5:]) < 2 * max(sizes[:5])


def test_runs_have_names_of_their_own() -> None:
    assert next(deltas("a", []))["run"] != next(deltas("a", []))["run"]
