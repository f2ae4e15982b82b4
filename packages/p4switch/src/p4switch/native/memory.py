"""Access to memory by address in compiled code: frames and callers' arrays are read and written in place.

An address is an int64; an index counts elements. There are no bounds checks: the caller owns the memory at the
address. Loads and stores need no alignment (the lanes of a frame begin at byte 62).
"""

import platform
import socket
import sys
from collections.abc import Callable
from functools import update_wrapper
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from p4switch.base.values import NS_PER_S
from p4switch.native.compiler import Compiler, Late
from p4switch.native.objects import LateModule

_numba: Any = LateModule("numba")
types: Any = LateModule("numba.core.types")
cgutils: Any = LateModule("numba.core.cgutils")
ir: Any = LateModule("llvmlite.ir")

carray: Any = Late(lambda: _numba.carray)
"""``numba.carray``"""
_SWAP = sys.byteorder == "little"


def intrinsic(function: Callable[..., Any]) -> Any:
    """Apply ``numba.extending.intrinsic`` to a function when it is first used."""
    return Late(lambda: LateModule("numba.extending").intrinsic(function))


def external(name: str, result: str, *arguments: str) -> Any:
    """Return a function of the C library; types are named as in ``numba.types``."""
    return Late(
        lambda: types.ExternalFunction(
            name, getattr(types, result)(*(getattr(types, argument) for argument in arguments))
        )
    )


def address_of(array: NDArray[Any]) -> int:
    """Return the address of an array's data; the caller must keep the array alive."""
    return int(array.ctypes.data)


def _at(builder: Any, address: Any, index: Any, element: Any) -> Any:
    return builder.gep(builder.inttoptr(address, element.as_pointer()), [index])


def _swapped(builder: Any, word: Any) -> Any:
    return builder.bswap(word) if _SWAP else word


