"""An orchestrator in a process to be killed: ``python -m tests.support.orchestrated.victim DATABASE SOCKET``.

It prints a line after every step.
"""

if __name__ == "__main__":
    import p4reduce.base.short  # noqa: F401

import sys
from pathlib import Path

from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.orchestrator import Orchestrator, OrchestratorOptions, Store
from p4reduce.control_plane.scheduling import policy_named
from p4reduce.network.jobs.network import bundled
from p4reduce.play.tasks.service import RemoteExecutor
from p4switch.base.values import PS_PER_US

LANES = 64
OPTIONS = OrchestratorOptions(control_latency_ps=10 * PS_PER_US, measure_every_ps=1000 * PS_PER_US)


def tell(step: str) -> None:
    """Print a step."""
    print(step, flush=True)


def main(database: Path, socket: Path) -> None:
    """Run all tasks."""
    program = bundled(LANES)
    with Store(database, synchronous=False) as store, RemoteExecutor(socket) as executor:
        term = store.take_charge()
        with Controller(executor.topology, executor.targets, program, election_id=term, keep=True) as controller:
            policy = policy_named("steiner")
            Orchestrator(store, controller, executor, policy, name="steiner", options=OPTIONS, checkpoint=tell).run()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
