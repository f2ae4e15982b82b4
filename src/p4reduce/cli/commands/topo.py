"""``p4reduce topo``: known networks, and the contents of one."""

import tempfile
from pathlib import Path
from typing import Any, Final

from p4reduce import topologies
from p4reduce.base.errors import BadInput, MissingPackageError
from p4reduce.base.output import Output, progress_bar, rate_text, time_text
from p4reduce.cli.flags.network import TopoCapable, TopoImport, TopoList, TopoShow, TopoUpgrade
from p4reduce.control_plane.orchestrator.trace import read_trace
from p4reduce.control_plane.plans.upgrade import Upgrade
from p4reduce.control_plane.scheduling.policies import choose_capable, choose_capable_for
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.runner import run_experiment
from p4reduce.runs.virtual.cluster import worker_hosts
from p4reduce.topologies import Topology
from p4reduce.views.report.network import topology_svg
from p4switch.base.files import write_text
from p4switch.base.values import PS_PER_US

BUILDERS = (
    ("star:hosts=8", "hosts around one switch"),
    ("leaf-spine:leaves=2,spines=2,hosts=4,servers=1,oversubscription=2", "two levels"),
    ("fat-tree:k=4", "three levels of switches with k ports (Al-Fares et al. 2008)"),
    ("oxc:pods=8,hosts=4,ports=4,rate=25G", "pods around an optical cross-connect"),
    ("wan:graph=germany50,hosts=1,servers=1", "any graph of SNDlib or the Internet Topology Zoo"),
    ("wdm:graph=nobel-us,hosts=2", "cities with ROADMs and wavelengths"),
)
SHOWN: Final = 200
"""highest number of nodes, and of links, in a printed table"""


def list_(flags: TopoList) -> None:
    """List the bundled topologies and the builders."""
    output = Output(as_json=flags.as_json)
    bundled, missing = [], []
    for name in topologies.bundled():
        try:
            bundled.append((name, topologies.load(name)))
        except MissingPackageError as error:  # of wide-area networks
            missing.append(f"{name}: {error}")
    output.data(
        {
            "bundled": [_counts(name, topology) for name, topology in bundled],
            "builders": [example for example, _ in BUILDERS],
        }
    )
    rows = [[str(value) for value in _counts(name, topology).values()] for name, topology in bundled]
    output.table(["bundled", "workers", "servers", "switches", "capable", "links"], rows)
    for line in missing:
        output.note(line)
    output.line("builders, with parameters:")
    for example, says in BUILDERS:
        output.line(f"  {example}: {says}")


def show(flags: TopoShow) -> None:
    """Show the nodes, addresses and links of a topology."""
    output = Output(as_json=flags.as_json)
    topology = topologies.load(flags.topology)
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
    if flags.svg is not None:
        output.note(f"wrote {write_text(flags.svg, topology_svg(topology))}")


def capable(flags: TopoCapable) -> None:
    """Choose the switches that should aggregate for some tasks."""
    output = Output(as_json=flags.as_json)
    topology = topologies.load(flags.topology)
    wanted = read_trace(flags.tasks)
    if not wanted:
        raise BadInput(f"--tasks: {flags.tasks}: lists no task")
    chosen = choose_capable_for(topology, wanted, flags.count)
    output.data({"topology": topology.name, "tasks": len(wanted), "capable": list(chosen)})
    output.table(["", "switch"], [[str(place), switch] for place, switch in enumerate(chosen, 1)])
    if len(chosen) < flags.count:
        output.note(f"{len(chosen)} of {flags.count}: more would save nothing")


def upgrade(flags: TopoUpgrade) -> None:
    """Choose the switches that should be made programmable."""
    output = Output(as_json=flags.as_json)
    topology = topologies.load(flags.topology)
    search = Upgrade(topology, worker_hosts(topology, flags.workers), flags.elements, flags.lanes)
    if not search.candidates:
        raise BadInput(
            f"{topology.name}: every switch can aggregate already; use a topology with capable=none, or a file"
        )
    with progress_bar(output) as open_bar:
        bar = open_bar("bounds")
        ours = search.best(flags.count, lambda done, most: bar("linear programs", done, most))
        everything = topologies.with_capable(topology, list(search.candidates))
        to, *others = [*(host.name for host in topology.servers), *search.workers]
        soar = choose_capable(everything, [host for host in others if host in search.workers], to, flags.count)
        rows = [("none", search.bound(())), ("bound", ours), ("SOAR", search.bound(soar))]
        drawn = sorted(search.drawn(flags.count, flags.samples, flags.seed), key=lambda sample: sample.bound_ps)
        rows += [(f"random {place}", sample) for place, sample in enumerate(drawn, 1)]
        rows.append(("all", search.bound(search.candidates)))
        bar = open_bar("plan best on packets")
        choices: list[dict[str, Any]] = []
        for done, (by, choice) in enumerate(rows):
            bar(by, done, len(rows))
            took = _best_on_packets(search.with_switches(choice.switches), search, flags.lanes) if flags.packets else {}
            choices.append(
                {"by": by, "switches": list(choice.switches), "bound_us": choice.bound_ps / PS_PER_US} | took
            )
    output.data({"topology": topology.name, "count": flags.count, "choices": choices})
    table = [
        [
            str(row["by"]),
            ", ".join(row["switches"]) if row["by"] != "all" else f"{len(row['switches'])} switches",
            time_text(row["bound_us"] * PS_PER_US),
            f"{row['bound_us'] / choices[0]['bound_us']:.3f}",
            f"{time_text(row['took_us'] * PS_PER_US)} ({row['plan']})" if flags.packets else "-",
        ]
        for row in choices
    ]
    output.table(["chosen by", "switches", "bound", "of none", "plan best takes"], table)


def import_(flags: TopoImport) -> None:
    """Convert a file of another program to a topology."""
    output = Output(as_json=flags.as_json)
    topology, left_out = topologies.import_file(
        flags.file, flags.form, hosts=flags.hosts, servers=flags.servers, rate=flags.rate, delay=flags.delay
    )
    for line in left_out:
        output.note(f"left out: {line}")
    output.data({**_counts(topology.name, topology), "left_out": left_out})
    if flags.out is not None:
        output.note(f"wrote {write_text(flags.out, topologies.to_yaml(topology))}")
    elif not flags.as_json:
        print(topologies.to_yaml(topology), end="")


def _best_on_packets(topology: Topology, search: Upgrade, lanes: int) -> dict[str, Any]:
    """Return the virtual time of an all-reduce by plan `best`, and the plan that it chose."""
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
