"""``doctor`` checks of real-time runs' requirements: those that are met, and remedies for the others."""

from pathlib import Path

import pytest

from p4reduce.cli.commands import doctor
from p4reduce.network.real import bmv2, net


def findings() -> dict[str, doctor.DoctorFinding]:
    return {finding.part: finding for finding in doctor.examine()}


def test_nothing_is_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("P4REDUCE_CLIENTS", str(tmp_path))
    monkeypatch.delenv(bmv2.VARIABLE, raising=False)
    monkeypatch.setattr(net, "why_not", lambda: "they are forbidden; allow them")
    found = findings()
    for part in ("BMv2", "docker", "image p4lang/p4c", "vagrant", "network namespaces", "p4runtime-shell"):
        assert found[part].found is None
        assert not found[part].needed
    assert found["network namespaces"].purpose.endswith("here: they are forbidden; allow them")
    assert "docs/bmv2.md" in found["BMv2"].purpose


def test_what_is_named_wrongly_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(bmv2.VARIABLE, "/no/such/switch")
    monkeypatch.setattr(net, "why_not", lambda: None)
    found = findings()
    assert found["BMv2"].found is None
    assert "/no/such/switch: there is no such program" in found["BMv2"].purpose
    assert found["network namespaces"].found in ("as root", "in user namespaces")


def test_a_bmv2_that_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "switch"
    program.write_text("#!/bin/sh\necho 1.15.0-abc\n")
    program.chmod(0o755)
    monkeypatch.setenv(bmv2.VARIABLE, str(program))
    monkeypatch.setattr(net, "why_not", lambda: None)
    assert findings()["BMv2"].found == "1.15.0-abc ($SIMPLE_SWITCH_GRPC)"
