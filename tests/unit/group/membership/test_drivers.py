"""The agreement does no I/O; its drivers in virtual and real time are known (``tests.support.kills.lines``)."""

import ast

from tests.support.kills.lines import ITSELF, drivers, lines_of

IO = {"asyncio", "multiprocessing", "select", "selectors", "socket", "subprocess", "threading", "time"}
MOST = 1_000
"""lines of the agreement"""


def imported(path):
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def test_the_agreement_has_no_clock_thread_or_connection():
    for path in ITSELF:
        assert {name.split(".")[0] for name in imported(path)} & IO == set()
    assert sum(map(lines_of, ITSELF)) < MOST


def test_both_kinds_of_time_drive_the_same_agreement():
    found = {(driver.path.parent.name, driver.name) for driver in drivers()}
    assert found == {
        ("virtual", "Health"),
        ("virtual", "SurvivingCarrier"),
        ("virtual", "Survival"),
        ("real", "Coordinator"),
        ("real", "Presence"),
    }
