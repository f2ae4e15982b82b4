"""Threads for gRPC handlers."""

import threading

import pytest

from p4reduce.dataplane.p4runtime.threads import DaemonThreads


def test_results_and_errors_reach_the_future():
    pool = DaemonThreads("test")
    assert pool.submit(divmod, 17, 5).result(10) == (3, 2)
    with pytest.raises(ZeroDivisionError):
        pool.submit(divmod, 1, 0).result(10)


def test_every_call_starts_at_once_however_many_wait():
    pool, all_in, go = DaemonThreads("test"), threading.Barrier(41, timeout=10), threading.Event()

    def wait():
        all_in.wait()
        return go.wait(10)

    futures = [pool.submit(wait) for _ in range(40)]
    all_in.wait()
    go.set()
    assert all(future.result(10) for future in futures)


def test_threads_are_used_again_and_are_daemons():
    pool, threads = DaemonThreads("test"), set()
    for _ in range(50):
        done = threading.Event()
        future = pool.submit(threading.current_thread)
        future.add_done_callback(lambda _, done=done: done.set())
        assert done.wait(10)
        threads.add(future.result(10))
    assert all(thread.daemon for thread in threads)
    # A thread may not be idle again yet when the next call comes; it is within a few calls.
    assert len(threads) < 50


def test_after_shutdown_no_calls_are_taken():
    pool = DaemonThreads("test")
    thread = pool.submit(threading.current_thread).result(10)
    pool.shutdown()
    thread.join(10)
    assert not thread.is_alive()
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(print)
