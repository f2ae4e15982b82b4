"""Primitives that consist of others, and shifts of header stacks."""

from collections.abc import Callable

from llvmlite import ir

from p4reduce.dataplane.compiler.context import FunctionContext
from p4reduce.dataplane.compiler.data import DataLowering
from p4reduce.dataplane.compiler.llvm_types import I1, I64, integer_to_lanes, number, resize
from p4reduce.dataplane.compiler.storage import is_lanes
from p4reduce.dataplane.model.actions import MoveHeaders, OneOf, Primitive, Random
from p4reduce.dataplane.state import random_numbers


def lower_one_of(context: FunctionContext, data: DataLowering, one_of: OneOf, run: Callable[[Primitive], None]) -> None:
    """The first case whose condition holds; what was known of fields is forgotten."""
    b, done = context.builder, context.block("chosen")
    for condition, primitive in one_of.cases:
        data.forget()
        chosen, following = context.block("choose"), context.block("choose_next")
        b.cbranch(data.condition(condition), chosen, following)
        b.position_at_end(chosen)
        run(primitive)
        b.branch(done)
        b.position_at_end(following)
    b.branch(done)
    b.position_at_end(done)
    data.forget()


def lower_random(context: FunctionContext, data: DataLowering, primitive: Random) -> None:
    """state.random_numbers, on the state in the device's cells."""
    b, target = context.builder, primitive.target
    low, high = data.number(primitive.low, 64), data.number(primitive.high, 64)
    with b.if_then(b.icmp_unsigned("<=", low, high)):
        cell = context.cell_address(context.layout.random_state)
        z = b.add(b.load(cell, align=8, typ=I64), number(64, random_numbers.STEP))
        b.store(z, cell, align=8)
        for shift, factor in random_numbers.MIX:
            z = b.mul(b.xor(z, b.lshr(z, number(64, shift))), number(64, factor))
        z = b.xor(z, b.lshr(z, number(64, random_numbers.LAST_SHIFT)))
        count = b.add(b.sub(high, low), number(64, 1))  # 0 where all 64-bit numbers are asked for
        every = b.icmp_unsigned("==", count, number(64, 0))
        remainder = b.urem(z, b.select(every, number(64, 1), count))
        value = resize(b, b.add(low, b.select(every, z, remainder)), target.width)
        data.store(target, integer_to_lanes(b, value, target.width) if is_lanes(target) else value)
    data.forget(target)


def move_headers(context: FunctionContext, data: DataLowering, move: MoveHeaders) -> None:
    """Takes all values before it stores the first one."""
    storage = context.storage
    values, valid = [], []
    for target, origin in zip(move.targets, move.origins, strict=True):
        pairs = zip(storage.fields_of(target), storage.fields_of(origin), strict=True)
        values += [(to, storage.load(of)) for to, of in pairs if to != of]
        gone = ir.Constant(I1, 0) if target in move.cleared else storage.valid(origin)
        valid.append((target, gone))
    for field, value in values:
        storage.store(field, value)
        data.forget(field)
    for header, value in valid:
        storage.set_valid(header, value)
