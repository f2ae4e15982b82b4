"""What decides a training."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TrainingOptions:
    """Stochastic gradient descent on the digits; the same for any number of workers with the same global batch."""

    epochs: int = 10
    global_batch: int = 256
    """Images of one iteration, all workers together."""
    learning_rate: float = 0.1
    momentum: float = 0.9
    """Of the workers' SGD; a parameter server steps without, see ``for_parameter_server``."""
    seed: int = 0
    """Decides the split of the data, the initial weights and the order of the images."""
    evaluate_every: int = 2
    """Iterations between two records of the test accuracy."""
    staleness: int | None = 0
    """Of a parameter server: rounds by which a worker may be ahead of the slowest (0: all wait, `dist_sync`; None: no
    bound, `dist_async`)."""
    flops_per_second: float = 1e12
    """Declared speed of a worker's processor: it turns operations into virtual time."""

    @classmethod
    def for_parameter_server(cls, *, epochs: int = 10, seed: int = 0, staleness: int | None = 0) -> "TrainingOptions":
        """Plain SGD, which is what ``push_pull`` computes: smaller batches and larger steps make up for momentum."""
        return cls(epochs=epochs, seed=seed, global_batch=128, learning_rate=0.5, momentum=0.0, staleness=staleness)

    def __post_init__(self) -> None:
        for name in ("epochs", "global_batch", "evaluate_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, got {getattr(self, name)}")
        for name in ("learning_rate", "flops_per_second"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: must be positive, got {getattr(self, name)}")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum: must be at least 0 and below 1, got {self.momentum}")
