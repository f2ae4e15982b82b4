"""Ranks on other machines: ssh starts one agent on each, which starts ranks there and ends them with its launcher.

In real time an agent also executes its machine's part of the network, and forwards control connections of ranks.

The launcher and an agent (``python -m p4reduce.runs.agent``) exchange lines of JSON over the agent's standard input and
output, which ssh carries: requests (``do``) one way, news the other. Each sends something every `BEAT_S`; an end that
receives nothing for `SILENT_S` considers the other gone. An agent whose input ends, ends its ranks; if the agent is
killed by SIGKILL, its guardian ends the rest (`guarded`).
"""

if __name__ == "__main__":
    import p4reduce.base.short  # noqa: F401

import base64
import contextlib
import hashlib
import json
import os
import secrets
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from p4reduce import __version__
from p4reduce.base.errors import RealError
from p4reduce.base.records import RecordError, from_plain, to_plain
from p4reduce.base.signals import handling, raise_exit
from p4reduce.group.errors import ClusterError
from p4reduce.group.remote import SPEC, free_ports
from p4reduce.group.transport import TICKET, ProbedPorts, Ticket, cast, end, interface_of, source_towards, unreached
from p4reduce.network.real.net.state import RunFolder, guarded, remove_stale
from p4reduce.runs.launch import (
    RankProcess,
    end_all,
    script_command,
)
from p4reduce.runs.parallel import MachineSoftware, installed, no_room

if TYPE_CHECKING:
    from p4reduce.runs.real.part import InsidePart, MachinePart, PartProcess
    from p4reduce.runs.real.presence import Signs

BEAT_S: Final = 2.0
BUSY_S: Final = 0.2
"""seconds between two messages of an agent about the ranks that use CPU time, in real time"""
SILENT_S: Final = 20.0
END_S: Final = 2.0
"""Seconds between asking ranks to end and killing them, if the launcher is gone."""
BEGIN_S: Final = 60.0
"""seconds for an agent to start and report on its machine"""
REACH_S: Final = 3.0
"""seconds for one machine to connect to another"""
MOST_LINE: Final = 1 << 20
"""bytes of a message"""
PIECE: Final = 1 << 16
"""bytes of one piece of longer data"""
SEND_S: Final = 1.0
"""seconds for which a rank may take nothing that is sent to it"""
INTERFACE: Final = "GLOO_SOCKET_IFNAME"
CONTROL: Final = "group"
"""name of the socket by which ranks of a machine reach the coordinator, in real time"""


@dataclass(frozen=True)
class Here:
    """An agent's report on its machine."""

    version: str
    """version of p4reduce"""
    seen: str
    """address from which the launcher connected; "" if ssh does not say"""
    own: str
    """address to which it connected; "" likewise"""
    name: str
    named: str
    """address of the machine's own name there; "" if it has none"""
    mtu: int
    """MTU of the interface with ``own``, bytes; 0 if unknown"""
    port: int
    """free TCP port of the loopback interface"""
    digest: str
    """SHA-256 of the script there; "" if there is none"""
    fault: str
    """why no rank can start there, as far as the agent knows; "" otherwise"""
    lacks: dict[str, str]
    """Missing ones of the requested ``NEEDS`` (runs/real/part.py), with the reason."""
    no_room: tuple[str, ...] = ()
    """folders that cannot be written, with the reason; like the next field, filled only on request"""
    installed: MachineSoftware | None = None


# On the machine: the agent.


def main() -> int:
    """Obey the launcher until it closes the input or falls silent; return the exit code."""
    try:
        remove_stale()
        with handling(raise_exit, signal.SIGTERM, signal.SIGHUP), guarded(), RunFolder(kind="agent") as folder:
            _Here(folder).serve()
    except (OSError, RealError) as error:
        print(f"p4reduce: {error}", file=sys.stderr)
        return 1
    return 0


