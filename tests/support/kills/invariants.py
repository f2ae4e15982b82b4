"""What must hold of what ranks got, whoever died: I1 to I3."""

from collections.abc import Mapping

from tests.support.kills.script import Got, kind_of, wanted


def check(got: Mapping[int, Got], survivors: set[int], seed: int, operations: int, elements: int) -> None:
    """`AssertionError` that names the invariant. The dead are checked as far as they came."""
    for rank in survivors:
        seen = [operation for operation, _, _ in got[rank].results]
        assert seen == list(range(operations)), f"I3: rank {rank} returned {seen}"
    for rank, own in got.items():
        seen = [operation for operation, _, _ in own.results]
        assert seen == list(range(len(seen))), f"I3: rank {rank} returned {seen}"
    first = got[min(survivors)]
    for rank in survivors:
        assert got[rank].changes == first.changes, f"rank {rank} heard {got[rank].changes}, another {first.changes}"
    for rank, own in got.items():
        for (operation, contributors, array), (_, reported, other) in zip(own.results, first.results, strict=False):
            assert contributors == reported, f"I2: operation {operation}: {contributors} at rank {rank}, {reported}"
            assert array == other, f"I1: operation {operation}: rank {rank} has other bytes"
    members = tuple(range(len(got)))
    heard = {operation: after for operation, _, after in first.changes}
    for operation, contributors, array in first.results:
        members = heard.get(operation, members)
        assert contributors, f"I2: operation {operation} has nobody's contribution"
        assert set(contributors) <= set(members), f"I2: operation {operation}: {contributors} of {members}"
        exact = wanted(seed, operation, contributors, elements, members[0])
        assert array == exact, f"I2: operation {operation} ({kind_of(seed, operation)}) is no sum over {contributors}"
