"""How long a training step computes: equation (7)."""

from typing import Final

PASSES: Final = 6
"""K: 2 for the forward and 4 for the backward pass of each parameter and token"""
PASSES_RECOMPUTING: Final = 8
"""K with activations computed again"""


def training_seconds(
    parameters: float, tokens: float, flops: float, efficiency: float, *, recompute: bool = False
) -> float:
    """t_train of (7), K * tokens * Phi / (F_GPU * efficiency).

    Algorithm 1 says that it calculates training times "by formula (1)"; it is (7) that has them.

    Parameters
    ----------
    parameters : float
        Phi.
    tokens : float
        That one GPU sees in a step.
    flops : float
        F_GPU, floating-point operations a second.
    efficiency : float
        Share of them that is reached, between 0 and 1.
    recompute : bool
        K is 8 with recomputation, else 6.

    Raises
    ------
    ValueError
        When something is not positive, or the efficiency above 1.
    """
    for name, value in (("parameters", parameters), ("tokens", tokens), ("flops", flops), ("efficiency", efficiency)):
        if not 0 < value < float("inf"):
            raise ValueError(f"{name}: must be positive and finite")
    if efficiency > 1:
        raise ValueError("efficiency: must be at most 1")
    return (PASSES_RECOMPUTING if recompute else PASSES) * tokens * parameters / (flops * efficiency)
