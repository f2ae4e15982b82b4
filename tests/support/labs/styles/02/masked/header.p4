// Lab 02: a header of your own, solved for the student "example".
#include <core.p4>
#include <v1model.p4>

const bit<16> ETHER_TYPE = 16w0x8928;

header ethernet_t { bit<48> dst; bit<48> src; bit<16> ether_type; }

header hop_t {
    bit<16> worker;
    bit<32> seq;
    bit<4> flags;
    bit<4> kind;
    bit<8> hops;
}

header value_t { bit<32> total; }

struct headers_t { ethernet_t ethernet; hop_t hop; value_t value; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHER_TYPE: parse_hop;
            default: accept;
        }
    }
    state parse_hop {
        packet.extract(hdr.hop);
        transition select(hdr.hop.flags) {
            4w1 &&& 4w1: parse_value;
            _: accept;
        }
    }
    state parse_value {
        packet.extract(hdr.value);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Rules(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (std.parser_error != error.NoError) {
            mark_to_drop(std);              // cut short
        } else if (!hdr.hop.isValid()) {
            std.egress_spec = 8;            // not ours: on its way, unchanged
        } else {
            std.egress_spec = 7;
            if (hdr.value.isValid()) {
                hdr.value.total = (bit<32>) hdr.hop.worker + hdr.value.total;
            }
            else
            {
                hdr.hop.flags[0:0] = 1w1;
                hdr.value.setValid();
                hdr.value = { hdr.hop.seq };
            }
            hdr.hop.hops = 1 + hdr.hop.hops;
        }
    }
}

control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Emit(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.hop);
        packet.emit(hdr.value);
    }
}

V1Switch(Parse(), Verify(), Rules(), Out(), Compute(), Emit()) main;
