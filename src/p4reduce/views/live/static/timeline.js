// Pause, step, speed and the moment that is looked at. At the newest moment they drive the run, before it they replay.
import { timeText } from "./units.js";

const SPEEDS = ["watch", null, 1e6, 1e7, 1e8, 1e9, 1e10];
const STRIDES = [0, 1e5, 1e6, 1e7, 1e8];
const REPLAY_S = 30; // for all moments, where no speed is chosen
const BEAT_MS = 120;

export class Timeline {
  constructor(parts, { onRun, onMoment, onTime, onError }) {
    Object.assign(this, { ...parts, onRun, onMoment, onTime, onError });
    this.following = true;
    this.playing = false;
    this.time = 0;
    this.fill(this.speed, SPEEDS, (speed) => ({ watch: "to be watched", null: "as fast as it goes" }[speed] ?? `${timeText(speed)} a second`), 1);
    this.fill(this.stride, STRIDES, (stride) => (stride === 0 ? "one event" : timeText(stride)), 2);
    this.play.addEventListener("click", () => this.toggle());
    this.step.addEventListener("click", () => this.forward());
    this.back.addEventListener("click", () => this.leave(-1));
    this.newest.addEventListener("click", () => this.follow());
    this.speed.addEventListener("change", () => this.driving && this.run("speed", SPEEDS[this.speed.value]));
    this.slider.addEventListener("input", () => this.slide());
    setInterval(() => this.beat(), BEAT_MS);
  }

  fill(select, values, text, chosen = 0) {
    values.forEach((value, index) => select.add(new Option(text(value), index, index === chosen, index === chosen)));
  }

  get driving() {
    return Boolean(this.tick?.controls);
  }

  run(action, value = null) {
    this.onRun(action, value).catch(this.onError);
  }

  toggle() {
    if (this.following && this.driving) {
      this.run(this.tick.state === "paused" ? "go" : "pause");
      return;
    }
    if (!this.playing && (this.following || this.time >= this.tick.last_ps)) this.jump(this.tick.first_ps);
    this.playing = !this.playing;
    this.show();
  }

  forward() {
    if (this.following && this.driving) this.run("step", STRIDES[this.stride.value]);
    else this.leave(1);
  }

  leave(offset) {
    this.following = this.playing = false;
    this.onMoment(offset);
    this.show();
  }

  follow() {
    this.following = true;
    this.playing = false;
    this.time = this.tick.last_ps;
    this.onMoment(0);
    this.show();
  }

  jump(time) {
    this.following = false;
    this.time = time;
    this.onMoment(0);
  }

  slide() {
    const share = this.slider.value / this.slider.max;
    this.playing = false;
    if (share >= 1) this.follow();
    else this.jump(this.tick.first_ps + share * (this.tick.last_ps - this.tick.first_ps));
    this.show();
  }

  get replay() {
    const speed = SPEEDS[this.speed.value];
    return typeof speed === "number" ? speed : (this.tick.last_ps - this.tick.first_ps) / REPLAY_S;
  }

  // How fast what is shown goes on, in picoseconds a second.
  get pace() {
    if (this.playing) return this.replay;
    return this.following && this.driving && this.tick.state === "running" ? (this.tick.pace_ps ?? 0) : 0;
  }

  beat() {
    if (!this.playing || !this.tick) return;
    const next = this.time + (this.replay * BEAT_MS) / 1000;
    if (next < this.tick.last_ps) this.jump(next);
    else this.follow();
  }

  // `pending`: another moment was jumped to while the view was under way; its time stays.
  arrived(view, pending) {
    if (this.following || !(this.playing || pending)) this.time = view.time_ps;
    this.time_ps = view.time_ps;
    this.show();
  }

  update(tick) {
    this.tick = tick;
    const known = SPEEDS.indexOf(tick.speed);
    if (this.driving && known >= 0 && document.activeElement !== this.speed) this.speed.value = known;
    this.show();
  }

  show() {
    const { tick } = this;
    if (!tick) return;
    const free = tick.clock === "real" && tick.state !== "ended"; // it cannot be held; afterwards it is replayed
    for (const part of [this.play, this.step, this.speed.closest("label"), this.stride.closest("label")]) part.hidden = free;
    this.held.hidden = !free;
    this.held.textContent = free ? tick.why_no_controls : "";
    const some = tick.count > 0;
    for (const part of [this.play, this.step, this.stride, this.speed]) part.disabled = !(this.driving || some);
    for (const part of [this.back, this.newest, this.slider]) part.disabled = !some;
    const still = this.following && this.driving ? tick.state === "paused" : !this.playing;
    this.play.textContent = still ? (this.following && this.driving ? "Go" : "Play") : "Pause";
    this.newest.setAttribute("aria-pressed", String(this.following));
    const span = tick.last_ps - tick.first_ps;
    const now = this.time_ps ?? tick.last_ps;
    if (document.activeElement !== this.slider || this.playing || this.following)
      this.slider.value = this.following || span <= 0 ? this.slider.max : (this.slider.max * (now - tick.first_ps)) / span;
    this.slider.setAttribute("aria-valuetext", timeText(now));
    this.output.textContent = timeText(now);
    this.onTime(this.playing ? this.time : now, this.pace);
  }
}
