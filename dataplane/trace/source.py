"""Lines of the P4 source, where it lies beside the compiled program."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from pathlib import Path

from p4reduce.dataplane.model.errors import SourceInfo


@dataclass
class Sources:
    """Finds source lines; what p4c kept of a line stands in where the file is not there.

    Attributes:
        roots: folders to which the file names in the JSON may be relative.
    """

    roots: Sequence[Path | Traversable] = ()
    _files: dict[str, list[str] | None] = field(default_factory=dict)

    def line(self, source: SourceInfo | None) -> str:
        """The text of a source line, without indentation; empty where nothing is known."""
        if source is None:
            return ""
        lines = self._read(source.file)
        if lines is not None and 0 < source.line <= len(lines):
            return lines[source.line - 1].strip()
        return source.fragment.removesuffix("; ...").removesuffix("...").strip(" ;=")

    def _read(self, name: str) -> list[str] | None:
        if name not in self._files:
            self._files[name] = next((text for root in self.roots if (text := _lines(root, name)) is not None), None)
        return self._files[name]


def _lines(root: Path | Traversable, name: str) -> list[str] | None:
    """A file below a folder; a name that leads out of it is not followed."""
    parts = Path(name).parts
    if Path(name).is_absolute() or ".." in parts:
        return None
    try:
        return root.joinpath(*parts).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
