// Headers of variable length, value sets, advance and lookahead; checksums over such headers and over the payload.
#include <core.p4>
#include <v1model.p4>

header start_t {
    bit<8>  kind;
    bit<8>  words;
    bit<8>  port;
    bit<8>  skip;
    bit<16> value;
    bit<16> checksum;
}

header options_t {
    bit<8>      kind;
    varbit<160> data;
}

header tail_t {
    bit<8>  kind;
    bit<16> sum;
    bit<8>  flags;
}

header seen_t {
    bit<8>  parser_error;
    bit<8>  checksum_error;
    bit<8>  set;
    bit<16> peeked;
    bit<8>  same;
}

struct headers_t {
    seen_t    seen;
    start_t   start;
    options_t options;
    options_t copy;
    tail_t    tail;
}

struct pair_t {
    bit<8> skip;
    bit<9> port;
}

struct metadata_t {
    bit<8>  set;
    bit<16> peeked;
}

parser VarbitsParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    value_set<bit<9>>(4) ports;
    value_set<pair_t>(4) pairs;

    state start {
        packet.extract(hdr.start);
        verify(hdr.start.words <= 6, error.HeaderTooShort);
        transition select(std.ingress_port) {
            ports: in_set;
            default: choose;
        }
    }
    state in_set {
        meta.set = 1;
        transition select(hdr.start.skip, std.ingress_port) {
            pairs: in_pairs;
            default: choose;
        }
    }
    state in_pairs {
        meta.set = 3;
        transition choose;
    }
    state choose {
        transition select(hdr.start.kind[1:0]) {
            0: accept;
            1: parse_options;
            2: advance_first;
            default: peek;
        }
    }
    state advance_first {
        packet.advance(((bit<32>)(hdr.start.skip & 7)) << 3);
        transition parse_options;
    }
    state peek {
        meta.peeked = packet.lookahead<bit<16>>();
        transition select(meta.peeked[7:0]) {
            0 .. 3: parse_options;
            default: parse_tail;
        }
    }
    state parse_options {
        packet.extract(hdr.options, ((bit<32>)hdr.start.words) << 5);
        transition select(hdr.start.kind[2:2]) {
            1: parse_tail;
            default: accept;
        }
    }
    state parse_tail {
        packet.extract(hdr.tail);
        transition accept;
    }
}

control VarbitsVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.options.isValid(), { hdr.start.kind, hdr.start.words, hdr.options.kind, hdr.options.data },
            hdr.start.checksum, HashAlgorithm.csum16);
    }
}

control VarbitsUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.options.isValid(), { hdr.start.kind, hdr.start.value, hdr.options.kind, hdr.options.data },
            hdr.start.checksum, HashAlgorithm.csum16);
        update_checksum_with_payload(hdr.tail.isValid(), { hdr.start.value, hdr.tail.flags, hdr.tail.kind },
            hdr.tail.sum, HashAlgorithm.csum16);
    }
}

control VarbitsIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (!hdr.start.isValid()) {
            mark_to_drop(std);
            exit;
        }
        std.egress_spec = (bit<9>)(hdr.start.port & 7);
        hdr.seen.setValid();
        hdr.seen.parser_error = 0;
        if (std.parser_error == error.HeaderTooShort) { hdr.seen.parser_error = 1; }
        else if (std.parser_error == error.PacketTooShort) { hdr.seen.parser_error = 2; }
        else if (std.parser_error != error.NoError) { hdr.seen.parser_error = 3; }
        hdr.seen.checksum_error = (bit<8>)std.checksum_error;
        hdr.seen.set = meta.set;
        hdr.seen.peeked = meta.peeked;
        hdr.seen.same = 0;
        if (hdr.options.isValid()) {
            if (hdr.start.port[3:3] == 1) {
                hdr.copy = hdr.options;
                hdr.copy.kind = hdr.copy.kind + 1;
            }
            if (hdr.start.port[4:4] == 1) { hdr.options.setInvalid(); }
        }
    }
}

control VarbitsEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply { } }

control VarbitsDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.seen);
        packet.emit(hdr.start);
        packet.emit(hdr.options);
        packet.emit(hdr.copy);
        packet.emit(hdr.tail);
    }
}

V1Switch(VarbitsParser(), VarbitsVerify(), VarbitsIngress(), VarbitsEgress(), VarbitsUpdate(), VarbitsDeparser()) main;
