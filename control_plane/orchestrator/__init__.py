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
        ExecutorReport,
        HostProfile,
        HostsFile,
        Interruption,
        Role,
        Running,
        TaskOrder,
        bundled_hosts,
        read_hosts,
    )
    from p4reduce.control_plane.orchestrator.history import PlanRow, TaskRow
    from p4reduce.control_plane.orchestrator.options import (
        OrchestratorOptions,
        PlanPhase,
        StoreError,
        TaskError,
        TaskRefusedError,
        TaskState,
    )
    from p4reduce.control_plane.orchestrator.store import Store
    from p4reduce.control_plane.orchestrator.trace import read_trace, read_traces, write_trace

__all__ = [
    "ComputingManager",
    "Executor",
    "ExecutorReport",
    "HostProfile",
    "HostsFile",
    "Interruption",
    "Orchestrator",
    "OrchestratorOptions",
    "PlanPhase",
    "PlanRow",
    "Role",
    "Running",
    "Store",
    "StoreError",
    "TaskError",
    "TaskOrder",
    "TaskRefusedError",
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
            "TaskOrder",
            "ExecutorReport",
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
            "OrchestratorOptions",
            "PlanPhase",
            "TaskRefusedError",
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
