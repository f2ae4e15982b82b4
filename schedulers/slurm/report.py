"""What the demonstration found, as data, as a table, and what does not hold."""

from collections.abc import Sequence
from typing import Any

from p4reduce.control_plane.placement import PLACEMENTS, Racks
from p4reduce.schedulers.slurm.demo import Scheme, SchemeResult
from p4reduce.topologies import Topology


def known_schemes(topology: Topology) -> dict[str, Scheme]:
    """By name: Slurm's own, then every placement policy."""
    racks = Racks(topology)
    able = [switch for switch in racks.members if switch in racks.capable] or list(racks.members)
    prefers = tuple(host for switch in able for host in racks.members[switch])
    own = (
        Scheme("slurm-tree"),
        Scheme("slurm-switches", switches=True),
        Scheme("slurm-weights", switches=True, prefers=prefers),
    )
    return {one.name: one for one in (*own, *(Scheme(name, name) for name in sorted(PLACEMENTS)))}


def result_data(topology: Topology, results: Sequence[SchemeResult]) -> list[dict[str, Any]]:
    """For JSON."""
    rack_of = Racks(topology).of
    return [
        {
            "scheme": one.scheme.name,
            "chosen_by": "p4reduce" if one.scheme.placement else "slurm",
            "jobs": len(one.jobs),
            "whole": one.whole,
            "mean_jct_us": one.mean_jct_us,
            "mean_wait_us": one.mean_wait_us,
            "racks_a_job": one.racks(rack_of),
            "trees": one.trees,
            "rings": one.rings,
            "sums": sum(job.exact for job in one.jobs),
            "results": [
                {
                    "job": job.job.number,
                    "workers": job.job.workers,
                    "elements": job.job.elements,
                    "rounds": job.job.rounds,
                    "arrival_ps": job.job.arrival_ps,
                    "begun_ps": job.begun_ps,
                    "ended_ps": job.ended_ps,
                    "plan": job.plan,
                    "planned": list(job.planned),
                    "had": list(job.had),
                    "exact": job.exact,
                    "error": job.error,
                }
                for job in one.jobs
            ],
        }
        for one in results
    ]


def result_rows(topology: Topology, results: Sequence[SchemeResult]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows for people; times are virtual."""
    rack_of = Racks(topology).of
    columns = [
        "hosts by",
        "mean JCT, us",
        "wait, us",
        "racks a job",
        "trees",
        "rings",
        "on planned hosts, exact",
        "sums",
    ]
    rows = [
        [
            one.scheme.name,
            f"{one.mean_jct_us:.0f}",
            f"{one.mean_wait_us:.0f}",
            f"{one.racks(rack_of):.2f}",
            str(one.trees),
            str(one.rings),
            f"{one.whole} of {len(one.jobs)}",
            str(sum(job.exact for job in one.jobs)),
        ]
        for one in results
    ]
    return columns, rows


def missed(results: Sequence[SchemeResult]) -> list[str]:
    """What does not hold, a line each."""
    found = []
    for one in results:
        wrong = [job for job in one.jobs if not job.whole]
        if wrong:
            why = f" ({wrong[0].error})" if wrong[0].error else ""
            what = f"{len(wrong)} jobs were elsewhere or had inexact sums"
            found.append(f"{one.scheme.name}: {what}, first job {wrong[0].job.number}{why}")
    ours = next((one for one in results if one.scheme.placement), None)
    if ours is not None and ours.jobs:
        found += [
            f"{ours.scheme.name} has a mean JCT of {ours.mean_jct_us:.0f} us, "
            f"not below {one.mean_jct_us:.0f} us of {one.scheme.name}"
            for one in results
            if not one.scheme.placement and ours.mean_jct_us >= one.mean_jct_us
        ]
    return found
