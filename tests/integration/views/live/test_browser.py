"""The page in a real browser: its contents, keyboard access, layout, light and dark."""

import threading
from contextlib import ExitStack
from dataclasses import replace

import pytest

from p4reduce.control_plane.orchestrator import Store
from p4reduce.network.jobs.network import observing
from p4reduce.runs.experiment import Experiment, FaultOptions
from p4reduce.runs.real.sights import LinkSight, Showing, Sights
from p4reduce.runs.runner import run_experiment
from p4reduce.topologies import load
from p4reduce.views.live.look import NO_HOLD, RealSource
from p4reduce.views.live.player import LivePlayer
from p4reduce.views.live.session import LiveServer, VirtualSource
from p4reduce.views.live.tasks import TaskSource
from tests.support.browser import HOLD, SCHEMES, SIZES, WHOLE, low_contrasts, release, small_targets, whole, why_not
from tests.support.orchestrated.bench import some_tasks

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")

LONG_S = 300  # includes compilation
LOSSY = Experiment(topology="leaf-spine-8", elements=60_000, lanes=64, faults=FaultOptions(loss=0.01), seed=3)
SMALL = LOSSY.model_copy(update={"elements": 4_000})
EVIL = "<img src=x onerror=alert(1)>&\"'\u202e\U0001f600"


class Page:
    """A run that begins paused, its server, and a browser that has opened its page."""

    def __init__(self, browser, experiment=LOSSY):
        self.browser = browser
        self.experiment = experiment
        self.player = LivePlayer(paused=True)
        self.source = VirtualSource(f"tensor {EVIL}", self.player)
        self.results = []
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        with observing(self.player.attach):
            self.results.append(run_experiment(self.experiment))
        self.source.end = "the run has ended"

    def stands(self):
        assert self.player.wait_until(lambda: self.player.stands, LONG_S)

    def shown(self):
        """Wait until the page shows the newest moment."""
        newest = self.player.history.times()[1]
        self.browser.until(lambda: self.browser.run("return document.body.dataset.key") == str(newest))

    def __enter__(self):
        self.thread.start()
        self.stands()
        self.server = LiveServer(self.source)
        self.server.start()
        return self

    def open(self):
        self.browser.driver.get(self.server.url)
        self.shown()
        return self

    def __exit__(self, *_):
        self.browser.driver.get("about:blank")
        self.browser.complaints()
        self.player.pace(None)
        self.player.go()
        self.thread.join(LONG_S)
        self.server.close()
        assert self.results


@pytest.fixture
def page(chromium):
    chromium.shape("desktop", "light")
    with Page(chromium) as one:
        yield one.open()


