"""``p4reduce trace`` as a command."""

import json

import pytest
from rich.console import Console
from typer.testing import CliRunner

from p4reduce.base.output import Output
from p4reduce.cli.main import app
from p4reduce.network.virtual.counters import PcapWriter
from tests.support.p4runtime.configs import DATA

FRAME = "020000000001" + "00" * 6 + "1234" + "00" * 50
PROGRAM = DATA / "entities.json"
ENTRIES = """
tables:
  - {table: exact_table, default: true, action: forward, params: {port: 4}}
"""


def call(*arguments):
    return CliRunner().invoke(app, ["trace", *(str(argument) for argument in arguments)])


@pytest.fixture
def entries(tmp_path):
    file = tmp_path / "entries.yaml"
    file.write_text(ENTRIES)
    return file


def test_a_packet_on_the_command_line(entries):
    done = call(PROGRAM, "--entries", entries, "--packet", FRAME, "--port", 3)
    assert done.exit_code == 0, done.output
    assert "packet 1: port 3, 64 bytes" in done.stdout
    assert "left by port 4" in done.stdout
    assert "\x1b" not in done.stdout
    assert "entities.p4:" in done.stdout


def test_in_a_terminal_there_are_colours(entries, monkeypatch):
    before = Output.__init__

    def init(self, *, as_json=False):
        before(self, as_json=as_json)
        self.people = Console(highlight=False, force_terminal=True, color_system="standard")

    monkeypatch.setattr(Output, "__init__", init)
    assert "\x1b[1;32m" in call(PROGRAM, "-e", entries, "-p", FRAME).stdout


def test_several_packets_and_one_of_them(entries, tmp_path):
    with PcapWriter(tmp_path / "two.pcap") as pcap:
        pcap.write(0, bytes.fromhex(FRAME))
        pcap.write(1, bytes.fromhex(FRAME) + b"more")
    done = call(PROGRAM, "-e", entries, "-p", FRAME, "-p", tmp_path / "two.pcap", "--json")
    assert [p["number"] for p in json.loads(done.stdout)["packets"]] == [1, 2, 3]
    done = call(PROGRAM, "-e", entries, "-p", FRAME, "-p", tmp_path / "two.pcap", "--only", 3, "--json")
    (packet,) = json.loads(done.stdout)["packets"]
    assert packet["number"] == 3
    assert len(packet["frame"]) == len(FRAME) + 8
    counted = [e for e in packet["events"] if e.get("counter", "").endswith("both_count")]
    assert counted[0]["changes"][0] == {
        "kind": "Change",
        "what": "EntitiesIngress.both_count[1] packets",
        "before": 2,
        "after": 3,
    }


def test_p4_source_is_compiled_on_the_way(entries):
    done = call(DATA / "entities.p4", "--entries", entries, "--packet", FRAME, "--port", 3)
    assert done.exit_code == 0, done.output
    assert "left by port 4" in done.stdout
    assert "entities.p4:" in done.stdout


def test_errors_of_p4_source_are_those_of_the_compiler(tmp_path):
    source = tmp_path / "wrong.p4"
    source.write_text((DATA / "entities.p4").read_text().replace("std.egress_spec", "std.egres_spec", 1))
    done = call(source, "-p", FRAME)
    assert done.exit_code == 2
    assert "wrong.p4:" in done.output
    assert "Did you mean 'egress_spec'?" in done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize("lanes", ["64", "256"])
def test_the_bundled_programs(lanes):
    done = call("--program", lanes, "--packet", FRAME)
    assert done.exit_code == 0, done.output
    assert "refused 1, NOT_IPV4" in done.stdout
    assert "p4src/p4reduce.p4:" in done.stdout


def test_the_llvm_ir(entries):
    done = call(PROGRAM, "--ir")
    assert done.exit_code == 0, done.output
    assert "p4reduce_ingress" in done.stdout
    assert done.stdout == call(PROGRAM, "--ir").stdout


def test_p4info_must_belong_to_the_program():
    assert call(PROGRAM, "-p", FRAME, "--p4info", DATA / "entities.p4info.txt").exit_code == 0
    done = call("--program", "64", "-p", FRAME, "--p4info", DATA / "entities.p4info.txt")
    assert done.exit_code == 2
    assert "describes another program" in done.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-p", FRAME], "give one program"),
        ([PROGRAM, "--program", "64", "-p", FRAME], "give one program"),
        (["--program", "65", "-p", FRAME], "'65' is none of 64, 256"),
        ([PROGRAM], "--packet: is missing"),
        ([PROGRAM, "-p", "xyz"], "neither a file nor"),
        ([PROGRAM, "-p", FRAME, "--only", "2"], "there are 1 packets"),
        ([PROGRAM, "-p", FRAME, "--port", "512"], "512 is not in the range; give 0..511"),
        ([PROGRAM, "-p", FRAME, "-e", "nix.yaml"], "--entries: nix.yaml: there is no such file"),
        (["nix.json", "-p", FRAME], "nix.json: there is no such file"),
        ([DATA / "entities.p4info.txt", "-p", FRAME], "is not JSON"),
        ([PROGRAM, "-p", FRAME, "--p4info", DATA / "entities.p4"], "is not P4Info"),
        ([PROGRAM, "-p", FRAME, "--p4info", "nix.txt"], "--p4info: nix.txt: there is no such file"),
    ],
)
def test_errors_are_one_line_and_code_2(arguments, said):
    done = call(*arguments)
    assert done.exit_code == 2, done.output
    assert said in done.output
    assert "Traceback" not in done.output


def test_errors_of_entries_name_the_entry(tmp_path):
    file = tmp_path / "entries.yaml"
    file.write_text("tables:\n  - {table: nix, action: forward}\n")
    done = call(PROGRAM, "-p", FRAME, "-e", file)
    assert done.exit_code == 2
    assert "entries.yaml, line 2: tables[0] (table nix): there is no table 'nix'" in done.output
