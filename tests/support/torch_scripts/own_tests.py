"""PyTorch's own tests of process groups on this back end: ``python -m tests.support.torch_scripts.own_tests``.

They ship with torch (``torch.testing._internal.distributed.distributed_test``) and run one by one, as PyTorch runs them
for gloo: each in separate processes over a separate network, about three seconds each, because processes are forked
from one that has imported torch. A test that fails is repeated on gloo alone. Prints a line for each test and counts;
exits with 1 if a test fails that passes on gloo, or if gloo made a call that is missing in the table of calls. With
``--out``, results are kept, and a test that has a result is not run again. Needs the package ``expecttest``, like
torch's tests.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

ELSEWHERE = {
    "NCCL's own": r"nccl",
    "SyncBatchNorm has a kernel for GPUs only": r"SyncBatchNorm|sync_bn|join_with_syncbn",
    "GPUs alone have streams, graphs and such times": r"cudagraph|native_mixed|apply_optim|logging_data_gpu|"
    r"profiling_torch",
    "asks what the compiler makes for a GPU": r"compile_static_graph",
    "asks C++ for buckets, without a group": r"compute_bucket",
    "wants the device of each rank": r"test_ddp_device",
    "asks for gloo by its name, as torch.distributed does": r"test_get_backend|monitored_barrier",
}
"""Reasons for which tests are not run, with patterns of their names."""
WANTED = re.compile(r"world size of (?P<ranks>\d+)|(?:small|odd) world size")
"""Skip reasons of tests that need another number of ranks; most ask at import. Without a number, ..."""
MANY = 8


@dataclass(frozen=True)
class Outcome:
    """The outcome of a test."""

    name: str
    kind: str
    """passed, failed, skipped"""
    seconds: float
    why: str = ""
    text: str = ""
    gloo: str = ""
    """of a failed test: its outcome over gloo alone"""
    calls: int = 0
    """calls of all ranks over the switches"""
    done: int = 0
    """gloo's operations, by its own numbers"""
    told: int = 0
    """number of these in the table of calls"""
    unreported: int = 0
    """difference between ``done`` and ``told``, summed over the ranks"""

    @property
    def line(self) -> str:
        """The outcome in one line for the terminal."""
        gloo = f"{self.kind} over gloo, too  " if self.gloo == "failed" else ""
        differ = f"{self.unreported} calls unreported  " if self.unreported else ""
        return f"{self.kind:8s} {self.seconds:5.1f} s  {self.name}  {gloo}{differ}{self.why}".rstrip()


