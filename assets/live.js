// The live view. Updates come in `props.value`, as JSON text; everything is written with textContent, never as HTML.
const root = element.querySelector(".live");
const part = (name) => root.querySelector("." + name);
const STATES = {
  empty: "", waiting: "waiting for its turn", loading: "loading the pair", streaming: "writing", finished: "finished",
  stopped: "stopped; what was written stays", failed: "that run could not go on",
};
const ANNOUNCE_MS = 2500, PLOT_MS = 1000;
const BUSY = ["waiting", "loading", "streaming"];
let run = null, stopped = null, next = 0, fetching = false, waiting = [], frame = 0, announced = 0, plotted = 0, plotTimer = 0;

const make = (tag, className, text) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
};

const MARKS = { " ": "·", "\t": "⇥", "\n": "⏎" };

// A span of text in which each space is an element of its own, so that it can be marked without changing the text.
const spanNode = ({ fate, text }) => {
  const node = make("span");
  node.dataset.fate = fate;
  for (const piece of text.split(/([ \t\n])/)) {
    if (!MARKS[piece]) { node.append(piece); continue; }
    const space = make("i", "sp", piece);
    space.dataset.mark = MARKS[piece];
    node.append(space);
  }
  return node;
};

function drawTiles(tiles) {
  const box = part("tiles");
  for (const { metric, value, label } of tiles) {
    let tile = box.querySelector(`[data-metric="${metric}"]`);
    if (!tile) {
      tile = make("div", "card tile");
      tile.dataset.metric = metric;
      tile.append(make("b"), make("span"));
      box.append(tile);
    }
    tile.firstChild.textContent = value;
    tile.lastChild.textContent = label;
  }
}

function drawLanes(lanes, goal) {
  root.classList.toggle("no-race", !lanes.target);
  for (const node of root.querySelectorAll(".lane")) {
    const lane = lanes[node.dataset.lane];
    if (!lane) continue;
    node.querySelector("i").style.width = `${(100 * lane.tokens) / goal}%`;
    node.querySelector(".num").textContent = `${lane.tokens} tokens · ${lane.seconds.toFixed(2)} s`;
  }
  part("note").textContent = lanes.target
    ? "The lanes take turns on this machine; the one whose compute clock is behind moves next."
    : "The race is off: nothing to compare with.";
}

function drawRound({ round, spans, note }) {
  const node = make("span", "round");
  node.dataset.round = round;
  if (note) node.title = note;
  node.append(...spans.map(spanNode));
  return node;
}

function setState(state, recordedOn) {
  root.dataset.state = state;
  part("state").textContent = recordedOn ? `recorded on ${recordedOn}` : STATES[state];
  const busy = BUSY.includes(state);
  part("save").disabled = !run || busy;
  for (const [name, disabled] of [["run", busy], ["stop", !busy]]) {
    const button = document.getElementById(name);
    if (button) button.disabled = disabled;
  }
}

async function saveTrace() {
  const text = await server.trace(run);
  if (!text) { announce(part("state").textContent = "this trace has expired", true); return; }
  const link = make("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = "slem-trace.json";
  link.click();
  URL.revokeObjectURL(link.href);
}

function announce(text, now) {
  if (!text || (!now && performance.now() - announced < ANNOUNCE_MS)) return;
  announced = performance.now();
  part("announce").textContent = text;
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
  new MutationObserver(() => Object.values(plots).forEach((node) => Plotly.relayout(node, { "font.color": ink() })))
    .observe(document.body, { attributes: true, attributeFilter: ["class"] });
  new ResizeObserver(() => Object.values(plots).forEach((node) => Plotly.Plots.resize(node))).observe(part("plots"));
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
}

// -- updates ---------------------------------------------------------------------------------------------------
function reset(delta) {
  run = delta.run;
  for (const node of root.querySelectorAll(".prompt")) {
    node.textContent = delta.prompt;
    node.classList.toggle("asked", delta.chat);
  }
  part("rounds").replaceChildren();
  part("target-text").textContent = "";
  announced = 0;
  clearPlots();
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
  const rounds = document.createDocumentFragment();
  let alone = "";
  while (waiting.length) {
    const delta = waiting[0];
    if (!delta.run) { // a run that has not begun, or will not go on
      if (delta.state !== "loading") stopped = run;
      if (BUSY.includes(root.dataset.state)) { setState(delta.state); announce(STATES[delta.state], true); }
    } else if (delta.run !== stopped && (delta.run !== run || delta.seq >= next)) { // not under way when Stop was pressed, and new
      if (delta.seq > (delta.run === run ? next : 0)) { catchUp(delta); break; }
      if (delta.run !== run) { rounds.replaceChildren(); alone = ""; reset(delta); }
      next = delta.seq + 1;
      rounds.append(...delta.rounds.map(drawRound));
      if (delta.tail) rounds.append(spanNode(delta.tail));
      alone += delta.target_text;
      drawTiles(delta.tiles);
      drawLanes(delta.lanes, delta.goal);
      gather(delta);
      setState(delta.state, delta.recorded_on);
      announce(delta.summary, delta.state !== "streaming");
    }
    waiting.shift();
  }
  pinned(part("text"), () => part("rounds").append(rounds));
  pinned(part("small"), () => part("target-text").append(alone));
}

function apply(value) {
  if (!value) return;
  const delta = JSON.parse(value);
  if (delta.legend) {
    part("legend").replaceChildren(...delta.legend.map(({ fate, label }) => {
      const item = make("li");
      item.append(spanNode({ fate, text: label }));
      return item;
    }));
    drawTiles(delta.tiles);
    makePlots(delta.plots);
    return;
  }
  waiting.push(delta);
  if (!frame) frame = requestAnimationFrame(draw);
}

for (const name of ["show-unreached", "show-spaces"]) {
  part(name).addEventListener("change", (event) => root.classList.toggle(name, event.target.checked));
}
// Gradio writes a visitor's place in the queue into #place; it is shown where the other states are.
setInterval(() => {
  const place = document.getElementById("place")?.textContent.trim();
  if (root.dataset.state === "waiting" && place) part("state").textContent = `${STATES.waiting} · ${place.replace("|", "·")}`;
}, 200);
window.addEventListener("slem-asked", () => { if (!BUSY.includes(root.dataset.state)) setState("waiting"); });
part("save").addEventListener("click", saveTrace);
apply(props.value);
watch("value", () => apply(props.value));