def test_a_run_is_driven_and_seen(page):
    seen = page.browser
    assert seen.text("#state") == "paused"
    assert EVIL[:28] in seen.text("#title")
    page.player.step(30_000_000)
    page.stands()
    page.shown()
    assert len(seen.all("#drawing line.loaded")) > 8
    assert "kB" in seen.text("#totals")
    assert seen.all("#workers tbody tr")
    before = page.player.network.now
    seen.one("#step").click()
    seen.until(lambda: page.player.stands and page.player.network.now > before)
    page.shown()
    seen.run("document.querySelector('[data-node=leaf1]').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    seen.until(lambda: "slot" in seen.run("return document.querySelector('#slots ul.slots').innerHTML"))
    assert seen.run("return document.querySelector('#switch').value") == "leaf1"
    link = next(one for one in seen.all("#links tbody button") if one.text.startswith("h1 "))
    link.click()
    frame = seen.until(lambda: seen.all("#frames button"))[0]
    assert "PUSH" in frame.text
    frame.click()
    seen.until(lambda: "A frame of" in seen.text("#steps .says"))
    assert seen.run("return document.activeElement.id") == "trace"
    seen.one("#play").click()
    seen.until(lambda: "has ended" in seen.text("#state"))
    page.thread.join(LONG_S)
    page.shown()
    seen.one("#back").click()
    newest = str(page.player.history.times()[1])
    seen.until(lambda: seen.run("return document.body.dataset.key") != newest)
    seen.one("#newest").click()
    page.shown()
    assert seen.complaints() == []
    assert seen.run("return document.images.length") == 0


@whole
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
def test_it_fits_and_can_be_read(page, size, scheme, tmp_path):
    seen = page.browser
    seen.shape(size, scheme)
    page.player.step(60_000_000)
    page.stands()
    page.shown()
    seen.all("#links tbody button")[0].click()
    assert seen.run("return document.documentElement.scrollWidth <= innerWidth")
    assert seen.run("return getComputedStyle(document.body).backgroundColor") == (
        "rgb(255, 255, 255)" if scheme == "light" else "rgb(18, 22, 29)"
    )
    assert low_contrasts(seen) == []
    assert small_targets(seen) == []
    assert seen.picture(tmp_path / f"{size}-{scheme}.png").stat().st_size > 10_000
    assert seen.complaints() == []


def choose_a_frame(page):
    """Open a link's kept frames and step through the first; return the seconds from the click to the first step."""
    seen = page.browser
    next(one for one in seen.all("#links tbody button") if one.text.startswith("h1 ")).click()
    seen.until(lambda: seen.all("#frames button"))
    return seen.driver.execute_async_script(
        """
        const done = arguments[arguments.length - 1];
        const [says, began] = [document.querySelector("#steps .says"), performance.now()];
        const there = () => says.textContent.startsWith("A frame of");
        says.textContent = "";
        const seen = () => there() && done((performance.now() - began) / 1000);
        new MutationObserver(seen).observe(says, { childList: true });
        [...document.querySelectorAll("#frames button")].at(-1).click();
        """
    )


def test_a_frame_of_the_past_is_gone_through_with_keys_and_followed(chromium):
    """Forward, back, first and last; a step's output stays; the copy is followed to the next switch."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    chromium.shape("desktop", "light")
    with Page(chromium, SMALL) as page:
        page.player.pace(1e15)
        page.player.go()
        page.thread.join(LONG_S)
        page.player.note()
        page.open()
        seen = page.browser
        took_s = choose_a_frame(page)
        assert took_s < 1 or not WHOLE, took_s
        stages = [one.text for one in seen.all("#steps .stages button")]
        assert stages[:2] == ["Parser", "Ingress"]
        assert stages[-1] == "Outcome"

        def press(*keys):
            ActionChains(seen.driver).send_keys(*keys).perform()

        def at():
            return seen.text("#steps .count"), seen.text("#steps .says")

        first = at()
        seen.one("#steps [aria-label='Forward step']").click()
        press(Keys.ARROW_RIGHT)
        assert at()[0].startswith("3 of ")
        assert "ether_type" in seen.text("#steps .values")
        press(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
        assert at() == first
        assert "ether_type" not in seen.text("#steps .values")
        told, tables, registers = [], 0, 0
        press(Keys.ARROW_RIGHT)
        seen.run("document.querySelector('#steps').tabIndex = -1; document.querySelector('#steps').focus()")
        while seen.one("#steps [aria-label='Forward step']").is_enabled():
            press(Keys.ARROW_RIGHT)
            told.append(at()[1])
            boxes = seen.text("#steps .boxes")
            tables += "Table IncIngress.aggregate.job\n" in boxes and "entry {1, 0}" in boxes
            registers += "Register IncIngress.aggregate.slot.slots" in boxes and "before" in boxes
        assert tables == 1
        assert registers >= 2
        assert all(text.endswith((".", "Yes.", "No.")) for text in told)
        press(Keys.HOME)
        assert at() == first
        press(Keys.END)
        assert at()[1] == told[-1]
        roles = seen.tree()
        wanted = [("button", f"{name} step") for name in ("First", "Back", "Forward", "Last")]
        assert [one for one in [*wanted, ("slider", "Step"), ("list", "Stages")] if one not in roles] == []
        assert [one for one in roles if one[0] in {"button", "slider", "combobox", "img"} and not one[1]] == []
        for button in seen.all("#onward button")[:1]:
            button.click()
            seen.until(lambda: at()[0].startswith("1 of"))
        assert seen.complaints() == []


@whole
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
def test_steps_fit_and_can_be_read(page, size, scheme, tmp_path):
    seen = page.browser
    page.player.step(60_000_000)
    page.stands()
    page.player.pace(1e15)
    page.player.go()
    seen.until(lambda: "has ended" in seen.text("#state"))
    choose_a_frame(page)
    seen.shape(size, scheme)
    for _ in range(60):
        seen.run("document.querySelector('#steps [aria-label=\"Forward step\"]').click()")
        assert seen.run("return document.documentElement.scrollWidth <= innerWidth")
        assert clipped(seen) == []
    assert low_contrasts(seen) == []
    assert small_targets(seen) == []
    assert seen.picture(tmp_path / f"steps-{size}-{scheme}.png").stat().st_size > 10_000
    assert seen.complaints() == []


def clipped(seen):
    """Return boxes whose contents overflow, so that a part is hidden without scrolling."""
    return seen.run(
        """
        return [...document.querySelectorAll(".card, .card *:not(svg *):not(.hidden)")]
          .filter((one) => one.offsetParent && one.clientWidth > 0 && one.scrollWidth > one.clientWidth + 1
            && getComputedStyle(one).display !== "inline" && !one.matches("select, option, .slots li"))
          .map((one) => `${one.tagName} ${one.id} ${one.className} ${one.textContent.slice(0, 30)}`);
        """
    )


@whole
def test_five_hundred_frames_move_ten_times_a_second(page):
    """The page's own code with simulated frames: 500 on their links all the time."""
    rate, seen = page.browser.driver.execute_async_script(
        """
        const done = arguments[arguments.length - 1];
        (async () => {
          const { Frames } = await import("/static/frames.js");
          const make = (id) => document.getElementById(id);
          const lanes = [...document.querySelectorAll("#map line[data-from]")];
          const links = lanes.map((line) => ({ from: line.dataset.from, to: line.dataset.to }));
          const rows = Array.from({ length: 500 }, (_, n) => [n, n % lanes.length, 0, 1e9, n % 6]);
          const parts = { over: make("over"), drawing: make("drawing"), line: make("frame-line"), legend: make("kinds"),
            span: document.createElement("select") };
          const ask = async () => ({ kinds: ["a", "b", "c", "d", "e", "f"], rows, all: true });
          const frames = new Frames(parts, { ask, onFrame() {} });
          frames.scene({ links }, lanes);
          frames.aim(1e8, 1e7, [0, 1e9], "leaf1", false);
          await new Promise((later) => setTimeout(later, 1000));
          const [before, began] = [frames.pictures, performance.now()];
          await new Promise((later) => setTimeout(later, 3000));
          done([(frames.pictures - before) / (performance.now() - began) * 1000, frames.hits.over.length]);
        })().catch((error) => done([0, String(error)]));
        """
    )
    assert seen == 500
    assert rate >= 10


# The page's own code with simulated frames: one arrives each nanosecond, and some are in flight at `now`.
SIMULATED = """
const [now, total, done] = arguments;
(async () => {
  const { Frames } = await import("/static/frames.js");
  const make = (id) => document.getElementById(id);
  const lanes = [...document.querySelectorAll("#map line[data-from]")];
  const links = lanes.map((line) => ({ from: line.dataset.from, to: line.dataset.to }));
  const span = document.createElement("select");
  const parts = { over: make("over"), drawing: make("drawing"), line: make("frame-line"), legend: make("kinds"), span };
  const arrivals = Array.from({ length: total }, (_, n) => [n, n % lanes.length, n * 1e3 - 500, n * 1e3, n % 6]);
  const wire = Array.from({ length: 7 }, (_, n) => [null, n, now - 500, now + 1e6, 0]);
  let asked = 0;
  const ask = async (_, { from, to }) => {
    asked += 1;
    const last = Math.min(to, now);
    const rows = arrivals.filter(([, , , arrives]) => arrives >= from && arrives <= last).slice(0, 1500);
    const all = rows.length < 1500;
    return { kinds: ["a", "b", "c", "d", "e", "f"], all, rows: to >= now ? [...rows, ...wire] : rows };
  };
  const frames = new Frames(parts, { ask, onFrame() {} });
  const idle = async () => {
    for (let before = -1; before !== asked && asked < 300; ) {
      before = asked;
      await new Promise((later) => setTimeout(later, 300));
    }
  };
  const choose = (at) => { span.selectedIndex = at; span.dispatchEvent(new Event("change")); };
  frames.scene({ links }, lanes);
  done(await (CHECK)({ frames, idle, choose, asked: () => asked }));
})().catch((error) => done(String(error)));
"""
IN_FLIGHT = """async ({ frames, idle, choose }) => {
  frames.aim(1e6, 0, [0, 3e7], "leaf1", false);
  await idle();
  frames.aim(3e7, 0, [0, 3e7], "leaf1", true);
  await idle();
  const first = frames.hits.over.length;
  choose(2);
  await idle();
  return [first, frames.hits.over.length];
}"""
NEWEST_OF_MANY = """async ({ frames, idle }) => {
  frames.aim(5e6, 0, [0, 5e6], "leaf1", true);
  await idle();
  return frames.flights.at(-1)[3];
}"""
MORE_THAN_HELD = """async ({ frames, idle, choose, asked }) => {
  choose(3);
  frames.aim(2e7, 0, [0, 1e8], "leaf1", false);
  await idle();
  return [asked() < 100, frames.flights.length >= 20000, frames.flights[0][0]];
}"""


@whole
@pytest.mark.parametrize(
    ("now", "total", "check", "result"),
    [
        (3e7, 30_000, IN_FLIGHT, [7, 7]),
        (5e6, 5_001, NEWEST_OF_MANY, 5e6),
        (1e8, 60_000, MORE_THAN_HELD, [True, True, 0]),
    ],
)
def test_frames_of_a_moment_are_loaded_once_and_stay(page, now, total, check, result):
    script = SIMULATED.replace("CHECK", check)
    assert page.browser.driver.execute_async_script(script, now, total) == result


@whole
def test_everything_is_reached_and_done_with_keys(page):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    seen = page.browser

    def press(*keys):
        ActionChains(seen.driver).send_keys(*keys).perform()

    def where():
        return seen.run(
            "const one = document.activeElement;return one.id || one.dataset.node || one.dataset.index || one.className"
        )

    page.player.step(40_000_000)
    page.stands()
    page.shown()
    seen.run("document.body.focus()")
    reached = []
    for _ in range(80):
        press(Keys.TAB)
        place = where()
        if place in reached:
            break
        reached.append(place)
        outline = seen.run(
            "const one = document.activeElement, own = getComputedStyle(one);"
            "const mark = getComputedStyle(one.querySelector('.node') ?? one);"
            "return [own.outlineStyle, parseFloat(own.outlineWidth), parseFloat(mark.strokeWidth)]"
        )
        visible = (outline[0] != "none" and outline[1] >= 2) or outline[2] >= 3
        assert visible, f"no focus is seen at {place}: {outline}"
    wanted = ["play", "back", "step", "newest", "speed", "stride", "slider", "mode", "job", "spine1", "leaf1", "switch"]
    assert [one for one in wanted if one not in reached] == []
    seen.run("document.querySelector('[data-node=leaf2]').focus()")
    press(Keys.ENTER)
    seen.until(lambda: seen.run("return document.querySelector('#switch').value") == "leaf2")
    assert seen.run("return document.querySelector('[data-node=leaf2]').getAttribute('aria-pressed')") == "true"
    seen.run("document.querySelector('#slider').focus()")
    press(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    seen.until(lambda: seen.one("#newest").get_attribute("aria-pressed") == "false")
    seen.run("document.querySelector('#newest').focus()")
    press(Keys.ENTER)
    page.shown()
    before = page.player.network.now
    seen.run("document.querySelector('#step').focus()")
    press(Keys.SPACE)
    seen.until(lambda: page.player.stands and page.player.network.now > before)
    assert seen.complaints() == []


@whole
def test_controls_have_names_and_what_moves_can_be_stopped(page):
    seen = page.browser
    seen.shape("desktop", "light", still=True)
    nameless = seen.run(
        """
        const named = (node) => node.labels?.length || node.getAttribute("aria-label") || node.textContent.trim();
        const all = [...document.querySelectorAll("button, select, input, [role=button]")];
        return all.filter((node) => !named(node)).map((node) => node.id);
        """
    )
    assert nameless == []
    assert seen.run("return document.documentElement.lang") == "en"
    assert seen.run("return document.querySelectorAll('h1').length") == 1
    assert seen.run("return getComputedStyle(document.querySelector('line.link')).transitionDuration") == "0s"
    ids = seen.run("return [...document.querySelectorAll('[id]')].map((n) => n.id)")
    assert len(ids) == len(set(ids))


@whole
def test_a_replay_goes_to_the_end(page):
    seen = page.browser
    page.player.pace(None)
    page.player.go()
    seen.until(lambda: "has ended" in seen.text("#state"))
    page.thread.join(LONG_S)
    seen.run("document.querySelector('#speed').value = 3")
    seen.run("const s = document.querySelector('#slider'); s.value = 100; s.dispatchEvent(new Event('input'))")
    seen.until(lambda: seen.one("#newest").get_attribute("aria-pressed") == "false")
    newest = page.player.history.times()[1]
    seen.until(lambda: int(seen.run("return document.body.dataset.key")) < newest)
    early = seen.run("return document.body.dataset.key")
    seen.one("#play").click()
    seen.until(lambda: int(seen.run("return document.body.dataset.key")) > int(early))
    assert seen.text("#play") in {"Pause", "Play"}
    assert seen.complaints() == []


SLIDE = "const s = document.querySelector('#slider'); s.value = 100; s.dispatchEvent(new Event('input'));"
BACK = "document.querySelector('#back').click();"
SWITCH = "document.querySelector('#switch').dispatchEvent(new Event('change'));"
NEWEST = "document.querySelector('#newest').click();"
# what is under way, what is chosen meanwhile, and the moment that is shown afterwards: the slider's, and steps
CHOICES = [
    (SWITCH, SLIDE, True, 0),
    (SWITCH, BACK + BACK, False, -2),
    (SWITCH, BACK + SWITCH, False, -1),
    (BACK, SWITCH, False, -1),
    (BACK, BACK, False, -2),
    (SWITCH, SLIDE + BACK, True, -1),
    (SLIDE, NEWEST + BACK, False, -1),
    (BACK, SLIDE + SWITCH, True, 0),
]


@whole
@pytest.mark.parametrize("choice", CHOICES)
def test_a_moment_chosen_while_an_answer_is_under_way_is_shown(page, choice):
    seen, history = page.browser, page.player.history
    page.player.pace(None)
    page.player.go()
    seen.until(lambda: "has ended" in seen.text("#state"))
    page.thread.join(LONG_S)
    page.shown()
    under_way, chosen, jump, steps = choice
    seen.run(HOLD, "/api/view")
    seen.run(under_way)
    seen.until(lambda: seen.run("return window.answers") == 1)
    seen.run(chosen)
    first, newest = history.times()
    share = float(seen.run("const s = document.querySelector('#slider'); return 100 / s.max"))
    wanted, _ = history.at(round(first + share * (newest - first)) if jump else None, steps)
    release(seen)
    seen.until(lambda: seen.run("return window.answers") == 2)
    seen.until(lambda: seen.run("return document.body.dataset.key") == str(wanted.time_ps))
    assert wanted.time_ps < newest


@whole
def test_an_answer_that_was_overtaken_is_not_shown(page):
    seen = page.browser
    page.player.step(30_000_000)
    page.stands()
    page.shown()

    def click(name):
        next(one for one in seen.all("#links tbody button") if one.text.startswith(f"{name} ")).click()

    seen.run(HOLD, "/api/frames")
    click("h1")
    seen.until(lambda: seen.run("return window.answers") == 1)
    click("h2")
    seen.until(lambda: seen.text("#frames").startswith("h2 ") and seen.all("#frames button"))
    release(seen)
    assert seen.text("#frames").startswith("h2 ")
    seen.run(HOLD, "/api/trace")
    seen.all("#frames button")[0].click()
    seen.until(lambda: seen.run("return window.answers") == 1)
    click("h1")
    seen.until(lambda: seen.text("#frames").startswith("h1 ") and seen.all("#frames button"))
    seen.all("#frames button")[0].click()
    seen.until(lambda: "leaf1" in seen.text("#trace-title"))
    title = seen.text("#trace-title")
    release(seen)
    assert seen.text("#trace-title") == title


@whole
def test_a_chosen_switch_stays_chosen_when_a_job_begins(page):
    seen = page.browser
    page.player.step(30_000_000)
    page.stands()
    page.shown()
    scene = page.source.scene()
    used = {name for job in scene["jobs"] for name in job["switches"]}
    assert used
    (other, *_) = (one["name"] for one in scene["nodes"] if one["kind"] == "switch" and one["name"] not in used)
    seen.run(f"document.querySelector('[data-node={other}]').dispatchEvent(new MouseEvent('click', {{bubbles: true}}))")
    seen.until(lambda: seen.run("return document.querySelector('#switch').value") == other)
    seen.run("document.querySelector('#switch').options[0].id = 'old'")
    plain = page.source.tick
    page.source.tick = lambda: {**plain(), "scene": -1}
    page.player.step(1_000_000)
    seen.until(lambda: not seen.all("#old"))
    assert seen.run("return document.querySelector('#switch').value") == other


@whole
def test_a_server_that_ends_is_said(page):
    page.server.close()
    page.browser.until(lambda: "does not answer" in page.browser.text("#state"))


class RealNetwork:
    """A real-time network with simulated counters, its page, and a browser that has opened it."""

    def __init__(self, browser, folder, topology):
        self.browser = browser
        self.topology = load(topology)
        self.read = 0
        self.parts = ExitStack()
        sights = Sights(self.topology, "bmv2", links=self.links, plans=lambda: (), notes=[f"counted by {EVIL}"])
        self.ending = ExitStack()
        self.ending.enter_context(Showing(folder / "view", sights))
        self.source = RealSource(f"net {EVIL}", lambda: folder / "view", restarts=False)

    def links(self):
        """A tenth of each link's rate leaves switches; hosts' queues are unknown."""
        self.read += 1
        found = {}
        for link in self.topology.links:
            frames = self.read * link.rate_bps // 400 // 8000
            for hop in ((link.a, link.port_a), (link.b, link.port_b)):
                queue = None if self.topology.node(hop[0]).is_host else 3
                found[hop] = LinkSight(1000 * frames, frames, queue, queue, dropped=0)
        return found

    def __enter__(self):
        self.parts.callback(self.source.close)
        self.parts.callback(self.ending.close)
        self.server = self.parts.enter_context(LiveServer(self.source))
        self.browser.driver.get(self.server.url)
        self.browser.until(lambda: self.browser.all("#drawing line.loaded") and self.browser.all("#links tbody tr"))
        return self

    def __exit__(self, *_):
        self.browser.driver.get("about:blank")
        self.browser.complaints()
        self.parts.close()

    def displayed(self, *places):
        return [self.browser.one(place).is_displayed() for place in places]


DRIVING = ("#play", "#step", "#speed", "#stride")


def test_real_time_is_seen_and_not_held_reloaded_and_seen_to_its_end(chromium, tmp_path):
    chromium.shape("phone", "dark")
    with RealNetwork(chromium, tmp_path, "star:hosts=2,servers=0,rate=1G") as page:
        assert chromium.text("#state") == "running"
        assert chromium.text("#held") == NO_HOLD
        assert page.displayed(*DRIVING, "#back", "#slider") == [False] * 4 + [True] * 2
        assert EVIL[:28] in chromium.text("#title")
        assert EVIL[:28] in chromium.text("#notes")
        assert chromium.run("return document.images.length") == 0
        assert "?" in chromium.text("#links"), "queues of hosts are known to nobody"
        assert "adds nothing up" in chromium.text("#slots") or "No job" in chromium.text("#slots")
        chromium.all("#links tbody button")[0].click()
        chromium.until(lambda: "datagrams" in chromium.text("#frames"))
        chromium.driver.refresh()
        chromium.until(lambda: chromium.all("#drawing line.loaded"))
        assert chromium.run("return document.documentElement.scrollWidth <= innerWidth")
        chromium.one("#back").click()
        chromium.until(lambda: chromium.one("#newest").get_attribute("aria-pressed") == "false")
        page.ending.close()
        chromium.until(lambda: "has ended" in chromium.text("#state"))
        assert page.displayed(*DRIVING) == [True] * 4
        assert chromium.complaints() == []


@whole
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
def test_a_page_of_real_time_fits_and_can_be_read(chromium, tmp_path, size, scheme):
    chromium.shape(size, scheme)
    with RealNetwork(chromium, tmp_path, "leaf-spine-8"):
        assert chromium.run("return document.documentElement.scrollWidth <= innerWidth")
        assert low_contrasts(chromium) == []
        assert small_targets(chromium) == []
        assert chromium.complaints() == []


@whole
def test_a_large_network_stays_usable(chromium, tmp_path):
    """A fat-tree of 125 switches and 250 hosts, whose 1,500 link directions all change."""
    chromium.shape("desktop", "light")
    with RealNetwork(chromium, tmp_path, "fat-tree:k=10") as page:
        assert len(chromium.all("#drawing [data-node]")) == 375
        for switch in (page.topology.switches[0].name, page.topology.switches[-1].name):
            took_ms = chromium.run(
                "const began = performance.now();"
                "document.querySelector(arguments[0]).dispatchEvent(new MouseEvent('click', {bubbles: true}));"
                "return performance.now() - began",
                f"[data-node='{switch}']",
            )
            assert chromium.run("return document.querySelector('#switch').value") == switch
            assert took_ms < 1000
        before = page.read
        chromium.until(lambda: page.read > before + 3)
        assert chromium.complaints() == []


def test_tasks_are_shown_with_their_states(chromium, tmp_path):
    chromium.shape("desktop", "light")
    with Store(tmp_path / "tasks.sqlite") as store:
        store.submit([replace(task, name=f"{task.name} {EVIL[:28]}") for task in some_tasks()])
    player = LivePlayer()
    with observing(player.attach):
        run_experiment(LOSSY)
    source = TaskSource("tasks", player, tmp_path / "tasks.sqlite")
    source.finish("all tasks have ended")
    with LiveServer(source) as server:
        chromium.driver.get(server.url)
        chromium.until(lambda: chromium.all("#tasks tbody tr"))
        rows = [row.text for row in chromium.all("#tasks tbody tr")]
        assert [row.split()[0] for row in rows] == ["first", "second"]
        assert all("queued" in row and "0 / 3" in row for row in rows)
        assert EVIL[:28] in rows[0]
        assert chromium.run("return document.images.length") == 0
        assert chromium.complaints() == []
        chromium.driver.get("about:blank")
