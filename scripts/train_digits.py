"""Train a digits classifier, data-parallel, with gradients summed in the switches.

    p4reduce launch -n 8 scripts/train_digits.py --epochs 10

Every worker holds all weights and a share of the images. The one line that is not the training of one process is
``comm.all_reduce(gradient)``.
"""

import argparse

import numpy as np

from p4reduce import connect
from p4reduce.workers.training.options import TrainingOptions
from p4reduce.workers.training.task import TrainingTask


def parse() -> TrainingOptions:
    """The options of the command line."""
    usual = TrainingOptions()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=usual.epochs, help="(default: %(default)s)")
    parser.add_argument("--batch", type=int, default=usual.global_batch, help="images of one iteration, all workers")
    parser.add_argument("--learning-rate", type=float, default=usual.learning_rate, help="(default: %(default)s)")
    parser.add_argument("--momentum", type=float, default=usual.momentum, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=usual.seed, help="of data, weights and order")
    given = parser.parse_args()
    try:
        return TrainingOptions(
            epochs=given.epochs,
            global_batch=given.batch,
            learning_rate=given.learning_rate,
            momentum=given.momentum,
            seed=given.seed,
        )
    except ValueError as error:
        parser.error(str(error))


def main() -> None:
    """Run one worker."""
    options = parse()
    comm = connect()
    task = TrainingTask(options, comm.rank, comm.size)
    parameters = task.model.initial(options.seed)
    comm.broadcast(parameters)  # all begin with worker 0's weights
    gradient = np.empty_like(parameters)
    velocity = np.zeros_like(parameters)
    rate = np.float32(options.learning_rate / comm.size)
    for iteration in range(task.iterations):
        loss = task.gradient(parameters, iteration, gradient)
        comm.compute(task.compute_seconds)
        comm.all_reduce(gradient)
        velocity *= np.float32(options.momentum)
        velocity += gradient
        parameters -= rate * velocity
        comm.record("loss", loss)
        if comm.rank == 0 and task.evaluates(iteration):
            accuracy = task.accuracy(parameters)
            comm.record("test_accuracy", accuracy)
            print(f"{1e3 * comm.now:8.2f} ms  iteration {iteration + 1:4d}  loss {loss:.4f}  accuracy {accuracy:.4f}")
    comm.close()


if __name__ == "__main__":
    main()
