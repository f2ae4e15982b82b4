// Lab 13: spreading jobs. Write what is missing; README.md, steps 3 to 5.
#include <core.p4>
#include <v1model.p4>

const bit<16> JOB_TYPE = {{job_type}};
const bit<48> GAP = {{gap}};                // microseconds
const bit<8> DATA = 0;
const bit<8> PUSH = 1;
const bit<8> RESULT = 2;
const bit<32> FLOWS = 64;

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header job_t { bit<8> kind; bit<16> job; bit<16> src; bit<16> dst; }
struct headers_t { ethernet_t ethernet; job_t job; }
struct metadata_t {
    bit<16> count;                      // of uplinks
    bit<16> way;                        // 0 to count - 1
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            JOB_TYPE: parse_job;
            default: accept;
        }
    }
    state parse_job { packet.extract(hdr.job); transition accept; }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Spread(inout headers_t hdr, inout metadata_t meta,
               inout standard_metadata_t std) {
    register<bit<48>>(FLOWS) seen;      // when the latest frame came
    register<bit<16>>(FLOWS) flowlets;  // how often a flow paused

    action ways(bit<16> count) { meta.count = count; }
    table spread {                      // its default action says how many
        actions = { ways; NoAction; }
        default_action = NoAction();
    }
    action to(bit<9> port) { std.egress_spec = port; }
    table uplink {
        key = { meta.way: exact; }
        actions = { to; NoAction; }
        default_action = NoAction();
    }

    bit<32> flow;
    bit<48> before;
    bit<16> number;

    apply {
        if (!hdr.job.isValid()) {
            mark_to_drop(std);
        } else {
            spread.apply();
            // TODO steps 3 to 5: meta.way
            uplink.apply();
        }
    }
}

control Out(inout headers_t hdr, inout metadata_t meta,
            inout standard_metadata_t std) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Emit(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.ethernet); packet.emit(hdr.job); }
}

V1Switch(Parse(), Verify(), Spread(), Out(), Compute(), Emit()) main;
