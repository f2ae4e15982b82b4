"""The database of the orchestrator: tasks, plans and decisions, and the transactions that change them."""

import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from p4reduce.base.errors import PlanError
from p4reduce.base.records import to_json
from p4reduce.control_plane.orchestrator.executor import LAST_JOB
from p4reduce.control_plane.orchestrator.history import (
    Demand,
    Names,
    PlacedTask,
    PlanRow,
    Schedules,
    TaskHistory,
    TaskRow,
    plan_row,
    task_row,
)
from p4reduce.control_plane.orchestrator.options import (
    AT_WORK,
    ENDED,
    FOLLOWING,
    LIVE,
    PlanPhase,
    StoreError,
    TaskError,
    TaskState,
)
from p4reduce.control_plane.placement.policies import QueueOrder, order_named
from p4reduce.control_plane.scheduling.task import Task
from p4switch.base.closing import Closable

# The tables of the database, and how to open it. `docs/scheduling.md` explains them.


VERSION: Final = 3
"""version of the tables; a database with another version is refused"""
APPLICATION: Final = 0x50345244
"""'P4RD': the application id that marks the file as a database of p4reduce"""
BUSY_S: Final = 30.0
"""longest wait in seconds for another process that writes"""

TABLES: Final = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;

CREATE TABLE tasks (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    spec TEXT NOT NULL,
    arrival_ps INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN
        ('queued', 'scheduled', 'running', 're-scheduled', 'finished', 'failed', 'rejected')),
    reason TEXT NOT NULL DEFAULT '',
    cancel INTEGER NOT NULL DEFAULT 0,
    started_ps INTEGER,
    finished_ps INTEGER,
    digest TEXT,
    deadline_ps INTEGER,
    waits TEXT,
    chosen TEXT,
    placed TEXT,
    owner TEXT NOT NULL DEFAULT '',
    rank REAL NOT NULL DEFAULT 0,
    attempt INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE changes (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    task TEXT NOT NULL REFERENCES tasks (name),
    at_ps INTEGER NOT NULL,
    before TEXT,
    after TEXT NOT NULL,
    reason TEXT NOT NULL
) STRICT;

CREATE TABLE plans (
    generation INTEGER PRIMARY KEY,
    task TEXT NOT NULL REFERENCES tasks (name),
    role TEXT NOT NULL CHECK (role IN ('both', 'upload', 'broadcast') OR role LIKE 'tree % of %'
        OR role LIKE 'read % of %'),
    job INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    phase TEXT NOT NULL CHECK (phase IN ('installing', 'installed', 'active', 'removing', 'removed')),
    demand TEXT NOT NULL,
    plan TEXT NOT NULL,
    at_ps INTEGER NOT NULL,
    UNIQUE (job, epoch)
) STRICT;
CREATE INDEX plans_of_task ON plans (task);
CREATE INDEX plans_in_phase ON plans (phase);

CREATE TABLE decisions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ps INTEGER NOT NULL,
    task TEXT,
    what TEXT NOT NULL,
    policy TEXT NOT NULL,
    why TEXT NOT NULL
) STRICT;

CREATE TABLE rounds (
    task TEXT NOT NULL REFERENCES tasks (name),
    round INTEGER NOT NULL,
    started_ps INTEGER NOT NULL,
    trained_ps INTEGER NOT NULL,
    uploaded_ps INTEGER NOT NULL,
    aggregated_ps INTEGER NOT NULL,
    done_ps INTEGER NOT NULL,
    ranks TEXT NOT NULL,
    PRIMARY KEY (task, round)
) STRICT;

CREATE TABLE swaps (
    task TEXT NOT NULL REFERENCES tasks (name),
    role TEXT NOT NULL,
    job INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    at_ps INTEGER NOT NULL,
    cause TEXT NOT NULL,
    saving_bytes INTEGER NOT NULL,
    cost_bytes INTEGER NOT NULL,
    in_flight INTEGER,
    resent_frames INTEGER,
    resent_bytes INTEGER,
    late_frames INTEGER,
    duration_ps INTEGER,
    PRIMARY KEY (job, epoch)
) STRICT;

CREATE TABLE link_measurements (
    at_ps INTEGER NOT NULL,
    node TEXT NOT NULL,
    port INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    inc_bytes INTEGER NOT NULL,
    utilisation REAL NOT NULL,
    PRIMARY KEY (at_ps, node, port)
) STRICT;

