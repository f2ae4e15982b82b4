"""``make p4``: compile the P4 program for every number of lanes and write the manifest.

``python -m p4reduce.cli.p4_build`` compiles with this package's own front end; with $P4C (a path, or ``docker`` for the
image ``p4lang/p4c``) it runs p4c. The manifest says which compiler made what from what; a unit test compares it with
the sources.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from p4reduce import __version__
from p4switch.p4.compile import compile_file, json_text

LANES: Final = (64, 256)
IMAGE: Final = "p4lang/p4c"
FOLDER: Final = "p4src"
PROGRAM: Final = f"{FOLDER}/p4reduce.p4"
COMPILED: Final = f"{FOLDER}/compiled"
MANIFEST: Final = "manifest.json"
ROOT: Final = Path(__file__).resolve().parents[3]

OWN: Final = "p4reduce"
"""first word of the manifest's command if the front end of this package compiled the program"""


class BuildError(RuntimeError):
    """The program cannot be compiled; the message says what to do."""


@dataclass(frozen=True)
class P4Compiler:
    """A way to start p4c; ``prefix`` comes before p4c's arguments."""

    prefix: tuple[str, ...]
    origin: str

    def run(self, arguments: Sequence[str], root: Path) -> subprocess.CompletedProcess[str]:
        """Run p4c in ``root``, so that its outputs carry relative paths only."""
        try:
            return subprocess.run([*self.prefix, *arguments], cwd=root, capture_output=True, text=True, check=False)
        except OSError as error:
            raise BuildError(f"make p4: cannot start {self.prefix[0]}: {error.strerror}") from error

    def version(self, root: Path) -> str:
        """Return p4c's version line, e.g. ``Version 1.2.3.9 (SHA: …)``, after "p4c "."""
        done = self.run(["--version"], root)
        text = f"{done.stdout}\n{done.stderr}"  # the stream and the exit code differ between versions
        lines = [line.strip() for line in text.splitlines() if line.startswith("Version")]
        if not lines:
            raise BuildError(f"make p4: {self.origin} --version failed: {text.strip()}")
        return f"p4c {lines[0]}"


@dataclass(frozen=True)
class OwnCompiler:
    """The front end of this package."""

    origin: str = "this package"

    def version(self, root: Path) -> str:
        """Return the version of this package."""
        del root
        return f"p4reduce {__version__}"


def find_compiler(chosen: str | None, root: Path = ROOT) -> P4Compiler | OwnCompiler:
    """Return p4c, given by its path or 'docker', or without ``chosen`` the front end. Raises ``BuildError``."""
    if not chosen:
        return OwnCompiler()
    if chosen != "docker":
        path = shutil.which(chosen)
        if path is None:
            raise BuildError(f"make p4: P4C={chosen}: there is no such program; unset P4C to compile without p4c")
        return P4Compiler((path,), chosen)
    docker = shutil.which("docker")
    if docker is None:
        raise BuildError("make p4: P4C=docker: docker is not installed; unset P4C to compile without p4c")
    mine = f"{os.getuid()}:{os.getgid()}"
    mount = f"type=bind,source={root},target=/p4reduce"
    prefix = (docker, "run", "--rm", "--user", mine, "--mount", mount, "--workdir", "/p4reduce", IMAGE, "p4c-bm2-ss")
    return P4Compiler(prefix, f"docker image {IMAGE}")


def outputs(lanes: int) -> tuple[str, str]:
    """Return the paths of the JSON and the P4Info for a number of lanes, relative to the repository."""
    return f"{COMPILED}/p4reduce-{lanes}.json", f"{COMPILED}/p4reduce-{lanes}.p4info.txt"


