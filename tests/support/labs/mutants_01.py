"""Mistakes of lab 01; tests/unit/course/test_lab_01_grader.py has more of them."""

from tests.support.labs import Mutant

MUTANTS = [
    Mutant("full too small", "leaf1.yaml", "full: 0b11", "full: 0b01", ("leaf1 answered after h1", "full is 0b1")),
    Mutant("one bit for two", "leaf1.yaml", "bit_: 0b10", "bit_: 0b01", ("h2 and h1 share the bit 0b1",)),
    Mutant("wrong port up", "leaf2.yaml", "parent_port: 3", "parent_port: 2", ("root is behind port 3 of leaf2",)),
    Mutant(
        "a wrong answer",
        "answers.yaml",
        "bitmap_after: 0b11",
        "bitmap_after: 0b10",
        ("bitmap_after: '0b10' is not right",),
    ),
]
