"""Who a process is that Slurm started: its rank, and the socket of its job."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from p4reduce.comm.errors import ClusterError

NETWORK: Final = "P4REDUCE_NETWORK"
"""Folder with a folder for each job, in which its socket is."""


def is_in_step(environment: Mapping[str, str]) -> bool:
    """Whether ``srun`` started this process, in a job that has a p4reduce network."""
    return NETWORK in environment and "SLURM_PROCID" in environment


def job_folder(number: int | str) -> str:
    """Name of a job's folder."""
    return f"job-{number}"


def place(environment: Mapping[str, str]) -> tuple[str, int, int]:
    """Address of the coordinator, rank and size; ``ClusterError`` for variables that are not as Slurm sets them."""
    values = {}
    for what, names in (
        ("job", ("SLURM_JOB_ID",)),
        ("rank", ("SLURM_PROCID",)),
        ("size", ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")),
    ):
        text = next((environment[name] for name in names if name in environment), "")
        if not (text.isascii() and text.isdecimal()):
            raise ClusterError(f"{names[0]}: expected a number, got {text!r}; start ranks with srun")
        values[what] = int(text)
    folder = Path(environment[NETWORK]) / job_folder(values["job"])
    return str(folder / "socket"), values["rank"], values["size"]
