"""entities.p4 as if p4c had compiled it with ``support_timeout = true`` on two tables."""

import json

from finsy.proto import p4i, p4r

from tests.support.p4runtime.configs import config

IDLE_TABLES = ("exact_table", "lpm_table")
"""Tables with time-outs: one with a direct counter and one without."""


def idle_config() -> p4r.ForwardingPipelineConfig:
    """Return the configuration with which a controller sets the pipeline."""
    message = config()
    program = json.loads(message.p4_device_config)
    for table in program["pipelines"][0]["tables"]:
        table["support_timeout"] = table["name"].rpartition(".")[2] in IDLE_TABLES
    message.p4_device_config = json.dumps(program).encode()
    for info in message.p4info.tables:
        if info.preamble.alias in IDLE_TABLES:
            info.idle_timeout_behavior = p4i.Table.NOTIFY_CONTROL
    return message
