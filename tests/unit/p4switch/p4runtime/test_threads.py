"""Threads for calls that wait for locks."""

import threading

import pytest

from p4switch.p4runtime.service import DaemonThreads

LIMIT = 3


@pytest.fixture
def pool():
    threads = DaemonThreads("test", LIMIT)
    yield threads
    threads.shutdown(cancel_futures=True)


def test_results_and_errors_reach_the_future(pool):
    assert pool.submit(divmod, 17, 5).result(10) == (3, 2)
    with pytest.raises(ZeroDivisionError):
        pool.submit(divmod, 1, 0).result(10)


def test_calls_beyond_the_limit_wait_and_then_run(pool):
    all_in, go = threading.Barrier(LIMIT + 1, timeout=10), threading.Event()

    def wait():
        all_in.wait()
        assert go.wait(10)
        return threading.current_thread()

    first = [pool.submit(wait) for _ in range(LIMIT)]
    rest = [pool.submit(threading.current_thread) for _ in range(50)]
    all_in.wait()
    assert not any(future.done() for future in rest)
    go.set()
    used = {future.result(10) for future in (*first, *rest)}
    assert len(used) == LIMIT
    assert all(thread.daemon for thread in used)


def test_shutdown_does_what_was_taken_and_ends_the_threads(pool):
    futures = [pool.submit(threading.current_thread) for _ in range(20)]
    pool.shutdown()
    assert all(not future.result(0).is_alive() for future in futures)
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(print)


def test_shutdown_leaves_a_thread_that_waits_and_cancels_the_calls_behind_it():
    pool, lock, waits = DaemonThreads("test", 1), threading.Lock(), threading.Event()

    def work():
        waits.set()
        with lock:
            return threading.current_thread()

    with lock:
        stuck, behind = pool.submit(work), pool.submit(print)
        assert waits.wait(10)
        pool.shutdown(cancel_futures=True)
        assert behind.cancelled()
        assert not stuck.done()
    thread = stuck.result(10)
    thread.join(10)
    assert not thread.is_alive()
