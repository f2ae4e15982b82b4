"""Seconds to write table entries over P4Runtime: of the clock, and of processors, client and server together."""

import time
from typing import Any, Final

from p4reduce.bench.dataplane.client import DEVICE_ID, Client, entities_of, parse_p4info
from p4reduce.bench.dataplane.tables import TABLES, file, filled
from p4reduce.dataplane.device import Device
from p4reduce.dataplane.p4runtime import P4RuntimeServer

BATCH: Final = 100


def measure(kind: str, count: int) -> list[dict[str, Any]]:
    """Inserts ``count`` entries into an empty table: in one request, then in requests of BATCH entries.

    Raises:
        RuntimeError: the table does not hold them afterwards.
    """
    config, p4info = file("json").encode(), parse_p4info(file("p4info.txt"))
    entities = entities_of(filled(kind, count)[0], p4info, config)
    rows = []
    for batch in (count, BATCH):
        with P4RuntimeServer("127.0.0.1:0") as server:
            server.add_device(DEVICE_ID)
            with Client(server.address) as client:
                client.set_pipeline(p4info, config)
                begin, busy = time.perf_counter(), time.process_time()
                for first in range(0, count, batch):
                    client.insert(entities[first : first + batch])
                spent, busy = time.perf_counter() - begin, time.process_time() - busy
            _check(server.device(DEVICE_ID), kind, count)
        rows.append({"kind": kind, "entries": count, "entries_per_request": batch, "seconds": spent, "cpu_s": busy})
    return rows


def _check(device: Device | None, kind: str, count: int) -> None:
    held = 0 if device is None else len(device.tables[TABLES[kind]])
    if held != count:
        raise RuntimeError(f"{kind} table: {held} of {count} entries are there")
