// Lab 02: a header of your own.
// Write what is missing; README.md, steps 3 to 6.
#include <core.p4>
#include <v1model.p4>

const bit<16> ETHER_TYPE = 16w{{ether_type}};

header ethernet_t { bit<48> dst; bit<48> src; bit<16> ether_type; }

header hop_t {
    // TODO step 3: five fields, in the order of the table
}

header value_t { bit<32> total; }

struct headers_t { ethernet_t ethernet; hop_t hop; value_t value; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        // TODO step 4: select on the EtherType
        transition accept;
    }
    // TODO step 4: two more states
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Rules(inout headers_t hdr, inout metadata_t meta,
              inout standard_metadata_t std) {
    apply {
        if (std.parser_error != error.NoError) {
            mark_to_drop(std);              // cut short
        } else if (!hdr.hop.isValid()) {
            std.egress_spec = {{other_port}};    // not ours: goes on unchanged
        } else {
            std.egress_spec = {{hop_port}};
            // TODO step 5: the four rules
        }
    }
}

control Out(inout headers_t hdr, inout metadata_t meta,
            inout standard_metadata_t std) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Emit(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        // TODO step 6: the other two
    }
}

V1Switch(Parse(), Verify(), Rules(), Out(), Compute(), Emit()) main;
