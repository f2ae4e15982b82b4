"""A headless Chromium, where there is one, driven through its own driver; nothing is downloaded."""

import base64
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

WHOLE: Final = bool(os.environ.get("LIVE_TESTS"))
"""whether everything is looked at (``make live-test``), or only what is quick"""
whole = pytest.mark.skipif(not WHOLE, reason="takes long: make live-test")
SIZES: Final = {"phone": (360, 740), "tablet": (768, 1024), "desktop": (1280, 800)}
SCHEMES: Final = ("light", "dark")


def why_not() -> str:
    """Why no browser can be driven here; empty where one can."""
    for program, package in (("chromium", "chromium"), ("chromedriver", "chromium-driver")):
        if shutil.which(program) is None:
            return f"{program} is not installed: apt install {package}"
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed: make live-test"
    return ""


class Browser:
    """What tests do with it."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def shape(self, size: str, scheme: str, *, still: bool = False) -> None:
        """Have the window of a phone or a desktop, light or dark; ``still``: prefers-reduced-motion."""
        width, height = SIZES[size]
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == "phone"}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"},
        ]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def run(self, script: str, *arguments: object) -> Any:
        """What a function body of JavaScript returns."""
        return self.driver.execute_script(script, *arguments)

    def one(self, selector: str) -> Any:
        """The element of a CSS selector."""
        return self.driver.find_element("css selector", selector)

    def all(self, selector: str) -> list[Any]:
        """All of them."""
        return list(self.driver.find_elements("css selector", selector))

    def text(self, selector: str) -> str:
        """What it says."""
        return str(self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector))

    def until(self, condition: Any, seconds: float = 30) -> Any:
        """Wait until a function returns something; its value."""
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.driver, seconds, poll_frequency=0.05).until(lambda _: condition())

    def picture(self, path: Path) -> Path:
        """The whole page as PNG."""
        width, height = self.run("return [innerWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        self.run("scrollTo(0, 0)")
        made = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        path.write_bytes(base64.b64decode(made["data"]))
        return path

    def tree(self) -> list[tuple[str, str]]:
        """(role, name) of all that a screen reader is told of, in its order."""
        nodes = self.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        told = [node for node in nodes if not node.get("ignored")]
        return [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in told]

    def complaints(self) -> list[str]:
        """What the console said since it was asked last: errors and warnings."""
        return [line["message"] for line in self.driver.get_log("browser")]


@contextmanager
def browser() -> Iterator[Browser]:
    """One, until the end."""
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
