// Puts the parts together: ticks come in, views are asked for one at a time.
import { ask, listen, Refused, tell } from "./api.js";
import { Frames } from "./frames.js";
import { Network } from "./network.js";
import { element, showFrames, showLinks, showNotes, showSlots, showTasks, showTotals, showTrees, showWaits, showWorkers } from "./panels.js";
import { Stepper } from "./steps.js";
import { Timeline } from "./timeline.js";
import { timeText } from "./units.js";

const $ = (id) => document.getElementById(id);
const FIELDS = ["bytes", "load", "queue", "queue_max", "lost", "dropped", "resent"];
const chosen = { switch: null, link: null, job: "" };
let tick = null;
let scene = null;
let view = null;
let before = null;
let key = "now"; // the moment that is shown, exactly as the server knows it
let asking = false;
let again = null;
let framesOf = "";
let traces = 0; // asked for so far

const network = new Network($("map"), $("legend"), { onSwitch: chooseSwitch, onLink: chooseLink });
const stepper = new Stepper($("steps"));
const frames = new Frames(
  { over: $("over"), drawing: $("drawing"), line: $("frame-line"), span: $("span"), legend: $("kinds") },
  { ask, onFrame: (number, link) => (number === null ? chooseLink(link) : showSteps({ number })) },
);
const timeline = new Timeline(
  { play: $("play"), back: $("back"), step: $("step"), newest: $("newest"), speed: $("speed"), stride: $("stride"), slider: $("slider"), output: $("time"), held: $("held") },
  { onRun: run, onMoment: (offset) => refresh(offset), onTime: moveFrames, onError: complain },
);

function moveFrames(time, pace) {
  const stands = timeline.following && tick.frames && tick.clock !== "real";
  $("frames-card").hidden = tick.film === undefined;
  $("why-no-film").hidden = Boolean(tick.film) || stands;
  frames.aim(pace && timeline.following ? time - 0.3 * pace : time, pace, tick.film, chosen.switch, stands);
}

async function run(action, value) {
  update(await tell("run", { action, value }));
  refresh();
}

function complain(error) {
  say(error instanceof Refused ? error.message : "the server does not answer", true);
}

function say(text, bad = false) {
  const pill = $("state");
  if (pill.textContent !== text) pill.textContent = text;
  pill.classList.toggle("bad", bad);
  pill.classList.toggle("paused", !bad && tick?.state === "paused");
}

function update(found) {
  if (tick && found.number < tick.number) return; // answers overtake each other
  const other = !tick || tick.scene !== found.scene;
  const moved = !tick || tick.last_ps !== found.last_ps || tick.count !== found.count || tick.state !== found.state || tick.also !== found.also;
  tick = found;
  timeline.update(tick);
  say(tick.says || { waiting: "waiting for the run", running: "running", paused: "paused", ended: "ended" }[tick.state]);
  if (other) showScene().catch(complain);
  else if (moved && timeline.following) refresh();
}

async function showScene() {
  const wanted = tick.scene;
  const found = await ask("scene");
  if (wanted !== tick.scene) return; // a newer one is on its way
  scene = found;
  $("title").textContent = scene.title;
  document.title = `${scene.title} – p4reduce live`;
  network.show(scene);
  frames.scene(scene, network.lanes);
  const jobs = [["", "all jobs"], ...scene.jobs.map((job) => [job.key, `job ${job.job} epoch ${job.epoch} (${job.plan})`])];
  chosen.job = options($("job"), jobs, chosen.job);
  const switches = [...new Set(scene.jobs.flatMap((job) => job.switches))];
  const all = scene.nodes.filter((node) => node.kind === "switch").map((node) => node.name);
  const names = switches.length ? switches : all;
  if (all.includes(chosen.switch) && !names.includes(chosen.switch)) names.push(chosen.switch); // it was chosen on the drawing
  chosen.switch = options($("switch"), names.map((name) => [name, name]), chosen.switch) || null;
  showTrees($("trees"), scene, chosen.job);
  showNotes($("notes"), scene);
  network.choose(chosen);
  await refresh();
}

function options(select, pairs, wanted) {
  select.replaceChildren(...pairs.map(([value, text]) => new Option(text, value)));
  select.value = pairs.some(([value]) => value === wanted) ? wanted : (pairs[0]?.[0] ?? "");
  return select.value;
}

// One request at a time: what comes meanwhile is asked for afterwards, in one request. `offset` 0 is a jump to the
// timeline's own moment, and null asks again for the moment that was wanted last. Other offsets are steps, in moments;
// steps add up, from the moment that is shown or from the one that was jumped to.
async function refresh(offset = null, jump = offset === 0) {
  if (asking) {
    again = { jump: jump || Boolean(again?.jump), offset: jump ? 0 : (again?.offset ?? 0) + (offset ?? 0) };
    return;
  }
  asking = true;
  try {
    const time = timeline.following ? "now" : !jump && key !== "now" ? key : Math.round(timeline.time);
    const found = await ask("view", { time, offset: offset ?? 0, switch: chosen.switch, job: chosen.job });
    if (found && scene) show(found);
  } catch (error) {
    complain(error);
  } finally {
    asking = false;
    const next = again;
    again = null;
    if (next) refresh(next.offset, next.jump);
  }
}

