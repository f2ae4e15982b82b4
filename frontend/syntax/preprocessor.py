"""Directives: ``#include``, ``#define``, ``#if`` and their kin (P4_16 specification, section 6.2)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from p4reduce.frontend.diagnostics import SourceFault
from p4reduce.frontend.source import NOWHERE, Sources
from p4reduce.frontend.syntax.conditions import holds
from p4reduce.frontend.syntax.macros import Expander, Macro, define
from p4reduce.frontend.syntax.tokens import HASH, NAME, NUMBER, SIGN, STRING, Token, lines_of

DEEPEST_INCLUDE: Final = 100
MOST_INCLUDES: Final = 10_000
LIBRARY: Final = Path(__file__).resolve().parent.parent / "library"
"""Our declarations of core.p4 and v1model.p4."""


class Preprocessor:
    """Reads a program with all that it includes.

    Attributes:
        folders: searched for what is included, after the folder of the file that includes.
        library_only: whether nothing but core.p4 and v1model.p4 can be included, so that no other file is ever read.
        macros: defined so far.
        shown: what files are called in messages and in the JSON.
    """

    def __init__(
        self,
        sources: Sources,
        folders: Sequence[Path] = (),
        defines: Mapping[str, str] | None = None,
        *,
        library_only: bool = False,
    ) -> None:
        self.sources = sources
        self.folders = list(folders)
        self.library_only = library_only
        self.macros: dict[str, Macro] = {}
        for name, value in (defines or {}).items():
            file = sources.add(f"<-D{name}>", value)
            self.macros[name] = Macro(name, tuple(token for line in lines_of(value, file) for token in line))
        self.expander = Expander(self.macros)
        self._out: list[Token] = []
        self._once: set[Path] = set()
        self._included = 0
        self._read: dict[tuple[Path, str], list[list[Token]]] = {}

    def run(self, path: Path, name: str | None = None) -> list[Token]:
        """All tokens of a program. Raises SourceFault."""
        self.sources.names[NOWHERE] = name or str(path)
        self._file(path, name or str(path), NOWHERE, 0)
        return self._out

    def run_text(self, text: str, name: str) -> list[Token]:
        """The same of a text that is no file."""
        self.sources.names[NOWHERE] = name
        self._run(self._lines(text, name, Path(name)), Path(name), 0)
        return self._out

    def _file(self, path: Path, name: str, included_from: int, depth: int) -> None:
        if path in self._once:
            return
        if depth > DEEPEST_INCLUDE:
            raise SourceFault(
                included_from, f"{name} is included more than {DEEPEST_INCLUDE} deep", "Guard it: #ifndef."
            )
        # Headers with a guard are included time and again.
        self._included += 1
        if self._included > MOST_INCLUDES:
            raise SourceFault(included_from, f"more than {MOST_INCLUDES:,} files are included", "Guard them: #ifndef.")
        lines = self._read.get((path, name))
        if lines is None:
            lines = self._read[path, name] = self._lines(_text_of(path, name, included_from), name, path)
        self._run(lines, path, depth)

    def _lines(self, text: str, name: str, path: Path) -> list[list[Token]]:
        return lines_of(text, self.sources.add(name, text, path.parent == LIBRARY))

    def _run(self, lines: list[list[Token]], path: Path, depth: int) -> None:
        run: list[Token] = []
        # Of every open #if: whether this branch is taken, whether one was, where it stands.
        branches: list[tuple[bool, bool, int]] = []
        for line in lines:
            first = line[0]
            if first[0] != HASH or first[1] != "#":
                if not branches or branches[-1][0]:
                    run += line
                continue
            self._flush(run)
            run = []
            if len(line) > 1 and line[1][1] in _BRANCHES:
                self._branch(line, branches)
            elif (not branches or branches[-1][0]) and len(line) > 1:
                self._directive(line, path, depth)
        if branches:
            raise SourceFault(branches[-1][2], "this #if has no #endif")
        self._flush(run)

    def _flush(self, run: list[Token]) -> None:
        if run:
            self._out += self.expander.expand(run)

    def _branch(self, line: list[Token], branches: list[tuple[bool, bool, int]]) -> None:
        word, where, rest = line[1][1], line[0][2], line[2:]
        if word in ("if", "ifdef", "ifndef"):
            outer = not branches or branches[-1][0]
            taken = outer and self._condition(word, rest, where)
            # Within a branch that is left out, no branch is ever taken.
            branches.append((taken, taken or not outer, where))
            return
        if not branches:
            raise SourceFault(where, f"#{word} without #if")
        if word == "endif":
            branches.pop()
            return
        _, done, begun = branches[-1]
        taken = not done and (word == "else" or self._condition("if", rest, where))
        branches[-1] = (taken, done or taken, begun)

    def _condition(self, word: str, rest: list[Token], where: int) -> bool:
        if word == "if":
            return holds(rest, self.macros, where)
        if not rest or rest[0][0] != NAME:
            raise SourceFault(where, f"#{word} needs a name")
        return (rest[0][1] in self.macros) == (word == "ifdef")

    def _directive(self, line: list[Token], path: Path, depth: int) -> None:
        word, where, rest = line[1], line[0][2], line[2:]
        match word[1]:
            case "define":
                if not rest:
                    raise SourceFault(where, "#define needs a name")
                macro = define(rest, rest[0][2] + len(rest[0][1]))
                self.macros[macro.name] = macro
            case "undef":
                if rest:
                    self.macros.pop(rest[0][1], None)
            case "include":
                self._include(rest, path, where, depth)
            case "error":
                raise SourceFault(where, f"#error {self.sources.line(where).split('error', 1)[1].strip()}")
            case "pragma":
                if rest and rest[0][1] == "once":
                    self._once.add(path)
            case "warning" | "line" | "ident":
                pass
            case _ if word[0] == NUMBER:
                pass  # a line marker of another preprocessor
            case _:
                raise SourceFault(where, f"there is no directive #{word[1]}", _near(word[1]))

    def _include(self, rest: list[Token], path: Path, where: int, depth: int) -> None:
        tokens = rest if rest and rest[0][1] == "<" else self.expander.expand(rest)
        if tokens and tokens[0][0] == STRING:
            name, quoted = tokens[0][1][1:-1], True
        elif len(tokens) > 2 and tokens[0][1] == "<":
            text = self.sources.line(tokens[0][2])
            name, quoted = text[text.index("<") + 1 :].split(">")[0].strip() if "<" in text else "", False
            if tokens[0][0] != SIGN or ">" not in text:
                name = ""
        else:
            name, quoted = "", False
        if not name:
            raise SourceFault(where, "#include needs a file", 'Write #include <core.p4> or #include "mine.p4".')
        self._file(*self._find(name, quoted, path, where), where, depth + 1)

    def _find(self, name: str, quoted: bool, path: Path, where: int) -> tuple[Path, str]:
        if self.library_only and path.parent != LIBRARY:
            if quoted or name not in OWN:
                raise SourceFault(where, "include nothing but <core.p4> and <v1model.p4>")
            return LIBRARY / name, f"<{name}>"
        if quoted:
            near = path.parent / name
            if _is_file(near):
                shown = self.sources.names[where >> 44]
                return near, str(Path(shown).parent / name)
        own = LIBRARY / Path(name).name
        if name in OWN and own.is_file():
            return own, f"<{name}>"
        for folder in self.folders:
            if _is_file(folder / name):
                return folder / name, str(folder / name)
        if not quoted and _is_file(path.parent / name):
            return path.parent / name, str(path.parent / name)
        hint = f"Only v1model is compiled here: {', '.join(sorted(OWN))}." if name in OTHERS else ""
        raise SourceFault(
            where, f"cannot find {name[:200]}", hint or "Is the path relative to this file, or to a folder of -I?"
        )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # its name is too long
        return False


def _text_of(path: Path, name: str, included_from: int) -> str:
    """A file as text: with the mark that some editors put in front, and with whichever ends of lines."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SourceFault(included_from, f"cannot read {name}: {error.strerror}") from None
    if b"\0" in data:
        raise SourceFault(included_from, f"{name} is no text in UTF-8", "Save it as UTF-8; or is it another file?")
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")


OWN: Final = frozenset({"core.p4", "v1model.p4"})
OTHERS: Final = frozenset({"psa.p4", "bmv2/psa.p4", "pna.p4", "dpdk/psa.p4", "dpdk/pna.p4", "ebpf_model.p4",
                           "ubpf_model.p4", "tna.p4", "xdp_model.p4"})  # fmt: skip
_BRANCHES: Final = frozenset({"if", "ifdef", "ifndef", "elif", "else", "endif"})
_DIRECTIVES: Final = ("define", "undef", "include", "error", "pragma", *_BRANCHES)


def _near(word: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 -- only where something is wrong already

    close = get_close_matches(word, _DIRECTIVES, 1)
    return f"Did you mean #{close[0]}?" if close else ""