class _Here:
    """The agent of this machine: its ranks, and the connection to their launcher."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._aside = folder.aside()
        self._ranks: dict[int, RankProcess] = {}
        self._ticket = self._aside / "ticket.json"
        self._writing = threading.Lock()
        self._probed: ProbedPorts | None = None
        self._part: MachinePart | InsidePart | None = None
        self._signs: dict[int, Signs] = {}
        """signs of life of ranks in real time"""
        self._links: dict[int, socket.socket] = {}
        """control connections of ranks, by a number that the agent assigns"""

    def serve(self) -> None:
        """Serve until the launcher is gone; then end all ranks."""
        threading.Thread(target=self._beat, daemon=True).start()
        try:
            for request in lines(sys.stdin.fileno()):
                self._perform(request.pop("do", None), request)
        except (ClusterError, RecordError, KeyError, OSError) as error:
            self._say(failed=str(error))
        finally:
            with handling(signal.SIG_IGN, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                end_all(list(self._ranks.values()), END_S)
                if self._part is not None:
                    self._part.close()

    def _perform(self, what: object, request: dict[str, Any]) -> None:
        if what == "begin":
            os.environ.update(request["environment"])
            own = here(request["folder"], request["script"], request["needs"], examine=request["examine"])
            self._say(here=to_plain(own))
        elif what == "ticket":
            from_plain(Ticket, request["ticket"], "ticket").write(self._ticket)
        elif what == "start":
            self._start(**request)
        elif what == "signal" and request["rank"] in self._ranks:
            rank = self._ranks[request["rank"]]
            (rank.kill if request["kill"] else rank.terminate)()
        elif what == "clock":
            self._say(clock=[time.time(), time.monotonic_ns()])
        elif what == "listen":
            with contextlib.suppress(OSError):  # not an address of this machine
                self._probed = ProbedPorts(request["host"])
            self._say(probed=list(self._probed.ports) if self._probed else [])
        elif what == "reach":
            self._say(reached=[_reach(*target) for target in request["targets"]])
        elif what == "hear":
            self._say(heard=self._probed.heard() if self._probed else [])
        else:
            self._perform_real(what, request)

    def _perform_real(self, what: object, request: dict[str, Any]) -> None:
        """Carry out a request of a real-time run."""
        if what == "ports":
            self._say(ports=datagram_ports(request["address"], request["across"]))
        elif what == "unbound":
            self._say(ports=[port for port in request["ports"] if _is_unbound(port)])
        elif what == "part":  # in a thread, so that an agent that compiles still notices the launcher's end
            from p4reduce.runs.real import part  # noqa: PLC0415  (in real time alone)

            process = part.enter(self._folder) if request["share"]["inside"] is not None else None
            threading.Thread(target=self._open, args=(request, process), daemon=True).start()
        elif what == "count" and self._part is not None:
            self._say(counted=to_plain(self._part.counted()))
        elif what == "input" and request["rank"] in self._ranks:
            self._ranks[request["rank"]].send(request["line"])
        elif what == "control" and (link := self._links.get(request["number"])) is not None:
            if request["data"] is None:
                end(link)
                return
            try:
                link.sendall(base64.b64decode(request["data"]))
            except OSError:  # the rank is gone, or takes nothing
                end(link)

    def _start(
        self,
        rank: int,
        command: Sequence[str],
        environment: Mapping[str, str],
        host: str,
        spec: dict[str, Any] | None,
        report: str,
        asks: bool,
    ) -> None:
        entering = script_command(command)
        if self._part is not None:
            entering = self._part.entering(host, entering)
        towards = source_towards(environment.get("MASTER_ADDR", ""))
        interface = interface_of(towards) if towards else None
        gloo = {INTERFACE: interface[0]} if interface else {}
        own = {**os.environ, **gloo, **environment, TICKET: str(self._ticket), **self._folder.environment}
        if spec is not None:
            del own[TICKET]
            own[SPEC] = str(self._aside / f"{rank}.json")
            Path(own[SPEC]).write_text(
                json.dumps({**spec, "folder": str(self._aside), "coordinator": str(self._aside / CONTROL)}), "utf-8"
            )
        self._ranks[rank] = started = RankProcess(
            rank,
            entering,
            own,
            emit=lambda rank, stream, line: self._say(line=[rank, stream, line]),
            ended=lambda rank, code: self._tell_end(rank, code, report),
            asks=asks,
        )
        if spec is not None:
            from p4reduce.runs.real.presence import Signs  # noqa: PLC0415  (in real time alone)

            self._signs[rank] = Signs(started.pid)

    def _tell_end(self, rank: int, code: int, report: str) -> None:
        """Send the report that a rank has left, if any, and the rank's end."""
        with contextlib.suppress(OSError):
            text = (self._aside / report).read_text("utf-8") if report else ""
            for at in range(0, len(text), PIECE):
                self._say(report=[rank, text[at : at + PIECE]])
        self._say(ended=[rank, code])

    def _open(self, request: dict[str, Any], process: "PartProcess | None") -> None:
        """Open this machine's part of the network, and the socket by which ranks here reach the coordinator."""
        try:
            from p4reduce.runs.real.part import open_part  # noqa: PLC0415  (in real time alone)

            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind(str(self._aside / CONTROL))
            listener.listen(socket.SOMAXCONN)
            part = open_part(request, process)
        except (OSError, RuntimeError, ValueError) as error:
            self._say(part={"error": str(error)})
            return
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        self._part = part
        self._say(part={"p4runtime": part.p4runtime})

    def _accept(self, listener: socket.socket) -> None:
        """Forward connections of this machine's ranks to the coordinator; close those of other processes."""
        from p4reduce.runs.real.presence import is_of  # noqa: PLC0415  (in real time alone)

        number = 0
        while True:
            connection, _ = listener.accept()
            rank = next((rank for rank, process in list(self._ranks.items()) if is_of(connection, process.pid)), None)
            if rank is None:
                connection.close()
                continue
            number += 1
            connection.settimeout(SEND_S)
            self._links[number] = connection
            threading.Thread(target=self._carry, args=(number, rank, connection), daemon=True).start()

    def _carry(self, number: int, rank: int, connection: socket.socket) -> None:
        while True:
            try:
                data = connection.recv(PIECE)
            except TimeoutError:
                continue
            except OSError:
                data = b""
            if not data:
                break
            self._say(control=[number, rank, base64.b64encode(data).decode()])
        self._say(control=[number, rank, None])
        del self._links[number]
        connection.close()

    def _beat(self) -> None:
        while True:
            if self._part is None:
                self._say()
                time.sleep(BEAT_S)
                continue
            try:
                self._part.check()
            except (RuntimeError, ValueError) as error:
                self._say(failed=str(error))
            self._say(busy=[rank for rank, signs in list(self._signs.items()) if signs.seen()])
            time.sleep(BUSY_S)

    def _say(self, **news: Any) -> None:
        data = json.dumps(news).encode() + b"\n"
        with self._writing, contextlib.suppress(OSError):  # the launcher is gone, which the input shows
            while data:
                data = data[os.write(sys.stdout.fileno(), data) :]


