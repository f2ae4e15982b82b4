"""p4c's samples are compiled once; a failed compilation is retried."""

import pytest

from tests.support.conformance.stf.samples import Sample, compile_sample

P4C = """#!/bin/sh
echo run >> {calls}
[ -f {headers} ] || {{ echo 'core.p4: No such file' >&2; exit 1; }}
while [ "$1" != -o ]; do shift; done
echo '{{}}' > "$2"
"""


@pytest.fixture
def sample(tmp_path):
    source = tmp_path / "one.p4"
    source.write_text("#include <core.p4>\n")
    return Sample("one", source, tmp_path / "one.stf")


def test_a_compilation_that_failed_is_tried_again_once_the_headers_are_there(tmp_path, sample):
    calls, headers, cache = tmp_path / "calls", tmp_path / "core.p4", tmp_path / "cache"
    cache.mkdir()
    p4c = tmp_path / "p4c"
    p4c.write_text(P4C.format(calls=calls, headers=headers))
    p4c.chmod(0o755)
    failed = compile_sample(str(p4c), sample, cache)
    assert failed.json is None
    assert "No such file" in failed.message
    headers.touch()
    first, second = (compile_sample(str(p4c), sample, cache) for _ in range(2))
    assert first.json is not None
    assert first == second
    assert calls.read_text().splitlines() == ["run"] * 2
