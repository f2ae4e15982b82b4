"""Planning beside optima, and how long it takes."""

import time
from dataclasses import replace

import numpy as np

from p4reduce.control_plane.tdm.exact import solve
from p4reduce.control_plane.tdm.grouping import Rounds, all_partitions, hill_climbing, search_partition
from p4reduce.control_plane.tdm.groups import SeedGroups, TreeGroups
from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.network import parse_network
from p4reduce.control_plane.tdm.online import join
from p4reduce.control_plane.tdm.registry import make_schedule
from p4reduce.experiments.tdm.instances import SIGMA, X1, elastic, gangs
from p4reduce.experiments.tdm.planning.values import Values


def optima(seed: int, quick: bool) -> Values:
    """Against the best partition, and against the joint optimum."""
    found: Values = {"flips": [], "ours": [], "elastic flips": [], "exact": [], "seed placement": []}
    for ports in (4, 2):
        network = replace(X1, ports=ports)
        jobs = gangs(network, seed, sigma=0.4)
        if len(jobs) <= 10:
            rounds = Rounds(jobs, TreeGroups(jobs, network), network.delta_s)
            best = all_partitions(rounds).round_s
            found["flips"].append(hill_climbing(rounds).round_s / best)
            found["ours"].append(search_partition(rounds).round_s / best)
        few = elastic(network, seed, jobs=6)
        rounds = Rounds(few, TreeGroups(few, network), network.delta_s)
        found["elastic flips"].append(hill_climbing(rounds).round_s / all_partitions(rounds).round_s)
    for pods, ports, hosts in ((4, 2, 3),) if quick else ((4, 2, 3), (5, 3, 2), (5, 2, 2)):
        network = parse_network(f"oxc:pods={pods},hosts={hosts},ports={ports},rate=25G")
        for load in (1.0, 2.0):
            jobs = gangs(network, seed, sigma=SIGMA, load=load, least=3, most=6)
            if len(jobs) > (6 if pods == 4 else 7):
                continue
            best = solve(jobs, network).round_s
            found["exact"].append(make_schedule("tdm", jobs, network).round_s / best)
            placed = Rounds(jobs, SeedGroups(jobs, network), network.delta_s)
            found["seed placement"].append(all_partitions(placed).round_s / best)
    return found


def times(seed: int, quick: bool) -> Values:
    """Seconds of planning, on this machine as it is."""
    found: Values = {}
    shapes = ((16, 8, 32),) if quick else ((16, 8, 32), (128, 16, 100))
    for pods, hosts, number in shapes:
        network = parse_network(f"oxc:pods={pods},hosts={hosts},ports=8,rate=25G")
        random = np.random.default_rng(seed)
        share = 2 * network.all_gpus / number
        jobs = [
            TdmJob(
                f"j{place}",
                "rar",
                int(0.1 * np.exp(random.normal(0, 0.4)) * network.nic),
                float(0.1 * np.exp(random.normal(0, 0.4))),
                int(share * random.uniform(0.5, 0.98)),
            )
            for place in range(number)
        ]
        began = time.perf_counter()
        schedule = make_schedule("tdm", jobs[:-1], network)
        found[f"plan {pods}"] = [time.perf_counter() - began]
        began = time.perf_counter()
        join(schedule, jobs[:-1], jobs[-1])
        found[f"join {pods}"] = [time.perf_counter() - began]
    return found
