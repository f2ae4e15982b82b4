"""Where a figure comes from: enough to make it again, and nothing that changes from run to run."""

import importlib.metadata
import platform
import subprocess
from pathlib import Path

import p4reduce
from p4reduce.base.requirements import requirements
from p4reduce.control_plane.program import P4Program


def provenance(program: P4Program, seed: int) -> dict[str, str]:
    """Commit, hash of the P4 JSON, versions and seed, as text."""
    found = {
        "p4reduce": p4reduce.__version__,
        "commit": _commit(Path(p4reduce.__file__).parent),
        "p4_json": program.name,
        "p4_json_sha256": program.sha256,
        "seed": str(seed),
        "python": platform.python_version(),
    }
    for library in requirements():
        found[library] = importlib.metadata.version(library)
    return found


def _commit(folder: Path) -> str:
    """The commit of a source checkout, with ``+changes`` where files differ from it; elsewhere the release.

    A checkout is one that holds this very file: an installation may lie within somebody else's repository.
    """

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "__init__.py")
        commit = git("rev-parse", "HEAD")
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ":/")
    except (OSError, subprocess.SubprocessError):
        return f"release {p4reduce.__version__}"
    return f"{commit}+changes" if changed else commit
