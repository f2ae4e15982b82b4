"""``p4reduce priorities``: policies that order jobs, and files of jobs that share a network."""

import inspect
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from p4reduce.base.errors import PlanError
from p4reduce.base.output import Output, progress_bar
from p4reduce.cli.flags.schedule import PrioritiesCompare, PrioritiesPolicies
from p4reduce.control_plane import PLANS
from p4reduce.control_plane.priorities import PRIORITY_POLICIES, jain
from p4reduce.play.priorities.description import Description, JobDescription, with_phi
from p4reduce.play.priorities.governed import Governed, Governing, JobAlone, Knowledge, run_governed
from p4reduce.play.priorities.run import JobResult, run
from p4switch.base.files import read_text
from p4switch.base.safe_yaml import YamlError, read_yaml
from p4switch.base.values import one_line, parse_delay, short

# Files of jobs that share a network: YAML, with an example from ``p4reduce example priorities``.


MOST_JOBS: Final = 64
_Time = Annotated[int, BeforeValidator(parse_delay)]
WITHOUT_SERVER: Final = ("all-to-all", "ring")
"""plans of jobs without a server"""
_LATENCY: Final = 100_000_000
_READ_EVERY: Final = 40_000_000


def _plan(value: object) -> object:
    """Check the name of a plan for jobs."""
    names = [name for name in PLANS if name not in WITHOUT_SERVER]
    if value not in names:
        raise ValueError(f"{short(value)} is none of {', '.join(names)}")
    return value


class JobEntry(BaseModel):
    """A job of a file; it has either ``phi``, its share of communication when it runs alone, or ``compute``."""

    model_config = ConfigDict(extra="forbid")

    name: str | None = None
    workers: Annotated[tuple[str, ...], Field(min_length=1)]
    server: str
    plan: Annotated[str, BeforeValidator(_plan)] = "steiner"
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
    """Jobs ready to run, and the results of each of them alone."""

    names: tuple[str, ...]
    description: Description
    read_every_ps: int
    alone: tuple[JobAlone, ...]
    by_themselves: tuple[JobResult, ...]


def read_jobs(path: Path) -> JobsDocument:
    """Read the jobs of a file. Raises `PlanError`, which names the file, the field and the fix."""
    try:
        document = JobsDocument.model_validate(read_yaml(read_text(path)))
    except OSError as error:
        raise PlanError(f"{path}: {error.strerror}; 'p4reduce example priorities' prints an example") from None
    except UnicodeDecodeError as error:
        raise PlanError(f"{path}: is not UTF-8 text: {error.reason} at byte {error.start}") from None
    except YamlError as error:
        raise PlanError(f"{path}: {error}") from None
    except ValidationError as error:
        fault = min(
            error.errors(), key=lambda detail: detail["type"] != "extra_forbidden"
        )  # a misspelt field is also missing
        place = ".".join(str(part + 1) if isinstance(part, int) else part for part in fault["loc"])
        reason = one_line(fault["msg"].removeprefix("Value error, "))
        if fault["type"] == "extra_forbidden":
            fields = JobEntry.model_fields if place.startswith("jobs.") else JobsDocument.model_fields
            reason = f"there is no such field; there are {', '.join(fields)}"
        raise PlanError(f"{path}: {one_line(place or 'file', 80)}: {reason}") from None
    names = job_names(document)
    for number, job in enumerate(document.jobs, 1):
        if (job.phi is None) == (job.compute is None):
            raise PlanError(f"{path}: jobs.{number}: give phi, its share of communication alone, or compute; not both")
        if names.index(names[number - 1]) != number - 1:
            raise PlanError(f"{path}: jobs.{number}.name: {names[number - 1]!r} is taken; names are unique")
    return document


def job_names(document: JobsDocument) -> tuple[str, ...]:
    """Return the names of jobs; a job without a name is named by its number."""
    return tuple(job.name or f"job {number}" for number, job in enumerate(document.jobs, 1))


def prepare(document: JobsDocument) -> JobsFile:
    """Measure every job alone, and set the computing time of jobs with ``phi``. Errors as in ``run``."""
    jobs, takes = [], []
    for number, entry in enumerate(document.jobs):
        bare = JobDescription(
            entry.workers, entry.server, entry.elements, entry.compute or 0, entry.plan, name=f"job{number}"
        )
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
    alone_all = tuple(JobAlone(took, by_itself.completion_ps) for took, by_itself in zip(takes, own, strict=True))
    return JobsFile(job_names(document), description, document.read_every, alone_all, tuple(own))


# The commands.


def policies(flags: PrioritiesPolicies) -> None:
    """List the priority policies."""
    output = Output(as_json=flags.as_json)
    summaries = {name: _first_line(PRIORITY_POLICIES[name]) for name in sorted(PRIORITY_POLICIES)}
    output.data([{"name": name, "says": text} for name, text in summaries.items()])
    output.table(("policy", "what comes first"), list(summaries.items()))


def compare(flags: PrioritiesCompare) -> None:
    """Run the jobs under each policy, and each of them alone."""
    output = Output(as_json=flags.as_json)
    names = flags.policies
    document = read_jobs(flags.file)
    governed: dict[str, Governed] = {}
    with progress_bar(output) as open_bar:
        tell = open_bar("priorities")
        tell("alone", 0, len(names) + 1)
        jobs = prepare(document)
        for done, name in enumerate(names, 1):
            tell(name, done, len(names) + 1)
            governing = Governing(name, Knowledge(flags.told), flags.rotate, jobs.read_every_ps)
            governed[name] = run_governed(jobs.description, governing, jobs.alone)
    rows = [_row(name, jobs, outcome) for name, outcome in governed.items()]
    output.data(rows)
    _show(output, jobs, rows)


def _row(policy: str, jobs: JobsFile, governed: Governed) -> dict[str, Any]:
    slow = {
        name: took.completion_ps / alone.completion_ps
        for name, took, alone in zip(jobs.names, governed.run.jobs, jobs.by_themselves, strict=True)
    }
    told = governed.accuracy
    return {
        "policy": policy,
        "mean": sum(slow.values()) / len(slow),
        "worst": max(slow.values()),
        "jain": jain([1 / ratio for ratio in slow.values()]),
        "resend_share": governed.run.resend_share,
        "writes": governed.run.writes,
        "median_error": None if told is None else told.median_error,
        "in_time": None if told is None else told.in_time_share,
        "jobs": [
            {"name": name, "completion_ps": took.completion_ps, "alone_ps": alone.completion_ps,
             "slowdown": slow[name], "class": priority}
            for name, took, alone, priority in zip(
                jobs.names, governed.run.jobs, jobs.by_themselves, governed.classes, strict=True)
        ],
    }  # fmt: skip


def _show(output: Output, jobs: JobsFile, rows: list[dict[str, Any]]) -> None:
    columns = ["policy", *jobs.names, "mean", "Jain", "sent again"]
    output.table(
        columns,
        [
            [
                row["policy"],
                *(f"{job['slowdown']:.3f}" for job in row["jobs"]),
                f"{row['mean']:.3f}",
                f"{row['jain']:.3f}",
                f"{100 * row['resend_share']:.2f} %",
            ]
            for row in rows
        ],
    )
    output.line("completion time over that of the same job alone")
    for row in rows:
        if row["in_time"] is not None:
            output.line(
                f"{row['policy']}: starts predicted to {100 * row['median_error']:.2f} % of a period (median), "
                f"{100 * row['in_time']:.0f} % of classes written before the first frame"
            )


def _first_line(policy: object) -> str:
    return " ".join((inspect.getdoc(policy) or "").split("\n\n")[0].split())
