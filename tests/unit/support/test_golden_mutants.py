"""Control of the property tests: each of these errors in the model or the workers is found within a few trees."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.effort import examples
from tests.support.golden import switch as golden
from tests.support.golden.backend import GoldenBackend
from tests.support.golden.choices import SeededChoices
from tests.support.golden.frames import Kind, Packet
from tests.support.golden.reasons import Reason, Refused
from tests.support.golden.run import run
from tests.support.golden.scenario import Scenario, draw_scenario, straggling
from tests.support.golden.switch import GoldenSwitch
from tests.support.golden.tables import JobEntry, PeerEntry, ReplicaEntry

TREES = 150
STRAGGLERS = 190
"""first seed of trees with stragglers, from which all mutants are found soon"""
RARE = {
    "LetsOldGenerationsIn": 379,
    "NeverReplays": 66, "NeverAsksAbove": 25, "NeverAsksAChild": 26, "NeverSendsUpAgain": 66,
    "CountsWhoIsLate": STRAGGLERS + 7, "AddsWhatIsLate": STRAGGLERS + 41,
    "TellsNobodyThatItIsLate": STRAGGLERS + 7, "TellsOnlyWhoAsks": STRAGGLERS + 7,
    "ForgetsWhoIsLateBelow": STRAGGLERS + 12, "LeavesAnybodyBehind": STRAGGLERS + 7,
}  # fmt: skip
"""first seeds for rare errors, which keep the search short"""
WIDE = 130
"""first seed for a window of all slots"""


class AddsTwice(GoldenSwitch):
    """A retransmission is added again while the slot is incomplete."""

    def _contribution(self, job, child, slot, packet):
        again = (slot.generation, slot.seq) == (job.generation, packet.seq) and slot.children & child.bit
        if again and slot.children != job.full:
            return golden._Answer(golden._merged(slot, child, packet))
        return super()._contribution(job, child, slot, packet)


class NeverReplays(GoldenSwitch):
    """A child whose RESULT was lost never gets it again."""

    def _asked(self, job, child, slot, packet):
        answer = super()._asked(job, child, slot, packet)
        if answer.to == "sender" and answer.question is None:
            raise Refused(Reason.DUPLICATE)
        return answer


class NeverAsksAbove(GoldenSwitch):
    """A partial sum or its result, once lost, stays lost."""

    def _asked(self, job, child, slot, packet):
        return super()._asked(job, replace(child, lowest=False), slot, packet)


class NeverSendsUpAgain(GoldenSwitch):
    """A partial sum is never resent to the parent."""

    def _asked_above(self, job, slot, packet):
        answer = super()._asked_above(job, slot, packet)
        if answer.to == "parent":
            raise Refused(Reason.RESULT)
        return answer


class NeverAsksAChild(GoldenSwitch):
    """A child whose contribution was lost is told to wait."""

    def _asked(self, job, child, slot, packet):
        answer = super()._asked(job, child, slot, packet)
        if answer.question is not None and answer.to == "sender":
            return replace(answer, question=replace(answer.question, level=1))
        return answer


class TakesAQuestionForAContribution(GoldenSwitch):
    """An ASK counts as a contribution."""

    def _asked(self, job, child, slot, packet):
        answer = super()._asked(job, child, slot, packet)
        if (slot.generation, slot.seq) == (job.generation, packet.seq) and slot.children != job.full:
            slot.children |= child.bit
        return answer


class TakesAnyChunk(GoldenSwitch):
    """A slot follows every jump of the sequence number, even backwards."""

    def _contribution(self, job, child, slot, packet):
        if job.generation == slot.generation and packet.seq != slot.seq:
            slot = replace(slot, seq=(packet.seq - job.slots) % 2**32)
        return super()._contribution(job, child, slot, packet)


class KnowsNoGenerations(GoldenSwitch):
    """A slot left by another epoch or job counts as the job's own."""

    def _contribution(self, job, child, slot, packet):
        return super()._contribution(replace(job, generation=1), child, slot, packet)

    def _result(self, job, slot, packet):
        return super()._result(replace(job, generation=1), slot, packet)


