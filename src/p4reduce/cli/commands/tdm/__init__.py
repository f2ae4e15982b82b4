"""``p4reduce tdm``: training jobs that share an optical cross-connect."""

import typer

from p4reduce.cli.commands.tdm import plan, play, trace
from p4reduce.cli.usage_errors import epilog

EXAMPLES = plan.EXAMPLES
app = typer.Typer(help="TDM: training jobs over an optical cross-connect, in turns.", no_args_is_help=True)
app.command("plan", epilog=epilog(*plan.EXAMPLES))(plan.plan)
app.command("run", epilog=epilog(*play.RUN_EXAMPLES))(play.run)
app.command("compare", epilog=epilog(*play.COMPARE_EXAMPLES))(play.compare)
app.command("trace", epilog=epilog(*trace.EXAMPLES))(trace.trace)
