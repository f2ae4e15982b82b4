"""Reading regular files alone, and writing files and folders whole or not at all; errors name the file."""

import contextlib
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

LARGEST: Final = 1 << 30
"""Bytes of a file that is read; no input of ours comes near."""
_PIECE: Final = 1 << 20
_MARK: Final = ".partial-"
_KINDS: Final = (
    (stat.S_ISDIR, errno.EISDIR, "Is a folder; give a file"),
    (stat.S_ISFIFO, errno.EINVAL, "Is a pipe; give a file"),
    (stat.S_ISSOCK, errno.EINVAL, "Is a socket; give a file"),
    (lambda mode: not stat.S_ISREG(mode), errno.EINVAL, "Is a device; give a file"),
)


def open_file(path: Path) -> BinaryIO:
    """Open a regular file to read it; does not wait for one who writes to a pipe.

    Raises
    ------
    OSError
        With the name of ``path``: a pipe, a socket, a device or a folder, too, cannot be read as a file.
    """
    with naming(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            _check_kind(os.fstat(descriptor).st_mode, path)
            return os.fdopen(descriptor, "rb")
        except BaseException:
            os.close(descriptor)
            raise


def check_target(path: Path) -> None:
    """Raises ``OSError`` where a path to write to is a pipe, a socket, a device or a folder already.

    A file that takes its place would remove what is there, as root even ``/dev/null``; writing to a pipe waits.
    """
    with contextlib.suppress(FileNotFoundError):
        _check_kind(path.stat().st_mode, path)


def _check_kind(mode: int, path: Path) -> None:
    for is_kind, code, text in _KINDS:
        if is_kind(mode):
            raise OSError(code, text, str(path))


def read_bytes(path: Path, most: int = LARGEST) -> bytes:
    """What is in a regular file of at most ``most`` bytes. Raises ``OSError`` with the name of ``path``."""
    with open_file(path) as file, naming(path):
        data = bytearray()
        while piece := file.read(_PIECE):
            data += piece
            if len(data) > most:
                raise OSError(errno.EFBIG, f"Larger than {most} bytes", str(path))
        return bytes(data)


def read_text(path: Path, most: int = LARGEST) -> str:
    """The same, as text in UTF-8, lines ended by newlines. Raises ``OSError`` and ``UnicodeDecodeError``."""
    return read_bytes(path, most).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Give an ``OSError`` from inside the name of the file that is read or written: errors of a disk have none."""
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
        Of what was written, with the name of ``path``; and where that is no regular file.
    """
    check_target(path)
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
