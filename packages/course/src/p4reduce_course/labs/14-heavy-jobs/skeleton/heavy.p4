// Lab 14: heavy jobs. Write what is missing; README.md, steps 3 to 6.
#include <core.p4>
#include <v1model.p4>

const bit<16> LOAD_TYPE = {{load_type}};
const bit<32> CELLS0 = {{cells0}};
const bit<32> CELLS1 = {{cells1}};
const bit<32> CELLS2 = {{cells2}};
const bit<32> LIMIT = {{limit}};
const bit<8> PUSH = 1;
const bit<8> ASK = 2;
const bit<9> UP = 9;

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header load_t {
    bit<8> kind; bit<8> heavy; bit<32> job; bit<32> amount; bit<32> estimate;
}
struct headers_t { ethernet_t ethernet; load_t load; }
struct metadata_t {}
struct heavy_t { bit<32> job; bit<32> estimate; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            LOAD_TYPE: parse_load;
            default: accept;
        }
    }
    state parse_load { packet.extract(hdr.load); transition accept; }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Count(inout headers_t hdr, inout metadata_t meta,
              inout standard_metadata_t std) {
    register<bit<32>>(CELLS0) row0;
    register<bit<32>>(CELLS1) row1;
    register<bit<32>>(CELLS2) row2;

    apply {
        if (!hdr.load.isValid()) {
            mark_to_drop(std);
        } else {
            std.egress_spec = UP;
            // TODO steps 3 to 6
        }
    }
}

control Out(inout headers_t hdr, inout metadata_t meta,
            inout standard_metadata_t std) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Emit(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.ethernet); packet.emit(hdr.load); }
}

V1Switch(Parse(), Verify(), Count(), Out(), Compute(), Emit()) main;
