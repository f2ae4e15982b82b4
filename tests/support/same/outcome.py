"""Outcome of a call, without machine- or time-dependent parts, as a digest and as readable parts."""

import csv
import gzip
import hashlib
import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from tests.support.paths import ROOT

LONGEST: Final = 60
"""length of text above which only its beginning and a digest are stored"""
KEPT_PROVENANCE: Final = ("seed", "p4_json_sha256")
"""keys of ``provenance`` that are kept; the others are versions and paths"""
_ELSEWHERE: Final = tuple(
    (re.compile(pattern, re.MULTILINE), instead)
    for pattern, instead in (
        (r"^\d+ s; (?=bars missed)", ""),
        (r"^(\d+ s|compiling machine code .*|live page: http.*)\n", ""),  # wall clock, caches, random addresses
        (r"\.partial-[0-9a-f]+-", ".partial-"),
        (r"\b[0-9a-f]{40}\b(\+changes)?", "<commit>"),
    )
)
"""Patterns of machine- or time-dependent text, with their replacements."""


@dataclass
class Outcome:
    """Outcome of a call: ``shown`` is the full text by part, ``parts`` what is stored."""

    shown: dict[str, str] = field(default_factory=dict)
    parts: dict[str, Any] = field(default_factory=dict)

    def digest(self) -> str:
        """Return the digest of all parts."""
        return digest(json.dumps(self.shown))

    def add(self, name: str, content: bytes, scrub: "Scrub") -> None:
        """Add the content of a stream or a file."""
        if name.endswith(".gz"):
            content = gzip.decompress(content)
        try:
            text = content.decode()
        except UnicodeDecodeError:
            self.shown[name] = self.parts[name] = hashlib.sha256(content).hexdigest()[:16]
            return
        if name.endswith(".html"):
            text = tables(text)
        text = scrub(text)
        if not text:
            return
        data = _json(text)
        if data is not None:
            data = without_provenance(data)
            text = json.dumps(data, indent=1)
            if not isinstance(data, dict | list):
                self.parts[name] = data
            prefix = "" if name in {"stdout", "returned"} else f"{name}."
            self.parts |= {prefix + key: value for key, value in _parts(data).items()}
        else:
            self.parts[name] = _short(text)
        self.shown[name] = text


class Scrub:
    """Removes machine-, time- and folder-dependent text."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, text: str) -> str:
        text = text.replace(str(self.folder), "<folder>").replace(str(ROOT), "<root>")
        text = re.sub(r"<folder>/tmp/[\w.-]+", "<temporary>", text)
        for pattern, instead in _ELSEWHERE:
            text = pattern.sub(instead, text)
        return text


def digest(text: str, length: int = 16) -> str:
    """Return the beginning of a SHA-256 in hex."""
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def without_provenance(data: Any) -> Any:
    """Return JSON data with only the kept keys of ``provenance``."""
    if isinstance(data, Mapping):
        found = {}
        for key, value in data.items():
            if key == "provenance" and isinstance(value, Mapping):
                found[key] = {name: value[name] for name in KEPT_PROVENANCE if name in value}
            else:
                found[key] = without_provenance(value)
        return found
    if isinstance(data, list):
        return [without_provenance(one) for one in data]
    return data


def _json(text: str) -> Any:
    if text[:1] not in "{[":
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def _parts(data: Any) -> dict[str, Any]:
    """Return two levels of JSON data: short values as they are, others as digests."""
    found = {}
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        if isinstance(value, dict) and len(value) <= 40 and isinstance(data, dict):
            found |= {f"{key}.{inner}": _short(one) for inner, one in value.items()}
        else:
            found[str(key)] = _short(value)
    if len(found) > 60:
        return {"data": digest(json.dumps(data), 8)}
    return found


def _short(value: Any) -> Any:
    if isinstance(value, dict | list):
        return "#" + digest(json.dumps(value), 8) if value else value
    if isinstance(value, str) and len(value) > LONGEST:
        first = value.strip().partition("\n")[0][:LONGEST]
        return f"{first} #{digest(value, 8)}"
    return value


class _Tables(HTMLParser):
    """Parser that collects headings and table rows of a page; it ignores figures and scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.within = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.within += tag in {"td", "th", "h1", "h2", "h3"}
        if tag in {"tr", "h1", "h2", "h3"}:
            self.rows.append([])
        if tag in {"td", "th"} and self.rows:
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self.within -= tag in {"td", "th", "h1", "h2", "h3"}

    def handle_data(self, data: str) -> None:
        if self.within > 0 and self.rows:
            row = self.rows[-1] or self.rows[-1].append("") or self.rows[-1]
            row[-1] += data


def tables(page: str) -> str:
    """Return the headings and tables of a report page as text, without its table of versions."""
    reader = _Tables()
    reader.feed(page)
    out = io.StringIO()
    rows = [[" ".join(cell.split()) for cell in row] for row in reader.rows]
    csv.writer(out, lineterminator="\n").writerows(row for row in rows if not _is_version(row))
    return out.getvalue()


def _is_version(row: list[str]) -> bool:
    """Return whether a row has the version of a library, of Python or of this repository."""
    if len(row) != 2:
        return False
    if row[0] in {"python", "commit", "p4_json"}:
        return True
    try:
        return version(row[0]) == row[1]
    except (PackageNotFoundError, ValueError):
        return False
