// The live view. Updates come in `props.value`, as JSON text; everything is written with textContent, never as HTML.
const root = element.querySelector(".live");
const part = (name) => root.querySelector("." + name);
const { make, download } = Slem;
const STATES = {
  empty: "", waiting: "waiting for its turn", loading: "loading the pair", streaming: "writing", finished: "finished",
  stopped: "stopped; what was written stays", failed: "that run could not go on",
};
const ANNOUNCE_MS = 2500, PLOT_MS = 1000;
const BUSY = ["waiting", "loading", "streaming"];
let run = null, stopped = null, next = 0, fetching = false, waiting = [], frame = 0, announced = 0, plotted = 0, plotTimer = 0;
let wanted = null, glossary = {};

const viewer = new Slem.Viewer(root, { onSelect: follow, onSettle: settled });
const saves = ["Trace", "Report"].map((name) => make("button", `save-${name.toLowerCase()}`, name));
for (const button of saves) { button.type = "button"; button.disabled = true; }
part("saves").append(...saves);

function settled(index) {
  remember({ round: index === null ? null : index + 1, trace: run });
  if (!viewer.timer) announce(`Round ${viewer.index + 1}. ${viewer.rounds[viewer.index].picture.sentence}`, true);
}

// What the link restores besides the settings: the round, and while the server keeps it, the run.
function remember(values) {
  const query = new URLSearchParams(window.location.search);
  for (const [name, value] of Object.entries(values)) value === null ? query.delete(name) : query.set(name, value);
  window.history.replaceState(null, "", "?" + query);
}

function drawLanes(lanes, goal) {
  root.classList.toggle("no-race", !lanes.target);
  for (const node of root.querySelectorAll(".lane")) {
    const lane = lanes[node.dataset.lane];
    if (!lane) continue;
    node.querySelector("i").style.width = `${(100 * lane.tokens) / goal}%`;
    node.querySelector(".num").textContent = `${lane.tokens} tokens · ${lane.seconds.toFixed(2)} s`;
  }
  const alone = lanes.target;
  viewer.stepSeconds = alone && alone.tokens ? (alone.seconds - alone.phases[0]) / alone.tokens : 0;
  part("note").textContent = alone
    ? "The lanes take turns on this machine; the one whose compute clock is behind moves next."
    : "The race is off: nothing to compare with.";
}

function setState(state, recordedOn) {
  root.dataset.state = state;
  part("state").textContent = recordedOn ? `recorded on ${recordedOn}` : STATES[state];
  const busy = BUSY.includes(state);
  for (const button of saves) button.disabled = !run || busy;
  for (const [name, disabled] of [["run", busy], ["stop", !busy]]) {
    const button = document.getElementById(name);
    if (button) button.disabled = disabled;
  }
}

async function save(what, name, type) {
  const text = await server[what](run);
  if (text) download(name, text, type);
  else announce(part("state").textContent = "this trace has expired", true);
}

function announce(text, now) {
  if (!text || (!now && performance.now() - announced < ANNOUNCE_MS)) return;
  announced = performance.now();
  part("announce").textContent = text;
}

// The run in words; each term that the glossary knows explains itself on hover and on focus.
function tell(story) {
  const terms = Object.keys(glossary).sort((a, b) => b.length - a.length), seen = new Set();
  const pattern = new RegExp(`(${terms.join("|")})`);
  part("story").replaceChildren(...story.map((sentence) => {
    const line = make("p");
    for (const piece of sentence.split(pattern)) {
      if (!glossary[piece] || seen.has(piece)) { line.append(piece); continue; }
      seen.add(piece);
      const term = make("span", "term", piece);
      term.tabIndex = 0;
      term.dataset.meaning = glossary[piece];
      term.setAttribute("role", "note");
      term.setAttribute("aria-label", `${piece}: ${glossary[piece]}`);
      line.append(term);
    }
    return line;
  }));
}

