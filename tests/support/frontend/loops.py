"""Loops in P4, with the value that each computes for a frame that arrives on port 3."""

from tests.support.frontend.mistakes import PROGRAM

OTHERS = "bit<32> previous;"
"""Start of the apply block of ``PROGRAM``'s ingress."""


def program(statements: str, locals_: str = "") -> str:
    """Return the program with statements at the start of ingress and with additional declarations."""
    text = PROGRAM.replace("action drop()", f"{locals_}\n    action drop()", 1)
    return text.replace(OTHERS, f"{statements} {OTHERS}")


BODIES = [
    ("for (bit<9> i = 1; i <= 5; i = i + 1) { n = n + i; }", 15),
    ("for (bit<9> i = 0; i < std.ingress_port; i += 1) { n += 2; }", 6),
    ("for (bit<9> i = 0; i < 0; i += 1) { n = 100; }", 0),
    ("bit<9> i; for (i = 7; i < 7; i = i + 1) { } n = i;", 7),
    ("bit<9> i = 3; for (; i != 0;) { i = i - 1; n = n + 10; }", 30),
    ("for (bit<9> i = 0, bit<9> j = 20; i < j; i = i + 1, j = j - 3) { n = n + 1; }", 5),
    ("for (bit<9> i = 0; i < 4; i = i + 1) for (bit<9> j = 0; j < 5; j = j + 1) n = n + 1;", 20),
    ("for (bit<9> i = 0; i < 9; i = i + 1) { if (i == 5) { break; } n = n + 1; }", 5),
    ("for (bit<9> i = 0; i < 9; i = i + 1) { if (i[0:0] == 0) { continue; } n = n + i; }", 16),
    ("for (bit<9> i = 0; i < 8; i = i + 1) { i = i + 1; n = n + 1; }", 4),
    ("for (bit<9> i = 0; i < 4; i += 1) { for (bit<9> j = 0; j < 9; j += 1) { if (j > i) break; n = n + 1; } }", 10),
    ("for (bit<9> i = 0; i < 4; i += 1) { switch (i) { 2: { continue; } 3: { n = n + 40; } } n = n + 1; }", 43),
    ("bit<3> i; for (i = 0; i < 7; i = i + 3) { n = n + (bit<9>) i; }", 14),
]  # fmt: skip
"""Statements, and the value of ``n`` (9 bits) after them."""
ALL = program("bit<9> n = 0; " + "\n".join(f"{{ {body} }}" for body, _ in BODIES) + " std.egress_spec = n;")
"""A program with all loops in sequence."""
