"""Snippets in the pages of docs/ for users to type: commands, Python, files.

Invisible comments on a page exclude commands from the tests::

    <!-- long: COMMAND -->             run by 'make docs-test' only
    <!-- not run: COMMAND: REASON -->  never run by tests

(COMMAND: a prefix of the page's commands)
and give the file name of the following block::

    <!-- file: NAME -->
"""

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

BLOCK = re.compile(r"(?:<!-- file: (?P<file>\S+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)
LONG = re.compile(r"^<!-- long: (.+?) -->$", re.M)
NOT_RUN = re.compile(r"^<!-- not run: (.+?): ([^:]+?) -->$", re.M)
SPAN = re.compile(r"`((?:\.venv/bin/)?(?:p4reduce|make) [^`]+)`")
WORDS = ("p4reduce", ".venv/bin/p4reduce", "make", "python", "pip", "git", "sudo")
"""first words by which a line of a block is recognised as a command"""


@dataclass
class Page:
    """Snippets of a page. ``commands``: lines of blocks, and spans with a ``.venv`` command; ``mentions``: other
    spans."""

    path: Path
    commands: list[str] = field(default_factory=list)
    mentions: list[str] = field(default_factory=list)
    python: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    yaml: list[str] = field(default_factory=list)
    long: set[str] = field(default_factory=set)
    not_run: dict[str, str] = field(default_factory=dict)

    def is_long(self, command: str) -> bool:
        """Return whether the page marks the command as long."""
        return any(command.startswith(said) for said in self.long)

    def is_never_run(self, command: str) -> bool:
        """Return whether the page marks the command as not run."""
        return any(command.startswith(said) for said in self.not_run)


def read(path: Path) -> Page:
    """Return the snippets of a page."""
    text = path.read_text("utf-8")
    page = Page(path, long=set(LONG.findall(text)), not_run=dict(NOT_RUN.findall(text)))
    for block in BLOCK.finditer(text):
        if block["file"]:
            page.files[block["file"]] = block["text"]
        elif block["language"] == "python":
            page.python.append(block["text"])
        elif block["language"] == "yaml":
            page.yaml.append(block["text"])
        elif block["language"] == "":
            page.commands += _commands(block["text"].splitlines())
    prose = BLOCK.sub("", text)
    page.commands += _commands([line[4:] for line in prose.splitlines() if line.startswith("    ")])
    for span in SPAN.findall("\n".join(line for line in prose.splitlines() if not line.startswith(("    ", "<!--")))):
        (page.commands if span.startswith(".venv") and "…" not in span else page.mentions).append(span)
    return page


def _commands(lines: list[str]) -> list[str]:
    whole = re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines()
    parts = (part for line in whole for part in _without_comment(line).split(" && "))
    return [part for part in parts if part.split(" ", 1)[0] in WORDS]


def _without_comment(line: str) -> str:
    """Return a line without its comment."""
    return re.split(r"\s+#\s", line, maxsplit=1)[0].strip()


def words(command: str) -> list[str]:
    """Return the words of a command as a shell splits it, without the folder of the program."""
    found = shlex.split(command)
    return [found[0].removeprefix(".venv/bin/"), *found[1:]]
