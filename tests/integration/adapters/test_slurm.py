"""Tests with a real Slurm on this machine: jobs run where the planner says, despite cancellations and failures."""

import shlex
import sys
import time

import pytest

from p4reduce.adapters.network import SharedNetwork
from p4reduce.adapters.planner import Planner
from p4reduce.adapters.slurm.cluster import SlurmCluster
from p4reduce.adapters.slurm.demo import Scheme, demo_jobs, run_scheme
from p4reduce.adapters.slurm.service import OnePlanner, SlurmError, SlurmService, find_programs
from p4reduce.group.remote import job_folder
from p4reduce.network.real.net.state import VARIABLE, RunFolder, carrying
from p4reduce.topologies import load

try:
    find_programs()
    ABSENT = ""
except SlurmError as error:
    ABSENT = str(error)
pytestmark = pytest.mark.skipif(bool(ABSENT), reason=ABSENT)
TOPOLOGY = "leaf-spine:leaves=2,spines=1,hosts=3,servers=1,rate=25G"
RANK = [sys.executable, "-m", "p4reduce.adapters.rank"]
PATIENCE_S = 90


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        with RunFolder(kind="slurm") as run, SlurmCluster(load(TOPOLOGY), run) as made:
            yield made
        assert not carrying(VARIABLE, run.environment[VARIABLE])
        assert not made.folder.exists()


class Work:
    """A planner, its network, and a user's commands."""

    def __init__(self, cluster, folder, network):
        self.cluster, self.client, self.folder, self.network = cluster, cluster.client, folder, network
        self.said = []
        self.service = SlurmService(cluster.client, Planner(cluster.topology), network, tell=self.said.append)

    def submit(self, workers, comment="p4reduce elements=5000 rounds=3 training=20us", name="job", rounds=3):
        rank = shlex.join([*RANK, "--elements", "5000", "--rounds", str(rounds), "--training", "20us"])
        return self.client.submit(
            [
                *(f"-N{workers}", f"-n{workers}", f"--comment={comment}", f"--job-name={name}"),
                *("--output=job-%j.out", f"--wrap=exec srun {rank}"),
            ],
            folder=str(self.folder),
        )

    def state(self, number):
        return next((job.state for job in self.client.jobs() if job.number == number), "GONE")

    def until(self, there):
        """Plan and let time pass until a condition holds."""
        deadline = time.monotonic() + PATIENCE_S
        while not there():
            assert time.monotonic() < deadline, (self.said, self.network.missing(), self.client.jobs())
            self.service.step()
            self.service.advance(patience_s=0.05)

    def lines(self, number):
        return sorted((self.folder / f"job-{number}.out").read_text().splitlines())


@pytest.fixture
def work(cluster, tmp_path):
    with OnePlanner(cluster.network), SharedNetwork(cluster.topology, cluster.network) as network:
        made = Work(cluster, tmp_path, network)
        yield made
        for job in cluster.client.jobs():
            if not job.over:
                cluster.client.cancel(job.number)
        made.until(lambda: all(job.over for job in cluster.client.jobs()) and all(cluster.client.nodes().values()))


def test_jobs_run_where_the_planner_says_and_their_sums_are_exact(cluster, tmp_path):
    jobs = [job for job in demo_jobs(6, 6, seed=2) if job.workers <= 6]
    ours = run_scheme(cluster, jobs, Scheme("packed", "packed"), tmp_path)
    assert [one for one in ours.jobs if not one.whole] == []
    theirs = run_scheme(cluster, jobs, Scheme("slurm-switches", switches=True), tmp_path)
    assert [one for one in theirs.jobs if not one.whole] == []
    assert len(ours.jobs) == len(theirs.jobs) == len(jobs)
    assert all(one.begun_ps >= one.job.arrival_ps for one in ours.jobs)
    assert all(one.jct_ps >= one.job.rounds * one.job.training_ps for one in ours.jobs)


def test_no_jobs(cluster, tmp_path):
    assert run_scheme(cluster, [], Scheme("packed", "packed"), tmp_path).jobs == []


def test_names_with_quotes_and_newlines_are_only_names(work, tmp_path):
    mark = tmp_path / "executed"
    name = f"a'b\"\n$(touch {mark})`touch {mark}`;touch {mark}"
    number = work.submit(2, name=name)
    work.until(lambda: work.state(number) == "COMPLETED")
    assert [line.split()[2] for line in work.lines(number)] == ["3", "3"]
    assert not mark.exists()


def test_what_can_never_be_placed_stays_held_with_its_reason(work):
    huge = work.submit(7)
    bad = work.submit(2, comment="p4reduce elements=10^30")
    small = work.submit(2)
    work.until(lambda: work.state(small) == "COMPLETED")
    held = {job.number: job.held for job in work.client.jobs()}
    assert held[huge]
    assert held[bad]
    assert any("7 hosts" in line for line in work.said)
    assert any("elements" in line for line in work.said)


def test_cancelled_while_it_is_held_and_while_it_runs(work):
    first = work.submit(6, rounds=2000)
    second = work.submit(6)
    work.until(lambda: job_folder(first) in work.network.names and work.network.joined(job_folder(first)))
    work.client.cancel(second)
    work.client.cancel(first)
    third = work.submit(6)
    work.until(lambda: work.state(third) == "COMPLETED")
    assert {work.state(first), work.state(second)} == {"CANCELLED"}
    assert work.network.names == []


def test_slurmctld_that_is_started_anew(work):
    first, second = work.submit(6), work.submit(6)
    work.until(lambda: job_folder(first) in work.network.names)
    work.cluster.end("slurmctld")
    work.cluster.start_controller()
    work.until(lambda: work.state(first) == "COMPLETED" and work.state(second) == "COMPLETED")
    assert len(work.lines(second)) == 6


def test_a_slurmd_that_dies_and_comes_back(work):
    work.cluster.end("slurmd.h5")
    work.until(lambda: not work.client.nodes()["h5"])
    number, small = work.submit(6), work.submit(4)
    work.until(lambda: work.state(small) == "COMPLETED")
    assert "h5" not in work.service.history[small][1]
    assert work.state(number) == "PENDING"
    work.cluster.start_node("h5")
    work.until(lambda: work.state(number) == "COMPLETED")
    assert len(work.lines(number)) == 6


def test_moved_to_other_hosts(work):
    number = work.submit(2, comment="p4reduce elements=5000 rounds=2000 training=20us hosts=h1,h2", rounds=2000)
    work.until(lambda: work.state(number) == "RUNNING" and work.network.joined(job_folder(number)))
    work.client.comment(number, "p4reduce elements=5000 rounds=2000 training=20us hosts=h4,h6")
    work.client.requeue_hold(number)
    work.until(lambda: work.service.history[number][1] == ("h4", "h6"))
    assert work.network.joined(job_folder(number)) or work.state(number) == "RUNNING"


def test_two_planners_at_once(work):
    with pytest.raises(SlurmError, match="plans for this network already"), OnePlanner(work.cluster.network):
        pass


def test_a_job_that_a_planner_left_behind_is_held_again(work):
    number = work.submit(2)
    work.client.place(number, ["h1", "h2"])  # as if by a planner that was killed before the job began
    work.service.step()
    other = work.submit(2)
    work.until(lambda: work.state(other) == "COMPLETED" and work.state(number) in {"COMPLETED", "FAILED"})
    if work.state(number) == "FAILED":  # the job began before the planner had prepared a network
        assert "cannot reach the coordinator" in "".join(work.lines(number))
    else:
        assert len(work.lines(number)) == 2
