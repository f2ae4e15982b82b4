"""PyTorch's own tests of process groups, against this back end: ``python -m tests.support.torch_scripts.own_tests``.

They ship with torch (``torch.testing._internal.distributed.distributed_test``). Those of the collectives that are
claimed run one by one, as PyTorch runs them for gloo: each in processes of its own, over a network of its own. Prints
what passes, and exits with 1 when one that is claimed does not. Needs the package ``expecttest``, as torch's tests do.
"""

import argparse
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path

CLAIMED = re.compile(r"test_(all_reduce|broadcast|barrier|reduce_scatter|all_gather|ddp_|DistributedDataParallel)")
ELSEWHERE = re.compile(r"cuda|nccl|gpu|GPU|Cuda|cudagraph")


def main() -> int:
    """Exit code: 0, or 1 when a claimed test fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--match", default="", help="only tests whose name contains this expression")
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--list", action="store_true", help="only say which there are")
    options = parser.parse_args()
    os.environ |= {"BACKEND": "p4reduce", "WORLD_SIZE": str(options.ranks), "OMP_NUM_THREADS": "1"}
    os.environ.setdefault("TEMP_DIR", tempfile.mkdtemp(prefix="p4reduce-own-tests-"))
    os.environ.setdefault("P4REDUCE_SET_TOPOLOGY", f"star:hosts={options.ranks}")
    for name in ("barrier", "test_dir", "init_dir"):
        (Path(os.environ["TEMP_DIR"]) / name).mkdir(exist_ok=True)
    from tests.support.torch_scripts.own_cases import TestOverSwitches

    wanted = re.compile(options.match)
    names = [
        name
        for name in unittest.TestLoader().getTestCaseNames(TestOverSwitches)
        if CLAIMED.match(name) and not ELSEWHERE.search(name) and wanted.search(name)
    ]
    if options.list:
        print("\n".join(names))
        return 0
    outcome: dict[str, list[str]] = {"passed": [], "skipped": [], "failed": []}
    for name in names:
        result = unittest.TestResult()
        TestOverSwitches(name).run(result)
        kind = "failed" if result.failures or result.errors else "skipped" if result.skipped else "passed"
        outcome[kind].append(name)
        why = result.skipped[0][1] if result.skipped else ""
        print(f"{kind:8s} {name} {why}", flush=True)
        for _, text in (*result.failures, *result.errors):
            print(text, flush=True)
    print(", ".join(f"{len(found)} {kind}" for kind, found in outcome.items()))
    return 1 if outcome["failed"] or not outcome["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
