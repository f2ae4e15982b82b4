"""Random settings in which `flow_error.py` compares the flow model with packets: networks, plans, sizes."""

import dataclasses
from pathlib import Path
from random import Random
from typing import Any, Final

from p4reduce.topologies import Topology, load
from p4reduce.topologies.files import save, with_capable
from p4switch.base.values import PS_PER_NS, PS_PER_S

RATES: Final = (1, 10, 25, 40, 100)
"""Gb/s"""
MOST_WORK: Final = 12_000_000
"""limit of elements times workers of a collective, so that packets take seconds only"""
MOST_ELEMENTS: Final = 4_000_000


def random_topology(random: Random) -> Topology:
    """Return a generated or bundled network with random rates, delays and capable switches."""
    kind = random.choice(
        ("star", "leaf-spine", "leaf-spine", "leaf-spine", "fat-tree", "nobel", "racks", "generations")
    )
    if kind == "star":
        topology = load(f"star:hosts={random.randint(2, 12)},servers=1")
    elif kind == "leaf-spine":
        leaves, spines, hosts = random.randint(2, 4), random.randint(1, 3), random.randint(1, 4)
        over = random.choice((1, 1, 2, 4))
        topology = load(f"leaf-spine:leaves={leaves},spines={spines},hosts={hosts},servers=1,oversubscription={over}")
    else:
        name = {"fat-tree": "fat-tree-4", "nobel": "nobel-us", "racks": "two-racks", "generations": "two-generations"}
        topology = load(name[kind])
    topology = _with_links(random, topology)
    if random.random() < 0.5:
        return topology
    switches = [switch.name for switch in topology.switches]
    return with_capable(topology, random.sample(switches, random.randint(1, len(switches))))


def _with_links(random: Random, topology: Topology) -> Topology:
    """Return the network with uniform or differing rates, and with equal or differing delays."""
    top = max(link.rate_bps for link in topology.links)
    scale = random.choice(RATES) * 1e9 / top
    differing, apart = random.random() < 0.3, random.random() < 0.3
    delay = round(10 ** random.uniform(2, 4.5)) * PS_PER_NS
    links = []
    for link in topology.links:
        rate = link.rate_bps * scale * (random.choice((0.25, 0.5, 1, 1, 1, 2)) if differing else 1)
        own = round(delay * random.uniform(0.2, 3)) if apart else delay
        links.append(dataclasses.replace(link, rate_bps=round(rate), delay_ps=own))
    return dataclasses.replace(topology, links=tuple(links))


def random_run(random: Random, folder: Path, number: int) -> dict[str, Any]:
    """Return the fields of an ``Experiment``; its topology is saved in ``folder``."""
    topology = random_topology(random)
    path = folder / f"network-{number}.yaml"
    save(topology, path)
    workers = random.randint(2, len(topology.workers)) if len(topology.workers) > 1 else 1
    collective = random.choice(("all_reduce",) * 6 + ("broadcast", "push", "pull", "push_pull", "all_to_all"))
    plan = random.choice(("steiner", "mst", "spt", "ring", "ring", "ps", "striped", "best"))
    if collective == "all_to_all":
        plan = "all-to-all"
    elif collective != "all_reduce" and plan in {"striped"}:
        plan = "steiner"
    elements = round(10 ** random.uniform(0, 6.6))
    elements = max(1, min(elements, MOST_ELEMENTS, MOST_WORK // workers))
    if collective == "all_to_all":
        elements = max(workers, elements // workers * workers)
    block = random.random() < 0.75
    return {
        "topology": str(path),
        "plan": plan,
        "workers": workers,
        "collective": collective,
        "elements": elements,
        "repeat": random.choice((1, 1, 3)),
        "lanes": random.choice((64, 256, 256)),
        "numbers": "block" if block else "fixed",
        "scale": None if block else 1024.0,
        "window": random.randint(1, 48) if random.random() < 0.25 else None,
        "seed": random.randrange(1000),
    }


@dataclasses.dataclass(frozen=True)
class JobSetting:
    """A job that computes, then all-reduces, round after round."""

    plan: str
    workers: tuple[str, ...]
    elements: int
    compute_ps: int
    rounds: int
    priority: int
    start_ps: int


@dataclasses.dataclass(frozen=True)
class JobsSetting:
    """Jobs that share the links of a network, in several priority classes or in one."""

    topology: Topology
    lanes: int
    jobs: tuple[JobSetting, ...]


def random_jobs(random: Random) -> JobsSetting:
    """Return two to four jobs on separate or shared hosts."""
    while True:
        topology = random_topology(random)
        hosts = [host.name for host in topology.workers]
        if len(hosts) >= 4:
            break
    count = random.randint(2, min(4, len(hosts) // 2))
    shared, classes = random.random() < 0.3, random.random() < 0.5
    lanes = random.choice((64, 256))
    random.shuffle(hosts)
    slowest = min(link.rate_bps for link in topology.links)
    size = round(10 ** random.uniform(3.5, 5.6))
    jobs = []
    for number in range(count):
        if shared:
            workers = random.sample(hosts, random.randint(2, min(6, len(hosts))))
        else:
            share = len(hosts) // count
            own = hosts[number * share : (number + 1) * share]
            workers = own[: random.randint(2, len(own))]
        elements = max(1_000, round(size * random.uniform(0.3, 1.5)))
        rounds = random.randint(2, 4)
        takes_ps = elements * 32 * PS_PER_S // slowest
        jobs.append(
            JobSetting(
                random.choice(("steiner", "steiner", "spt", "ring")),
                tuple(workers),
                elements,
                round(takes_ps * random.choice((0, 0.3, 1, 2))),
                rounds,
                random.randint(0, 7) if classes else 3,
                round(takes_ps * random.choice((0, random.random()))),
            )
        )
    return JobsSetting(topology, lanes, tuple(jobs))
