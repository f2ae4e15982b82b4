"""``p4reduce run``: one run."""

from p4reduce.base.output import Output
from p4reduce.cli.flags.run import Run
from p4reduce.cli.results import finish, run_all
from p4reduce.runs.files import claim
from p4reduce.views.live.session import live_page, real_page, record


def run(flags: Run) -> None:
    """Run it; print and write what came of it."""
    output = Output(as_json=flags.as_json)
    experiment = flags.experiment
    claim(out=flags.out, pcap=flags.pcap)
    title = f"{experiment.model}, {experiment.plan} on {experiment.topology}"
    serve = real_page if experiment.time == "real" else live_page
    with serve(output, title, live=flags.live, hold=flags.hold, browser=flags.open_page) as page:
        (result,) = run_all([experiment], output, capture=flags.pcap)
        if flags.as_json:
            print(result.to_json(), end="", flush=True)
        record(output, page, flags.out)
        finish(output, [result], out=flags.out, title=f"{experiment.model}, {result.network.topology}")
