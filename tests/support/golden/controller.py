"""The controller of a scenario: grants epochs and slots, writes entries one at a time, moves workers to new epochs.

Everything that it does is cut into micro-steps, between which packets fly.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from tests.support.golden.choices import SeededChoices
from tests.support.golden.endpoints import Attachment, Server, Worker
from tests.support.golden.entries import Grant, entries
from tests.support.golden.graph import Node
from tests.support.golden.network import Network
from tests.support.golden.tables import Entry
from tests.support.golden.trees import Tree
from tests.support.golden.work import Work

IDS_PER_GRANT: Final = 40
"""Replication ids set aside for the children of one switch in one (job, epoch)."""


@dataclass(slots=True)
class Installation:
    """The entries of one (job, epoch): which are there, which are still to be written. Retired: to be deleted."""

    tree: Tree
    grant: Grant
    missing: list[tuple[Node, Entry]]
    present: list[tuple[Node, Entry]] = field(default_factory=list)
    retired: bool = False

    @property
    def unsettled(self) -> bool:
        """Whether an entry has to be written or deleted yet."""
        return bool(self.present if self.retired else self.missing)


@dataclass(slots=True)
class Task:
    """A job as the controller sees it."""

    work: Work
    region: tuple[int, int]  # its slots in every switch: first, number
    ranks: dict[Node, int]
    udp_ports: dict[Node, int]
    window: int
    reach: int
    deadline_us: int | None = None
    workers: dict[Node, Worker] = field(default_factory=dict)
    server: Server | None = None
    current: Installation | None = None
    epochs: dict[int, frozenset[int]] = field(default_factory=dict)  # the ranks that took part in each
    aborted: bool = False

    @property
    def memory(self) -> int | None:
        """Chunks by which workers may lie apart, where they do not all wait for each other."""
        return None if self.deadline_us is None else self.work.slots

    @property
    def started(self) -> bool:
        """Whether its workers have been let go."""
        return bool(self.epochs) and self.current is not None

    @property
    def missing(self) -> int:
        """The oldest chunk that any worker lacks."""
        return min(worker.missing for worker in self.workers.values())

    @property
    def finished(self) -> bool:
        """Whether nothing more will come of it: all have all results, and nobody is to form any of them again."""
        moving = any(worker.attachment is None for worker in self.workers.values())
        return self.aborted or (self.started and not moving and self.missing == self.work.chunks)


class Controller:
    """Writes the tables of all switches of ``network`` for any number of tasks."""

    def __init__(self, network: Network, choices: SeededChoices, first_generation: int) -> None:
        self.network, self.choices = network, choices
        self.generation = first_generation
        self.installations: list[Installation] = []
        self.zombies: list[Worker] = []  # removed from their job, and not aware of it
        self._next_id = dict.fromkeys(network.switches, 1)
        self._changes: dict[int, list[Iterator[None]]] = {}  # by job, one after the other

    @property
    def busy(self) -> bool:
        """Whether anything is left to do."""
        return any(self._changes.values()) or any(each.unsettled for each in self.installations)

    def act(self) -> None:
        """One micro-step of one thing that is going on."""
        doing = [partial(self._advance, changes) for changes in self._changes.values() if changes]
        doing += [partial(self._write_any, each) for each in self.installations if each.unsettled]
        if doing:
            self.choices.pick(doing)()

    def launch(self, task: Task, tree: Tree) -> None:
        """Starts ``task`` on ``tree``."""
        for node in tree.members():
            about = task.ranks[node], task.work, task.udp_ports[node]
            task.workers[node] = Worker(node, *about, task.window, task.reach, task.memory)
            self.network.endpoints[node, task.work.job] = task.workers[node].receive
        if tree.server is not None:
            task.server = Server(tree.server, task.work, task.udp_ports[tree.server], task.window + task.reach)
            self.network.endpoints[tree.server, task.work.job] = task.server.receive
        self.move(task, tree)

    def move(self, task: Task, tree: Tree) -> None:
        """Takes ``task`` to a new epoch on ``tree``, after what is under way for it."""
        self._changes.setdefault(task.work.job, []).append(self._moving(task, tree))

    def abort(self, task: Task) -> None:
        """The job leaves unfinished; some of its workers do not notice."""
        task.aborted = True
        for worker in task.workers.values():
            self._dismiss(worker)
        self.retire(task)

    def retire(self, task: Task) -> None:
        """Deletes the entries of ``task``, one by one, and gives up what was under way for it."""
        self._changes.pop(task.work.job, None)
        for each in self.installations:
            each.retired |= each.grant.job == task.work.job

    def flap(self) -> None:
        """Deletes an entry that is in use. It will be written again."""
        alive = [each for each in self.installations if each.present and not each.retired]
        if alive:
            each = self.choices.pick(alive)
            self._write(each, each.present, each.missing, insert=False)

    def forget(self, node: Node) -> None:
        """``node`` has restarted: none of its entries is there. They do not come back: new epochs are to follow."""
        for each in self.installations:
            each.missing = [(where, entry) for where, entry in each.missing if where != node]
            each.present = [(where, entry) for where, entry in each.present if where != node]

    def _advance(self, changes: list[Iterator[None]]) -> None:
        try:
            next(changes[0])
        except StopIteration:
            del changes[0]

    def _write_any(self, each: Installation) -> None:
        if each.retired:
            self._write(each, each.present, None, insert=False)
        else:
            self._write(each, each.missing, each.present, insert=True)

    def _write(
        self,
        each: Installation,
        source: list[tuple[Node, Entry]],
        sink: list[tuple[Node, Entry]] | None,
        *,
        insert: bool,
    ) -> None:
        node, entry = source.pop(self.choices.integer(0, len(source) - 1))
        self.network.switches[node].write(entry, insert=insert)
        if sink is not None:
            sink.append((node, entry))

    def _moving(self, task: Task, tree: Tree) -> Iterator[None]:
        old = task.current
        new = self._plan(task, tree)
        retire_at = self.choices.integer(0, 3)
        for _ in range(self.choices.integer(0, len(new.missing))):
            if new.missing:
                self._write_any(new)
            yield
        yield from self._retired(old, retire_at == 0)
        for node in self.choices.shuffled(list(task.workers)):
            if node in tree.members():
                task.workers[node].halt()
            else:
                self._dismiss(task.workers.pop(node))
            yield
        yield from self._retired(old, retire_at == 1)
        oldest = task.missing
        task.current = new
        if task.server is not None:
            task.server.attachment = self._attachment(new, task.server.node, tree.root)
            yield
        for node in self.choices.shuffled(list(task.workers)):
            leaf = tree.parent(node)
            assert leaf is not None
            task.workers[node].resume(self._attachment(new, node, leaf), oldest)
            yield
        yield from self._retired(old, retire_at == 2)  # or else only when the job ends

    def _retired(self, old: Installation | None, now: bool) -> Iterator[None]:
        if old is not None and now:
            old.retired = True
            yield

    def _dismiss(self, worker: Worker) -> None:
        if self.choices.chance(50):
            self.zombies.append(worker)
        else:
            worker.halt()

    def _plan(self, task: Task, tree: Tree) -> Installation:
        first, size = task.region
        epoch = self.choices.integer(0, 0xFFFF)
        while epoch in task.epochs:
            epoch = (epoch + 1) & 0xFFFF
        task.epochs[epoch] = frozenset(task.ranks[node] for node in tree.members())
        self.generation += self.choices.integer(1, 3)
        grant = Grant(
            job=task.work.job,
            epoch=epoch,
            generation=self.generation,
            slots=task.work.slots,
            stats=task.work.job % 512,
            first_bit=self.choices.pick([0, self.choices.integer(0, 31)]),
            bases={node: first + self.choices.integer(0, size - task.work.slots) for node in tree.children},
            first_id={node: self._next_id[node] for node in tree.children},
            udp_ports=task.udp_ports,
            pinned=self.choices.chance(50),
            deadline_us=task.deadline_us,
            secret=self.generation if self.generation % 4 else 0,  # some have no tokens
            asks=self.generation % 3 != 0,
            again=self.generation % 5,
        )
        for node in tree.children:
            self._next_id[node] += IDS_PER_GRANT
        self.installations.append(Installation(tree, grant, entries(tree, grant, self.network.graph)))
        return self.installations[-1]

    def _attachment(self, new: Installation, node: Node, to: Node) -> Attachment:
        token = new.grant.token(node, to)
        return Attachment(new.grant.epoch, to.ip, self.network.graph.next_hop(node, to).mac, token)
