"""Where Slurm's programs are: installed, or in a folder that its packages were unpacked into."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from p4reduce.schedulers.slurm.errors import SlurmError

ROOT: Final = "P4REDUCE_SLURM"
"""Folder that Debian's packages were unpacked into (``dpkg -x``); where it is not set, they are installed."""
PACKAGES: Final = "slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge"
_BINARIES: Final = ("usr/sbin", "usr/bin")
_SYSTEM: Final = ("/usr/sbin", "/usr/local/sbin", "/usr/bin", "/usr/local/bin")
NEEDED: Final = (
    "munged",
    "slurmctld",
    "slurmd",
    "slurmstepd",
    "sbatch",
    "srun",
    "squeue",
    "sinfo",
    "scontrol",
    "scancel",
    "sdiag",
)


@dataclass(frozen=True)
class Programs:
    """Paths by name, and what their processes need in their environment."""

    paths: Mapping[str, str]
    environment: Mapping[str, str]
    plugins: Path | None
    """Slurm's PluginDir; None: where it was built to look"""

    def __getitem__(self, name: str) -> str:
        return self.paths[name]


def find_programs(environment: Mapping[str, str] = os.environ) -> Programs:
    """All that a cluster needs; `SlurmError` names what is missing and how to get it."""
    root = environment.get(ROOT)
    if root:
        folders = [Path(root) / part for part in _BINARIES]
        plugins = next(iter(sorted(Path(root).glob("usr/lib/*/slurm-wlm"))), None)
        if plugins is None:
            raise SlurmError(f"{ROOT}: {root}: has no usr/lib/*/slurm-wlm; unpack {PACKAGES} there with 'dpkg -x'")
        libraries = [str(plugins.parent), str(plugins), *filter(None, [environment.get("LD_LIBRARY_PATH")])]
        extra = {"LD_LIBRARY_PATH": ":".join(libraries)}
    else:
        folders = [Path(part) for part in (*environment.get("PATH", "").split(os.pathsep), *_SYSTEM) if part]
        plugins, extra = None, {}
    paths = {name: found for name in NEEDED if (found := _find(name, folders)) is not None}
    missing = [name for name in NEEDED if name not in paths and name != "slurmstepd"]
    if missing:
        where = f"in {root} ({ROOT})" if root else "here"
        raise SlurmError(f"{missing[0]}: Slurm is not {where}; on Debian: apt install {PACKAGES}")
    search = os.pathsep.join(
        [*dict.fromkeys(str(Path(path).parent) for path in paths.values()), environment.get("PATH", "")]
    )
    return Programs(paths, {**extra, "PATH": search}, plugins)


def _find(name: str, folders: list[Path]) -> str | None:
    """Debian calls some of them NAME-wlm."""
    where = os.pathsep.join(map(str, folders))
    return shutil.which(name, path=where) or shutil.which(f"{name}-wlm", path=where)
