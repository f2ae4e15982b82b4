"""Keys of tables and selects: their names, and the values that entries give them."""

from typing import TYPE_CHECKING, Any

from p4reduce.frontend.diagnostics import SourceFault, Unexpected
from p4reduce.frontend.lower.values import Json, hexadecimal
from p4reduce.frontend.syntax.declarations import KeyElement
from p4reduce.frontend.syntax.tree import Binary, Call, Default, Expression, Index, Member, Name, Number, Slice
from p4reduce.frontend.types.kinds import BOOL, CompositeType, plain

if TYPE_CHECKING:
    from p4reduce.frontend.lower.base import LoweringBase


def key_name(key: KeyElement) -> str:
    """What the control plane calls a key: its @name, else the expression as it is written."""
    for note in key.annotations:
        if note.name == "name" and note.string is not None:
            return note.string
    found = spelled(key.expression)
    if found is None:
        raise SourceFault(
            key.at, "this key needs a name for the control plane", 'Write @name("…") behind its match kind.'
        )
    return found


def spelled(node: Expression) -> str | None:
    """A key's name as it follows from its expression; None if none does."""
    match node:
        case Name():
            return node.name
        case Member():
            base = node.base
            kind = plain(base.type) if base.type is not None else None
            name = node.name
            if isinstance(kind, CompositeType):
                for declared in kind.declaration.fields:
                    note = declared.annotation("name") if declared.name == name else None
                    if note is not None and note.string:
                        name = note.string
            if name.startswith("."):
                return name[1:]
            inner = spelled(base)
            return None if inner is None else f"{inner}.{name}"
        case Index():
            base_name, index = spelled(node.base), spelled(node.index)
            return None if base_name is None or index is None else f"{base_name}[{index}]"
        case Slice():
            parts = (spelled(node.base), spelled(node.high), spelled(node.low))
            return None if None in parts else f"{parts[0]}[{parts[1]}:{parts[2]}]"
        case Number():
            letter = {16: "x", 2: "b", 8: "o"}.get(node.base)
            return f"0{letter}{node.number:{letter}}" if letter else str(node.number)
        case Binary(operator="&"):
            left, right = spelled(node.left), spelled(node.right)
            return None if left is None or right is None else f"{left} & {right}"
        case Call() if node.target == "isValid" and isinstance(node.callee, Member):
            inner = spelled(node.callee.base)
            return None if inner is None else f"{inner}.$valid$"
    return None


def element_of_entry(lowering: "LoweringBase", value: Expression, key: Json) -> Json:
    """One key of an entry, as BMv2's JSON has it."""
    width, match = key["$width"], key["match_type"]
    ones = (1 << width) - 1
    number: int | None = None
    mask = ones
    low = high = 0
    if isinstance(value, Default):
        number, mask, low, high = 0, 0, 0, ones
    elif isinstance(value, Binary) and value.operator == "&&&":
        number = _number(lowering, value.left, width)
        mask = _number(lowering, value.right, width)
        number &= mask
    elif isinstance(value, Binary) and value.operator == "..":
        low, high = _number(lowering, value.left, width), _number(lowering, value.right, width)
    else:
        number = low = high = _number(lowering, value, width)
    if match == "range":
        return {"match_type": match, "start": hexadecimal(low, width), "end": hexadecimal(high, width)}
    if number is None:
        raise Unexpected
    text = hexadecimal(number, width)
    if match == "exact":
        return {"match_type": match, "key": text}
    if match == "lpm":
        return {"match_type": match, "key": text, "prefix_length": mask.bit_count()}
    return {"match_type": match, "key": text, "mask": hexadecimal(mask, width)}


def _number(lowering: "LoweringBase", node: Expression, width: int) -> int:
    found: Any = lowering.evaluate(node)
    if found is None:
        raise SourceFault(node.at, "this key must be known when the program is compiled")
    if isinstance(found, bool) or node.type is BOOL:
        return int(found)
    if not isinstance(found, int):
        if node.type is None:
            raise Unexpected
        found = lowering.member_number(found, plain(node.type))
    return int(found) & ((1 << width) - 1)


def ranges_as_masks(low: int, high: int, width: int) -> list[tuple[int, int]]:
    """A range as values with masks, the fewest that there are."""
    found = []
    while low <= high:
        size = (low & -low) or (1 << width)
        while size > high - low + 1:
            size >>= 1
        found.append((low, ((1 << width) - 1) & ~(size - 1)))
        low += size
    return found
