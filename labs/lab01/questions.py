"""What the traces of leaf1 show, in answers of one word."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from p4reduce.labs.frame.answers import Question, judge, sheet
from p4reduce.labs.frame.draws import Draws
from p4reduce.labs.frame.report import Check

ANSWERS: Final = "answers.yaml"
_TRACE: Final = "Trace it: make trace N="
QUESTIONS: Final = (
    Question(
        "packet_3_leaves_by",
        "Packet 3 of leaf1 is h1's repetition. By which port does something leave? (0: by none)",
        ("3",),
        f"{_TRACE}3; the outcome is on the last lines",
    ),
    Question(
        "packet_4_leaves_by",
        "And for packet 4, h2's repetition? (0: by none)",
        ("0",),
        f"{_TRACE}4; h2 is not the one with lowest: 1",
    ),
    Question(
        "bitmap_before",
        "What was the slot's bitmap before packet 2 (meta.slot_bitmap in the trace, a number)?",
        ("1", "0b1", "0b01"),
        f"{_TRACE}2; look for meta.slot_bitmap where the bit of the sender is put in",
    ),
    Question("bitmap_after", "And after it?", ("3", "0b11"), f"{_TRACE}2"),
    Question(
        "same_bit",
        "If h1 and h2 had the same bit, what would the switch do with h2's first packet?",
        hint="the slot's bitmap is all it remembers of who is in: see the trace of packet 3",
        options=(
            "take it for a repetition of h1's, and never add it",
            "add it twice",
            "send it on to the root as it is",
        ),
    ),
    Question(
        "why_full",
        "Why is full a bitmap from the table, and not a number of packets to count up to?",
        hint="think of a worker whose packet comes twice while another one's has not come",
        options=(
            "a repetition would be counted as another child's contribution",
            "registers cannot count",
            "a bitmap is shorter than a number",
        ),
    ),
    Question(
        "four_slots",
        "Workers are up to 8 chunks ahead. What happens with slots: 4?",
        hint="chunk n goes to slot n modulo slots; 'remembers the last 16 chunks' shows it",
        options=(
            "chunk 4 needs the slot of chunk 0, which may still be wanted",
            "sums overflow",
            "nothing: 4 divides 8",
        ),
    ),
)


def answer_sheet(draws: Draws) -> str:
    """The file that a student fills in."""
    return sheet("Lab 01, step 12: a number or a letter for each TODO.", QUESTIONS, draws)


def questions(path: Path, draws: Draws) -> Iterator[Check]:
    """One check for each answer."""
    return judge("questions", path, QUESTIONS, draws)
