"""leaf2 as a colleague left it: complete, and three entries wrong, other ones for each student."""

from __future__ import annotations

from typing import Final

from p4reduce.labs.frame.draws import EXAMPLE, Draws, personal
from p4reduce.labs.lab01.tree import EPOCH, JOB

NAME: Final = "01-sum-in-a-switch"

HEAD: Final = """\
# Lab 01, leaf2: a colleague's work. It loads, and three values are wrong: find
# them. README.md, step 10. h3 is behind port 1, h4 behind 2, the root behind 3.
"""
BODY: Final = """\
tables:
  - table: local_address
    match: {{hdr.ipv4.dst: 10.128.0.2}}
    action: is_local
  - table: job
    match: {{job: {job}, epoch: {epoch}}}
    action: inner
    params:
      generation: 1
      base: 0
      slots: 16
      full: {full}
      group: 1
      stats: 0
      parent_port: {parent_port}
      parent_mac: {parent_mac}
      parent_ip: 10.128.0.3
      parent_udp: 9400
  - table: peer
    match: {{ingress_port: 1, hdr.ipv4.src: 10.0.0.3, job: {job}, epoch: {epoch}}}
    action: child
    params: {{bit_: 0b01, lowest: 1}}
  - table: peer
    match: {{ingress_port: {h4_port}, hdr.ipv4.src: 10.0.0.4, job: {job}, epoch: {epoch}}}
    action: child
    params: {{bit_: {h4_bit}, lowest: {h4_lowest}}}
  - table: peer
    match: {{ingress_port: 3, hdr.ipv4.src: 10.128.0.3, job: {job}, epoch: {epoch}}}
    action: parent
  - table: replica
    match: {{egress_rid: 1}}
    action: address
    params: {{mac: 02:00:0a:00:00:03, ip: 10.0.0.3, udp: 9400}}
  - table: replica
    match: {{egress_rid: 2}}
    action: address
    params: {{mac: {h4_mac}, ip: 10.0.0.4, udp: 9400}}
multicast:
  - group: 1
    replicas:
      - {{port: 1, rid: 1}}
      - {{port: 2, rid: {h4_rid}}}
"""
RIGHT: Final = {
    "full": "0b11",
    "parent_port": "3",
    "parent_mac": "02:00:0a:80:00:03",
    "h4_port": "2",
    "h4_bit": "0b10",
    "h4_lowest": "0",
    "h4_mac": "02:00:0a:00:00:04",
    "h4_rid": "2",
}
WRONG: Final = {
    "full": ("0b10", "0b111"),
    "parent_port": ("1", "2"),
    "parent_mac": ("02:00:0a:80:00:02", "02:00:0a:00:00:03"),
    "h4_port": ("1", "4"),
    "h4_bit": ("0b01", "0b11"),
    "h4_lowest": ("1",),
    "h4_mac": ("02:00:0a:00:00:03", "02:00:0a:80:00:04"),
    "h4_rid": ("3", "4"),
}
MISTAKES: Final = 3


def job_of(draws: Draws) -> tuple[int, int]:
    """Job and epoch of a student's tree; those of the published solution are 1 and 0."""
    if draws == personal(NAME, EXAMPLE):
        return JOB, EPOCH
    return draws.integer("job", 2, 200), draws.integer("epoch", 1, 100)


def leaf2(draws: Draws, mistakes: int = MISTAKES) -> str:
    """The colleague's file; with no mistakes, what it should be."""
    job, epoch = job_of(draws)
    values = dict(RIGHT)
    for name in draws.shuffled("mistakes", sorted(WRONG))[:mistakes]:
        values[name] = draws.choice(f"mistake {name}", WRONG[name])
    return HEAD + BODY.format(job=job, epoch=epoch, **values)
