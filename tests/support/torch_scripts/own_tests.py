"""PyTorch's own tests of process groups, against this back end: ``python -m tests.support.torch_scripts.own_tests``.

They ship with torch (``torch.testing._internal.distributed.distributed_test``). Those of the collectives that are
claimed run one by one, as PyTorch runs them for gloo: each in processes of its own, over a network of its own, some
three seconds each since processes are forked from one that has imported torch. Prints what passes, and exits with 1
when one that is claimed does not, or gloo did what the table of calls lacks. Needs the package ``expecttest``, as
torch's tests do.
"""

import argparse
import json
import os
import re
import sys
import tempfile
import time
import unittest
from pathlib import Path

CLAIMED = re.compile(
    r"test_(all_reduce|reduce|broadcast|barrier|all_gather|scatter_cuda|ddp_|DistributedDataParallel|accumulate_gradients|"
    r"\d_level|average_parameters|periodic_model|get_data_parallel|detect_ddp|different_graph|invalid_static_graph|"
    r"output_unused|skip_all_reduce|static_graph|DistributedSampler|get_future|"
    r"new_subgroups|sparse_all_reduce)"
)
ELSEWHERE = re.compile(
    r"nccl|SyncBatchNorm|sync_bn|cudagraph|native_mixed|apply_optim|logging_data_gpu|profiling_torch|compute_bucket|"
    r"test_ddp_(inference|compile_static_graph|device|join_with_syncbn|grad_div_uneven_inputs|hook_parity_powerSGD|"
    r"hook_parity_allreduce_process_group|hook_parity_post_localSGD|shared_grad_acc|zero_output|uneven_inputs$)"
)
"""What only GPUs have: NCCL, SyncBatchNorm, streams beside each other, kernels of a compiler; what a work in C++ lacks
whose Python object is gone (``grad_div_uneven_inputs``); what takes minutes, or was not tried."""
SMALL, MANY = "small world size", 8
"""Why some skip, and the ranks that they want."""


def main() -> int:
    """Exit code: 0, or 1 when a claimed test fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--match", default="", help="only tests whose name contains this expression")
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--all", action="store_true", help="what gloo does inside, too")
    parser.add_argument("--list", action="store_true", help="only say which there are")
    options = parser.parse_args()
    os.environ |= {"WORLD_SIZE": str(options.ranks), "OMP_NUM_THREADS": "1"}
    os.environ.setdefault("DISTRIBUTED_TESTS_DEFAULT_TIMEOUT", "100")  # seconds; one that hangs fails then
    os.environ.setdefault("TEMP_DIR", tempfile.mkdtemp(prefix="p4reduce-own-tests-"))
    os.environ["COUNTS_OF_GLOO"] = tempfile.mkdtemp(prefix="p4reduce-own-tests-")
    for name in ("barrier", "test_dir", "init_dir"):
        (Path(os.environ["TEMP_DIR"]) / name).mkdir(exist_ok=True)
    from tests.support.torch_scripts.own_cases import TestOverSwitches

    wanted = re.compile(options.match)
    names = [
        name
        for name in unittest.TestLoader().getTestCaseNames(TestOverSwitches)
        if (options.all or CLAIMED.match(name)) and not ELSEWHERE.search(name) and wanted.search(name)
    ]
    if options.list:
        print("\n".join(names))
        return 0
    outcome: dict[str, list[str]] = {"passed": [], "skipped": [], "failed": []}
    done, unreported = 0, []
    for name in names:
        began = time.monotonic()
        result = _run(TestOverSwitches(name), options.ranks)
        if any(SMALL in why for _, why in result.skipped):
            result = _run(TestOverSwitches(name), MANY)
        kind = "failed" if result.failures or result.errors else "skipped" if result.skipped else "passed"
        outcome[kind].append(name)
        why = result.skipped[0][1] if result.skipped else ""
        print(f"{kind:8s} {time.monotonic() - began:5.1f} s  {name}  {why}", flush=True)
        for _, text in (*result.failures, *result.errors):
            print(text, flush=True)
        counts = _counts()
        done += sum(one["done"] for one in counts)
        unreported += [name for one in counts if one["done"] != one["told"]]
    print(", ".join(f"{len(found)} {kind}" for kind, found in outcome.items()))
    print(f"by gloo: {done} calls, by its own numbers; the table has other numbers in {len(unreported)} ranks")
    print("\n".join(sorted(set(unreported))))
    return 1 if outcome["failed"] or unreported or not outcome["passed"] else 0


def _counts() -> list[dict[str, int]]:
    """What each rank of the last test counted; the files are removed."""
    files = list(Path(os.environ["COUNTS_OF_GLOO"]).iterdir())
    found = [json.loads(one.read_text()) for one in files]
    for one in files:
        one.unlink()
    return found


def _run(case: unittest.TestCase, ranks: int) -> unittest.TestResult:
    os.environ |= {"WORLD_SIZE": str(ranks), "P4REDUCE_SET_TOPOLOGY": f"star:hosts={ranks}"}
    result = unittest.TestResult()
    case.run(result)
    return result


if __name__ == "__main__":
    sys.exit(main())