function show(found) {
  before = view;
  view = { ...found, links: found.links.map((row) => Object.fromEntries(FIELDS.map((name, at) => [name, row[at]]))) };
  if (view.links.length !== scene.links.length) return; // of another network; its scene is on its way
  key = document.body.dataset.key = view.key;
  timeline.arrived(view, Boolean(again?.jump));
  network.colour(view, $("mode").value, losing());
  showTotals($("totals"), view);
  showTasks($("tasks-card"), $("tasks"), view, chosen.job, chooseJob);
  showWaits($("waits"), view);
  showSlots($("slots"), view.slots, scene, chosen.switch);
  showWorkers($("workers"), view, scene);
  showLinks($("links"), view, scene, chosen.link, chooseLink);
  refreshFrames();
}

function losing() {
  const found = new Set();
  if (!before || before.links.length !== view.links.length || before.time_ps >= view.time_ps) return found;
  view.links.forEach((row, index) => {
    const then = before.links[index];
    if (row.lost + row.dropped > then.lost + then.dropped) found.add(index);
  });
  return found;
}

function chooseSwitch(name) {
  if (![...$("switch").options].some((option) => option.value === name)) $("switch").add(new Option(name, name));
  chosen.switch = $("switch").value = name;
  network.choose(chosen);
  timeline.show();
  refresh();
}

function chooseJob(key) {
  $("job").value = key;
  chosen.job = $("job").value; // none of the page's choices: all jobs
  network.choose(chosen);
  showTrees($("trees"), scene, chosen.job);
  refresh();
}

function chooseLink(index) {
  chosen.link = index;
  framesOf = "";
  network.choose(chosen);
  if (view) showLinks($("links"), view, scene, chosen.link, chooseLink);
  refreshFrames();
}

async function refreshFrames() {
  if (chosen.link === null) return;
  const link = scene.links[chosen.link];
  const still = timeline.following && tick.frames;
  const real = tick.clock === "real"; // frames are caught when the page asks for them, not at every moment
  const time = !still && tick.film && view ? view.time_ps : null; // what was, while it goes on or afterwards
  const now = JSON.stringify([chosen.link, !real && view?.key, still]);
  if (now === framesOf) return;
  framesOf = now;
  if (!still && time === null) {
    showFrames($("frames"), link, null, tick.why_no_frames);
    return;
  }
  try {
    const found = await ask("frames", { node: link.from, port: link.port, time });
    if (now !== framesOf) return; // another link or moment was chosen meanwhile
    showFrames($("frames"), link, found, "", (one) => showSteps({ ...one, link }), real && catchAgain, time);
  } catch (error) {
    if (now === framesOf) showFrames($("frames"), link, null, error.message);
  }
}

function catchAgain() {
  framesOf = "";
  refreshFrames();
}

// A frame that has arrived has a number; one that has not is tried on a copy of the switch at its link's end.
async function showSteps({ number, link, frame }) {
  const [place, onward] = [$("trace"), $("onward")];
  const own = ++traces;
  place.hidden = false;
  try {
    const found = number === undefined
      ? await tell("trace", { node: link.from, port: link.port, frame })
      : await ask("steps", { frame: number });
    if (own !== traces) return; // another frame was chosen meanwhile
    const when = found.time_ps === undefined ? "" : `, at ${timeText(found.time_ps, 6)}`;
    $("trace-title").textContent = `What ${found.node} does with the frame that comes by port ${found.port}${when}`;
    $("outcome").textContent = found.outcome;
    $("steps").hidden = false;
    stepper.show(found.steps);
    onward.replaceChildren(...(found.onward ?? []).map((one) => one.number === null
      ? element("li", {}, `The copy to port ${one.port} did not arrive, or not as it left.`)
      : element("li", {}, element("button", { type: "button", onclick: () => showSteps(one) }, `Follow the copy to ${one.to}`))));
  } catch (error) {
    if (own !== traces) return;
    $("trace-title").textContent = "No trace";
    $("outcome").textContent = error.message;
    $("steps").hidden = true;
    onward.replaceChildren();
  }
  place.focus({ preventScroll: true });
  place.scrollIntoView({ block: "nearest" });
}

$("mode").addEventListener("change", () => view && network.colour(view, $("mode").value, losing()));
$("switch").addEventListener("change", () => chooseSwitch($("switch").value));
$("job").addEventListener("change", () => chooseJob($("job").value));
listen(update, () => say("the server does not answer: the run was ended", true));
