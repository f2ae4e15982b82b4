"""Frames that cover the paths through a program's parser, read from p4c's JSON without our own loader."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

from tests.support.frontend.differential.values import Values

LONGEST = 64
"""Maximum number of states on a path."""


class ParserFrames:
    """Maker of frames: writes a transition's value into its key fields; prefers the least taken transitions.

    Attributes:
        taken: number of frames made for each transition, by state and index.
    """

    def __init__(self, path: Path, values: Values) -> None:
        self.values = values
        self.taken: Counter[tuple[str, int]] = Counter()
        root = json.loads(path.read_text())
        parser = root["parsers"][0]
        self.start: str | None = parser["init_state"]
        self.states = {state["name"]: state for state in parser["parse_states"]}
        types = {t["name"]: t for t in root["header_types"]}
        self.headers = {h["name"]: types[h["header_type"]] for h in root["headers"]}
        self.stacks = {s["name"]: s for s in root["header_stacks"]}
        self.names = {h["id"]: h["name"] for h in root["headers"]}

    def __call__(self, rng: random.Random) -> bytes:
        """Return a frame."""
        way = _Way(self, rng)
        name = self.start
        for _ in range(LONGEST):
            if name is None:
                break
            name = way.through(self.states[name])
        way.bits += [rng.getrandbits(1) for _ in range(8 * rng.choice((0, 1, 20, 60, 100)))]
        bits = way.bits[: len(way.bits) // 8 * 8]
        frame = bytes(int("".join(map(str, bits[i : i + 8])), 2) for i in range(0, len(bits), 8))
        if rng.random() < 0.05:
            frame = frame[: rng.randrange(len(frame) + 1)]
        return frame or b"\x00"


class _Way:
    def __init__(self, frames: ParserFrames, rng: random.Random) -> None:
        self.frames, self.rng = frames, rng
        self.bits: list[int] = []
        self.where: dict[tuple[str, str], tuple[int, int]] = {}
        self.next: dict[str, int] = {}
        self.wanted: dict[int, int] = {}

    def through(self, state: Any) -> str | None:
        """Append the bits that a state extracts; return the next state."""
        for op in state["parser_ops"]:
            if op["op"] in ("extract", "extract_VL"):
                self._extract(op["parameters"][0])
            elif op["op"] == "advance" and op["parameters"][0]["type"] == "hexstr":
                self._add(int(op["parameters"][0]["value"], 16))
            elif op["op"] == "set":
                self._note(*op["parameters"])
        transitions = state["transitions"]
        if not transitions:
            return None
        chosen = transitions[self._choice(state["name"], len(transitions))]
        if chosen["type"] == "hexstr" and chosen["value"] != "default":
            self._aim(state["transition_key"], int(chosen["value"], 16), chosen["mask"])
        following: str | None = chosen["next_state"]
        return following

    def _note(self, target: Any, origin: Any) -> None:
        """Record where in the frame the value of a variable lies, if it comes from lookahead or a field."""
        name = tuple(target["value"])
        if origin["type"] == "lookahead":
            offset, width = origin["value"]
            self.where[name] = (len(self.bits) + offset, width)
        elif origin["type"] == "field" and tuple(origin["value"]) in self.where:
            self.where[name] = self.where[tuple(origin["value"])]
        else:
            self.where.pop(name, None)

    def _choice(self, state: str, count: int) -> int:
        taken = self.frames.taken
        order = sorted(range(count), key=lambda i: (taken[state, i], self.rng.random()))
        number = order[0] if self.rng.random() < 0.6 else self.rng.randrange(count)
        taken[state, number] += 1
        return number

    def _extract(self, parameter: Any) -> None:
        name = parameter["value"]
        if parameter["type"] == "stack":
            index = self.next.get(name, 0)
            self.next[name] = index + 1
            ids = self.frames.stacks[name]["header_ids"]
            last, name = name, self.frames.names[ids[min(index, len(ids) - 1)]]
        elif parameter["type"] != "regular":
            self._add(8)
            return
        else:
            last = name
        for field, width, *_ in self.frames.headers[name]["fields"]:
            size = 8 * self.rng.randrange(4) if width == "*" else width
            begin = len(self.bits)
            self._add(size, (name, field))
            self.where[name, field] = self.where[last, field] = (begin, size)

    def _add(self, width: int, field: tuple[str, str] | None = None) -> None:
        begin = len(self.bits)
        value = self.frames.values.draw(self.rng, width, field) if width else 0
        alike = [at for at in self.where.values() if at[1] == width and sum(at) <= begin]
        if alike and self.rng.random() < 0.15:  # two fields with the same value
            at, _ = self.rng.choice(alike)
            value = int("0" + "".join(map(str, self.bits[at : at + width])), 2)
        self.bits += [(value >> (width - 1 - i)) & 1 for i in range(width)]
        for at in range(begin, begin + width):
            if at in self.wanted:
                self.bits[at] = self.wanted.pop(at)

    def _aim(self, keys: Any, value: int, mask: str | None) -> None:
        """Set the bits that a transition's keys read."""
        places: list[tuple[int, int] | None] = []
        widths = []
        for key in keys:
            if key["type"] == "lookahead":
                offset, width = key["value"]
                places.append((len(self.bits) + offset, width))
            else:
                place = self.where.get((key["value"][0], key["value"][-1]))
                places.append(place)
                width = place[1] if place is not None else 8
            widths.append(8 * -(-width // 8))
        ones = int(mask, 16) if mask else (1 << sum(widths)) - 1
        for place, width in zip(reversed(places), reversed(widths), strict=True):
            part, of = value & ((1 << width) - 1), ones & ((1 << width) - 1)
            value, ones = value >> width, ones >> width
            if place is None:
                continue
            begin, size = place
            for i in range(size):
                if (of >> (size - 1 - i)) & 1:
                    bit = (part >> (size - 1 - i)) & 1
                    if begin + i < len(self.bits):
                        self.bits[begin + i] = bit
                    else:
                        self.wanted[begin + i] = bit
