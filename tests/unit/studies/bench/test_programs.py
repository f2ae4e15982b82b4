"""The benchmarks' programs are p4c's output; compared with p4c if it is installed ($P4C or p4c-bm2-ss)."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from studies.bench.dataplane.tables import file
from studies.bench.switch import p4info, program_json
from tests.support.paths import ROOT

P4C = os.environ.get("P4C") or shutil.which("p4c-bm2-ss")

pytestmark = pytest.mark.skipif(P4C is None, reason="p4c-bm2-ss is neither in $P4C nor on the search path")


def compiled(folder: Path, source: str, *options: str) -> tuple[dict, str]:
    outputs = ["-o", str(folder / "out.json"), "--p4runtime-files", str(folder / "out.p4info.txt")]
    command = [str(P4C), "--std", "p4-16", *options, *outputs, source]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    return json.loads((folder / "out.json").read_text()), (folder / "out.p4info.txt").read_text()


def without_source(value):
    """Return the JSON without source locations and the compiler's command."""
    if isinstance(value, dict):
        return {key: without_source(inner) for key, inner in value.items() if key not in ("source_info", "__meta__")}
    return [without_source(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("lanes", [64, 256])
def test_replacing_the_register_size_is_what_p4c_does(tmp_path, lanes):
    from google.protobuf import text_format

    program, info = compiled(tmp_path, "p4src/p4reduce.p4", f"-DLANES={lanes}", "-DSLOTS=65536")
    ours = without_source(program_json(lanes, 65536))
    theirs = without_source(program)
    ours.pop("program"), theirs.pop("program")
    assert ours == theirs
    parsed = text_format.Parse(info, type(p4info(lanes, 65536))())
    assert parsed == p4info(lanes, 65536)


def test_the_lookup_program_is_compiled_from_its_source(tmp_path):
    program, info = compiled(tmp_path, "studies/bench/dataplane/lookup.p4")
    ours, theirs = without_source(json.loads(file("json"))), without_source(program)
    ours.pop("program"), theirs.pop("program")
    assert ours == theirs
    assert info == file("p4info.txt")
