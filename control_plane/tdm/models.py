"""Models by name: what an iteration sends, and how long it trains."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.jobs import Kind, TdmJob
from p4reduce.control_plane.tdm.training import training_seconds

A100_FLOPS: Final = 312e12
"""dense bfloat16"""


@dataclass(frozen=True)
class Model:
    """A model; ``unit_bytes`` is what one unit sends: its gradients, or (a2a) to all others in one phase."""

    kind: Kind
    unit_bytes: int
    compute_s: float
    source: str


MODELS: Final[Mapping[str, Model]] = {
    "resnet50": Model("rar", 102_000_000, 0.104, "256 images at 2,470/s on an A100: NVIDIA DeepLearningExamples"),
    "vgg16": Model("rar", 554_000_000, 0.070, "batch 16: profiles of Muri (SIGCOMM 2022)"),
    "bert-large": Model("rar", 1_340_000_000, 0.152, "32 x 512 tokens at 210/s: NVIDIA DeepLearningExamples"),
    "gpt2-1.5b": Model("rar", 6_000_000_000, training_seconds(1.5e9, 8192, A100_FLOPS, 0.5), "(7), 8,192 tokens"),
    "dlrm": Model("a2a", 54_500_000, 0.004, "64k samples at 16.5 M/s on 8 GPUs: NVIDIA"),
    "moe": Model("a2a", 800_000_000, 0.300, "12 layers, top-2, h = 1,024, 0.95 G active parameters, (7)"),
}
"""All gradients in float32. MoE's 1.6 GB a GPU are dispatch and combine together."""


def model_job(
    name: str,
    model: str,
    units: int,
    *,
    scale: float = 1.0,
    kind: Kind | None = None,
    compute_s: float | None = None,
    hosts: tuple[str, ...] = (),
    elastic: bool = False,
    arrival_s: float = 0.0,
    iterations: int | None = None,
) -> TdmJob:
    """A job of a known model.

    Parameters
    ----------
    name, model, units
        Of the job; of :data:`MODELS`; how many.
    scale : float
        Bytes and times are divided by it: packets of a 64th show the same as the whole.
    kind, compute_s, hosts, elastic, arrival_s, iterations
        As the job has them; None: the model's.

    Raises
    ------
    TdmError
        For a model that is not known, or a job that cannot be.
    """
    if model not in MODELS:
        raise TdmError(f"job {name[:40]!r}: model: {model[:40]!r} is none of {', '.join(MODELS)}")
    known = MODELS[model]
    chosen = kind or known.kind
    if (chosen == "a2a") != (known.kind == "a2a"):
        raise TdmError(f"job {name[:40]!r}: kind: {model} communicates as {known.kind}, not as {chosen}")
    sent = known.unit_bytes / scale
    size = sent / max(units - 1, 1) if chosen == "a2a" else sent
    trained = known.compute_s / scale if compute_s is None else compute_s
    whole = max(4, round(size / 4) * 4)
    return TdmJob(name, chosen, whole, trained, units, hosts, elastic, model, arrival_s, iterations)
