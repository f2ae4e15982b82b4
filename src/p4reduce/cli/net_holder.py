"""The process that holds a standing network: ``python -m p4reduce.cli.net_holder``, in separate namespaces.

It reads a line of JSON (:class:`~p4reduce.cli.net_holder.WantedNetwork`), builds the network, writes ``{"ready":
name}`` or ``{"failed": why}`` to its output, and stays until it is told to end (SIGTERM). Later output goes to its log.
"""

if __name__ == "__main__":
    import p4reduce.base.short  # noqa: F401

import contextlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal, Protocol, cast

from p4reduce.base.errors import RealError
from p4reduce.base.records import from_json
from p4reduce.control_plane.connection import Target
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.runtime_file import SwitchProgram, install
from p4reduce.network.jobs.network import bundled
from p4reduce.network.real.bmv2 import Bmv2Switches
from p4reduce.network.real.io.path import PortSpec, Veth
from p4reduce.network.real.net import RealNetwork
from p4reduce.network.real.net.state import RunFolder
from p4reduce.network.real.relay import Relays
from p4reduce.network.real.switches import SwitchHost
from p4reduce.network.virtual.counters import LinkCounters
from p4reduce.network.virtual.records import FabricError, Faults
from p4reduce.runs.real.sights import SOCKET, InterfaceLinks, LinkSights, Showing, Sights, with_relays
from p4reduce.runs.real.wires import RELAYED_FROM_PS
from p4reduce.topologies import Topology, load
from p4reduce.topologies.model import Hop

if TYPE_CHECKING:
    from p4reduce.network.real.switches import SwitchHost


# The view of a standing network for observers (``p4reduce watch``, ``net up --live``).


NOTES: Final = (
    "Links by the kernel's counters of the switches' interfaces; queues are those that shape links to their rates. "
    "Queues of hosts, and what switches' queues dropped, are not counted.",
    "Trees, slots and windows belong to controllers and programs of yours, which do not report them here: "
    "'p4reduce launch --time real --live' shows those of a run.",
)


@contextmanager
def shown(
    path: Path, topology: Topology, network: RealNetwork, relays: Relays | None, host: SwitchHost | None
) -> Iterator[None]:
    """Answer observers of the network at a socket within the context. ``host``: embedded switches, or None for BMv2."""
    kernel = InterfaceLinks(topology, network.switch_interfaces)

    def links() -> LinkSights:
        return kernel() if relays is None else with_relays(kernel(), _relayed(network, relays))

    def plans() -> Sequence[Plan]:
        return ()

    sights = Sights(
        topology=topology,
        target="bmv2" if host is None else "embedded",
        links=links,
        plans=plans,
        host=host,
        interfaces=network.switch_interfaces,
        notes=NOTES,
    )
    try:
        with Showing(path, sights):
            yield
    finally:
        kernel.close()


def _relayed(network: RealNetwork, relays: Relays) -> Mapping[Hop, LinkCounters]:
    """Return the counters of each direction of the links that relays carry."""
    sent = {}
    for number, relay in enumerate(network.relays):
        there, back = relays.directions(number)
        sent[relay.link.a, relay.link.port_a] = there.out.sent
        sent[relay.link.b, relay.link.port_b] = back.out.sent
    return sent


# The description of a network to build, as sent to the process that holds it.


@dataclass(frozen=True)
class WantedNetwork:
    """A network to build and keep up."""

    topology: str
    """source for ``topologies.load``"""
    name: str | None
    target: Literal["embedded", "bmv2"]
    lanes: int | None
    """number of lanes of the bundled program, which comes with routes; None: switches without that program"""
    shape: bool
    trace: bool
    """whether BMv2 logs its processing of every packet"""
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    """probabilities for each frame on a link"""
    seed: int = 0
    programs: dict[str, tuple[str, str, str | None]] = field(default_factory=dict)
    """P4Info, BMv2 JSON and runtime file of each switch; then there is no bundled program"""


CONTROL_DEADLINE_S: Final = 60.0
P4RUNTIME_ADDRESS: Final = "127.0.0.1:9559"
"""default port of P4Runtime, which no other program uses in this network namespace"""
ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
LOOK_S: Final = 1.0
"""interval of checks of the switches, seconds"""


class HeldSwitches(Protocol):
    """Running switches; the interface is the same for BMv2 and the embedded switch."""

    @property
    def targets(self) -> list[tuple[str, str, int]]:
        """(switch, address, device id) of each switch."""

    def check(self) -> None:
        """Raise an error if a switch has ended."""


@contextlib.contextmanager
def open_switches(
    wanted: WantedNetwork, topology: Topology, network: RealNetwork, logs: Path
) -> Iterator[HeldSwitches]:
    """Run the switches of the wanted target, without a program."""
    if wanted.target == "bmv2":
        level = "trace" if wanted.trace else "warn"
        with Bmv2Switches(topology, network.switch_interfaces, logs, log_level=level) as bmv2:
            yield bmv2
    else:
        ports: dict[str, dict[int, PortSpec]] = {
            name: {port: Veth(interface, shaped=wanted.shape) for port, interface in own.items()}
            for name, own in network.switch_interfaces.items()
        }
        with embedded(topology, ports, P4RUNTIME_ADDRESS) as switches:
            yield switches


