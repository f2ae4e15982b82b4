"""No source causes a traceback: it compiles, or is refused with a message."""

import random

import pytest

from p4switch.p4.compile import compile_text
from tests.support.frontend.mistakes import PROGRAM
from tests.support.frontend.mutations import mutated
from tests.support.frontend.soak import SOURCES, fault_of

NESTED = {
    "brackets": "const bit<8> a = " + "(" * 5000 + "1" + ")" * 5000 + ";",
    "operators": "const bit<8> a = 1" + "+1" * 20000 + ";",
    "minus": "const bit<8> a = " + "-" * 5000 + "1;",
    "blocks": "control c() { apply " + "{" * 5000 + "}" * 5000 + "}",
    "else if": "control c(in bit<8> x) { apply { " + "if (x == 1) { } else " * 3000 + "{ } } }",
    "macros": "#define A B B\n#define B C C\n#define C D D\n#define D A A\nA",
    "doubling": "\n".join(f"#define A{i} A{i + 1} A{i + 1}" for i in range(40)) + "\nA0",
    "number": "const bit<8> a = " + "9" * 100000 + ";",
    "width": "const bit<99999999999> a = 1;",
    "shift": "const int a = 1 << 99999999999;",
    "stack": "header h { } struct s { h[99999999999] x; }",
    "comment": "/* never closed",
    "string": '@name("never closed',
    "bytes": "\x00\x01\ufffd\u00e4",
    "empty": "",
    "include": '#include "no.p4"',
    "power": "const int a = 3" + "*99999999999999999999" * 5000 + ";",
}


@pytest.mark.parametrize("name", NESTED)
def test_extremes(name):
    found = compile_text(NESTED[name])
    assert not found.ok
    assert found.messages()


@pytest.mark.parametrize("seed", range(150))
def test_mutated_program(seed):
    rng = random.Random(f"mutated {seed}")
    assert fault_of(mutated(PROGRAM, rng)) is None


def test_mutated_programs_of_ours():
    rng = random.Random("ours")
    for source in SOURCES:
        for _ in range(3):
            text = mutated(source.read_text(), rng)
            assert fault_of(text) is None, f"{source.name}\n{text}"


def test_the_mutations_reach_every_stage():
    """Mutations are neither all refused by the parser nor all harmless."""
    counts = {"compiled": 0, "checker": 0, "parser": 0}
    for seed in range(120):
        found = compile_text(mutated(PROGRAM, random.Random(f"mutated {seed}")))
        stage = "compiled" if found.ok else "parser" if found.checker is None else "checker"
        counts[stage] += 1
    assert min(counts.values()) >= 8, counts
