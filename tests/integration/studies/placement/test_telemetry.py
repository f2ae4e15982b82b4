"""Counters read while packets cross the P4 program: their values and their cost."""

import finsy as fy
import grpc
import numpy as np
import pytest
from finsy.proto import p4r, p4r_grpc

from p4reduce.control_plane.counters import requests
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.network.background import SourceOptions
from p4reduce.network.jobs.network import EmbeddedSwitches, JobNetwork, bundled
from p4reduce.topologies import load
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from p4switch.base.values import PS_PER_S
from studies.placement import telemetry
from studies.placement.calibration import AROUND, LANES, NUMBERS
from studies.placement.telemetry import SHARE, TOPOLOGY, Bursting, OnOff, Reader, TelemetryCell, run_telemetry


def test_readings_that_no_placement_uses_need_not_be_made(monkeypatch):
    unit = TelemetryCell(Bursting(0.4, 3), "counters", 0.15, 0.0, 2)
    (few,) = run_telemetry(unit)
    monkeypatch.setattr(telemetry, "DENSE_S", 0.0)
    (every,) = run_telemetry(unit)
    assert few.readings < every.readings
    assert (few.jct_s, few.age_s) == (every.jct_s, every.age_s)


def test_readings_see_bursts_beside_a_job_and_their_messages_are_counted():
    topology, expected = load(TOPOLOGY), SHARE * 100e6 * (1086 / (SourceOptions().frame_bytes + AROUND))
    with (
        EmbeddedSwitches(topology, bundled(LANES)) as switches,
        JobNetwork(switches, background=OnOff("gravity", SHARE / 2, 1, mean_s=1000.0)) as network,
    ):
        plan = switches.controller.start_job(
            PlanRequest("steiner", job=1, workers=("h1", "h2", "h4", "h5"), server=None, lanes=LANES)
        )
        job, reader = network.add(plan, NUMBERS), Reader(switches, network, 0.0)
        ones = {host: np.ones(64 * LANES, np.float32) for host in job.members}
        for host, index in job.members.items():
            network.post(index, Post(Collective.ALL_REDUCE, ones[host], ones[host]))
        reader.read()
        assert reader.known == {}  # a single reading gives no rate
        network.advance(PS_PER_S // 10)
        reader.read()
        taken = {hop: bps for hop, bps in reader.known.items() if bps}
        up, down = ("leaf1", topology.port("leaf1", "spine1")), ("spine1", topology.port("spine1", "leaf2"))
        assert taken == {up: pytest.approx(expected, rel=0.01), down: pytest.approx(expected, rel=0.01)}
        assert ones["h1"].tolist() == [4.0] * (64 * LANES)
        schema = fy.P4Schema(switches.controller.program.info, switches.controller.program.json)
        length = 0
        for target in switches.targets():
            asked = p4r.ReadRequest(device_id=target.device_id)
            asked.entities.extend(one.encode(schema) for one in requests(topology, target.name, [plan]))
            with grpc.insecure_channel(target.address) as channel:
                answers = list(p4r_grpc.P4RuntimeStub(channel).Read(asked))
            length += len(asked.SerializeToString()) + sum(len(answer.SerializeToString()) for answer in answers)
        before = reader.bytes
        reader.read()
        assert reader.bytes - before == length > 1000
