"""A playground in a real browser: a program is edited, tried and saved, and what is typed is kept."""

from contextlib import closing

import pytest

from p4reduce.views.live.play import PlaygroundStart, PlaySource
from p4reduce.views.live.session import LiveServer
from tests.support.browser import (
    HOLD,
    SCHEMES,
    SIZES,
    WHOLE,
    low_contrasts,
    release,
    small_targets,
    whole,
    why_not,
)
from tests.unit.views.live.test_play import TEXTS

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")


@pytest.fixture
def played(chromium, tmp_path):
    """A playground opened in a browser, and its files."""
    files = {which: tmp_path / f"my.{which}" for which in ("program", "entries", "packets")}
    for which, text in TEXTS.items():
        files[which].write_text(text)
    with closing(PlaySource(PlaygroundStart(files))) as source, LiveServer(source) as server:
        chromium.shape("desktop", "light")
        chromium.driver.get(server.url)
        chromium.until(lambda: chromium.all("#steps .stages button"))
        yield chromium, files
        chromium.run("for (const area of document.querySelectorAll('textarea')) area.value = ''")
        chromium.driver.get("about:blank")
        chromium.complaints()


def write(seen, which, old, new):
    """Edit a text as a user types; return the seconds until the page shows the result."""
    return seen.driver.execute_async_script(
        """
        const [which, old, made, done] = arguments;
        const [area, began] = [document.getElementById(which), performance.now()];
        new MutationObserver((_, watch) => (watch.disconnect(), done((performance.now() - began) / 1000)))
          .observe(document.body, { attributes: true, attributeFilter: ["data-tried"] });
        area.value = area.value.replace(old, made);
        area.dispatchEvent(new Event("input"));
        """,
        which,
        old,
        new,
    )


def test_a_program_is_edited_tried_and_saved(played):
    seen, files = played
    assert seen.text("#state") == "2 packets"
    took_s = write(seen, "program", "m.seen = old", "m.sen = old")
    assert took_s < 1 or not WHOLE, took_s
    assert seen.text("#state") == "1 error"
    (note,) = seen.all(".notes-beside .error")
    assert "no field 'sen'" in note.text
    lines = seen.run("return document.querySelector('#program').value").split("\n")
    line = next(number for number, text in enumerate(lines, 1) if "m.sen" in text)
    assert [one.text for one in seen.all(".gutter .error")] == [str(line)]
    assert files["program"].read_text() == TEXTS["program"]
    write(seen, "program", "m.sen = old", "m.seen = 1 + old")
    assert seen.text("#state") == "2 packets"
    seen.one("#steps [aria-label='Last step']").click()
    assert "sum 9" in seen.text("#steps .values").replace("\n", " ")
    seen.one("#texts .card button").click()
    seen.until(lambda: "saved" in seen.text("#state"))
    assert "m.seen = 1 + old" in files["program"].read_text()
    files["packets"].write_text("4 000000000001 000000000009 0800\n")
    seen.until(lambda: seen.text("#state") == "1 packet")
    write(seen, "packets", "0800", "0801")
    files["packets"].write_text("5 000000000001 000000000009 0800\n")
    clash = seen.all(".clash")[-1]
    seen.until(clash.is_displayed)
    seen.all(".clash button")[-1].click()
    seen.all("#texts .card > .bar button")[-1].click()
    seen.until(lambda: "0801" in files["packets"].read_text())
    assert seen.complaints() == []


@whole
def test_what_is_typed_while_a_changed_file_is_read_is_kept(played):
    seen, files = played
    seen.run(HOLD, "/api/files")
    files["program"].write_text(TEXTS["program"] + "// from elsewhere\n")
    seen.until(lambda: seen.run("return window.answers") == 1)
    write(seen, "program", "m.seen = old", "m.seen = 3 + old")
    release(seen)
    assert "3 + old" in seen.run("return document.querySelector('#program').value")
    assert seen.all(".clash")[0].is_displayed()
    seen.all(".clash button")[0].click()
    seen.until(lambda: "elsewhere" in seen.run("return document.querySelector('#program').value"))


@whole
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
def test_a_playground_fits_and_can_be_read(played, size, scheme):
    seen, _ = played
    seen.shape(size, scheme)
    write(seen, "program", "m.seen = old", "m.sen = old")
    assert seen.run("return document.documentElement.scrollWidth <= innerWidth")
    assert low_contrasts(seen) == []
    assert small_targets(seen) == []
    named = {"textbox", "button", "slider", "combobox"}
    assert [one for one in seen.tree() if one[0] in named and not one[1]] == []
    assert seen.complaints() == []
