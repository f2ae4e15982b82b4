"""Files and folders that are there whole or not at all: written beside, then renamed; errors name the file."""

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_MARK: Final = ".partial-"


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Give an ``OSError`` from inside the name of the file that was written: a full disk's error has none."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


@contextlib.contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A path beside ``path`` to write to; what is there at the end takes its place, and after an error nothing is left.

    Raises
    ------
    OSError
        Of what was written, with the name of ``path``.
    """
    aside = path.with_name(f"{_MARK}{secrets.token_hex(4)}-{path.name}")
    try:
        with naming(path):
            yield aside
            aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> Path:
    """Write a file of UTF-8, whole or not at all; returns its path."""
    with whole(path) as aside:
        aside.write_text(text, "utf-8")
    return path


@contextlib.contextmanager
def together(folder: Path) -> Iterator[Path]:
    """A folder to write to; at the end its files, those of its own folders too, move to ``folder`` one after the other.

    After an error ``folder`` is as it was. Other files that ``folder`` holds stay.
    """
    folder.mkdir(parents=True, exist_ok=True)
    aside = folder / f"{_MARK}{secrets.token_hex(4)}"
    aside.mkdir()
    try:
        with naming(folder):
            yield aside
            for place, _, names in os.walk(aside):
                goal = folder / Path(place).relative_to(aside)
                goal.mkdir(exist_ok=True)
                for name in names:
                    (Path(place) / name).replace(goal / name)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