class LetsOldGenerationsIn(GoldenSwitch):
    """A slot is taken over by any other generation, instead of by newer ones only."""

    def _contribution(self, job, child, slot, packet):
        if job.generation < slot.generation:
            slot = golden.Slot()
        return super()._contribution(job, child, slot, packet)


class SharesSlots(GoldenSwitch):
    """Jobs use slots outside of their range."""

    def write(self, entry, *, insert):
        super().write(replace(entry, base=0) if isinstance(entry, JobEntry) else entry, insert=insert)


class TrustsEveryPort(GoldenSwitch):
    """A child is identified by its address alone."""

    def _aggregate(self, port, packet):
        known = [p for p in self.peers.values() if (p.ip, p.job, p.epoch) == (packet.ip_src, packet.job, packet.epoch)]
        return super()._aggregate(known[0].port if known else port, packet)


class AnswersBeforeAllAreIn(GoldenSwitch):
    """The last contribution but one completes a slot."""

    def _completed(self, job, slot):
        missing = bin(job.full & ~slot.children).count("1")
        return super()._completed(replace(job, full=slot.children) if missing <= 1 else job, slot)


class KeepsTheLastExponent(GoldenSwitch):
    """The exponent is the last instead of the largest."""

    def _contribution(self, job, child, slot, packet):
        return super()._contribution(job, child, replace(slot, exponent=0), packet)


class ForgetsTheSaturation(GoldenSwitch):
    """The saturation flag is not sent."""

    def _send(self, job, packet, to):
        return super()._send(job, replace(packet, saturated=False), to)


class SendsPullsAsPushes(GoldenSwitch):
    """Merged pulls leave as pushes."""

    def _send(self, job, packet, to):
        return super()._send(job, replace(packet, kind=Kind.PUSH) if packet.kind == Kind.PULL else packet, to)


class TakesResultsFromChildren(GoldenSwitch):
    """A child's RESULT is accepted like the parent's."""

    def _aggregate(self, port, packet):
        key = (port, packet.ip_src, packet.job, packet.epoch)
        peer = self.peers.get(key)
        if peer is not None and packet.kind == Kind.RESULT:
            self.peers[key] = replace(peer, bit=0)
        try:
            return super()._aggregate(port, packet)
        finally:
            if peer is not None:
                self.peers[key] = peer


class LooksAtNoToken(GoldenSwitch):
    """Tokens are not checked: port and address suffice."""

    def _aggregate(self, port, packet):
        peer = self.peers.get((port, packet.ip_src, packet.job, packet.epoch))
        if peer is not None and (peer.bit or packet.kind == Kind.RESULT):
            packet = replace(packet, token=peer.token)
        return super()._aggregate(port, packet)


class ShowsAllTheSame(GoldenSwitch):
    """RESULTs carry the token of the last contribution."""

    def write(self, entry, *, insert):
        super().write(replace(entry, token=0) if isinstance(entry, ReplicaEntry) else entry, insert=insert)


class LooksAtNoSource(GoldenSwitch):
    """A host may send with any source address."""

    def _route(self, port, frame):
        return super()._route(0, frame)


class AddsWhatIsLate(GoldenSwitch):
    """A late contribution is added to a closed chunk whose result has not arrived."""

    def _contribution(self, job, child, slot, packet):
        if slot.absent & child.bit and not slot.done and slot.seq == packet.seq:
            return golden._Answer(golden._merged(slot, child, packet))
        return super()._contribution(job, child, slot, packet)


class TellsNobodyThatItIsLate(GoldenSwitch):
    """A late child takes the result for one that includes its contribution."""

    def _send(self, job, packet, to):
        return super()._send(job, replace(packet, late=False), to)


class TellsOnlyWhoAsks(GoldenSwitch):
    """The multicast result does not tell which children are missing."""

    def _copy(self, job, packet, port, rid, absent):
        return super()._copy(job, packet, port, rid, 0)


class ForgetsWhoIsLateBelow(GoldenSwitch):
    """A switch whose sum was late tells its children that theirs is included."""

    def _without_us(self, job, slot, packet):
        answer = super()._without_us(job, slot, packet)
        return replace(answer, slot=replace(answer.slot, absent=0))


