"""``p4reduce demo``: what ``make demo`` runs."""

from pathlib import Path
from typing import Final

from p4reduce.base.output import Output
from p4reduce.cli.flags.run import DEMO, Demo
from p4reduce.cli.results import finish, run_all
from p4reduce.runs.files import claim, summarize

PCAP: Final = "all-reduce.pcap"
PCAP_CHUNKS: Final = 8
"""chunks of the small all-reduce that is recorded: few enough to read every frame"""


def demo(flags: Demo) -> None:
    """Train with each plan, and record one small all-reduce."""
    output = Output(as_json=flags.as_json)
    claim(out=flags.out)
    results = run_all(flags.experiments, output, verb="train with")
    output.data([summarize(result) for result in results])
    finish(output, results, out=flags.out, title=f"Training through P4 switches: {results[0].network.topology}")
    # Last: who waits for the table need not wait for another program of the switches.
    record_one(flags, output, flags.out / PCAP)


def record_one(flags: Demo, output: Output, path: Path) -> None:
    """Record one small all-reduce over the same network, with frames that fit a screen (64 lanes)."""
    plan = flags.experiments[0].plan
    small = flags.settings.experiment(DEMO, model="tensor", plan=plan, lanes=64, elements=64 * PCAP_CHUNKS, repeat=1)
    run_all([small], output, capture=path, verb="record")
    output.note(f"wrote {path}: an all-reduce of {PCAP_CHUNKS} chunks, for Wireshark or Scapy")
