// The walkthrough: recorded rounds, a step at a time. The lessons come from the server once; nothing is computed.
const root = element.querySelector(".walkthrough");
const part = (name) => root.querySelector("." + name);
const { make, roundPicture, choiceRows, ms } = Slem;
let lessons = [], lesson = null, step = 0;

function open(index, at = 0) {
  lesson = lessons[index];
  for (const [i, button] of [...part("lessons").children].entries()) button.setAttribute("aria-pressed", i === index);
  part("about-lesson").textContent = lesson.about;
  part("caption-line").textContent = lesson.caption;
  part("before").textContent = lesson.before;
  part("algorithm").replaceChildren(...lesson.steps.map(({ title, line }, i) => {
    const item = make("li"), button = make("button");
    button.type = "button";
    button.append(make("b", "", title), make("code", "", line));
    button.addEventListener("click", () => go(i));
    item.append(button);
    return item;
  }));
  part("choices").replaceChildren(...choiceRows(lesson.picture.choices));
  root.classList.toggle("no-choices", !lesson.picture.choices.length);
  part("took").textContent = lesson.picture.phases.map(({ name, seconds }) => `${name} ${ms(seconds)}`).join(" · ");
  part("facts").replaceChildren(...lesson.facts.map(([label, value]) => {
    const row = make("tr"), head = make("th", "", label);
    head.scope = "row";
    row.append(head, make("td", "", value));
    return row;
  }));
  go(at);
}

function go(index) {
  step = Math.min(Math.max(index, 0), lesson.steps.length - 1);
  const { title, text, question, answer } = lesson.steps[step];
  part("step-title").textContent = title;
  part("step-text").textContent = text;
  const quiz = part("quiz");
  quiz.open = false;
  quiz.firstElementChild.textContent = question;
  quiz.lastElementChild.textContent = answer;
  [...part("algorithm").children].forEach((item, i) => {
    if (i === step) item.setAttribute("aria-current", "step"); else item.removeAttribute("aria-current");
  });
  const list = part("algorithm"), current = list.children[step];
  list.scrollLeft = current.offsetLeft - list.offsetLeft - (list.clientWidth - current.clientWidth) / 2; // where it is a row, on a phone
  part("where").textContent = `step ${step + 1} of ${lesson.steps.length}`;
  part("back").disabled = step === 0;
  part("on").disabled = step === lesson.steps.length - 1;
  draw();
  const query = new URLSearchParams(window.location.search);
  query.set("lesson", lesson.name);
  query.set("step", step + 1);
  if (query.get("tab") === "walkthrough") window.history.replaceState(null, "", "?" + query);
}

function draw() {
  const grid = part("grid");
  if (!lesson || !grid.clientWidth) return;
  grid.replaceChildren(roundPicture(lesson.picture, grid.clientWidth, false));
  const lit = new Set(lesson.steps[step].lit);
  for (const node of root.querySelectorAll("[data-row], .parts")) node.classList.toggle("dim", !lit.has(node.dataset.row ?? "parts"));
  for (const node of root.querySelectorAll("[data-part]")) node.classList.toggle("lit", lit.has(node.dataset.part));
}

async function begin() {
  lessons = JSON.parse(await server.lessons(0));
  part("lessons").replaceChildren(...lessons.map(({ title }, i) => {
    const button = make("button", "", title);
    button.type = "button";
    button.addEventListener("click", () => open(i));
    return button;
  }));
  const query = new URLSearchParams(window.location.search);
  const named = lessons.findIndex(({ name }) => name === query.get("lesson"));
  open(Math.max(named, 0), named < 0 ? 0 : Number(query.get("step")) - 1 || 0);
}

part("back").addEventListener("click", () => go(step - 1));
part("on").addEventListener("click", () => go(step + 1));
part("stage").addEventListener("keydown", (event) => {
  const to = { ArrowLeft: step - 1, ArrowRight: step + 1, Home: 0, End: 5 }[event.key];
  if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  go(to);
});
new ResizeObserver(draw).observe(part("grid"));
begin();
