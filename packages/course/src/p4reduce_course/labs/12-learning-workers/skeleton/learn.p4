// Lab 12: learning workers. Write what is missing; README.md, steps 3 to 6.
#include <core.p4>
#include <v1model.p4>

const bit<16> HELLO_TYPE = {{hello_type}};
const bit<16> EVERYWHERE = {{group}};        // the multicast group of all ports

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header hello_t { bit<16> job; bit<8> worker; }
struct headers_t { ethernet_t ethernet; hello_t hello; }
struct metadata_t {
    bit<9> port;                        // where known has the source
    bit<8> worker;                      // and its number
}
struct learn_t { bit<48> mac; bit<9> port; bit<8> worker; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;              // TODO step 3
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Learn(inout headers_t hdr, inout metadata_t meta,
              inout standard_metadata_t std) {
    action at(bit<9> port, bit<8> worker) {
        meta.port = port;
        meta.worker = worker;
    }
    table known {                       // filled by the controller
        key = { hdr.ethernet.src: exact; }
        actions = { at; NoAction; }
        default_action = NoAction();
    }
    action to(bit<9> port) { std.egress_spec = port; }
    table forward {                     // filled by the controller
        key = { hdr.ethernet.dst: exact; }
        actions = { to; NoAction; }
        default_action = NoAction();
    }

    apply {
        mark_to_drop(std);              // TODO steps 3 to 6
    }
}

control Out(inout headers_t hdr, inout metadata_t meta,
            inout standard_metadata_t std) {
    apply {}                            // TODO step 4
}
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Emit(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.ethernet); packet.emit(hdr.hello); }
}

V1Switch(Parse(), Verify(), Learn(), Out(), Compute(), Emit()) main;
