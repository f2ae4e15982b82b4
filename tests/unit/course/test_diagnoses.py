"""Mistakes beyond the tables that were once misdiagnosed: the required and the forbidden message."""

from dataclasses import dataclass

import pytest

from p4reduce_course.frame.grading import grade
from tests.support.labs import Mutant, spoilt


@dataclass(frozen=True)
class Misread:
    """A mutant, the grader's message for it, and its former message."""

    number: str
    mutant: Mutant
    never: tuple[str, ...]


def misread(number, file, old, new, *, says, never=(), also=(), part=None):
    mutant = Mutant(new, file, old, new, (says,), part, also)
    name = f"{number}, {' '.join(new.split())[:40]}"
    return pytest.param(Misread(number, mutant, tuple(never)), id=name)


P2, P3, Q4, P5, W5, F8, F9 = "header.p4", "slot.p4", "quantize.py", "loss.p4", "worker.py", "predict.py", "hook.py"
P13, P16 = "spread.p4", "survive.p4"
FAILED = "the grader failed"
OLD_SUM = "what that left was added"
FORGOTTEN = "forgotten with the frame"
NOT_HOW_MANY = "not how many"
INVALID = "not valid hold nothing"
TOO_EARLY = "used again too early"
STORM = "storm"
MISREAD = [
    misread("02", P2, "hdr.hop.flags = hdr.hop.flags | 1;", "hdr.hop.flags = 1;",
            says="set bit 0 alone", never=["would not find the value"]),
    misread("02", P2, "hdr.value.total = hdr.hop.seq;", "hdr.value.total = hdr.hop.seq + 1;",
            says="expected seq", never=[INVALID]),
    misread("02", P2, "if (hdr.value.isValid()) {", "if (!hdr.value.isValid()) {",
            says="was not run for it", never=["setValid() is missing"]),
    misread("02", P2, "hdr.hop.flags[0:0]", "hdr.hop.flags[3:3]", says="see part parser", never=[INVALID]),
    misread("02", P2, "                hdr.value.total = hdr.hop.seq;", "                fill();",
            also=[("apply {\n      ", "action fill() { hdr.value.total = hdr.hop.seq + 1; }\n    apply {\n      ")],
            says="A change in line 46 alone, at '1', mends", never=[INVALID, "Set it valid first", "undefined"]),
    misread("04", Q4, 'raise ValueError("NaN or infinity")', "return np.array([], np.int64)",
            says="and returned 0", never=[FAILED], part="special"),
    misread("08", F8, "return frame_bytes(lanes) * 8 / rate", "return frame_bytes(lanes) / rate",
            says="rates are in bits", never=["whole frame before", "fit into a round trip"]),
    misread("08", F8, "    each = max(", "    each = sum((", also=[("/ window)\n", "/ window))\n")],
            says="not their sum", part="window"),
    misread("08", F8, "return 24 + 62 + 4 * lanes", "return (24 + 62) ** (4 * lanes)",
            says="which no float holds", never=[FAILED], part="tree"),
    misread("08", F8, "math.ceil(round_trip(", "round(round_trip(",
            says="Round up", never=["there and back"], part="window"),
    misread("11", "router.p4", "hdr.udp.dst == RESULTS", "hdr.udp.dst >= RESULTS",
            says="at '>=', mends all of it", never=["very frame", "very UDP", "no UDP"], part="mark"),
    misread("16", P16, "                    digest<news_t>(1, { hdr.sum.port, news });",
            "                    if (news == 1) { digest<news_t>(1, { hdr.sum.port, news }); }",
            says="A change in line 66 alone", never=["UP is not heard"], part="news"),
    misread("16", P16, "            } else {\n                down.read(is_down, (bit<32>)meta.second);",
            "            } else if (is_down == 1) {\n                down.read(is_down, (bit<32>)meta.second);",
            says="A change in line 73 alone", never=["ever sent by the second way"], part="detour"),
]  # fmt: skip
SLOW = [
    misread("03", P3, "if ((bitmap & meta.bit_) != 0) {", "if ((bitmap & meta.bit_) == 0) {",
            says="was not in: only that makes a repetition", never=["Put it in"], part="packets"),
    misread("03", P3, "_t std) { apply {} }", "_t std) { apply { recirculate_preserving_field_list(0); } }",
            says="Line 80, 'std.mcast_grp = 1;' sends it to multicast group 1, from which no copy left",
            never=["takes that back", "'mark_to_drop(std);' sends"], part="packets"),
    misread("05", P5, "if ((bitmap & meta.bit_) == 0) {", "if ((bitmap & meta.bit_) != 0) {",
            says="taken for a repetition", never=["every index is slot"], part="switch"),
    misread("03", P3, "sums3.write(slot, hdr.sum.lane3);", "sums2.write(slot, hdr.sum.lane3);",
            says="look at what was written to sums2", never=[OLD_SUM, FORGOTTEN]),
    misread("03", P3, "hdr.sum.lane1 = hdr.sum.lane1 + sum;", "hdr.sum.lane1 = sum;",
            says="that is the sum of all others", never=[OLD_SUM]),
    misread("03", P3, "hdr.sum.lane0 = hdr.sum.lane0 + sum;", "hdr.sum.lane0 = hdr.sum.lane0 |+| sum;",
            says="wraps around at 2^32", never=[OLD_SUM]),
    misread("03", P3, "mark_to_drop(std);      // a repetition", "std.egress_spec = std.ingress_port;",
            says="drop a repetition", never=[NOT_HOW_MANY]),
    misread("03", P3, "std.mcast_grp = 1;", "std.mcast_grp = 1; mark_to_drop(std);",
            says="a mark_to_drop behind it takes that back", never=["send the RESULT"]),
    misread("03", P3, "bitmaps.write(slot, 0);", "bitmaps.write(slot, bitmap);",
            says="write 0 and the slot is free", never=[FORGOTTEN]),
    misread("04", Q4, 'raise ValueError("NaN or infinity")', "values = values[np.isfinite(values)]",
            says="and returned 2", never=["nan and sent"], part="special"),
    misread("04", Q4, "guess = math.frexp(LIMIT / workers)[1] - math.frexp(most)[1] + 2", "guess = -1100",
            says="no float is 2^1100", never=[FAILED], part="bound"),
    misread("04", Q4, "np.ldexp(total.astype", "np.ldexp(np.abs(total).astype",
            says="expected -", never=["expected 653760.0"], part="rounding"),
    misread("04", Q4, "most = max(largest)", "most = sum(largest) / len(largest)",
            says="The largest of all workers decides alone", never=["suits another worker"], part="exponent"),
    misread("05", P5, "                    done.write(slot, 0);\n", "",
            says="write 0 to done", never=["twice"], part="switch"),
    misread("05", P5, "bitmaps.write(other, others & ~meta.bit_);", "bitmaps.write(other, 0);",
            says="takes its own bit out of the other one", never=[TOO_EARLY, STORM]),
    misread("05", P5, "                    sums0.read(hdr.sum.lane0, slot);\n", "",
            says="the sum is in sums0", never=[TOO_EARLY]),
    misread("05", P5, "                    hdr.sum.kind = RESULT;\n                    std.egress_spec",
            "                    std.egress_spec", says="what left is not the RESULT", never=[TOO_EARLY, "twice"]),
    misread("05", W5, "min(self.chunks, oldest + self.slots)", "oldest + self.slots",
            says="there are", never=["of what has arrived"], part="worker"),
    misread("08", F8, "return workers * chunks", "return (workers - 1) * chunks",
            says="the server's link is the busiest", never=["preamble, checksum and gap"], part="server"),
    misread("11", "router.p4", "hdr.ipv4.ihl != 5", "hdr.ipv4.ihl > 5",
            says="(ihl 4)", never=["othing asks for ihl"], part="parser"),
    misread("13", P13, "{ hdr.job.src, hdr.job.dst }, FLOWS", "{ hdr.job.src, hdr.job.dst }, 32w32",
            says="Flows share a cell that have two", never=["All flows share one cell"], part="flowlets"),
    misread("13", P13, "- before > GAP", "- before > GAP + 1", says="A change in line 68 alone", never=["share"],
            part="flowlets"),
    misread("02", P2, "        packet.extract(hdr.value);\n        transition accept;",
            "        transition select(hdr.hop.flags[0:0]) { 1: parse_value; default: accept; }",
            says="state parse_value leads to itself again", never=["select on hop.flags", "pipe"], part="parser"),
    misread("07", "controller.py", '"generation": fresh("generation", 1)', '"generation": 0',
            says="marks unused slots", part="jobs"),
    misread("09", F9, "return (total * scale / self.network.workers)", "return (total * scale)",
            says="the sum over all ranks. Divide", part="int8",
            never=["Take the largest", "added in the next step, once"]),
    misread("09", F9, "self.levels = 127 // network.workers", "self.levels = 63 // network.workers",
            says="the unit is too large", never=["not from their sum"], part="int8"),
    misread("09", F9, "network.start(gradient)", "network.start(gradient / self.network.workers)",
            says="the mean was divided twice", never=["in another order on each rank"], part="order"),
    misread("10", "controller.py", 'return {"epoch": numbers["epoch"], "root": root}',
            'return {"epoch": numbers["epoch"], "root": sorted(dead)[0] if dead else root}',
            says="which is dead and has nothing of epoch", never=["a stale epoch"], part="replace"),
]  # fmt: skip


@pytest.mark.parametrize("one", [*MISREAD, *(pytest.param(*p.values, id=p.id, marks=pytest.mark.soak) for p in SLOW)])
def test_it_is_not_taken_for_another_mistake(one, tmp_path):
    only = [] if one.mutant.part is None else [one.mutant.part]
    report = grade(spoilt(one.number, one.mutant, tmp_path / "mine"), only=only)
    said = [check.finding.said for check in report.checks if check.finding is not None]
    assert any(one.mutant.words[0] in text for text in said), said
    assert not [text for text in said if any(word in text for word in one.never)], said
