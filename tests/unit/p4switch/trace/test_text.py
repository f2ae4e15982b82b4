"""A trace as text for people, and the same as JSON."""

import dataclasses
import json

import pytest

from p4reduce.topologies.files import load
from p4reduce.workers import wire
from p4reduce_course.catalogue import find, home
from p4reduce_course.lab01.bench import CHILD, JOBS, PEERS, roles, script
from p4reduce_course.lab01.grade import ROOT_SWITCH
from p4switch.device import Device
from p4switch.interpreter.trace import PrimitiveRun, StageStarted, TableApplied, Verdict
from p4switch.program import load_program
from p4switch.trace import Packet, Recorder, TextFormat, packet_json
from p4switch.trace.entries import load_entries
from p4switch.trace.record import ReadableNames, outcome_of
from p4switch.trace.to_text import Glossary, SourceLines, from_sources, of_folder, summary
from tests.support import paths
from tests.support.labs import SOLUTIONS
from tests.support.p4runtime.configs import COMPILED, json_path

INGRESS = "EntitiesIngress."
P4SRC = COMPILED.parent
LAB = home(find("01"))


@pytest.fixture(scope="module")
def inc():
    """The bundled program, its glossary and the traces of all packets of lab 01's leaf1."""
    program = load_program(json_path("p4reduce-64"))
    device = Device(program, executor="interpreted")
    load_entries(SOLUTIONS / "01" / "leaf1.yaml", program).apply(device)
    role = roles(load(LAB / "network.yaml"), ROOT_SWITCH)["leaf1"]
    packets = [Packet(step.frame, step.port, step.note) for step in script(role)]
    text = TextFormat(program, SourceLines([P4SRC.parent]), of_folder(P4SRC))
    return text, Recorder(device).run_all(packets)


def lines(text, trace):
    return [line.plain for line in text.packet(trace)]


def one(found, *words):
    """Return the only line that contains all words."""
    (line,) = [line for line in found if all(word in line for word in words)]
    return line


def test_a_packet_that_is_taken_in(inc):
    text, traces = inc
    found = lines(text, traces[0])
    assert found[0] == "packet 1: port 1, 318 bytes  # PUSH of chunk 0 from h1"
    assert found[1].startswith("  PUSH job=1 epoch=0 seq=0 count=1 iteration=0 exponent=0 has_lanes [")
    assert found[1].endswith("10.0.0.1 -> 10.128.0.1")
    assert "  state parse_inc" in found
    assert "    select (2048) -> parse_ipv4" in found
    peer = one(found, "table IncIngress.aggregate.peer (std.ingress_port=1, hdr.ipv4.src=10.0.0.1")
    assert ": hit {1, 10.0.0.1, 1, 0} -> IncIngress.aggregate.child(bit_=1, lowest=1)" in peer
    assert "p4src/aggregate.p4:" in peer
    assert "0 -> 1" in one(found, "meta.slot_bitmap: ", "meta.child;")
    assert "= meta.child;" in one(found, "meta.slot_bitmap: ", "meta.child;")
    assert "0x00000000 00000000 00000000 ... 00000000 (2048 bits) ->" in one(found, "write IncIngress", "lanes_0[0]")
    assert "packets 0 -> 1, bytes 0 -> 318" in one(found, "count IncIngress.aggregate.job_received")
    dropped = "outcome dropped: egress_spec is the drop port, by IncIngress.aggregate.wait (p4src/aggregate.p4:"
    assert found[-3].startswith(dropped)
    assert "mark_to_drop(std);" in found[-3]
    assert found[-2] == "  nothing left"


def test_state_carries_over_and_the_sum_leaves(inc):
    text, traces = inc
    found = lines(text, traces[1])
    assert "1 -> 3" in one(found, "meta.slot_bitmap: ", "bitmap | meta.child")
    assert found[-3].startswith("outcome to port 3, by IncIngress.aggregate.up (p4src/aggregate.p4:")
    assert found[-2].startswith("  left by port 3, 318 bytes: PUSH job=1 epoch=0 seq=0 count=2 ")
    assert found[-2].endswith("10.128.0.1 -> 10.128.0.3")


