"""Worker processes on sockets, joined by the compiled P4 program: equal bytes as in virtual time."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from p4reduce.base.records import from_json, to_json, to_plain
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.real.backend import ProcessSpec
from p4reduce.runs.real.worker import main
from p4reduce.runs.runner import run_experiment
from p4reduce.workers.specs import Congestion
from p4switch.native.memory import SUPPORTED
from tests.support.real_workers.group import Group

pytestmark = pytest.mark.skipif(not SUPPORTED, reason="real time needs Linux on a 64-bit machine")

WORKERS = 2


def experiment(plan: str, **given: object) -> Experiment:
    return Experiment.model_validate(
        {
            "topology": "leaf-spine-8",
            "plan": plan,
            "workers": WORKERS,
            "lanes": 64,
            "elements": 20_000,
            "repeat": 2,
            "window": 32,
            "seed": 11,
            **given,
        }
    )


NEXT = {"do": "next"}


def work(given: Experiment, sizes: list[int]) -> dict[str, Any]:
    """Return the command to do the work of an experiment."""
    return {"do": "work", "experiment": given.model_dump(mode="json"), "sizes": sizes}


def digest_of(shas: list[str]) -> str:
    """Return the digest over the digests of all results, as virtual time computes it."""
    digest = hashlib.sha256()
    for sha in shas:
        digest.update(bytes.fromhex(sha))
    return digest.hexdigest()


def digest_in_virtual_time(given: Experiment) -> str:
    return run_experiment(given).network.result_sha256


@pytest.mark.parametrize(("plan", "loss"), [("steiner", 0.01), ("ring", 0.01)])
def test_all_reduce_under_loss_gives_the_bytes_of_virtual_time(plan: str, loss: float) -> None:
    given = experiment(plan)
    with Group(given, loss=loss, congestion=Congestion(adaptive=True)) as group:
        shas = []
        answers = group.ask(work(given, [given.elements] * given.repeat))
        for turn in range(given.repeat):
            assert answers == [{"at": turn}] * WORKERS
            answers = group.ask(NEXT)
            digests = {answer["carried"]["sha256"] for answer in answers}
            assert len(digests) == 1
            shas += digests
            group.job.note("all_reduce", given.elements)
            answers = group.ask(NEXT)
        assert answers == [{"figures": [], "sha256": None}] * WORKERS
        statuses = group.ask({"do": "finish"})
        hosts = list(group.participants)
    assert digest_of(shas) == digest_in_virtual_time(given)
    predicted = group.job.predicted()
    endpoints = [next(iter(status["endpoints"].values())) for status in statuses]
    for host, endpoint in zip(hosts, endpoints, strict=True):
        assert endpoint["frames_sent"] - endpoint["resends"] == predicted[host, 1].frames
        assert endpoint["bytes_sent"] - endpoint["resend_bytes"] == predicted[host, 1].bytes
        assert endpoint["window"]["adaptive"]
    assert sum(endpoint["resends"] for endpoint in endpoints) > 0


@pytest.fixture(scope="module")
def served() -> Iterator[Group]:
    with Group(experiment("steiner", lanes=256), server=True) as group:
        yield group


def pushed(**given: object) -> Experiment:
    return experiment("steiner", lanes=256, collective="push", **given)


def test_what_a_worker_cannot_do_is_answered_and_it_goes_on(served: Group) -> None:
    assert "do: 'fly', must be one of" in served.ask({"do": "fly"})[0]["error"]
    assert served.ask(work(experiment("steiner", collective="broadcast"), [5]))[0] == {"at": 0}
    assert "no job for it" in served.ask(NEXT)[0]["error"]
    assert served.ask(work(pushed(), [5]))[0] == {"at": 0}
    assert "endpoints" in served.ask({"do": "status"})[0]  # while it waits
    assert "work" in served.ask(work(pushed(), [5]))[0]["error"]  # one at a time; the first has ended by that


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("{", "a command: is no JSON"),
        ("[]", "a command: input should be an object"),
        ('{"do": ["work"]}', "do: ['work'], must be one of"),
        ('{"do": "next"}', "do: 'next', must be one of"),
        ('{"do": "work", "experiment": {}, "sizes": ["5"]}', "work: sizes.0: input should be a valid integer"),
        ('{"do": "work", "experiment": {}, "sizes": [], "wait": 1}', "work: wait: there is no such field"),
        ('{"do": "work", "experiment": {}}', "work: sizes: is missing"),
        ('{"do": "work", "experiment": {"plan": 1}, "sizes": []}', "plan"),
        ('{"do": "work", "experiment": {}, "sizes": [-5]}', "negative"),
        (f'{{"do": "work", "experiment": {{}}, "sizes": [{10**30}]}}', "Maximum allowed dimension exceeded"),
        (f'{{"do": "work", "experiment": {{}}, "sizes": [{10**15}]}}', "allocate"),
    ],
)
def test_a_command_that_is_none_is_answered_by_what_is_wrong_with_it(served: Group, command: str, named: str) -> None:
    (answer, *_) = served.ask(command)
    assert named in answer["error"]
    assert "endpoints" in served.ask({"do": "status"})[0]


def test_arrays_can_be_kept(served: Group, tmp_path: Path) -> None:
    given, got = tmp_path / "given.npy", tmp_path / "got.npy"
    pulled = experiment("steiner", lanes=256, collective="pull")
    served.ask({**work(pulled, [1000]), "given": str(given), "got": str(got)})
    answer = served.ask(NEXT)[0]
    array = np.load(got)
    assert (array.shape, array.dtype) == ((1000,), np.float32)
    assert hashlib.sha256(array.data).hexdigest() == answer["carried"]["sha256"]
    assert np.load(given).shape == (1000,)
    assert "figures" in served.ask(NEXT)[0]


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"socket": {"local": ["192.0.2.1", 9400]}}, "192.0.2.1:9400"),
        ({"size": 0}, "size"),
        ({"endpoints": [{"kind": "close", "job": 1}]}, "'worker', 'server', 'ps-worker', 'ps-server', 'ring'"),
    ],
)
def test_a_description_that_cannot_be_used_is_refused(
    served: Group, tmp_path: Path, capsys: pytest.CaptureFixture[str], changed: dict[str, object], named: str
) -> None:
    path = tmp_path / "spec.json"
    path.write_text(json.dumps({**to_plain(served.specs[0]), **changed}))
    assert main([str(path)]) == 1
    shown = capsys.readouterr()
    assert named in json.loads(shown.out)["error"]
    assert shown.err == ""


def test_a_description_survives_json(served: Group) -> None:
    for spec in served.specs:
        assert from_json(ProcessSpec, to_json(spec), "a description") == spec
