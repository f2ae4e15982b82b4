"""Pipeline configurations: P4Info and program must be well-formed, supported, and belong together."""

import json

import pytest
from finsy.proto import p4d, p4r, p4t
from google.protobuf import text_format

from p4switch.p4runtime import P4RuntimeError, StatusCode
from p4switch.p4runtime.forwarding import PipelineLoader
from p4switch.p4runtime.p4info import ValueType, value_type
from tests.support.p4runtime.configs import config


def refusal(message):
    """Return the error message for a configuration."""
    with pytest.raises(P4RuntimeError) as caught:
        PipelineLoader().load(message)
    assert caught.value.code is StatusCode.INVALID_ARGUMENT
    return caught.value.message


@pytest.mark.parametrize("name", ["entities", "p4reduce-64", "p4reduce-256"])
def test_what_p4c_writes_is_accepted(name):
    loaded = PipelineLoader().load(config(name))
    assert {t.name for t in loaded.schema.tables.values()} <= set(loaded.program.tables)
    assert {r.name for r in loaded.schema.registers.values()} == set(loaded.program.registers)


def test_the_same_configuration_is_loaded_once():
    loader = PipelineLoader()
    one, other = loader.load(config(cookie=1)), loader.load(config(cookie=2))
    assert one.program is other.program
    assert [loaded.config for loaded in (one, other)] == [config(cookie=1), config(cookie=2)]
    assert loader.load(config()).config is loader.load(config()).config is not one.config


def test_parts_that_are_missing():
    assert "p4info is missing" in refusal(p4r.ForwardingPipelineConfig(p4_device_config=b"{}"))
    message = config()
    message.p4_device_config = b""
    assert "p4_device_config is empty" in refusal(message)


@pytest.mark.parametrize(
    "device_config",
    [b"\xff\xfe", b"{", b"[]", b"null", b"1", b"{}", b'{"pipelines": 3}', b'{"header_types": [1]}', b"[" * 100_000],
    ids=lambda data: repr(data[:20]),
)
def test_what_is_no_program(device_config):
    message = config()
    message.p4_device_config = device_config
    assert refusal(message).startswith("config.p4_device_config")


def test_an_unsupported_program_is_refused_by_the_name_of_the_construct():
    message = config()
    root = json.loads(message.p4_device_config)
    root["meter_arrays"] = [{"name": "my_meter"}]
    message.p4_device_config = json.dumps(root).encode()
    assert "meter" in refusal(message)


def without_table(p4info):
    p4info.tables[0].preamble.name = "nowhere"


def wider_key(p4info):
    p4info.tables[0].match_fields[0].bitwidth += 1


def other_match_kind(p4info):
    p4info.tables[0].match_fields[0].match_type = 4


def fewer_keys(p4info):
    del p4info.tables[0].match_fields[0]


def unknown_match_kind(p4info):
    p4info.tables[0].match_fields[0].other_match_type = "magic"


def action_of_nobody(p4info):
    p4info.tables[0].action_refs[0].id = 77


def other_action(p4info):
    p4info.actions[1].preamble.name = "nothing"


def wider_parameter(p4info):
    next(a for a in p4info.actions if a.params).params[0].bitwidth += 1


def no_parameter_width(p4info):
    next(a for a in p4info.actions if a.params).params[0].bitwidth = 0


def same_id(p4info):
    p4info.tables[1].preamble.id = p4info.tables[0].preamble.id


def no_id(p4info):
    p4info.registers[0].preamble.id = 0


def larger_counter(p4info):
    p4info.counters[0].size += 1


def direct_counter_lost(p4info):
    del p4info.tables[0].direct_resource_ids[:]


def larger_register(p4info):
    p4info.registers[0].size += 1


def wider_register(p4info):
    p4info.registers[0].type_spec.bitstring.bit.bitwidth += 1


@pytest.mark.parametrize(
    "change",
    [
        without_table,
        wider_key,
        other_match_kind,
        fewer_keys,
        unknown_match_kind,
        action_of_nobody,
        other_action,
        wider_parameter,
        no_parameter_width,
        same_id,
        no_id,
        larger_counter,
        direct_counter_lost,
        larger_register,
        wider_register,
    ],
)
def test_a_p4info_of_another_program_is_refused(change):
    message = config()
    change(message.p4info)
    assert refusal(message).startswith("P4Info:")


def test_the_p4info_of_another_build_is_refused():
    message = config("p4reduce-64")
    message.p4_device_config = config("p4reduce-256").p4_device_config
    message.p4info.CopyFrom(config("p4reduce-256").p4info)
    PipelineLoader().load(message)
    message.p4_device_config = config("p4reduce-64").p4_device_config
    assert "lanes_1" in refusal(message)


# --- types of registers


TYPES = text_format.Parse(
    """
    serializable_enums { key: "color" value { underlying_type { bitwidth: 5 } } }
    new_types { key: "port" value { original_type { bitstring { bit { bitwidth: 9 } } } } }
    new_types { key: "sdn" value { translated_type { uri: "u" sdn_bitwidth: 32 } } }
    new_types { key: "name" value { translated_type { uri: "u" sdn_string { } } } }
    new_types { key: "loop" value { original_type { new_type { name: "loop" } } } }
    """,
    p4t.P4TypeInfo(),
)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("bitstring { bit { bitwidth: 9 } }", ValueType("bit", 9)),
        ("bitstring { int { bitwidth: 9 } }", ValueType("int", 9)),
        ("bool { }", ValueType("bool", 1)),
        ('serializable_enum { name: "color" }', ValueType("enum", 5)),
        ('new_type { name: "port" }', ValueType("bit", 9)),
        ('new_type { name: "sdn" }', ValueType("bit", 32)),
        ('new_type { name: "name" }', None),
        ('new_type { name: "loop" }', None),
        ('new_type { name: "unknown" }', None),
        ('serializable_enum { name: "unknown" }', None),
        ('struct { name: "s" }', None),
        ("bitstring { varbit { max_bitwidth: 9 } }", None),
        ("", None),
    ],
)
def test_value_types(spec, expected):
    assert value_type(text_format.Parse(spec, p4t.P4DataTypeSpec()), TYPES) == expected


@pytest.mark.parametrize(
    ("kind", "cell", "data"),
    [
        (ValueType("bit", 9), 300, p4d.P4Data(bitstring=b"\x01\x2c")),
        (ValueType("int", 9), 0x1FF, p4d.P4Data(bitstring=b"\xff")),
        (ValueType("int", 9), 0x0FF, p4d.P4Data(bitstring=b"\x00\xff")),
        (ValueType("bool", 1), 1, p4d.P4Data(bool=True)),
        (ValueType("bool", 1), 0, p4d.P4Data(bool=False)),
        (ValueType("enum", 5), 17, p4d.P4Data(enum_value=b"\x11")),
    ],
)
def test_values_of_each_type(kind, cell, data):
    assert kind.encode(cell) == data
    assert kind.decode(data, "x") == cell
