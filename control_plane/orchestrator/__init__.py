"""The orchestrator: gives AI tasks their trees, measures, and swaps trees; its whole state is in a database.

Names are imported on first use: the executor's side needs only the executor's protocol.
"""

from typing import TYPE_CHECKING

from p4reduce.base import later

if TYPE_CHECKING:
    from p4reduce.control_plane.orchestrator.engine import Orchestrator
    from p4reduce.control_plane.orchestrator.executor import (
        ComputingManager,
        Executor,
        HostProfile,
        HostsFile,
        Interruption,
        Order,
        Report,
        Role,
        Running,
        bundled_hosts,
        read_hosts,
    )
    from p4reduce.control_plane.orchestrator.history import PlanRow, TaskRow
    from p4reduce.control_plane.orchestrator.options import (
        Options,
        Phase,
        RefusedError,
        StoreError,
        TaskError,
        TaskState,
    )
    from p4reduce.control_plane.orchestrator.store import Store
    from p4reduce.control_plane.orchestrator.trace import read_trace, read_traces, write_trace

__all__ = [
    "ComputingManager",
    "Executor",
    "HostProfile",
    "HostsFile",
    "Interruption",
    "Options",
    "Orchestrator",
    "Order",
    "Phase",
    "PlanRow",
    "RefusedError",
    "Report",
    "Role",
    "Running",
    "Store",
    "StoreError",
    "TaskError",
    "TaskRow",
    "TaskState",
    "bundled_hosts",
    "read_hosts",
    "read_trace",
    "read_traces",
    "write_trace",
]

__getattr__ = later(
    __name__,
    {
        "engine": ("Orchestrator",),
        "executor": (
            "ComputingManager",
            "Executor",
            "HostProfile",
            "HostsFile",
            "Interruption",
            "Order",
            "Report",
            "Role",
            "Running",
            "bundled_hosts",
            "read_hosts",
        ),
        "history": (
            "PlanRow",
            "TaskRow",
        ),
        "options": (
            "Options",
            "Phase",
            "RefusedError",
            "StoreError",
            "TaskError",
            "TaskState",
        ),
        "store": ("Store",),
        "trace": (
            "read_trace",
            "read_traces",
            "write_trace",
        ),
    },
)
