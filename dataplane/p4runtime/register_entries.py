"""RegisterEntry: read and write of register cells, which BMv2 does not offer over P4Runtime."""

from collections.abc import Iterator

from finsy.proto import p4r

from p4reduce.dataplane.device import Device
from p4reduce.dataplane.p4runtime.errors import Code, P4RuntimeError
from p4reduce.dataplane.p4runtime.p4info import RegisterInfo, Schema
from p4reduce.dataplane.p4runtime.p4types import ValueType
from p4reduce.dataplane.p4runtime.updates import check_index, check_modify_only, invalid


class RegisterEntries:
    """Reads and writes the registers of one device."""

    def __init__(self, schema: Schema, device: Device) -> None:
        self._schema = schema
        self._device = device

    def write(self, kind: p4r.Update.Type.ValueType, entry: p4r.RegisterEntry) -> None:
        """Sets one cell, or all of them where the index is unset. Raises P4RuntimeError."""
        info = self._register(entry.register_id)
        what = f"register {info.name!r}"
        check_modify_only(kind, what)
        indices = self._indices(info, entry)
        if not entry.HasField("data"):
            raise invalid(f"{what}: data is missing")
        value = _type_of(info).decode(entry.data, what)
        register = self._device.registers[info.name]
        for index in indices:
            register.write(index, value)

    def read(self, wanted: p4r.RegisterEntry) -> Iterator[p4r.RegisterEntry]:
        """The cells that a request selects, as they are now. Raises P4RuntimeError."""
        if wanted.register_id == 0:
            if wanted.HasField("index"):
                raise invalid("register_id is 0: cells of all registers cannot be selected by index")
            infos = list(self._schema.registers.values())
        else:
            infos = [self._register(wanted.register_id)]
        found = []
        for info in infos:
            indices, register = self._indices(info, wanted), self._device.registers[info.name]
            found.append((info, _type_of(info), indices, register.copy(indices.start, indices.stop)))
        return (
            p4r.RegisterEntry(
                register_id=info.id,
                index=p4r.Index(index=index),
                data=value_type.encode(register.read(index - indices.start)),
            )
            for info, value_type, indices, register in found
            for index in indices
        )

    def changed(self) -> Iterator[p4r.RegisterEntry]:
        """The cells that are not 0."""
        for info in self._schema.registers.values():
            register = self._device.registers[info.name]
            if info.type is not None:
                for index in range(info.size):
                    value = register.read(index)
                    if value != 0:
                        data = info.type.encode(value)
                        yield p4r.RegisterEntry(register_id=info.id, index=p4r.Index(index=index), data=data)

    def _register(self, register_id: int) -> RegisterInfo:
        info = self._schema.registers.get(register_id)
        if info is None:
            raise invalid(f"there is no register with id {register_id}")
        return info

    def _indices(self, info: RegisterInfo, entry: p4r.RegisterEntry) -> range:
        if not entry.HasField("index"):
            return range(info.size)
        check_index(entry.index.index, info.size, f"register {info.name!r}")
        return range(entry.index.index, entry.index.index + 1)


def _type_of(info: RegisterInfo) -> ValueType:
    if info.type is None:
        raise P4RuntimeError(
            Code.UNIMPLEMENTED, f"register {info.name!r}: cells that are no number or bool are not supported"
        )
    return info.type
