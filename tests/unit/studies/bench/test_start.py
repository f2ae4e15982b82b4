"""The benchmark of the first hour starts commands and reports the time of the first table; times are not checked."""

import sys

import pytest

from studies.bench import start as bench
from studies.bench.study import STUDY
from studies.pages import study_main


def test_a_command_is_measured():
    slow = "import time; print('lower', flush=True); sum(range(10**6)); time.sleep(0.2)"
    found = bench.measure("slow", (sys.executable, "-c", slow), runs=2)
    assert (found.what, found.runs) == ("slow", 2)
    assert found.cpu_s > 0
    assert found.first_s < found.clock_s


def test_a_command_that_fails_is_named():
    with pytest.raises(RuntimeError, match=r"raise SystemExit.*exit code 3: no such luck"):
        bench.measure(
            "bad", (sys.executable, "-c", "import sys; print('no such luck', file=sys.stderr); raise SystemExit(3)")
        )


def test_byte_code_is_there_for_folders_that_are_links_too(tmp_path):
    package, elsewhere = tmp_path / "package", tmp_path / "elsewhere"
    for folder in (package, elsewhere / "deep"):
        folder.mkdir(parents=True)
        (folder / "module.py").write_text("")
    (package / "linked").symlink_to(elsewhere)
    bench.byte_code(package)
    assert all(list(folder.glob("__pycache__/module.*.pyc")) for folder in (package, elsewhere / "deep"))


def test_what_is_measured_are_commands(monkeypatch, capsys, tmp_path):
    asked = []

    def measured(what, command, environment=bench.NOTHING, *, runs=1, folder=None):
        asked.append((what, command, sorted(environment)))
        return bench.Waited(what, runs, 0.1, 0.2, 0.2)

    monkeypatch.setattr(bench, "measure", measured)
    monkeypatch.setattr(bench, "byte_code", lambda: asked.append(("byte code", (), [])))
    assert study_main(STUDY, ["--parts", "start", "--starts", "3", "--out", str(tmp_path)]) == 0
    first, warm = (environment for what, _, environment in asked if what.endswith("run -e 1024"))
    assert first == warm == ["NUMBA_CACHE_DIR", "P4REDUCE_CACHE"]
    shown = capsys.readouterr().out
    assert asked.pop(0)[0] == "byte code"
    assert all(what in shown for what, _, _ in asked)


def test_what_a_run_needs():
    found = bench.large_tensor(3000, filed=True)
    assert found.what == "-t leaf-spine-16 --rate 100G -e 3000 --arrays FOLDER"
    assert found.cpu_s > 0
    assert found.peak_mb > found.arrays_mb == round(16 * 3000 * 4 / 1e6)
    held = b"x" * (2 * round(found.peak_mb * 1e6))  # of the process that measures
    assert bench.run_needs(("-e", "3000"), 1).peak_mb < len(held) / 1.5e6
    with pytest.raises(RuntimeError, match=r"run -e none: exit code 2"):
        bench.run_needs(("-e", "none"), 1)


def test_of_the_wheels_of_a_clone_the_products_is_installed_with_the_others_beside_it(monkeypatch, tmp_path):
    installed = []

    def measured(what, command, environment=bench.NOTHING, *, runs=1, folder=None):
        if what == "make dist":
            (folder / "dist").mkdir(parents=True)
            for name in ("p4reduce", "p4reduce_course", "p4switch"):
                (folder / "dist" / f"{name}-0.1.0-py3-none-any.whl").touch()
        if what.startswith("pip"):
            installed.extend(command[2:])
        return bench.Waited(what, runs, 0.0, 0.0, 0.0)

    monkeypatch.setattr(bench, "measure", measured)
    bench.from_nothing(str(tmp_path))
    *flags, folder, wheel = installed
    assert flags == ["-q", "--find-links"]
    assert wheel == f"{folder}/p4reduce-0.1.0-py3-none-any.whl[demo]"
