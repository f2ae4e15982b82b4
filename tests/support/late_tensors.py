"""Random scripts with late ranks: which tensor receives each late array? ``make soak-late PROGRAMS_LATE=10000``.

All tensors of a script have the same length, so that lengths do not identify them. Rank r contributes 16^r in each
element: in the sum of a tensor's results over all steps, digit r of an element is the number of steps whose array of
rank r is in it. A tensor may lack only arrays that the result reports as left out, and may contain no array twice and
none of another tensor.
"""

import argparse
import random
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from p4reduce.base.output import Output, progress_bar
from p4reduce.group.communicator import Communicator
from p4reduce.runs.experiment import Experiment, FaultOptions
from p4reduce.runs.runner import run_experiment

LANES = 64
LATE_S = 0.004
TOPOLOGIES = (
    "star:hosts=2",
    "star:hosts=4",
    "leaf-spine:leaves=2,spines=1,hosts=2",
    "leaf-spine:leaves=3,spines=2,hosts=1",
)


@dataclass
class Program:
    """A script: tensors, steps, how tensors are identified, and which (rank, step, tensor) are late."""

    seed: int
    topology: str
    tensors: int
    steps: int
    elements: int
    says: str
    begun: bool
    late: set[tuple[int, int, int]]
    loss: float
    quorum: int | None
    sums: dict[int, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def draw(cls, seed: int) -> "Program":
        """Return a random script."""
        rng = random.Random(f"late tensors {seed}")
        topology = rng.choice(TOPOLOGIES)
        size = {"star:hosts=2": 2, TOPOLOGIES[3]: 3}.get(topology, 4)
        tensors, steps = rng.randint(1, 4), rng.randint(2, 5)
        places = [(rank, step, tensor) for rank in range(size) for step in range(steps) for tensor in range(tensors)]
        return cls(
            seed,
            topology,
            tensors,
            steps,
            elements=rng.choice([1, 63, 64, 65, 200, 500]),
            says=rng.choice(["name", "step", "both", "nothing"]),
            begun=rng.random() < 0.3,
            late=set(rng.sample(places, rng.randint(1, min(4, len(places))))),
            loss=rng.choice([0.0, 0.0, 0.02]),
            quorum=rng.choice([None, None, size]),
        )

    def order(self, step: int) -> list[int]:
        """Return the order of tensors in a step: random if named, else fixed, as only positions identify them."""
        found = list(range(self.tensors))
        if self.says == "name":
            random.Random(f"order {self.seed} {step}").shuffle(found)
        return found

    def script(self, comm: Communicator) -> None:
        """Run a rank's part of the script."""
        total = np.zeros((self.tensors, self.elements), np.int64)
        for step in range(self.steps):
            for tensor in self.order(step):
                if (comm.rank, step, tensor) in self.late:
                    comm.compute(LATE_S)
                array = np.full(self.elements, 16.0**comm.rank, np.float32)
                named = self.says == "name" or (self.says == "both" and tensor % 2 == 0)
                name = f"layer {tensor}" if named else ""
                if self.begun:
                    comm.all_reduce(array, start=comm.now, name=name).wait()
                else:
                    comm.all_reduce(array, name=name)
                total[tensor] += array.astype(np.int64)
            if self.says in {"step", "both"}:
                comm.step()
        self.sums[comm.rank] = total

    def play(self) -> tuple[list[str], int, int]:
        """Return the violations, the number of late chunks, and how many of these are reported as in no sum."""
        experiment = Experiment(
            topology=self.topology,
            lanes=LANES,
            deadline="300us",
            quorum=self.quorum,
            seed=self.seed,
            faults=FaultOptions(loss=self.loss),
        )
        network = run_experiment(experiment, script=self.script).network
        late = sum(sum(one.late.values()) for one in network.closed)
        reported = Counter({(one.rank, one.tensor): one.chunks for one in network.left_out})
        return list(self._wrong(reported)), late, reported.total()

    def _wrong(self, reported: Counter[tuple[int, str]]) -> Any:
        if len({one.tobytes() for one in self.sums.values()}) != 1:
            yield f"{self}: ranks have different sums"
        total = self.sums[0]
        missing: Counter[int] = Counter()
        for rank in range(len(self.sums)):
            digits = (total >> (4 * rank)) & 15
            if (digits > self.steps).any():
                yield f"{self}: an array of rank {rank} is twice in a sum, or in that of another tensor"
            for tensor in range(self.tensors):
                lacks = (self.steps - digits[tensor])[::LANES]
                if self.says == "name" and int(lacks.sum()) != reported[rank, f"name layer {tensor}"]:
                    yield f"{self}: rank {rank}, tensor {tensor}: {lacks.sum()} chunks are in no sum, not as reported"
                missing[rank] += int(lacks.sum())
        told: Counter[int] = Counter()
        for (rank, _), chunks in reported.items():
            told[rank] += chunks
        if +missing != +told:
            yield f"{self}: in no sum are {dict(+missing)} chunks by rank, reported were {dict(+told)}"


def main(arguments: list[str]) -> int:
    """Play many scripts; return 1 if one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1, help="seed of the first script")
    chosen = parser.parse_args(arguments)
    wrong: list[str] = []
    late = reported = 0
    with progress_bar(Output()) as open_bar:
        bar = open_bar("scripts")
        for number in range(chosen.programs):
            found, came, told = Program.draw(chosen.seed + number).play()
            wrong += found
            late, reported = late + came, reported + told
            bar("late tensors", number + 1, chosen.programs)
    print(*wrong, sep="\n")
    print(f"{chosen.programs} scripts: {late} chunks came too late, {reported} of them reported as in no sum, "
          f"{late - reported} in a later sum of their tensor; {len(wrong)} wrong")  # fmt: skip
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
