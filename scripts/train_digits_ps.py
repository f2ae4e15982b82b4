"""Train a digits classifier with a parameter server.

    p4reduce launch -n 8 --server scripts/train_digits_ps.py --epochs 10

Workers push gradients, and switches sum them on the way up. The server updates its weights, and switches multicast them
on the way down. Workers and server run the same script.
"""

import argparse

import numpy as np

from p4reduce import connect
from p4reduce.workers.training.loops import TrainingOptions, TrainingTask


def main() -> None:
    """Run one worker, or the server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=10, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of data, weights and order")
    given = parser.parse_args()
    try:
        options = TrainingOptions.for_parameter_server(epochs=given.epochs, seed=given.seed)
    except ValueError as error:
        parser.error(str(error))

    comm = connect()
    task = TrainingTask(options, 0 if comm.is_server else comm.rank, comm.size)
    parameters = task.model.initial(options.seed)
    if comm.is_server:
        for _ in range(task.iterations):
            comm.push_pull(parameters, options.learning_rate)  # gradients in, new weights out
        comm.close()
        return

    travelling = np.empty_like(parameters)
    for iteration in range(task.iterations):
        loss = task.gradient(parameters, iteration, travelling)
        comm.compute(task.compute_seconds)
        comm.push_pull(travelling, options.learning_rate)  # sends the gradient, receives the weights
        parameters, travelling = travelling, parameters
        comm.record("loss", loss)
        if comm.rank == 0 and task.evaluates(iteration):
            accuracy = task.accuracy(parameters)
            comm.record("test_accuracy", accuracy)
            print(f"{1e3 * comm.now:8.2f} ms  iteration {iteration + 1:4d}  loss {loss:.4f}  accuracy {accuracy:.4f}")
    comm.close()


if __name__ == "__main__":
    main()
