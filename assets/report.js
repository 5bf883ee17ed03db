// A report: the viewer on one run that is all there.
(() => {
  const run = JSON.parse(document.getElementById("run").textContent), root = document.querySelector(".report"), { make } = Slem;
  const part = (name) => root.querySelector("." + name);
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const viewer = new Slem.Viewer(root);
  const dress = () => { document.body.classList.toggle("dark", scheme.matches); viewer.timeline.draw(); };
  scheme.addEventListener("change", dress);
  dress();
  part("caption-line").textContent = run.caption;
  Slem.legend(part("legend"), run.legend);
  Slem.tiles(part("tiles"), run.tiles);
  viewer.clear(run.prompt, run.chat, run.caption);
  viewer.add(run.rounds, run.tail);
  viewer.select(Math.max(0, Number(location.hash.slice(1)) - 1 || 0));
  viewer.onSettle = (index) => history.replaceState(null, "", `#${(index ?? viewer.index) + 1}`);

  const row = (name, ...cells) => {
    const line = make("tr"), head = make("th", "", name);
    head.scope = "row";
    line.append(head, ...cells);
    return line;
  };
  const bars = (box, values, text) => {
    const most = Math.max(...values.map(([, value]) => value), 1e-12);
    part(box).append(...values.map(([name, value]) => {
      const cell = make("td"), bar = make("i", "mini");
      bar.style.width = `${(100 * value) / most}%`;
      cell.append(bar);
      return row(name, cell, make("td", "num", text(value)));
    }));
  };
  bars("positions", run.positions.map((share, i) => [`${i + 1}`, share]), (share) => `${(100 * share).toFixed(0)} %`);
  bars("histogram", run.histogram.map((n, i) => [`${i}`, n]), String);
  bars("seconds", run.seconds, Slem.ms);
  part("story").append(...run.story.map((sentence) => make("p", "", sentence)));
  part("facts").append(...run.facts.map(([name, value]) => row(name, make("td", "", value))));
  part("measures").append(...run.measures.map(([name, value]) => row(name, make("td", "num", value))));
})();
