"""Files of jobs."""

from importlib.resources import files
from pathlib import Path

import pytest

from p4reduce.control_plane.tdm.jobs import TdmError, read_jobs, training_seconds


@pytest.mark.parametrize("name", ["jobs.yaml", "jobs.csv"])
def test_the_examples_say_the_same(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes((files("p4reduce") / "cli" / "example_files" / name).read_bytes())
    jobs = read_jobs(path, scale=64)
    assert [(job.name, job.kind, job.units) for job in jobs] == [
        ("vision", "rar", 8), ("language", "rar", 8), ("ranking", "ps", 8), ("speech", "rar", 8)
    ]  # fmt: skip
    assert (jobs[0].bytes, jobs[0].compute_s) == (1_593_752, pytest.approx(0.04 / 64))
    assert jobs[3].compute_s == pytest.approx(0.045 / 64)


def test_named_hosts_and_the_formula(tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(
        "jobs:\n- {name: a, kind: a2a, bytes: 4MiB, workers: [h1, h2], compute: "
        "{parameters: 1.5e9, tokens: 8192, flops: 312e12, efficiency: 0.5}}\n"
    )
    [job] = read_jobs(path)
    assert (job.hosts, job.units, job.bytes) == (("h1", "h2"), 2, 4 << 20)
    assert job.compute_s == training_seconds(1.5e9, 8192, 312e12, 0.5)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{name: a, kind: rar, bytes: 1M, workers: 2}", "compute: is missing"),
        ("{name: a, kind: rar, bytes: lots, compute: 1ms, workers: 2}", r"jobs\[0\].bytes: is no number of bytes"),
        ("{name: a, kind: rar, bytes: 1M, compute: 1ms, workers: 1}", "no other to communicate with"),
        ("{name: a, kind: rar, bytes: 1M, compute: soon, workers: 2}", r"jobs\[0\].compute"),
        ("{name: a, kind: ring, bytes: 1M, compute: 1ms, workers: 2}", r"jobs\[0\].kind"),
        ("{name: a, model: alexnet, workers: 2}", "'alexnet' is none of"),
        ("{name: a, model: vgg16, bytes: 1M, workers: 2}", "leave one of them out"),
        ("{name: a, kind: rar, bytes: 1M, compute: 1ms, workers: 2, colour: red}", r"jobs\[0\].colour"),
        ("[]", r"jobs\[0\]"),
    ],
)
def test_what_is_wrong_names_file_job_and_field(line: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"jobs:\n- {line}\n")
    with pytest.raises(TdmError, match=said) as caught:
        read_jobs(path)
    assert "mine.yaml" in str(caught.value)
    path.write_text("tasks: []\n")
    with pytest.raises(TdmError, match="one list, 'jobs'"):
        read_jobs(path)
