"""``python -m studies NAME``: a study from its flags to its page; ``python -m studies --help`` lists them.

python -m studies priorities                             whole study, results in out/priorities (make study NAME=...)
python -m studies priorities --quick                     a sample, results in out/priorities-quick
python -m studies priorities --parts load --seeds 0..9
python -m studies priorities --dask tcp://scheduler:8786     over the machines of a Dask cluster
python -m studies priorities --shard 1/4 --out out/a     a quarter of it; then --merge out/a,out/b,...
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from studies.frame import Study
from studies.pages import study_main

_NAMES: Final = ("poster", "placement", "turns", "priorities", "optical", "compare", "bench")
STUDIES: Final = {name: f"studies.{name}.study" for name in _NAMES}
"""Module of each study; only the requested one is imported because some studies register policies."""


def load(name: str) -> Study:
    """Return the study with this name."""
    study: Study = import_module(STUDIES[name]).STUDY
    return study


def _help() -> str:
    lines = [
        f"  {name:<12} {study.says}\n{'':15}parts: {', '.join(part.name for part in study.parts)}"
        for name, study in ((name, load(name)) for name in STUDIES)
    ]
    return "studies:\n" + "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study that the first argument names; return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in STUDIES:
        return study_main(load(given[0]), given[1:])
    parser = argparse.ArgumentParser(
        prog="python -m studies",
        description=__doc__,
        epilog=_help() if set(given) & {"-h", "--help"} else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("study", choices=STUDIES, help="name of the study; its flags: python -m studies STUDY --help")
    parser.parse_args(given)
    return 2


if __name__ == "__main__":
    sys.exit(main())
