"""Mistakes of lab 08."""

from tests.support.labs import Mutant

F = "predict.py"
MUTANTS = [
    Mutant(
        "window below rate x RTT",
        F,
        "each = max(frame_seconds(lanes, rate), round_trip(lanes, rate, delay) / window)",
        "each = frame_seconds(lanes, rate)",
        ("the link is idle most of the time",),
        "window",
    ),
    Mutant(
        "bits and bytes",
        F,
        "frame_bytes(lanes) * 8 / rate",
        "frame_bytes(lanes) / rate",
        ("rates are in bits, frames in bytes",),
        "tree",
    ),
    Mutant("headers", F, "24 + 62 + 4 * lanes", "4 * lanes", ("the lanes alone", "Headers and the gap"), "tree"),
    Mutant(
        "headers in the time",
        F,
        "return frame_bytes(lanes) * 8 / rate",
        "return 4 * lanes * 8 / rate",
        ("headers and the gap between frames are left out",),
        "tree",
    ),
    Mutant("gap", F, "24 + 62 + 4 * lanes", "62 + 4 * lanes", ("preamble, checksum and gap are missing",), "tree"),
    Mutant(
        "both directions",
        F,
        "    return chunks(elements, lanes) * frame_seconds(lanes, rate)\n",
        "    return 2 * chunks(elements, lanes) * frame_seconds(lanes, rate)\n",
        ("both directions of a link",),
        "tree",
    ),
    Mutant("a ring without 2(n-1)/n", F, "2 * (workers - 1) / workers * chunks", "chunks", ("2(n-1)/n times",), "ring"),
    Mutant(
        "half a ring",
        F,
        "2 * (workers - 1) / workers * chunks",
        "(workers - 1) / workers * chunks",
        ("the sums go round, too",),
        "ring",
    ),
    Mutant(
        "a server like a tree",
        F,
        "return workers * chunks",
        "return chunks",
        ("the server's link is the busiest",),
        "server",
    ),
    Mutant(
        "one way",
        F,
        "return 2 * (frame_seconds(lanes, rate) + delay)",
        "return frame_seconds(lanes, rate) + delay",
        ("there and back",),
        "window",
    ),
    Mutant(
        "faster than the link",
        F,
        "each = max(frame_seconds(lanes, rate), round_trip(lanes, rate, delay) / window)",
        "each = round_trip(lanes, rate, delay) / window",
        ("does not send faster than its rate",),
        "window",
    ),
    Mutant(
        "no number",
        F,
        "return workers * chunks(elements, lanes) * frame_seconds(lanes, rate)",
        "return None",
        ("return a number",),
        "server",
    ),
]
