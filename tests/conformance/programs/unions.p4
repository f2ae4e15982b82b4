// Header unions: alone and in a stack, parsed, tested, replaced by another member, made invalid.
#include <core.p4>
#include <v1model.p4>

header order_t {
    bit<8> what;
    bit<8> port;
}

header short_t {
    bit<8> kind;
    bit<8> value;
}

header long_t {
    bit<8>  kind;
    bit<32> value;
}

header_union either_t {
    short_t brief;
    long_t  full;
}

header seen_t {
    bit<8> parser_error;
    bit<8> valid;
}

struct headers_t {
    seen_t      seen;
    order_t     order;
    either_t    one;
    either_t[2] many;
}

struct metadata_t { }

parser UnionsParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.order);
        transition select(hdr.order.what[7:6]) {
            1: one_brief;
            2: one_full;
            3: many_first;
            default: accept;
        }
    }
    state one_brief {
        packet.extract(hdr.one.brief);
        transition many_first;
    }
    state one_full {
        packet.extract(hdr.one.full);
        transition many_first;
    }
    state many_first {
        transition select(packet.lookahead<bit<8>>()) {
            1: many_brief;
            2: many_full;
            default: accept;
        }
    }
    state many_brief {
        packet.extract(hdr.many.next.brief);
        transition many_first;
    }
    state many_full {
        packet.extract(hdr.many.next.full);
        transition many_first;
    }
}

control UnionsVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }
control UnionsUpdate(inout headers_t hdr, inout metadata_t meta) { apply { } }

control UnionsIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (!hdr.order.isValid()) {
            mark_to_drop(std);
            exit;
        }
        std.egress_spec = (bit<9>)(hdr.order.port & 7);
        hdr.seen.setValid();
        hdr.seen.parser_error = 0;
        if (std.parser_error == error.StackOutOfBounds) { hdr.seen.parser_error = 1; }
        else if (std.parser_error == error.PacketTooShort) { hdr.seen.parser_error = 2; }
        else if (std.parser_error != error.NoError) { hdr.seen.parser_error = 3; }
        hdr.seen.valid = 0;
        if (hdr.one.isValid()) { hdr.seen.valid = hdr.seen.valid | 1; }
        if (hdr.order.what[0:0] == 1) {
            hdr.one.full.setValid();
            hdr.one.full.kind = 2;
            hdr.one.full.value = 0xa1b2c3d4;
        }
        if (hdr.order.what[1:1] == 1) {
            hdr.one.brief.setValid();
            hdr.one.brief.kind = 1;
            hdr.one.brief.value = hdr.order.port;
        }
        if (hdr.order.what[2:2] == 1) { hdr.one.brief.setInvalid(); }
        if (hdr.order.what[3:3] == 1) { hdr.many[0].full.setInvalid(); }
        if (hdr.order.what[4:4] == 1) {
            hdr.many[1].brief.setValid();
            hdr.many[1].brief.kind = 1;
            hdr.many[1].brief.value = 0x77;
        }
        if (hdr.one.brief.isValid()) { hdr.seen.valid = hdr.seen.valid | 2; }
        if (hdr.one.full.isValid()) { hdr.seen.valid = hdr.seen.valid | 4; }
        if (hdr.many[0].brief.isValid()) { hdr.seen.valid = hdr.seen.valid | 16; }
        if (hdr.many[1].brief.isValid()) { hdr.seen.valid = hdr.seen.valid | 32; }
        if (hdr.many[1].full.isValid()) { hdr.seen.valid = hdr.seen.valid | 64; }
    }
}

control UnionsEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply { } }

control UnionsDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.seen);
        packet.emit(hdr.order);
        packet.emit(hdr.one);
        packet.emit(hdr.many);
    }
}

V1Switch(UnionsParser(), UnionsVerify(), UnionsIngress(), UnionsEgress(), UnionsUpdate(), UnionsDeparser()) main;
