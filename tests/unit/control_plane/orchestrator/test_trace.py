"""Task traces, as YAML and CSV."""

import pytest

from p4reduce.control_plane.orchestrator import TaskError, read_trace, write_trace
from p4reduce.control_plane.scheduling import Selection, Task
from p4reduce.control_plane.scheduling.task import ServiceRequests

TASKS = [
    Task("a", "h1", ("h2", "h3"), 61_706, 3, 5_000_000, 10**9, 7, 10**12, 5),
    Task("b", "h4", ("h2",), 1),
    Task("c", "h4", ("h2", "h3"), 1, select=Selection("useful", 0.4, utilities=(("h3", 2.5), ("h2", 1)))),
    Task("d", "h4", ("h2", "h3"), 1, select=Selection("random", 1, seed=7)),
    Task("e", "h4", ("h2", "h3"), 1, select=Selection("all")),
    Task("f", "", ("h2", "h3"), 1024, 300, 10**6, serving=ServiceRequests(8000.5, 60_000_000, 7)),
    Task("h", "h4", ("h2", "h3"), 1024, 3, exchange="a2a"),
    Task("g", "h4", ("h2",), 1024, 300, serving=ServiceRequests(1.0)),
]


@pytest.mark.parametrize("name", ["tasks.yaml", "tasks.csv", "tasks.CSV"])
def test_what_is_written_is_read_again(tmp_path, name):
    write_trace(tmp_path / name, TASKS)
    assert read_trace(tmp_path / name) == TASKS


def test_units_are_those_of_topologies(tmp_path):
    path = tmp_path / "tasks.yaml"
    path.write_text("tasks: [{name: a, server: h1, workers: [h2], elements: 9, training: 1.5ms, demand: 2.5G}]")
    (task,) = read_trace(path)
    assert (task.training_ps, task.demand_bps) == (1_500_000_000, 2_500_000_000)


SELECTING = "{name: a, server: h1, workers: [h2], elements: 9, select:"
ASKING = "{name: a, kind: inference, server: h1, workers: [h2], elements: 9"
GOOD = "{name: a, server: h1, workers: [h2], elements: 9}"


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("t.yaml", "- a\n- b\n", "expected one key 'tasks'"),
        ("t.yaml", "tasks: {a: b}", "expected one key 'tasks'"),
        ("t.yaml", "tasks: [", "is not YAML"),
        ("t.yaml", f"tasks: [{GOOD}, {GOOD}]", "task 2: name: a is that of task 1 too"),
        ("t.yaml", f"tasks: [{GOOD}, 7]", "task 2: task: Input should be"),
        ("t.yaml", "tasks: [{name: a, server: h1, workers: [h2], elements: 0}]", "elements: 0 is below 1"),
        ("t.yaml", "tasks: [{name: a, server: h1, workers: [h1], elements: 1}]", "must be different hosts"),
        ("t.yaml", "tasks: [{name: a, server: h1, workers: [h2], elements: 1, speed: 2}]", "task 1: speed: Extra"),
        ("t.yaml", "tasks: [{name: a, server: h1, workers: [h2], elements: 1, training: 5}]", "task 1: training: 5 is"),
        ("t.yaml", "tasks: [{name: a, server: h1, elements: 1}]", "task 1: workers: Field required"),
        ("t.yaml", f"tasks: [{SELECTING} 5}}]", "task 1: select: Input should be"),
        ("t.yaml", f"tasks: [{ASKING}}}]", "task 1: task a: rate: is missing: requests a second of each client"),
        ("t.yaml", f"tasks: [{ASKING}, rate: 0}}]", "task 1: task a: rate: 0.0 is no number of requests a second"),
        ("t.yaml", f"tasks: [{ASKING}, rate: 9, objective: 9}}]", "task 1: objective: 9 is"),
        ("t.yaml", f"tasks: [{ASKING}, rate: 9, max_restarts: 1}}]", "max_restarts: a task that infers has none"),
        ("t.yaml", "tasks: [{name: a, kind: inference, workers: 2, elements: 9, rate: 9}]", "give names of hosts"),
        ("t.yaml", "tasks: [{name: a, kind: dreaming, workers: [h2], elements: 9}]", "task 1: kind: Input should be"),
        ("t.yaml", f"tasks: [{GOOD[:-1]}, kind: rar, aggregation: switches}}]", "aggregation: hosts of a task of this"),
        ("t.yaml", f"tasks: [{GOOD[:-1]}, objective: 9us}}]", "objective: only a task with 'kind: inference' has one"),
        ("t.yaml", f"tasks: [{SELECTING} {{}}}}]", "task 1: select.how: Field required"),
        (
            "t.yaml",
            f"tasks: [{SELECTING} {{how: best, budget: 0.4}}}}]",
            "task 1: select.how: 'best' is none of all, ra",
        ),
        ("t.yaml", f"tasks: [{SELECTING} {{how: useful}}}}]", "task 1: select.budget: None is no number above 0"),
        ("t.yaml", f"tasks: [{SELECTING} {{how: useful, budget: '0.4'}}}}]", "task 1: select.budget: Input should be"),
        (
            "t.yaml",
            f"tasks: [{SELECTING} {{how: useful, budget: 40}}}}]",
            "task 1: select.budget: 40.0 is no number abo",
        ),
        ("t.yaml", f"tasks: [{SELECTING} {{how: useful, budget: 1, x: 1}}}}]", "task 1: select.x: Extra inputs"),
        (
            "t.yaml",
            f"tasks: [{SELECTING} {{how: useful, budget: 1, utilities: {{h9: 1}}}}}}]",
            "task a: select.utilities: 'h9' is no worker of the task",
        ),
        ("t.csv", "name,server,workers,elements,select\na,h1,h2,9,useful\n", "line 2: select: Input should be"),
        ("t.csv", 'name,server,workers,elements,select\na,h1,h2,9,"{a: &x 1, b: *x}"\n', "line 2: select: is not YAML"),
        ("t.csv", "name,server,workers,elements\na,h1,h2\n", "line 2: has another number of cells"),
        ("t.csv", "name,server,workers,elements\na,h1,h2,9\nb,h1,h2,x\n", "line 3: elements: Input should be"),
        ("t.csv", "name,server,workers,elements,priority\na,h1,h2,9,8\n", "line 2: priority: Input should be"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path, name, text, complaint):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(TaskError) as refused:
        read_trace(path)
    assert complaint in str(refused.value)
    assert str(refused.value).startswith(f"{path}: ")


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(TaskError, match="No such file"):
        read_trace(tmp_path / "none.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TaskError, match="is no UTF-8 text"):
        read_trace(tmp_path / "bytes.yaml")
