"""Free ports that no other process can take between the search and the use."""

import socket
from pathlib import Path

import pytest

from p4reduce.group.remote import free_ports


def test_they_are_free_apart_from_each_other_and_none_of_those_that_clients_get():
    ports = free_ports(20)
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii").split()[0])
    assert len(set(ports)) == 20
    assert max(ports) < first
    for port in ports:
        with socket.socket() as one:
            one.bind(("127.0.0.1", port))


def test_one_that_is_used_is_not_given(monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_ports(1)[0]))
        used = taken.getsockname()[1]
        monkeypatch.setattr("p4reduce.group.remote.random.randrange", lambda *_: used)
        with pytest.raises(OSError, match="no 1 free TCP ports"):
            free_ports(1)


def test_where_all_ports_are_for_clients_the_kernel_chooses(monkeypatch, tmp_path):
    (tmp_path / "range").write_text("1024\t65535\n")
    monkeypatch.setattr("p4reduce.group.remote._CLIENT_PORTS", tmp_path / "range")
    assert min(free_ports(2)) >= 1024