// -- plots: points are gathered and added in place, so zoom and hover survive ---------------------------------
const plots = {};
let points = null, sum = 0, count = 0;
const emptyPoints = () => ({ rounds: [], gained: [], mean: [], tokens: [], measured: [], predicted: [], lanes: null });
const ink = () => getComputedStyle(root).color;

function makePlots(specs) {
  if (!window.Plotly) return;
  for (const node of root.querySelectorAll(".plot")) {
    const { data, layout } = specs[node.dataset.plot];
    Plotly.newPlot(node, data, { ...layout, font: { ...layout.font, color: ink() } }, { displaylogo: false, responsive: true, displayModeBar: false });
    plots[node.dataset.plot] = node;
  }
  plots.acceptance.append(make("i", "at"));
  new MutationObserver(() => {
    Object.values(plots).forEach((node) => Plotly.relayout(node, { "font.color": ink() }));
    viewer.timeline.draw();
  }).observe(document.body, { attributes: true, attributeFilter: ["class"] });
  const resized = new ResizeObserver((entries) => { // one that is hidden has no width, and plotly refuses it
    for (const { target } of entries) if (target.clientWidth) Plotly.Plots.resize(target);
    follow();
  });
  Object.values(plots).forEach((node) => resized.observe(node));
}

// The round that is open, in the plot of rounds: moved, not drawn again.
function follow() {
  const node = plots.acceptance, line = node?.querySelector(".at"), layout = node?._fullLayout;
  if (!line || !layout?.xaxis?.l2p) return;
  line.hidden = !viewer.chosen;
  line.style.transform = `translateX(${layout.xaxis._offset + layout.xaxis.l2p(viewer.rounds[viewer.index]?.round ?? 0)}px)`;
}

function clearPlots() {
  points = emptyPoints();
  sum = count = 0;
  clearTimeout(plotTimer);
  plotTimer = 0;
  if (!plots.acceptance) return;
  for (const name of ["acceptance", "speedup"]) Plotly.restyle(plots[name], { x: [[], []], y: [[], []] });
}

function gather(delta) {
  for (const { round, n_gained } of delta.rounds) {
    sum += n_gained;
    count += 1;
    points.rounds.push(round);
    points.gained.push(n_gained);
    points.mean.push(sum / count);
  }
  if (delta.speedup && delta.speedup[1]) {
    points.tokens.push(delta.speedup[0]);
    points.measured.push(delta.speedup[1]);
    points.predicted.push(delta.speedup[2]);
  }
  points.lanes = delta.lanes;
  if (delta.state === "finished") { clearTimeout(plotTimer); drawPlots(); }
  else if (!plotTimer) plotTimer = setTimeout(drawPlots, Math.max(0, PLOT_MS - (performance.now() - plotted)));
}

function drawPlots() {
  plotTimer = 0;
  plotted = performance.now();
  const p = points;
  points = emptyPoints();
  if (!plots.acceptance || !p.lanes) return;
  if (p.rounds.length) Plotly.extendTraces(plots.acceptance, { x: [p.rounds, p.rounds], y: [p.gained, p.mean] }, [0, 1]);
  if (p.tokens.length) Plotly.extendTraces(plots.speedup, { x: [p.tokens, p.tokens], y: [p.measured, p.predicted] }, [0, 1]);
  const lanes = [p.lanes.slem, p.lanes.target].map((lane) => (lane ? lane.phases : [0, 0, 0, 0, 0]));
  Plotly.restyle(plots.phases, { x: lanes[0].map((_, phase) => lanes.map((lane) => lane[phase])) });
  follow();
}

// -- updates ---------------------------------------------------------------------------------------------------
function reset(delta) {
  run = delta.run;
  viewer.clear(delta.prompt, delta.chat, delta.caption);
  part("target-text").textContent = "";
  part("story").replaceChildren();
  announced = 0;
  clearPlots();
  follow();
}

