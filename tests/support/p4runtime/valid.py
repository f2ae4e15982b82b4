"""Updates of every kind that a fresh device with the program ``entities`` accepts."""

import finsy as fy
from finsy.proto import p4r

from tests.support.p4runtime.configs import schema


def valid_updates():
    """Return updates of every kind that a fresh device accepts in this order."""
    mark = fy.Action("mark", tag=1, src=2)
    entities = [
        fy.P4TableEntry("exact_table", match=fy.Match(dst=1, ingress_port=2), action=fy.Action("forward", port=3)),
        fy.P4TableEntry("lpm_table", match=fy.Match(dst=(1 << 40, 8)), action=fy.Action("forward", port=3)),
        fy.P4TableEntry("ternary_table", match=fy.Match(dst=(2, 6)), action=mark, priority=5),
        fy.P4TableEntry("range_table", match=fy.Match(ether_type=(4, 9), ingress_port=1), action=mark, priority=5),
        fy.P4TableEntry("optional_table", match=fy.Match(ether_type=4), action=mark, priority=5),
        fy.P4MulticastGroupEntry(4, replicas=[1, 2, (3, 7)]),
        fy.P4TableEntry("exact_table", is_default_action=True, action=fy.Action("forward", port=3)),
        fy.P4CounterEntry("both_count", index=1, data=fy.P4CounterData(packet_count=1, byte_count=2)),
        fy.P4RegisterEntry("narrow", index=1, data=3),
    ]
    return [
        p4r.Update(type=p4r.Update.INSERT if number < 6 else p4r.Update.MODIFY, entity=entity.encode(schema()))
        for number, entity in enumerate(entities)
    ]
