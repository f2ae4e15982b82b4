"""Finding BMv2: named by the environment, on PATH, or in a Docker image that is on this machine."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from p4reduce.fabric.real.errors import RealError

VARIABLE: Final = "SIMPLE_SWITCH_GRPC"
PROGRAM: Final = "simple_switch_grpc"
IMAGE: Final = "p4lang/p4c"
HOW_TO_GET: Final = "docs/bmv2.md shows three ways to get it"
TIMEOUT_S: Final = 20
EXTRACT_TIMEOUT_S: Final = 600
_PACK: Final = (
    'set -e; program=$(command -v simple_switch_grpc); tar -chf - "$program" $(ldd "$program" | grep -o "/[^ ]*")'
)
"""In the image: an archive of the program and of the libraries that it loads, its loader among them."""


@dataclass(frozen=True)
class Bmv2:
    """How to start BMv2 here."""

    command: tuple[str, ...]
    """to which options are added"""
    origin: str
    """where it was found, for people"""

    def has_thrift(self) -> bool:
        """Whether it was built with Thrift, which it then has to be told a port for; P4Runtime does not need it."""
        try:
            done = subprocess.run(
                [*self.command, "--help"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return "--thrift-port" in done.stdout + done.stderr

    def version(self) -> str | None:
        """What it says to ``--version``; None when it does not answer."""
        try:
            done = subprocess.run(
                [*self.command, "--version"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        lines = f"{done.stdout}\n{done.stderr}".splitlines()
        return next((line.strip() for line in lines if done.returncode == 0 and line[:1].isdigit()), None)


def find_bmv2() -> Bmv2 | None:
    """The BMv2 to use: ``$SIMPLE_SWITCH_GRPC``, the one on PATH, or the one in the Docker image; None without any.

    Out of the image come the program and its libraries, once for each version of the image, into the user's cache; it
    then runs in our network namespaces like any other program, and Docker has no part in it. Raises
    :class:`RealError` when the variable names nothing, or the image could not be read.
    """
    found = find_installed()
    if found is not None:
        return found
    image = docker_image()
    return None if image is None else _from_image(image)


def find_installed() -> Bmv2 | None:
    """As :func:`find_bmv2`, but without Docker: nothing is changed by looking."""
    named = os.environ.get(VARIABLE)
    if named:
        if shutil.which(named) is None:
            raise RealError(f"${VARIABLE}={named}: there is no such program")
        return Bmv2((named,), f"${VARIABLE}")
    path = shutil.which(PROGRAM)
    return None if path is None else Bmv2((path,), path)


def need_bmv2() -> Bmv2:
    """:func:`find_bmv2`, or a :class:`RealError` that says how to get it."""
    found = find_bmv2()
    if found is None:
        raise RealError(f"BMv2 ({PROGRAM}) is not here: {HOW_TO_GET}")
    return found


def docker_image() -> str | None:
    """The identity of the Docker image :data:`IMAGE`; None when Docker or the image is not here, or not allowed."""
    docker = shutil.which("docker")
    if docker is None:
        return None
    command = [docker, "image", "inspect", "--format", "{{.Id}}", IMAGE]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def _from_image(image: str) -> Bmv2:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "p4reduce" / "bmv2"
    folder = cache / image.removeprefix("sha256:")[:16]
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=cache) as new:
            _extract(Path(new))
            with contextlib.suppress(OSError):  # somebody else was quicker: the same files
                (Path(new) / "root").rename(folder)
    programs = [path for path in folder.rglob(PROGRAM) if path.is_file()]
    loaders = sorted(folder.rglob("ld-linux*.so*"))
    if not programs or not loaders:
        raise RealError(f"Docker image {IMAGE}: {PROGRAM} could not be taken out of it; remove {folder} and try again")
    folders = sorted({str(path.parent) for path in folder.rglob("*.so*")})
    command = (str(loaders[0]), "--library-path", ":".join(folders), str(programs[0]))
    return Bmv2(command, f"Docker image {IMAGE}")


def _extract(folder: Path) -> None:
    command = ["docker", "run", "--rm", "--network", "none", "--entrypoint", "sh", IMAGE, "-c", _PACK]
    archive = folder / "archive.tar"
    try:
        with archive.open("wb") as file:
            done = subprocess.run(
                command, stdout=file, stderr=subprocess.PIPE, text=True, timeout=EXTRACT_TIMEOUT_S, check=False
            )
        if done.returncode != 0:
            raise RealError(f"Docker image {IMAGE}: reading {PROGRAM} out of it failed: {done.stderr.strip()}")
        (folder / "root").mkdir()
        subprocess.run(["tar", "-xf", archive, "-C", folder / "root"], capture_output=True, check=True)
    except subprocess.SubprocessError as error:
        raise RealError(f"Docker image {IMAGE}: reading {PROGRAM} out of it failed: {error}") from error
