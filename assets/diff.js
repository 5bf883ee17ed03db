// Two traces beside each other; everything is written with textContent.
const root = element.querySelector(".diff");
const part = (name) => root.querySelector("." + name);
const { make } = Slem;

function show(value) {
  root.hidden = !value;
  if (!value) return;
  const { sentence, parting, settings, measures } = JSON.parse(value);
  part("sentence").textContent = sentence;
  part("parting").hidden = !parting;
  for (const name of ["before", "a", "b"]) part(name).textContent = parting?.[name] ?? "";
  part("rows").replaceChildren(...[...settings, ...measures].map(({ name, a, b, is_same }) => {
    const row = make("tr", is_same ? "same" : "other"), head = make("th", "", is_same ? name : `≠ ${name}`);
    head.scope = "row";
    row.append(head, make("td", "", a), make("td", "", b));
    return row;
  }));
}
show(props.value);
watch("value", () => show(props.value));
