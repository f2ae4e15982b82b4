// The drawing: directions of links are coloured by what they carry, switches can be chosen.
import { bytesText, count, percent } from "./units.js";

const THRESHOLD = 1 / 1024; // of a full scale, below which a link counts as unloaded

export class Network {
  constructor(place, legend, { onSwitch, onLink }) {
    Object.assign(this, { place, legend, onSwitch, onLink });
    this.lanes = [];
    this.nodes = new Map();
  }

  show(scene) {
    this.scene = scene;
    this.looks = [];
    this.place.replaceChildren();
    this.lanes = [];
    this.nodes = new Map();
    if (!scene.svg) {
      const says = document.createElement("p");
      says.textContent = scene.nodes.length ? `${scene.nodes.length} nodes are too many to draw.` : "No network is there yet.";
      this.place.append(says);
      return;
    }
    const drawing = new DOMParser().parseFromString(scene.svg, "image/svg+xml").documentElement;
    const own = document.importNode(drawing, true);
    own.style.maxWidth = `${1.5 * own.viewBox.baseVal.width}px`; // names larger than the page's own look odd
    this.place.append(own);
    const lanes = new Map();
    for (const line of this.place.querySelectorAll("line[data-from]"))
      lanes.set(JSON.stringify([line.dataset.from, line.dataset.to]), line);
    this.lanes = scene.links.map((link) => lanes.get(JSON.stringify([link.from, link.to])));
    this.lanes.forEach((line, index) => {
      line?.addEventListener("click", () => this.onLink(index));
      line?.addEventListener("pointerenter", () => this.say(index));
    });
    for (const node of this.place.querySelectorAll("[data-node]")) this.prepare(node);
  }

  prepare(node) {
    const name = node.dataset.node;
    this.nodes.set(name, node);
    if (node.dataset.kind !== "switch") return;
    const box = node.getBBox(); // a target that is large enough where the drawing is small
    const target = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    for (const [key, value] of Object.entries({ x: box.x, width: box.width, y: box.y + box.height / 2 - 22, height: 44, class: "target" }))
      target.setAttribute(key, value);
    node.append(target);
    node.setAttribute("role", "button");
    node.setAttribute("tabindex", "0");
    node.setAttribute("aria-label", `switch ${name}: show its slots`);
    node.addEventListener("click", () => this.onSwitch(name));
    node.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      this.onSwitch(name);
    });
  }

  choose({ switch: chosen, link, job }) {
    for (const [name, node] of this.nodes) {
      node.classList.toggle("chosen", name === chosen);
      if (node.hasAttribute("role")) node.setAttribute("aria-pressed", String(name === chosen));
    }
    this.lanes.forEach((line, index) => line?.classList.toggle("chosen", index === link));
    const own = this.scene?.jobs.find((one) => one.key === job);
    const paths = own && new Set(own.paths.map((path) => `${path[0]} ${path.at(-1)}`));
    for (const band of this.place.querySelectorAll("polyline[data-path]"))
      band.classList.toggle("faded", Boolean(paths) && !paths.has(band.dataset.path));
  }

  // Of thousands of links most are as they were: what does not change is not touched.
  colour(view, mode, losing) {
    this.view = view;
    const most = Math.max(1, ...view.links.map((row) => row.bytes));
    const colours = this.scene.colours;
    view.links.forEach((row, index) => {
      const line = this.lanes[index];
      if (!line) return;
      const share = (mode === "load" ? row.load : row.bytes / most) ?? 0;
      const loaded = share >= THRESHOLD;
      const place = loaded ? Math.min(colours.length - 1, Math.max(0, Math.round(colours.length * (1 + Math.log2(share) / 5)) - 1)) : -1;
      const width = (1.6 + 3 * Math.sqrt(loaded ? share : 0)).toFixed(1);
      const looks = `${place} ${width} ${losing.has(index)}`;
      if (this.looks[index] === looks) return;
      this.looks[index] = looks;
      line.classList.toggle("loaded", loaded);
      line.classList.toggle("unloaded", !loaded);
      line.classList.toggle("losing", losing.has(index));
      if (loaded) {
        line.style.setProperty("--light", colours[place].light);
        line.style.setProperty("--dark", colours[place].dark);
      }
      line.style.strokeWidth = `${width}px`;
    });
    this.explain(mode, most);
  }

  // What a link carries, shown when the mouse points at it.
  say(index) {
    const [link, row, title] = [this.scene.links[index], this.view?.links[index], this.lanes[index].querySelector("title")];
    if (!row || !title) return;
    title.textContent = row.bytes === null
      ? `${link.from} to ${link.to}: not counted`
      : `${link.from} to ${link.to}: ${percent(row.load)} busy, ${bytesText(row.bytes)}, ${count(row.queue)} queued, ${row.lost + row.dropped} lost`;
  }

  explain(mode, most) {
    const says = mode === "load" ? ["3 %", "100 % of the time busy"] : [bytesText(most / 32), bytesText(most)];
    if (this.legend.dataset.says === says.join()) return;
    this.legend.dataset.says = says.join();
    const scale = document.createElement("span");
    scale.className = "scale";
    scale.setAttribute("aria-hidden", "true");
    for (const { light, dark } of this.scene.colours) {
      const part = document.createElement("span");
      part.style.setProperty("--light", light);
      part.style.setProperty("--dark", dark);
      scale.append(part);
    }
    const note = "each link is two lines, on the right as seen from the sender; dotted: it has just lost frames";
    this.legend.replaceChildren(says[0], scale, says[1], ` · ${note}`);
  }
}
