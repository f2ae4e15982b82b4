// Random numbers: what can be said of them without knowing them.
#include <core.p4>
#include <v1model.p4>

header work_t {
    bit<8>  port;
    bit<24> a;
    bit<3>  b;
    bit<5>  c;
    bit<64> d;
}

header found_t {
    bit<8>  one;
    bit<24> other;
    bit<8>  inside;
}

struct headers_t {
    found_t found;
    work_t  work;
}

struct metadata_t { }

parser DrawsParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.work);
        transition accept;
    }
}

control DrawsVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }
control DrawsUpdate(inout headers_t hdr, inout metadata_t meta) { apply { } }

control DrawsIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (!hdr.work.isValid()) {
            mark_to_drop(std);
            exit;
        }
        std.egress_spec = (bit<9>)(hdr.work.port & 7);
        hdr.found.setValid();
        random(hdr.found.one, hdr.work.port, hdr.work.port);
        random(hdr.found.other, hdr.work.a, hdr.work.a);
        bit<64> drawn;
        random(drawn, hdr.work.d >> 1, (hdr.work.d >> 1) + 9);
        hdr.found.inside = 0;
        if (drawn >= hdr.work.d >> 1 && drawn <= (hdr.work.d >> 1) + 9) { hdr.found.inside = 1; }
    }
}

control DrawsEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply { } }

control DrawsDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.found);
        packet.emit(hdr.work);
    }
}

V1Switch(DrawsParser(), DrawsVerify(), DrawsIngress(), DrawsEgress(), DrawsUpdate(), DrawsDeparser()) main;
