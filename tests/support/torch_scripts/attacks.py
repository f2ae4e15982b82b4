"""Failures of ranks: no hang, no crash, and an error that names the rank.

``python -m tests.support.torch_scripts.attacks [NAME ...]`` runs each attack in three processes, forked from one that
has imported torch, without a supervisor (unlike torchrun), and prints a line of JSON for each: how every rank ended and
its message. Each function below is one attack; its result is the rank's message.
"""

import contextlib
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import p4reduce.adapters.torch.create

SIZE = 3
TIMEOUT = timedelta(seconds=90)
"""time-out that includes the start of the network on a busy machine"""
BRIEF = timedelta(seconds=4)
"""time-out of groups that are meant to run into it"""
DEADLINE_S = 120
"""limit of an attack in seconds; ranks alive afterwards count as hanging"""
BIG = 4_000_000
Attack = Callable[[int], Any]
ATTACKS: dict[str, Attack] = {}


def attack(function: Attack) -> Attack:
    ATTACKS[function.__name__] = function
    return function


def init() -> None:
    dist.init_process_group("p4reduce", timeout=TIMEOUT)


def die(rank: int, who: int = 1) -> None:
    if rank == who:
        os.kill(os.getpid(), signal.SIGKILL)


@attack
def dies_before_init(rank: int) -> None:
    die(rank)
    store = dist.FileStore(f"{os.environ['ATTACK_FOLDER']}/store", SIZE)
    dist.init_process_group("p4reduce", timeout=BRIEF, store=store, rank=rank, world_size=SIZE)


@attack
def dies_before_a_sum(rank: int) -> None:
    init()
    die(rank)
    dist.all_reduce(torch.ones(10))


@attack
def dies_inside_a_sum(rank: int) -> None:
    init()
    work = dist.all_reduce(torch.ones(BIG), async_op=True)
    die(rank)
    work.wait()
    dist.all_reduce(torch.ones(BIG))


@attack
def dies_after_a_sum(rank: int) -> None:
    init()
    dist.all_reduce(torch.ones(10))
    die(rank)
    dist.barrier()


@attack
def dies_in_a_backward_pass(rank: int) -> None:
    init()
    model = DistributedDataParallel(
        torch.nn.Sequential(*(torch.nn.Linear(99, 99) for _ in range(4))), bucket_cap_mb=0.01
    )
    model.module[1].weight.register_hook(lambda _: die(rank))
    model(torch.ones(2, 99)).sum().backward()


@attack
def dies_and_leaves_a_child(rank: int) -> None:
    init()
    if rank == 1 and os.fork() == 0:
        time.sleep(30)
        os._exit(0)
    die(rank)
    dist.all_reduce(torch.ones(10))


@attack
def who_has_the_network_dies(rank: int) -> None:
    init()
    dist.all_reduce(torch.ones(10))
    die(rank, 0)
    dist.all_reduce(torch.ones(10))


@attack
def the_network_dies(rank: int) -> None:
    init()
    dist.all_reduce(torch.ones(10))
    if rank == 0:
        p4reduce.adapters.torch.create.RankWorld.current._host._process.kill()
    dist.all_reduce(torch.ones(BIG))
    dist.all_reduce(torch.ones(10))


@attack
def is_stopped(rank: int) -> None:
    init()
    group = dist.new_group(timeout=BRIEF)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    dist.all_reduce(torch.ones(10), group=group)


@attack
def is_stopped_in_a_group(rank: int) -> None:
    init()
    group = dist.new_group([1, 2], timeout=BRIEF)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    if rank == 2:
        dist.all_reduce(torch.ones(10), group=group)
    while rank == 0 and not Path(os.environ["ATTACK_FOLDER"], "2").exists():
        time.sleep(0.05)  # rank 0 hosts torch's store


@attack
def sizes_differ(rank: int) -> None:
    init()
    dist.all_reduce(torch.ones(10 + rank))


@attack
def types_differ(rank: int) -> None:
    init()
    dist.all_reduce(torch.ones(10, dtype=torch.int32 if rank == 1 else torch.float32))


@attack
def one_type_is_by_gloo(rank: int) -> None:
    init()
    group = dist.new_group(timeout=BRIEF)
    try:
        dist.all_reduce(torch.ones(10, dtype=torch.float64 if rank == 1 else torch.float32), group=group)
    finally:
        dist.barrier()  # a rank that ends earlier would be blamed


@attack
def order_differs(rank: int) -> None:
    init()
    calls = [lambda: dist.all_reduce(torch.ones(10)), lambda: dist.broadcast(torch.ones(10), 0)]
    for call in calls if rank else reversed(calls):
        call()


@attack
def roots_differ(rank: int) -> None:
    init()
    dist.broadcast(torch.ones(10), 0 if rank else 1)


