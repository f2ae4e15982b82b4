"""The documentation stays short enough to be read."""

import re

from tests.support.paths import ROOT

PAGES = sorted([*ROOT.glob("docs/*.md"), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md"))])
MOST = 30_000
NOT_PROSE = (
    re.compile(r"<!-- (reference|table): .*?<!-- (reference: end|end of table) -->", re.DOTALL),
    re.compile(r"<!-- unsupported: begin -->.*?<!-- unsupported: end -->", re.DOTALL),
    re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE),
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"^ *\|.*$", re.MULTILINE),
    re.compile(r"^::: .*$(\n +.*$)*", re.MULTILINE),
)
"""generated tables, the generated list of constructs, blocks of code, comments, other tables, generated API"""


def prose_words(text):
    """Return the number of words of prose on a page.

    A word is what stands between two spaces or line ends, marks and links included. Headings and lists count. Tables,
    blocks between ``` lines, comments and generated parts do not.
    """
    for part in NOT_PROSE:
        text = part.sub("", text)
    return len(text.split())


def test_only_prose_counts():
    page = "# A page\n\nFour words of prose.\n\n| a | table |\n|---|---|\n\n```\ncode\n```\n<!-- long: x -->\n"
    assert prose_words(page) == 7
    assert (
        prose_words("<!-- reference: x -->\n- generated\n<!-- reference: end -->\n::: p4reduce\n    options: x\n") == 0
    )


def test_the_prose_is_short_enough():
    """README, CONTRIBUTING and docs/ together; CHANGELOG and the READMEs of packages and labs do not count."""
    words = {page.name: prose_words(page.read_text("utf-8")) for page in PAGES}
    assert sum(words.values()) <= MOST, sorted(words.items(), key=lambda item: -item[1])
