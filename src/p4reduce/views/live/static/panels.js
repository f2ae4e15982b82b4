// Tables and lists beside the drawing. All text is set as text, whatever names hold.
import { bytesText, count, percent, timeText } from "./units.js";

const MOST_ROWS = 60;

export function element(tag, attributes = {}, ...children) {
  const found = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name === "onclick") found.addEventListener("click", value);
    else found.setAttribute(name, value === true ? "" : value);
  }
  found.append(...children.filter((child) => child !== null && child !== undefined));
  return found;
}

// Tables are filled in place, so that focus and scroll positions stay.
function table(place, caption, columns, rows) {
  let body = place.querySelector("tbody");
  if (!body || place.dataset.columns !== columns.join()) {
    const head = element("tr", {}, ...columns.map((name) => element("th", { scope: "col" }, name)));
    body = element("tbody");
    place.replaceChildren(
      element("table", {}, element("caption", { class: "hidden" }, caption), element("thead", {}, head), body),
    );
    place.dataset.columns = columns.join();
  }
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((cells, index) => {
    const row = body.rows[index] ?? body.insertRow();
    cells.forEach((cell, at) => {
      const box = row.cells[at] ?? row.insertCell();
      box.dataset.label = columns[at];
      if (typeof cell === "function") cell(box);
      else {
        if (box.textContent !== String(cell.text)) box.textContent = cell.text;
        box.className = cell.bad ? "bad" : "";
      }
    });
  });
}

const plain = (text) => ({ text });
const alarm = (number) => ({ text: count(number), bad: number > 0 }); // null: no alarm

function meter(share, text) {
  return (box) => {
    const bar = box.querySelector("i") ?? box.appendChild(element("span", { class: "meter", "aria-hidden": "true" }, element("i"))).firstChild;
    bar.style.width = `${Math.min(100, 100 * share)}%`;
    const says = box.querySelector(".says") ?? box.appendChild(element("span", { class: "says" }));
    says.textContent = text;
  };
}

export function showTotals(place, view) {
  // A sum leaves out links that do not count it; if no link counts it, there is no sum.
  const sum = (name) => view.links.reduce((total, row) => (row[name] === null ? total : (total ?? 0) + row[name]), null);
  const facts = {
    "bytes on links": bytesText(sum("bytes") ?? 0),
    "in queues": `${count(sum("queue"))} frames`,
    "lost on links": count(sum("lost")),
    "dropped by queues": count(sum("dropped")),
    "sent again": count(sum("resent")),
    ...(view.events === null ? {} : { events: count(view.events) }),
  };
  place.replaceChildren(
    ...Object.entries(facts).map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))),
  );
}

export function showWaits(place, view) {
  const lines = view.waits.length ? view.waits : ["No worker waits for another."];
  place.replaceChildren(...lines.map((line) => element("li", { class: /waits for/.test(line) ? "late" : "" }, line)));
}

export function showWorkers(place, view, scene) {
  const many = scene.jobs.length > 1;
  const columns = [...(many ? ["job"] : []), "worker", "chunks done", "in flight", "window", "sent again", "round trip"];
  const rows = view.workers.map((one) => [
    ...(many ? [plain(one.job)] : []),
    { text: one.state === "failed" ? `${one.says}: failed` : one.says, bad: one.state === "failed" },
    one.done === null ? plain("serves") : meter(one.chunks ? one.done / one.chunks : 0, `${count(one.done)} / ${count(one.chunks)}`),
    plain(one.flight ?? "-"),
    plain(one.window),
    alarm(one.resends),
    plain(one.rtt_ps ? timeText(one.rtt_ps, 1) : "-"),
  ]);
  if (rows.length) table(place, "Windows of workers", columns, rows.slice(0, MOST_ROWS * 4));
  else place.replaceChildren(element("p", { class: "soft" }, "No job is there yet."));
}

export function showLinks(place, view, scene, chosen, onLink) {
  const rows = view.links
    .map((row, index) => ({ ...row, index }))
    .sort((a, b) => (b.load ?? 0) - (a.load ?? 0) || (b.bytes ?? 0) - (a.bytes ?? 0) || a.index - b.index);
  const shown = rows.slice(0, MOST_ROWS);
  if (chosen !== null && !shown.some((row) => row.index === chosen)) shown.push(rows.find((row) => row.index === chosen));
  shown.sort((a, b) => a.index - b.index);
  const columns = ["link", "load", "queue", "longest", "lost", "dropped", "sent again", "bytes"];
  table(place, "Links", columns, shown.filter(Boolean).map((row) => {
    const link = scene.links[row.index];
    return [
      (box) => {
        let button = box.querySelector("button");
        if (!button || button.dataset.index !== String(row.index)) {
          button = element("button", { type: "button", class: "flat", "data-index": row.index, onclick: () => onLink(row.index) }, `${link.from} → ${link.to}`);
          box.replaceChildren(button);
        }
        button.setAttribute("aria-pressed", String(row.index === chosen));
      },
      row.load === null ? plain("?") : meter(row.load, percent(row.load)),
      plain(count(row.queue)),
      plain(count(row.queue_max)),
      alarm(row.lost),
      alarm(row.dropped),
      plain(count(row.resent)),
      plain(row.bytes === null ? "?" : bytesText(row.bytes)),
    ];
  }));
}

export function showNotes(place, scene) {
  const unknown = scene.notes?.length ? ["'?' stands for what is not counted."] : [];
  place.replaceChildren(...[...(scene.notes ?? []), ...unknown].map((note) => element("p", { class: "soft" }, note)));
}

