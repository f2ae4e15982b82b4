"""The cheap part of ``make same``: the product's output, files and counts equal the stored ones."""

import subprocess
import sys

from tests.support.paths import ROOT


def test_what_the_product_says_is_as_stored(tmp_path):
    command = [sys.executable, "-m", "tests.support.same", "--cheap", "--jobs", "1", "--keep", str(tmp_path / "came")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"make same:\n{done.stdout}\n{done.stderr}"