function pinned(box, change) {
  const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
  change();
  if (atEnd) box.scrollTop = box.scrollHeight;
}

// Gradio hands over only the last of several values that arrive in one frame: what is missing is asked for before going on.
async function catchUp(missing) {
  fetching = true;
  let updates = [];
  try { updates = JSON.parse(await server.missed([missing.run, missing.run === run ? next : 0])) || []; } catch (error) { console.warn(error); }
  fetching = false;
  waiting.unshift(...updates);
  if (!updates.length) { // they have expired, or the server does not answer
    if (missing.run !== run) reset(missing);
    next = missing.seq;
  }
  draw();
}

function draw() {
  frame = 0;
  if (fetching) return;
  let rounds = [], tail = null, alone = "";
  const show = () => { viewer.add(rounds, tail); [rounds, tail] = [[], null]; };
  while (waiting.length) {
    const delta = waiting[0];
    if (!delta.run) { // a run that has not begun, or will not go on
      if (delta.state !== "loading") stopped = run;
      if (BUSY.includes(root.dataset.state)) { setState(delta.state); announce(STATES[delta.state], true); }
    } else if (delta.run !== stopped && (delta.run !== run || delta.seq >= next)) { // not under way when Stop was pressed, and new
      if (delta.seq > (delta.run === run ? next : 0)) { catchUp(delta); break; }
      if (delta.run !== run) { rounds = []; tail = null; alone = ""; reset(delta); }
      next = delta.seq + 1;
      rounds.push(...delta.rounds);
      tail = delta.tail ?? tail;
      alone += delta.target_text;
      Slem.tiles(part("tiles"), delta.tiles);
      drawLanes(delta.lanes, delta.goal);
      gather(delta);
      setState(delta.state, delta.recorded_on);
      announce(delta.summary, delta.state !== "streaming");
      if (delta.story.length) tell(delta.story);
    }
    waiting.shift();
  }
  show();
  pinned(part("small"), () => part("target-text").append(alone));
  if (wanted !== null && viewer.rounds.length > wanted) { viewer.select(wanted); wanted = null; }
}

// A link to a round: of the run that it names, if the server still keeps it, else of the first run that gets so far.
async function restore() {
  const query = new URLSearchParams(window.location.search), trace = query.get("trace"), round = Number(query.get("round"));
  if (Number.isInteger(round) && round > 0) wanted = round - 1;
  if (!trace) return;
  let updates = null;
  try { updates = JSON.parse(await server.missed([trace, 0])); } catch (error) { console.warn(error); }
  if (!updates) { remember({ trace: null }); return; }
  if (run) return; // a run was asked for meanwhile
  waiting.push(...updates);
  draw();
}

function apply(value) {
  if (!value) return;
  waiting.push(JSON.parse(value));
  if (!frame) frame = requestAnimationFrame(draw);
}

function begin({ legend, tiles, plots, story, ...rest }) {
  glossary = rest.glossary;
  Slem.legend(part("legend"), legend);
  Slem.tiles(part("tiles"), tiles);
  tell(story);
  makePlots(plots);
}

// Gradio writes a visitor's place in the queue into #place; it is shown where the other states are.
setInterval(() => {
  const place = document.getElementById("place")?.textContent.trim();
  if (root.dataset.state === "waiting" && place) part("state").textContent = `${STATES.waiting} · ${place.replace("|", "·")}`;
}, 200);
window.addEventListener("slem-asked", () => { if (!BUSY.includes(root.dataset.state)) setState("waiting"); });
part("save-trace").addEventListener("click", () => save("trace", "slem-trace.json", "application/json"));
part("save-report").addEventListener("click", () => save("report", "slem-report.html", "text/html"));
for (const format of ["svg", "png"]) part(`plots-${format}`).addEventListener("click", () => Slem.savePlots(plots, format, "slem"));
begin(JSON.parse(props.first));
apply(props.value); // of a run that was asked for before this script ran
watch("value", () => apply(props.value));
restore();
