"""Pipeline configurations: P4Info and BMv2 JSON, loaded and checked."""

import hashlib
import json
import logging
from collections import OrderedDict
from threading import Lock
from typing import Final

from finsy.proto import p4i, p4r

from p4reduce.dataplane.model import Program, ProgramError, load_program
from p4reduce.dataplane.p4runtime.conformity import check_conformity
from p4reduce.dataplane.p4runtime.errors import P4RuntimeError
from p4reduce.dataplane.p4runtime.p4info import Schema, load_schema
from p4reduce.dataplane.p4runtime.updates import invalid

_LOG = logging.getLogger(__name__)

_KEPT: Final = 16


class PipelineLoader:
    """Loads configurations and remembers the latest: hundreds of switches are given the same one. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._loaded: OrderedDict[bytes, tuple[Program, Schema]] = OrderedDict()

    def load(self, config: p4r.ForwardingPipelineConfig) -> tuple[Program, Schema]:
        """The program and the index of a configuration.

        Raises:
            P4RuntimeError: INVALID_ARGUMENT: malformed, not supported, or P4Info and program do not belong together.
        """
        if not config.HasField("p4info"):
            raise invalid("config.p4info is missing")
        if not config.p4_device_config:
            raise invalid("config.p4_device_config is empty; it must be the JSON that p4c-bm2-ss writes")
        key = _digest(config)
        with self._lock:
            if key not in self._loaded:
                self._loaded[key] = _load(config)
            self._loaded.move_to_end(key)
            if len(self._loaded) > _KEPT:
                self._loaded.popitem(last=False)
            return self._loaded[key]


def _digest(config: p4r.ForwardingPipelineConfig) -> bytes:
    digest = hashlib.sha256(config.p4info.SerializeToString(deterministic=True))
    digest.update(hashlib.sha256(config.p4_device_config).digest())
    return digest.digest()


def _load(config: p4r.ForwardingPipelineConfig) -> tuple[Program, Schema]:
    p4info = p4i.P4Info()
    p4info.CopyFrom(config.p4info)
    schema = load_schema(p4info)
    program = _program(config.p4_device_config)
    check_conformity(schema, program)
    return program, schema


def _program(device_config: bytes) -> Program:
    try:
        root = json.loads(device_config)
    except (ValueError, RecursionError) as error:
        raise invalid(f"config.p4_device_config is not the JSON that p4c-bm2-ss writes: {error}") from None
    if not isinstance(root, dict):
        raise invalid(f"config.p4_device_config holds a JSON {type(root).__name__}, expected an object")
    try:
        return load_program(root)
    except ProgramError as error:
        raise invalid(f"config.p4_device_config: {error}") from None
    except Exception as error:
        _LOG.exception("loading a P4 program")
        raise _unreadable(error) from None


def _unreadable(error: Exception) -> P4RuntimeError:
    return invalid(f"config.p4_device_config cannot be loaded: {type(error).__name__}: {error}")