// Tasks of an orchestrator as they stood at the moment that is shown. A click chooses the newest of a task's trees.
export function showTasks(card, place, view, job, onJob) {
  card.hidden = !view.tasks;
  if (!view.tasks) return;
  if (!view.tasks.length) {
    place.replaceChildren(element("p", { class: "soft" }, view.no_tasks || "No task was submitted."));
    return;
  }
  const at = (time) => plain(time === null || time > view.time_ps ? "-" : timeText(time));
  const columns = ["task", "state", "rounds", "workers", "arrived", "started", "ended", "why"];
  table(place, "Tasks", columns, view.tasks.map((task) => [
    (box) => {
      const [key] = task.jobs.slice(-1);
      const made = key
        ? element("button", { type: "button", class: "flat", onclick: () => onJob(key), "aria-pressed": String(task.jobs.includes(job)), title: "Show its tree" }, task.name)
        : element("span", {}, task.name);
      const old = box.firstElementChild;
      if (!old || old.tagName !== made.tagName || old.textContent !== task.name || box.dataset.job !== key) box.replaceChildren(made);
      else if (key) old.setAttribute("aria-pressed", String(task.jobs.includes(job)));
      box.dataset.job = key;
    },
    { text: task.state, bad: task.state === "failed" || task.state === "rejected" },
    meter(task.rounds ? task.rounds_done / task.rounds : 0, `${count(task.rounds_done)} / ${count(task.rounds)}`),
    plain(count(task.workers)),
    at(task.arrival_ps),
    at(task.started_ps),
    at(task.finished_ps),
    plain(task.says),
  ]));
}

export function showSlots(place, slots, scene, chosen) {
  if (!slots) {
    const [first] = scene.jobs;
    const says = !first
      ? "No job is there yet."
      : scene.jobs.some((job) => job.switches.length)
        ? `${chosen ?? "This switch"} adds nothing up for this job, or its slots are not known here.`
        : `Plan ${first.plan} has no slots in the network: its hosts add up.`;
    place.replaceChildren(element("p", { class: "soft" }, says));
    return;
  }
  const states = { free: "free", waiting: "waits for children", complete: "waits for its parent", done: "done" };
  const tally = Object.fromEntries(Object.keys(states).map((state) => [state, 0]));
  const cells = slots.rows.map(([slot, , state, have, says]) => {
    tally[state] += 1;
    return element("li", { class: state, title: says }, state === "waiting" ? String(have) : "");
  });
  const key = Object.entries(states).map(([state, says]) =>
    element("li", { class: "entry" }, element("i", { class: state }), `${tally[state]} ${says}`));
  const late = slots.rows.filter(([, , state]) => state === "waiting");
  late.sort((a, b) => a[1] - b[1]);
  const lines = late.slice(0, 5).map(([, , , , says]) => element("li", { class: "late" }, says));
  const open = place.querySelector("details")?.open ?? false;
  const used = slots.rows.filter(([, , state]) => state !== "free");
  const all = element("details", { open }, element("summary", {}, `All ${used.length} slots in use as text`),
    element("ul", { class: "lines", tabindex: "0" }, ...used.map(([, , , , says]) => element("li", {}, says))));
  place.replaceChildren(
    element("p", { class: "soft" }, `Numbers: contributions that are in, of ${slots.want}.`),
    element("ul", { class: "key" }, ...key),
    element("ul", { class: "slots", "aria-hidden": "true" }, ...cells),
    element("ul", { class: "lines", id: "late-slots" }, ...lines),
    all,
  );
}

export function showTrees(place, scene, job) {
  const shown = scene.jobs.filter((one) => !job || one.key === job);
  place.replaceChildren(...shown.slice(0, 8).map((one) => element("div", {},
    element("p", {}, `Job ${one.job}, epoch ${one.epoch}: plan ${one.plan}, window ${one.window} chunks` + (one.slots ? `, ${one.slots} slots` : "")),
    one.tree.length
      ? element("ul", { class: "outline" }, ...one.tree.map((row) => {
          const item = element("li", { class: row.kind }, row.says);
          item.style.paddingLeft = `${1.2 * row.depth}em`;
          return item;
        }))
      : element("p", { class: "soft" }, "No tree: its hosts send to each other."))));
  if (!shown.length) place.replaceChildren(element("p", { class: "soft" }, "No job is there yet."));
}

export function showFrames(place, link, frames, says, onFrame, onAgain, time) {
  const head = link ? element("p", {}, `${link.from} → ${link.to}`) : null;
  if (!frames) {
    place.replaceChildren(...[head, element("p", { class: "soft" }, says)].filter(Boolean));
    return;
  }
  const items = frames.map((one) => element("li", {}, element("button", {
    type: "button", class: "flat", onclick: () => onFrame(one),
  }, `${one.arrives_ps === null ? "" : `${one.number === undefined ? "arrives" : "arrived"} at ${timeText(one.arrives_ps, 6)}: `}${one.says}${one.damaged ? " (damaged)" : ""}, ${one.bytes} bytes`)));
  const none = onAgain ? "No frame came by this link just now." : time === null ? "No frame is on this link at this moment." : "No frame of this link is kept around this moment.";
  const again = onAgain && element("button", { type: "button", onclick: onAgain }, "Catch frames again");
  place.replaceChildren(...[head, again, items.length
    ? element("ul", { class: "frames" }, ...items)
    : element("p", { class: "soft" }, none)].filter(Boolean));
}
