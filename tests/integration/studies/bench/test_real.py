"""The benchmark of real-time switches runs, loses nothing, and sums."""

import json
import subprocess
import sys

import pytest

from p4reduce.network.real.net import why_not
from tests.support.paths import ROOT

REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=f"no network namespaces: {REASON}")


def test_it_reports_what_went_through(tmp_path):
    command = [sys.executable, "-m", "studies", "bench", "--json", "--parts", "veth-forwarding,veth-aggregation"]
    words = ["--best-of", "1", "--seconds", "0.1", "--lanes", "64", "--ports", "3", "--out", str(tmp_path)]
    done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=300, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)["rows"]
    for part in ("veth-forwarding", "veth-aggregation"):
        [row] = report[part]
        assert row["lost"] == 0
        assert row["copies_kpps"] == pytest.approx(row["kpps"], rel=0.01)  # each frame or result leaves once
        assert row["kpps_per_core"] > 0
