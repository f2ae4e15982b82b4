"""Header types, instances and field aliases from the JSON."""

from dataclasses import dataclass, field

from p4reduce.dataplane.model.errors import ProgramError, SourceInfo, UnsupportedConstruct
from p4reduce.dataplane.model.expressions import Expr, FieldRef, Valid
from p4reduce.dataplane.model.groups import NEXT_HEADER, HeaderGroups, load_groups, next_header
from p4reduce.dataplane.model.headers import LENGTH_FIELD, LENGTH_WIDTH, Field, Header, HeaderType
from p4reduce.dataplane.model.reading import Json, get, objects, pair, source_of
from p4reduce.dataplane.model.validate_expressions import ExpressionBudget


@dataclass(frozen=True, slots=True)
class Scope:
    """The header instances that expressions and primitives refer to.

    Attributes:
        groups: stacks and unions of them.
        measures: how large the expressions are so far: one that grows at each level is refused before it is hashed.
        shared: one object for all equal expressions, so that executors may cache by identity.
    """

    headers: dict[str, Header]
    groups: HeaderGroups = field(default_factory=HeaderGroups)
    shared: dict[Expr, Expr] = field(default_factory=dict)
    measures: ExpressionBudget = field(default_factory=ExpressionBudget)

    def header(self, name: object, where: str, source: SourceInfo | None = None) -> Header:
        """An instance by name."""
        if not isinstance(name, str) or name not in self.headers:
            at = f" ({source})" if source is not None else ""
            raise ProgramError(f"{where}: unknown header {name!r}{at}")
        return self.headers[name]

    def field(self, value: object, where: str) -> FieldRef | Valid:
        """A field reference ``[header, field]``; ``$valid$`` names the header's validity."""
        header_name, field_name = pair(value, where)
        header = self.header(header_name, where)
        if field_name == "$valid$":
            return Valid(header.name)
        found = header.type.by_name.get(field_name)
        if found is None:
            raise ProgramError(f"{where}: header {header.name!r} has no field {field_name!r}")
        return FieldRef(header.name, found.name, found.width, found.signed)

    def target(self, value: object, where: str) -> FieldRef:
        """A field that may be assigned to."""
        found = self.field(value, where)
        if isinstance(found, Valid):
            raise ProgramError(f"{where}: the validity of {found.header!r} cannot be assigned to")
        return found


def load_scope(root: Json) -> Scope:
    """Instances, stacks and unions by name."""
    names = {obj["id"]: str(obj.get("name")) for obj in objects(root, "headers", "program") if "id" in obj}
    groups = load_groups(root, names)
    headers = load_headers(root, groups)
    if groups.stacks or groups.union_stacks:
        headers[NEXT_HEADER] = next_header(groups)
    return Scope(headers, groups)


def load_headers(root: Json, groups: HeaderGroups) -> dict[str, Header]:
    """Instances by name."""
    siblings = {
        header: tuple(other for other in union.headers if other != header)
        for union in groups.unions.values()
        for header in union.headers
    }
    types = {t.name: t for t in (_header_type(obj) for obj in objects(root, "header_types", "program"))}
    headers: dict[str, Header] = {}
    for obj in objects(root, "headers", "program"):
        name = get(obj, "name", str, "headers")
        type_name = get(obj, "header_type", str, f"header {name!r}")
        if type_name not in types:
            raise ProgramError(f"header {name!r}: unknown header type {type_name!r}")
        header = Header(name, types[type_name], bool(obj.get("metadata", False)), siblings.get(name, ()))
        if not header.metadata and header.type.bits % 8 != 0:
            raise ProgramError(f"header {name!r}: {header.type.bits} bits are no whole number of bytes")
        headers[name] = header
    return headers


def load_aliases(root: Json, scope: Scope) -> dict[str, FieldRef]:
    """Field aliases: what the target calls a field -> the field."""
    aliases = {}
    for item in root.get("field_aliases", []):
        name, target = pair(item, "field_aliases")
        aliases[str(name)] = scope.target(target, f"field alias {name!r}")
    return aliases


def _header_type(obj: Json) -> HeaderType:
    name = get(obj, "name", str, "header_types")
    where = f"header type {name!r}"
    fields: list[Field] = []
    offset = 0
    for item in get(obj, "fields", list, where):
        if not isinstance(item, list) or len(item) not in (2, 3):
            raise ProgramError(f"{where}: field {item!r} is not [name, width] or [name, width, signed]")
        field_name, width = item[0], item[1]
        if width == "*":
            fields.append(_varbit(obj, str(field_name), offset, where))
            continue
        if not isinstance(width, int) or width <= 0:
            raise ProgramError(f"{where}: field {field_name!r} has width {width!r}")
        fields.append(Field(str(field_name), width, bool(item[2]) if len(item) == 3 else False, offset))
        offset += width
    if any(f.kind == "varbit" for f in fields):
        fields.append(Field(LENGTH_FIELD, LENGTH_WIDTH, False, offset, "length"))
    return HeaderType(name, tuple(fields))


def _varbit(obj: Json, name: str, offset: int, where: str) -> Field:
    """The field of variable length; its greatest length follows from that of the header."""
    where = f"{where}, field {name!r}"
    if obj.get("length_exp") is not None:
        what = "length expression of a header type (p4c writes 'extract_VL')"
        raise UnsupportedConstruct(what, where, source_of(obj))
    fields = get(obj, "fields", list, where)
    if sum(item[1] == "*" for item in fields) > 1:
        raise UnsupportedConstruct("second variable-length field in a header", where, source_of(obj))
    rest = sum(item[1] for item in fields if isinstance(item[1], int))
    if rest % 8:
        raise UnsupportedConstruct("variable-length field in a header of no whole bytes", where, source_of(obj))
    width = 8 * get(obj, "max_length", int, where) - rest
    if width <= 0:
        raise ProgramError(f"{where}: 'max_length' leaves {width} bits for it")
    return Field(name, width, False, offset, "varbit")
