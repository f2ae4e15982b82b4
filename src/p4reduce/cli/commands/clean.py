"""``p4reduce clean``: what killed runs left behind."""

from dataclasses import asdict

from p4reduce.base.output import Output
from p4reduce.cli.flags.network import Clean
from p4reduce.network.real.net import state


def clean(flags: Clean) -> None:
    """Remove it."""
    output = Output(as_json=flags.as_json)
    cleaned = state.remove_stale(also_alive=flags.every)
    output.data(asdict(cleaned))
    output.line(
        f"removed: {', '.join(cleaned.removed) or 'nothing'}; processes ended: {cleaned.killed}; "
        f"still running: {', '.join(cleaned.alive) or 'nothing'}"
    )
