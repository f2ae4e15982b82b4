"""Machine code of table lookups; p4switch.tables describes the images that they read."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from llvmlite import ir

from p4switch.compiler.actions import ActionLowering, count_packet, execute_meter, meter_cell
from p4switch.compiler.data import DataLowering
from p4switch.compiler.hashing import HashLowering
from p4switch.compiler.lanes import FunctionContext
from p4switch.compiler.storage import I1, I64, POINTER, Value, byte_offset, integer, number, resize
from p4switch.program import program as model
from p4switch.tables.matching import HASH_MULTIPLIER, HASH_SEED, KeyLayout, argument_places
from p4switch.tables.matching import row_words as ternary_row_words
from p4switch.tables.matching import store_row_words as entry_row_words
from p4switch.tables.profile import GROUP, INDIRECT_ROW_WORDS, MEMBER
from p4switch.tables.table import METERS_CELL

WORD = 8
"""Bytes per word of a table image."""


class TableLowering:
    """Applies one table: lookup, direct counter and meter, action; ``leave(hit, action)`` then ends the block.

    ``action`` is the index among the table's actions, None if none ran; ``hit`` is an i1.
    """

    def __init__(self, context: FunctionContext, table: model.MatchTable) -> None:
        self._context = context
        self._builder = context.builder
        self._table = table
        self._cell = context.layout.tables[table.name]
        self._actions = tuple(context.program.actions[ident] for ident in table.actions)
        self._layout = KeyLayout.of(table)

    def lower(self, leave: Callable[[Value, int | None], None]) -> None:
        """Emits the table at the builder's position; every path ends in ``leave``."""
        table = self._table
        if not table.keys and table.const_default:
            self._run_constant_default(leave)
            return
        ref = self._lookup() if table.keys else number(64, 0)
        b, context = self._builder, self._context
        hit = b.icmp_unsigned("!=", ref, number(64, 0))
        if table.direct_counter is not None or table.idle_timeout:
            with b.if_then(hit):
                counters = context.state_pointer(self._cell + 1)
                count_packet(context, byte_offset(b, counters, b.shl(ref, number(64, 4))))
        if table.direct_meter is not None:
            with b.if_then(hit):
                self._execute_meter(ref, context.program.meters[table.direct_meter])
        if table.profile is not None:
            self._dispatch_indirect(ref, hit, leave)
            return
        row_bytes = WORD * entry_row_words(self._actions)
        rows = context.state_pointer(self._cell)
        self._dispatch(byte_offset(b, rows, b.mul(ref, number(64, row_bytes))), hit, leave)

    def _execute_meter(self, ref: Value, meter: model.MeterArray) -> None:
        b, context = self._builder, self._context
        if meter.target is None:
            raise AssertionError(f"direct meter {meter.name!r} without a target")
        cell = meter_cell(context, context.state_pointer(self._cell + METERS_CELL), ref)
        color = execute_meter(context, cell, meter.unit)
        DataLowering(context, f"direct meter {meter.name!r}").store(meter.target, resize(b, color, meter.target.width))

    def _dispatch_indirect(self, ref: Value, hit: Value, leave: Callable[[Value, int | None], None]) -> None:
        """Runs the action of the member that the entry names, or that the group chooses for the packet."""
        b, context, profile = self._builder, self._context, self._context.program.profiles[self._table.profile or ""]
        row = byte_offset(b, context.state_pointer(self._cell), b.mul(ref, number(64, WORD * INDIRECT_ROW_WORDS)))
        named, reference = self._word(row, 0), self._word(row, 1)
        member, nothing = context.block("member"), context.block("no_member")
        switch = b.switch(named, nothing)
        switch.add_case(number(64, MEMBER), member)
        chosen = [(reference, b.block)]
        if profile.selector is not None:
            group = context.block("group")
            switch.add_case(number(64, GROUP), group)
            b.position_at_end(group)
            chosen.append(self._choose(profile, reference, member, nothing))
        b.position_at_end(nothing)
        leave(hit, None)
        b.position_at_end(member)
        member_row = b.phi(I64)
        for value, block in chosen:
            member_row.add_incoming(value, block)
        actions = tuple(context.program.actions[ident] for ident in profile.actions)
        rows = context.state_pointer(context.layout.profiles[profile.name])
        of_member = byte_offset(b, rows, b.mul(member_row, number(64, WORD * entry_row_words(actions))))
        # Tables that share a profile have the same actions, but perhaps in another order.
        numbers = {action.name: number for number, action in enumerate(actions)}
        self._dispatch(of_member, hit, leave, [numbers[action.name] for action in self._actions])

    def _choose(
        self, profile: model.ActionProfile, reference: Value, member: Value, nothing: Value
    ) -> tuple[Value, Value]:
        """Chooses row ``hash % n`` of a group; ends in a branch to ``member``, or to ``nothing`` for an empty group."""
        b, context = self._builder, self._context
        if profile.selector is None:
            raise AssertionError(f"action profile {profile.name!r} has no selector")
        groups = context.state_pointer(context.layout.profiles[profile.name] + 1)
        image = byte_offset(b, groups, b.shl(reference, number(64, 4)))
        rows, count = b.load(image, align=8, typ=POINTER), self._word(image, 1)
        filled = context.block("group_filled")
        b.cbranch(b.icmp_unsigned("!=", count, number(64, 0)), filled, nothing)
        b.position_at_end(filled)
        hashed = HashLowering(context, profile.selector).result()
        place = b.urem(resize(b, hashed, 64), count)
        row = b.load(byte_offset(b, rows, b.shl(place, number(64, 3))), align=8, typ=I64)
        block = b.block
        b.branch(member)
        return row, block

    def _run_constant_default(self, leave: Callable[[Value, int | None], None]) -> None:
        miss, index = ir.Constant(integer(1), 0), self._table.default_action
        if index is not None:
            parameters = {i: partial(_fixed, value) for i, value in enumerate(self._table.default_arguments)}
            self._run(self._actions[index], parameters)
        leave(miss, index)

    def _dispatch(
        self,
        row: Value,
        hit: Value,
        leave: Callable[[Value, int | None], None],
        numbers: Sequence[int] | None = None,
    ) -> None:
        """Emits a switch over the action's number in the row; ``numbers``: the numbers of the table's actions."""
        b, context = self._builder, self._context
        nothing = context.block("no_action")
        switch = b.switch(b.load(row, align=8, typ=I64), nothing)
        for index, action in enumerate(self._actions):
            block = context.block(action.name)
            switch.add_case(number(64, index if numbers is None else numbers[index]), block)
            b.position_at_end(block)
            places = argument_places(action.parameters)
            parameters = {i: partial(self._argument, row, at) for i, (at, _) in enumerate(places)}
            self._run(action, parameters)
            leave(hit, index)
        b.position_at_end(nothing)
        leave(hit, None)

    def _run(self, action: model.Action, parameters: Mapping[int, Callable[[int], Value]]) -> None:
        ActionLowering(self._context, f"action {action.name!r}", parameters).lower(action)

    def _argument(self, row: Value, at: int, width: int) -> Value:
        words = [self._word(row, at + i) for i in range(-(-width // 64))]
        return self._join(words, width)

    # --- lookups: each returns the reference of the entry, 0 for a miss

    def _lookup(self) -> Value:
        if self._table.kind in ("ternary", "range"):
            return self._ternary()
        if any(key.kind == "lpm" for key in self._table.keys):
            return self._lpm()
        return self._hash_lookup(self._key_words(), [])

    def _key_words(self) -> list[Value]:
        """Returns the packed key, masked as the table says, in 64-bit words, least significant first."""
        b, bits = self._builder, self._layout.bits
        packed = number(max(bits, 1), 0)
        for value, offset in zip(self._key_values(), self._layout.offsets, strict=True):
            packed = b.or_(packed, b.shl(resize(b, value, bits), number(bits, offset)))
        return self._split(packed, self._layout.words)

    def _key_values(self) -> list[Value]:
        b = self._builder
        data = DataLowering(self._context, f"table {self._table.name!r}")
        values = []
        for key in self._table.keys:
            value = data.number(key.target, key.width)
            if isinstance(key.target, model.Valid):
                value = resize(b, value, 1)
            values.append(b.and_(value, number(key.width, key.mask)))
        return values

    def _hash_lookup(self, key: list[Value], extra: list[Value]) -> Value:
        """Probes the hash index for ``key`` followed by ``extra`` words."""
        b, context = self._builder, self._context
        words = key + extra
        buckets = context.state_pointer(self._cell + 2)
        mask = context.state_number(self._cell + 3)
        before, probe, compare = b.block, context.block("probe"), context.block("compare")
        differs, done = context.block("differs"), context.block("looked_up")
        start = b.and_(self._hash(words), mask)
        b.branch(probe)
        b.position_at_end(probe)
        at = b.phi(I64)
        bucket = byte_offset(b, buckets, b.mul(at, number(64, WORD * (1 + len(words)))))
        ref = self._word(bucket, 0)
        b.cbranch(b.icmp_unsigned("==", ref, number(64, 0)), done, compare)
        b.position_at_end(compare)
        difference = number(64, 0)
        for i, word in enumerate(words):
            difference = b.or_(difference, b.xor(word, self._word(bucket, 1 + i)))
        b.cbranch(b.icmp_unsigned("==", difference, number(64, 0)), done, differs)
        b.position_at_end(differs)
        at.add_incoming(start, before)
        at.add_incoming(b.and_(b.add(at, number(64, 1)), mask), differs)
        b.branch(probe)
        b.position_at_end(done)
        return ref

    def _hash(self, words: list[Value]) -> Value:
        """Computes tables.matching.hash_words."""
        b = self._builder
        h = number(64, HASH_SEED)
        for word in words:
            h = b.mul(b.xor(h, word), number(64, HASH_MULTIPLIER))
            h = b.xor(h, b.lshr(h, number(64, 32)))
        return h

    def _lpm(self) -> Value:
        """Probes the hash index for each prefix length in use, longest first."""
        b, context = self._builder, self._context
        key = self._key_words()
        lengths, count = context.state_pointer(self._cell + 4), context.state_number(self._cell + 5)

        def look(at: Value) -> tuple[Value, Value]:
            row = byte_offset(b, lengths, b.mul(at, number(64, WORD * (1 + self._layout.words))))
            masked = [b.and_(word, self._word(row, 1 + i)) for i, word in enumerate(key)]
            ref = self._hash_lookup(masked, [self._word(row, 0)])
            return b.icmp_unsigned("!=", ref, number(64, 0)), ref

        return self._first(count, look, "prefix", "ask")

    def _ternary(self) -> Value:
        """Compares the rows in order until one fits."""
        b, context = self._builder, self._context
        values, key = self._key_values(), self._key_words()
        rows, count = context.state_pointer(self._cell + 2), context.state_number(self._cell + 3)

        def look(at: Value) -> tuple[Value, Value]:
            row = byte_offset(b, rows, b.mul(at, number(64, WORD * ternary_row_words(self._table))))
            return self._row_fits(row, key, values), self._word(row, 0)

        return self._first(count, look, "row", "compare")

    def _first(self, count: Value, look: Callable[[Value], tuple[Value, Value]], name: str, step: str) -> Value:
        """Returns the reference at the first index below ``count`` that fits, 0 for none; ``look`` tries an index."""
        b, context = self._builder, self._context
        before, loop, hit = b.block, context.block(name), context.block(f"{name}_found")
        asks, following = context.block(f"{name}_{step}"), context.block(f"{name}_next")
        b.branch(loop)
        b.position_at_end(loop)
        at = b.phi(I64)
        at.add_incoming(number(64, 0), before)
        b.cbranch(b.icmp_unsigned("<", at, count), asks, hit)
        b.position_at_end(asks)
        fits, ref = look(at)
        asked = b.block
        b.cbranch(fits, hit, following)
        b.position_at_end(following)
        at.add_incoming(b.add(at, number(64, 1)), following)
        b.branch(loop)
        b.position_at_end(hit)
        result = b.phi(I64)
        result.add_incoming(number(64, 0), loop)
        result.add_incoming(ref, asked)
        return result

    def _row_fits(self, row: Value, key: list[Value], values: list[Value]) -> Value:
        b, n = self._builder, self._layout.words
        difference = number(64, 0)
        for i, word in enumerate(key):
            masked = b.and_(word, self._word(row, 1 + n + i))
            difference = b.or_(difference, b.xor(masked, self._word(row, 1 + i)))
        fits = b.icmp_unsigned("==", difference, number(64, 0))
        at = 1 + 2 * n
        for field, value in zip(self._table.keys, values, strict=True):
            if field.kind != "range":
                continue
            size = -(-field.width // 64)
            low = self._join([self._word(row, at + i) for i in range(size)], field.width)
            high = self._join([self._word(row, at + size + i) for i in range(size)], field.width)
            inside = b.and_(b.icmp_unsigned(">=", value, low), b.icmp_unsigned("<=", value, high))
            fits = b.and_(fits, inside)
            at += 2 * size
        return fits

    # --- words

    def _word(self, pointer: Value, index: int) -> Value:
        return self._builder.load(byte_offset(self._builder, pointer, WORD * index), align=8, typ=I64)

    def _split(self, value: Value, count: int) -> list[Value]:
        b, width = self._builder, value.type.width
        return [resize(b, b.lshr(value, number(width, 64 * i)), 64) for i in range(count)]

    def _join(self, words: list[Value], width: int) -> Value:
        b = self._builder
        total = 64 * len(words)
        joined = number(total, 0)
        for i, word in enumerate(words):
            joined = b.or_(joined, b.shl(resize(b, word, total), number(total, 64 * i)))
        return resize(b, joined, width)


def _fixed(value: int, width: int) -> Value:
    return number(width, value)


# Pipelines in machine code: one block for each node that can be reached.


class PipelineLowering:
    """Emits a pipeline at the builder's position; leaves the builder after it."""

    def __init__(self, context: FunctionContext, pipeline: model.Pipeline) -> None:
        self._context = context
        self._builder = context.builder
        self._pipeline = pipeline
        self._blocks: dict[str, Value] = {}
        self._end: Value = None

    def lower(self) -> None:
        """Lowers all nodes that can be reached."""
        b = self._builder
        self._end = self._context.block(f"{self._pipeline.name}_done")
        b.branch(self._block(self._pipeline.start))
        done: set[str] = set()
        while remaining := [name for name in self._blocks if name not in done]:
            for name in remaining:
                done.add(name)
                b.position_at_end(self._blocks[name])
                self._node(name)
        b.position_at_end(self._end)

    def _block(self, name: str | None) -> Value:
        if name is None:
            return self._end
        if name not in self._blocks:
            self._blocks[name] = self._context.block(name)
        return self._blocks[name]

    def _node(self, name: str) -> None:
        if name in self._pipeline.watched:
            self._context.step()
        node = self._pipeline.nodes[name]
        if isinstance(node, model.Conditional):
            data = DataLowering(self._context, f"condition {node.name!r}")
            condition = data.condition(node.condition)
            self._builder.cbranch(condition, self._block(node.next_true), self._block(node.next_false))
        else:
            self._table(node)

    def _table(self, table: model.MatchTable) -> None:
        b = self._builder

        def leave(hit: Value, action: int | None) -> None:
            if action is not None and self._may_exit(table, action):
                going_on = self._context.block("no_exit")
                b.cbranch(b.load(self._context.exit_flag, typ=I1), self._end, going_on)
                b.position_at_end(going_on)
            on_hit, on_miss = self._block(table.next_node(True, action)), self._block(table.next_node(False, action))
            if on_hit is on_miss:
                b.branch(on_hit)
            else:
                b.cbranch(hit, on_hit, on_miss)

        TableLowering(self._context, table).lower(leave)

    def _may_exit(self, table: model.MatchTable, action: int) -> bool:
        primitives = self._context.program.actions[table.actions[action]].primitives
        return any(isinstance(p, model.Exit) for p in primitives)
