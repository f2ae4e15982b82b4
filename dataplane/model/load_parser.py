"""The parser from the JSON."""

from p4reduce.dataplane.model.errors import ProgramError, UnsupportedConstruct
from p4reduce.dataplane.model.expressions import Const, DataExpr, FieldRef, Lookahead, Valid
from p4reduce.dataplane.model.load_actions import Externs, PrimitiveLoader
from p4reduce.dataplane.model.load_compounds import assign_varbit
from p4reduce.dataplane.model.load_expressions import UNSUPPORTED_VALUES, ExpressionLoader
from p4reduce.dataplane.model.load_headers import Scope
from p4reduce.dataplane.model.operands import field_of, last_element
from p4reduce.dataplane.model.parser import (
    Advance,
    ChosenKey,
    Extract,
    ExtractNext,
    Parser,
    ParserOp,
    ParserState,
    Run,
    SelectKey,
    Set,
    Transition,
    Verify,
)
from p4reduce.dataplane.model.reading import Json, get, hexstr, number, objects, optional, pair


def load_parser(root: Json, scope: Scope, externs: Externs) -> Parser:
    """The one parser that simple_switch runs, called ``parser``."""
    parsers = {get(p, "name", str, "parsers"): p for p in objects(root, "parsers", "program")}
    if "parser" not in parsers:
        raise ProgramError(f"parsers: no parser is called 'parser' (found: {sorted(parsers)})")
    obj = parsers["parser"]
    states = {
        get(state, "name", str, "parse_states"): _state(state, scope, externs)
        for state in objects(obj, "parse_states", "parser")
    }
    start = optional(obj, "init_state", str, "parser")
    parser = Parser(start, states)
    _check_targets(parser)
    return Parser(start, states, _idle_loops(parser, scope))


def _state(obj: Json, scope: Scope, externs: Externs) -> ParserState:
    name = get(obj, "name", str, "parse_states")
    where = f"parser state {name!r}"
    operations = tuple(_operation(op, scope, externs, where) for op in objects(obj, "parser_ops", where))
    keys = tuple(_key(key, scope, where) for key in objects(obj, "transition_key", where))
    transitions = tuple(_transition(t, keys, externs, where) for t in objects(obj, "transitions", where))
    # A default is tried last, wherever it stands (ParseState::set_default_switch_case).
    ordered = [t for t in transitions if t.masks] + [t for t in transitions if not t.masks]
    return ParserState(name, operations, keys, tuple(ordered))


def _operation(obj: Json, scope: Scope, externs: Externs, where: str) -> ParserOp:
    op = get(obj, "op", str, where)
    parameters = objects(obj, "parameters", where)
    expressions = ExpressionLoader(scope, f"{where}, {op}")
    match op, len(parameters):
        case "extract", 1:
            return _extract(parameters[0], None, scope, where)
        case "extract_VL", 2:
            return _extract(parameters[0], expressions.data(parameters[1]), scope, where)
        case "set", 2 if _is_varbit(parameters[0], scope, where):
            return Run(assign_varbit(expressions, parameters[0], parameters[1]))
        case "set", 2:
            if parameters[0].get("type") != "field":
                raise UnsupportedConstruct(f"'set' of a {parameters[0].get('type')!r}", where)
            return Set(scope.target(parameters[0].get("value"), where), expressions.data(parameters[1]))
        case "verify", 2:
            return Verify(expressions.bool(parameters[0]), expressions.data(parameters[1]))
        case "advance", 1:
            return Advance(expressions.data(parameters[0]))
        case "shift", 1:
            raise UnsupportedConstruct("'shift' (p4c writes 'advance')", where)
        case "primitive", 1:
            return Run(PrimitiveLoader(scope, externs, where).load(parameters[0]))
        case _:
            raise UnsupportedConstruct(f"parser operation {op!r} with {len(parameters)} parameters", where)


def _extract(obj: Json, length: DataExpr | None, scope: Scope, where: str) -> ParserOp:
    kind, value = obj.get("type"), obj.get("value")
    operation: Extract | ExtractNext
    match kind:
        case "regular":
            operation = Extract(scope.header(value, where).name, length)
            headers = [operation.header]
        case "stack" | "union_stack":
            member = 0
            if kind == "union_stack":
                value, label = pair(value, where)
                member = _member(scope, value, label, where)
            stack = scope.groups.find(kind, value, where)
            headers = [element[member] for element in stack.elements]
            operation = ExtractNext(stack.name, tuple(headers), stack.next, length)
        case _:
            raise UnsupportedConstruct(f"extract of a {kind!r}", where)
    if (scope.headers[headers[0]].type.varbit is None) != (length is None):
        raise ProgramError(f"{where}: 'extract_VL' is for headers with a variable-length field, 'extract' for others")
    return operation


def _member(scope: Scope, stack: object, label: object, where: str) -> int:
    """The number of a union's member in a stack of unions."""
    union = scope.groups.unions[scope.groups.find("union_stack", stack, where).unions[0]]
    if label not in union.members:
        raise ProgramError(f"{where}: header union {union.name!r} has no member {label!r}")
    return list(union.members).index(str(label))


