"""Explicit casts (P4_16 specification, section 8.11)."""

from p4reduce.frontend.types.kinds import BOOL, INTEGER, Bits, EnumType, NewType, Type, plain


def why_no_cast(source: Type, target: Type) -> str | None:
    """How else to cast, or None if it may be done so."""
    if source is target:
        return None
    if isinstance(source, NewType) or isinstance(target, NewType):
        inner = source.base if isinstance(source, NewType) else source
        outer = target.base if isinstance(target, NewType) else target
        if inner is outer or inner is INTEGER or (isinstance(plain(inner), Bits) and plain(inner) is plain(outer)):
            return None
        return f"Cast to {outer} first." if isinstance(target, NewType) else f"Cast to {inner} first."
    if isinstance(source, EnumType):
        source = source.base or source
    if isinstance(target, EnumType):
        target = target.base or target
    if source is target:
        return None
    if isinstance(source, Bits) and isinstance(target, Bits):
        if source.signed == target.signed or source.width == target.width:
            return None
        return f"Change sign and width one after the other: ({target})(bit<{target.width}>) …"
    if source is INTEGER and (isinstance(target, Bits) or target is INTEGER):
        return None
    if source is BOOL and isinstance(target, Bits):
        return None if target.width == 1 and not target.signed else "Cast to bit<1> first."
    if target is BOOL and (source is INTEGER or isinstance(source, Bits)):
        one = source is INTEGER or (isinstance(source, Bits) and source.width == 1 and not source.signed)
        return None if one else "Compare it instead: x != 0."
    if isinstance(source, Bits) and target is INTEGER:
        return "Only numbers known at compile time are of the type int; keep a width."
    return ""
