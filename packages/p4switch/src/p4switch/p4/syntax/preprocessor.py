"""Preprocessor directives: ``#include``, ``#define``, ``#if`` and others (P4_16 specification, section 6.2)."""

import operator as op
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from p4switch.base.files import read_bytes
from p4switch.p4.diagnostics import COLUMN_BITS, NOWHERE, SourceFault, SourceFiles, position

# Tokens of a P4 source file, line by line (P4_16 specification, section 6.3).
#
# A token is a tuple (kind, text, position), the cheapest object in Python: a program has ten thousand tokens.


Token = tuple[str, str, int]

NAME: Final = "name"
NUMBER: Final = "number"
STRING: Final = "string"
SIGN: Final = "sign"
END: Final = "end"
OTHER: Final = "other"
"""A character that begins no token: an error, unless a directive excludes it or an annotation contains it."""
HASH: Final = "hash"
"""``#`` and ``##``, which occur in directives, in macros and (``#``) in ``{#}``."""

_KINDS: Final = ("", NAME, SIGN, "newline", NUMBER, STRING, HASH, "line comment", "comment", "end", OTHER)
"""Kinds of tokens by the number of their group in _MASTER; frequent kinds first."""
_NEWLINE, _LINE_COMMENT, _COMMENT, _END, _OTHER = (
    _KINDS.index(kind) for kind in ("newline", "line comment", "comment", "end", OTHER)
)
_MASTER: Final = re.compile(
    r"""
    [ \t\r\f\v]*+(?:
      ([A-Za-z_]\w*+)
    | (\.\.\.|&&&|\|\+\||\|-\||<<=|>>=|\+\+|\+:|\.\.|<<|>>|&&|\|\||==|!=|<=|>=|[-+*%&|^]=|/=
        |[(){}\[\]<>,;:.=+\-*%&|^~!?@]|/(?![/*]))
    | (\n)
    | (\d\w*+)
    | ("(?:[^"\\\n]|\\.)*+")
    | (\#\#?)
    | (//[^\n]*+(?:\\\n[^\n]*+)*+|\\\r?\n)
    | (/\*.*?\*/)
    | (\Z)
    | (.)
    )
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)


def lines_of(text: str, file: int) -> list[list[Token]]:
    r"""Returns the tokens of a file by logical lines, without comments; lines that end in ``\\`` are joined.

    Raises:
        SourceFault: a comment has no end.
    """
    lines: list[list[Token]] = []
    line: list[Token] = []
    add = line.append
    # A position is the position of the line's beginning plus the column, which is ``base`` plus the offset in the text.
    beginning = position(file, 1, 0)
    base = beginning
    step = 1 << COLUMN_BITS
    for match in _MASTER.finditer(text):
        group: int = match.lastindex or _END
        if group < _LINE_COMMENT:
            if group == _NEWLINE:
                if line:
                    lines.append(line)
                    line = []
                    add = line.append
                beginning += step
                base = beginning - match.end()
            else:
                word = match[group]
                add((_KINDS[group], word, base + match.end() - len(word)))
        elif group <= _COMMENT:
            count = match[group].count("\n")
            if count:
                beginning += count * step
                base = beginning - (text.rfind("\n", 0, match.end()) + 1)
        elif group == _OTHER:
            at = match.end() - 1
            if text.startswith("/*", at):
                raise SourceFault(base + at, "this comment has no end", "Close it with */.")
            add((OTHER, text[at], base + at))
    if line:
        lines.append(line)
    return lines


# Numbers as they are written (P4_16 specification, section 6.4.3): ``10``, ``0xff``, ``8w255``, ``4s7``, ``1_000``.


_NUMBER: Final = re.compile(r"(?:(\d+)([ws]))?(0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|0[dD][0-9_]+|[0-9][0-9_]*)")
_BASES: Final = {"0x": 16, "0b": 2, "0o": 8, "0d": 10}
MOST_DIGITS: Final = 20_000
MOST_DECIMAL_DIGITS: Final = 4000
WIDEST: Final = 1 << 20
_SHORT: Final = 10
"""Decimal numbers of fewer digits are parsed faster; most numbers are that short."""


class Literal(NamedTuple):
    """A parsed number: ``width`` is None if none is written, ``base`` is the base of its digits."""

    value: int
    width: int | None
    signed: bool
    base: int


def literal(text: str, at: int) -> Literal:
    """Returns the number of a token. Raises SourceFault if it is not a number, or is too long."""
    if len(text) < _SHORT and text.isascii() and text.isdigit():
        return Literal(int(text), None, False, 10)
    match = _NUMBER.fullmatch(text)
    if match is None:
        hint = "P4 writes a width in front: 8w255, 4s7, 16w0xffff."
        raise SourceFault(at, f"{text[:20]!r} is no number", hint)
    width, letter, digits = match.groups()
    plain = digits.replace("_", "")
    if len(plain) > MOST_DIGITS or (width and (len(width) > 9 or int(width) > WIDEST)):
        raise SourceFault(at, f"this number is too long: {text[:20]}…")
    base = _BASES.get(plain[:2].lower())
    if base is None and len(plain) > MOST_DECIMAL_DIGITS:
        raise SourceFault(at, "this decimal number is too long")
    value = int(plain[2:] or "0", base) if base else int(plain)
    return Literal(value, int(width) if width else None, letter == "s", base or 10)


def value_of(token: Token) -> int:
    """Returns the value of a number's token, e.g. of an annotation. Raises SourceFault if it is not a number."""
    _, text, at = token
    return literal(text, at).value


# Macros: definition and expansion of tokens (rules of the C preprocessor, as section 6.2 of the specification says).
#
# Tokens of a macro's body get the position of the macro's use, so that errors point to the author's text. Arguments
# keep their own positions.


DEEPEST = 64
"""Deepest nesting of macro expansions."""
MOST_TOKENS = 4_000_000


@dataclass(frozen=True, slots=True)
class Macro:
    """A ``#define``; ``parameters`` is None for a macro without brackets."""

    name: str
    body: tuple[Token, ...]
    parameters: tuple[str, ...] | None = None

    @property
    def plain(self) -> bool:
        """Whether the body can be used unchanged, because it has neither parameters nor ``#`` or ``##``."""
        return self.parameters is None and not any(token[0] == HASH for token in self.body)


def define(line: list[Token], ends: int) -> Macro:
    """Returns the macro of a ``#define`` line, given from its name on; ``ends``: the position after the name."""
    name, rest = line[0], line[1:]
    if name[0] != NAME:
        raise SourceFault(name[2], f"#define needs a name, not {name[1]!r}")
    if not rest or rest[0][1] != "(" or rest[0][2] != ends:
        return Macro(name[1], tuple(rest))
    parameters: list[str] = []
    for at, token in enumerate(rest[1:], 1):
        if token[1] == ")":
            return Macro(name[1], tuple(rest[at + 1 :]), tuple(parameters))
        if token[0] == NAME:
            parameters.append(token[1])
        elif token[1] == "...":
            parameters.append("__VA_ARGS__")
        elif token[1] != ",":
            break
    raise SourceFault(rest[0][2], f"the parameters of the macro {name[1]} are not closed", "Write #define NAME(a, b) …")


class Expander:
    """Expands macros in lists of tokens."""

    def __init__(self, macros: Mapping[str, Macro]) -> None:
        self.macros = macros
        self._made = 0

    def expand(self, tokens: list[Token]) -> list[Token]:
        """Returns all tokens with their macros expanded."""
        if self.macros.keys().isdisjoint([token[1] for token in tokens]):
            return tokens
        return self._expand(tokens, frozenset(), 0)

    def _expand(self, tokens: list[Token], hidden: frozenset[str], depth: int) -> list[Token]:
        out: list[Token] = []
        macros = self.macros
        work = tokens
        at = done = 0
        while at < len(work):
            token = work[at]
            at += 1
            if token[1] not in macros or token[0] != NAME or token[1] in hidden:
                continue
            macro = macros[token[1]]
            if depth > DEEPEST:
                raise SourceFault(token[2], f"the macro {macro.name} is nested more than {DEEPEST} deep")
            if macro.parameters is None:
                out += work[done : at - 1]
                body = self._body(macro, {}, token, hidden, depth)
            else:
                if at >= len(work) or work[at][1] != "(":
                    continue
                out += work[done : at - 1]
                arguments, at = self._arguments(macro, work, at, token)
                body = self._body(macro, arguments, token, hidden, depth)
            made = self._expand(body, hidden | {macro.name}, depth + 1)
            self._made += len(made)
            if self._made > MOST_TOKENS:
                raise SourceFault(token[2], f"the macro {macro.name} expands to more than {MOST_TOKENS:,} tokens")
            last = macros.get(made[-1][1]) if made and made[-1][0] == NAME else None
            if last is not None and last.parameters is not None and at < len(work) and work[at][1] == "(":
                # The expansion ends with the name of a macro whose arguments follow.
                work = [made.pop(), *work[at:]]
                at = 0
            out += made
            done = at
        out += work[done:]
        return out

    def _arguments(self, macro: Macro, tokens: list[Token], at: int, use: Token) -> tuple[dict[str, list[Token]], int]:
        groups: list[list[Token]] = [[]]
        depth = 0
        while at < len(tokens):
            token = tokens[at]
            at += 1
            text = token[1]
            if text in ("(", "[", "{"):
                depth += 1
                if depth == 1:
                    continue
            elif text in (")", "]", "}"):
                depth -= 1
                if depth == 0:
                    break
            elif text == "," and depth == 1 and not self._is_rest(macro, len(groups)):
                groups.append([])
                continue
            groups[-1].append(token)
        else:
            raise SourceFault(use[2], f"the arguments of the macro {macro.name} are not closed", "A ')' is missing.")
        wanted = macro.parameters or ()
        if not wanted and groups == [[]]:
            groups = []
        if wanted and wanted[-1] == "__VA_ARGS__" and len(groups) == len(wanted) - 1:
            groups.append([])
        if len(groups) != len(wanted):
            raise SourceFault(use[2], f"the macro {macro.name} takes {len(wanted)} arguments, not {len(groups)}")
        return dict(zip(wanted, groups, strict=True)), at

    def _is_rest(self, macro: Macro, count: int) -> bool:
        wanted = macro.parameters or ()
        return bool(wanted) and wanted[-1] == "__VA_ARGS__" and count >= len(wanted)

    def _body(
        self, macro: Macro, arguments: Mapping[str, list[Token]], use: Token, hidden: frozenset[str], depth: int
    ) -> list[Token]:
        here = use[2]
        if macro.plain:
            return [(kind, text, here) for kind, text, _ in macro.body]
        out: list[Token] = []
        expanded: dict[str, list[Token]] = {}
        body = macro.body
        at = 0
        while at < len(body):
            kind, text, _ = body[at]
            following = body[at + 1][1] if at + 1 < len(body) else ""
            if kind == HASH and text == "#" and following in arguments:
                spelled = " ".join(t[1] for t in arguments[following]).replace("\\", "\\\\").replace('"', '\\"')
                out.append((STRING, f'"{spelled}"', here))
                at += 2
            elif kind == HASH and text == "##" and out and at + 1 < len(body):
                right = arguments.get(following)
                pasted = [(body[at + 1][0], following, here)] if right is None else list(right)
                if pasted:
                    left = out.pop()
                    first = pasted.pop(0)
                    out.append((_kind(left[1] + first[1], left[0]), left[1] + first[1], here))
                    out += pasted
                at += 2
            elif kind == NAME and text in arguments:
                if following == "##":
                    out += arguments[text] or [(HASH, "", here)]
                else:
                    if text not in expanded:
                        expanded[text] = self._expand(arguments[text], hidden, depth + 1)
                    out += expanded[text]
                at += 1
            else:
                out.append((kind, text, here))
                at += 1
        return [token for token in out if token[1]]


def _kind(text: str, otherwise: str) -> str:
    if text[:1].isdigit():
        return NUMBER
    return NAME if text.isidentifier() else otherwise


# Conditions of ``#if`` and ``#elif``.


_LEVELS: Final[tuple[tuple[str, ...], ...]] = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"),
)  # fmt: skip