CREATE TABLE switch_measurements (
    at_ps INTEGER NOT NULL,
    switch TEXT NOT NULL,
    sent INTEGER NOT NULL,
    resent INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    largest_slots INTEGER NOT NULL,
    PRIMARY KEY (at_ps, switch)
) STRICT;

CREATE TABLE owners (owner TEXT PRIMARY KEY, served REAL NOT NULL) STRICT;

CREATE TABLE host_measurements (
    host TEXT PRIMARY KEY,
    slowdown REAL NOT NULL,
    rounds INTEGER NOT NULL,
    at_ps INTEGER NOT NULL
) STRICT;

CREATE TABLE configurations (number INTEGER PRIMARY KEY AUTOINCREMENT, circuits TEXT NOT NULL UNIQUE) STRICT;

CREATE TABLE schedules (
    number INTEGER PRIMARY KEY,
    phase TEXT NOT NULL CHECK (phase IN ('installing', 'set', 'active', 'past', 'dropped')),
    policy TEXT NOT NULL,
    at_ps INTEGER NOT NULL,
    began_ps INTEGER,
    schedule TEXT NOT NULL
) STRICT;
CREATE INDEX schedules_in_phase ON schedules (phase, number);

CREATE TABLE windows (
    schedule INTEGER NOT NULL REFERENCES schedules (number),
    place INTEGER NOT NULL,
    process INTEGER NOT NULL,
    configuration INTEGER NOT NULL REFERENCES configurations (number),
    tasks TEXT NOT NULL,
    planned_start_ps INTEGER NOT NULL,
    planned_ps INTEGER NOT NULL,
    PRIMARY KEY (schedule, place)
) STRICT;

CREATE TABLE window_rounds (
    schedule INTEGER NOT NULL REFERENCES schedules (number),
    round INTEGER NOT NULL,
    place INTEGER NOT NULL,
    started_ps INTEGER NOT NULL,
    lit_ps INTEGER NOT NULL,
    ended_ps INTEGER NOT NULL,
    dark_lost INTEGER NOT NULL,
    misrouted INTEGER NOT NULL,
    PRIMARY KEY (schedule, round, place)
) STRICT;

CREATE TABLE replans (
    generation INTEGER PRIMARY KEY,
    task TEXT NOT NULL REFERENCES tasks (name),
    at_ps INTEGER NOT NULL,
    what TEXT NOT NULL CHECK (what IN ('tree', 'hosts add', 'move', 'rescue', 'shrink')),
    cause TEXT NOT NULL,
    at_once INTEGER NOT NULL,
    saving_s REAL,
    cost_s REAL,
    round INTEGER,
    done_ps INTEGER,
    read_bytes INTEGER,
    model_bytes INTEGER,
    duration_ps INTEGER
) STRICT;

CREATE INDEX tasks_in_state ON tasks (state, arrival_ps, number);
CREATE INDEX tasks_new ON tasks (arrival_ps, number) WHERE state = 'queued' AND waits IS NULL;
CREATE INDEX tasks_waiting ON tasks (rank, arrival_ps, number) WHERE state = 'queued' AND waits IS NOT NULL;
CREATE INDEX tasks_of_owners ON tasks (owner, rank, arrival_ps, number) WHERE state = 'queued' AND waits IS NOT NULL;
CREATE INDEX tasks_with_deadline ON tasks (deadline_ps) WHERE state = 'queued' AND deadline_ps IS NOT NULL;
CREATE INDEX tasks_to_cancel ON tasks (number)
    WHERE cancel = 1 AND state IN ('queued', 'scheduled', 'running', 're-scheduled');
CREATE INDEX changes_of_task ON changes (task);
CREATE INDEX decisions_of_task ON decisions (task);
CREATE INDEX replans_of_task ON replans (task);
"""
"""SQL statements. The last indices serve the queries of every step, so that these do not read ended tasks."""


def connect(path: Path, *, synchronous: bool) -> sqlite3.Connection:
    """Open the database, or create it. Transactions are begun explicitly.

    With the write-ahead log, a transaction is complete or absent after a crash of the process. With ``synchronous``
    that also holds for a crash of the machine: each transaction waits for the disk.

    Raises
    ------
    StoreError
        The file belongs to another program or version, is damaged, or cannot be written.
    """
    _make(path)
    try:
        connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {error}; does its folder exist, and may you write there?") from None
    try:
        connection.row_factory = sqlite3.Row
        _check(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if synchronous else 'NORMAL'}")
        connection.execute("PRAGMA foreign_keys = ON")
        _create(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise StoreError(f"{path}: {error}; give the database of 'p4reduce orchestrate', or a new file") from None
    except StoreError:
        connection.close()
        raise
    return connection


def _make(path: Path) -> None:
    """Create an empty file that only its owner may read, if there is none; SQLite copies its mode to other files."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        if path.exists() and not path.is_file():
            raise StoreError(f"{path}: is not a regular file; give another one") from None
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}; does its folder exist, and may you write there?") from None


