"""Registers, counters, calculations and checksums from the JSON."""

from typing import Final, get_args

from p4reduce.dataplane.model.errors import ProgramError, UnsupportedConstruct
from p4reduce.dataplane.model.expressions import Valid
from p4reduce.dataplane.model.externs import (
    Calculation,
    Checksum,
    ConstInput,
    CounterArray,
    FieldInput,
    HashAlgorithm,
    HashInput,
    HeaderInput,
    RegisterArray,
)
from p4reduce.dataplane.model.load_expressions import ExpressionLoader
from p4reduce.dataplane.model.load_headers import Scope
from p4reduce.dataplane.model.reading import Json, get, hexstr, objects, optional, source_of

_ALGORITHMS: Final[tuple[HashAlgorithm, ...]] = get_args(HashAlgorithm)


def load_registers(root: Json) -> dict[str, RegisterArray]:
    """Register arrays by name."""
    registers = {}
    for obj in objects(root, "register_arrays", "program"):
        name = get(obj, "name", str, "register_arrays")
        where = f"register {name!r}"
        size, width = get(obj, "size", int, where), get(obj, "bitwidth", int, where)
        if size < 0 or width < 1:
            raise ProgramError(f"{where}: {size} cells of {width} bits")
        registers[name] = RegisterArray(name, size, width, source_of(obj))
    return registers


def load_counters(root: Json) -> dict[str, CounterArray]:
    """Counters by name, direct and indirect."""
    counters = {}
    for obj in objects(root, "counter_arrays", "program"):
        name = get(obj, "name", str, "counter_arrays")
        where = f"counter {name!r}"
        if obj.get("is_direct", False):
            counters[name] = CounterArray(name, 0, get(obj, "binding", str, where), source_of(obj))
        else:
            counters[name] = CounterArray(name, get(obj, "size", int, where), None, source_of(obj))
    return counters


def load_calculations(root: Json, scope: Scope) -> dict[str, Calculation]:
    """Hash calculations by name."""
    calculations = {}
    for obj in objects(root, "calculations", "program"):
        calculation = load_calculation(obj, scope)
        calculations[calculation.name] = calculation
    return calculations


def load_calculation(obj: Json, scope: Scope) -> Calculation:
    """One hash calculation."""
    name = get(obj, "name", str, "calculations")
    where, source = f"calculation {name!r}", source_of(obj)
    algorithm = get(obj, "algo", str, where)
    if algorithm not in _ALGORITHMS:
        raise UnsupportedConstruct(f"hash algorithm {algorithm!r}", where, source)
    entries = objects(obj, "input", where)
    payload = any(entry.get("type") == "payload" for entry in entries)
    inputs = tuple(_hash_input(e, scope, where) for e in entries if e.get("type") != "payload")
    return Calculation(name, algorithm, inputs, payload, source)


def _hash_input(obj: Json, scope: Scope, where: str) -> HashInput:
    kind, value = obj.get("type"), obj.get("value")
    match kind:
        case "field":
            field = scope.field(value, where)
            if isinstance(field, Valid):
                raise UnsupportedConstruct("header validity as hash input", where)
            return FieldInput(field)
        case "hexstr":
            return ConstInput(hexstr(value, where), get(obj, "bitwidth", int, where))
        case "header":
            return HeaderInput(scope.header(value, where).name)
        case _:
            raise UnsupportedConstruct(f"hash input of type {kind!r}", where)


def load_checksums(root: Json, scope: Scope, calculations: dict[str, Calculation]) -> tuple[Checksum, ...]:
    """Checksums in the order in which they are verified and updated."""
    checksums = []
    for obj in objects(root, "checksums", "program"):
        name = get(obj, "name", str, "checksums")
        where, source = f"checksum {name!r}", source_of(obj)
        kind = get(obj, "type", str, where)
        if kind != "generic":
            raise UnsupportedConstruct(f"checksum of type {kind!r}", where, source)
        calculation = get(obj, "calculation", str, where)
        if calculation not in calculations:
            raise ProgramError(f"{where}: unknown calculation {calculation!r}")
        condition = optional(obj, "if_cond", dict, where)
        checksums.append(
            Checksum(
                name,
                scope.target(obj.get("target"), where),
                calculation,
                bool(obj.get("verify", True)),
                bool(obj.get("update", True)),
                None if condition is None else ExpressionLoader(scope, where, source).bool(condition),
                source,
            )
        )
    return tuple(checksums)
