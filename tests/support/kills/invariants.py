"""Invariants I1 to I3 of the results that ranks got, whichever ranks died or joined."""

from collections.abc import Mapping

from tests.support.kills.script import UNKNOWN, Got, kind_of, wanted


def check(
    got: Mapping[int, Got], survivors: set[int], seed: int, operations: int, elements: int, *, relays: bool = False
) -> None:
    """Raise `AssertionError` that names the violated invariant; the results of dead ranks are checked, too.

    relays: whether ranks add for others in real time. Such a rank may die with the result of its last operation before
    any other has it; the others then repeat the operation without it (docs/faults.md, limits).
    """
    longest = got[min(survivors)]  # the lowest surviving rank began first
    for rank, own in got.items():
        seen = [operation for operation, _, _ in own.results]
        begin = seen[0] if own.joined and seen else 0
        end = operations if rank in survivors else begin + len(seen)
        # A rank that joins after the last operation has nothing left to do.
        assert seen == list(range(begin, end)) or (own.joined and not seen), f"I3: rank {rank} returned {seen}"
    _check_changes(got, survivors, longest)
    reported = {operation: (contributors, array) for operation, contributors, array in longest.results}
    for rank, own in got.items():
        for operation, contributors, array in own.results:
            if operation in reported:
                others, other = reported[operation]
                if relays and rank not in survivors and operation == own.results[-1][0] and rank not in others:
                    exact = wanted(seed, operation, contributors, elements, contributors[0])
                    assert array == exact, f"I2: operation {operation}: rank {rank}, now dead, has no sum"
                    continue
                assert contributors == others, f"I2: operation {operation}: {contributors} at rank {rank}, {others}"
                assert array == other, f"I1: operation {operation}: rank {rank} has other bytes"
    heard = {operation: after for operation, _, after in longest.changes if operation != UNKNOWN}
    members: tuple[int, ...] = next((after for at, _, after in reversed(longest.changes) if at == UNKNOWN), ())
    members = members or longest.begun or tuple(range(len(got)))
    for operation, contributors, array in longest.results:
        members = heard.get(operation, members)
        assert contributors, f"I2: operation {operation} has nobody's contribution"
        assert set(contributors) <= set(members), f"I2: operation {operation}: {contributors} of {members}"
        exact = wanted(seed, operation, contributors, elements, members[0])
        assert array == exact, f"I2: operation {operation} ({kind_of(seed, operation)}) is no sum over {contributors}"


def _check_changes(got: Mapping[int, Got], survivors: set[int], longest: Got) -> None:
    """Check that all ranks hear of the same changes before the same operations, joiners from then on."""
    first = {view: (operation, members) for operation, view, members in longest.changes}
    for rank in survivors:
        own = {view: (operation, members) for operation, view, members in got[rank].changes}
        assert got[rank].joined or own.keys() == first.keys(), f"rank {rank} heard {own}, another {first}"
        for view, (operation, members) in own.items():
            at, others = first[view]
            assert members == others, f"rank {rank} heard of {members}, another of {others}"
            known = UNKNOWN in {operation, at} or operation == at
            assert known, f"rank {rank} heard before operation {operation}, another before {at}"
