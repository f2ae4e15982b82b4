"""Both executors give BMv2's meter colors, digest contents and wide registers."""

import json

import pytest

from p4switch.device import Device
from p4switch.program import load_program
from p4switch.tables.profile import MeterConfig
from tests.support.conformance import told
from tests.support.conformance.fuzz.recording import sha256
from tests.support.conformance.fuzz.run import EXECUTORS

RECORDED = json.loads(told.RECORDING.read_text())
METERS = {told.BY_PACKETS: "ToldIngress.by_packets", told.BY_BYTES: "ToldIngress.by_bytes"}


@pytest.fixture(params=EXECUTORS)
def device(request):
    return Device(load_program(told.PROGRAM), executor=request.param)


def test_the_recording_is_of_the_program_that_is_carried():
    assert RECORDED["program_sha256"] == sha256(told.PROGRAM)


@pytest.mark.parametrize("number", range(len(told.METERS)))
def test_meters_at_real_rates_give_the_colors_of_bmv2(device, number):
    seen = told.Metered(**RECORDED["meters"][number])
    device.meters[METERS[seen.what]].write(seen.index, MeterConfig(*seen.config))
    given = []
    for at, length in zip(seen.times, seen.lengths, strict=True):
        ((port, left),) = device.inject(1, told.frame(seen.what, seen.index, length=length), time_us=at)
        assert port == 2
        given.append(told.values(left)["color"])
    assert given == seen.colors
    assert len(set(given)) > 1


def test_a_bucket_that_refills_ten_times_faster_gives_other_colors():
    seen = told.Metered(**RECORDED["meters"][0])
    faster = told.Metered(**{**RECORDED["meters"][0], "config": [10 * rate for rate in seen.config]})
    assert told.colors(seen, seen.times) == seen.colors
    assert told.colors(faster, seen.times) != seen.colors


def test_digests_hold_what_bmv2s_held(device):
    assert len(RECORDED["digests"]) >= 20
    for one in RECORDED["digests"]:
        device.inject(one["port"], bytes.fromhex(one["frame"]))
        assert list(device.digests.pop().values) == one["values"]


def test_register_cells_above_2_to_63_read_back_as_in_bmv2(device):
    loads = 0
    for one in RECORDED["registers"]:
        sent = bytes.fromhex(one["frame"])
        ((_, left),) = device.inject(1, sent)
        read = told.values(left)
        assert (read["narrow"], read["wide"]) == (one["narrow"], one["wide"])
        loads += sent[0] == told.LOAD and one["narrow"] >= 1 << 63
    assert loads >= 5