class LeavesAnybodyBehind(GoldenSwitch):
    """The same child is closed out chunk after chunk, until later ones take its slots."""

    def _overdue(self, job, slot):
        deadline = self.deadlines.get((job.job, job.epoch))
        return deadline is not None and self.now_us - slot.opened_us >= deadline.after_us


class NeverAsksAboveOnceClosed(GoldenSwitch):
    """Only the lowest child's ASK requests a closed chunk's result, and that child may be the missing one."""

    def _asked(self, job, child, slot, packet):
        return super()._asked(job, child, replace(slot, absent=0) if not slot.done else slot, packet)


class CountsWhoIsLate(GoldenSwitch):
    """Without lanes to tell who is included, late children are counted."""

    def _closed(self, job, slot):
        answer = super()._closed(job, slot)
        whole = slot.count + bin(answer.slot.absent).count("1")
        return answer if slot.contributed else replace(answer, slot=replace(answer.slot, count=whole))


LATE_MUTANTS = [
    CountsWhoIsLate, AddsWhatIsLate, TellsNobodyThatItIsLate, TellsOnlyWhoAsks, ForgetsWhoIsLateBelow,
    LeavesAnybodyBehind, NeverAsksAboveOnceClosed,
]  # fmt: skip
MUTANTS = [
    AddsTwice, NeverReplays, NeverAsksAbove, NeverSendsUpAgain, NeverAsksAChild, TakesAQuestionForAContribution,
    TakesAnyChunk, KnowsNoGenerations, LetsOldGenerationsIn, SharesSlots,
    TrustsEveryPort, AnswersBeforeAllAreIn, KeepsTheLastExponent, ForgetsTheSaturation, SendsPullsAsPushes,
    TakesResultsFromChildren, LooksAtNoSource, LooksAtNoToken, ShowsAllTheSame,
]  # fmt: skip


def trees_until_found(
    model: type[GoldenSwitch],
    change: Callable[[Scenario], None] = lambda _: None,
    first: int = 0,
    trees: int = TREES,
) -> int | None:
    """Return the number of scenarios, from the seed ``first``, until a property fails; None if none does."""
    backend = GoldenBackend(model)
    for seed in range(first, first + trees):
        scenario = draw_scenario(SeededChoices(seed), backend.lanes, backend.slots)
        change(scenario)
        try:
            run(scenario, backend)
        except AssertionError:
            return seed - first + 1
    return None


def test_the_model_itself_passes_these_trees():
    assert trees_until_found(GoldenSwitch, trees=examples(10, TREES)) is None


@pytest.mark.parametrize("model", MUTANTS, ids=lambda model: model.__name__)
def test_a_mutant_is_found(model):
    assert trees_until_found(model, first=RARE.get(model.__name__, 0)) is not None


def test_the_model_itself_passes_trees_with_stragglers():
    assert trees_until_found(GoldenSwitch, straggling, STRAGGLERS, examples(10, TREES)) is None


@pytest.mark.parametrize("model", LATE_MUTANTS, ids=lambda model: model.__name__)
def test_a_mutant_is_found_among_stragglers(model):
    assert trees_until_found(model, straggling, RARE.get(model.__name__, STRAGGLERS)) is not None


def test_a_window_of_all_slots_is_found():
    def too_wide(scenario: Scenario) -> None:
        scenario.window_factor = 1

    assert trees_until_found(GoldenSwitch, too_wide, WIDE) is not None


def test_wrapping_sums_are_found(monkeypatch):
    def wrap(slot: golden.Slot, child: PeerEntry, packet: Packet) -> golden.Slot:
        merged = right(slot, child, packet)
        if slot.lanes is None or packet.lanes is None:
            return merged
        sums = (a + b for a, b in zip(slot.lanes, packet.lanes, strict=True))
        return replace(merged, lanes=tuple((s + 2**31) % 2**32 - 2**31 for s in sums), saturated=False)

    right = golden._merged
    monkeypatch.setattr(golden, "_merged", wrap)
    assert trees_until_found(GoldenSwitch) is not None
