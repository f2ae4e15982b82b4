"""The process that hosts a network: its log."""

import sys

from p4reduce.group.errors import ClusterError
from p4reduce.play.tasks import __main__ as process
from p4switch.native import objects


def test_compiling_leaves_nothing_in_the_log(monkeypatch, tmp_path, capsys):
    def world(*_, **__):
        with objects._watch[-1]() as report:
            report(1, 2)
        raise ClusterError("it was compiled")

    monkeypatch.setattr(process, "World", world)
    arguments = ["--socket", str(tmp_path / "socket"), "--topology", "star8"]
    monkeypatch.setattr(sys, "argv", ["p4reduce.play.tasks", *arguments])
    assert process.main() == 1
    assert capsys.readouterr().err == "error: it was compiled\n"
