"""What a user writes for devices, ports and the address to listen on."""

import ipaddress
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from p4reduce.cli.failures import BadInput
from p4reduce.dataplane.abi import MAX_PORT

if TYPE_CHECKING:
    from p4reduce.fabric.real.io.ports import PortSpec

MAX_DEVICES: Final = 4096
"""Devices of one process; a guard against a slip in a range."""

_RANGE: Final = re.compile(r"(\d{1,19})(?:-(\d{1,19}))?")


def device_ids(text: str) -> list[int]:
    """Device ids from "1", "1-300" or "1-3,7". Raises BadInput."""
    ids: set[int] = set()
    for part in text.split(","):
        found = _RANGE.fullmatch(part.strip())
        if found is None:
            raise BadInput(f"--device-id {text}: {part!r} is neither a number nor a range such as 1-300")
        first, last = int(found[1]), int(found[2] or found[1])
        if not 0 < first <= last < 1 << 64:
            raise BadInput(f"--device-id {text}: {part!r} is empty or not above 0")
        if len(ids) + last - first + 1 > MAX_DEVICES:
            raise BadInput(f"--device-id {text}: more than {MAX_DEVICES} devices in one process")
        ids.update(range(first, last + 1))
    return sorted(ids)


def check_address(address: str, *, secured: bool, insecure: bool) -> None:
    """Refuses addresses that cannot be meant, or that would let anyone on the network program the switch.

    Args:
        address: host:port.
        secured: whether TLS is used.
        insecure: the user insists.

    Raises:
        BadInput.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise BadInput(f"--grpc-addr {address}: expected host:port, such as 127.0.0.1:9559 (port 0 takes a free one)")
    if not secured and not insecure and not _is_loopback(host):
        raise BadInput(
            f"--grpc-addr {address}: anyone who reaches this address could program the switch; give --tls-cert and"
            " --tls-key (and --tls-ca, so that clients need a certificate), listen on 127.0.0.1, or say --insecure"
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def port_file(option: str, text: str, devices: list[int]) -> tuple[int, int, Path]:
    """(device id, port, file) from "3=in.pcap", or "7:3=in.pcap" where there are several devices. Raises BadInput."""
    where, equals, path = text.partition("=")
    if not equals or not path:
        raise BadInput(f"{option} {text}: expected PORT=FILE, or DEVICE:PORT=FILE")
    return *device_port(option, where, devices), Path(path)


def device_port(option: str, text: str, devices: list[int]) -> tuple[int, int]:
    """(device id, port) from "3" or "7:3". Raises BadInput."""
    device, colon, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) >= MAX_PORT:
        raise BadInput(f"{option} {text}: a port is a number in 0..{MAX_PORT - 1}")
    if not colon:
        if len(devices) > 1:
            raise BadInput(f"{option} {text}: there are {len(devices)} devices; say which: {devices[0]}:{text}")
        return devices[0], int(port)
    if not device.isascii() or not device.isdigit() or int(device) not in devices:
        raise BadInput(f"{option} {text}: there is no device {device!r}; see --device-id")
    return int(device), int(port)


_UDP: Final = re.compile(
    r"udp:(?P<local>[^:\[\]]+|\[[^\]]+\]):(?P<port>\d+):(?P<remote>[^:\[\]]+|\[[^\]]+\]):(?P<to>\d+)"
)


def port_spec(text: str) -> "PortSpec":
    """What is behind a port: "veth0", or "udp:127.0.0.1:5001:192.0.2.7:5001" (own address, the other's).

    IPv6 addresses stand in brackets. Raises BadInput.
    """
    from p4reduce.fabric.real.io.ports import Udp, Veth  # noqa: PLC0415  (slow to import)

    if not text.startswith("udp:"):
        return Veth(text, shaped=True)  # whatever the user has put on the interface
    found = _UDP.fullmatch(text)
    if found is None or max(int(found["port"]), int(found["to"])) > 65535:
        raise BadInput(f"-i …@{text}: expected udp:ADDRESS:PORT:ADDRESS:PORT, own address first")
    return Udp((_ip(text, found["local"]), int(found["port"])), (_ip(text, found["remote"]), int(found["to"])))


def _ip(text: str, address: str) -> str:
    try:
        return str(ipaddress.ip_address(address.strip("[]")))
    except ValueError:
        raise BadInput(f"-i …@{text}: {address} is no IP address") from None
