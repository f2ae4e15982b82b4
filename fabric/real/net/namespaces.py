"""Network namespaces without a process: a file descriptor keeps each alive, so it ends with this process."""

import os
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from p4reduce.fabric.real.net.enter import CLONE_NEWNET, setns, unshare

T = TypeVar("T")

_OF_THREAD: Final = "/proc/thread-self/ns/net"


def new_namespace() -> int:
    """A file descriptor that holds a new network namespace; close it to let the namespace go."""

    def make() -> int:
        unshare(CLONE_NEWNET)
        return os.open(_OF_THREAD, os.O_RDONLY | os.O_CLOEXEC)

    return _in_thread(make)


def inside(namespace: int, work: Callable[[], T]) -> T:
    """Do ``work`` inside a namespace and return what it returns.

    A thread of its own enters: sockets that it opens, netlink's too, stay in that namespace for good.
    """

    def enter_and_work() -> T:
        setns(namespace, CLONE_NEWNET)
        return work()

    return _in_thread(enter_and_work)


def _in_thread(work: Callable[[], T]) -> T:
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
