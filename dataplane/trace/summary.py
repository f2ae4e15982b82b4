"""A frame on one line: an INC packet by the fields of the wire format, others by their headers."""

from typing import Final

from p4reduce.dataplane.trace.glossary import Glossary
from p4reduce.dataplane.trace.record import Headers
from p4reduce.dataplane.trace.values import show

INC_HEADER: Final = "inc"
_INC_FIELDS: Final = ("job", "epoch", "seq", "count", "iteration", "exponent")
_INC_FLAGS: Final = ("resend", "saturated", "ecn_echo", "has_lanes")
_LANES_SHOWN: Final = 4


def summary(headers: Headers, glossary: Glossary) -> str:
    """``PUSH job=1 epoch=0 seq=7 ... 10.0.0.1 -> 10.128.0.1``, or the names of the headers."""
    inc = headers.get(INC_HEADER)
    if inc is None or not {"type", *_INC_FIELDS, *_INC_FLAGS} <= inc.keys():
        names = [name for name, _ in headers.fields] or ["no header"]
        return f"{', '.join(names)}, {headers.payload} bytes of payload" + _addresses(headers)
    kind = glossary.name("type", inc["type"]) or f"type={inc['type']}"
    parts = [kind, *(f"{name}={inc[name]}" for name in _INC_FIELDS), *(name for name in _INC_FLAGS if inc[name])]
    return " ".join(parts) + _lanes(headers) + _addresses(headers)


def _addresses(headers: Headers) -> str:
    ipv4 = headers.get("ipv4")
    if ipv4 is None or not {"src", "dst"} <= ipv4.keys():
        return ""
    return f"  {show(ipv4['src'], 'src', 32)} -> {show(ipv4['dst'], 'dst', 32)}"


def _lanes(headers: Headers) -> str:
    values = next((values for name, values in headers.fields if name == "lanes"), ())
    words = [value for _, value in values]
    if not words:
        return ""
    bits = 2048
    lanes = [word >> (bits - 32 * (i + 1)) & 0xFFFFFFFF for word in words for i in range(bits // 32)]
    first = [str(lane - (1 << 32) if lane >> 31 else lane) for lane in lanes[:_LANES_SHOWN]]
    return f" [{', '.join(first)}, ... {len(lanes)} lanes]"
