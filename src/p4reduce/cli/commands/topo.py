"""``p4reduce topo``: which networks there are, and what is in one."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from p4reduce import topologies
from p4reduce.base.errors import BadInput
from p4reduce.base.failures import guarded
from p4reduce.base.output import Output, progress_bar, rate_text, time_text
from p4reduce.cli.main import epilog
from p4reduce.topologies import Topology
from p4reduce.views.report.network import topology_svg
from p4switch.base.files import write_text
from p4switch.base.values import PS_PER_US

if TYPE_CHECKING:
    from p4reduce.control_plane.plans.upgrade import Upgrade

app = typer.Typer(help="Topologies: bundled, built from parameters, or files of yours.", no_args_is_help=True)
Json = Annotated[bool, typer.Option("--json", help="JSON on stdout, nothing else.")]
Svg = Annotated[Path | None, typer.Option("--svg", help="Draw it to this file.")]
Name = Annotated[str, typer.Argument(help="File, bundled name, or builder with parameters.", show_default=False)]

BUILDERS = (
    ("star:hosts=8", "hosts around one switch"),
    ("leaf-spine:leaves=2,spines=2,hosts=4,servers=1,oversubscription=2", "two levels"),
    ("fat-tree:k=4", "three levels of switches with k ports (Al-Fares et al. 2008)"),
    ("oxc:pods=8,hosts=4,ports=4,rate=25G", "pods around an optical cross-connect"),
    ("wan:graph=germany50,hosts=1,servers=1", "any graph of SNDlib or the Internet Topology Zoo"),
)
Count = Annotated[int, typer.Option("--count", "-n", help="How many switches may aggregate.", min=1)]
Tasks = Annotated[Path, typer.Option("--tasks", help="File of tasks, as of 'tasks submit'.", show_default=False)]
LIST_EXAMPLES: Final = ("p4reduce topo list", "p4reduce topo list --json | jq -r '.bundled[].name'")
CAPABLE_EXAMPLES: Final = (
    "p4reduce example tasks > tasks.yaml",
    "p4reduce topo capable leaf-spine-8 --count 3 --tasks tasks.yaml",
    "p4reduce topo capable fat-tree:k=4 --count 2 --tasks tasks.csv --json",
)
UPGRADE_EXAMPLES: Final = (
    "p4reduce topo upgrade leaf-spine:leaves=4,spines=2,hosts=4,capable=none -k 2",
    "p4reduce topo upgrade fat-tree:k=4,capable=none -k 4 --no-packets --json",
)
SHOWN: Final = 200
"""nodes and links in a table for people"""
EXAMPLES: Final = (
    "p4reduce topo show leaf-spine-8",
    "p4reduce example topology > my-network.yaml",
    "p4reduce topo show my-network.yaml --svg my-network.svg",
    "p4reduce topo show wan:graph=germany50 --json",
)


@app.command("list", epilog=epilog(*LIST_EXAMPLES))
@guarded
def list_topologies(as_json: Json = False) -> None:
    """List the topologies that come with the package, and the builders."""
    output = Output(as_json=as_json)
    found = [(name, topologies.load(name)) for name in topologies.bundled()]
    output.data(
        {
            "bundled": [_counts(name, topology) for name, topology in found],
            "builders": [example for example, _ in BUILDERS],
        }
    )
    rows = [[str(value) for value in _counts(name, topology).values()] for name, topology in found]
    output.table(["bundled", "workers", "servers", "switches", "capable", "links"], rows)
    output.line("builders, with parameters:")
    for example, says in BUILDERS:
        output.line(f"  {example}: {says}")


@app.command("show", epilog=epilog(*EXAMPLES))
@guarded
def show(name: Name, as_json: Json = False, svg: Svg = None) -> None:
    """Show a topology's nodes, addresses and links."""
    output = Output(as_json=as_json)
    topology = topologies.load(name)
    output.data({"name": topology.name, "nodes": _nodes(topology), "links": _links(topology)})
    nodes = [["" if cell is None else str(cell) for cell in node.values()] for node in _nodes(topology)[:SHOWN]]
    output.table(["node", "kind", "role", "aggregates", "IPv4", "MAC", "ports"], nodes, title=topology.name)
    rows = [
        [link["a"], str(link["port_a"]), link["b"], str(link["port_b"]), rate_text(link["rate_bps"]),
         time_text(link["delay_ps"])] for link in _links(topology)[:SHOWN]
    ]  # fmt: skip
    output.table(["link", "port", "to", "port", "rate", "delay"], rows)
    if len(topology.nodes) > SHOWN or len(topology.links) > SHOWN:
        output.note(
            f"the first {SHOWN} of {len(topology.nodes)} nodes and {len(topology.links)} links; --json gives all"
        )
    if svg is not None:
        write_text(svg, topology_svg(topology))
        output.note(f"wrote {svg}")


@app.command("capable", epilog=epilog(*CAPABLE_EXAMPLES))
@guarded
def capable(name: Name, *, count: Count, tasks: Tasks, as_json: Json = False) -> None:
    """Choose the switches that should aggregate for some tasks, the one that saves most first.

    For one task this is SOAR's optimum on its shortest paths; for several, greedy over all of them together.
    """
    from p4reduce.control_plane.orchestrator.trace import read_trace  # noqa: PLC0415  (slow to import)
    from p4reduce.control_plane.scheduling.policies import choose_capable_for  # noqa: PLC0415

    output = Output(as_json=as_json)
    topology = topologies.load(name)
    wanted = read_trace(tasks)
    if not wanted:
        raise BadInput(f"--tasks: {tasks}: lists no task")
    chosen = choose_capable_for(topology, wanted, count)
    output.data({"topology": topology.name, "tasks": len(wanted), "capable": list(chosen)})
    output.table(["", "switch"], [[str(place), switch] for place, switch in enumerate(chosen, 1)])
    if len(chosen) < count:
        output.note(f"{len(chosen)} of {count}: more would save nothing")


