"""Values between the grader and a student's code: JSON, with arrays in base64. Received values are never executed."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

import numpy as np

LIMIT: Final = 64 << 20
"""most bytes of one message"""
MOST_VALUES: Final = 300_000
"""most values of one message; elements of arrays do not count"""
MOST_KEYS: Final = 4096
"""most keys of one dict: keys can be chosen so that each is compared with all before it"""
LOAD: Final = "load a text"
"""name of a call that replaces the functions by those of a text; no function can have this name"""
TRAIL: Final = "trail of a call"
"""name of a call of the function that the first argument names; its result is what its lines set and return"""
MOST_BITS: Final = 14_000
"""most bits of an integer: Python writes no more than 4300 digits"""
_ARRAY: Final = "__array__"
_REMOTE: Final = "__remote__"
_DTYPES: Final = frozenset("?bBhHiIlLqQefd")


class MessageError(ValueError):
    """A value of a kind that cannot be passed on; the message names its kind."""


class Remote:
    """Stands for an object of the grader: a method call on it in the student's process goes to the grader."""

    def __init__(self, name: str, **attributes: Any) -> None:
        """Makes an object with plain attributes; every other name is a method."""
        self.name = name
        self.attributes = attributes


def pack(value: Any) -> bytes:
    """Returns a value as one line of JSON. Raises MessageError."""
    line = json.dumps(_plain(value)).encode() + b"\n"
    if len(line) > LIMIT:
        raise MessageError(f"{len(line)} bytes; the limit is {LIMIT}")
    _counted(line)
    return line


def unpack(line: bytes) -> Any:
    """Returns the value that was packed. Raises MessageError."""
    _counted(line)  # before each value becomes an object
    try:
        return _value(json.loads(line))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError) as error:
        raise MessageError(f"a message that cannot be read: {error}") from None


def _counted(line: bytes) -> None:
    _check_number(sum(line.count(mark) for mark in b",[{"))


def _check_number(values: int) -> None:
    if values > MOST_VALUES:
        raise MessageError(f"more than {MOST_VALUES} values; give large ones as arrays of NumPy")


def _plain(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise MessageError(f"an integer of {value.bit_length()} bits; give one of {MOST_BITS} at most")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.bool_ | np.integer | np.floating):
        return value.item()
    if isinstance(value, np.ndarray):
        if value.dtype.char not in _DTYPES:
            raise MessageError(f"an array of {value.dtype}; give one of numbers")
        return {_ARRAY: [value.dtype.str, list(value.shape), base64.b64encode(value.tobytes()).decode()]}
    if isinstance(value, bytes | bytearray):
        return {"__bytes__": base64.b64encode(value).decode()}
    if isinstance(value, Remote):
        return {_REMOTE: [value.name, _plain(value.attributes)]}
    if isinstance(value, dict):
        if len(value) > MOST_KEYS:
            raise MessageError(f"a dict of more than {MOST_KEYS} keys")
        return {"__items__": [[_plain_key(k), _plain(v)] for k, v in value.items()]}
    if isinstance(value, tuple | list | set | frozenset):
        _check_number(len(value))  # before time is spent on them
    if isinstance(value, tuple):
        return {"__tuple__": [_plain(v) for v in value]}
    if isinstance(value, list | set | frozenset):
        return [_plain(v) for v in (value if isinstance(value, list) else sorted(value))]
    raise MessageError(f"a {type(value).__name__}; give numbers, texts, bytes, arrays, tuples, lists or dicts of them")


def _plain_key(key: Any) -> Any:
    """Returns a key of a dict, which is a key at the other end, too: a frozenset would be a list there."""
    for part in key if isinstance(key, tuple) else ():
        _plain_key(part)
    if isinstance(key, frozenset):
        raise MessageError("a dict with a frozenset as key; give numbers, texts, bytes, or tuples of them")
    return _plain(key)


def _value(data: Any) -> Any:
    if isinstance(data, list):
        return [_value(item) for item in data]
    if not isinstance(data, dict):
        return data
    ((kind, held),) = data.items()
    match kind:
        case "__array__":
            dtype, shape, text = held
            if np.dtype(dtype).char not in _DTYPES:
                raise MessageError(f"an array of {dtype}")
            return np.frombuffer(base64.b64decode(text), np.dtype(dtype)).reshape(shape).copy()
        case "__bytes__":
            return base64.b64decode(held)
        case "__remote__":
            name, attributes = held
            return Remote(str(name), **_value(attributes))
        case "__items__":
            if len(held) > MOST_KEYS:
                raise MessageError(f"a dict of more than {MOST_KEYS} keys")
            return {_key(_value(k)): _value(v) for k, v in held}
        case "__tuple__":
            return tuple(_value(item) for item in held)
    raise MessageError(f"a message of kind {kind!r}")


def _key(value: Any) -> Any:
    hash(value)  # raises TypeError
    return value
