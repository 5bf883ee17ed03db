// A run to look at: its text, a timeline of its rounds, and the picture of one. For the page and for reports; everything that a model
// or a person wrote is put in with textContent. `Slem.Viewer` wants the elements of assets/viewer.html in its root.
window.Slem ??= (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const MARKS = { " ": "·", "\t": "⇥", "\n": "⏎", "\r": "␍", "\u00a0": "⍽" };
  const SHAPED = /[\u0300-\u036f\u0590-\u08ff\u0900-\u0fff\u200d\ufb1d-\ufdff\ufe0f\ufe70-\ufeff]/; // drawn as a whole: letters that join
  const ROWS = { draft: "the draft's tokens", string: "the string", candidate: "the same string in the target's tokens", own: "the target chose" };
  const MIN_CELL = 11, MAX_CELL = 24, TALL = 34, CAPTION = 20, GAP = 8, EDGE = 7;
  const READ_MS = 1000 / 15, MIN_MS = 450, SETTLE_MS = 300; // some fifteen characters a second

  const make = (tag, className, text) => {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const drawn = (tag, attributes, ...children) => {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  };
  const marked = (text) => text.replace(/[ \t\n\r\u00a0]/g, (space) => MARKS[space]);
  const ms = (seconds) => (seconds < 0.0995 ? `${(1000 * seconds).toFixed(seconds < 0.00995 ? 2 : 1)} ms` : `${seconds.toFixed(2)} s`);

  // A span of text in which each space is an element of its own, so that it can be marked without changing the text.
  function spanNode({ fate, text }) {
    const node = make("span");
    node.dataset.fate = fate;
    for (const piece of text.split(/([ \t\n])/)) {
      if (!MARKS[piece]) { node.append(piece); continue; }
      const space = make("i", "sp", piece);
      space.dataset.mark = MARKS[piece];
      node.append(space);
    }
    return node;
  }

  // -- the picture of a round: one string, both tokenisations over the same columns ----------------------------
  function roundPicture(picture, width, withIds) {
    const ends = [0]; // of each column, in cells
    picture.columns.forEach((_, i) => ends.push(ends[i] + (picture.wide.includes(i) ? 2 : 1)));
    const last = picture.columns.length;
    const cells = Math.max(ends[last], ...[picture.own, ...picture.draft, ...picture.candidate].filter(Boolean).map((b) => reach(b, ends)), 1);
    const cell = Math.min(MAX_CELL, Math.max(MIN_CELL, (width - 2 * EDGE) / cells));
    const tall = TALL + 14 * withIds, step = CAPTION + tall + GAP;
    const x = (column) => EDGE + cell * at(column, ends);
    const nothing = { empty: "nothing proposed" };
    const rows = [
      ["draft", picture.draft.length ? picture.draft : nothing],
      ["string", picture.columns.map((text, i) => ({ text, start: i, end: i + 1 }))],
      ["candidate", picture.candidate.length ? picture.candidate : nothing],
      ["own", picture.own ? [picture.own] : { empty: "the run ended here" }],
    ].filter(([name]) => picture.columns.length || name !== "string");
    const height = rows.length * step - GAP + 4;
    const svg = drawn("svg", { width: Math.max(width, 2 * EDGE + cell * cells), height, role: "img", class: "picture" });
    svg.setAttribute("aria-label", picture.sentence);
    rows.forEach(([name, blocks], row) => {
      const top = row * step + CAPTION;
      const group = drawn("g", { "data-row": name }, drawn("text", { x: EDGE, y: top - 8, class: "caption" }, ROWS[name]));
      if (blocks.empty) group.append(drawn("text", { x: EDGE, y: top + tall / 2 + 5, class: "empty" }, blocks.empty));
      else for (const block of blocks) group.append(blockNode(block, { x, cell, top, tall, withIds }));
      svg.append(group);
    });
    if (picture.parts_at !== null) {
      const place = svg.dataset.place = x(picture.parts_at);
      const path = `${rows.map((_, row) => `M${place} ${row * step + CAPTION - 2} v${tall + 4}`).join(" ")} M${place - 5} ${CAPTION - 7} h10 l-5 7 z`;
      svg.append(drawn("path", { d: path, class: "parts" }, drawn("title", {}, "here they part")));
    }
    return svg;
  }

  // Cells up to a column, which may be a fraction, or behind the string (a target's token goes on there).
  function at(column, ends) {
    const last = ends.length - 1, i = Math.floor(column);
    if (i >= last) return ends[last] + column - last;
    return ends[i] + (column - i) * (ends[i + 1] - ends[i]);
  }
  const reach = (block, ends) => at(block.end, ends) + (block.end === block.start ? 3 : 0);

  function blockNode(block, { x, cell, top, tall, withIds }) {
    const node = drawn("g", block.fate ? { "data-fate": block.fate } : { class: "character" });
    const empty = block.end === block.start, left = x(block.start), right = empty ? left + 3 * cell : x(block.end);
    const middle = top + 22;
    node.append(drawn("rect", { x: left + 1.5, y: top, width: Math.max(right - left - 3, 2), height: tall, rx: 5 }));
    const text = block.hex ?? (empty ? block.text || "end" : marked(block.text));
    const characters = [...text];
    const whole = block.hex || empty || SHAPED.test(text) || characters.length !== Math.round(block.end - block.start);
    if (whole) node.append(fitted(text, (left + right) / 2, middle, right - left - 4));
    else characters.forEach((c, i) => node.append(drawn("text", { x: (x(block.start + i) + x(block.start + i + 1)) / 2, y: middle }, c)));
    if (block.fate === "rejected") node.append(drawn("path", { d: `M${left + 5} ${middle - 5} H${right - 5}`, class: "strike" }));
    if (block.id !== undefined) {
      node.append(drawn("title", {}, `${JSON.stringify(block.text)} · id ${block.id}${block.hex ? ` · bytes ${block.hex}` : ""}`));
      if (withIds) node.append(fitted(String(block.id), (left + right) / 2, top + 40, right - left - 4, "id"));
    }
    return node;
  }

  function fitted(text, x, y, room, className = "") {
    const node = drawn("text", { x, y, class: className }, text), wide = [...text].length * (className ? 6.4 : 9.6);
    if (wide > room) { node.setAttribute("textLength", Math.max(room, 4)); node.setAttribute("lengthAdjust", "spacingAndGlyphs"); }
    return node;
  }

  function choiceRows(choices) {
    return choices.map(({ text, probability, role }) => {
      const row = make("tr", role), bar = make("i", "mini"), cell = make("td");
      bar.style.width = `${100 * probability}%`;
      cell.append(bar);
      row.append(make("th", "", marked(text) || "end"), cell, make("td", "num", percent(probability)), make("td", "role", ROLES[role]));
      row.firstChild.scope = "row";
      return row;
    });
  }
  const ROLES = { chosen: "chosen", candidate: "the draft's", "": "" };
  const percent = (p) => (p > 0 && p < 0.0005 ? "< 0.1 %" : `${(100 * p).toFixed(1)} %`);

  // -- taking pictures away: light, with the caption under them --------------------------------------------------
  const KEPT = ["fill", "stroke", "stroke-width", "stroke-dasharray", "font", "text-anchor", "text-decoration", "opacity"];
  function standalone(picture, caption) {
    const host = make("div", "slem print"), svg = picture.cloneNode(true);
    host.append(svg);
    document.body.append(host);
    for (const node of svg.querySelectorAll("rect, text, path")) {
      const style = getComputedStyle(node);
      node.setAttribute("style", KEPT.map((name) => `${name}: ${style.getPropertyValue(name)}`).join("; "));
    }
    host.remove();
    const width = Number(svg.getAttribute("width")), height = Number(svg.getAttribute("height"));
    const lines = folded(caption, Math.floor(width / 6.2));
    lines.forEach((line, i) => svg.append(drawn("text", { x: 4, y: height + 22 + 15 * i, style: "font: 11px sans-serif; fill: #59636e" }, line)));
    const tall = height + (lines.length ? 20 + 15 * lines.length : 0);
    svg.prepend(drawn("rect", { width, height: tall, style: "fill: #ffffff" }));
    for (const [name, value] of Object.entries({ xmlns: SVG, height: tall, viewBox: `0 0 ${width} ${tall}` })) svg.setAttribute(name, value);
    return new XMLSerializer().serializeToString(svg);
  }
  function folded(text, width) {
    const lines = [""];
    for (const word of text.split(/\s+/)) {
      if (lines.at(-1).length + word.length > width) lines.push("");
      lines[lines.length - 1] += `${word} `;
    }
    return lines.map((line) => line.trim()).filter(Boolean);
  }
  async function png(svg, scale = 3) {
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
    await image.decode();
    const canvas = make("canvas");
    [canvas.width, canvas.height] = [scale * image.width, scale * image.height];
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  }
  function download(name, content, type) {
    const link = make("a");
    link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  // Each plot as a file of its own, in ink on white.
  async function savePlots(nodes, format, prefix) {
    for (const [name, { data, layout, clientWidth }] of Object.entries(nodes)) {
      if (!clientWidth) continue;
      const light = { ...layout, font: { ...layout.font, color: "#1f2328" }, paper_bgcolor: "#ffffff", plot_bgcolor: "#ffffff" };
      await Plotly.downloadImage({ data, layout: light }, { format, width: 640, height: 400, scale: format === "png" ? 3 : 1, filename: `${prefix}-${name}` });
    }
  }

  // -- the timeline: a bar a round, tokens gained above, seconds below -------------------------------------------
  class Timeline {
    constructor(canvas, pick) {
      this.canvas = canvas;
      this.rounds = [];
      this.width = 0;
      canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); pick(this.roundAt(event)); });
      canvas.addEventListener("pointermove", (event) => { if (event.buttons) pick(this.roundAt(event)); });
      new ResizeObserver(() => this.draw()).observe(canvas);
    }
    roundAt(event) { return Math.floor((event.clientX - this.canvas.getBoundingClientRect().left) / this.slot); }
    get slot() { return Math.min(26, this.width / Math.max(this.rounds.length, 1)); }
    draw() {
      const { canvas, rounds } = this, scale = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
      this.width = width; // kept: to ask for it is to lay out
      if (!width) return;
      [canvas.width, canvas.height] = [width * scale, height * scale];
      const g = canvas.getContext("2d"), style = getComputedStyle(canvas), colour = (name) => style.getPropertyValue(name).trim();
      g.scale(scale, scale);
      const slot = this.slot, thick = Math.max(slot - (slot > 4 ? 2 : 0), 0.8), base = Math.round(height * 0.68);
      const most = Math.max(2, ...rounds.map((r) => r.n_gained)), slowest = Math.max(1e-9, ...rounds.map(seconds));
      const unit = (base - 4) / most, below = (height - base - 8) / slowest;
      const [kept, refused, bonus, plain] = ["--kept", "--corrected", "--bonus", "--plain"].map(colour);
      rounds.forEach((r, i) => {
        const x = i * slot, own = r.picture.own, tall = unit * r.n_accepted;
        g.fillStyle = kept;
        g.fillRect(x, base - tall, thick, tall);
        if (own) {
          const end = { bonus, target: plain }[own.fate] ?? refused;
          if (own.fate === "bonus" && thick > 5) { // hollow, for those who see no colour
            g.strokeStyle = end; g.lineWidth = 1.5; g.strokeRect(x + 0.75, base - tall - unit + 1.5, thick - 1.5, unit - 2);
          } else { g.fillStyle = end; g.fillRect(x, base - tall - unit + 1, thick, own.fate === "target" ? unit / 2 : unit - 1); }
        }
        let y = base + 6;
        for (const { name, seconds } of r.picture.phases) {
          g.fillStyle = colour(`--phase-${name}`);
          g.fillRect(x, y, thick, below * seconds);
          y += below * seconds;
        }
      });
    }
  }
  const seconds = (r) => r.picture.phases.reduce((sum, phase) => sum + phase.seconds, 0);

  // -- a run ---------------------------------------------------------------------------------------------------
  class Viewer {
    constructor(root, { onSelect = () => {}, onSettle = () => {} } = {}) {
      this.root = root;
      this.onSelect = onSelect; // at every step
      this.onSettle = onSettle; // once the steps have come to rest
      this.timeline = new Timeline(this.part("timeline"), (i) => this.select(i));
      this.scrub = this.part("scrub");
      this.scrub.addEventListener("input", () => this.select(this.scrub.valueAsNumber));
      this.part("text").addEventListener("click", (event) => {
        const node = event.target.closest(".round");
        if (node && getSelection().isCollapsed) this.select(this.nodes.indexOf(node));
      });
      this.part("text").addEventListener("scroll", () => {
        this.part("marks").firstElementChild.style.transform = `translateY(${-this.part("text").scrollTop}px)`;
      });
      this.part("text").addEventListener("keydown", (event) => this.key(event));
      for (const [name, by] of [["back", -1], ["on", 1]]) this.part(name).addEventListener("click", () => this.select(this.index + by));
      this.part("play").addEventListener("click", () => (this.timer ? this.pause() : this.play()));
      this.part("follow").addEventListener("click", () => this.goOn());
      for (const name of ["show-unreached", "show-spaces"]) {
        this.part(name).addEventListener("change", (event) => { root.classList.toggle(name, event.target.checked); this.mark(); });
      }
      this.part("show-ids").addEventListener("change", () => this.redraw());
      this.part("round-svg").addEventListener("click", () => download(this.fileName("svg"), this.standalone(), "image/svg+xml"));
      this.part("round-png").addEventListener("click", async () => download(this.fileName("png"), await png(this.standalone())));
      this.part("copy-caption").addEventListener("click", () => this.copy(this.part("copy-caption")));
      new ResizeObserver(([{ contentRect }]) => { this.width = contentRect.width; this.redraw(); }).observe(this.part("grid"));
      new ResizeObserver(() => this.mark()).observe(this.part("text"));
      this.clear("", false, "");
    }
    part(name) { return this.root.querySelector("." + name); }
    key(event) {
      const to = { ArrowLeft: this.index - 1, ArrowRight: this.index + 1, Home: 0, End: this.rounds.length - 1 }[event.key];
      if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      this.select(to);
    }
    clear(prompt, isChat, caption) {
      this.pause();
      clearTimeout(this.settling);
      this.rounds = this.timeline.rounds = [];
      this.nodes = [];
      this.index = -1;
      this.chosen = false; // until a person picks a round, the newest is shown
      this.caption = caption;
      for (const node of this.root.querySelectorAll(".prompt")) {
        node.textContent = prompt;
        node.classList.toggle("asked", isChat);
      }
      this.part("rounds").replaceChildren();
      this.mark();
      this.root.classList.add("no-round");
      this.timeline.draw();
    }
    add(rounds, tail) {
      const nodes = rounds.map(roundNode), box = this.part("text");
      const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
      if (tail && (nodes.length || this.nodes.length)) (nodes.at(-1) ?? this.nodes.at(-1)).append(spanNode(tail));
      this.part("rounds").append(...nodes);
      if (!rounds.length) return;
      this.nodes.push(...nodes);
      this.rounds.push(...rounds);
      this.timeline.draw();
      this.scrub.max = this.rounds.length - 1;
      if (!this.chosen) this.show(this.rounds.length - 1);
      else this.cursor();
      if (atEnd && !this.chosen) box.scrollTop = box.scrollHeight;
    }
    select(i) { // by a person
      if (!this.rounds.length) return;
      this.chosen = true;
      this.show(Math.min(Math.max(i, 0), this.rounds.length - 1));
      const box = this.part("text"), top = this.nodes[this.index].offsetTop;
      if (top < box.scrollTop || top + 30 > box.scrollTop + box.clientHeight) box.scrollTop = top - box.clientHeight / 3;
      this.picked();
    }
    goOn() { this.chosen = false; this.show(this.rounds.length - 1); this.picked(); }
    picked() {
      this.onSelect();
      clearTimeout(this.settling);
      this.settling = setTimeout(() => this.onSettle(this.chosen ? this.index : null), SETTLE_MS);
    }
    show(i) {
      this.index = i;
      this.root.classList.remove("no-round");
      this.mark();
      this.redraw();
      this.cursor();
    }
    mark() { // boxes in front of the text: a change of the text's own nodes would lay out and paint all of it again
      const box = this.part("text"), from = box.getBoundingClientRect(), sheet = this.part("marks").firstElementChild;
      sheet.style.transform = `translateY(${-box.scrollTop}px)`;
      sheet.replaceChildren(...linesOf(this.nodes[this.index]).map(({ left, right, top, bottom }) => {
        const mark = make("i"), [x, y] = [left - from.left - 2, top - from.top + box.scrollTop - 1];
        Object.assign(mark.style, { transform: `translate(${x}px, ${y}px)`, width: `${right - left + 4}px`, height: `${bottom - top + 2}px` });
        return mark;
      }));
    }
    cursor() {
      const { slot, rounds } = this.timeline, last = rounds.length - 1;
      Object.assign(this.part("cursor").style, { transform: `translateX(${this.index * slot - 1}px)`, width: `${Math.max(slot, 3)}px` });
      this.scrub.value = this.index;
      this.scrub.setAttribute("aria-valuetext", `Round ${this.index + 1} of ${last + 1}. ${rounds[this.index].picture.sentence}`);
      this.part("where").textContent = `round ${this.index + 1} of ${last + 1}`;
      this.part("back").disabled = this.index === 0;
      this.part("on").disabled = this.index === last;
      this.root.classList.toggle("held", this.chosen && this.index < last);
    }
    redraw() {
      const round = this.rounds[this.index], grid = this.part("grid"), width = this.width;
      if (!round || !width) return;
      const { picture } = round, svg = roundPicture(picture, width, this.part("show-ids").checked);
      grid.replaceChildren(svg);
      if (Number(svg.getAttribute("width")) > width) grid.scrollLeft = Math.max(0, (svg.dataset.place ?? 0) - width / 2);
      this.part("round-title").textContent = `Round ${this.index + 1}`;
      this.part("sentence").textContent = picture.sentence;
      this.part("choices").replaceChildren(...choiceRows(picture.choices));
      this.root.classList.toggle("no-choices", !picture.choices.length);
      const took = picture.phases.map(({ name, seconds }) => `${name} ${ms(seconds)}`).join(" · ");
      const alone = this.stepSeconds ? ` · the target alone: ${ms(this.stepSeconds * round.n_gained)} for as many tokens, at its mean pace` : "";
      this.part("took").textContent = (took || "this method does not show its phases") + alone;
    }
    play() {
      if (!this.rounds.length) return;
      if (this.index >= this.rounds.length - 1) this.select(0);
      const next = () => {
        this.timer = setTimeout(() => {
          if (this.index >= this.rounds.length - 1) { this.pause(); return; }
          this.select(this.index + 1);
          next();
        }, Math.max(MIN_MS, READ_MS * this.nodes[this.index].textContent.length));
      };
      next();
      this.playing(true);
    }
    pause() { clearTimeout(this.timer); this.timer = 0; this.playing(false); }
    playing(on) {
      const button = this.part("play");
      button.textContent = on ? "❚❚" : "▶";
      button.setAttribute("aria-label", on ? "Pause" : "Play at reading speed");
      button.title = button.getAttribute("aria-label");
    }
    standalone() { return standalone(this.part("picture"), `${this.rounds[this.index].picture.sentence} ${this.caption}`); }
    fileName(kind) { return `slem-round-${this.index + 1}.${kind}`; }
    async copy(button) {
      try { await navigator.clipboard.writeText(this.caption); button.textContent = "Copied"; } catch { download("slem-caption.txt", this.caption, "text/plain"); }
      setTimeout(() => { button.textContent = "Copy the caption"; }, 1500);
    }
  }

  // One box for each line that a node's text stands on.
  function linesOf(node) {
    const lines = [];
    for (const { left, right, top, bottom } of node?.getClientRects() ?? []) {
      const line = lines.find((other) => Math.abs(other.top - top) < 6);
      if (line) Object.assign(line, { left: Math.min(line.left, left), right: Math.max(line.right, right) });
      else lines.push({ left, right, top, bottom });
    }
    return lines;
  }
  function roundNode({ round, spans, note }) {
    const node = make("span", "round");
    node.dataset.round = round;
    if (note) node.title = note;
    node.append(...spans.map(spanNode));
    return node;
  }
  function legend(box, fates) {
    box.replaceChildren(...fates.map(({ fate, label }) => {
      const item = make("li");
      item.append(spanNode({ fate, text: label }));
      return item;
    }));
  }
  function tiles(box, values) {
    for (const { metric, value, label } of values) {
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
  return { Viewer, roundPicture, choiceRows, standalone, png, savePlots, download, legend, tiles, spanNode, make, ms };
})();
