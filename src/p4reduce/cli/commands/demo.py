"""``p4reduce demo``: what ``make demo`` runs."""

from pathlib import Path
from typing import Annotated, Final

import typer

from p4reduce.base.failures import guarded
from p4reduce.base.output import Output
from p4reduce.cli.commands.compare import DEFAULT_PLANS, Plans
from p4reduce.cli.commands.run import Json
from p4reduce.cli.lists import finish, run_all, texts
from p4reduce.runs.experiment import Settings, experiment_options
from p4reduce.runs.files import claim, summarize

Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for report.html, result.json, CSV and pcap.")]
BASE: Final = {"model": "digits", "topology": "leaf-spine-8"}
PCAP: Final = "all-reduce.pcap"
PCAP_CHUNKS: Final = 8
"""chunks of the small all-reduce that is recorded: few enough to read every frame"""
EXAMPLES: Final = (
    "p4reduce demo",
    "p4reduce demo --rate 100G --out out/demo-100g",
    "p4reduce demo --plans steiner,ring --loss 0.01",
)


@experiment_options(omit=("plan", "model"))
@guarded
def demo(settings: Settings, plans: Plans = DEFAULT_PLANS, out: Out = Path("out/demo"), as_json: Json = False) -> None:
    """Train a model through P4 switches, once for each plan, and write a report.

    A perceptron of 266,890 parameters learns to read 1,797 real digits on 8 workers under two leaves and two
    spines, in virtual time. steiner, mst and spt sum the gradients in the switches; ring and ps sum them in hosts.
    """
    output = Output(as_json=as_json)
    experiments = [settings.experiment(BASE, plan=plan) for plan in texts(plans, "--plans")]
    claim(out=out)
    results = run_all(experiments, output, verb="train with")
    output.data([summarize(result) for result in results])
    finish(output, results, out=out, title=f"Training through P4 switches: {results[0].network.topology}")
    # Last: who waits for the table need not wait for another program of the switches.
    record_one(settings, experiments[0].plan, output, out / PCAP)


def record_one(settings: Settings, plan: str, output: Output, path: Path) -> None:
    """Record one small all-reduce over the same network, with frames that fit a screen (64 lanes)."""
    small = settings.experiment(BASE, model="tensor", plan=plan, lanes=64, elements=64 * PCAP_CHUNKS, repeat=1)
    run_all([small], output, capture=path, verb="record")
    output.note(f"wrote {path}: an all-reduce of {PCAP_CHUNKS} chunks, for Wireshark or Scapy")
