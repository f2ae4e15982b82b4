// The hashes whose polynomial a target may be told: crc16_custom and crc32_custom, as they are when nobody tells.
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
    bit<16> first;
    bit<32> second;
    bit<16> third;
    bit<32> fourth;
}

struct headers_t {
    found_t found;
    work_t  work;
}

struct metadata_t { }

parser HashesParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.work);
        transition accept;
    }
}

control HashesVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }
control HashesUpdate(inout headers_t hdr, inout metadata_t meta) { apply { } }

control HashesIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (!hdr.work.isValid()) {
            mark_to_drop(std);
            exit;
        }
        std.egress_spec = (bit<9>)(hdr.work.port & 7);
        hdr.found.setValid();
        hash(hdr.found.first, HashAlgorithm.crc16_custom, 16w0, { hdr.work.a, hdr.work.d }, 17w65536);
        hash(hdr.found.second, HashAlgorithm.crc32_custom, 32w0, { hdr.work.b, hdr.work.c, hdr.work.d }, 33w4294967296);
        hash(hdr.found.third, HashAlgorithm.crc16_custom, 16w7, { hdr.work.b }, 17w1000);
        hash(hdr.found.fourth, HashAlgorithm.crc32_custom, hdr.work.d[31:0], { hdr.work.a }, hdr.work.d[63:32]);
    }
}

control HashesEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply { } }

control HashesDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.found);
        packet.emit(hdr.work);
    }
}

V1Switch(HashesParser(), HashesVerify(), HashesIngress(), HashesEgress(), HashesUpdate(), HashesDeparser()) main;
