"""More of the C library for compiled code (`native/libc.py` has the rest), and memory that others write.

Pointers travel as int64. Every function returns what its manual page says.
"""

from typing import Any, Final

from p4reduce.native.memory import external, intrinsic, ir, types

getsockopt: Any = external("getsockopt", "int32", "int32", "int32", "int32", "int64", "int64")
"""(socket, level, option, value *, length *)"""
read: Any = external("read", "int64", "int32", "int64", "int64")
"""(file, buffer, bytes)"""
write: Any = external("write", "int64", "int32", "int64", "int64")
"""(file, buffer, bytes)"""
MSG_TRUNC: Final = 0x20
POLLERR: Final = 8
SOL_SOCKET: Final = 1
SO_ERROR: Final = 4


@intrinsic
def load_shared(typingctx: Any, address: Any) -> Any:
    """The int64 at an address that another thread or the kernel may write; what it wrote before is seen too."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.load_atomic(pointer, ordering="acquire", align=8)

    return types.int64(types.int64), generate


@intrinsic
def load_status(typingctx: Any, address: Any) -> Any:
    """The uint32 at an address that the kernel writes, as int64; what it wrote before is seen too."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], ir.IntType(32).as_pointer())
        return builder.zext(builder.load_atomic(pointer, ordering="acquire", align=4), ir.IntType(64))

    return types.int64(types.int64), generate


@intrinsic
def store_status(typingctx: Any, address: Any, value: Any) -> Any:
    """Stores a uint32 that the kernel reads; it sees what was done before."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], ir.IntType(32).as_pointer())
        builder.store_atomic(builder.trunc(args[1], ir.IntType(32)), pointer, ordering="release", align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate
