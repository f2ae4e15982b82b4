"""Driver for an installed headless Chromium, through chromedriver and Selenium; nothing is downloaded."""

import base64
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

WHOLE: Final = bool(os.environ.get("LIVE_TESTS"))
"""True if the slow browser tests run too (``make live-test``)"""
whole = pytest.mark.skipif(not WHOLE, reason="takes long: make live-test")
SIZES: Final = {"phone": (360, 740), "tablet": (768, 1024), "desktop": (1280, 800)}
SCHEMES: Final = ("light", "dark")


def why_not() -> str:
    """Return why no browser can be driven here; empty if it can."""
    for program, package in (("chromium", "chromium"), ("chromedriver", "chromium-driver")):
        if shutil.which(program) is None:
            return f"{program} is not installed: apt install {package}"
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed: make live-test"
    return ""


class Browser:
    """Operations on a page in the browser."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def shape(self, size: str, scheme: str, *, still: bool = False) -> None:
        """Emulate the viewport of a device and a colour scheme; ``still`` sets prefers-reduced-motion."""
        width, height = SIZES[size]
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == "phone"}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"},
        ]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def run(self, script: str, *arguments: object) -> Any:
        """Run a JavaScript function body and return its result."""
        return self.driver.execute_script(script, *arguments)

    def one(self, selector: str) -> Any:
        """Return the first element that matches a CSS selector."""
        return self.driver.find_element("css selector", selector)

    def all(self, selector: str) -> list[Any]:
        """Return all elements that match a CSS selector."""
        return list(self.driver.find_elements("css selector", selector))

    def text(self, selector: str) -> str:
        """Return the inner text of the first element that matches a CSS selector; empty if there is none."""
        return str(self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector))

    def until(self, condition: Any, seconds: float = 30) -> Any:
        """Wait until ``condition`` returns a true value; return that value."""
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.driver, seconds, poll_frequency=0.05).until(lambda _: condition())

    def picture(self, path: Path) -> Path:
        """Save the whole page as PNG to ``path``."""
        width, height = self.run("return [innerWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        self.run("scrollTo(0, 0)")
        made = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        path.write_bytes(base64.b64decode(made["data"]))
        return path

    def tree(self) -> list[tuple[str, str]]:
        """Return (role, name) of every node of the accessibility tree that is not ignored, in order."""
        nodes = self.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        told = [node for node in nodes if not node.get("ignored")]
        return [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in told]

    def complaints(self) -> list[str]:
        """Return the console's messages since the last call."""
        return [line["message"] for line in self.driver.get_log("browser")]


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser and quit it at the end."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--force-color-profile=srgb",
    ):
        options.add_argument(flag)
    options.binary_location = shutil.which("chromium") or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        yield Browser(driver)
    finally:
        driver.quit()


def low_contrasts(seen: Browser) -> Any:
    """Return enabled texts with a contrast below 4.5 : 1 to their background (WCAG 2.2 AA)."""
    return seen.run(
        """
        const part = (c) => (c /= 255, c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
        const numbers = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
        const behind = (node) => {
          for (; node; node = node.parentElement) {
            const found = numbers(getComputedStyle(node).backgroundColor);
            if (found.length === 3 || found[3] > 0) return found;
          }
          return [255, 255, 255];
        };
        const found = [];
        for (const node of document.querySelectorAll("body *:not(svg *)")) {
          const own = [...node.childNodes].some((one) => one.nodeType === 3 && one.textContent.trim());
          if (!own || !node.offsetParent || node.closest(":disabled, option, .hidden")) continue;
          const pair = [light(numbers(getComputedStyle(node).color)), light(behind(node))].sort((a, b) => b - a);
          const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
          if (ratio < 4.5) found.push(`${node.tagName} ${node.textContent.slice(0, 30)}: ${ratio.toFixed(2)}`);
        }
        return found;
        """
    )


def small_targets(seen: Browser) -> Any:
    """Return controls smaller than 24 by 24 pixels (WCAG 2.2, 2.5.8)."""
    return seen.run(
        """
        const found = [];
        for (const node of document.querySelectorAll("button, select, input, [role=button], summary")) {
          const box = node.getBoundingClientRect();
          if (box.width && (box.width < 24 || box.height < 24)) found.push(`${node.id} ${box.width} ${box.height}`);
        }
        return found;
        """
    )


# JavaScript that holds the answer to the first request of a path until `release()`, and counts the path's answers.
HOLD = """
const [plain, held] = [window.fetch, arguments[0]];
const released = new Promise((resolve) => { window.release = resolve; });
window.answers = 0;
window.fetch = async (path, ...others) => {
  const response = await plain(path, ...others);
  if (!path.startsWith(held)) return response;
  window.answers += 1;
  if (window.answers > 1) return response;
  const text = await response.text();
  await released;
  return new Response(text, { headers: response.headers });
};
"""


def release(seen: Browser) -> None:
    """Let the held answer go, and return after the page has taken it."""
    seen.driver.execute_async_script(
        "window.release(); fetch('/api/scene').then((answer) => answer.text()).then(() => setTimeout(arguments[0], 0))"
    )
