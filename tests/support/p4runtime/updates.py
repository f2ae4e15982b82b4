"""Entities and updates of entities.p4 for integration tests."""

import contextlib
from collections.abc import Iterable, Iterator

import finsy as fy
import grpc
import pytest
from finsy.proto import p4r

from p4switch.p4runtime import StatusCode
from tests.support.p4runtime.client import code_of
from tests.support.p4runtime.configs import schema

INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE
EVERYTHING = p4r.Entity(table_entry=p4r.TableEntry(table_id=0))


@contextlib.contextmanager
def refused(code: StatusCode, said: str | None = None) -> Iterator[pytest.ExceptionInfo[grpc.RpcError]]:
    """Expect the enclosed call to fail with a code and a message that matches ``said``."""
    with pytest.raises(grpc.RpcError, match=said) as caught:
        yield caught
    assert code_of(caught.value) is code


def entry(port: int = 1, action: str = "forward") -> fy.P4TableEntry:
    """Return an entry of exact_table; ports 1 to 4 give different entries."""
    arguments = {"port": 7} if action == "forward" else {}
    return fy.P4TableEntry(
        "exact_table", match=fy.Match(dst=1, ingress_port=port), action=fy.Action(action, **arguments)
    )


def insert(port: int = 1, action: str = "forward") -> p4r.Update:
    """Return the update that inserts ``entry(port, action)``."""
    return p4r.Update(type=INSERT, entity=entry(port, action).encode(schema()))


def dynamic(entities: Iterable[p4r.Entity]) -> list[p4r.TableEntry]:
    """Return the table entries that are not constant."""
    return [e.table_entry for e in entities if not e.table_entry.is_const]
