// Lab 03: a slot.
// Write what is missing in `apply`; README.md, steps 3 to 6.
#include <core.p4>
#include <v1model.p4>

const bit<16> ETHER_TYPE = 16w{{ether_type}};
const bit<8> PUSH = 1;
const bit<8> RESULT = 2;
const bit<32> SLOTS = {{slots}};              // a power of two

header ethernet_t { bit<48> dst; bit<48> src; bit<16> ether_type; }
header sum_t {
    bit<8>  kind;                       // PUSH or RESULT
    bit<32> seq;                        // number of the chunk
    bit<32> lane0; bit<32> lane1; bit<32> lane2; bit<32> lane3;
}
struct headers_t { ethernet_t ethernet; sum_t sum; }
struct metadata_t {
    bit<32> bit_;           // of the worker that sent this, a single bit
    bit<32> full;           // the bits of all workers
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHER_TYPE: parse_sum;
            default: accept;
        }
    }
    state parse_sum { packet.extract(hdr.sum); transition accept; }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Slot(inout headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    register<bit<32>>(SLOTS) bitmaps;   // who is in, for each slot; 0: none
    register<bit<32>>(SLOTS) sums0;
    register<bit<32>>(SLOTS) sums1;
    register<bit<32>>(SLOTS) sums2;
    register<bit<32>>(SLOTS) sums3;

    action member(bit<32> bit_, bit<32> full) {
        meta.bit_ = bit_;
        meta.full = full;
    }
    table worker {  // filled by the controller, one entry for each worker
        key = { std.ingress_port: exact; }
        actions = { member; NoAction; }
        default_action = NoAction();
    }

    bit<32> slot;
    bit<32> bitmap;
    bit<32> sum;

    apply {
        if (!hdr.sum.isValid() || hdr.sum.kind != PUSH || !worker.apply().hit) {
            mark_to_drop(std);          // not for us
        } else {
            slot = hdr.sum.seq & (SLOTS - 1);
            // TODO steps 3 to 6
        }
    }
}

control Out(inout headers_t hdr, inout metadata_t meta,
            inout standard_metadata_t std) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Emit(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.ethernet); packet.emit(hdr.sum); }
}

V1Switch(Parse(), Verify(), Slot(), Out(), Compute(), Emit()) main;
