"""``p4reduce run``: one run."""

from pathlib import Path
from typing import Annotated, Final

import typer

from p4reduce.base.errors import BadInput
from p4reduce.base.failures import guarded
from p4reduce.base.output import Output
from p4reduce.base.records import to_file
from p4reduce.cli.lists import finish, run_all
from p4reduce.runs.experiment import Settings, experiment_options
from p4reduce.runs.files import claim
from p4reduce.views.live.session import Hold, Live, Open, live_page, real_page, record

Out = Annotated[Path | None, typer.Option("--out", "-o", help="Folder for result.json, CSV files and report.html.")]
Json = Annotated[bool, typer.Option("--json", help="The result as JSON on stdout; tables and progress on stderr.")]
Pcap = Annotated[Path | None, typer.Option("--pcap", help="Record the first worker's link in this pcap file.")]
EXAMPLES: Final = (
    "p4reduce run                                       # sum 1 MB over 8 workers",
    "p4reduce run --model digits --plan ring --out out/ring",
    "p4reduce run -t fat-tree-4 -p mst --rate 100G --loss 0.01 --seed 7",
    "p4reduce example settings > my.yaml",
    "p4reduce run --config my.yaml --lanes 64 --pcap run.pcap",
    "p4reduce run -t star8 --target bmv2 --loss 0.01    # real switches, real sockets (root, BMv2)",
    "p4reduce run -t star8 --time real --links udp      # real sockets without root",
    "p4reduce run --live --hold                         # watch it in a browser: docs/live.md",
    "p4reduce run -t fat-tree:k=16 --rate 100G -e 250M --time flow  # 1,024 workers x 1 GB, by a model without packets",
    "p4reduce run --json | jq .network.ratio_to_bound",
)


@experiment_options(real_time=True)
@guarded
def run(
    settings: Settings,
    *,
    out: Out = None,
    pcap: Pcap = None,
    live: Live = False,
    hold: Hold = False,
    open_page: Open = False,
    as_json: Json = False,
) -> None:
    """Run one collective or one training through the switches.

    Counts every byte on every link and checks the counts against the plan's prediction. Exit code 1 when they
    differ, or when a sum saturated.
    """
    output = Output(as_json=as_json)
    experiment = settings.experiment()
    if experiment.time == "flow" and (live or pcap is not None):
        raise BadInput(f"{'--live' if live else '--pcap'}: the flow model has no packets; choose --time virtual")
    claim(out=out, pcap=pcap)
    title = f"{experiment.model}, {experiment.plan} on {experiment.topology}"
    serve = real_page if experiment.time == "real" else live_page
    with serve(output, title, live=live, hold=hold, browser=open_page) as page:
        (result,) = run_all([experiment], output, capture=pcap)
        if as_json:
            print(to_file(result), end="", flush=True)
        record(output, page, out)
        finish(output, [result], out=out, title=f"{experiment.model}, {result.network.topology}")
