"""Run a scenario: packets, timers, table writes, spoofs and events, in an order that follows from a seed."""

import random
from dataclasses import dataclass, replace

from tests.support.golden import checks
from tests.support.golden.backend import Backend
from tests.support.golden.choices import SeededChoices
from tests.support.golden.controller import Controller, Task
from tests.support.golden.endpoints import HOST_PORT, Worker
from tests.support.golden.frames import INC_PORT, Kind, Packet
from tests.support.golden.graph import Node
from tests.support.golden.network import Faults, Network, Switch
from tests.support.golden.scenario import Event, JobShape, Scenario, What
from tests.support.golden.spoof import spoof
from tests.support.golden.trees import Tree, without

STEP_LIMIT = 400_000
"""steps after which a run counts as a livelock; no scenario comes near"""


@dataclass(slots=True)
class Report:
    """Number of steps of a run, and number of events by name."""

    steps: int
    events: dict[str, int]


def run(scenario: Scenario, backend: Backend) -> Report:
    """Run ``scenario`` to its end and check every property.

    Raises:
        AssertionError: If a property does not hold, or a switch differs from the golden model.
    """
    return _Run(scenario, backend).run()


class _Run:
    def __init__(self, scenario: Scenario, backend: Backend) -> None:
        self.scenario, self.backend = scenario, backend
        self.choices = SeededChoices(scenario.seed)
        self.rng: random.Random = self.choices.random
        switches = {node: self._fresh(node) for node in scenario.graph.switches}
        self.network = Network(scenario.graph, switches, self.rng)
        self.network.faults = {end: self._link_faults() for end in scenario.graph.neighbours}
        self.controller = Controller(self.network, self.choices, scenario.first_generation)
        self.tasks = [_task(shape, scenario.window_factor) for shape in scenario.jobs]
        self.trees = [shape.tree for shape in scenario.jobs]  # those of the last event
        self.waiting = list(range(len(self.tasks)))
        self.events = list(scenario.events)
        self.steps = 0
        self.slow = {node for node in scenario.graph.hosts if self.rng.random() * 100 < scenario.slow}

    def run(self) -> Report:
        self._start_due()
        while self.steps < self.scenario.fault_steps and not self._over():
            self._step()
        self._settle()
        self._end()
        return Report(self.steps, dict(self.network.events))

    def _over(self) -> bool:
        finished = all(task.finished for task in self.tasks)
        return finished and not (self.waiting or self.events or self.controller.busy)

    def _step(self) -> None:
        self._count()
        self._start_due()
        self._fire_due()
        dice = self.rng.random() * 1000
        if dice < self.scenario.spoofs:
            self._spoof()
            self._lie()
        elif dice < 100 and self.controller.busy:
            self.controller.act()
        elif dice < 110:
            self.network.release()
        elif dice < 115:
            self.choices.pick(list(self.network.switches.values())).check()
        elif self.network.idle or (dice < 350 and self.network.in_flight < 100):
            self._timer()
        else:
            self.network.step()

    def _timer(self) -> None:
        """Let one worker send a chunk, most often one that it has not sent yet."""
        workers = [w for task in self.tasks for w in task.workers.values()] + self.controller.zombies
        ready = [(worker, sendable) for worker in workers if (sendable := worker.sendable())]
        worker, sendable = self.choices.pick(ready) if ready else (None, [])
        if worker is not None and (worker.node not in self.slow or self.choices.chance(3)):
            fresh = [index for index in sendable if index not in worker.sent]
            self._send(worker, self.choices.pick(fresh if fresh and self.choices.chance(80) else sendable))

    def _send(self, worker: Worker, index: int) -> None:
        """Send a contribution. If it was sent before, send a question about it, or one time in ten repeat it."""
        asks = index in worker.sent and self.choices.chance(90)
        self.network.events["asked"] += asks
        evidence = worker.evidence(index) if self.choices.chance(60) else 0
        if self.choices.chance(10):
            evidence = self.choices.integer(0, (1 << 16) - 1)
        self.network.send(worker.node, [worker.question(index, evidence) if asks else worker.packet(index)])

    def _settle(self) -> None:
        """Continue without faults. Each round, in which all workers send their window, must complete a window."""
        self.network.faulty = False
        deadlines: dict[int, int] = {}
        rounds = 0
        while not self._over():
            self._start_due()
            self._fire_due(now=True)
            while self.controller.busy:
                self._count()
                self.controller.act()
                if self.rng.random() < 0.5 and not self.network.idle:
                    self.network.step()
            for number, task in enumerate(self.tasks):
                if task.started and not task.finished:
                    left = -(-(task.work.chunks - task.missing) // task.window)
                    if task.deadline_us is not None:
                        left = 2 * left + 1  # a late worker asks one round after it was refused
                    deadline = deadlines.setdefault(number, rounds + left)
                    assert rounds < deadline, f"job {task.work.job} is stuck: {checks.who_waits(task)}"
            self._round()
            rounds += 1

    def _round(self) -> None:
        for _ in range(self.rng.randrange(4)):
            self.network.release()
        workers = [worker for task in self.tasks if not task.finished for worker in task.workers.values()]
        for worker, index in self.choices.shuffled([(w, index) for w in workers for index in w.sendable()]):
            asks = index in worker.sent
            self.network.send(worker.node, [worker.question(index) if asks else worker.packet(index)])
        self._drain()

    def _drain(self) -> None:
        while not self.network.idle:
            self._count()
            self.network.step()

    def _end(self) -> None:
        """Check the results, deliver the copies that were held back, which may change nothing, and remove the jobs."""
        checks.results(self.tasks, self.network.witness)
        for worker in (worker for task in self.tasks for worker in task.workers.values()):
            self.network.events["took what was announced"] += worker.decided is True
            self.network.events["took the whole lead"] += worker.decided is False
        held = checks.holdings(self.tasks)
        self.network.release(everything=True)
        self._drain()
        assert checks.holdings(self.tasks) == held, "a frame from the past changed a result"
        for switch in self.network.switches.values():
            switch.check()
        for task in self.tasks:
            self.controller.retire(task)
        while self.controller.busy:
            self.controller.act()
        for node, switch in self.network.switches.items():
            checks.clean(node, switch, self.tasks)

    def _start_due(self) -> None:
        for number in list(self.waiting):
            after = self.scenario.jobs[number].after
            if after is None or self.tasks[after].finished:
                self.waiting.remove(number)
                if after is not None and self.choices.chance(50):
                    self.controller.retire(self.tasks[after])
                self.controller.launch(self.tasks[number], self.trees[number])

    def _fire_due(self, now: bool = False) -> None:
        for event in list(self.events):
            task = self.tasks[event.job]
            if task.started and (now or 100 * task.missing >= event.percent * task.work.chunks):
                self.events.remove(event)
                self._fire(event, task)

    def _fire(self, event: Event, task: Task) -> None:
        if event.what is What.FLAP:
            self.controller.flap()
        elif event.what is What.RESTART:
            self._restart(self.scenario.graph.switches[event.pick % len(self.scenario.graph.switches)])
        elif task.finished:
            return
        elif event.what is What.ABORT:
            self.controller.abort(task)
        elif event.what is What.REMOVE:
            members = self.trees[event.job].members()
            if len(members) > 1:
                self._move(event.job, without(self.trees[event.job], members[event.pick % len(members)]))
        elif event.tree is not None:
            gone = set(event.tree.members()) - set(self.trees[event.job].members())
            tree = event.tree
            for worker in gone:
                tree = without(tree, worker)
            self._move(event.job, tree)
        else:
            self._move(event.job, self.trees[event.job])

    def _move(self, number: int, tree: Tree) -> None:
        self.trees[number] = tree
        self.controller.move(self.tasks[number], tree)

    def _restart(self, node: Node) -> None:
        self.network.restart(node, self._fresh(node))
        self.controller.forget(node)
        for number, task in enumerate(self.tasks):
            if task.epochs and not task.finished:
                self._move(number, self.trees[number])

    def _spoof(self) -> None:
        node = self.choices.pick(self.scenario.graph.switches)
        switch = self.network.switches[node]
        forged = spoof(self.choices, switch.golden)
        if forged is not None:
            port, frame, reason = forged
            slots, counted = dict(switch.golden.slots), switch.golden.refused[reason]
            outcome = self.network.arrive(node, port, frame)
            assert outcome is not None
            assert outcome.refused is reason, f"{node} took {frame} at port {port} for {outcome}, not for {reason.name}"
            assert switch.golden.refused[reason] == counted + 1
            assert not outcome.emitted
            assert switch.golden.slots == slots, f"{frame} at port {port} changed a slot of {node}"
            if self.choices.chance(10):
                switch.check()

    def _lie(self) -> None:
        """Send a false RESULT from a host, under its own address, to a worker or switch whose parent it is not."""
        liar, victim = self.choices.pick(self.scenario.graph.hosts), self.choices.pick(list(self.scenario.graph.ports))
        task = self.choices.pick(self.tasks)
        if liar == victim or task.current is None or (task.server is not None and liar == task.server.node):
            return
        hop = self.scenario.graph.next_hop(liar, victim)
        index = self.choices.integer(0, task.work.chunks - 1)
        lanes = task.work.weights(index) if self.choices.chance(70) else None
        about = task.work.job, task.current.grant.epoch, task.work.seq(index)
        port = task.udp_ports.get(victim, INC_PORT)
        lie = Packet(hop.mac, liar.mac, liar.ip, victim.ip, INC_PORT, port, Kind.RESULT, *about, lanes)
        self.network.send(liar, [(HOST_PORT, lie)])

    def _fresh(self, node: Node) -> Switch:
        switch = self.backend.switch(node.ip, node.mac, self.scenario.sample_mask)
        for entry in (*self.scenario.graph.edges(node), *self.scenario.graph.routes(node)):
            switch.write(entry, insert=True)
        return switch

    def _link_faults(self) -> Faults:
        worst = self.scenario.faults
        share = self.choices.pick([1.0, 1.0, 0.5, 0.0])
        return replace(worst, loss=worst.loss * share, duplicate=worst.duplicate * share)

    def _count(self) -> None:
        self.steps += 1
        assert self.steps < STEP_LIMIT, "frames breed frames: the network does not come to rest"


def _task(shape: JobShape, window_factor: int) -> Task:
    members = shape.tree.members()
    window = shape.work.slots // (window_factor if shape.deadline_us is None else 4 * window_factor)
    return Task(
        work=replace(shape.work, said={}),
        region=shape.region,
        ranks={node: rank for rank, node in enumerate(members)},
        udp_ports=shape.udp_ports,
        window=window,
        reach=window * (1 + shape.work.job % 4 if shape.deadline_us is None else 1),
        deadline_us=shape.deadline_us,
    )
