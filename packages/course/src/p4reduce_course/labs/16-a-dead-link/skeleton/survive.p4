// Lab 16: a dead link. Write what is missing; README.md, steps 3 to 5.
#include <core.p4>
#include <v1model.p4>

const bit<16> SUM_TYPE = {{sum_type}};
const bit<8> DOWN = 8;
const bit<8> UP = 9;
const bit<9> WATCH = 510;               // where news of links comes from
const bit<32> PORTS = 16;

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header sum_t {
    bit<8> kind; bit<8> detour;
    bit<16> port;                       // of DOWN and UP
    bit<32> seq;
}
struct headers_t { ethernet_t ethernet; sum_t sum; }
struct metadata_t {
    bit<9> first;
    bit<9> second;
}
struct news_t { bit<16> port; bit<1> down; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            SUM_TYPE: parse_sum;
            default: accept;
        }
    }
    state parse_sum { packet.extract(hdr.sum); transition accept; }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Survive(inout headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t std) {
    register<bit<1>>(PORTS) down;       // 1: the link at this port is down

    action ways(bit<9> first, bit<9> second) {
        meta.first = first;
        meta.second = second;
    }
    table way {
        key = { hdr.ethernet.dst: exact; }
        actions = { ways; NoAction; }
        default_action = NoAction();
    }

    apply {
        mark_to_drop(std);
        if (hdr.sum.isValid() && way.apply().hit) {
            std.egress_spec = meta.first;
            // TODO steps 3 to 5
        }
    }
}

control Out(inout headers_t hdr, inout metadata_t meta,
            inout standard_metadata_t std) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Emit(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.ethernet); packet.emit(hdr.sum); }
}

V1Switch(Parse(), Verify(), Survive(), Out(), Compute(), Emit()) main;
