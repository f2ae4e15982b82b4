"""The fabric with the real P4 program and the real workers."""

from dataclasses import asdict
from itertools import product

import numpy as np
import pytest

from p4reduce.network.virtual import FabricError, Faults, StopReason
from studies.bench.switch import RackNetwork

LANES, CHUNKS, WORKERS = 64, 40, 3


def sums(racks: RackNetwork) -> np.ndarray:
    """Return the expected result of every worker, in float64."""
    by_rack = racks.inputs.reshape(-1, WORKERS, LANES * CHUNKS).astype(np.float64)
    return np.repeat(by_rack.sum(axis=1), WORKERS, axis=0)


def sent_by_program(racks: RackNetwork, rack: int, port: int) -> tuple[int, int]:
    """Return first transmissions and resends to a port, as the P4 program counted them in egress."""
    counter = racks.devices[f"rack{rack}"].counters["IncEgress.depart.link_sent"]
    return counter.read(2 * port)[0], counter.read(2 * port + 1)[0]


def test_all_reduce_without_faults() -> None:
    racks = RackNetwork(2, WORKERS, lanes=LANES, chunks=CHUNKS, slots=16)
    assert racks.all_reduce() is StopReason.DONE
    np.testing.assert_allclose(racks.outputs, sums(racks), atol=1e-6)
    # Deadlines move with every answer; only one timer per endpoint is queued.
    assert racks.network._memory.world[0]["heap_size"] <= 2 * len(racks.inputs)
    assert racks.network.run() is StopReason.QUIET
    links = racks.network.links
    for rack, rank in product(range(2), range(WORKERS)):
        up, down = links[f"h{rack}-{rank}", 1], links[f"rack{rack}", rank + 1]
        for one in (up, down):
            assert one.inc_resend_frames == 0
            assert one.frames == one.inc_first_frames == one.delivered
        assert up.frames == down.frames
        assert sent_by_program(racks, rack, rank + 1) == (down.frames, 0)
    assert links["rack0", WORKERS + 1].frames == 0


@pytest.mark.parametrize("queue_frames", [1024, 1])
def test_faults_change_no_sum_and_every_first_transmission_is_accounted_for(queue_frames: int) -> None:
    calm = RackNetwork(1, WORKERS, lanes=LANES, chunks=CHUNKS, slots=16)
    calm.all_reduce()
    calm.network.run()
    rough = RackNetwork(
        1,
        WORKERS,
        lanes=LANES,
        chunks=CHUNKS,
        slots=16,
        queue_frames=queue_frames,
        faults=Faults(loss=0.05, duplicate=0.05, reorder=0.05, corrupt=0.05),
        seed=5,
    )
    assert rough.all_reduce() is StopReason.DONE
    rough.network.run()
    assert rough.outputs.tobytes() == calm.outputs.tobytes()
    assert sum(link.lost + link.corrupted for link in rough.network.links.values()) > 0
    assert (sum(link.queue_drops for link in rough.network.links.values()) > 0) == (queue_frames == 1)
    incidents = rough.network.incidents()
    assert {destination for _, destination, _ in incidents} <= {"rack0", *(f"h0-{rank}" for rank in range(WORKERS))}
    for port, expected in calm.network.links.items():
        # All paths are one link long: only frames that never got onto it are missing.
        seen = rough.network.links[port]
        missing = sum(i.queue_dropped for (place, _, _), i in incidents.items() if place == port)
        assert seen.inc_first_frames + missing == expected.inc_first_frames
        assert seen.unattributed == 0
    # Frames dropped at a full queue are not in the program's counters either.
    for port in range(1, WORKERS + 1):
        seen = rough.network.links["rack0", port]
        assert sent_by_program(rough, 0, port) == (seen.inc_first_frames, seen.inc_resend_frames)


def test_frames_longer_than_cells_are_refused() -> None:
    with pytest.raises(FabricError, match="318 bytes: raise max_frame"):
        RackNetwork(1, WORKERS, lanes=LANES, chunks=1, slots=16, max_frame=317)


def test_same_seed_same_everything() -> None:
    runs = []
    for _ in range(2):
        racks = RackNetwork(
            1, WORKERS, lanes=LANES, chunks=CHUNKS, slots=16, faults=Faults(loss=0.1, reorder=0.1), seed=9
        )
        racks.all_reduce()
        racks.network.run()
        counters = {port: asdict(seen) for port, seen in racks.network.links.items()}
        runs.append((racks.network.now, racks.network.events, counters, racks.outputs.tobytes()))
    assert runs[0] == runs[1]
