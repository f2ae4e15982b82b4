"""Names of fields as they stand in the P4 source: p4c flattens metadata structs into one header, ``scalars``."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from p4reduce.dataplane.model import Program

_SCALARS: Final = "scalars"
_STANDARD: Final = "standard_metadata."


@dataclass(frozen=True)
class Names:
    """Readable names: ``meta.refused`` for ``scalars.metadata_t._refused32``, ``std.`` for standard metadata."""

    program: Program

    @cached_property
    def _scalars(self) -> dict[str, str]:
        """p4c numbers the fields of a flattened struct and appends the number to the name."""
        header = self.program.headers.get(_SCALARS)
        seen: dict[str, int] = {}
        found = {}
        for field in () if header is None else header.type.fields:
            struct, dot, rest = field.name.partition(".")
            if not dot:
                continue
            number = seen.get(struct, 0)
            seen[struct] = number + 1
            plain = rest.removesuffix(str(number)) if rest.startswith("_") else rest
            found[f"{_SCALARS}.{field.name}"] = f"meta.{plain.removeprefix('_')}"
        return found

    def __call__(self, what: str) -> str:
        """A field's readable name; other things keep theirs."""
        if what in self._scalars:
            return self._scalars[what]
        if what.startswith(_STANDARD):
            return "std." + what.removeprefix(_STANDARD)
        return what.removeprefix(f"{_SCALARS}.")

    @staticmethod
    def declared(action: str | None) -> bool:
        """Whether an action stands in the P4 source; p4c names those that it makes after file and line."""
        return action is not None and ("." in action or not re.fullmatch(r".*\d+(_\d+)?", action))
