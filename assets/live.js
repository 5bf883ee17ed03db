// The live view. Updates come in `props.value`, as JSON text; everything is written with textContent, never as HTML.
const root = element.querySelector(".live");
const part = (name) => root.querySelector("." + name);
const STATES = {
  empty: "", streaming: "writing", finished: "finished", stopped: "stopped: what was written stays", error: "ended with an error",
};
const ANNOUNCE_MS = 2500;
let run = null, stopped = null, seq = -1, waiting = [], frame = 0, announced = 0;

const make = (tag, className, text) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
};

const spanNode = ({ fate, text }) => {
  const node = make("span", "", text);
  node.dataset.fate = fate;
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

function drawRound({ round, spans, note }) {
  const node = make("span", "round");
  node.dataset.round = round;
  if (note) node.title = note;
  node.append(...spans.map(spanNode));
  return node;
}

function setState(state) {
  root.dataset.state = state;
  part("state").textContent = STATES[state];
}

function announce(text, now) {
  if (!text || (!now && performance.now() - announced < ANNOUNCE_MS)) return;
  announced = performance.now();
  part("announce").textContent = text;
}

function reset(delta) {
  run = delta.run;
  seq = delta.seq;
  part("prompt").textContent = delta.prompt;
  part("rounds").replaceChildren();
  announced = 0;
}

function draw() {
  frame = 0;
  const text = part("text");
  const atEnd = text.scrollHeight - text.scrollTop - text.clientHeight < 40;
  const rounds = document.createDocumentFragment();
  for (const delta of waiting) {
    if (delta.state === "stopped") {
      if (root.dataset.state === "streaming") { stopped = run; setState("stopped"); announce("Stopped.", true); }
      continue;
    }
    if (delta.run === stopped) continue; // it was under way when Stop was pressed
    if (delta.run !== run) { rounds.replaceChildren(); reset(delta); }
    seq = delta.seq;
    rounds.append(...delta.rounds.map(drawRound));
    if (delta.tail) rounds.append(spanNode(delta.tail));
    if (delta.tiles) drawTiles(delta.tiles);
    setState(delta.state);
    announce(delta.summary, delta.state !== "streaming");
  }
  waiting = [];
  part("rounds").append(rounds);
  if (atEnd) text.scrollTop = text.scrollHeight;
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
    return;
  }
  waiting.push(delta);
  if (!frame) frame = requestAnimationFrame(draw);
}

part("show-unreached").addEventListener("change", (event) => root.classList.toggle("with-unreached", event.target.checked));
apply(props.value);
watch("value", () => apply(props.value));
