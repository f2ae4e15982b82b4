// Headers whose field of variable length begins within a byte; and fields of variable length in elements of a stack that
// only the packet names. BMv2 1.15 dies of the latter (bits 3 and 4 of `op`), whichever side of the assignment they are on.
#include <core.p4>
#include <v1model.p4>

header order_t { bit<8> length; bit<8> op; }
header half_t { bit<4> first; varbit<96> middle; bit<4> last; }
header odd_t { bit<12> first; bit<8> second; varbit<64> middle; int<9> third; bit<3> last; }
header whole_t { bit<8> first; varbit<64> last; }

struct headers_t {
    order_t    order;
    half_t     half;
    odd_t      odd;
    whole_t[3] whole;
}

struct metadata_t { }

parser UnalignedParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.order);
        transition select(hdr.order.op[0:0]) {
            0: parse_half;
            1: parse_odd;
        }
    }
    state parse_half {
        packet.extract(hdr.half, (bit<32>)hdr.order.length);
        transition parse_odd;
    }
    state parse_odd {
        packet.extract(hdr.odd, (bit<32>)(hdr.order.length & 0xf8));
        transition select(hdr.order.op[1:1]) {
            0: accept;
            1: parse_whole;
        }
    }
    state parse_whole {
        packet.extract(hdr.whole.next, 16);
        packet.extract(hdr.whole.next, (bit<32>)(hdr.order.length & 0x3f));
        packet.extract(hdr.whole.next, 8);
        transition accept;
    }
}

control UnalignedVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }
control UnalignedUpdate(inout headers_t hdr, inout metadata_t meta) { apply { } }

control UnalignedIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        if (hdr.order.op[2:2] == 1) {
            hdr.half.first = hdr.half.first + 1;
            hdr.half.last = hdr.half.last + 3;
            hdr.odd.first = hdr.odd.first + 1;
            hdr.odd.third = hdr.odd.third - 1;
            hdr.odd.last = hdr.odd.last + 1;
        }
        bit<32> index = (bit<32>)(hdr.order.op[7:6] & 1);
        if (hdr.order.op[3:3] == 1) { hdr.whole[0].last = hdr.whole[index].last; }
        if (hdr.order.op[4:4] == 1) { hdr.whole[index].last = hdr.whole[2].last; }
        if (hdr.order.op[5:5] == 1) { hdr.odd.setInvalid(); }
    }
}

control UnalignedEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply { } }
control UnalignedDeparser(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(UnalignedParser(), UnalignedVerify(), UnalignedIngress(), UnalignedEgress(), UnalignedUpdate(),
    UnalignedDeparser()) main;