def arguments_for(lanes: int) -> list[str]:
    """Return p4c's arguments, with paths relative to the repository, so that they are the same on every machine."""
    program, p4info = outputs(lanes)
    return ["--std", "p4-16", f"-DLANES={lanes}", "-o", program, "--p4runtime-files", p4info, PROGRAM]


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def code_digest(path: Path) -> str:
    """Return the SHA-256 of a P4 source with emptied comment lines: their text may change, their number may not.

    Compiled programs contain lines and columns of the sources. A comment line begins with ``//``; it is not emptied if
    it has ``*/``, which could end a longer comment, or ends with a backslash, which continues it on the next line.
    """
    lines = path.read_text().split("\n")
    kept = ("" if _is_comment(line) else line for line in lines)
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()


def _is_comment(line: str) -> bool:
    return line.lstrip(" ").startswith("//") and "*/" not in line and not line.endswith("\\")


def sources(root: Path = ROOT) -> dict[str, str]:
    """Return the ``code_digest`` of every P4 source, by its path relative to the repository."""
    files = sorted((root / FOLDER).glob("*.p4"))
    return {path.relative_to(root).as_posix(): code_digest(path) for path in files}


def compile_lanes(compiler: P4Compiler | OwnCompiler, lanes: int, root: Path = ROOT) -> dict[str, Any]:
    """Compile for one number of lanes; return the manifest's entry for it."""
    (root / COMPILED).mkdir(exist_ok=True)
    made = outputs(lanes)
    if isinstance(compiler, OwnCompiler):
        command = _with_front_end(lanes, made, root)
    else:
        command = _with_p4c(compiler, lanes, root)
    if str(root) in (root / made[0]).read_text():
        raise BuildError(f"make p4: {made[0]} names a folder of this machine; p4c must be run with relative paths")
    return {"command": command, "lanes": lanes, "outputs": {name: digest(root / name) for name in made}}


def _with_p4c(compiler: P4Compiler, lanes: int, root: Path) -> list[str]:
    arguments = arguments_for(lanes)
    done = compiler.run(arguments, root)
    if done.returncode != 0:
        raise BuildError(f"make p4: p4c failed for {lanes} lanes:\n{done.stderr.rstrip()}")
    if done.stderr.strip():
        print(done.stderr.rstrip(), file=sys.stderr)
    return ["p4c-bm2-ss", *arguments]


def _with_front_end(lanes: int, made: tuple[str, str], root: Path) -> list[str]:
    compilation = compile_file(root / PROGRAM, {"LANES": str(lanes)}, name=PROGRAM)
    for message in compilation.messages():
        print(message, file=sys.stderr)
    if compilation.json is None:
        raise BuildError(f"make p4: {PROGRAM} cannot be compiled for {lanes} lanes; the errors are above")
    texts = json_text(compilation.json), compilation.p4info()
    for name, text in zip(made, texts, strict=True):
        (root / name).write_text(text)
    return own_command(lanes)


def own_command(lanes: int) -> list[str]:
    """Return the command line that compiles the program in the same way."""
    program, p4info = outputs(lanes)
    return [OWN, "p4", "compile", PROGRAM, "-D", f"LANES={lanes}", "-o", program, "--p4info", p4info]


def build(compiler: P4Compiler | OwnCompiler, root: Path = ROOT) -> dict[str, Any]:
    """Compile for all numbers of lanes and write the manifest; return it."""
    manifest: dict[str, Any] = {"compiler": compiler.version(root), "sources": sources(root), "programs": []}
    for lanes in LANES:
        manifest["programs"].append(compile_lanes(compiler, lanes, root))
    (root / COMPILED / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    return manifest


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="make p4", description=__doc__)
    parser.add_argument(
        "--p4c", default=os.environ.get("P4C") or None, help="p4c-bm2-ss to use, or 'docker' (default: $P4C, else none)"
    )
    options = parser.parse_args()
    try:
        compiler = find_compiler(options.p4c)
        manifest = build(compiler)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{manifest['compiler']} ({compiler.origin})")
    for program in manifest["programs"]:
        for name, checksum in program["outputs"].items():
            print(f"  {checksum[:16]}…  {(ROOT / name).stat().st_size:>9,} bytes  {name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
