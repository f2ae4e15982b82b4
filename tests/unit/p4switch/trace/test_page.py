"""docs/embedded-switch.md is up to date."""

import re

import pytest
from typer.testing import CliRunner

from p4reduce.cli.main import app
from p4switch.compiler import module_text
from p4switch.device import Device
from p4switch.program import load_program
from p4switch.trace import parse_entries
from tests.support.docs.switch_page import (
    block_text,
    refreshed,
    refused_constructs,
    renumbered,
    shown_blocks,
    shown_list,
)
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "embedded-switch.md").read_text("utf-8")
DATA = ROOT / "tests" / "data"
UPDATE = "run: python -m tests.support.docs.switch_page"


@pytest.fixture(scope="module")
def module():
    """Return the LLVM IR of the ten-line program."""
    return module_text(load_program(DATA / "ten_lines.json"))


def test_the_ir_on_the_page_is_what_the_command_prints(module):
    printed = CliRunner().invoke(app, ["trace", str(DATA / "ten_lines.json"), "--ir"]).stdout
    assert printed == module
    blocks = list(shown_blocks(PAGE))
    assert len(blocks) == 5
    for function, label, shown in blocks:
        now = block_text(module, function, label)
        assert now in printed
        assert renumbered(shown) == renumbered(now), f"block {label} on the page is out of date; {UPDATE}"


def test_refreshing_repairs_the_page(module):
    spoilt = PAGE.replace("icmp", "icmpp").replace("- header", "- hedaer")
    assert spoilt != PAGE
    repaired = refreshed(spoilt, module, refused_constructs())
    for (_, label, found), (_, _, right) in zip(shown_blocks(repaired), shown_blocks(PAGE), strict=True):
        assert renumbered(found) == renumbered(right), label
    assert shown_list(repaired) == refused_constructs()


def test_equal_instructions_are_equal_whatever_their_numbers():
    assert renumbered("%.7 = add i8 %.3, 1\n  ret i8 %.7") == renumbered("%.17 = add i8 %.13, 1\n  ret i8 %.17")
    assert renumbered("%.7 = add i8 %.3, %.4") != renumbered("%.7 = add i8 %.4, %.4")


def test_blocks_are_cut_at_their_ends(module):
    block = block_text(module, "p4reduce_ingress", "node_2")
    assert block.startswith("node_2:\n")
    assert block.splitlines()[-1].lstrip().startswith("br i1 ")
    assert block_text(module, "p4reduce_egress", "entry") != block_text(module, "p4reduce_ingress", "entry")
    with pytest.raises(KeyError, match="p4reduce_egress has no block 'node_2'"):
        block_text(module, "p4reduce_egress", "node_2")


def test_the_ir_without_quotes_is_still_llvm_ir(module):
    llvm = pytest.importorskip("llvmlite.binding")
    parsed = llvm.parse_assembly(module)
    parsed.verify()
    assert {f.name for f in parsed.functions} >= {"p4reduce_ingress", "p4reduce_egress"}


def test_everything_that_is_refused_is_listed():
    missing = [words for words in refused_constructs() if words not in shown_list(PAGE)]
    assert missing == [], f"docs/embedded-switch.md does not say that this is refused: {missing}; {UPDATE}"


def test_the_list_is_read_from_the_sources():
    found = refused_constructs()
    assert "expression operator ..." in found
    assert len(found) == len(set(found)) > 10


def test_the_program_on_the_page_is_the_one_in_the_tests():
    (shown,) = re.findall(r"```p4\n(.*?)```", PAGE, re.DOTALL)
    source = (DATA / "ten_lines.p4").read_text("utf-8")
    for line in shown.splitlines():
        assert line.strip() in source


def test_the_trace_on_the_page_is_what_the_command_prints():
    (shown,) = re.findall(r"```trace\n(.*?)```", PAGE, re.DOTALL)
    printed = CliRunner().invoke(app, ["trace", str(DATA / "ten_lines.json"), "--packet", "0305000a"]).stdout
    lines = [line.split("  tests/")[0].rstrip() for line in printed.splitlines()]
    assert [line for line in shown.splitlines() if line not in lines] == []


def test_the_entries_file_on_the_page_is_accepted():
    (shown,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    program = load_program(DATA / "entities.json")
    device = Device(program, executor="interpreted")
    entries = parse_entries(shown, program)
    entries.apply(device)
    assert len(entries.tables) == 5
    assert entries.groups == {1: ((1, 1), (2, 2))}