def test_a_multicast_names_its_copies(inc):
    text, traces = inc
    result = next(t for t in traces if t.note.startswith("RESULT of"))
    found = lines(text, result)
    assert one(found, "outcome to multicast group 1, by IncIngress.aggregate.down")
    assert [line for line in found if line.startswith("  copy: ")] == ["  copy: port 1, rid 1", "  copy: port 2, rid 2"]
    left = [line for line in found if "left by port" in line]
    assert [line.rpartition("-> ")[2] for line in left] == ["10.0.0.1", "10.0.0.2"]
    assert all(": RESULT job=1" in line for line in left)


def test_a_refusal_is_explained_by_the_programs_own_words(inc):
    text, traces = inc
    found = lines(text, traces[-1])
    assert one(found, "outcome dropped").endswith(
        "refused 8, PEER: not a child or parent: port, source, job or epoch is wrong"
    )
    assert one(found, "meta.refused: 0 -> 8 (PEER:")
    assert one(found, "table IncIngress.aggregate.peer", ": miss -> IncIngress.aggregate.stranger()")


def test_conditions_are_told_as_the_program_decides_them(inc):
    """p4c inverted this condition: the source says !isValid(), the program isValid()."""
    text, traces = inc
    source = (paths.ROOT / "p4src/p4reduce.p4").read_text().splitlines()
    (number,) = (number for number, line in enumerate(source, 1) if "if (!hdr.ipv4.isValid())" in line)
    assert "  if (ipv4.isValid())  -> true" in one(lines(text, traces[0]), f"p4src/p4reduce.p4:{number} ")


def test_brief_leaves_out_what_changes_nothing(inc):
    text, traces = inc
    brief = dataclasses.replace(text, all_writes=False)
    full, short = lines(text, traces[1]), lines(brief, traces[1])
    assert any(": stays " in line for line in full)
    assert not any(": stays " in line for line in short)
    assert set(short) < set(full)


def test_an_inc_packet_is_summarized_with_the_names_of_the_wire_format(inc):
    text, traces = inc
    said = summary(traces[0].headers, text.glossary).split()
    names = {part.partition("=")[0] for part in said if "=" in part}
    assert names < {field.name for field in wire.INC.fields}
    kinds = {value: name for name, value in wire.PacketType.__members__.items()}
    assert {number: text.glossary.name("type", number) for number in kinds} == kinds


def test_the_glossary_knows_every_reason():
    glossary = from_sources([(P4SRC / "refuse.p4").read_text()])
    assert {glossary.name("meta.refused", n) for n in range(1, 15)} >= {"PEER", "DUPLICATE", "MALFORMED"}
    assert all(glossary("refused", n) for n in range(1, 15))
    assert glossary("egress_spec", 8) == ""


def test_json_says_the_same(inc):
    _, traces = inc
    for trace in traces:
        found = json.loads(json.dumps(packet_json(trace)))
        assert found["number"] == trace.number
        assert bytes.fromhex(found["frame"]) == trace.frame
        assert len(found["events"]) == len(trace.events)
        assert [s["port"] for s in found["sent"]] == [s.port for s in trace.sent]
    first = packet_json(traces[0])
    (peer,) = [e for e in first["events"] if e["event"] == "TableApplied" and e["table"] == PEERS]
    assert peer["hit"]
    assert peer["action"] == CHILD
    assert peer["keys"] == {"std.ingress_port": 1, "hdr.ipv4.src": 0x0A000001, "hdr.inc.job": 1, "hdr.inc.epoch": 0}
    assert peer["arguments"] == {"bit_": 1, "lowest": 1}
    assert peer["source"]["file"] == "p4src/aggregate.p4"
    (job,) = [e for e in first["events"] if e["event"] == "TableApplied" and e["table"] == JOBS]
    assert job["entry"]["action"] == "IncIngress.aggregate.inner"
    written = [e for e in first["events"] if e.get("primitive") == "RegisterWrite"]
    assert {e["register"].rsplit(".", 1)[-1] for e in written} == {"slots", "closings", "lanes_0"}
    assert all(e["changes"][0]["after"] is not None for e in written)
    assert isinstance(next(e for e in written if e["register"].endswith("lanes_0"))["changes"][0]["after"], str)
    assert first["outcome"]["kind"] == "drop"


