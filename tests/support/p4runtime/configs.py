"""Pipeline configurations of programs in the repository."""

import time
from functools import cache
from pathlib import Path

from finsy import P4Schema
from finsy.proto import p4i, p4r
from google.protobuf import text_format

from p4switch.device import Device
from p4switch.p4runtime.digest_entries import Clock
from p4switch.p4runtime.forwarding import Forwarding, PipelineLoader
from tests.support.paths import DATA, ROOT

COMPILED = ROOT / "p4src" / "compiled"


def p4info_path(name: str) -> Path:
    """Return the path of a program's P4Info."""
    return next(
        p
        for p in (DATA / f"{name}.p4info.txt", DATA / f"bmv2/{name}.p4info.txt", COMPILED / f"{name}.p4info.txt")
        if p.exists()
    )


def json_path(name: str) -> Path:
    """Return the path of a program's BMv2 JSON."""
    return p4info_path(name).with_name(f"{name}.json")


@cache
def schema(name: str = "entities") -> P4Schema:
    """Return finsy's schema of a program's P4Info."""
    return P4Schema(p4info_path(name))


def config(name: str = "entities", cookie: int = 0) -> p4r.ForwardingPipelineConfig:
    """Return the configuration with which a controller sets the pipeline."""
    p4info = text_format.Parse(p4info_path(name).read_text(), p4i.P4Info())
    message = p4r.ForwardingPipelineConfig(p4info=p4info, p4_device_config=json_path(name).read_bytes())
    if cookie:
        message.cookie.cookie = cookie
    return message


_LOADER = PipelineLoader()


def forwarding(name: str = "entities", clock: Clock = time.time_ns) -> Forwarding:
    """Return a device with empty tables, as the server holds it."""
    loaded = _LOADER.load(config(name))
    device = Device(loaded.program, executor="interpreted")
    return Forwarding(loaded.config, loaded.program, loaded.schema, device, clock)