def embedded(topology: Topology, ports: Mapping[str, Mapping[int, PortSpec]], address: str) -> "SwitchHost":
    """Return the embedded switches of a topology between sockets, for any controller."""
    from p4reduce.network.real.switches import SwitchHost  # noqa: PLC0415  (slow to import)

    return SwitchHost({switch.name: switch.index + 1 for switch in topology.switches}, ports, address=address)


def hold(wanted: WantedNetwork, say: IO[str]) -> None:
    """Build the network, report that it is ready, and keep it until a signal ends this process."""
    topology = load(wanted.topology)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(RunFolder(wanted.name, kind="net"))
        os.environ.update(folder.environment)
        _log_to(folder.logs / "net.log")
        relayed = _needs_relays(wanted, topology)
        network = stack.enter_context(RealNetwork(topology, name=folder.name, shape=wanted.shape, relayed=relayed))
        relays = stack.enter_context(_relays(wanted, network)) if relayed else None
        checks = [] if relays is None else [relays.check]
        switches = stack.enter_context(open_switches(wanted, topology, network, folder.logs))
        if wanted.lanes is not None:
            _program(topology, switches, wanted.lanes)
        if wanted.programs:
            _own_programs(switches, wanted)
        view = folder.aside() / SOCKET
        host = None if wanted.target == "bmv2" else cast("SwitchHost", switches)
        stack.enter_context(shown(view, topology, network, relays, host))
        what = f"{topology.name}, {wanted.target}"
        folder.note(**describe(wanted, topology, network, switches), view=str(view), what=what)
        json.dump({"ready": folder.name}, say)
        say.write("\n")
        say.close()
        _watch([*checks, switches.check], folder)


def _needs_relays(wanted: WantedNetwork, topology: Topology) -> bool:
    """Return whether links need more than the kernel's shaping: faults, or delays that processes do not add anyway."""
    late = max(link.delay_ps for link in topology.links) >= RELAYED_FROM_PS
    return late or max(wanted.loss, wanted.duplicate, wanted.reorder) > 0


def _relays(wanted: WantedNetwork, network: RealNetwork) -> Relays:
    return Relays(
        [(relay.a_interface, relay.b_interface) for relay in network.relays],
        faults=Faults(loss=wanted.loss, duplicate=wanted.duplicate, reorder=wanted.reorder),
        delay_ps=[relay.link.delay_ps for relay in network.relays],
        seed=wanted.seed,
    )


def _watch(checks: Sequence[Callable[[], None]], folder: RunFolder) -> None:
    """Check periodically. If a switch ends, note it and keep the rest and its logs for inspection."""
    while True:
        time.sleep(LOOK_S)
        try:
            for check in checks:
                check()
        except (RealError, FabricError) as error:
            print(error, flush=True)
            folder.note(broken=str(error))
            signal.pause()


def describe(wanted: WantedNetwork, topology: Topology, network: RealNetwork, switches: HeldSwitches) -> dict[str, Any]:
    """Return the facts of the network for other processes, as data for JSON."""
    return {
        "topology": topology.name,
        "target": wanted.target,
        "program": _name(wanted),
        "since": int(time.time()),
        "shaped": network.shaping.shaped > 0,
        "relayed": len(network.relays) > 0,
        "hosts": {host.name: {"ip": host.ip_text, "net": network.namespace(host.name)} for host in topology.hosts},
        "switches": {
            name: {
                "address": address,
                "device_id": device_id,
                "interfaces": {str(port): interface for port, interface in network.switch_interfaces[name].items()},
            }
            for name, address, device_id in switches.targets
        },
        "net": f"/proc/{os.getpid()}/ns/net",
        "user": f"/proc/{os.getpid()}/ns/user",
    }


def _name(wanted: WantedNetwork) -> str | None:
    if wanted.programs:
        return ", ".join(dict.fromkeys(Path(p4_json).name for _, p4_json, _ in wanted.programs.values()))
    return None if wanted.lanes is None else f"p4reduce-{wanted.lanes}"


def _own_programs(switches: HeldSwitches, wanted: WantedNetwork) -> None:
    """Install the user's programs and entries; then the switches are free for another controller."""
    targets = {name: Target(name, address, device_id) for name, address, device_id in switches.targets}
    install(
        {
            targets[name]: SwitchProgram(Path(p4info), Path(p4_json), None if runtime is None else Path(runtime))
            for name, (p4info, p4_json, runtime) in wanted.programs.items()
        },
        deadline_s=CONTROL_DEADLINE_S,
    )
    switches.check()


def _program(topology: Topology, switches: HeldSwitches, lanes: int) -> None:
    """Install the bundled program and its routes; then the controller leaves, and another may take its place."""
    files = bundled(lanes)
    targets = [Target(*target) for target in switches.targets]
    with Controller(topology, targets, files, deadline_s=CONTROL_DEADLINE_S):
        switches.check()


def _log_to(log: Path) -> None:
    """Redirect all further output of this process to its log."""
    with log.open("ab") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())


def _end(number: int, frame: object) -> None:
    for again in ENDING:
        signal.signal(again, signal.SIG_IGN)  # ignores further signals during the cleanup
    raise SystemExit(0)


def main() -> int:
    """Run the process as the module's docstring says; return its exit code."""
    for number in ENDING:
        signal.signal(number, _end)
    wanted = from_json(WantedNetwork, sys.stdin.readline(), "the network that is to stand")
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as say:
        try:
            hold(wanted, say)
        except Exception as error:
            traceback.print_exc()
            if not say.closed:
                json.dump({"failed": str(error) or type(error).__name__}, say)
                say.write("\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
