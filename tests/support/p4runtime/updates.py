"""Entities of entities.p4 that the integration tests write."""

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
    """The call inside must fail with a code, saying something."""
    with pytest.raises(grpc.RpcError, match=said) as caught:
        yield caught
    assert code_of(caught.value) is code


def entry(port: int = 1, action: str = "forward") -> fy.P4TableEntry:
    """An entry of exact_table; port 1 to 4 make different ones."""
    arguments = {"port": 7} if action == "forward" else {}
    return fy.P4TableEntry(
        "exact_table", match=fy.Match(dst=1, ingress_port=port), action=fy.Action(action, **arguments)
    )


def insert(port: int = 1, action: str = "forward") -> p4r.Update:
    """The update that inserts it."""
    return p4r.Update(type=INSERT, entity=entry(port, action).encode(schema()))


def dynamic(entities: Iterable[p4r.Entity]) -> list[p4r.TableEntry]:
    """The table entries that the program does not fix."""
    return [e.table_entry for e in entities if not e.table_entry.is_const]