_BINARY: Final[Mapping[str, Callable[[int, int], int]]] = {
    "||": lambda a, b: int(bool(a or b)),
    "&&": lambda a, b: int(bool(a and b)),
    "<<": lambda a, b: a << min(max(b, 0), 64),
    ">>": lambda a, b: a >> min(max(b, 0), 64),
    "|": op.or_, "^": op.xor, "&": op.and_, "+": op.add, "-": op.sub,
    "==": op.eq, "!=": op.ne, "<": op.lt, ">": op.gt, "<=": op.le, ">=": op.ge,
    "*": lambda a, b: (a * b) & ((1 << 64) - 1),
    "/": lambda a, b: a // b if b else 0,
    "%": lambda a, b: a % b if b else 0,
}  # fmt: skip


def holds(tokens: list[Token], macros: Mapping[str, Macro], where: int) -> bool:
    """Returns whether the condition of a directive holds; names that are not macros count as 0."""
    known: list[Token] = []
    at = 0
    while at < len(tokens):
        kind, text, position = tokens[at]
        if text == "defined" and kind == NAME:
            bracket = at + 1 < len(tokens) and tokens[at + 1][1] == "("
            name = at + (2 if bracket else 1)
            if name >= len(tokens):
                raise SourceFault(position, "'defined' needs a name")
            known.append((NUMBER, str(int(tokens[name][1] in macros)), position))
            at = name + (2 if bracket else 1)
        else:
            known.append(tokens[at])
            at += 1
    return bool(_Condition(Expander(macros).expand(known), where).value())


