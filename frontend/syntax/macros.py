"""Macros: definition and expansion of tokens (the C preprocessor's rules, as section 6.2 of the specification asks).

Tokens of a macro's body take the place of its use, so that errors point to what the author wrote; arguments keep
theirs.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from p4reduce.frontend.diagnostics import SourceFault
from p4reduce.frontend.syntax.tokens import HASH, NAME, NUMBER, STRING, Token

DEEPEST = 64
"""Expansions within expansions after which a macro is taken to name itself through others."""
MOST_TOKENS = 4_000_000


@dataclass(frozen=True, slots=True)
class Macro:
    """One ``#define``; ``parameters`` is None for a macro without brackets."""

    name: str
    body: tuple[Token, ...]
    parameters: tuple[str, ...] | None = None

    @property
    def plain(self) -> bool:
        """Whether its body stands as it is: it has no parameters, and pastes nothing."""
        return self.parameters is None and not any(token[0] == HASH for token in self.body)


def define(line: list[Token], ends: int) -> Macro:
    """The macro of a ``#define`` line, given from its name on; ``ends``: the position after the name."""
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
        """All tokens with their macros expanded."""
        if not any(token[1] in self.macros for token in tokens):
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
                # The expansion ends in the name of a macro whose arguments follow.
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
