"""Mistakes of lab 05."""

from tests.support.labs import Mutant

P = "loss.p4"
W = "worker.py"
MUTANTS = [
    Mutant("result gone", P, "if (is_done == 1) {", "if (false) {", ("nothing left: the RESULT is gone",), "switch"),
    Mutant("added twice", P, "if ((bitmap & meta.bit_) == 0) {", "if (true) {", ("added twice",), "switch"),
    Mutant(
        "slot reused too early",
        P,
        "slot = hdr.sum.seq & (2 * SLOTS - 1);",
        "slot = hdr.sum.seq & (SLOTS - 1);",
        ("used again too early",),
        "switch",
    ),
    Mutant(
        "the other cell is never freed",
        P,
        "bitmaps.write(other, others & ~meta.bit_);",
        "",
        ("takes its own bit out of the other one",),
        "switch",
    ),
    Mutant(
        "complete by the bitmap",
        P,
        "if (is_done == 1) {",
        "if (bitmap == meta.full) {",
        ("done of cell 0 is 1, the bitmap 0b101", "whoever has gone on"),
        "switch",
    ),
    Mutant(
        "RESULT to all",
        P,
        "std.egress_spec = std.ingress_port;",
        "std.mcast_grp = 1;",
        ("frames left by ports [1, 2, 3], expected",),
        "switch",
    ),
    Mutant(
        "window above half the cells",
        W,
        "oldest + self.slots",
        "oldest + 2 * self.slots",
        ("it takes the cell of a chunk that others may still ask for",),
        "worker",
    ),
    Mutant("storm of time-outs", W, "if now - at >= self.timeout", "if now > at", ("that is a storm",), "worker"),
    Mutant(
        "all again",
        W,
        "lost = [chunk for chunk, at in self.sent.items() if now - at >= self.timeout]",
        "lost = list(range(self.next)) if any(now - at >= self.timeout for at in self.sent.values()) else []",
        ("a storm of what has arrived",),
        "worker",
    ),
    Mutant("never again", W, "return lost + fresh", "return fresh", ("should send it again",), "worker"),
    Mutant("not a list", W, "return lost + fresh", "return None", ("return a list of chunks",), "worker"),
    Mutant(
        "one time-out for all",
        W,
        "lost = [chunk for chunk, at in self.sent.items() if now - at >= self.timeout]",
        "lost = sorted(self.sent) if any(now - at >= self.timeout for at in self.sent.values()) else []",
        ("Each chunk is sent again",),
        "worker",
    ),
    Mutant(
        "half of done",
        P,
        "register<bit<32>>(2 * SLOTS) done;",
        "register<bit<32>>(SLOTS) done;",
        ("register done has 8 cells", "each register at 2 * SLOTS cells"),
        "switch",
    ),
]
