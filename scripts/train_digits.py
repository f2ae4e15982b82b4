"""Train a digits classifier, data-parallel, with gradients summed in the switches.

    p4reduce launch -n 8 scripts/train_digits.py --epochs 10

Every worker has all weights and a share of the images. ``comm.all_reduce(gradient)`` sums the gradients.
"""

import argparse

import numpy as np

from p4reduce import Checkpoint, connect
from p4reduce.workers.training.loops import TrainingOptions, TrainingTask


def parse() -> tuple[TrainingOptions, Checkpoint | None, int]:
    """Parse the command line; return training options, checkpoint or None, and iterations between checkpoints."""
    usual = TrainingOptions()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=usual.epochs, help="(default: %(default)s)")
    parser.add_argument("--batch", type=int, default=usual.global_batch, help="images of all workers in an iteration")
    parser.add_argument("--learning-rate", type=float, default=usual.learning_rate, help="(default: %(default)s)")
    parser.add_argument("--momentum", type=float, default=usual.momentum, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=usual.seed, help="of data, weights and order")
    parser.add_argument("--checkpoint", metavar="FILE", help="keep the state there, and continue from it")
    parser.add_argument(
        "--every", type=int, default=10, help="iterations between two checkpoints (default: %(default)s)"
    )
    given = parser.parse_args()
    if given.every < 1:
        parser.error(f"--every: must be at least 1, got {given.every}")
    try:
        options = TrainingOptions(
            epochs=given.epochs,
            global_batch=given.batch,
            learning_rate=given.learning_rate,
            momentum=given.momentum,
            seed=given.seed,
        )
    except ValueError as error:
        parser.error(str(error))
    return options, None if given.checkpoint is None else Checkpoint(given.checkpoint), given.every


def main() -> None:
    """Run one worker."""
    options, checkpoint, every = parse()
    comm = connect()
    task = TrainingTask(options, comm.rank, comm.size)
    parameters = task.model.initial(options.seed)
    gradient = np.empty_like(parameters)
    velocity = np.zeros_like(parameters)
    begin = 0
    if checkpoint is not None and comm.rank == 0 and (state := checkpoint.load()) is not None:
        begin, parameters, velocity = state.iteration, state.arrays["parameters"], state.arrays["velocity"]
    comm.broadcast(parameters)  # all start with worker 0's weights
    if checkpoint is not None:
        where = np.array([begin], np.int32)
        comm.broadcast(where)
        comm.broadcast(velocity)
        begin = int(where[0])
    rate = np.float32(options.learning_rate / comm.size)
    for iteration in range(begin, task.iterations):
        loss = task.gradient(parameters, iteration, gradient)
        comm.compute(task.compute_seconds)
        comm.all_reduce(gradient, name="gradient")
        velocity *= np.float32(options.momentum)
        velocity += gradient
        parameters -= rate * velocity
        comm.record("loss", loss)
        if comm.rank == 0 and task.evaluates(iteration):
            accuracy = task.accuracy(parameters)
            comm.record("test_accuracy", accuracy)
            print(f"{1e3 * comm.now:8.2f} ms  iteration {iteration + 1:4d}  loss {loss:.4f}  accuracy {accuracy:.4f}")
        if checkpoint is not None and comm.rank == 0 and (iteration + 1) % every == 0:
            checkpoint.save(iteration + 1, {"parameters": parameters, "velocity": velocity})
    comm.close()


if __name__ == "__main__":
    main()
