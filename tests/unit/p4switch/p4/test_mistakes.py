"""Wrong programs are refused with the line, the fault and a remedy. The table: pytest -s -k table."""

import pytest

from p4switch.p4.compile import Compilation, compile_text
from tests.support.frontend.mistakes import MISTAKES, PROGRAM, Mistake


def broken(mistake: Mistake) -> str:
    assert mistake.before in PROGRAM, mistake.name
    text = PROGRAM.replace(mistake.before, mistake.after, 1)
    return text.replace("mark_to_drop(std);", "") if mistake.name == "nothing sets the port" else text


def compiled(mistake: Mistake) -> Compilation:
    return compile_text(broken(mistake), "student.p4")


def test_the_program_itself_compiles_without_a_word():
    assert compile_text(PROGRAM, "student.p4").messages() == []


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.name)
def test_mistake(mistake):
    found = compiled(mistake)
    assert found.ok == (mistake.severity == "warning")
    items = [i for i in found.diagnostics.items if i.severity == mistake.severity]
    matching = [i for i in items if mistake.says in i.message]
    assert matching, "\n".join(found.messages())
    assert mistake.mends in matching[0].hint
    place = found.sources.place(matching[0].position)
    assert place.file == "student.p4"
    assert place.line > 1 or mistake.name == "include misspelt"
    if mistake.at:
        assert mistake.at in found.sources.line(matching[0].position)


@pytest.mark.parametrize("mistake", [m for m in MISTAKES if m.severity == "error"], ids=lambda m: m.name)
def test_one_mistake_is_not_told_as_many(mistake):
    assert len(compiled(mistake).diagnostics.errors) <= 3


def test_table(capsys):
    rows = []
    for mistake in MISTAKES:
        found = compiled(mistake)
        item = next(i for i in found.diagnostics.items if mistake.says in i.message)
        rows.append(
            f"| {mistake.name} | {found.sources.place(item.position)} {item.severity}: {item.message} | {item.hint} |"
        )
    with capsys.disabled():
        if len(rows) < 30:
            print("\n".join(rows))
    print("\n".join(["| mistake | message | hint |", "|---|---|---|", *rows]))
    assert len(rows) >= 30
    assert sum(row.endswith("|  |") for row in rows) <= 8, "most messages say how to mend it"


def test_several_errors_at_once():
    text = PROGRAM.replace("std.egress_spec", "std.egres_spec").replace("transition accept", "transition acept")
    assert len(compile_text(text).diagnostics.errors) == 2
