"""Takes in submissions: each is copied once, and graders read only the copy.

Submissions are hostile. A symbolic link could name any file that the grader may read, a FIFO would block its reader,
``/dev/zero`` never ends. So one walk over the folder copies regular files, within bounds, and follows no link; no
other code opens files of the submission.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from p4reduce_course.frame.report import LabError, printable

MIB: Final = 1 << 20
MOST_BYTES: Final = 8 * MIB
"""most bytes of all files of a submission"""
MOST_FILES: Final = 500
"""most files, folders and other items of a submission"""
DEEPEST: Final = 4
"""deepest nesting of folders"""
_PIECE: Final = 1 << 16
_SKIPPED: Final = frozenset({"__pycache__", ".git", ".ipynb_checkpoints", ".venv"})
_KINDS: Final = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


@dataclass
class Intake:
    """A copy of a submission.

    Attributes:
        folder: folder of the copy.
        original: the copied folder, as the user named it.
        left_out: what was not copied, with the reason, by its path inside the submission; the path can be printed.
    """

    folder: Path
    original: Path
    left_out: dict[str, str] = field(default_factory=dict)
    _bytes: int = 0
    _entries: int = 0

    def as_named(self, text: str) -> str:
        """Returns a text with the copy's paths replaced by those that the user knows."""
        return text.replace(str(self.folder), str(self.original))

    def take(self, source: int, target: Path, inside: str, depth: int) -> None:
        """Copies the contents of an open folder. Raises LabError if the submission is too large."""
        target.mkdir(mode=0o700, exist_ok=True)
        for name in sorted(os.listdir(source)):
            self._entries += 1
            if self._entries > MOST_FILES:
                raise LabError(f"{self.original}: holds more than {MOST_FILES} files; hand in those of the lab alone")
            if name in _SKIPPED:
                continue
            path = inside + printable(name).replace("\n", "\\n")
            try:
                self._one(source, name, target / name, path, depth)
            except OSError as error:
                self.left_out[path] = f"cannot be read: {error.strerror}"

    def _one(self, source: int, name: str, target: Path, path: str, depth: int) -> None:
        mode = os.stat(name, dir_fd=source, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            if depth == DEEPEST:
                self.left_out[path] = f"lies more than {DEEPEST} folders deep"
                return
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=source)
            try:
                self.take(inner, target, f"{path}/", depth + 1)
            finally:
                os.close(inner)
        elif stat.S_ISREG(mode):
            # A file may have become a FIFO: opening must not wait, and the open file's kind is checked.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            file = os.open(name, flags, dir_fd=source)
            try:
                about = os.fstat(file)
                if not stat.S_ISREG(about.st_mode):
                    self.left_out[path] = "is no regular file"
                elif about.st_nlink > 1:  # its other name may be a file that is not the student's
                    self.left_out[path] = "is a hard link; hand in a copy of the file"
                else:
                    self._copy(file, target)
            finally:
                os.close(file)
        else:
            kind = next((text for is_kind, text in _KINDS if is_kind(mode)), "no regular file")
            self.left_out[path] = f"is {kind}; hand in the file itself"

    def _copy(self, file: int, target: Path) -> None:
        with target.open("xb") as written:
            while piece := os.read(file, _PIECE):
                self._bytes += len(piece)
                if self._bytes > MOST_BYTES:
                    raise LabError(f"{self.original}: more than {MOST_BYTES // MIB} MiB were handed in")
                written.write(piece)


@contextmanager
def taken_in(folder: Path, *, follow: bool = True) -> Iterator[Intake]:
    """Yields a copy of a submission, which is removed at the end.

    The copy keeps the folder's name. A ``lab.yaml`` beside a folder ``skeleton`` is copied, too.

    Args:
        folder: the submission.
        follow: whether the folder itself may be a symbolic link: yes for a folder that a user named, no within a
            folder of submissions.

    Raises:
        LabError: it is not a folder, or is larger than a submission may be.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        source = os.open(folder, flags)
    except (FileNotFoundError, NotADirectoryError):
        if folder.is_symlink():
            raise LabError(f"{folder}: is a symbolic link; hand in the folder itself") from None
        raise LabError(f"{folder}: there is no such folder; 'p4reduce lab copy 01' makes one") from None
    except OSError as error:
        raise LabError(f"{folder}: cannot be read: {error.strerror}") from None
    try:
        with tempfile.TemporaryDirectory(prefix="p4reduce-taken-", ignore_cleanup_errors=True) as home:
            name = Path(os.path.realpath(folder)).name or "submission"
            intake = Intake(Path(home) / "in" / name, folder)
            intake.folder.parent.mkdir(mode=0o700)
            intake.take(source, intake.folder, "", 1)
            if name == "skeleton":
                _beside(source, intake)
            yield intake
    finally:
        os.close(source)


def _beside(source: int, intake: Intake) -> None:
    """Copies the ``lab.yaml`` of the folder above, which names the lab and the student."""
    try:
        above = os.open("..", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=source)
    except OSError:
        return
    try:
        if stat.S_ISREG(os.stat("lab.yaml", dir_fd=above, follow_symlinks=False).st_mode):
            intake._one(above, "lab.yaml", intake.folder.parent / "lab.yaml", "../lab.yaml", DEEPEST)
    except OSError:
        pass
    finally:
        os.close(above)
