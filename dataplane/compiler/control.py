"""Pipelines in machine code: a block for each node that can be reached."""

from p4reduce.dataplane.compiler.context import FunctionContext
from p4reduce.dataplane.compiler.data import DataLowering
from p4reduce.dataplane.compiler.llvm_types import I1, Value
from p4reduce.dataplane.compiler.tables import TableLowering
from p4reduce.dataplane.model.actions import Exit
from p4reduce.dataplane.model.control import Conditional, MatchTable, Pipeline


class PipelineLowering:
    """Emits a pipeline where the builder stands; it ends behind it."""

    def __init__(self, context: FunctionContext, pipeline: Pipeline) -> None:
        self._context = context
        self._builder = context.builder
        self._pipeline = pipeline
        self._blocks: dict[str, Value] = {}
        self._end: Value = None

    def lower(self) -> None:
        """All nodes that can be reached."""
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
        if isinstance(node, Conditional):
            data = DataLowering(self._context, f"condition {node.name!r}")
            condition = data.condition(node.condition)
            self._builder.cbranch(condition, self._block(node.next_true), self._block(node.next_false))
        else:
            self._table(node)

    def _table(self, table: MatchTable) -> None:
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

    def _may_exit(self, table: MatchTable, action: int) -> bool:
        primitives = self._context.program.actions[table.actions[action]].primitives
        return any(isinstance(p, Exit) for p in primitives)
