"""Records and functions by address, for compiled code.

A record that is reached this way is a bare pointer: it costs no reference counting, can be passed to any function,
and its array can be replaced by a larger one between two runs of the loop. Nothing is bounds-checked.
"""

from typing import Any

import numpy as np

from p4reduce.fabric import records
from p4reduce.native.late import LateModule
from p4reduce.native.memory import intrinsic, ir, types

_numba: Any = LateModule("numba")


def record_at(dtype: "np.dtype[Any]") -> Any:
    """A compiled function (base address, index) that gives the record of that type there."""

    @intrinsic
    def at(typingctx: Any, base: Any, index: Any) -> Any:
        record = _numba.from_dtype(dtype)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            offset = builder.mul(args[1], ir.Constant(ir.IntType(64), dtype.itemsize))
            return builder.inttoptr(builder.add(args[0], offset), context.get_value_type(record))

        return record(types.int64, types.int64), generate

    return at


event_at = record_at(records.EVENT)
frame_at = record_at(records.FRAME)
phv_at = record_at(records.PHV)
copy_at = record_at(records.COPY)
queue_at = record_at(records.QUEUE)
link_at = record_at(records.LINK)
node_at = record_at(records.NODE)
endpoint_at = record_at(records.ENDPOINT)
mirror_at = record_at(records.MIRROR)
turn_at = record_at(records.TURN)
reconfiguration_at = record_at(records.RECONFIGURATION)
gate_list_at = record_at(records.GATE_LIST)
gate_at = record_at(records.GATES)
rota_at = record_at(records.ROTA)
incident_at = record_at(records.INCIDENT)
tap_header_at = record_at(records.TAP_HEADER)
cell_at = record_at(records.CELL)
pair_at = record_at(records.PAIR)
session_at = record_at(records.SESSION)
io_at = record_at(records.IO)


@intrinsic
def byte_at(typingctx: Any, base: Any, index: Any) -> Any:
    """The index-th byte, as int64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(builder.add(args[0], args[1]), ir.IntType(8).as_pointer())
        return builder.zext(builder.load(pointer), ir.IntType(64))

    return types.int64(types.int64, types.int64), generate


def _call(builder: Any, args: Any) -> Any:
    address, *values = args
    function = ir.FunctionType(ir.IntType(64), [ir.IntType(64)] * len(values))
    return builder.call(builder.inttoptr(address, function.as_pointer()), values)


@intrinsic
def call4(typingctx: Any, address: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Calls the C function at ``address``; integers and pointers travel alike in the C conventions of 64 bit."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _call(builder, args)

    return types.int64(*[types.int64] * 5), generate


@intrinsic
def call5(typingctx: Any, address: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
    """The same, with five arguments."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _call(builder, args)

    return types.int64(*[types.int64] * 6), generate


@intrinsic
def prefetch(typingctx: Any, address: Any) -> Any:
    """Asks for the cache line at an address, which is going to be read soon."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        i32 = ir.IntType(32)
        function = builder.module.declare_intrinsic(
            "llvm.prefetch", (pointer,), ir.FunctionType(ir.VoidType(), [pointer, i32, i32, i32])
        )
        to_read, high_locality, data = 0, 3, 1
        builder.call(
            function,
            [builder.inttoptr(args[0], pointer), i32(to_read), i32(high_locality), i32(data)],
        )
        return context.get_dummy_value()

    return types.void(types.int64), generate
