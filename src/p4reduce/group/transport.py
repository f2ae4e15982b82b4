"""Connections of ranks to their coordinator: a Unix socket, or from another machine TLS with a key of the group.

Each start of a group has its own key and self-signed certificate; both ends present it and trust no other. Any process
with the key is a member, so it is as secret as an SSH key: it is in no argument, variable, log or result, only in files
of mode 0600 (`Ticket`) and in memory. The certificate's dates are not checked: clocks of machines differ, and the key
expires with its group.
"""

import contextlib
import errno
import fcntl
import functools
import os
import secrets
import selectors
import socket
import ssl
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from p4reduce.base.records import from_json, to_file
from p4reduce.group.errors import ClusterError
from p4switch.base.files import read_text, whole

PROTOCOL: Final = 2
"""version of the messages in ``group/remote.py``; ends of different versions refuse each other"""
VERSION: Final[str] = sys.modules[__name__.partition(".")[0]].__version__
"""version of the package, which is imported before its modules"""
TICKET: Final = "P4REDUCE_TICKET"
"""environment variable: file of the `Ticket` of a group on another machine"""
UNIX: Final = "unix:"
TLS: Final = "tls://"
HANDSHAKE_S: Final = 10.0
"""Seconds after which a connection must have shown the key and said hello."""
CONNECT_TIMEOUT_S: Final = 30.0
_ONE_ADDRESS_S: Final = 5.0
_SIOCGIFADDR: Final = 0x8915
_SIOCGIFMTU: Final = 0x8921
"""linux/sockios.h; netdevice(7)"""
_NO_CHECK_TIME: Final = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME, openssl/x509_vfy.h"""
_CERTIFICATE: Final = "-----BEGIN CERTIFICATE-----"
MOST_TICKET: Final = 1 << 16
"""bytes"""


@dataclass(frozen=True)
class Keepalive:
    """When the kernel gives up a silent machine, in whole seconds."""

    idle_s: int = 10
    """silence before the first probe"""
    every_s: int = 5
    """interval between probes"""
    limit_s: int = 30
    """silence, or time without acknowledgement of sent data, after which the connection ends"""

    def apply(self, connection: socket.socket) -> None:
        """Set the options of a TCP connection (tcp(7))."""
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (
            (socket.TCP_NODELAY, 1),
            (socket.TCP_KEEPIDLE, self.idle_s),
            (socket.TCP_KEEPINTVL, self.every_s),
            (socket.TCP_KEEPCNT, max(1, (self.limit_s - self.idle_s) // self.every_s)),
            (socket.TCP_USER_TIMEOUT, 1000 * self.limit_s),
        ):
            connection.setsockopt(socket.IPPROTO_TCP, option, value)

    @property
    def named_s(self) -> int:
        """Return the seconds after which a vanished machine is named, at the latest."""
        return self.limit_s + self.every_s


KEEPALIVE: Final = Keepalive()


@dataclass(frozen=True)
class Ticket:
    """All that a process needs to join a group on another machine. It is a secret; see the module."""

    addresses: tuple[str, ...]
    """``tls://HOST:PORT``; the first that answers is used"""
    size: int
    """number of workers, those that may join included; they have the ranks from 0"""
    start: str
    """word that ranks of this start say"""
    version: str
    """version of p4reduce at the coordinator"""
    pem: str = field(repr=False)
    server: bool = False
    """whether the group has a parameter server, whose rank is ``size``"""

    def __str__(self) -> str:
        """Return its addresses, for errors."""
        return " or ".join(self.addresses)

    def nearest(self, host: str) -> "Ticket":
        """Return a ticket for a machine that reaches this one at ``host``: that address is tried first."""
        return replace(self, addresses=tuple(sorted(self.addresses, key=lambda url: parts(url)[0] != host)))

    def write(self, path: Path) -> None:
        """Write the ticket atomically to a file that only this user can read."""
        with whole(path) as aside:
            os.close(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            aside.write_text(to_file(self), "utf-8")

    @classmethod
    def read(cls, path: Path) -> "Ticket":
        """Read a ticket from a file. Raises ``ClusterError`` if it is invalid, or if other users can read it."""
        try:
            text, mode = read_text(path, MOST_TICKET), stat.S_IMODE(path.stat().st_mode)
        except (OSError, UnicodeDecodeError) as error:
            raise ClusterError(f"ticket {path}: {getattr(error, 'strerror', None) or error}") from None
        if mode & 0o077:
            raise ClusterError(f"ticket {path}: other users can read it (mode {mode:o}): chmod 600 {path}")
        try:
            return from_json(Ticket, text, f"ticket {path}")
        except ValueError as error:
            raise ClusterError(str(error)) from None


Address = str | Ticket
"""Path of a Unix socket (with or without ``unix:``), or a ticket."""


def make_key() -> str:
    """Return a new key and its certificate as PEM, made by ``openssl``. Raises ``ClusterError`` if that fails."""
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=p4reduce -days 3650"
    try:
        done = subprocess.run(
            [*command.split(), "-keyout", "-", "-out", "-"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
    except FileNotFoundError:
        raise ClusterError("TLS needs the program openssl, which makes the group's key: install it") from None
    except subprocess.CalledProcessError as error:
        raise ClusterError(f"openssl makes no key: {error.stderr.strip()[-200:]}") from None
    return done.stdout


def halves(pem: str) -> tuple[bytes, bytes]:
    """Return the key and the certificate of `make_key` separately."""
    at = pem.index(_CERTIFICATE)
    return pem[:at].encode(), pem[at:].encode()


@functools.lru_cache(8)
def context(pem: str, *, server: bool) -> ssl.SSLContext:
    """Return a TLS 1.3 context in which both ends present ``pem``'s certificate. Raises ``ClusterError`` if invalid."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname = False
    made.verify_mode = ssl.CERT_REQUIRED
    made.verify_flags = ssl.VerifyFlags(made.verify_flags | _NO_CHECK_TIME)
    if server:
        made.num_tickets = 0  # no client resumes a session
    try:
        with _in_memory(pem) as path:
            made.load_cert_chain(path)
        made.load_verify_locations(cadata=pem[pem.index(_CERTIFICATE) :])
    except (ssl.SSLError, ValueError):
        raise ClusterError("the group's key is none: it must be PEM with a private key and its certificate") from None
    return made


@contextlib.contextmanager
def _in_memory(text: str) -> Iterator[str]:
    """Yield the path of a file in memory, as OpenSSL reads keys only from files."""
    descriptor = os.memfd_create("p4reduce-key")
    try:
        os.write(descriptor, text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def parts(url: str) -> tuple[str, int]:
    """Return host and port of ``tls://HOST:PORT``; raise ``ClusterError`` for any other text."""
    with contextlib.suppress(ValueError):
        parsed = urlsplit(url)
        extra = parsed.path or parsed.query or parsed.fragment or parsed.username
        if parsed.scheme == "tls" and parsed.hostname and parsed.port is not None and not extra:
            return parsed.hostname, parsed.port
    raise ClusterError(f"{url!r} is no address: write tls://HOST:PORT")


def url_of(host: str, port: int) -> str:
    """Return the URL of a host and a port, the inverse of `parts`."""
    return f"{TLS}[{host}]:{port}" if ":" in host else f"{TLS}{host}:{port}"


def listen(host: str, port: int = 0) -> socket.socket:
    """Return a listening TCP socket at an address of this machine; raise ``ClusterError`` if that fails."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=socket.SOMAXCONN)
    except OSError as error:
        raise ClusterError(f"cannot listen at {url_of(host, port)}: {error.strerror or error}") from None


def source_towards(host: str) -> str | None:
    """Return this machine's source address of packets to ``host``, or None if there is no route."""
    for family, kind, protocol, _, address in _resolved(host):
        with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as probe:
            probe.connect(address)  # UDP: no packet is sent
            return str(probe.getsockname()[0])
    return None


def interface_of(address: str) -> tuple[str, int] | None:
    """Return name and MTU (bytes) of the interface with an IPv4 address, or None if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode())
            with contextlib.suppress(OSError):  # it has no IPv4 address
                if socket.inet_ntoa(fcntl.ioctl(asked, _SIOCGIFADDR, request)[20:24]) == address:
                    return name, int.from_bytes(fcntl.ioctl(asked, _SIOCGIFMTU, request)[16:20], sys.byteorder)
    return None


# Tests of firewalls: which packets from other machines reach this one, and the reverse.


PROBES: Final = 32
"""ports that are tested: one in each part of the kernel's ephemeral range (ip(7))"""
PORT_RANGE: Final = "net.ipv4.ip_local_port_range"
_COPIES: Final = 3
_TRIES: Final = 8
_LONGEST_WORD: Final = 24
_IP_MTU_DISCOVER: Final = 10
_IP_PMTUDISC_DO: Final = 2
"""linux/in.h: datagrams are not fragmented"""


class ProbedPorts:
    """TCP and UDP ports at which other machines test whether they reach this one; must be closed."""

    def __init__(self, host: str) -> None:
        """Open the ports. ``host``: an address of this machine; any other raises ``OSError``."""
        low, high = map(int, Path("/proc/sys", PORT_RANGE.replace(".", "/")).read_text("utf-8").split())
        self._open = contextlib.ExitStack()
        self._datagrams: dict[int, socket.socket] = {}
        try:
            for part in range(PROBES):
                first, behind = (low + (high - low + 1) * at // PROBES for at in (part, part + 1))
                for _ in range(_TRIES):
                    port = first + secrets.randbelow(max(1, behind - first))
                    with contextlib.ExitStack() as pair:
                        try:
                            pair.enter_context(socket.create_server((host, port), backlog=socket.SOMAXCONN))
                            other = pair.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                            other.bind((host, port))
                        except OSError as error:
                            if error.errno != errno.EADDRINUSE:
                                raise
                            continue
                        other.setblocking(False)
                        self._datagrams[port] = other
                        self._open.push(pair.pop_all())
                        break
        except BaseException:
            self.close()
            raise
        self.ports: Final = tuple(self._datagrams)

    def heard(self) -> list[tuple[str, int, int]]:
        """Return word, port and size (bytes) of the datagrams received, each once."""
        came = set()
        for port, own in self._datagrams.items():
            with contextlib.suppress(BlockingIOError):
                while True:
                    data = own.recv(1 << 16)
                    came.add((data[:_LONGEST_WORD].rstrip(b"\0").decode(errors="replace"), port, len(data)))
        return sorted(came)

    def close(self) -> None:
        """Close the ports."""
        self._open.close()


def unreached(host: str, ports: Sequence[int], timeout_s: float) -> list[int]:
    """Return those of a machine's TCP ports to which no connection can be made."""
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as waiting:
        left = set(ports)
        for port in ports:
            connection = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            connection.setblocking(False)
            with contextlib.suppress(OSError):  # no route, or unknown name
                connection.connect_ex((host, port))
                waiting.register(connection, selectors.EVENT_WRITE, port)
        deadline = time.monotonic() + timeout_s
        while waiting.get_map() and (left_s := deadline - time.monotonic()) > 0:
            for key, _ in waiting.select(left_s):
                waiting.unregister(key.fileobj)
                own = key.fileobj
                if isinstance(own, socket.socket) and own.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                    left.discard(key.data)
    return sorted(left)


def cast(host: str, ports: Sequence[int], word: str, sizes: Sequence[int]) -> None:
    """Send datagrams of each size (bytes) that begin with ``word`` to each of a machine's UDP ports, several times."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_DO)
        for size in [*sizes] * _COPIES:
            for port in ports:
                with contextlib.suppress(OSError):  # no route, or too large
                    own.sendto(word.encode().ljust(size, b"\0"), (host, port))


def _resolved(host: str) -> Sequence[tuple[int, int, int, str, tuple[str | int, ...]]]:
    try:
        return socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)  # type: ignore[return-value]
    except OSError:
        return ()


def dial(address: Address, timeout_s: float = CONNECT_TIMEOUT_S) -> socket.socket:
    """Connect to the coordinator. Raises ``OSError`` if nothing answers at the address, or the peer has another key."""
    if isinstance(address, str):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(timeout_s)
        try:
            connection.connect(address.removeprefix(UNIX))
        except OSError:
            connection.close()
            raise
        return connection
    errors: list[OSError] = []
    for url in address.addresses:
        try:
            secure = context(address.pem, server=False).wrap_socket(
                socket.create_connection(parts(url), min(_ONE_ADDRESS_S, timeout_s))
            )
        except OSError as error:
            errors.append(error)
        else:
            KEEPALIVE.apply(secure)
            secure.settimeout(timeout_s)
            return secure
    raise next((error for error in errors if is_refusal(error)), errors[0] if errors else OSError("no address"))


def is_refusal(error: OSError) -> bool:
    """Return whether the other end has another key, so that retrying is useless."""
    return isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)


_CLOSED: Final = 7
"""TCP_CLOSE, net/tcp_states.h"""


def is_silent(connection: socket.socket) -> bool:
    """Return whether a connection ended because the other machine stopped answering. TLS reports that as EOF, too."""
    if connection.family == socket.AF_UNIX:
        return False
    with contextlib.suppress(OSError):
        state, _, again, probes = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 4)  # linux/tcp.h
        return state == _CLOSED and bool(again or probes)
    return False


def end(connection: socket.socket) -> None:
    """End a connection that another thread reads. `SSLSocket.shutdown` would let that thread go on without TLS."""
    with contextlib.suppress(OSError):  # it has ended already
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
