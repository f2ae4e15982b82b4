"""Script: run a p4runtime-shell 0.0.6 session (address, P4Info, JSON, CA path or "-"); print results as JSON."""

import json
import sys

import p4runtime_sh.shell as sh
from p4.v1 import p4runtime_pb2
from p4runtime_sh.p4runtime import P4RuntimeWriteException, SSLOptions

MAC = "00:00:00:00:00:01"


def table(seen):
    te = sh.TableEntry("exact_table")(action="forward")
    te.match["dst"], te.match["ingress_port"], te.action["port"] = MAC, "3", "7"
    te.insert()
    try:
        te.insert()
    except P4RuntimeWriteException as error:
        seen["twice"] = error.errors[0][1].canonical_code
    te.action["port"] = "510"
    te.modify()
    seen["ports"] = [int.from_bytes(e.action["port"].value, "big") for e in sh.TableEntry("exact_table").read()]
    ternary = sh.TableEntry("ternary_table")(action="mark", priority=7)
    ternary.match["ether_type"] = "0x0800 &&& 0xff00"
    ternary.action["tag"], ternary.action["src"] = "5", "6"
    ternary.insert()
    seen["priorities"] = [e.priority for e in sh.TableEntry("ternary_table").read()]
    ternary.delete()
    seen["left"] = len(list(sh.TableEntry("ternary_table").read()))
    lpm = sh.TableEntry("lpm_table")(action="forward")
    lpm.match["dst"], lpm.action["port"] = "02:00:00:00:00:00/16", "9"
    lpm.insert()
    seen["lpm"] = len(list(sh.TableEntry("lpm_table").read()))
    lpm.delete()


def counters(seen):
    counter = sh.CounterEntry("both_count")
    counter.index, counter.packet_count, counter.byte_count = 2, 5, 600
    counter.modify()
    seen["counter"] = [[c.index, c.packet_count, c.byte_count] for c in counter.read()]
    seen["all_cells"] = len(list(sh.CounterEntry("both_count").read()))
    direct = sh.DirectCounterEntry("exact_count")
    direct.table_entry.match["dst"], direct.table_entry.match["ingress_port"] = MAC, "3"
    seen["direct"] = [c.packet_count for c in direct.read()]


def multicast(seen):
    group = sh.MulticastGroupEntry(4)
    group.add(1, 1).add(2, 1)
    group.insert()
    seen["replicas"] = [[r.egress_port, r.instance] for g in sh.MulticastGroupEntry(4).read() for r in g.replicas]
    group.delete()


def packets(seen):
    """Send a packet out to port 510; the program returns it with a packet_in header."""
    packet_in = sh.PacketIn()
    out = sh.PacketOut()
    out.payload = bytes.fromhex("000000000001 0200000000aa 0800".replace(" ", "")) + b"payload"
    out.metadata["egress_port"], out.metadata["priority"], out.metadata["padding"] = "510", "0", "0"
    out.send()
    messages = []
    for _ in range(60):
        if not messages:
            packet_in.sniff(messages.append, timeout=1)
    seen["packets_in"] = [m.packet.payload.hex() for m in messages]


def registers(seen):
    """Write and read a register with the shell's P4Runtime client; the shell has no command for registers."""
    ident = next(r.preamble.id for r in sh.client.get_p4info().registers if r.preamble.alias == "narrow")
    update = p4runtime_pb2.Update(type=p4runtime_pb2.Update.MODIFY)
    update.entity.register_entry.register_id = ident
    update.entity.register_entry.index.index = 3
    update.entity.register_entry.data.bitstring = b"\x07\xff"
    sh.client.write_update(update)
    entity = p4runtime_pb2.Entity()
    entity.register_entry.register_id = ident
    read = [e.register_entry for response in sh.client.read_one(entity) for e in response.entities]
    seen["register"] = {e.index.index: e.data.bitstring.hex() for e in read}


def main(address, p4info, program, ca):
    ssl = SSLOptions(False, cacert=ca, cert=ca, key=ca.replace(".crt", ".key")) if ca != "-" else None
    sh.setup(
        device_id=1, grpc_addr=address, election_id=(0, 1), config=sh.FwdPipeConfig(p4info, program), ssl_options=ssl
    )
    seen = {}
    try:
        for step in (table, counters, multicast, registers, packets):
            step(seen)
    finally:
        sh.teardown()
    print(json.dumps(seen))


main(*sys.argv[1:])
