// A program, its entries and its packets: each edit is compiled and run; files on disk are written when the user saves.
import { ask, listen, Refused, tell } from "./api.js";
import { element } from "./panels.js";
import { Stepper } from "./steps.js";

const $ = (id) => document.getElementById(id);
const LABELS = { program: "Program", entries: "Entries", packets: "Packets" };
const PAUSE_MS = 200; // after a key, before what was typed is tried
const editors = new Map();
const stepper = new Stepper($("steps"));
let traces = [];
let timer = null;
let trying = false;
let again = false;

class Editor {
  constructor({ which, name, text, digest }) {
    Object.assign(this, { which, name, base: digest, disk: text });
    this.area = element("textarea", { id: which, spellcheck: "false", wrap: "off", autocapitalize: "off", autocomplete: "off", rows: which === "program" ? 24 : 8 });
    this.area.value = text;
    this.gutter = element("div", { class: "gutter", "aria-hidden": "true" });
    this.notes = element("div", { class: "notes-beside", "aria-hidden": "true" });
    this.list = element("ul", { class: "lines" });
    this.saved = element("button", { type: "button", onclick: () => this.save() }, "Save");
    this.clash = element("p", { class: "clash", role: "alert", hidden: true }, `${name} was changed on disk. `,
      element("button", { type: "button", onclick: () => this.load() }, "Load it"),
      element("button", { type: "button", onclick: () => this.keep() }, "Keep mine"));
    this.place = element("section", { class: "card" },
      element("div", { class: "bar" }, element("h2", {}, element("label", { for: which }, `${LABELS[which]}: ${name}`)), this.saved),
      this.clash, element("div", { class: "editor" }, this.gutter, this.area, this.notes), this.list);
    this.area.addEventListener("input", () => this.typed());
    this.area.addEventListener("scroll", () => this.follow());
    this.area.addEventListener("keydown", (event) => {
      if (event.key === "s" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        this.save();
      }
    });
    this.messages = [];
    this.number();
  }

  get clean() {
    return this.area.value === this.disk;
  }

  typed() {
    this.number();
    schedule();
  }

  number() {
    const count = this.area.value.split("\n").length;
    if (count !== this.gutter.childElementCount)
      this.gutter.replaceChildren(...Array.from({ length: count }, (_, index) => element("span", {}, String(index + 1))));
    this.saved.disabled = this.clean && this.base !== "";
    this.saved.textContent = this.saved.disabled ? "Saved" : "Save";
    this.mark();
  }

  // Messages beside their lines, and once more in a list below.
  show(messages) {
    this.messages = messages;
    this.mark();
    this.list.replaceChildren(...messages.map((one) => element("li", { class: one.severity === "error" ? "late" : "" },
      one.line === null
        ? one.text
        : element("button", { type: "button", class: "flat", onclick: () => this.goTo(one.line, true) }, `line ${one.line}: ${one.text}`),
      one.hint ? element("p", { class: "soft" }, one.hint) : null)));
    this.area.setAttribute("aria-invalid", String(messages.some((one) => one.severity === "error")));
  }

  mark() {
    const kinds = new Map(this.messages.map((one) => [one.line, one.severity]));
    [...this.gutter.children].forEach((line, index) => {
      line.className = kinds.get(index + 1) ?? (this.line === index + 1 ? "here" : "");
    });
    this.notes.replaceChildren(...this.messages.filter((one) => one.line !== null).map((one) => {
      const note = element("span", { class: one.severity }, one.text);
      note.dataset.line = one.line;
      return note;
    }));
    this.follow();
  }

  follow() {
    const height = this.lineHeight();
    this.gutter.scrollTop = this.area.scrollTop;
    for (const note of this.notes.children) {
      const top = (note.dataset.line - 1) * height - this.area.scrollTop + 6;
      note.style.top = `${top}px`;
      note.hidden = top < 0 || top > this.area.clientHeight - height;
    }
  }

  lineHeight() {
    return parseFloat(getComputedStyle(this.area).lineHeight);
  }