def _check(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the file is new; `StoreError` when it is not a database of this version."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    tables = int(connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0])
    if (application, version, tables) == (0, 0, 0):
        return True
    if application != APPLICATION:
        raise StoreError(f"{path}: is a database of another program; give another file")
    if version != VERSION:
        raise StoreError(
            f"{path}: has version {version} of the tables, and this p4reduce reads version {VERSION} alone: "
            "give another file, or the p4reduce that made this one"
        )
    return False


def _create(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")  # of two processes that find a new file, one creates the tables
    try:
        if _check(connection, path):
            for statement in filter(str.strip, TABLES.split(";")):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


MAX_NUMBER: Final = 65_535
"""largest number of a job or epoch: 16 bits on the wire"""
FIFO: Final = "fifo"
Place = tuple[float, int, int]
"""rank, arrival and number of a task: its position in the queue"""


class Store(Closable):
    """One SQLite file. Several processes may have it open; one at a time is the orchestrator.

    Every method that writes is a complete transaction, or part of the :meth:`transaction` around it. Times are virtual,
    so the same tasks leave the same rows.
    """

    def __init__(self, path: Path | str, *, synchronous: bool = True) -> None:
        """Open the file; `StoreError` when that is not possible.

        Without ``synchronous`` the last transactions may be lost when the machine crashes, but not when only a process
        crashes.
        """
        self.path: Final = Path(path)
        self._connection = connect(self.path, synchronous=synchronous)
        self._term: int | None = None
        self.history: Final = TaskHistory(self._connection)
        """measurements and decisions, for figures"""
        self.schedules: Final = Schedules(self._connection)
        """the turns of tasks over an optical cross-connect"""

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make all changes inside durable at the end, or none of them."""
        if self._connection.in_transaction:
            yield
            return
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self.check_charge()
            yield
            self._connection.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            self._roll_back()
            raise StoreError(f"{self.path}: {error}{self._holder(error)}") from None
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _holder(self, error: sqlite3.DatabaseError) -> str:
        """Name the process that may hold the lock; a process that is suspended in a transaction keeps the lock."""
        pid = self.fact("pid") if getattr(error, "sqlite_errorname", "") == "SQLITE_BUSY" else None
        if pid is None or int(pid) == os.getpid():
            return ""
        return f"; the last orchestrator was process {pid}: if it is stopped, end it ('kill -9 {pid}')"

    # --- the term of the orchestrator, and other facts

    def take_charge(self) -> int:
        """Become the orchestrator, so that changes by earlier orchestrators are refused. Returns the term, from 1.

        The term is also the election id for P4Runtime, so switches refuse an earlier orchestrator's writes as well.
        """
        with self.transaction():
            self._term = int(self.fact("term") or 0) + 1
            self.set_fact("term", str(self._term))
            self.set_fact("pid", str(os.getpid()))
            if self.fact("database") is None:
                self.set_fact("database", secrets.token_hex(8))
        return self._term

    @property
    def term(self) -> int:
        """The present orchestrator's term; `StoreError` before :meth:`take_charge`."""
        if self._term is None:
            raise StoreError(f"{self.path}: no orchestrator has taken charge of it; call take_charge() first")
        return self._term

    def check_charge(self) -> None:
        """Raise `StoreError` if another orchestrator has taken charge."""
        if self._term is not None and int(self.fact("term") or 0) > self._term:
            raise StoreError(f"{self.path}: another orchestrator has taken over; this one ends")

    def fact(self, name: str) -> str | None:
        """The value of a fact ('term', 'topology', 'instance', 'reports' ...); None if it is not set."""
        row = self._connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row["value"])

    def set_fact(self, name: str, value: str) -> None:
        """Write a fact."""
        with self.transaction():
            self._connection.execute(
                "INSERT INTO facts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", (name, value)
            )

    # --- tasks

    def submit(self, tasks: Iterable[Task]) -> None:
        """Queue tasks, all of them or none; `TaskError` for a name that is taken."""
        with self.transaction():
            key = order_named(self.fact("order") or FIFO).key
            for task in tasks:
                if self._connection.execute("SELECT 1 FROM tasks WHERE name = ?", (task.name,)).fetchone():
                    raise TaskError(f"task {task.name}: name: there is such a task already; give it another name")
                self._connection.execute(
                    "INSERT INTO tasks (name, spec, arrival_ps, deadline_ps, state, owner, rank) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (
                        task.name,
                        to_json(task),
                        task.arrival_ps,
                        task.deadline_ps,
                        TaskState.QUEUED,
                        task.owner,
                        key(task),
                    ),
                )
                self._note_change(task.name, task.arrival_ps, None, TaskState.QUEUED, "submitted")

    def tasks(self, states: Sequence[TaskState] = tuple(TaskState)) -> list[TaskRow]:
        """Tasks in these states, by arrival, then in the order in which they were submitted."""
        return self._tasks(f"state IN ({_marks(states)}) ORDER BY arrival_ps, number", *states)

    def new_tasks(self, now_ps: int, count: int) -> list[TaskRow]:
        """The first tasks that have arrived and were never tried."""
        return self._tasks(
            "state = 'queued' AND waits IS NULL AND arrival_ps <= ? ORDER BY arrival_ps, number LIMIT ?", now_ps, count
        )

    def waiting_tasks(self, after: Place, count: int) -> list[TaskRow]:
        """Tasks that did not fit when they were tried, after the position ``after`` in the queue."""
        return self._tasks(
            "state = 'queued' AND waits IS NOT NULL AND (rank, arrival_ps, number) > (?, ?, ?) "
            "ORDER BY rank, arrival_ps, number LIMIT ?",
            *after,
            count,
        )

    def first_of_owners(self) -> list[TaskRow]:
        """The first waiting task of every owner, least served owners first; one index lookup for each owner."""
        owners = self._connection.execute(
            "WITH RECURSIVE waiting (owner) AS (SELECT min(owner) FROM tasks WHERE state = 'queued' AND waits IS NOT "
            "NULL UNION ALL SELECT (SELECT min(owner) FROM tasks WHERE state = 'queued' AND waits IS NOT NULL AND "
            "owner > waiting.owner) FROM waiting WHERE waiting.owner IS NOT NULL) "
            "SELECT waiting.owner FROM waiting LEFT JOIN owners USING (owner) WHERE waiting.owner IS NOT NULL "
            "ORDER BY coalesce(served, 0), waiting.owner"
        ).fetchall()
        where = "state = 'queued' AND waits IS NOT NULL AND owner = ? ORDER BY rank, arrival_ps, number LIMIT 1"
        return [row for (owner,) in owners for row in self._tasks(where, owner)]

    def served(self, owners: Iterable[str]) -> dict[str, float]:
        """Estimated worker-seconds of each owner's started tasks."""
        query = "SELECT coalesce((SELECT served FROM owners WHERE owner = ?), 0)"
        return {owner: float(self._connection.execute(query, (owner,)).fetchone()[0]) for owner in owners}

    def serve(self, owner: str, work: float) -> None:
        """Add the worker-seconds of a started task to its owner's total."""
        with self.transaction():
            self._connection.execute(
                "INSERT INTO owners VALUES (?, ?) ON CONFLICT (owner) DO UPDATE SET served = served + excluded.served",
                (owner, work),
            )

    def set_order(self, name: str, order: QueueOrder) -> None:
        """Set the order of waiting tasks, and rank them again if it has changed."""
        if (self.fact("order") or FIFO) == name:
            return
        with self.transaction():
            self.set_fact("order", name)
            for row in self.tasks((TaskState.QUEUED,)):
                rank = 0.0 if row.fault else order.key(row.task)
                self._connection.execute("UPDATE tasks SET rank = ? WHERE name = ?", (rank, row.name))

    def late_tasks(self, now_ps: int) -> list[TaskRow]:
        """Queued tasks whose deadline has passed."""
        return self._tasks("state = 'queued' AND deadline_ps IS NOT NULL AND deadline_ps <= ? ORDER BY number", now_ps)

    def tasks_to_cancel(self) -> list[TaskRow]:
        """Tasks that are to be cancelled and have not ended."""
        return self._tasks("cancel = 1 AND state IN ('queued', 'scheduled', 'running', 're-scheduled') ORDER BY number")

    def _tasks(self, where: str, *values: object) -> list[TaskRow]:
        rows = self._connection.execute(f"SELECT * FROM tasks WHERE {where}", values)  # noqa: S608  (texts of ours)
        return [task_row(row) for row in rows]

    def count(self, states: Sequence[TaskState] = tuple(TaskState)) -> int:
        """The number of tasks in these states."""
        query = f"SELECT count(*) FROM tasks WHERE state IN ({_marks(states)})"  # noqa: S608  (only marks)
        return int(self._connection.execute(query, tuple(states)).fetchone()[0])

    def any_at_work(self) -> bool:
        """Whether any task runs."""
        query = f"SELECT 1 FROM tasks WHERE state IN ({_marks(AT_WORK)}) LIMIT 1"  # noqa: S608  (only marks)
        return self._connection.execute(query, AT_WORK).fetchone() is not None

    def next_event_ps(self, after_ps: int) -> int | None:
        """The first arrival after a time, or deadline, of a queued task, in ps; None if there is none."""
        times_ps = self._connection.execute(
            "SELECT (SELECT min(arrival_ps) FROM tasks WHERE state = 'queued' AND arrival_ps > ?), "
            "(SELECT min(deadline_ps) FROM tasks WHERE state = 'queued' AND deadline_ps IS NOT NULL)",
            (after_ps,),
        ).fetchone()
        return min((int(at_ps) for at_ps in times_ps if at_ps is not None), default=None)

    def note_waiting(self, name: str, reason: str) -> bool:
        """Record why a queued task does not fit yet; returns whether it is the first reason."""
        with self.transaction():
            row = self.task(name)
            if row.waits != reason:
                self._connection.execute("UPDATE tasks SET waits = ? WHERE name = ?", (reason, name))
            return row.waits is None

    def task(self, name: str) -> TaskRow:
        """The task with this name; `TaskError` when there is none."""
        row = self._connection.execute("SELECT * FROM tasks WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise TaskError(f"there is no task {name!r}; 'p4reduce tasks list' shows all")
        return task_row(row)

    def __contains__(self, name: str) -> bool:
        """Whether there is a task with this name."""
        return self._connection.execute("SELECT 1 FROM tasks WHERE name = ?", (name,)).fetchone() is not None

    def change(self, name: str, state: TaskState, at_ps: int, reason: str = "", digest: str | None = None) -> None:
        """Set a task's next state; `ValueError` for a state that must not follow."""
        with self.transaction():
            before = self.task(name).state
            if state not in FOLLOWING[before]:
                raise ValueError(f"task {name}: {state} cannot follow {before}")
            self._connection.execute(
                "UPDATE tasks SET state = ?, reason = ?, waits = NULL, digest = coalesce(?, digest) WHERE name = ?",
                (state, reason, digest, name),
            )
            if state is TaskState.QUEUED:  # its hosts are chosen again
                self._connection.execute("UPDATE tasks SET placed = NULL WHERE name = ?", (name,))
            if state is TaskState.RUNNING:
                self._connection.execute(
                    "UPDATE tasks SET started_ps = coalesce(started_ps, ?) WHERE name = ?", (at_ps, name)
                )
            elif state in ENDED:
                self._connection.execute("UPDATE tasks SET finished_ps = ? WHERE name = ?", (at_ps, name))
            self._note_change(name, at_ps, before, state, reason)

    def restart(self, name: str, at_ps: int, again_ps: int, reason: str) -> None:
        """Queue a task that would have failed, for a restart not before ``again_ps``."""
        with self.transaction():
            before = self.task(name).state
            if before is TaskState.QUEUED:
                self._connection.execute("UPDATE tasks SET waits = NULL, reason = ? WHERE name = ?", (reason, name))
                self._note_change(name, at_ps, before, before, reason)
            else:
                self.change(name, TaskState.QUEUED, at_ps, reason)
            query = "UPDATE tasks SET attempt = attempt + 1, arrival_ps = ? WHERE name = ?"
            self._connection.execute(query, (again_ps, name))

    def _note_change(self, name: str, at_ps: int, before: TaskState | None, after: TaskState, reason: str) -> None:
        self._connection.execute(
            "INSERT INTO changes (task, at_ps, before, after, reason) VALUES (?, ?, ?, ?, ?)",
            (name, at_ps, before, after, reason),
        )

    def choose(self, name: str, workers: Sequence[str]) -> None:
        """Record which of a task's workers take part; this never changes."""
        with self.transaction():
            self._connection.execute(
                "UPDATE tasks SET chosen = ? WHERE name = ? AND chosen IS NULL", (to_json(tuple(workers), Names), name)
            )

    def place(self, name: str, workers: Sequence[str], server: str, ranks: Sequence[int] | None = None) -> None:
        """Record the hosts of a task, which change when it moves, loses hosts, or waits again.

        ranks: ranks of the workers; None: 0, 1, ...
        """
        with self.transaction():
            placed = PlacedTask(tuple(workers), server, None if ranks is None else tuple(ranks))
            self._connection.execute("UPDATE tasks SET placed = ? WHERE name = ?", (to_json(placed), name))

    def request_cancel(self, name: str) -> None:
        """Ask the orchestrator to cancel a task; `TaskError` when it has ended."""
        with self.transaction():
            row = self.task(name)
            if row.state in ENDED:
                raise TaskError(f"task {name} is {row.state} already")
            self._connection.execute("UPDATE tasks SET cancel = 1 WHERE name = ?", (name,))

    # --- plans

    def free_keys(self, count: int) -> list[tuple[int, int]]:
        """(job, epoch) pairs for new jobs that no plan ever had: a reused job number continues its epochs.

        `PlanError` when every job number is in use, or all its epochs have been used.
        """
        last = int(self._connection.execute("SELECT coalesce(max(job), 0) FROM plans").fetchone()[0])
        fresh = [(job, 0) for job in range(last + 1, min(last + count, LAST_JOB) + 1)]
        if len(fresh) < count:
            query = """SELECT job, max(epoch) + 1 AS next FROM plans GROUP BY job
                       HAVING sum(phase <> 'removed') = 0 AND next <= ? ORDER BY next, job LIMIT ?"""
            rows = self._connection.execute(query, (MAX_NUMBER, count - len(fresh)))
            fresh += [(int(row["job"]), int(row["next"])) for row in rows]
        if len(fresh) < count:
            raise PlanError("no job number is left; wait for tasks to end, or begin a new database")
        return fresh

    def next_epoch(self, job: int) -> int:
        """The epoch after all epochs of a job; `PlanError` when the last has been used."""
        last = int(self._connection.execute("SELECT max(epoch) FROM plans WHERE job = ?", (job,)).fetchone()[0])
        if last >= MAX_NUMBER:
            raise PlanError(f"job {job} has used all its epochs; its trees stay as they are")
        return last + 1

    def next_generation(self) -> int:
        """The lowest number above all generations so far."""
        return int(self._connection.execute("SELECT coalesce(max(generation), 0) + 1 FROM plans").fetchone()[0])

    def add_plan(self, row: PlanRow, at_ps: int) -> None:
        """Add a plan that is to be installed; `StoreError` when its generation or (job, epoch) was used before."""
        demand = to_json(row.demand_bps, Demand)
        values = (row.generation, row.task, row.role, row.job, row.epoch, row.phase, demand, row.plan, at_ps)
        with self.transaction():
            try:
                self._connection.execute("INSERT INTO plans VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
            except sqlite3.IntegrityError as error:
                key = f"job {row.job} epoch {row.epoch} generation {row.generation}"
                raise StoreError(f"{self.path}: {key} was used before ({error})") from None

    def set_phase(self, generation: int, phase: PlanPhase) -> None:
        """Set a plan's next phase."""
        with self.transaction():
            self._connection.execute("UPDATE plans SET phase = ? WHERE generation = ?", (phase, generation))

    def plans(self, phases: Sequence[PlanPhase] = LIVE, task: str | None = None) -> list[PlanRow]:
        """Plans in these phases, oldest first; of one task or of all."""
        query = f"SELECT * FROM plans WHERE phase IN ({_marks(phases)})"  # noqa: S608  (only marks)
        values: tuple[str, ...] = tuple(phases)
        if task is not None:
            query, values = f"{query} AND task = ?", (*values, task)
        return [plan_row(row) for row in self._connection.execute(f"{query} ORDER BY generation", values)]


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
