"""``p4reduce compare``: several plans, one table."""

from pathlib import Path
from typing import Annotated, Final

import typer

from p4reduce.base.failures import guarded
from p4reduce.base.output import Output
from p4reduce.cli.commands.run import Json
from p4reduce.cli.lists import finish, run_all, texts
from p4reduce.runs.experiment import Settings, experiment_options
from p4reduce.runs.files import claim, summarize

DEFAULT_PLANS = "steiner,mst,spt,ring,ps"
Plans = Annotated[str, typer.Option("--plans", "-p", help="Plans, separated by commas.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for result.json, CSV files and report.html.")]
EXAMPLES: Final = (
    "p4reduce compare",
    "p4reduce compare --plans steiner,ring --topology fat-tree-4 --rate 100G",
    "p4reduce compare --model digits --out out/digits",
    "p4reduce compare --elements 4000000 --json | jq '.[].ratio_to_bound'",
)


@experiment_options(omit=("plan",), real_time=True)
@guarded
def compare(
    settings: Settings, plans: Plans = DEFAULT_PLANS, out: Out = Path("out/compare"), as_json: Json = False
) -> None:
    """Run the same work with several plans: one table, one CSV, one report."""
    output = Output(as_json=as_json)
    experiments = [settings.experiment(plan=plan) for plan in texts(plans, "--plans")]
    claim(out=out)
    results = run_all(experiments, output)
    output.data([summarize(result) for result in results])
    finish(output, results, out=out, title=f"{experiments[0].model}, {results[0].network.topology}")