# --- other programs


def entities():
    return Device(load_program(json_path("entities")), executor="interpreted")


def frame(src=0):
    return (0x020000000001).to_bytes(6, "big") + src.to_bytes(6, "big") + b"\x12\x34" + bytes(50)


def test_a_program_without_inc_is_summarized_by_its_headers():
    device = entities()
    device.tables[INGRESS + "exact_table"].set_default(INGRESS + "forward", (4,))
    text = TextFormat(device.program)
    found = lines(text, Recorder(device).run(Packet(frame()), 1))
    assert found[1] == "  ethernet, 50 bytes of payload"
    assert found[-2] == "  left by port 4, 64 bytes: ethernet, 50 bytes of payload"


def test_a_group_that_does_not_exist_is_why_nothing_leaves():
    device = entities()
    device.tables[INGRESS + "exact_table"].set_default(INGRESS + "multicast", (7,))
    text, recorder = TextFormat(device.program), Recorder(device)
    assert recorder.run(Packet(frame())).outcome.why.endswith("there is no such group, so nothing leaves")
    device.multicast.set(7, ())
    trace = recorder.run(Packet(frame()))
    assert "the group has no replicas" in trace.outcome.why
    assert lines(text, trace)[-2] == "  nothing left"


def test_a_dropped_packet_whose_clones_left():
    events = [StageStarted("ingress"), Verdict("ingress", "drop")]
    assert outcome_of(events, entities(), True).why.endswith("; copies of it left")
    assert outcome_of(events[:1], entities(), False).kind == "drop"


def test_an_index_out_of_range_is_told():
    device = entities()
    found = lines(TextFormat(device.program), Recorder(device).run(Packet(frame(), 9)))
    assert any("index 9 is out of range: nothing happens" in line for line in found)


def test_a_parser_error_is_told():
    device = Device(load_program(json_path("constructs")), executor="interpreted")
    found = lines(TextFormat(device.program), Recorder(device).run(Packet(bytes(53))))
    assert any("parsing ends in state parse_words with error.PacketTooShort" in line for line in found)


def test_source_lines_come_from_the_file_or_from_p4c(tmp_path):
    device = entities()
    trace = Recorder(device).run(Packet(frame()))
    source = next(e.source for e in trace.events if isinstance(e, TableApplied) and e.source is not None)
    assert SourceLines().line(source) in source.fragment
    file = tmp_path / source.file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n" * (source.line - 1) + "    the line;\n")
    assert SourceLines([tmp_path]).line(source) == "the line;"
    outside = dataclasses.replace(source, file="../" + source.file)
    assert SourceLines([tmp_path / "below"]).line(outside) in outside.fragment
    assert SourceLines().line(None) == ""


@dataclasses.dataclass(frozen=True)
class Unheard:
    """An event type newer than the formats."""

    what: str = "digest"
    values: tuple[int, ...] = (1, 1 << 60)


def test_events_of_new_kinds_are_shown_by_their_fields():
    device = entities()
    trace = Recorder(device).run(Packet(frame()))
    trace = dataclasses.replace(trace, events=(*trace.events, Unheard()))
    assert one(lines(TextFormat(device.program), trace), "Unheard(what='digest'")
    expected = {"event": "Unheard", "what": "digest", "values": [1, hex(1 << 60)]}
    assert packet_json(trace)["events"][-1] == expected


def test_names_of_flattened_metadata(inc):
    names = ReadableNames(inc[0].program)
    changed = {c.what for t in inc[1] for e in t.events if isinstance(e, PrimitiveRun) for c in e.changes}
    found = {names(what) for what in changed if what.startswith("scalars.metadata_t.")}
    assert {"meta.slot_generation", "meta.refused", "meta.parent_port"} <= found
    assert not any(name[-1].isdigit() for name in found)
    assert names("standard_metadata.egress_spec") == "std.egress_spec"
    assert names("ipv4.src") == "ipv4.src"


def test_only_interpreted_devices_are_traced():
    with pytest.raises(ValueError, match="interpreted"):
        Recorder(Device(load_program(json_path("entities")), executor="compiled"))


def test_a_glossary_may_be_empty():
    assert Glossary({})("meta.refused", 8) == ""
