"""A trace in a notebook: a packet's history as a table that contains only text."""

import dataclasses
import xml.etree.ElementTree as ET

import pytest

from p4reduce.topologies.files import load
from p4reduce_course.catalogue import find, home
from p4reduce_course.lab01.bench import roles, script
from p4reduce_course.lab01.grade import ROOT_SWITCH
from p4switch.device import Device
from p4switch.program import load_program
from p4switch.trace import Packet, PacketTrace, Recorder
from p4switch.trace.entries import load_entries
from tests.support.labs import SOLUTIONS
from tests.support.p4runtime.configs import json_path


@pytest.fixture(scope="module")
def traces() -> list[PacketTrace]:
    """Return the traces of the first two packets of lab 01's leaf1: a PUSH of each child."""
    program = load_program(json_path("p4reduce-64"))
    device = Device(program, executor="interpreted")
    load_entries(SOLUTIONS / "01/leaf1.yaml", program).apply(device)
    role = roles(load(home(find("01")) / "network.yaml"), ROOT_SWITCH)["leaf1"]
    return Recorder(device).run_all([Packet(step.frame, step.port, step.note) for step in script(role)[:2]])


def rows(trace):
    page = ET.fromstring(trace._repr_html_())  # noqa: S314  (our own)
    return [tuple("".join(cell.itertext()) for cell in row) for row in page.iter("tr")]


def test_what_happened_is_shown(traces):
    waits, completes = (rows(trace) for trace in traces)
    assert ("state", "start") in waits
    assert any(kind == "extract" and text.startswith("ethernet: dst=") for kind, text in waits)
    assert any(kind == "table" and "peer" in text and ": hit, " in text for kind, text in waits)
    assert any(kind == "change" and "slot_bitmap: 1 to 3" in text for kind, text in completes)
    assert ("left", "by port 3, 318 bytes") in completes
    assert not any(kind == "left" for kind, _ in waits)
    assert all(kind in ("change", "table") or len(text) < 200 for kind, text in waits if kind != "extract")


def test_what_somebody_wrote_is_text(traces):
    """A remark in a packet file, and the packet's bytes, are escaped."""
    said = "<script>alert('x')</script> & \"quoted\""
    page = dataclasses.replace(traces[0], note=said)._repr_html_()
    assert "<script" not in page
    caption = ET.fromstring(page).find("caption")  # noqa: S314
    assert caption is not None
    assert said in caption.text


def test_numbers_of_2048_bits_are_short(traces):
    assert len(traces[1]._repr_html_()) < 60_000
    assert "…" in traces[1]._repr_html_()