def _instruction(result: str, *arguments: str) -> Callable[[Callable[..., Any]], Any]:
    """Decorates a function that emits LLVM code from a builder and arguments; compiled code calls the result.

    Types are named as in ``numba.types``.
    """

    def decorate(make: Callable[..., Any]) -> Any:
        def typed(typingctx: Any, *given: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                made = make(builder, *args)
                return context.get_dummy_value() if result == "void" else made

            return getattr(types, result)(*(getattr(types, argument) for argument in arguments)), generate

        return intrinsic(update_wrapper(typed, make, ("__name__", "__doc__", "__module__", "__qualname__"), ()))

    return decorate


@_instruction("voidptr", "int64")
def pointer(builder: Any, address: Any) -> Any:
    """Return the address as a void pointer, for ``carray``."""
    return builder.inttoptr(address, cgutils.voidptr_t)


@_instruction("int32", "int64", "int64")
def load_be32(builder: Any, address: Any, index: Any) -> Any:
    """Return the index-th 32-bit word in network order, as int32."""
    return _swapped(builder, builder.load(_at(builder, address, index, ir.IntType(32)), align=1))


@_instruction("int16", "int64", "int64")
def load_be16(builder: Any, address: Any, index: Any) -> Any:
    """Return the index-th 16-bit word in network order, as int16."""
    return _swapped(builder, builder.load(_at(builder, address, index, ir.IntType(16)), align=1))


@_instruction("void", "int64", "int64", "int16")
def store_be16(builder: Any, address: Any, index: Any, value: Any) -> None:
    """Store an int16 as the index-th 16-bit word, in network order."""
    builder.store(_swapped(builder, value), _at(builder, address, index, ir.IntType(16)), align=1)


@_instruction("uint8", "int64", "int64")
def load_u8(builder: Any, address: Any, index: Any) -> Any:
    """Return the index-th byte."""
    return builder.load(_at(builder, address, index, ir.IntType(8)))


@_instruction("void", "int64", "int64", "uint8")
def store_u8(builder: Any, address: Any, index: Any, value: Any) -> None:
    """Store the index-th byte."""
    builder.store(value, _at(builder, address, index, ir.IntType(8)))


@_instruction("int64", "int64")
def load_be64(builder: Any, address: Any) -> Any:
    """Return eight bytes in network order, as int64."""
    return _swapped(builder, builder.load(builder.inttoptr(address, ir.IntType(64).as_pointer()), align=1))


@_instruction("void", "int64", "int64", "int32")
def store_be32(builder: Any, address: Any, index: Any, value: Any) -> None:
    """Store an int32 as the index-th 32-bit word, in network order."""
    builder.store(_swapped(builder, value), _at(builder, address, index, ir.IntType(32)), align=1)


@_instruction("float32", "int64", "int64")
def load_f32(builder: Any, address: Any, index: Any) -> Any:
    """Return the index-th float32, in this machine's byte order."""
    return builder.load(_at(builder, address, index, ir.FloatType()), align=1)


@_instruction("void", "int64", "int64", "float32")
def store_f32(builder: Any, address: Any, index: Any, value: Any) -> None:
    """Store the index-th float32, in this machine's byte order."""
    builder.store(value, _at(builder, address, index, ir.FloatType()), align=1)


@_instruction("float32", "int32")
def as_float(builder: Any, word: Any) -> Any:
    """Return the float32 with the bits of an int32."""
    return builder.bitcast(word, ir.FloatType())


@_instruction("float64", "int64")
def as_double(builder: Any, word: Any) -> Any:
    """Return the float64 with the bits of an int64."""
    return builder.bitcast(word, ir.DoubleType())


@_instruction("int32", "float32")
def as_word(builder: Any, number: Any) -> Any:
    """Return the bits of a float32, as an int32."""
    return builder.bitcast(number, ir.IntType(32))


@_instruction("void", "int64", "int64", "int64")
def copy_bytes(builder: Any, to: Any, source: Any, count: Any) -> None:
    """Copy ``count`` bytes from address ``source`` to address ``to``; the two regions must not overlap."""
    there, here = (builder.inttoptr(address, cgutils.voidptr_t) for address in (to, source))
    cgutils.raw_memcpy(builder, there, here, count, 1)


# Access to numbers that threads share: all threads see writes in the same order (sequentially consistent).


def _cell(builder: Any, args: Any) -> Any:
    return builder.inttoptr(
        builder.add(args[0], builder.mul(args[1], ir.Constant(ir.IntType(64), 8))), ir.IntType(64).as_pointer()
    )


@intrinsic
def atomic_load(typingctx: Any, address: Any, index: Any) -> Any:
    """Return the index-th int64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(_cell(builder, args), "seq_cst", 8)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def atomic_store(typingctx: Any, address: Any, index: Any, value: Any) -> Any:
    """Store the index-th int64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store_atomic(args[2], _cell(builder, args), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def atomic_add(typingctx: Any, address: Any, index: Any, value: Any) -> Any:
    """Add to the index-th int64; return its value before."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _cell(builder, args), args[2], "seq_cst")

    return types.int64(types.int64, types.int64, types.int64), generate


@intrinsic
def relax(typingctx: Any) -> Any:
    """Tell the processor that this thread spins while it waits for another thread."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if platform.machine() in ("x86_64", "AMD64"):
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(builder.module.declare_intrinsic("llvm.x86.sse2.pause", (), kind), [])
        return context.get_dummy_value()

    return types.void(), generate


sched_yield: Any = external("sched_yield", "int32")
"""sched_yield(2)"""
usleep: Any = external("usleep", "int32", "uint32")
"""usleep(3): microseconds."""


# Functions of the C library, and the structures that they take (Linux on 64-bit machines).
#
# Pointers are passed as int64. The functions are linked by name when compiled code is loaded, so code can be cached.


kernel = Compiler(Path(__file__).parent).kernel

recvmmsg: Any = external("recvmmsg", "int32", "int32", "int64", "uint32", "int32", "int64")
"""recvmmsg(2): (fd, messages, count, flags, timeout)."""
sendmmsg: Any = external("sendmmsg", "int32", "int32", "int64", "uint32", "int32")
"""sendmmsg(2): (fd, messages, count, flags)."""
_ppoll: Any = external("ppoll", "int32", "int64", "uint64", "int64", "int64")
_clock_gettime: Any = external("clock_gettime", "int32", "int32", "int64")
_errno_location: Any = external("__errno_location", "int64")

SUPPORTED: Final = sys.platform == "linux" and sys.maxsize > 1 << 32
"""Whether the structures below match this machine."""
MSG_DONTWAIT: Final = int(getattr(socket, "MSG_DONTWAIT", 0))
POLLIN: Final = 1
POLLOUT: Final = 4
_CLOCK_MONOTONIC: Final = 1
_CLOCK_THREAD_CPUTIME_ID: Final = 3


def _struct(*fields: tuple[str, str]) -> "np.dtype[Any]":
    return np.dtype(list(fields), align=True)


IOVEC: Final = _struct(("base", "i8"), ("length", "i8"))
# struct mmsghdr: a struct msghdr, padded to a multiple of 8 bytes, and msg_len.
MESSAGE: Final = _struct(
    ("name", "i8"),
    ("name_length", "u4"),
    ("iov", "i8"),
    ("iov_count", "i8"),
    ("control", "i8"),
    ("control_length", "i8"),
    ("flags", "i4"),
    ("unused", "i4"),
    ("length", "u4"),
)
# struct sockaddr_in; port and address in network order, as they lie in a frame.
NAME: Final = _struct(("family", "u2"), ("port", "u2"), ("address", "u4"), ("zero", "u8"))
POLLFD: Final = _struct(("fd", "i4"), ("events", "i2"), ("revents", "i2"))
TIMESPEC: Final = _struct(("seconds", "i8"), ("nanoseconds", "i8"))


# Several datagrams of one length as one message, for which the kernel runs its stack once (UDP_SEGMENT and UDP_GRO of
# udp(7)). On the wire they are ordinary datagrams; a socket without UDP_GRO receives them one by one.


SOL_UDP: Final = 17
UDP_SEGMENT: Final = 103
UDP_GRO: Final = 104
SEGMENTS: Final = 64
"""maximum number of datagrams of one message"""
GATHERED_BYTES: Final = 1 << 16
"""bytes of buffer for one received message"""
CONTROL: Final = _struct(("length", "i8"), ("level", "i4"), ("kind", "i4"), ("value", "i4"), ("unused", "i4"))
"""struct cmsghdr followed by one number."""
_SEGMENT_LENGTH: Final = 18
"""CMSG_LEN of two bytes"""
_MOST_BYTES: Final = 65_000
_VECTOR_BYTES: Final = IOVEC.itemsize
_CONTROL_BYTES: Final = CONTROL.itemsize


@kernel
def gather(messages: int, vectors: int, controls: int, count: int, most: int) -> Any:
    """Make messages of up to ``most`` vectors of one length each (the last may be shorter); return their number.

    messages, vectors, controls: addresses of ``count`` MESSAGE, IOVEC and CONTROL.
    """
    every = carray(pointer(vectors), (count,), IOVEC)
    made = 0
    first = 0
    while first < count:
        length = every[first].length
        total = length
        taken = 1
        while (
            taken < min(most, count - first)
            and every[first + taken - 1].length == length >= every[first + taken].length
            and total + length <= _MOST_BYTES
        ):
            total += length
            taken += 1
        message = carray(pointer(messages), (count,), MESSAGE)[made]
        message.iov = vectors + first * _VECTOR_BYTES
        message.iov_count = taken
        message.control_length = 0
        if taken > 1:
            control = carray(pointer(controls), (count,), CONTROL)[made]
            control.length = _SEGMENT_LENGTH
            control.level = SOL_UDP
            control.kind = UDP_SEGMENT
            carray(pointer(controls + made * _CONTROL_BYTES + 16), (1,), np.uint16)[0] = length
            message.control = controls + made * _CONTROL_BYTES
            message.control_length = _CONTROL_BYTES
        made += 1
        first += taken
    return made


@kernel
def gathered(messages: int, count: int) -> Any:
    """Return the number of vectors of ``count`` messages."""
    vectors = 0
    for message in carray(pointer(messages), (count,), MESSAGE):
        vectors += message.iov_count
    return vectors


@kernel
def segment_bytes(message: Any) -> Any:
    """Return the bytes of each datagram of a received message; the last datagram may be shorter."""
    if message.control_length >= _CONTROL_BYTES - 4:
        control = carray(pointer(message.control), (1,), CONTROL)[0]
        if control.level == SOL_UDP and control.kind == UDP_GRO:
            return np.int64(control.value)
    return np.int64(message.length)


@kernel
def clock_ns(timespec: int) -> Any:
    """Return CLOCK_MONOTONIC in nanoseconds. timespec: address of a TIMESPEC, which is overwritten."""
    _clock_gettime(_CLOCK_MONOTONIC, timespec)
    now = carray(pointer(timespec), (1,), TIMESPEC)[0]
    return now.seconds * NS_PER_S + now.nanoseconds


@kernel
def thread_ns(timespec: int) -> Any:
    """Return this thread's processor time in nanoseconds. timespec: address of a TIMESPEC, which is overwritten."""
    _clock_gettime(_CLOCK_THREAD_CPUTIME_ID, timespec)
    spent = carray(pointer(timespec), (1,), TIMESPEC)[0]
    return spent.seconds * NS_PER_S + spent.nanoseconds


@kernel
def poll(fds: int, count: int, wait_ns: int, timespec: int) -> Any:
    """Call ppoll(2) with the thread's own signal mask and a time-out of ``wait_ns``; return its result."""
    wait = carray(pointer(timespec), (1,), TIMESPEC)[0]
    wait.seconds = wait_ns // NS_PER_S
    wait.nanoseconds = wait_ns % NS_PER_S
    return _ppoll(fds, count, timespec, 0)


@kernel
def errno() -> Any:
    """Return the error number of the last call."""
    return np.int64(carray(pointer(_errno_location()), (1,), np.int32)[0])