class _Condition:
    def __init__(self, tokens: list[Token], where: int) -> None:
        self.tokens, self.at, self.where = tokens, 0, where

    def value(self) -> int:
        number = self._ternary()
        if self.at < len(self.tokens):
            raise SourceFault(self.tokens[self.at][2], f"{self.tokens[self.at][1]!r} does not belong into a condition")
        return number

    def _peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def _ternary(self) -> int:
        condition = self._level(0)
        if self._peek() != "?":
            return condition
        self.at += 1
        yes = self._ternary()
        if self._peek() != ":":
            raise SourceFault(self.where, "'?' without ':' in a condition")
        self.at += 1
        no = self._ternary()
        return yes if condition else no

    def _level(self, level: int) -> int:
        if level == len(_LEVELS):
            return self._unary()
        left = self._level(level + 1)
        while self._peek() in _LEVELS[level]:
            operator = self._peek()
            self.at += 1
            left = _BINARY[operator](left, self._level(level + 1))
        return left

    def _unary(self) -> int:
        if self.at >= len(self.tokens):
            raise SourceFault(self.where, "the condition of this directive ends too early")
        kind, text, position = self.tokens[self.at]
        self.at += 1
        if text in ("!", "-", "+", "~"):
            value = self._unary()
            return {"!": int(not value), "-": -value, "+": value, "~": ~value}[text]
        if text == "(":
            value = self._ternary()
            if self._peek() != ")":
                raise SourceFault(position, "this bracket is not closed")
            self.at += 1
            return value
        if kind == NUMBER:
            try:
                return int(text.rstrip("uUlL"), 0) if not text.isdigit() else int(text)
            except ValueError:
                raise SourceFault(position, f"{text!r} is no number") from None
        if kind == NAME:
            return 0
        raise SourceFault(position, f"{text!r} does not belong into a condition")


DEEPEST_INCLUDE: Final = 100
MOST_INCLUDES: Final = 10_000
LIBRARY: Final = Path(__file__).resolve().parent.parent / "library"
"""Folder of this package's core.p4 and v1model.p4."""


class Preprocessor:
    """Reads a program with all included files.

    Attributes:
        folders: folders that are searched for included files, after the folder of the including file.
        library_only: whether only core.p4 and v1model.p4 can be included, so that no other file is ever read.
        macros: macros defined so far, by name.
        sources: receives every file that is read.
    """

    def __init__(
        self,
        sources: SourceFiles,
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
        """Returns all tokens of a program. Raises SourceFault."""
        self.sources.names[NOWHERE] = name or str(path)
        self._file(path, name or str(path), NOWHERE, 0)
        return self._out

    def run_text(self, text: str, name: str) -> list[Token]:
        """Returns all tokens of a program that is given as text. Raises SourceFault."""
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
        # A file with a guard may be included many times; _read keeps its tokens.
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
        # For every open #if: whether its current branch is taken, whether no later branch may be, and its position.
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
            # Within a branch that is not taken, no branch is taken.
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
    """Returns a file as text without a byte order mark; any kind of line end becomes a line feed."""
    try:
        data = read_bytes(path)
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
