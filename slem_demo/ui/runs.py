"""What the page's handlers do: check what was asked for, run it, and turn its events into updates of the page."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from functools import cache
from typing import Any, Literal

import gradio as gr

from slem_demo.benchmark import Calibration, calibrate
from slem_demo.cli.options import DEFAULT_PROMPT
from slem_demo.engine.race import LaneEvent, race
from slem_demo.errors import SlemError
from slem_demo.metrics import event_lines
from slem_demo.models.difference import first_difference
from slem_demo.models.shelf import Shelf
from slem_demo.trace import Event, Method, Request, RoundEvent, Trace
from slem_demo.ui.command import command, settings_of_link
from slem_demo.ui.host import Limits
from slem_demo.ui.recorded import events, load_race, read_trace, replay
from slem_demo.ui.store import Store
from slem_demo.ui.stream import SLEM, TARGET, Delta, LivePage, Step, deltas, notice
from slem_demo.ui.zero import QuotaError, on_gpu
from slem_demo.views.report import report
from slem_demo.views.words import caption

SETTINGS = ("pair", "prompt", "chat", "system", "k", "auto", "temperature", "max_new_tokens", "top_k", "top_p", "seed", "draft_noise")
ALTERNATIVES = 5  # the target's best at each tested place, for the picture of a round; looked up outside the timed phases
NO_QUOTA = "Your GPU time on this host is used up for today."


def request_of(values: tuple[Any, ...]) -> Request:
    """A checked request from the controls' values; 0 for top-k and 1 for top-p mean that they are off."""
    fields = dict(zip(SETTINGS, values, strict=True))
    fields["k"] = "auto" if fields.pop("auto") else fields["k"]
    fields["top_k"] = fields["top_k"] or None
    fields["top_p"] = None if fields["top_p"] == 1 else fields["top_p"]
    return Request.checked(**fields, alternatives=ALTERNATIVES)


def as_value(update: Mapping[str, object]) -> str:
    """An update as the live view's value: JSON text, which gradio replaces as a whole.

    A dict would travel as edits of the last one, and edits of lists of different lengths arrive mixed up. `<` is escaped because
    gradio warns about values that look like a script.
    """
    return json.dumps(update, ensure_ascii=False).replace("<", "\\u003c")


def for_people(message: str) -> gr.Error:
    """An error as a toast. Gradio shows its text as HTML, so it is escaped."""
    return gr.Error(html.escape(message), title="That cannot run", print_exception=False)


