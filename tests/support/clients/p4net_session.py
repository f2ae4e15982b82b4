"""Script: run a session of p4net's P4Runtime client (address, P4Info, JSON); print the results as JSON."""

import json
import sys
from pathlib import Path

from p4.v1 import p4runtime_pb2
from p4net.control.client import P4RuntimeClient
from p4net.control.exceptions import P4RuntimeError

TABLE = "EntitiesIngress.exact_table"
KEY = {"hdr.ethernet.dst": "00:00:00:00:00:01", "std.ingress_port": 3}


def registers(client, seen):
    """Write and read a register over the client's gRPC channel: p4net itself reads registers over Thrift only."""
    _, index = client.get_pipeline_config()
    ident = index.register_by_name("EntitiesIngress.narrow").id
    write = p4runtime_pb2.WriteRequest(device_id=1)
    write.election_id.high, write.election_id.low = client.election_id
    update = write.updates.add(type=p4runtime_pb2.Update.MODIFY)
    update.entity.register_entry.register_id = ident
    update.entity.register_entry.index.index = 3
    update.entity.register_entry.data.bitstring = b"\x07\xff"
    client._stub.Write(write, timeout=60)
    read = p4runtime_pb2.ReadRequest(device_id=1)
    read.entities.add().register_entry.register_id = ident
    entities = [e.register_entry for response in client._stub.Read(read, timeout=60) for e in response.entities]
    seen["register"] = {e.index.index: e.data.bitstring.hex() for e in entities}


def main(address, p4info, program):
    client, seen = P4RuntimeClient(address, 1), {}
    client.connect()
    try:
        client.set_pipeline_config(bmv2_json=Path(program), p4info=Path(p4info))
        client.insert_table_entry(TABLE, KEY, "EntitiesIngress.forward", {"port": 7})
        try:
            client.insert_table_entry(TABLE, KEY, "EntitiesIngress.forward", {"port": 7})
        except P4RuntimeError as error:
            seen["twice"] = str(error)
        client.modify_table_entry(TABLE, KEY, "EntitiesIngress.forward", {"port": 9})
        seen["entries"] = len(client.list_table_entries(TABLE))
        client.delete_table_entry(TABLE, KEY)
        seen["left"] = len(client.list_table_entries(TABLE))
        client.add_multicast_group(4, [1, 2])
        seen["groups"] = client.list_multicast_groups()
        client.delete_multicast_group(4)
        seen["counter"] = client.read_counter("EntitiesIngress.both_count", 2).packet_count
        client.reset_counter("EntitiesIngress.both_count")
        registers(client, seen)
        payload = bytes.fromhex("0000000000010200000000aa0800") + b"payload"
        client.send_packet_out(payload, {"egress_port": 5, "priority": 0, "padding": 0})
    finally:
        client.disconnect()
    print(json.dumps(seen))


main(*sys.argv[1:])