def main() -> int:
    """Return 1 if a test fails that gloo passes, or a call of gloo is not in the table, else 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--match", default="", help="run only tests whose name matches this expression")
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--out", type=Path, help="folder for results; tests that have a result there are not run again")
    parser.add_argument("--elsewhere", action="store_true", help="also run tests that are excluded for a reason")
    parser.add_argument("--list", action="store_true", help="only list the tests")
    options = parser.parse_args()
    os.environ |= {"WORLD_SIZE": str(options.ranks), "OMP_NUM_THREADS": "1"}
    os.environ.setdefault("DISTRIBUTED_TESTS_DEFAULT_TIMEOUT", "100")  # seconds after which a hanging test fails
    os.environ.setdefault("TEMP_DIR", tempfile.mkdtemp(prefix="p4reduce-own-tests-"))
    os.environ["COUNTS_OF_GLOO"] = tempfile.mkdtemp(prefix="p4reduce-own-tests-")
    for name in ("barrier", "test_dir", "init_dir"):
        (Path(os.environ["TEMP_DIR"]) / name).mkdir(exist_ok=True)
    from tests.support.torch_scripts.own_cases import TestOverSwitches

    wanted = re.compile(options.match)
    names = [name for name in unittest.TestLoader().getTestCaseNames(TestOverSwitches) if wanted.search(name)]
    if options.list:
        print("\n".join(f"{name}  {_elsewhere(name)}".rstrip() for name in names))
        return 0
    kept = None if options.out is None else options.out / "results.jsonl"
    known = {} if kept is None or not kept.exists() else _known(kept)
    outcomes = []
    for name in names:
        if name not in known:
            why = "" if options.elsewhere else _elsewhere(name)
            known[name] = Outcome(name, "skipped", 0.0, why) if why else _tried(TestOverSwitches, name, options.ranks)
            if kept is not None and not why:
                kept.parent.mkdir(parents=True, exist_ok=True)
                with kept.open("a") as file:
                    file.write(json.dumps(asdict(known[name])) + "\n")
        print(known[name].line, *filter(None, [known[name].text]), sep="\n", flush=True)
        outcomes.append(known[name])
    return _told(outcomes)


def _elsewhere(name: str) -> str:
    return next((why for why, names in ELSEWHERE.items() if re.search(names, name)), "")


def _known(kept: Path) -> dict[str, Outcome]:
    return {
        outcome.name: outcome for line in kept.read_text().splitlines() for outcome in [Outcome(**json.loads(line))]
    }


def _told(outcomes: Iterable[Outcome]) -> int:
    """Print a summary; return the exit code."""
    kinds = Counter(outcome.kind for outcome in outcomes)
    failed = [outcome for outcome in outcomes if outcome.kind == "failed"]
    beyond = [outcome.name for outcome in failed if outcome.gloo != "failed"]
    unreported = {outcome.name: outcome.unreported for outcome in outcomes if outcome.unreported}
    reasons = Counter(outcome.why for outcome in outcomes if outcome.kind == "skipped")
    print(f"\nrun: {kinds['passed'] + kinds['failed']} tests, {kinds['passed']} passed, {kinds['failed']} failed, "
          f"{len(failed) - len(beyond)} of these over gloo, too")  # fmt: skip
    print(
        "\n".join(f"  failed: {outcome.name} {outcome.gloo and f'(over gloo: {outcome.gloo})'}" for outcome in failed)
    )
    print(f"skipped: {kinds['skipped']}")
    for why, count in reasons.most_common():
        print(f"  {count:3d} {' '.join(why.split())}")
    print(f"calls of all ranks: {sum(outcome.calls for outcome in outcomes)} through switches, "
          f"{sum(outcome.done for outcome in outcomes)} by gloo, as it numbers them, "
          f"{sum(outcome.told for outcome in outcomes)} of these in the table")  # fmt: skip
    print(f"unreported calls: {sum(unreported.values())} {unreported or ''}")
    return 1 if beyond or unreported or not kinds["passed"] else 0


def _tried(kind: type[unittest.TestCase], name: str, ranks: int) -> Outcome:
    began = time.monotonic()
    result = _run(kind(name), ranks)
    wanted = next(filter(None, (WANTED.search(why) for _, why in result.skipped)), None)
    if wanted and (many := int(wanted["ranks"] or MANY)) != ranks:
        return _tried_anew(name, many)
    counts = _counts()
    text = "\n".join(text for _, text in (*result.failures, *result.errors))
    outcome = Outcome(
        name,
        _kind_of(result),
        time.monotonic() - began,
        result.skipped[0][1] if result.skipped else "",
        text,
        calls=sum(own["calls"] for own in counts),
        done=sum(own["done"] for own in counts),
        told=sum(own["told"] for own in counts),
        unreported=sum(abs(own["done"] - own["told"]) for own in counts),
    )
    if outcome.kind != "failed":
        return outcome
    os.environ["OVER"] = "gloo"
    try:
        alone = _kind_of(_run(kind(name), ranks))
    finally:
        del os.environ["OVER"]
        _counts()
    return Outcome(**{**asdict(outcome), "gloo": alone})


def _tried_anew(name: str, ranks: int) -> Outcome:
    """In a process that imports the tests with so many ranks."""
    with tempfile.TemporaryDirectory(prefix="p4reduce-own-tests-") as folder:
        flags = ["--ranks", str(ranks), "--match", f"^{name}$", "--out", folder]
        own = {"TEMP_DIR", "COUNTS_OF_GLOO", "WORLD_SIZE"}
        environment = {variable: value for variable, value in os.environ.items() if variable not in own}
        command = [sys.executable, "-m", "tests.support.torch_scripts.own_tests", *flags]
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
        kept = Path(folder) / "results.jsonl"
        if not kept.exists():
            return Outcome(name, "failed", 0.0, f"nothing came of it with {ranks} ranks")
        return _known(kept)[name]


def _kind_of(result: unittest.TestResult) -> str:
    return "failed" if result.failures or result.errors else "skipped" if result.skipped else "passed"


def _counts() -> list[dict[str, int]]:
    """Return the counts of each rank of the last test; remove their files."""
    files = list(Path(os.environ["COUNTS_OF_GLOO"]).iterdir())
    counts = [json.loads(file.read_text()) for file in files]
    for file in files:
        file.unlink()
    return counts


def _run(case: unittest.TestCase, ranks: int) -> unittest.TestResult:
    os.environ |= {"WORLD_SIZE": str(ranks), "P4REDUCE_SET_TOPOLOGY": f"star:hosts={ranks}"}
    result = unittest.TestResult()
    case.run(result)
    return result


if __name__ == "__main__":
    sys.exit(main())
