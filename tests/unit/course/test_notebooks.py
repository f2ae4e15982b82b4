"""Notebooks of labs: valid, without outputs, and every cell runs with the solution."""

import ast
import json
import sys

import matplotlib as mpl
import nbformat
import pytest
from matplotlib import pyplot

from p4reduce_course.catalogue import package
from tests.support.labs import solved

NOTEBOOKS = {path.parent.name[:2]: path for path in sorted((package() / "labs").glob("*/explore.ipynb"))}
SHOWN = {
    "04": ["largest error", "bytes on the busiest link", "packet 2 by port 1", "change", "+ 1 is -"],
    "08": ["steiner", "bytes on the busiest link"],
    "09": ["numbers:", "and, with one field too large,"],
}
"""output that must appear"""


def run(source, names):
    """Run a cell as Jupyter does; return the value of its last line if that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)  # noqa: S102  (our own)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307


def test_there_are_those_that_are_tested():
    assert set(NOTEBOOKS) == set(SHOWN)


@pytest.mark.parametrize("number", SHOWN)
def test_a_notebook_is_valid_and_has_no_outputs(number):
    text = NOTEBOOKS[number].read_text()
    notebook = nbformat.reads(text, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.outputs for cell in cells] == [[]] * len(cells)
    assert {cell.execution_count for cell in cells} == {None}
    assert len(text) < 10_000


@pytest.mark.parametrize("number", SHOWN)
def test_every_cell_runs(number, tmp_path, monkeypatch, capsys):
    folder = solved(number, tmp_path / "mine")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    sys.path_importer_cache.pop("skeleton", None)  # cached for another folder
    before = set(sys.modules)
    names, shown = {}, []
    with mpl.rc_context({"backend": "Agg"}):
        for cell in json.loads((folder / "explore.ipynb").read_text())["cells"]:
            if cell["cell_type"] == "code":
                value = run("".join(cell["source"]), names)
                shown.append(value._repr_html_() if hasattr(value, "_repr_html_") else "")
        figures = pyplot.get_fignums()
        pyplot.close("all")
    for module in set(sys.modules) - before:
        if getattr(sys.modules[module], "__file__", None) and str(folder) in str(sys.modules[module].__file__):
            del sys.modules[module]
    said = capsys.readouterr().out + "".join(shown)
    assert [words for words in SHOWN[number] if words not in said] == []
    assert figures