  goTo(line, focus) {
    this.line = line;
    const top = (line - 1) * this.lineHeight();
    if (top < this.area.scrollTop || top > this.area.scrollTop + this.area.clientHeight - 40)
      this.area.scrollTop = Math.max(0, top - this.area.clientHeight / 3);
    if (focus) {
      const start = this.area.value.split("\n").slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0);
      this.area.focus();
      this.area.setSelectionRange(start, start);
    }
    this.mark();
  }

  async save() {
    const text = this.area.value;
    try {
      const found = await tell("save", { which: this.which, text, base: this.base });
      Object.assign(this, { base: found.digest, disk: text });
      say(`${this.name} is saved`);
    } catch (error) {
      complain(error);
    }
    this.number();
  }

  // The file on disk has another digest than the text began with.
  changed(digest) {
    if (digest === this.base) {
      this.clash.hidden = true;
      return;
    }
    this.newest = digest;
    if (this.clean) this.load(true);
    else this.clash.hidden = false;
  }

  // `untouched`: what is typed while the file is under way is kept.
  async load(untouched = false) {
    const { value } = this.area;
    let found;
    try {
      found = (await ask("files")).files.find((one) => one.which === this.which);
    } catch (error) {
      complain(error);
      return;
    }
    if (untouched && this.area.value !== value) {
      this.clash.hidden = false;
      return;
    }
    const place = this.area.scrollTop;
    this.area.value = this.disk = found.text;
    this.base = found.digest;
    this.area.scrollTop = place;
    this.clash.hidden = true;
    this.typed();
  }

  keep() {
    this.base = this.newest;
    this.disk = null;
    this.clash.hidden = true;
    this.number();
  }
}

function say(text, bad = false) {
  $("state").textContent = text;
  $("state").classList.toggle("bad", bad);
}

function complain(error) {
  say(error instanceof Refused ? error.message : "the server does not answer", true);
}

function schedule() {
  clearTimeout(timer);
  timer = setTimeout(attempt, PAUSE_MS);
}

// One question at a time; what was typed meanwhile is asked afterwards.
async function attempt() {
  if (!editors.size) return;
  again = trying;
  if (trying) return;
  trying = true;
  try {
    show(await tell("try", Object.fromEntries([...editors].map(([which, one]) => [which, one.area.value]))));
  } catch (error) {
    complain(error);
  } finally {
    trying = false;
    if (again) attempt();
  }
}

function show(result) {
  for (const [which, one] of editors) one.show(result.messages.filter((message) => message.which === which));
  const others = result.messages.filter((message) => message.which === "other");
  $("others").replaceChildren(...others.map((one) => element("li", { class: "late" }, one.text)));
  const errors = result.messages.filter((message) => message.severity === "error").length;
  const left = result.more ? `, ${result.more} more are left out` : "";
  say(errors ? `${errors} error${errors > 1 ? "s" : ""}` : `${result.traces.length} packet${result.traces.length === 1 ? "" : "s"}${left}`, errors > 0);
  document.body.dataset.tried = Number(document.body.dataset.tried ?? 0) + 1; // tests wait for it
  if (errors && !result.traces.length) return; // the steps stay those of the last program that compiled
  const chosen = Math.min($("packet").selectedIndex, result.traces.length - 1);
  traces = result.traces;
  $("packet").replaceChildren(...traces.map((one) => new Option(`${one.number}, port ${one.port}: ${one.note || one.says}`.slice(0, 80), one.number)));
  $("packet").selectedIndex = Math.max(0, chosen);
  choose(true);
}

// The step stays, as near as can be, while a program is edited.
function choose(stay) {
  const trace = traces[$("packet").selectedIndex];
  $("steps").hidden = !trace;
  $("outcome").textContent = trace ? trace.outcome : "There is no packet: write one below the program.";
  if (trace) stepper.show(trace.steps, stay ? (stepper.at ?? 0) : 0);
}

stepper.onStep = (step) => {
  const program = editors.get("program");
  const [, file, line] = /^(.*):(\d+)$/.exec(step.at ?? "") ?? [];
  if (!program || document.activeElement === program.area) return;
  program.line = null;
  if (file !== undefined && file.split("/").at(-1) === program.name) program.goTo(Number(line), false);
  else program.mark();
};
$("packet").addEventListener("change", () => choose(false));
addEventListener("beforeunload", (event) => [...editors.values()].some((one) => !one.clean) && event.preventDefault());

const begun = await ask("files");
$("title").textContent = begun.title;
document.title = `${begun.title} – p4reduce`;
for (const file of begun.files) {
  const editor = new Editor(file);
  editors.set(file.which, editor);
  $("texts").append(editor.place);
  editor.number();
}
document.body.classList.toggle("alone", !begun.files.length);
if (begun.result) show(begun.result);
else attempt();
listen((tick) => { for (const [which, one] of editors) one.changed(tick.files[which]); },
  () => say("the server does not answer: the playground was ended", true));
