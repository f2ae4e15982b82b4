"""Sources with some tokens changed, as by a tired student or a fuzzer."""

import random
import re
from typing import Final

_TOKEN: Final = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/|\w+|\s+|[^\w\s]', re.DOTALL)
_OTHERS: Final = (
    "(", ")", "{", "}", "[", "]", "<", ">", ";", ",", ":", "=", ".", "+", "-", "&&&", "..", "?", "!", "~", "0", "1",
    "8w255", "0x", "1 << 200", "{#}", "...", "_", "default", "this", "bit<0>", "bit<8>", "int", "varbit<8>", "hdr",
    "apply", "table", "action", "state", "select", "transition", "if", "return", "exit", "switch", "control", "parser",
    "header", "struct", "enum", "error", "const", "in", "out", "inout", "true", "\\", "#", "@name(\"x\")", "/*", '"',
    "#define A(x) A(x) x", "#if 1", "#include \"student.p4\"", "std", "meta", "packet", "extract", "emit", "isValid()",
)  # fmt: skip


def mutated(text: str, rng: random.Random) -> str:
    """Return a source with one or two changes: a token deleted, doubled, swapped or replaced.

    Half of the changes replace a word by a word, so that many mutants pass the parser.
    """
    tokens = _TOKEN.findall(text)
    words = [i for i, token in enumerate(tokens) if token[0].isalnum()]
    for _ in range(rng.randint(1, 2)):
        at = rng.randrange(len(tokens))
        if rng.random() < 0.5 and words[-1] < len(tokens):
            tokens[rng.choice(words)] = tokens[rng.choice(words)]
            continue
        match rng.randrange(6):
            case 0:
                del tokens[at]
            case 1:
                tokens.insert(at, tokens[at])
            case 2:
                other = rng.randrange(len(tokens))
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 3:
                tokens[at] = rng.choice(_OTHERS)
            case 4:
                tokens.insert(at, f" {rng.choice(_OTHERS)} ")
            case _:
                tokens[at] = rng.choice(tokens)
        if not tokens:
            break
    return "".join(tokens)
