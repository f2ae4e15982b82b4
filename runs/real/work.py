"""What an experiment has the workers do in real time: move tensors, or train."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from p4reduce.base.units import NS_PER_S
from p4reduce.comm.backend import FloatArray
from p4reduce.runs.real.carry import RealCluster
from p4reduce.runs.real.group import Message
from p4reduce.runs.result import TrainingPoint
from p4reduce.runs.tensors import tensor
from p4reduce.runs.training import one_model

LEARNING_RATE: Final = 0.1
"""of a push-pull of plain tensors, as in virtual time"""
NEXT: Final = {"do": "next"}


def carry_out(cluster: RealCluster, sizes: Sequence[int] = ()) -> None:
    """All that the experiment asks for; with ``sizes`` (elements) a tensor of each. ``ClusterError`` when it fails."""
    if sizes:
        move_tensors(cluster, sizes)
    elif cluster.experiment.model == "digits":
        train_digits(cluster)
    else:
        move_tensors(cluster, [cluster.experiment.elements] * cluster.turns)


def move_tensors(cluster: RealCluster, sizes: Sequence[int]) -> None:
    """A collective on each of some plain tensors, drawn from the seed; ``sizes``: their elements."""
    label = f"{cluster.experiment.plan}: {cluster.experiment.collective}"
    for turn, elements in enumerate(sizes):
        cluster.progress(label, turn, len(sizes))
        move_tensor(cluster, turn, elements)
    cluster.progress(label, len(sizes), len(sizes))


def move_tensor(cluster: RealCluster, turn: int, elements: int) -> None:
    """The experiment's collective on one plain tensor, that of a turn. ``ClusterError`` when it fails."""
    given, hosts = cluster.experiment, cluster.hosts
    keeper = hosts[-1] if given.collective == "push" else hosts[0]

    def array(rank: int) -> FloatArray:
        return tensor(given.seed, rank, turn, elements)

    command = {"do": given.collective, "elements": elements, "turn": turn, "learning_rate": LEARNING_RATE}
    cluster.ask({**command, "do": "prepare"}, "preparing")
    commands = {host: {**command, "save": str(cluster.got)} if host == keeper else command for host in hosts}
    cluster.collective(turn, commands, keeper, array)


def train_digits(cluster: RealCluster) -> None:
    """Train on every worker. After each collective the workers wait until it was checked, and time stands still."""
    given, hosts, workers = cluster.experiment, cluster.hosts, cluster.assignment.workers
    label = f"{given.plan}: training"
    cluster.progress(label, 0, cluster.turns)
    cluster.ask({"do": "load"}, "loading the digits")

    def file(host: str) -> Path:
        return cluster.folder / f"{host}-given.npy"

    def gradient(rank: int) -> FloatArray:
        array: FloatArray = np.load(file(workers[rank]))
        return array

    command: Message = {"do": "train", "epochs": given.epochs, "served": given.collective == "push_pull"}
    commands = dict.fromkeys(hosts, command)
    if given.collective == "all_reduce":
        commands |= {host: {**command, "given": str(file(host))} for host in workers}
        commands[workers[0]]["got"] = str(cluster.got)
    for turn in range(cluster.turns):
        cluster.collective(turn, commands, workers[0], gradient)
        commands = dict.fromkeys(hosts, NEXT)
        cluster.progress(label, turn + 1, cluster.turns)
    cluster.moved.go_on()
    cluster.group.tell(commands)
    ended = cluster.answers("training")
    cluster.moved.weights_sha256 = one_model(ended[host]["sha256"] for host in workers)
    cluster.moved.points = [_point(cluster.moved.zeros_ns, figure) for figure in ended[workers[0]]["figures"]]


def _point(zeros_ns: list[int], figure: Message) -> TrainingPoint:
    iteration = figure["iteration"]
    return TrainingPoint(
        figure["name"], iteration, (figure["time_ns"] - zeros_ns[iteration]) / NS_PER_S, figure["value"]
    )
