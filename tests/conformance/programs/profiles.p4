// Action profiles and selectors, meters of both kinds, digests.
#include <core.p4>
#include <v1model.p4>

header work_t {
    bit<8>  kind;
    bit<8>  index;
    bit<8>  port;
    bit<8>  a;
    bit<16> b;
    bit<32> c;
}

header seen_t {
    bit<8> chosen;
    bit<8> selected;
    bit<8> color;
    bit<8> direct_color;
}

struct headers_t {
    seen_t seen;
    work_t work;
}

struct metadata_t {
    bit<2> direct_color;
}

struct note_t {
    bit<8>  kind;
    bit<32> c;
}

parser ProfilesParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.work);
        transition accept;
    }
}

control ProfilesVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }
control ProfilesUpdate(inout headers_t hdr, inout metadata_t meta) { apply { } }

control ProfilesIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    meter(8, MeterType.packets) by_packets;
    meter(8, MeterType.bytes) by_bytes;
    direct_meter<bit<2>>(MeterType.packets) by_entry;
    action_profile(32) choices;
    action_selector(HashAlgorithm.crc16, 32, 16) paths;

    action choose(bit<8> value) { hdr.seen.chosen = value; }
    action send(bit<9> port) { std.egress_spec = port; }
    action pick(bit<8> value) { hdr.seen.selected = value; }
    action tell() { digest<note_t>(1, { hdr.work.kind, hdr.work.c }); }
    action measure(bit<8> value) {
        by_entry.read(meta.direct_color);
        hdr.seen.chosen = hdr.seen.chosen ^ value;
    }

    table indirect {
        key = { hdr.work.kind: exact; }
        actions = { choose; send; NoAction; }
        implementation = choices;
        size = 32;
    }

    table selected {
        key = {
            hdr.work.kind: exact;
            hdr.work.a: selector;
            hdr.work.b: selector;
            hdr.work.c: selector;
        }
        actions = { pick; send; NoAction; }
        implementation = paths;
        size = 32;
    }

    table metered {
        key = { hdr.work.a: ternary; }
        actions = { measure; NoAction; }
        meters = by_entry;
        default_action = NoAction();
        size = 32;
    }

    apply {
        if (!hdr.work.isValid()) {
            mark_to_drop(std);
            exit;
        }
        std.egress_spec = (bit<9>)(hdr.work.port & 7);
        hdr.seen.setValid();
        hdr.seen.chosen = 0;
        hdr.seen.selected = 0;
        indirect.apply();
        selected.apply();
        metered.apply();
        bit<2> color = 0;
        if (hdr.work.index[7:7] == 1) {
            by_packets.execute_meter((bit<32>)(hdr.work.index & 7), color);
        } else {
            by_bytes.execute_meter((bit<32>)(hdr.work.index & 7), color);
        }
        hdr.seen.color = (bit<8>)color;
        hdr.seen.direct_color = (bit<8>)meta.direct_color;
        if (hdr.work.kind[7:7] == 1) { tell(); }
    }
}

control ProfilesEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply { } }

control ProfilesDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.seen);
        packet.emit(hdr.work);
    }
}

V1Switch(ProfilesParser(), ProfilesVerify(), ProfilesIngress(), ProfilesEgress(), ProfilesUpdate(),
    ProfilesDeparser()) main;
