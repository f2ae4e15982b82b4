"""Files that say which jobs share a network: YAML, as ``p4reduce example priorities`` prints one."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from p4reduce.base.errors import PlanError
from p4reduce.play.priorities.description import Description, JobDescription, with_phi
from p4reduce.play.priorities.governed import Alone
from p4reduce.play.priorities.run import JobResult, run
from p4switch.base.files import read_text
from p4switch.base.safe_yaml import YamlError, one_line, read_yaml
from p4switch.base.values import parse_delay

MOST_JOBS: Final = 64
_Time = Annotated[int, BeforeValidator(parse_delay)]
_LATENCY: Final = 100_000_000
_READ_EVERY: Final = 40_000_000


class JobEntry(BaseModel):
    """A job of a file; it says ``phi``, its share of communication when it is alone, or ``compute``."""

    model_config = ConfigDict(extra="forbid")

    name: str | None = None
    workers: Annotated[tuple[str, ...], Field(min_length=1)]
    server: str
    elements: Annotated[int, Field(strict=True, ge=1)]
    phi: Annotated[float | None, Field(gt=0, lt=1)] = None
    compute: _Time | None = None
    start: _Time = 0


class JobsDocument(BaseModel):
    """A file of jobs."""

    model_config = ConfigDict(extra="forbid")

    topology: str
    rounds: Annotated[int, Field(strict=True, ge=1)] = 12
    jitter: Annotated[float, Field(ge=0, lt=1 / 3)] = 0.0
    seed: Annotated[int, Field(strict=True, ge=0)] = 0
    queues: Annotated[int, Field(strict=True, ge=1, le=6)] = 6
    control_latency: _Time = _LATENCY
    read_every: Annotated[_Time, Field(ge=1_000_000)] = _READ_EVERY
    jobs: Annotated[tuple[JobEntry, ...], Field(min_length=1, max_length=MOST_JOBS)]


@dataclass(frozen=True)
class JobsFile:
    """Jobs ready to run, and each of them by itself."""

    names: tuple[str, ...]
    description: Description
    read_every_ps: int
    alone: tuple[Alone, ...]
    by_themselves: tuple[JobResult, ...]


def read_jobs(path: Path) -> JobsDocument:
    """The jobs of a file. Raises `PlanError`, which names the file, the field and the fix."""
    try:
        document = JobsDocument.model_validate(read_yaml(read_text(path)))
    except OSError as error:
        raise PlanError(
            f"{path}: {error.strerror}; 'p4reduce example priorities' prints a file to begin with"
        ) from None
    except UnicodeDecodeError as error:
        raise PlanError(f"{path}: is no UTF-8 text: {error.reason} at byte {error.start}") from None
    except YamlError as error:
        raise PlanError(f"{path}: {error}") from None
    except ValidationError as error:
        found = min(
            error.errors(), key=lambda one: one["type"] != "extra_forbidden"
        )  # a misspelt field is missing, too
        place = ".".join(str(part + 1) if isinstance(part, int) else part for part in found["loc"])
        said = one_line(found["msg"].removeprefix("Value error, "))
        if found["type"] == "extra_forbidden":
            fields = JobEntry.model_fields if place.startswith("jobs.") else JobsDocument.model_fields
            said = f"there is no such field; there are {', '.join(fields)}"
        raise PlanError(f"{path}: {one_line(place or 'file', 80)}: {said}") from None
    names = job_names(document)
    for number, job in enumerate(document.jobs, 1):
        if (job.phi is None) == (job.compute is None):
            raise PlanError(f"{path}: jobs.{number}: give phi, its share of communication alone, or compute; not both")
        if names.index(names[number - 1]) != number - 1:
            raise PlanError(f"{path}: jobs.{number}.name: {names[number - 1]!r} is taken; names are unique")
    return document


def job_names(document: JobsDocument) -> tuple[str, ...]:
    """As jobs are called; those that have no name by their numbers."""
    return tuple(job.name or f"job {number}" for number, job in enumerate(document.jobs, 1))


def prepare(document: JobsDocument) -> JobsFile:
    """Measure every job alone, and give those with ``phi`` their computing time. Errors as of ``run``."""
    jobs, takes = [], []
    for number, entry in enumerate(document.jobs):
        bare = JobDescription(entry.workers, entry.server, entry.elements, entry.compute or 0, name=f"job{number}")
        alone = Description(document.topology, (replace(bare, compute_ps=0),), rounds=2)
        takes.append(round(run(alone).jobs[0].iteration_ps))
        job = bare if entry.phi is None else with_phi(bare, takes[-1], entry.phi)
        jobs.append(replace(job, start_ps=entry.start))
    description = Description(
        document.topology,
        tuple(jobs),
        rounds=document.rounds,
        jitter=document.jitter,
        queues=document.queues,
        control_latency_ps=document.control_latency,
        seed=document.seed,
    )
    own = [run(description.only(number)).jobs[0] for number in range(len(jobs))]
    alone_all = tuple(Alone(took, one.completion_ps) for took, one in zip(takes, own, strict=True))
    return JobsFile(job_names(document), description, document.read_every, alone_all, tuple(own))