def here(folder: str, script: str | None, needs: Sequence[str] = (), *, examine: bool = False) -> Here:
    """Report on this machine; change to the launcher's folder and hash its script, if they exist.

    needs: those of ``NEEDS`` to check. examine: whether to report on disks and software, too.
    """
    digest, fault = "", ""
    try:
        os.chdir(folder)
        if script is not None:
            digest = digest_of(script)
    except OSError as error:
        fault = f"{error.filename}: {error.strerror}: the launcher's folder must be there; share or copy it"
    seen, _, own, _ = (os.environ.get("SSH_CONNECTION", "").split() + [""] * 4)[:4]
    name, named = socket.gethostname(), ""
    with contextlib.suppress(OSError):
        named = socket.gethostbyname(name)
    _, mtu = interface_of(own) or ("", 0)
    lacks: dict[str, str] = {}
    if needs:
        from p4reduce.runs.real.part import NEEDS  # noqa: PLC0415  (in real time alone)

        lacks = {need: why for need in needs if (why := NEEDS[need]()) is not None}
    more = (no_room(), installed()) if examine else ()
    (port,) = free_ports(1)
    return Here(__version__, seen, own, name, named, mtu, port, digest, fault, lacks, *more)


def digest_of(script: str) -> str:
    """Return the SHA-256 of a file, hexadecimal."""
    return hashlib.sha256(Path(script).read_bytes()).hexdigest()


def datagram_ports(address: str, across: Sequence[bool]) -> list[tuple[str, int]]:
    """Return distinct free UDP ports: of ``address`` for each ``across``, else of a loopback address of this call.

    Raises ``OSError`` if this machine does not have that address, or too few ports.
    """
    inside = f"127.{secrets.randbelow(254) + 1}.{secrets.randbelow(256)}.{secrets.randbelow(254) + 1}"
    counts = {inside: len(across) - sum(across), address: sum(across)}
    ports = {host: iter(free_ports(count, host, socket.SOCK_DGRAM)) for host, count in counts.items() if count}
    hosts = [address if is_across else inside for is_across in across]
    return [(host, next(ports[host])) for host in hosts]


def _is_unbound(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        probe.bind(("", port))
        return True
    return False


def _reach(host: str, ports: Sequence[int], word: str, sizes: Sequence[int]) -> list[int]:
    """Send datagrams to a machine's ports, and connect to them; return the ports that cannot be connected to."""
    cast(host, ports, word, sizes)
    return unreached(host, ports, REACH_S)


def lines(descriptor: int) -> Iterator[dict[str, Any]]:
    """Yield messages until the end, or `SILENT_S` without any; raise ``ClusterError`` for an invalid one."""
    buffer = bytearray()
    silent_s = BEGIN_S
    while select.select([descriptor], [], [], silent_s)[0]:
        silent_s, piece = SILENT_S, os.read(descriptor, 1 << 16)
        if not piece:
            return
        buffer += piece
        *whole, rest = buffer.split(b"\n")
        buffer = bytearray(rest)
        for line in whole:
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                message = None
            if not isinstance(message, dict):
                raise ClusterError(f"it said {bytes(line[:60])!r}, which is no message of p4reduce")
            yield message
        if len(buffer) > MOST_LINE:
            raise ClusterError(f"a message of more than {MOST_LINE} bytes")


if __name__ == "__main__":
    sys.exit(main())
