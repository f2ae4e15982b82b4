// One packet through a program: a sentence for each step, what it looked at, values before and after. Forward and back.
import { element } from "./panels.js";

const STAGES = { parser: "Parser", ingress: "Ingress", egress: "Egress", deparser: "Deparser", end: "Outcome" };

export class Stepper {
  constructor(place) {
    this.place = place;
    this.stages = element("ol", { class: "stages", "aria-label": "Stages" });
    this.first = this.button("First", () => this.go(0));
    this.back = this.button("Back", () => this.go(this.at - 1));
    this.forward = this.button("Forward", () => this.go(this.at + 1));
    this.last = this.button("Last", () => this.go(this.steps.length - 1));
    this.slider = element("input", { type: "range", min: "0", value: "0", "aria-label": "Step" });
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    this.count = element("output", { class: "count" });
    this.says = element("p", { class: "says", "aria-live": "polite" });
    this.code = element("p", { class: "code" });
    this.boxes = element("div", { class: "boxes" });
    this.values = element("div", { class: "values" });
    const all = element("details", { open: true }, element("summary", {}, "Headers and metadata after this step"), this.values);
    place.replaceChildren(
      this.stages,
      element("div", { class: "buttons" }, this.first, this.back, this.forward, this.last, this.slider, this.count),
      this.says, this.code, this.boxes, all,
    );
    place.addEventListener("keydown", (event) => this.key(event));
  }

  button(text, onclick) {
    return element("button", { type: "button", onclick, "aria-label": `${text} step` }, text);
  }

  key(event) {
    if (event.target === this.slider || !this.steps) return;
    const to = { ArrowLeft: this.at - 1, ArrowRight: this.at + 1, Home: 0, End: this.steps.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.go(to);
  }

  // at: the step to begin with, as of the same packet after an edit.
  show(steps, at = 0) {
    this.steps = steps;
    this.states = folded(steps);
    this.slider.max = steps.length - 1;
    this.parts = [];
    steps.forEach((step, index) => {
      const name = step.copy === null || step.copy === undefined ? STAGES[step.stage] : `${STAGES[step.stage]} → port ${step.copy}`;
      if (this.parts.at(-1)?.name !== name) this.parts.push({ name, index });
    });
    this.stages.replaceChildren(...this.parts.map((part) =>
      element("li", {}, element("button", { type: "button", onclick: () => this.go(part.index) }, part.name))));
    this.go(at);
  }

  go(at) {
    const { steps } = this;
    this.at = Math.max(0, Math.min(at, steps.length - 1));
    const step = steps[this.at];
    this.first.disabled = this.back.disabled = this.at === 0;
    this.last.disabled = this.forward.disabled = this.at === steps.length - 1;
    this.slider.value = this.at;
    this.slider.setAttribute("aria-valuetext", `step ${this.at + 1} of ${steps.length}`);
    this.count.textContent = `${this.at + 1} of ${steps.length}`;
    const part = this.parts.findLastIndex((one) => one.index <= this.at);
    [...this.stages.children].forEach((item, index) => {
      if (index === part) item.firstChild.setAttribute("aria-current", "step");
      else item.firstChild.removeAttribute("aria-current");
    });
    this.says.textContent = step.says;
    this.code.replaceChildren(...(step.at ? [element("span", { class: "soft" }, `${step.at} `), element("code", {}, step.code)] : []));
    this.boxes.replaceChildren(...[tableBox(step.table), registerBox(step.register), changes(step.rows)].filter(Boolean));
    this.showValues(step);
    this.onStep?.(step, this.at);
  }

  showValues(step) {
    const changed = new Set(step.rows.map(([name]) => name));
    const groups = new Map();
    for (const [name, value] of this.states[this.at]) {
      const dot = name.lastIndexOf(".");
      const group = dot < 0 ? "variables" : name.slice(0, dot);
      if (!groups.has(group)) groups.set(group, []);
      groups.get(group).push([name.slice(dot + 1), value, changed.has(name)]);
    }
    this.values.replaceChildren(...[...groups].map(([group, fields]) => element("section", {},
      element("h3", {}, group),
      element("dl", {}, ...fields.map(([name, value, fresh]) => element("div", { class: fresh ? "fresh" : "" },
        element("dt", {}, name), element("dd", {}, value)))))));
    if (!groups.size) this.values.replaceChildren(element("p", { class: "soft" }, "Nothing has been taken from the frame yet."));
  }
}

// The values after each step. A copy begins with those at the end of ingress, a frame that comes back with none.
function folded(steps) {
  const states = [];
  for (const step of steps) {
    const from = step.restart === undefined ? states.at(-1) : states[step.restart];
    const now = new Map(from ?? []);
    for (const [name, , after] of step.rows) {
      if (!name.endsWith(".isValid()")) now.set(name, after);
      else if (after === "0") // a header that was taken away
        for (const one of now.keys()) if (one.startsWith(name.slice(0, -9))) now.delete(one);
    }
    states.push(now);
  }
  return states;
}

function grid(caption, head, rows) {
  return element("table", { class: head.length > 2 ? "three" : "" }, element("caption", { class: "hidden" }, caption),
    element("thead", {}, element("tr", {}, ...head.map((name) => element("th", { scope: "col" }, name)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((cell) => element("td", {}, cell))))));
}

function box(title, ...children) {
  return element("section", { class: "box" }, element("h3", {}, title), ...children);
}

function tableBox(table) {
  if (!table) return null;
  const hit = table.entry === null ? (table.key.length ? "no entry matches" : "no key: the default runs") : `entry ${table.entry}`;
  const run = table.action === null ? "nothing runs" : `runs ${table.action}`;
  return box(`Table ${table.name}`,
    table.key.length ? grid("Key", ["key", "value"], table.key) : null,
    element("p", { class: table.entry === null ? "miss" : "hit" }, hit),
    element("p", {}, run),
    table.arguments.length ? grid("Parameters", ["parameter", "value"], table.arguments) : null);
}

function registerBox(register) {
  return register && box(`Register ${register.name}, cell ${register.index}`,
    grid("Cell", ["before", "after"], [[register.before, register.after]]));
}

function changes(rows) {
  const changed = rows.filter(([, before]) => before !== null);
  if (changed.length) return box("Fields", grid("Fields", ["field", "before", "after"], changed));
  return null;
}
