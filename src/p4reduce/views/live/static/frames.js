// Frames on their links: over the drawing as they move, and one after the other on a time-line of a switch's links.
const COLOURS = ["--soft", "--series0", "--series3", "--series2", "--series1", "--bad"]; // by kind, as the server lists them
const LEAD_S = 0.5; // of the clock's time that is asked for ahead
const SPANS = [2e6, 1e7, 5e7, 2e8];
const NEAR = 14; // pixels around a frame that still choose it
const MOST = 20_000; // most frames that are held; if one picture has more, its last ones are not drawn
const NODE = 24; // of a link's ends that its nodes cover, in the drawing's units
const ROW = 16;
const NAMES = 118; // pixels of the time-line for the names of links

export class Frames {
  constructor({ over, drawing, line, span, legend }, { ask, onFrame }) {
    Object.assign(this, { over, drawing, line, span, legend, ask, onFrame });
    this.clock = this.target = this.speed = 0;
    this.pictures = 0; // drawn so far; tests count them
    this.forget();
    this.pending = []; // of a run that stands still: those that have yet to arrive
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => (this.colours = null, this.draw()));
    SPANS.forEach((ps) => span.add(new Option(`${ps / 1e6} µs`, ps)));
    span.value = SPANS[1];
    span.addEventListener("change", () => this.draw());
    for (const canvas of [over, line]) canvas.addEventListener("click", (event) => this.choose(canvas, event));
    drawing.addEventListener("click", (event) => this.choose(over, event), true);
    drawing.addEventListener("pointermove", (event) => (drawing.style.cursor = this.under(over, event) ? "pointer" : ""));
    new ResizeObserver(() => this.draw()).observe(drawing);
    this.beat = this.beat.bind(this);
    requestAnimationFrame(this.beat);
  }

  forget() {
    this.flights = [];
    this.from = this.to = null; // the time whose frames are here
    this.hits = { over: [], line: [] };
  }

  scene(scene, lanes) {
    this.links = scene.links;
    this.lanes = lanes;
    this.forget();
    this.pending = [];
    this.moment = undefined;
  }

  // The moment that is shown, and how fast it goes on from there (picoseconds in a second; 0: it stands).
  aim(time, speed, film, node, stands) {
    this.film = film ?? (stands ? [time, time] : null);
    this.node = node;
    this.target = time;
    this.speed = this.still.matches ? 0 : speed;
    if (!this.speed || Math.abs(this.clock - time) > this.speed) this.clock = time;
    const moment = stands ? time : null;
    if (moment !== this.moment) {
      this.moment = moment;
      this.pending = [];
      if (stands) this.await(time);
    }
    if (!this.speed) this.draw();
  }

  async await(time) {
    try {
      const found = await this.ask("flights", { from: Math.round(time), to: Math.round(time) });
      if (this.moment !== time) return;
      this.pending = found.rows.filter(([number]) => number === null);
      this.explain(found.kinds);
      this.draw();
    } catch { /* there is no film, which the page says elsewhere */ }
  }

  beat(now) {
    const passed = Math.min((now - (this.beaten ?? now)) / 1000, 0.2);
    this.beaten = now;
    if (this.speed && this.film) {
      this.clock = Math.min(this.clock + this.speed * passed, this.film[1]);
      this.draw();
    }
    requestAnimationFrame(this.beat);
  }

  draw() {
    if (!this.links || !this.film) {
      for (const canvas of [this.over, this.line]) canvas.getContext("2d").clearRect(0, 0, canvas.width, canvas.height);
      return;
    }
    this.load();
    this.pictures += 1;
    this.drawOver();
    this.drawLine();
  }

  // What is drawn needs frames that left before the clock's time and arrive after it, and those of the time-line.
  async load() {
    const half = Number(this.span.value) / 2;
    const [first, last] = [this.clock - half - 2e6, this.clock + Math.max(half, this.speed * LEAD_S) + 2e6];
    if (this.from === null || first < this.from || first > this.to) this.forget();
    if (this.flights.length >= MOST) {
      this.flights = this.flights.filter(([, , , arrives]) => arrives >= first);
      this.from = first;
      if (this.flights.length >= MOST) return;
    }
    const begin = this.to ?? first;
    const end = Math.min(last, this.film[1]);
    if (this.asking || begin >= end || (this.to !== null && end - this.to < Math.min(half / 4, this.speed * LEAD_S / 2))) return;
    this.asking = true;
    try {
      const found = await this.ask("flights", { from: Math.round(begin), to: Math.round(end) });
      if (found.refused) return;
      const arrived = found.rows.filter(([number]) => number !== null); // the others are in flight
      this.from ??= begin;
      this.to = found.all ? end : arrived.at(-1)[3];
      const known = this.flights.at(-1)?.[0] ?? -1;
      this.flights.push(...arrived.filter(([number]) => number > known));
      this.explain(found.kinds);
      if (!this.speed) this.again = true;
    } catch { /* the page says elsewhere that the server does not answer */
    } finally {
      this.asking = false;
      if (this.again) requestAnimationFrame(() => this.draw());
      this.again = false;
    }
  }

  explain(kinds) {
    if (this.legend.childElementCount) return;
    kinds.forEach((kind, index) => {
      const mark = document.createElement("i");
      mark.style.background = `var(${COLOURS[index]})`;
      mark.setAttribute("aria-hidden", "true");
      const item = document.createElement("li");
      item.append(mark, kind);
      this.legend.append(item);
    });
  }

  palette() {
    const style = getComputedStyle(document.documentElement);
    this.colours ??= { kinds: COLOURS.map((name) => style.getPropertyValue(name).trim()),
      text: style.getPropertyValue("--text").trim(), line: style.getPropertyValue("--line").trim(), paper: style.getPropertyValue("--card").trim() };
    return this.colours;
  }

  prepare(canvas) {
    const [width, height, ratio] = [canvas.clientWidth, canvas.clientHeight, devicePixelRatio];
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    return [pen, width, height];
  }

  drawOver() {
    const svg = this.drawing.querySelector("svg");
    if (!svg) return;
    const [inner, outer] = [svg.getBoundingClientRect(), this.drawing.getBoundingClientRect()];
    this.over.style.width = `${Math.max(inner.width, outer.width)}px`;
    this.over.style.height = `${inner.height}px`;
    const [pen] = this.prepare(this.over);
    const matrix = svg.getScreenCTM();
    const left = this.over.getBoundingClientRect();
    const { kinds, paper } = this.palette();
    const size = 4.5 * Math.min(Math.max(matrix.a, 0.6), 1.2);
    this.hits.over = [];
    for (const flight of [...this.flights, ...this.pending]) {
      const [, link, departs, arrives, kind] = flight;
      if (departs > this.clock || arrives < this.clock) continue;
      const lane = this.lanes[link];
      if (!lane) continue;
      const between = (name) => lane[name + 2].baseVal.value - lane[name + 1].baseVal.value;
      const covered = Math.min(NODE / Math.hypot(between("x"), between("y")), 0.4); // by the nodes at its ends
      const share = covered + (1 - 2 * covered) * (this.clock - departs) / Math.max(arrives - departs, 1);
      const at = (name) => lane[name + 1].baseVal.value + share * between(name);
      const [x, y] = [at("x") * matrix.a + matrix.e - left.x, at("y") * matrix.d + matrix.f - left.y];
      pen.fillStyle = kinds[kind];
      pen.strokeStyle = paper;
      pen.beginPath();
      if (kind === 3) pen.rect(x - size, y - size, 2 * size, 2 * size);
      else pen.arc(x, y, kind === 5 ? 1.4 * size : size, 0, 7);
      pen.fill();
      pen.stroke();
      this.hits.over.push([x, y, flight]);
    }
  }

  rows() {
    const own = [];
    this.links.forEach((link, index) => {
      if (link.to === this.node || link.from === this.node) own.push(index);
    });
    return own.sort((a, b) => (this.links[a].to === this.node ? 0 : 1) - (this.links[b].to === this.node ? 0 : 1)).slice(0, 24);
  }

  drawLine() {
    const rows = this.rows();
    this.line.style.height = `${ROW * rows.length + 22}px`;
    const [pen, width] = this.prepare(this.line);
    const { kinds, text, line } = this.palette();
    const names = Math.min(NAMES, width / 3);
    const span = Number(this.span.value);
    const place = (time) => names + ((time - this.clock) / span + 0.5) * (width - names);
    const places = new Map(rows.map((link, row) => [link, row]));
    this.hits.line = [];
    pen.font = "11px system-ui, sans-serif";
    pen.fillStyle = text;
    rows.forEach((link, row) => {
      const { from, to } = this.links[link];
      pen.fillStyle = line;
      pen.fillRect(names, ROW * row + ROW - 1, width - names, 1);
      pen.fillStyle = text;
      pen.fillText(to === this.node ? `from ${from}` : `to ${to}`, 0, ROW * row + 12, names - 6);
    });
    pen.save();
    pen.beginPath();
    pen.rect(names, 0, width - names, ROW * rows.length);
    pen.clip();
    for (const flight of this.flights) {
      const row = places.get(flight[1]);
      if (row === undefined) continue;
      const [left, right] = [place(flight[2]), place(flight[3])];
      if (right < names || left > width) continue;
      pen.fillStyle = kinds[flight[4]];
      pen.globalAlpha = 0.35;
      pen.fillRect(left, ROW * row + 5, right - left, ROW - 9);
      pen.globalAlpha = 1;
      pen.fillRect(right - 3, ROW * row + 2, 3, ROW - 4); // it arrives
      this.hits.line.push([right - 1.5, ROW * row + ROW / 2, flight]);
    }
    pen.restore();
    pen.fillStyle = text;
    pen.fillRect(place(this.clock), 0, 1, ROW * rows.length + 4);
    const end = ROW * rows.length + 16;
    pen.textAlign = "center";
    pen.fillText("this moment", Math.min(place(this.clock), width - 40), end);
    pen.textAlign = "left";
    pen.fillText(`−${span / 2e6} µs`, names, end);
    pen.textAlign = "right";
    pen.fillText(`+${span / 2e6} µs`, width, end);
    pen.textAlign = "left";
  }

  under(canvas, event) {
    const box = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.x, event.clientY - box.y];
    let [best, found] = [NEAR ** 2, null];
    for (const [fx, fy, flight] of this.hits[canvas === this.over ? "over" : "line"]) {
      const far = (x - fx) ** 2 + (y - fy) ** 2;
      if (far < best) [best, found] = [far, flight];
    }
    return found;
  }

  choose(canvas, event) {
    const found = this.under(canvas, event);
    if (!found) return;
    event.stopPropagation();
    this.onFrame(found[0], found[1]);
  }
}
