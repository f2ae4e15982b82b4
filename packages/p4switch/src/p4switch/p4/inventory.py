"""The objects of a program that the control plane sees, in the order in which p4c lists them."""

from dataclasses import dataclass
from typing import Any, Final

from p4switch.p4.lower.programs import Emitter, full_name
from p4switch.p4.lower.statements import global_name
from p4switch.p4.lower.storage import LoweredInstance, ProgramInstance, TableInstance, ValueSetInstance
from p4switch.p4.syntax import tree

_CONTROLS: Final = ("verify", "ingress", "egress", "compute", "deparser")
_SEEN: Final = ("counter", "direct_counter", "meter", "direct_meter", "register")
_PROFILES: Final = ("action_profile", "action_selector")


@dataclass(frozen=True)
class UsedAction:
    """An action that a table or an apply block uses; ``parameters``: those whose values entries supply."""

    name: str
    declaration: tree.Action
    parameters: list[tree.Parameter]


@dataclass(frozen=True, eq=False)
class Clash:
    """Two objects with the same control-plane name: ``declaration``, and the earlier one ``before``."""

    kind: str
    name: str
    declaration: tree.Declaration
    before: tree.Declaration


class Inventory:
    """Collects the objects of a program from its instances, in the order of their declarations.

    Attributes:
        clashes: violations of the specification, section 18.3: a name refers to one controllable entity.
    """

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter
        self.tables: list[TableInstance] = []
        self.actions: list[UsedAction] = []
        self.externs: list[LoweredInstance] = []
        self.value_sets: list[ValueSetInstance] = []
        self.profiles: list[tuple[LoweredInstance, list[TableInstance]]] = []
        self._names: dict[tuple[int, Any], str] = {}
        self._seen_actions: set[str] = set()
        self.clashes: list[Clash] = []
        self._owners: dict[tuple[str, str], tuple[tree.Declaration, object]] = {}
        for declaration, bound in emitter.ctx.program_environment.bound.items():
            if isinstance(declaration, tree.Instance) and type(bound) is LoweredInstance:
                self._extern(bound)
        self._walk(emitter.blocks["parser"])
        for block in _CONTROLS:
            instance = emitter.blocks[block]
            self._global_actions(instance, block)
            self._walk(instance)
        for table in self.tables:
            self._profile(table)

    def _global_actions(self, instance: ProgramInstance, block: str) -> None:
        """Adds the top-level actions that a control uses; they come before the control's own actions."""
        for table in self._tables_of(instance):
            for name, ref in self.refs_of(table):
                if table.environment.find(ref.target) is None:
                    self._action(name, ref.target, False)
        for name, (use, declaration, where) in self.emitter.ctx.action_uses.items():
            action = self.emitter.checker.env.globals.find(declaration.name)
            if use == "called" and where == block and action is declaration:
                self._action(name, declaration, True)

    def _tables_of(self, instance: ProgramInstance) -> list[TableInstance]:
        tables: list[TableInstance] = []
        environment = instance.environment
        for local in instance.program.locals if environment is not None else []:
            bound = environment.bound.get(local) if environment is not None else None
            if isinstance(bound, TableInstance) and bound.json is not None:
                tables.append(bound)
            elif isinstance(bound, ProgramInstance):
                tables += self._tables_of(bound)
        for inner in instance.directly.values():
            tables += self._tables_of(inner)
        return tables

    def _walk(self, instance: ProgramInstance) -> None:
        environment = instance.environment
        if environment is None:
            return
        for local in instance.program.locals:
            bound = environment.bound.get(local)
            match local:
                case tree.Action():
                    name = full_name(local, instance)
                    use = self.emitter.ctx.action_uses.get(name)
                    if use is not None:
                        self._action(name, local, use[0] == "called", instance.name)
                case tree.Table() if isinstance(bound, TableInstance) and bound.json is not None:
                    if local.annotation("hidden") is None:
                        self._claim("table", bound.name, local, bound)
                        self.tables.append(bound)
                case tree.ValueSet() if isinstance(bound, ValueSetInstance):
                    self._claim("value set", bound.name, local, bound)
                    self.value_sets.append(bound)
                case _ if isinstance(bound, ProgramInstance):
                    self._walk(bound)
                case _ if isinstance(bound, LoweredInstance):
                    self._extern(bound)
        for inner in instance.directly.values():
            self._walk(inner)

    def _extern(self, instance: LoweredInstance) -> None:
        if instance.declaration.annotation("hidden") is not None:
            return
        if instance.type.name in _PROFILES and all(known is not instance for known, _ in self.profiles):
            self.profiles.append((instance, []))
        if instance.type.name not in _SEEN:
            return
        if instance.type.name.startswith("direct_") and "binding" not in instance.extra:
            return
        self._claim(instance.type.name, instance.name, instance.declaration, instance)
        self.externs.append(instance)

    def _claim(self, kind: str, name: str, declaration: tree.Declaration, owner: object) -> None:
        """Records a name; records a clash if another declaration or owner has the name already."""
        before, other = self._owners.setdefault((kind, name), (declaration, owner))
        if before is not declaration or other != owner:
            self.clashes.append(Clash(kind, name, declaration, before))

    def _action(self, name: str, declaration: tree.Action, called: bool, owner: str = "") -> None:
        if declaration.annotation("hidden") is not None:
            return
        self._claim("action", name, declaration, owner)
        if name in self._seen_actions:
            return
        self._seen_actions.add(name)
        free = [] if called else [p for p in declaration.parameters if not p.direction]
        self.actions.append(UsedAction(name, declaration, free))

    def refs_of(self, table: TableInstance) -> list[tuple[str, tree.ActionRef]]:
        """Returns the names of a table's actions, in the order of its list; adds NoAction if there is no default."""
        refs = list(table.declaration.actions)
        if table.declaration.default is None and "NoAction" not in {ref.name for ref in refs}:
            no_action = self.emitter.ctx.no_action
            if no_action is not None:
                ref = tree.ActionRef(0, 0, "NoAction", True, [], [tree.Annotation(0, 0, "defaultonly", [], "")])
                ref.target = no_action
                refs.append(ref)
        return [(self.name_of(table, ref), ref) for ref in refs if ref.target.annotation("hidden") is None]

    def name_of(self, table: TableInstance, ref: tree.ActionRef) -> str:
        """Returns the full name of an action of a table."""
        bound = table.environment.find(ref.target)
        return bound.name if bound is not None else global_name(ref.target)

    def direct_of(self, table: TableInstance) -> list[LoweredInstance]:
        """Returns the direct counters and meters of a table."""
        known = [i for i in self.emitter.ctx.direct if i.extra.get("binding") == table.name]
        return sorted(known, key=lambda i: i.type.name)

    def _profile(self, table: TableInstance) -> None:
        implementation = table.declaration.properties.get("implementation")
        if implementation is None or table.json is None or "action_profile" not in table.json:
            return
        instance = self.emitter.ctx.profile_objects[table.json["action_profile"]]
        for known, tables in self.profiles:
            if known is instance:
                tables.append(table)
                return
        self.profiles.append((instance, [table]))
