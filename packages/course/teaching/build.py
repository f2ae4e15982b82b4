"""Makes what a teacher hands out and keeps: ``python packages/course/teaching/build.py OUT [NUMBER ...]``.

For each lab: ``slides.html`` (its README as a deck, with the quiz at the end), ``quiz.md``, and ``key.md`` with the
right options, answers to the questions, what each requirement's mistakes are, and the solution.
"""

from __future__ import annotations

import html
import random
import re
import sys
from pathlib import Path
from typing import Any, Final

import yaml
from markdown_it import MarkdownIt

from p4reduce_course.catalogue import NAMES, find, home, package
from p4reduce_course.frame.grading import filled
from p4reduce_course.frame.lab import EXAMPLE, personal

HERE: Final = Path(__file__).parent
SOLUTIONS: Final = HERE.parents[2] / "tests" / "support" / "labs" / "solutions"
LETTERS: Final = "abcd"
_STYLE: Final = """
html { scroll-snap-type: y mandatory; font: 26px/1.4 system-ui, sans-serif; color: #1a1a1a; background: #fff }
section { box-sizing: border-box; min-height: 100vh; max-width: 62em; margin: auto; padding: 5vh 8vw;
  scroll-snap-align: start }
h1, h2 { line-height: 1.15; color: #0b4f6c }
pre { background: #f3f3f3; padding: .6em; overflow-x: auto; font-size: 70% }
code { font-size: 85% }
table { border-collapse: collapse }
td, th { border-bottom: 1px solid #bbb; padding: .2em .8em; text-align: left }
footer { color: #666; font-size: 55% }
@media (prefers-color-scheme: dark) { html { background: #111; color: #eee }
  h1, h2 { color: #7cc7e8 } pre { background: #222 } }
@media print { section { break-after: page; min-height: 0 } }
"""
_KEYS: Final = """
const all = [...document.querySelectorAll('section')]; let at = 0;
addEventListener('keydown', e => { const step = {ArrowRight: 1, PageDown: 1, ' ': 1, ArrowLeft: -1, PageUp: -1}[e.key];
  if (step) { e.preventDefault(); at = Math.min(all.length - 1, Math.max(0, at + step)); all[at].scrollIntoView() } });
"""


def texts() -> dict[str, Any]:
    """Quiz and answers, by lab."""
    labs: dict[str, Any] = yaml.safe_load((HERE / "labs.yaml").read_text("utf-8"))
    return labs


def options(item: dict[str, Any]) -> list[str]:
    """In an order that does not give the right one away, the same each time."""
    choices = [str(item["right"]), *map(str, item["wrong"])]
    random.Random(item["ask"]).shuffle(choices)  # noqa: S311
    return choices


def quiz(items: list[dict[str, Any]]) -> list[str]:
    """Each item as Markdown."""
    return [
        f"**{number}. {item['ask']}**\n\n"
        + "\n".join(f"- {letter}) {text}" for letter, text in zip(LETTERS, options(item), strict=True))
        for number, item in enumerate(items, start=1)
    ]


def questions(readme: str) -> list[str]:
    """Those to think about, of a README."""
    part = readme.partition("## Questions to think about")[2].partition("\n\n")[0]
    return [" ".join(question.split()) for question in re.split(r"(?m)^\d+\. ", part)[1:]]


def sections(readme: str) -> list[str]:
    """A slide each: the beginning without how to install, then each heading; long ones are cut at a paragraph."""
    text = re.sub(r"(?ms)^    pip install.*?\n\n", "", readme)
    text = re.sub(r"(?m)^(?:Some numbers of your copy|Hand in the folder).*\n(?:.+\n)*", "", text)
    text = text.replace("\nAfter this lab you can", "\n## After this lab you can")
    slides = []
    for part in re.split(r"(?m)^(?=## )", text):
        heading, pages, page = part.partition("\n")[0], [], ""
        for paragraph in re.split(r"\n\n(?! )", part.strip()):
            if page and len(page) + len(paragraph) > 1100:
                pages.append(page)
                page = f"{heading} (continued)"
            page += f"\n\n{paragraph}"
        slides += [*pages, page]
    return [slide for slide in slides if slide.strip()]


def deck(title: str, slides: list[str]) -> str:
    """HTML of one file, without anything from elsewhere; keys go forward and back, print makes pages."""
    made = MarkdownIt("commonmark", {"html": False}).enable("table")
    pages = "\n".join(
        f"<section>{made.render(text)}<footer>{html.escape(title)} · {number} of {len(slides)}</footer></section>"
        for number, text in enumerate(slides, start=1)
    )
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{html.escape(title)}</title>'
    )
    body = f"<body>{pages}<script>{_KEYS}</script></body>"
    return f'<!doctype html><html lang="en"><head>{head}<style>{_STYLE}</style></head>{body}</html>\n'


def key(number: str, readme: str, own: dict[str, Any]) -> str:
    """All that students do not get."""
    lab = find(number)
    lines = [f"# Lab {number}, {lab.title}: key", "", "## Quiz", ""]
    for place, item in enumerate(own["quiz"], start=1):
        letter = LETTERS[options(item).index(str(item["right"]))]
        lines.append(f"{place}. {letter}) {item['right']}. {item['why']}")
    if own["answers"]:
        lines += ["", "## Questions to think about", ""]
        for ask, answer in zip(questions(readme), own["answers"], strict=True):
            lines += [f"- *{ask}* {answer}"]
    asks = yaml.safe_load((package() / "labs" / "requirements.yaml").read_text("utf-8"))[number]["asks"]
    lines += [
        "",
        "## What is asked for, and mistakes that break it",
        "",
        "| README | check | mistakes |",
        "|---|---|---|",
    ]
    for demand in asks.values():
        lines.append(
            f"| {demand['says'].replace('|', '/')} | {'; '.join(demand['checks'])} | {'; '.join(demand['mutants'])} |"
        )
    lines += ["", f"## Solution for the student `{EXAMPLE}`"]
    for name in lab.files:
        if (SOLUTIONS / number / name).is_file():
            lines += ["", f"`{name}`:", "", "```", (SOLUTIONS / number / name).read_text("utf-8").rstrip(), "```"]
    return "\n".join(lines) + "\n"


def build(number: str, target: Path) -> None:
    """Writes a lab's files."""
    lab, own = find(number), texts()[number]
    readme = filled((home(lab) / "README.md").read_text("utf-8"), lab.parameters(personal(lab.name, EXAMPLE)))
    items = quiz(own["quiz"])
    target.mkdir(parents=True, exist_ok=True)
    title = f"Lab {number}: {lab.title}"
    (target / "slides.html").write_text(
        deck(title, [*sections(readme), *(f"## Quiz\n\n{question}" for question in items)]), "utf-8"
    )
    (target / "quiz.md").write_text("\n\n".join([f"# {title}: quiz", *items]) + "\n", "utf-8")
    (target / "key.md").write_text(key(number, readme, own), "utf-8")


def main() -> None:
    """All labs, or those that are named."""
    out, numbers = Path(sys.argv[1]), sys.argv[2:] or list(NAMES)
    for number in numbers:
        build(number, out / NAMES[number])
    print(f"{out}: slides.html, quiz.md and key.md of {len(numbers)} labs")


if __name__ == "__main__":
    main()