@attack
def odd_tensors(rank: int) -> str:
    init()
    scalar = torch.tensor(1.0)
    dist.all_reduce(scalar)
    several = [
        torch.ones(0),
        torch.ones(0, 5),
        torch.ones((), dtype=torch.bfloat16),
        torch.ones(2, 3, 4).transpose(0, 2),
    ]
    several += [torch.ones(8)[::2], torch.ones(1).expand(6).clone(), torch.ones(2, 2, dtype=torch.int32).t()]
    for one in several:
        dist.all_reduce(one)
        dist.broadcast(one, 1)
        every = [torch.empty_like(one) for _ in range(SIZE)]
        dist.all_gather(every, one)
        if not all(bool((each == SIZE).all()) for each in (one, scalar, *every)):
            return f"{one.shape} {one.dtype}: {one}"
    return "right"


@attack
def many_groups(rank: int) -> str:
    init()
    before = threads()
    for number in range(30):
        group = dist.new_group([0, 1, 2] if number % 2 else [2, 0])
        if number % 2 or rank != 1:
            given = torch.ones(5)
            dist.all_reduce(given, group=group)
            assert (given == (3 if number % 2 else 2)).all()
            dist.destroy_process_group(group)
    return "right" if threads() <= before + 10 else f"{before} threads became {threads()}"


def threads() -> int:
    return sum(1 for _ in Path("/proc/self/task").iterdir())


@attack
def destroyed_twice(rank: int) -> None:
    init()
    dist.destroy_process_group()
    dist.destroy_process_group()


@attack
def made_twice(rank: int) -> None:
    init()
    init()


@attack
def made_again(rank: int) -> str:
    for number in range(2):
        store = dist.FileStore(f"{os.environ['ATTACK_FOLDER']}/store{number}", SIZE)  # torch's races over TCP
        dist.init_process_group("p4reduce", timeout=TIMEOUT, store=store, rank=rank, world_size=SIZE)
        given = torch.ones(5)
        dist.all_reduce(given)
        dist.barrier()
        dist.destroy_process_group()
    return str(given.tolist())


@attack
def used_after_its_end(rank: int) -> None:
    init()
    group = dist.group.WORLD
    dist.destroy_process_group()
    group.allreduce([torch.ones(3)]).wait()


@attack
def forks_after_init(rank: int) -> str:
    """Fork as data loaders do: a child must not send, nor say goodbye, in its parent's name."""
    init()
    dist.all_reduce(torch.ones(3))
    child = multiprocessing.get_context("fork").Process(target=sys.exit, args=(0,))
    child.start()
    child.join(DEADLINE_S)
    plain = os.fork()
    if plain == 0:
        try:
            dist.all_reduce(torch.ones(3))
        except Exception as error:
            p4reduce.adapters.torch.create.RankWorld.current.leave()  # as at a process's exit
            os._exit("was forked" not in str(error))
        os._exit(2)
    code = os.waitstatus_to_exitcode(os.waitpid(plain, 0)[1])
    given = torch.ones(3)
    dist.all_reduce(given)
    return f"{child.exitcode} {code} {given.tolist()}"


def main(names: list[str]) -> int:
    """Run attacks and print the outcomes; always return 0."""
    for name in names or ATTACKS:
        print(json.dumps({"attack": name} | carried_out(name)), flush=True)
    return 0


def carried_out(name: str) -> dict[str, Any]:
    """Return how each rank ended (exit code, -n for signal n, "hangs", "stopped"), its message, and the seconds."""
    from p4reduce.group.remote import free_ports

    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_ports(1)[0]), "WORLD_SIZE": str(SIZE)}
        os.environ |= {"ATTACK_FOLDER": folder, "P4REDUCE_SET_TOPOLOGY": f"star:hosts={SIZE}", "OMP_NUM_THREADS": "1"}
        context = multiprocessing.get_context("fork")
        ranks = [context.Process(target=one_rank, args=(name, rank, folder)) for rank in range(SIZE)]
        for process in ranks:
            process.start()
        ends = ends_of(ranks, began + DEADLINE_S)
        said = [text.read_text() if (text := Path(folder, str(rank))).exists() else "" for rank in range(SIZE)]
    return {"ends": ends, "said": said, "seconds": round(time.monotonic() - began, 1)}


def carried_on(process: Any) -> bool:
    """Return whether a process runs; a stopped one does not."""
    if not process.is_alive():
        return False
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T"
    return False


def ends_of(ranks: list[Any], deadline: float) -> list[int | str]:
    """Wait until no rank runs; return exit codes, "stopped", or "hangs" at the deadline."""
    while any(carried_on(process) for process in ranks) and time.monotonic() < deadline:
        time.sleep(0.05)
    ends: list[int | str] = []
    for process in ranks:
        ends.append(process.exitcode if not process.is_alive() else "hangs" if carried_on(process) else "stopped")
        process.kill()
        process.join()
    return ends


def one_rank(name: str, rank: int, folder: str) -> None:
    os.environ["RANK"] = str(rank)
    os.setsid()  # else the kernel ends all if the parent ends while one is stopped (setpgid(2))
    try:
        said = ATTACKS[name](rank)
        failed = False
    except BaseException as error:
        if isinstance(error, SystemExit):
            raise
        said, failed = f"{type(error).__name__}: {error}", True
    Path(folder, str(rank)).write_text(str(said))
    sys.exit(int(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
