"""``source_info`` of the JSON: where in the source something is."""

from typing import Any

from p4reduce.frontend.lower.values import Json
from p4reduce.frontend.source import Sources

LONGEST = 200


class SourceInfo:
    """Makes ``source_info`` from positions."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self._lines: dict[int, list[str]] = {}

    def of(self, at: int, end: int) -> Json | None:
        """Of what stands between two positions; None for what is in no file of the author's."""
        if at >> 44 == 0 or at >> 44 in self.sources.builtin:
            return None
        file, line, column = at >> 44, (at >> 20) & 0xFFFFFF, at & 0xFFFFF
        lines = self._lines.get(file)
        if lines is None:
            lines = self._lines[file] = self.sources.texts[file].split("\n")
        text = lines[line - 1] if line <= len(lines) else ""
        one_line = at >> 20 == end >> 20 and end > at
        fragment = text[column : end & 0xFFFFF] if one_line else text[column:].rstrip()
        if len(fragment) > LONGEST:
            fragment = fragment[:LONGEST] + "..."
        return {"filename": self.sources.names[file], "line": line, "column": column, "source_fragment": fragment}

    def put(self, item: Json, node: Any) -> None:
        """Sets or removes ``source_info`` of an object."""
        found = self.of(node.at, node.end) if node is not None else None
        if found is None:
            item.pop("source_info", None)
        else:
            item["source_info"] = found

    def finish(self, items: list[Json]) -> list[Json]:
        """Puts positions in place of the nodes that ``source_info`` held so far."""
        for item in items:
            node = item.get("source_info")
            if node is not None and not isinstance(node, dict):
                self.put(item, node)
        return items

    def stem(self, at: int) -> str:
        """The name of a hidden action: that of the file, and the line."""
        name = self.sources.names[at >> 44].rsplit("/", 1)[-1].split(".")[0]
        clean = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
        return f"{clean}{(at >> 20) & 0xFFFFFF}"
