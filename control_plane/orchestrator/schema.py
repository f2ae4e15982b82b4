"""The tables of the database, and how it is opened. `docs/scheduling.md` explains them."""

import os
import sqlite3
from pathlib import Path
from typing import Final

from p4reduce.control_plane.orchestrator.errors import StoreError

VERSION: Final = 1
"""of the tables; a database of another one is refused"""
APPLICATION: Final = 0x50345244
"""'P4RD': SQLite's mark of whose file this is"""
BUSY_S: Final = 30.0
"""how long a process waits for another one that writes"""

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
    role TEXT NOT NULL CHECK (role IN ('both', 'upload', 'broadcast')),
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
"""The last of the indices: what is asked at every step is found without a look at the tasks that have ended."""


def connect(path: Path, *, synchronous: bool) -> sqlite3.Connection:
    """Open the database, which is made when there is none. Transactions are begun by hand.

    With the write-ahead log, what a transaction wrote is there after a crash of the process, or none of it. With
    ``synchronous`` that holds for a crash of the machine too: each waits for the disk.

    Raises
    ------
    StoreError
        The file is not ours, of another version, damaged, or cannot be written.
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
    """An empty file, which only its owner may read, where there is none; SQLite's files beside it get its mode."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        if path.exists() and not path.is_file():
            raise StoreError(f"{path}: is not a regular file; give another one") from None
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}; does its folder exist, and may you write there?") from None


def _check(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the file is a new one; `StoreError` when it is not a database of this version."""
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
    connection.execute("BEGIN IMMEDIATE")  # of two processes that find a new file one makes the tables
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
