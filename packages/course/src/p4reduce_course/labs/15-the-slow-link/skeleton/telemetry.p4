// Lab 15: the slow link. Write what is missing; README.md, steps 3 to 6.
#include <core.p4>
#include <v1model.p4>

const bit<16> TEL_TYPE = {{tel_type}};
const bit<16> ME = {{me}};                 // this switch's number
const bit<8> ROOM = 4;

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header tel_t {
    bit<16> type;                       // the frame's own EtherType
    bit<8> count;                       // of records
    bit<32> worst_us; bit<16> worst_by;
}
header hop_t { bit<16> switch_; bit<32> time_us; }
struct headers_t { ethernet_t ethernet; tel_t tel; hop_t[4] hops; }
struct metadata_t { bit<8> left; }
struct slow_t { bit<16> by; bit<32> us; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;              // TODO step 3
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Tell(inout headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    action to(bit<9> port) { std.egress_spec = port; }
    table way {
        key = { hdr.ethernet.dst: exact; }
        actions = { to; NoAction; }
        default_action = NoAction();
    }
    action begin() {
        // TODO step 4
    }
    table source {                      // ports of workers that send
        key = { std.ingress_port: exact; }
        actions = { begin; NoAction; }
        default_action = NoAction();
    }
    action end() {
        // TODO step 6
    }
    table sink {                        // ports of workers that receive
        key = { std.egress_spec: exact; }
        actions = { end; NoAction; }
        default_action = NoAction();
    }

    apply {
        if (!way.apply().hit) {
            mark_to_drop(std);
        } else {
            // TODO steps 3 to 6
        }
    }
}

control Out(inout headers_t hdr, inout metadata_t meta,
            inout standard_metadata_t std) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Emit(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.tel);
        packet.emit(hdr.hops);
    }
}

V1Switch(Parse(), Verify(), Tell(), Out(), Compute(), Emit()) main;
