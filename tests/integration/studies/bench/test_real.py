"""The benchmark of real-time switches runs, loses nothing, and sums."""

import json
import subprocess
import sys

import pytest

from p4reduce.network.real.net import why_not

REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=f"no network namespaces: {REASON}")


def test_it_reports_what_went_through():
    command = [sys.executable, "-m", "studies.bench", "veth", "--json", "--runs", "1", "--seconds", "0.1"]
    done = subprocess.run(
        [*command, "--lanes", "64", "--ports", "3"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    for part in ("forwarding", "aggregation"):
        [row] = report[part] if isinstance(report[part], list) else report[part]["rows"]
        assert row["lost"] == 0
        assert row["copies_kpps"] == pytest.approx(row["kpps"], rel=0.01)  # each frame or result leaves once
        assert row["kpps_per_core"] > 0
