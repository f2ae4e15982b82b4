"""Reads regular files only, and writes files and folders completely or not at all; errors name the file."""

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
"""Limit on the bytes read from a file; this project's inputs are far smaller."""
_PIECE: Final = 1 << 20
_MARK: Final = ".partial-"
_KINDS: Final = (
    (stat.S_ISDIR, errno.EISDIR, "Is a folder; give a file"),
    (stat.S_ISFIFO, errno.EINVAL, "Is a pipe; give a file"),
    (stat.S_ISSOCK, errno.EINVAL, "Is a socket; give a file"),
    (lambda mode: not stat.S_ISREG(mode), errno.EINVAL, "Is a device; give a file"),
)


def open_file(path: Path) -> BinaryIO:
    """Open a regular file for reading; never waits for the writer of a pipe.

    Raises
    ------
    OSError
        With the name of ``path``; also raised if ``path`` is a pipe, a socket, a device or a folder.
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
    """Raises ``OSError`` if the path to be written to is already a pipe, a socket, a device or a folder.

    Replacing such a path would remove it, as root even ``/dev/null``; writing to a pipe would block.
    """
    with contextlib.suppress(FileNotFoundError):
        _check_kind(path.stat().st_mode, path)


def _check_kind(mode: int, path: Path) -> None:
    for is_kind, code, text in _KINDS:
        if is_kind(mode):
            raise OSError(code, text, str(path))


def read_bytes(path: Path, most: int = LARGEST) -> bytes:
    """Return the contents of a regular file of at most ``most`` bytes. Raises ``OSError`` with the name of ``path``."""
    with open_file(path) as file, naming(path):
        data = bytearray()
        while piece := file.read(_PIECE):
            data += piece
            if len(data) > most:
                raise OSError(errno.EFBIG, f"Larger than {most} bytes", str(path))
        return bytes(data)


def read_text(path: Path, most: int = LARGEST) -> str:
    """Return a UTF-8 file as text with newlines as line ends. Raises ``OSError`` and ``UnicodeDecodeError``."""
    return read_bytes(path, most).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the name of ``path`` to an ``OSError`` of the body that has none, such as a full disk's."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


@contextlib.contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Yield a path beside ``path`` to write to; it replaces ``path`` at the end, and is removed after an error.

    Raises
    ------
    OSError
        With the name of ``path``, if writing fails or ``path`` exists and is not a regular file.
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
    """Write a UTF-8 file, whole or not at all; return its path."""
    with whole(path) as aside:
        aside.write_text(text, "utf-8")
    return path


@contextlib.contextmanager
def together(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder; at the end all files in it and in its subfolders move to ``folder`` one by one.

    An error in the body leaves ``folder`` as it was. Other files in ``folder`` stay.
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
