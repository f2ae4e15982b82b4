"""``p4reduce clean``: what killed runs left behind."""

from dataclasses import asdict
from typing import Annotated, Final

import typer

from p4reduce.base.failures import guarded
from p4reduce.base.output import Output

Json = Annotated[bool, typer.Option("--json", help="JSON on stdout, nothing else.")]
All = Annotated[bool, typer.Option("--all", help="End live runs and standing networks, too.")]
EXAMPLES: Final = ("p4reduce clean", "p4reduce clean --all")


@guarded
def clean(every: All = False, as_json: Json = False) -> None:
    """End the processes and remove the folders of runs that were killed.

    Namespaces and interfaces need no cleaning: they end with the last process in them. Only processes that carry the
    word of a dead run are ended; runs that go on are left alone, unless --all is given.
    """
    from p4reduce.network.real.net import state  # noqa: PLC0415  (slow to import)

    output = Output(as_json=as_json)
    cleaned = state.remove_stale(also_alive=every)
    output.data(asdict(cleaned))
    output.line(
        f"removed: {', '.join(cleaned.removed) or 'nothing'}; processes ended: {cleaned.killed}; "
        f"still running: {', '.join(cleaned.alive) or 'nothing'}"
    )
