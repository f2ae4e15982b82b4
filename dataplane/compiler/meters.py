"""Meters in machine code; dataplane.tables.meter says what a cell holds and how a color comes about."""

from typing import Literal

from llvmlite import ir

from p4reduce.dataplane.compiler.context import FunctionContext
from p4reduce.dataplane.compiler.llvm_types import I64, Value, byte_offset, number
from p4reduce.dataplane.tables.meter import (
    BURST,
    COMMITTED,
    GREEN,
    LAST,
    METER_WORDS,
    MOST_TOKENS,
    PEAK,
    RATE,
    RED,
    TOKENS,
    YELLOW,
)

_DOUBLE = ir.DoubleType()
_WORD = 8


def meter_cell(context: FunctionContext, cells: Value, index: Value) -> Value:
    """The address of a meter; ``index`` is an i64."""
    b = context.builder
    return byte_offset(b, cells, b.mul(index, number(64, _WORD * METER_WORDS)))


def execute_meter(context: FunctionContext, cell: Value, unit: Literal["packets", "bytes"]) -> Value:
    """The color of the packet, i64; takes its tokens."""
    b = context.builder
    before, metered, done = b.block, context.block("metered"), context.block("colored")
    need = number(64, 1) if unit == "packets" else context.ingress_length
    configured = b.load(cell, align=8, typ=I64)
    b.cbranch(b.icmp_unsigned("!=", configured, number(64, 0)), metered, done)
    b.position_at_end(metered)
    outcomes = [(number(64, GREEN), before)]
    for bucket, color in ((PEAK, RED), (COMMITTED, YELLOW)):
        enough = _take(context, byte_offset(b, cell, _WORD * bucket), need)
        outcomes.append((number(64, color), b.block))
        following = context.block("bucket_enough")
        b.cbranch(enough, following, done)
        b.position_at_end(following)
    outcomes.append((number(64, GREEN), b.block))
    b.branch(done)
    b.position_at_end(done)
    result = b.phi(I64)
    for value, block in outcomes:
        result.add_incoming(value, block)
    return result


def _take(context: FunctionContext, bucket: Value, need: Value) -> Value:
    """Fills a bucket and takes tokens if there are enough; whether there were."""
    b = context.builder

    def load(word: int) -> Value:
        return b.load(byte_offset(b, bucket, _WORD * word), align=8, typ=I64)

    rate = b.load(byte_offset(b, bucket, _WORD * RATE), align=8, typ=_DOUBLE)
    flow = b.fmul(b.sitofp(context.now, _DOUBLE), rate)
    most = ir.Constant(_DOUBLE, MOST_TOKENS)
    given = b.fptoui(b.select(b.fcmp_ordered("<", flow, most), flow, most), I64)
    last = load(LAST)
    fresh = b.select(b.icmp_unsigned(">", given, last), b.sub(given, last), number(64, 0))
    b.store(b.add(last, fresh), byte_offset(b, bucket, _WORD * LAST), align=8)
    filled, burst = b.add(load(TOKENS), fresh), load(BURST)
    tokens = b.select(b.icmp_unsigned("<", filled, burst), filled, burst)
    enough = b.icmp_unsigned(">=", tokens, need)
    left = b.select(enough, b.sub(tokens, need), tokens)
    b.store(left, byte_offset(b, bucket, _WORD * TOKENS), align=8)
    return enough
