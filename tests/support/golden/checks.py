"""Properties of a run: right results, equal at all workers, and nothing left in switches. They raise AssertionError."""

from collections.abc import Iterable

from tests.support.golden.controller import Task
from tests.support.golden.endpoints import Result, Worker
from tests.support.golden.graph import Node
from tests.support.golden.network import Switch
from tests.support.golden.witness import Witness
from tests.support.golden.work import DIGIT_LANES, Collective, Lanes, clamped, multiplicities

Holdings = list[dict[Node, dict[int, Result]]]


def results(tasks: Iterable[Task], witness: Witness) -> None:
    """Check that every worker has every result, that results are equal at all workers, and that they are right."""
    for task in tasks:
        if task.server is not None:
            _server(task)
        agreed: dict[int, Result] = {}
        for worker in task.workers.values():
            if not task.aborted:
                assert worker.finished, f"{worker.node} lacks chunk {worker.missing} of job {task.work.job}"
                assert set(worker.results) == set(range(task.work.chunks))
            for index, result in worker.results.items():
                first = agreed.setdefault(index, result)
                same = first == result or (task.aborted and first.epoch != result.epoch)
                assert same, f"job {task.work.job}: workers differ on chunk {index}: {first} and {result}"
                _result(task, index, result, witness)
                _told(task, worker, index, witness)
        _decisions(task)


def _decisions(task: Task) -> None:
    """Check that either all workers or none take the announced exponents, in whatever epoch each of them decided."""
    if task.deadline_us is not None or len(set(task.epochs.values())) > 1:
        return  # another set of workers has another maximum, so announcements do not count
    decided = {worker.decided for worker in task.workers.values()} - {None}
    assert len(decided) <= 1, (
        f"job {task.work.job}: workers decided {decided} of what chunks {task.work.tail} announced"
    )


def holdings(tasks: Iterable[Task]) -> Holdings:
    """Return the results that every worker has at the moment, by job."""
    return [{node: dict(worker.results) for node, worker in task.workers.items()} for task in tasks]


def clean(node: Node, switch: Switch, tasks: Iterable[Task]) -> None:
    """Check that after all jobs a switch keeps no entry of a job, and that it wrote only to slots that were granted."""
    golden = switch.golden
    kept = [*golden.jobs, *golden.peers, *golden.groups, *golden.replicas, *golden.paths]
    assert not kept, f"{node} keeps entries: {kept}"
    granted = {first + i for task in tasks for first, size in [task.region] for i in range(size)}
    assert set(golden.slots) <= granted, f"{node} touched slots {set(golden.slots) - granted} of nobody"
    assert len(golden.slots) <= len(granted)


def who_waits(task: Task) -> str:
    """Return for an error message the oldest missing chunk, and the workers that lack it."""
    late = [str(worker.node) for worker in task.workers.values() if worker.missing == task.missing]
    return f"chunk {task.missing} of {task.work.chunks} is missing at {', '.join(late)}"


def _result(task: Task, index: int, result: Result, witness: Witness) -> None:
    work, collective = task.work, task.work.collectives[index]
    what = f"chunk {index} ({collective.name}) of job {work.job}"
    assert (result.lanes is not None) == collective.lanes_down, f"{what}: lanes {result.lanes}"
    if task.server is not None:
        deposit = task.server.ledger[index]
        assert result.lanes == deposit.answer, f"{what}: not what the server answered"
        ranks, total = task.epochs[deposit.epoch], deposit.request.lanes
        saturated = deposit.request.saturated
        # A sum may be formed again although the server has it already. It may saturate where the first did not.
        again = deposit.epoch != result.epoch
        assert result.saturated == saturated or (again and result.saturated), f"{what}: saturation not passed on"
    else:
        ranks, total, saturated = _contributors(task, index, result, witness), result.lanes, result.saturated
        assert ranks == task.epochs[result.epoch] or task.deadline_us is not None, f"{what}: only of {sorted(ranks)}"
    assert result.count == len(ranks), f"{what}: {result.count} contributions instead of {len(ranks)}"
    assert result.exponent == max(work.said[rank, index] for rank in ranks), f"{what}: exponent {result.exponent}"
    if collective.lanes_up:
        assert total is not None
        _sum(what, total, saturated, work.exact_sum(ranks, index), ranks)


def _contributors(task: Task, index: int, result: Result, witness: Witness) -> frozenset[int]:
    """Return the ranks whose contributions are in a result of a root switch."""
    whose = witness.contributors(task.work.job, result.epoch, task.work.seq(index))
    return frozenset(task.ranks[node] for node in whose)


def _told(task: Task, worker: Worker, index: int, witness: Witness) -> None:
    """Check that a result tells a worker whether its own contribution is in it; without a deadline it always is."""
    result = worker.results[index]
    late = task.server is None and worker.rank not in _contributors(task, index, result, witness)
    assert result.late == late, (
        f"rank {worker.rank} is told that it is {'not ' * result.late}in chunk {index} of job {task.work.job}"
    )


def _sum(what: str, total: Lanes, saturated: bool, exact: Lanes, ranks: frozenset[int]) -> None:
    assert multiplicities(total) == dict.fromkeys(ranks, 1), f"{what}: contributions {multiplicities(total)}"
    assert total[:DIGIT_LANES] == exact[:DIGIT_LANES], what
    if not saturated:
        assert total == exact, f"{what}: {total} instead of {exact}"
    assert saturated or not clamped(exact), f"{what}: saturated without a flag"


def _server(task: Task) -> None:
    assert task.server is not None
    assert len(task.server.cache) <= task.window + task.reach
    for index, deposit in task.server.ledger.items():
        collective = task.work.collectives[index]
        if collective.lanes_up:
            assert deposit.request.lanes is not None
            ranks, total = task.epochs[deposit.epoch], deposit.request.lanes
            exact = task.work.exact_sum(ranks, index)
            _sum(f"the server's chunk {index}", total, deposit.request.saturated, exact, ranks)
        assert (deposit.answer is not None) == (collective in (Collective.PULL, Collective.PUSH_PULL))