def _is_varbit(obj: Json, scope: Scope, where: str) -> bool:
    if obj.get("type") != "field":
        return False
    found = scope.field(obj.get("value"), where)
    varbit = scope.headers[found.header].type.varbit
    return varbit is not None and isinstance(found, FieldRef) and found.name == varbit.name


def _last_field(obj: Json, scope: Scope, where: str) -> ChosenKey:
    """A field of the last element of a stack, as a key."""
    kind, value = str(obj.get("type")), obj.get("value")
    member = 0
    if kind == "union_stack_field":
        if not isinstance(value, list) or len(value) != 3:
            raise ProgramError(f"{where}: {value!r} is not [stack, member, field]")
        name, label, field = value
        member = _member(scope, name, label, where)
        choice = last_element(scope.groups.find("union_stack", name, where), member)
    else:
        name, field = pair(value, where)
        choice = last_element(scope.groups.find("stack", name, where))
    target = scope.target([choice.names[0], field], where)
    return ChosenKey(field_of(choice, scope.headers, target.name), target.width)


def _key(obj: Json, scope: Scope, where: str) -> SelectKey:
    kind, value = obj.get("type"), obj.get("value")
    if kind == "field":
        return scope.field(value, where)
    if kind == "lookahead":
        offset, width = pair(value, where)
        return Lookahead(number(offset, where), number(width, where))
    if kind in ("stack_field", "union_stack_field"):
        return _last_field(obj, scope, where)
    raise UnsupportedConstruct(UNSUPPORTED_VALUES.get(str(kind), f"select on a {kind!r}"), where)


def key_width(key: SelectKey) -> int:
    """Bits of a select key."""
    return 1 if isinstance(key, Valid) else key.width


def _value_set_transition(
    obj: Json, keys: tuple[SelectKey, ...], externs: Externs, next_state: str | None, where: str
) -> Transition:
    name = get(obj, "value", str, where)
    if name not in externs.paths.value_sets:
        raise ProgramError(f"{where}: value set {name!r} is not declared")
    widths = tuple(key_width(key) for key in keys)
    if externs.paths.value_sets[name].width != sum(widths):
        raise ProgramError(f"{where}: value set {name!r} is not as wide as the keys of the select")
    bits = 8 * sum((w + 7) // 8 for w in widths)
    mask = hexstr(obj["mask"], where) if obj.get("mask") is not None else (1 << bits) - 1
    masks = _split(mask, widths)
    return Transition(tuple(0 for _ in masks), masks, next_state, name)


def _transition(obj: Json, keys: tuple[SelectKey, ...], externs: Externs, where: str) -> Transition:
    kind = obj.get("type", "hexstr" if obj.get("value") != "default" else "default")
    next_state = optional(obj, "next_state", str, where)
    if kind == "default":
        return Transition((), (), next_state)
    if kind == "parse_vset":
        return _value_set_transition(obj, keys, externs, next_state, where)
    if kind != "hexstr":
        raise UnsupportedConstruct(f"transition of type {kind!r}", where)
    widths = tuple(key_width(key) for key in keys)
    bits = 8 * sum((w + 7) // 8 for w in widths)
    value = hexstr(obj.get("value"), where)
    mask = hexstr(obj["mask"], where) if obj.get("mask") is not None else (1 << bits) - 1
    masks = _split(mask, widths)
    values = tuple(v & m for v, m in zip(_split(value, widths), masks, strict=True))
    return Transition(values, masks, next_state)


def _split(number: int, widths: tuple[int, ...]) -> tuple[int, ...]:
    """The parts of a value that is the concatenation of fields, each padded to whole bytes."""
    parts = []
    for width in reversed(widths):
        padded = 8 * ((width + 7) // 8)
        parts.append(number & ((1 << padded) - 1))
        number >>= padded
    return tuple(reversed(parts))


def _check_targets(parser: Parser) -> None:
    known = set(parser.states)
    named = [parser.start] + [t.next_state for s in parser.states.values() for t in s.transitions]
    for name in named:
        if name is not None and name not in known:
            raise ProgramError(f"parser: unknown state {name!r}")


def _idle_loops(parser: Parser, scope: Scope) -> frozenset[str]:
    """The states of loops that may go round without taking a byte."""
    watched = set()
    idle = {name for name, state in parser.states.items() if not _consumes(state, scope)}
    for name in idle:
        stack, seen = [name], set[str]()
        while stack:
            for transition in parser.states[stack.pop()].transitions:
                following = transition.next_state
                if following == name:
                    watched.add(name)
                if following is not None and following in idle and following not in seen:
                    seen.add(following)
                    stack.append(following)
    return frozenset(watched)


def _consumes(state: ParserState, scope: Scope) -> bool:
    for op in state.operations:
        match op:
            case Extract(header) if scope.headers[header].bytes > 0:
                return True
            case ExtractNext(headers=headers) if scope.headers[headers[0]].bytes > 0:
                return True  # (headers of no bytes only fill the stack, which pop_front may empty again)
            case Advance(Const(bits)) if bits > 0:
                return True
    return False