@app.command("upgrade", epilog=epilog(*UPGRADE_EXAMPLES))
@guarded
def upgrade(
    name: Name,
    *,
    count: Annotated[int, typer.Option("--count", "-k", min=1, help="How many switches to make programmable.")],
    workers: Annotated[int | None, typer.Option("--workers", "-n", help="Hosts that take part; all if absent.")] = None,
    elements: Annotated[int, typer.Option("--elements", "-e", min=1, help="float32 elements of the tensor.")] = 262_144,
    lanes: Annotated[int, typer.Option("--lanes", "-l", help="Lanes of a frame: 64 or 256.")] = 256,
    samples: Annotated[int, typer.Option("--samples", min=0, help="Random sets to compare with.")] = 10,
    seed: Annotated[int, typer.Option("--seed", help="Of the random sets.")] = 0,
    packets: Annotated[bool, typer.Option(help="Run plan best with each set, too.")] = True,
    as_json: Json = False,
) -> None:
    """Choose switches to make programmable: those with which the bound of the best plan falls most.

    Beside it: what SOAR would choose, which counts copies on all links, random sets, none and all; and what plan best
    takes with each of them, on packets.
    """
    from p4reduce.control_plane.plans.upgrade import Upgrade  # noqa: PLC0415  (slow to import)
    from p4reduce.control_plane.scheduling.policies import choose_capable  # noqa: PLC0415
    from p4reduce.runs.virtual.cluster import worker_hosts  # noqa: PLC0415

    output = Output(as_json=as_json)
    topology = topologies.load(name)
    if lanes not in (64, 256):
        raise BadInput(f"--lanes: {lanes}: the bundled programs have 64 or 256")
    search = Upgrade(topology, worker_hosts(topology, workers), elements, lanes)
    if not search.candidates:
        raise BadInput(f"{topology.name}: every switch can aggregate already; take one with capable=none, or a file")
    with progress_bar(output) as open_bar:
        bar = open_bar("bounds")
        ours = search.best(count, lambda done, most: bar("linear programs", done, most))
        everything = topologies.with_capable(topology, list(search.candidates))
        to, *others = [*(host.name for host in topology.servers), *search.workers]
        soar = choose_capable(everything, [one for one in others if one in search.workers], to, count)
        rows = [("none", search.bound(())), ("bound", ours), ("SOAR", search.bound(soar))]
        drawn = sorted(search.drawn(count, samples, seed), key=lambda one: one.bound_ps)
        rows += [(f"random {place}", one) for place, one in enumerate(drawn, 1)]
        rows.append(("all", search.bound(search.candidates)))
        bar = open_bar("plan best on packets")
        found: list[dict[str, Any]] = []
        for done, (by, choice) in enumerate(rows):
            bar(by, done, len(rows))
            took = _best_on_packets(search.with_switches(choice.switches), search, lanes) if packets else {}
            found.append({"by": by, "switches": list(choice.switches), "bound_us": choice.bound_ps / PS_PER_US} | took)
    output.data({"topology": topology.name, "count": count, "choices": found})
    table = [
        [
            str(row["by"]),
            ", ".join(row["switches"]) if row["by"] != "all" else f"{len(row['switches'])} switches",
            time_text(row["bound_us"] * PS_PER_US),
            f"{row['bound_us'] / found[0]['bound_us']:.3f}",
            f"{time_text(row['took_us'] * PS_PER_US)} ({row['plan']})" if packets else "-",
        ]
        for row in found
    ]
    output.table(["chosen by", "switches", "bound", "of none", "plan best takes"], table)


def _best_on_packets(topology: Topology, search: "Upgrade", lanes: int) -> dict[str, Any]:
    """How long an all-reduce by plan best takes in virtual time, and which plan that is."""
    from p4reduce.runs.experiment import Experiment  # noqa: PLC0415  (slow to import)
    from p4reduce.runs.runner import run_experiment  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="p4reduce-upgrade-") as folder:
        path = Path(folder) / "topology.yaml"
        topologies.save(topology, path)
        done = run_experiment(
            Experiment(
                topology=str(path), plan="best", workers=len(search.workers), elements=search.elements, lanes=lanes
            )
        )
    return {"took_us": done.network.communication_ps / PS_PER_US, "plan": done.network.plan}


def _counts(name: str, topology: Topology) -> dict[str, Any]:
    return {
        "name": name,
        "workers": len(topology.workers),
        "servers": len(topology.servers),
        "switches": len(topology.switches),
        "capable": sum(switch.capable for switch in topology.switches),
        "links": len(topology.links),
    }


def _nodes(topology: Topology) -> list[dict[str, Any]]:
    return [
        {
            "name": node.name,
            "kind": node.kind,
            "role": node.role,
            "capable": node.capable,
            "ip": None if node.is_crossconnect else node.ip_text,
            "mac": None if node.is_crossconnect else node.mac_text,
            "ports": len(topology.neighbours(node.name)),
        }
        for node in topology.nodes
    ]


def _links(topology: Topology) -> list[dict[str, Any]]:
    return [
        {
            "a": link.a,
            "port_a": link.port_a,
            "b": link.b,
            "port_b": link.port_b,
            "rate_bps": link.rate_bps,
            "delay_ps": link.delay_ps,
        }
        for link in topology.links
    ]
