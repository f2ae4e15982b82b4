"""Links in the documentation point to existing files and headings."""

import re

import pytest

from tests.support.paths import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("packages/**/README.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page):
    """Return anchors as GitHub and the site form them: lower case, spaces as dashes, only letters, digits, - and _."""
    found = set()
    for line in page.read_text("utf-8").splitlines():
        if line.startswith("#"):
            text = re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip().lower())
            found.add(re.sub(r"[^\w\- ]", "", text).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text("utf-8")):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        goal = (page.parent / path).resolve() if path else page
        assert goal.exists(), f"{page.name}: there is no {target}"
        if anchor and goal.suffix == ".md":
            assert anchor in anchors(goal), f"{page.name}: no heading {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_headings_are_not_joined_to_the_paragraph_below(page):
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    assert not [line for line in text.splitlines() if re.match(r"#{1,6} .{75}", line)]


def test_every_page_is_in_the_navigation():
    listed = (ROOT / "mkdocs.yml").read_text()
    assert not [page.name for page in ROOT.glob("docs/*.md") if f": {page.name}\n" not in listed]
