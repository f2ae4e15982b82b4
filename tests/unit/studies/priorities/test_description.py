"""Computing times of the study's jobs."""

import statistics

from p4reduce.play.priorities.description import Description, JobDescription


def test_every_worker_draws_anew_in_every_round():
    """Includes a name with a large checksum: h2 of job j0 once computed equally long in all rounds."""
    for name in ("j0", "job1", "x"):
        job = JobDescription(("h1", "h2", "h9"), "h10", 100, 1_000_000_000, name=name)
        about = Description("star:hosts=4", (job,), jitter=0.1)
        drawn = {(rank, k): about.compute_ps(job, rank, k) for rank in range(3) for k in range(200)}
        assert len(set(drawn.values())) > 590
        shares = [value / job.compute_ps - 1 for value in drawn.values()]
        assert 0.09 < statistics.stdev(shares) < 0.11
        assert abs(statistics.fmean(shares)) < 0.015