class Runs:
    """The pairs of one host: what may be run, what it costs on this machine, and the traces of what was run."""

    def __init__(self, shelf: Shelf, limits: Limits):
        self.shelf, self.limits = shelf, limits
        self.store = Store[Trace](limits.max_traces, limits.trace_minutes * 60)
        self.sent = Store[list[Delta]](limits.max_traces, limits.trace_minutes * 60)
        self.calibration: Callable[[str, int | Literal["auto"]], Calibration] = cache(
            lambda name, k: calibrate(shelf.get(name), k, repeats=10)
        )
        self._steps = on_gpu(self.steps, limits.max_seconds)

    def warm_up(self) -> None:
        """A short run and a calibration, so that the first visitor does not pay for what happens once."""
        request = Request.checked(pair=self.shelf.names[0], prompt=DEFAULT_PROMPT, max_new_tokens=8)
        self.calibration(request.pair, request.k)
        for _ in self.shelf.get(request.pair).decode(request):
            pass

    def check(self, request: Request) -> dict[str, Any]:
        """The request as plain values, once it is known that this host and its pair can run it. Raises SlemError if not."""
        self.limits.check(request)
        self.shelf.get(request.pair).prompts(request)
        return request.model_dump(mode="json")

    def steps(self, fields: dict[str, Any], with_race: bool) -> Generator[Step, None, None]:
        """One run; with a race, first the calibration, the target alone in a lane of its own, and last where the two differ, if they do.

        Raises:
            SlemError: the time is over.
        """
        request = Request.checked(**fields)
        pair = self.shelf.get(request.pair)
        lanes = {request.method.value: pair.decode(request)}
        if with_race:
            yield self.calibration(pair.name, request.k)
            lanes[TARGET] = pair.decode(request.model_copy(update={"method": Method.TARGET}))
        ids: dict[str, list[int]] = {name: [] for name in lanes}
        with closing(self.limits.within_time(race(lanes))) as events:
            for e in events:
                ids[e.lane] += [token.id for token in e.event.committed] if isinstance(e.event, RoundEvent) else []
                yield e
        difference = first_difference(pair, request, ids[SLEM], ids[TARGET]) if with_race else None
        if difference:
            yield difference

    def updates(self, fields: dict[str, Any], with_race: bool) -> Iterator[Delta]:
        """One run as updates of the live view. Its trace is kept, also if the run is cut short. Raises SlemError and QuotaError."""
        request, seen = Request.checked(**fields), list[Event]()
        trace = self.shelf.get(request.pair).trace(request)  # now: when the run ends, its pair may have been dropped
        page = LivePage(request, with_race, caption(trace))
        try:
            with closing(kept(self._steps(fields, with_race), SLEM, seen)) as steps:
                yield from self._noted(page, deltas(page, steps))
        finally:
            self.store.put(page.run, trace.with_events(seen))

    def live(self, with_race: bool, *values: Any) -> Iterator[str]:
        """One run, as values of the live view."""
        try:
            request = request_of(values)
            if not self.shelf.has(request.pair):
                yield as_value(notice("loading"))
            yield from map(as_value, self.updates(self.check(request), with_race))
        except SlemError as error:
            raise for_people(str(error)) from None
        except QuotaError:
            gr.Warning(f"{NO_QUOTA} What you see was recorded.")
            yield from map(as_value, self.recorded())

    def recorded(self) -> Iterator[Delta]:
        """The recorded race as updates of the live view."""
        traces = load_race()
        request = traces[SLEM].request
        page = LivePage(request, with_race=True, caption=caption(traces[SLEM]), recorded_on=traces[SLEM].environment.machine)
        self.store.put(page.run, traces[SLEM])
        yield from self._noted(page, deltas(page, replay(traces)))

    def _noted(self, page: LivePage, updates: Iterator[Delta]) -> Iterator[Delta]:
        """The same updates, which are also kept: a browser that is busy gets only the last of several that arrive at once."""
        sent: list[Delta] = []
        self.sent.put(page.run, sent)
        for update in updates:
            sent.append(update)
            yield update

    def missed(self, run: str, seq: int) -> str | None:
        """The updates of a run from `seq` on, for whoever knows the run's name; None once they have expired."""
        sent = self.sent.get(str(run))
        return None if sent is None else json.dumps(sent[max(int(seq), 0) :], ensure_ascii=False)

    def decode(
        self,
        prompt: str,
        method: str = "slem",
        k: int | str = 4,
        max_new_tokens: int = 128,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
        stop: list[str] | None = None,
        pair: str | None = None,
        chat: bool = False,
        system: str = "",
        draft_noise: str = "shared",
    ) -> Iterator[dict[str, object]]:
        """Streams the events of one run and ends with the stop event: the lines of `decode --format jsonl`."""
        try:
            request = Request.checked(
                pair=pair or self.shelf.names[0],
                prompt=prompt,
                chat=chat,
                system=system,
                draft_noise=draft_noise,
                method=method,
                k=k,
                max_new_tokens=max_new_tokens,
                temperature=temperature,
                top_k=top_k,
                top_p=top_p,
                seed=seed,
                stop=tuple(stop or ()),
            )
            fields = self.check(request)
        except SlemError as error:
            raise gr.Error(str(error), print_exception=False) from None
        try:
            with closing(self._steps(fields, False)) as steps:
                yield from event_lines(step.event for step in steps if isinstance(step, LaneEvent))
        except SlemError as error:
            raise gr.Error(str(error), print_exception=False) from None
        except QuotaError:
            raise gr.Error(NO_QUOTA, print_exception=False) from None

    def trace(self, run: str) -> str | None:
        """The trace of a run as JSON, for whoever knows the run's name; None once it has expired."""
        found = self.store.get(str(run))
        return found.to_json() if found else None

    def report(self, run: str) -> str | None:
        """The trace of a run as a page that opens from a disk; None once it has expired."""
        found = self.store.get(str(run))
        return report(found) if found else None

    def opened(self, path: str) -> str:
        """A trace that was saved, as the live view's last value; the page asks for those before it."""
        try:
            trace = read_trace(path)
        except SlemError as error:
            raise for_people(str(error)) from None
        page = LivePage(trace.request, with_race=False, caption=caption(trace), recorded_on=trace.environment.machine)
        self.store.put(page.run, trace)
        *_, last = self._noted(page, deltas(page, (LaneEvent(SLEM, event, 0.0) for event in events(trace))))
        return as_value(last)

    def command(self, *values: Any) -> str:
        try:
            return command(request_of(values))
        except SlemError as error:
            return str(error)

    def from_link(self, request: gr.Request) -> list[Any]:
        """The controls' values that the page's link names; the others stay as they are."""
        found = settings_of_link(dict(request.query_params), self.shelf.names)
        if found.get("k") == "auto":
            found = {**found, "auto": True, "k": gr.skip()}
        return [found.get(name, gr.skip()) for name in SETTINGS]


def kept(steps: Generator[Step, None, None], lane: str, seen: list[Event]) -> Generator[Step, None, None]:
    """The same steps; the events of one lane are also put into `seen`. Closes what it reads from."""
    with closing(steps):
        for step in steps:
            if isinstance(step, LaneEvent) and step.lane == lane:
                seen.append(step.event)
            yield step
