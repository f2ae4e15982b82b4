"""Errors of P4Runtime calls and their form on the wire: canonical codes, per-update details, gRPC status."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final, NoReturn, TypeAlias

import grpc
from finsy.proto import p4r, rpc_status
from google.protobuf.any_pb2 import Any as AnyMessage

ServicerContext: TypeAlias = grpc.aio.ServicerContext[Any, Any]

SPACE: Final = "p4reduce"
"""The error space of p4.v1.Error."""

DETAILS_KEY: Final = "grpc-status-details-bin"
MAX_DETAILS_BYTES: Final = 48 * 1024
"""Largest google.rpc.Status, in bytes. It travels as a header, in base64, which finsy limits to 64 KiB (gRPC's default
is 8 KiB): a larger one would reach the client as a bare RESOURCE_EXHAUSTED."""

_LISTED_IN_MESSAGE: Final = 3


class StatusCode(IntEnum):
    """Canonical error codes (google/rpc/code.proto)."""

    OK = 0
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


_GRPC_CODES: Final = {status.value[0]: status for status in grpc.StatusCode}


class P4RuntimeError(Exception):
    """A refused request, or a refused update of a request.

    Attributes:
        code: canonical code.
        message: for people; names the entity and field at fault.
    """

    def __init__(self, code: StatusCode, message: str) -> None:
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message


def batch_status(outcomes: Sequence[P4RuntimeError | None], code: StatusCode, what: str) -> rpc_status.Status:
    """Returns the status of a batch with at least one failure: one p4.v1.Error for each element, in order.

    Args:
        outcomes: for each element its error; None if it succeeded.
        code: the code of the whole call.
        what: the operation ("write"), for the message.

    If the details are too large for gRPC's headers, first the messages are left out, then the details as a whole. The
    status's own message always lists the first failures.
    """
    status = rpc_status.Status(code=int(code), message=_summary(outcomes, what))
    for with_messages in (True, False):
        status.ClearField("details")
        status.details.extend(_detail(outcome, with_messages) for outcome in outcomes)
        if status.ByteSize() <= MAX_DETAILS_BYTES:
            return status
    status.ClearField("details")
    return status


def _detail(outcome: P4RuntimeError | None, with_message: bool) -> AnyMessage:
    error = p4r.Error(canonical_code=int(StatusCode.OK))
    if outcome is not None:
        error = p4r.Error(canonical_code=int(outcome.code), space=SPACE)
        if with_message:
            error.message = outcome.message
    packed = AnyMessage()
    packed.Pack(error)
    return packed


def _summary(outcomes: Sequence[P4RuntimeError | None], what: str) -> str:
    failed = [(i, outcome) for i, outcome in enumerate(outcomes) if outcome is not None]
    listed = "; ".join(f"[{i}] {outcome}" for i, outcome in failed[:_LISTED_IN_MESSAGE])
    more = len(failed) - _LISTED_IN_MESSAGE
    return f"{len(failed)} of {len(outcomes)} failed ({what}): {listed}" + (f"; and {more} more" if more > 0 else "")


class BatchError(Exception):
    """A call fails with a status that holds an outcome for each element of a batch."""

    def __init__(self, status: rpc_status.Status) -> None:
        super().__init__(status.message)
        self.status = status


async def abort(context: ServicerContext, error: P4RuntimeError | BatchError) -> NoReturn:
    """Ends a call with an error, or with a status that carries details."""
    if isinstance(error, P4RuntimeError):
        await context.abort(_GRPC_CODES[int(error.code)], error.message)
    else:
        details = ((DETAILS_KEY, error.status.SerializeToString()),) if error.status.details else ()
        await context.abort(_GRPC_CODES[error.status.code], error.status.message, details)
    raise AssertionError("abort returned")


# Integers on the wire: big-endian bytestrings (P4Runtime specification, section "Bytestrings").


def encode(value: int) -> bytes:
    """Returns the shortest bytestring of an unsigned integer; zero is one zero byte."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def decode(value: bytes, width: int, what: str) -> int:
    """Returns the unsigned integer in a bytestring of any length, checked to fit ``width`` bits.

    Args:
        value: big-endian; any length is accepted as long as the number fits.
        width: bits.
        what: names the field in the error.

    Raises:
        P4RuntimeError: INVALID_ARGUMENT (as BMv2; the specification says OUT_OF_RANGE) if the string is empty or
            the number needs more than ``width`` bits.
    """
    if not value:
        raise P4RuntimeError(StatusCode.INVALID_ARGUMENT, f"{what}: the bytestring is empty; zero is one zero byte")
    number = int.from_bytes(value, "big")
    if number >> width:
        raise P4RuntimeError(StatusCode.INVALID_ARGUMENT, f"{what}: 0x{_short_hex(value)} does not fit {width} bits")
    return number


def encode_signed(value: int) -> bytes:
    """Returns the shortest two's complement bytestring of an integer."""
    bits = (value if value >= 0 else ~value).bit_length() + 1
    return value.to_bytes((bits + 7) // 8, "big", signed=True)


def decode_signed(value: bytes, width: int, what: str) -> int:
    """Returns the signed integer in a two's complement bytestring, checked to fit ``int<width>``.

    Raises:
        P4RuntimeError: INVALID_ARGUMENT, as ``decode``.
    """
    if not value:
        raise P4RuntimeError(StatusCode.INVALID_ARGUMENT, f"{what}: the bytestring is empty; zero is one zero byte")
    number = int.from_bytes(value, "big", signed=True)
    if not -(1 << (width - 1)) <= number < 1 << (width - 1):
        raise P4RuntimeError(StatusCode.INVALID_ARGUMENT, f"{what}: 0x{_short_hex(value)} does not fit int<{width}>")
    return number


def _short_hex(value: bytes) -> str:
    """Returns hexadecimal digits for messages, cut if the bytestring is long."""
    return value.hex() if len(value) <= 32 else f"{value[:32].hex()}... ({len(value)} bytes)"
