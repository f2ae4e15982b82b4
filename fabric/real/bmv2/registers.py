"""Registers of BMv2: P4Runtime does not read them there, so BMv2's own command line is asked, which speaks Thrift."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from p4reduce.fabric.real.bmv2.find import Bmv2
from p4reduce.fabric.real.errors import RealError

CLI: Final = "simple_switch_CLI"
TIMEOUT_S: Final = 60
_CELLS: Final = re.compile(r"^(?:RuntimeCmd: )?\S+= ?([0-9, ]+)$", re.MULTILINE)
_CELL: Final = re.compile(r"^(?:RuntimeCmd: )?\S+\[\d+\]= ?([0-9]+)$", re.MULTILINE)


def find_cli(bmv2: Bmv2) -> str | None:
    """BMv2's command line: beside the switch, or on PATH; None without it."""
    beside = Path(bmv2.command[-1]).with_name(CLI)
    return str(beside) if beside.is_file() else shutil.which(CLI)


def read_registers(bmv2: Bmv2, thrift_port: int, register: str, index: int | None = None) -> list[int]:
    """The cells of a register array, or one of them, unsigned, as BMv2 keeps them.

    ``register`` is its full name in the program, such as 'Ingress.slots.tag'. Raises :class:`RealError` when BMv2's
    command line is not here or does not know the register.
    """
    cli = find_cli(bmv2)
    if cli is None:
        raise RealError(f"registers of BMv2 are read by {CLI}, which is not here; it comes with BMv2")
    question = f"register_read {register}" + ("" if index is None else f" {index}")
    try:
        done = subprocess.run(
            [cli, "--thrift-port", str(thrift_port)],
            input=f"{question}\n",
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RealError(f"{CLI} did not answer '{question}' in {TIMEOUT_S} s") from None
    found = (_CELLS if index is None else _CELL).search(done.stdout)
    if found is None:
        lines = f"{done.stdout}\n{done.stderr}".replace("RuntimeCmd:", "").splitlines()
        said = [line.strip() for line in lines if line.strip()]
        raise RealError(f"{CLI}: no answer to '{question}': {said[-1] if said else 'it said nothing'}")
    return [int(cell) for cell in found.group(1).split(",")]
