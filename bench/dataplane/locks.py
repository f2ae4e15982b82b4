"""Processor time that a P4Runtime server holds the lock of its devices: frames and writes stand still meanwhile."""

import time
from threading import RLock
from types import TracebackType
from typing import Any

from finsy.proto import p4r

from p4reduce.bench.dataplane.client import DEVICE_ID, Client, parse_p4info
from p4reduce.bench.dataplane.tables import TABLES, file, filled
from p4reduce.dataplane.p4runtime import P4RuntimeServer


class _TimedLock:
    """A lock for one thread at a time, which knows how long it was held longest."""

    def __init__(self) -> None:
        self._lock, self._depth, self._since = RLock(), 0, 0.0
        self.longest_s = 0.0

    def __enter__(self) -> bool:
        self._lock.acquire()
        if self._depth == 0:
            self._since = time.thread_time()
        self._depth += 1
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.longest_s = max(self.longest_s, time.thread_time() - self._since)
        self._lock.release()


def measure(kind: str, count: int) -> dict[str, Any]:
    """The longest hold of a wildcard read of ``count`` entries.

    Raises:
        RuntimeError: the read does not return them all.
    """
    device, _ = filled(kind, count)
    config, p4info = file("json").encode(), parse_p4info(file("p4info.txt"))
    table_id = next(table.preamble.id for table in p4info.tables if table.preamble.name == TABLES[kind])
    lock = _TimedLock()
    with P4RuntimeServer("127.0.0.1:0", on_pipeline=lambda _id, _program, _p4info: device, lock=lock) as server:
        server.add_device(DEVICE_ID)
        with Client(server.address) as client:
            client.set_pipeline(p4info, config)
            lock.longest_s, begin = 0.0, time.process_time()
            wanted = p4r.Entity(table_entry=p4r.TableEntry(table_id=table_id))
            found = sum(1 for _ in client.read([wanted]))
            busy = time.process_time() - begin
    if found != count:
        raise RuntimeError(f"{kind} table: {found} of {count} entries were read")
    return {"kind": kind, "entries": count, "held_s": lock.longest_s, "cpu_s": busy}
