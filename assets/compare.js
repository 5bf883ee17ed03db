// The comparison. Each update in `props.value` is JSON text and complete in itself; everything is written with textContent, never as HTML.
const root = element.querySelector(".compare");
const part = (name) => root.querySelector("." + name);
const STATES = {
  waiting: "waiting for its turn", loading: "loading the models", stopped: "stopped; what was measured stays",
  failed: "that comparison could not go on; what was measured stays",
};
const BUSY = ["waiting", "loading", "measuring"];
const ANNOUNCE_MS = 5000;
let shown = null, ended = null, announced = 0, drawn = "";

const make = (tag, className, text) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
};

function announce(text, now) {
  if (!now && performance.now() - announced < ANNOUNCE_MS) return;
  announced = performance.now();
  part("announce").textContent = text;
}

function setState(state, text) {
  root.dataset.state = state;
  part("state").textContent = text || STATES[state];
  const busy = BUSY.includes(state);
  part("save-report").disabled = busy || !shown || !shown.progress.done;
  for (const [name, disabled] of [["compare-run", busy], ["compare-stop", !busy]]) {
    const button = document.getElementById(name);
    if (button) button.disabled = disabled;
  }
}

function setProgress({ done, total }) {
  const percent = Math.round((100 * done) / total);
  part("track").setAttribute("aria-valuenow", percent);
  part("track").firstChild.style.width = `${percent}%`;
}

// -- tables ------------------------------------------------------------------------------------------------------
const isPair = (cell) => Array.isArray(cell);

function cellNode(tag, cell) {
  const [main, sub] = isPair(cell) ? cell : [cell, ""];
  const node = make(tag, "", main);
  if (sub) node.append(make("small", "", sub));
  return node;
}

function drawTable(table, { head, rows }) {
  const titles = make("tr");
  for (const cell of head) {
    const node = cellNode("th", cell);
    node.scope = "col";
    titles.append(node);
  }
  table.tHead.replaceChildren(titles);
  table.tBodies[0].replaceChildren(...rows.map((cells) => {
    const row = make("tr");
    const [name] = cells;
    row.dataset.method = isPair(name) ? name[0] : name;
    cells.forEach((cell, i) => {
      const node = cellNode(i ? "td" : "th", cell);
      if (!i) node.scope = "row";
      row.append(node);
    });
    return row;
  }));
}

// -- texts -------------------------------------------------------------------------------------------------------
function drawChoice(texts) {
  const select = part("which");
  const labels = texts.map(({ label }) => label);
  if (labels.join("\n") === [...select.options].map((option) => option.textContent).join("\n")) return;
  select.replaceChildren(...labels.map((label, i) => {
    const option = make("option", "", label);
    option.value = i;
    return option;
  }));
}

function besideNode({ method, verdict, kind, text }) {
  const item = make("li");
  item.dataset.kind = kind;
  item.dataset.method = method;
  const line = make("div", "line");
  line.append(make("b", "", method), make("span", "", verdict));
  item.append(line);
  if (text) {
    const box = make("div", "text small");
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", `Text of ${method}`);
    box.append(make("span", "shared", text[0]), make("mark", "", text[1]), make("span", "", text[2]));
    item.append(box);
  }
  return item;
}

function drawTexts(texts) {
  drawChoice(texts);
  const chosen = texts[Number(part("which").value)] || texts[0];
  const now = JSON.stringify(chosen);
  if (now === drawn) return; // a text that is being read stays where it is
  drawn = now;
  part("prompt").textContent = chosen.prompt;
  part("prompt").classList.toggle("asked-for", chosen.chat);
  part("target-text").textContent = chosen.target ?? "";
  part("beside").replaceChildren(...chosen.methods.map(besideNode));
}

// -- plots: drawn in place, so zoom and hover survive ------------------------------------------------------------
const ink = () => getComputedStyle(root).color;
const plots = () => [...root.querySelectorAll(".plot")];

function drawPlots(figures) {
  if (!window.Plotly) return;
  for (const node of plots()) {
    const { data, layout } = figures[node.dataset.plot];
    Plotly.react(node, data, { ...layout, font: { ...layout.font, color: ink() } }, { displaylogo: false, responsive: true, displayModeBar: false });
  }
}

const drawnPlots = () => plots().filter((node) => node.data);
new MutationObserver(() => drawnPlots().forEach((node) => Plotly.relayout(node, { "font.color": ink() })))
  .observe(document.body, { attributes: true, attributeFilter: ["class"] });
new ResizeObserver(() => drawnPlots().filter((node) => node.clientWidth).forEach((node) => Plotly.Plots.resize(node))).observe(part("plots"));

// -- updates -----------------------------------------------------------------------------------------------------
function drawResults(update) {
  root.classList.add("has-results");
  shown = update;
  part("headline").textContent = update.headline;
  part("evidence").textContent = update.evidence;
  part("asked").textContent = update.asked;
  drawTable(part("methods"), update.methods);
  drawTable(part("counts"), update.counts);
  drawTexts(update.texts);
  drawPlots(update.figures);
  part("notes").replaceChildren(...update.notes.map((note) => make("li", "", note)));
  part("command").textContent = update.command;
  part("as-command").hidden = !update.command;
}

function apply(value) {
  if (!value) return;
  const update = JSON.parse(value);
  if (!update.run) { // one that has not begun, or will not go on
    if (BUSY.includes(root.dataset.state)) { setState(update.state); announce(STATES[update.state], true); }
    return;
  }
  if (update.run === ended) return; // it was under way when Stop was pressed
  if (update.state === "stopped" || update.state === "failed") ended = update.run;
  if (update.progress.done || !shown) drawResults(update); // what an earlier comparison showed stays until there is something new
  setProgress(update.progress);
  setState(update.state, update.progress.text);
  announce(update.state === "measuring" ? update.progress.text : `${update.progress.text}. ${update.headline}. ${update.evidence}`, update.state !== "measuring");
}

async function saveReport() {
  const report = await server.report(shown.run);
  if (report) Slem.download("slem-bench.json", JSON.stringify(report), "application/json");
  else announce(part("state").textContent = "this measurement has expired", true);
}

async function copyCommand() {
  const button = part("copy");
  try {
    await navigator.clipboard.writeText(part("command").textContent);
    button.textContent = "Copied";
  } catch { // the browser forbids it: the text can be copied by hand
    getSelection().selectAllChildren(part("command"));
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}

// Gradio writes a visitor's place in the queue into #compare-place; it is shown where the other states are.
setInterval(() => {
  const place = document.getElementById("compare-place")?.textContent.trim();
  if (root.dataset.state === "waiting" && place) part("state").textContent = `${STATES.waiting} · ${place.replace("|", "·")}`;
}, 200);
window.addEventListener("slem-compare", () => { if (!BUSY.includes(root.dataset.state)) setState("waiting"); });
part("which").addEventListener("change", () => shown && drawTexts(shown.texts));
part("save-report").addEventListener("click", saveReport);
for (const format of ["svg", "png"]) {
  part(`plots-${format}`).addEventListener("click", () => {
    Slem.savePlots(Object.fromEntries(drawnPlots().map((node) => [node.dataset.plot, node])), format, "slem-compare");
  });
}
part("copy").addEventListener("click", copyCommand);
apply(props.value);
watch("value", () => apply(props.value));
