#include <core.p4>
#include <v1model.p4>

header label_t { bit<8> port; bit<8> ttl; bit<16> seen; }
struct headers_t { label_t label; }
struct metadata_t {}

parser P(packet_in p, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { p.extract(h.label); transition accept; }
}
control Verify(inout headers_t h, inout metadata_t m) { apply {} }
control Compute(inout headers_t h, inout metadata_t m) { apply {} }

control Count(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    register<bit<16>>(256) seen;
    apply {
        if (h.label.isValid() && h.label.ttl > 1) {
            seen.read(h.label.seen, (bit<32>)h.label.port);
            h.label.seen = h.label.seen + 1;
            seen.write((bit<32>)h.label.port, h.label.seen);
            h.label.ttl = h.label.ttl - 1;
            s.egress_spec = (bit<9>)h.label.port;
        } else {
            mark_to_drop(s);
        }
    }
}
control Out(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply {} }
control Emit(packet_out p, in headers_t h) { apply { p.emit(h.label); } }

V1Switch(P(), Verify(), Count(), Out(), Compute(), Emit()) main;
