// What frames alone do not show: colors of meters that refill, with the time that they go by; contents of digests; and
// register cells of more than 63 bits.
#include <core.p4>
#include <v1model.p4>

const bit<8> BY_PACKETS = 1;
const bit<8> BY_BYTES = 2;
const bit<8> TELL = 3;
const bit<8> STORE = 4;
const bit<8> LOAD = 5;

header work_t {
    bit<8>   what;
    bit<8>   index;
    bit<64>  narrow;
    bit<160> wide;
    bit<48>  time;
    bit<8>   color;
}

struct headers_t { work_t work; }

struct metadata_t { }

struct note_t {
    bit<64>  narrow;
    bit<9>   port;
    bit<8>   index;
    bit<160> wide;
    bit<3>   low;
}

parser ToldParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.work);
        transition accept;
    }
}

control ToldVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }
control ToldUpdate(inout headers_t hdr, inout metadata_t meta) { apply { } }

control ToldIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    meter(8, MeterType.packets) by_packets;
    meter(8, MeterType.bytes) by_bytes;
    register<bit<64>>(8) narrow;
    register<bit<160>>(8) wide;

    apply {
        std.egress_spec = 2;
        hdr.work.time = std.ingress_global_timestamp;
        bit<32> index = (bit<32>)(hdr.work.index & 7);
        bit<2> color = 3;
        if (hdr.work.what == BY_PACKETS) {
            by_packets.execute_meter(index, color);
        } else if (hdr.work.what == BY_BYTES) {
            by_bytes.execute_meter(index, color);
        } else if (hdr.work.what == TELL) {
            note_t note = { hdr.work.narrow, std.ingress_port, hdr.work.index, hdr.work.wide, hdr.work.narrow[2:0] };
            digest<note_t>(1, note);
        } else if (hdr.work.what == STORE) {
            narrow.write(index, hdr.work.narrow);
            wide.write(index, hdr.work.wide);
        } else if (hdr.work.what == LOAD) {
            narrow.read(hdr.work.narrow, index);
            wide.read(hdr.work.wide, index);
        }
        hdr.work.color = (bit<8>)color;
    }
}

control ToldEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply { } }
control ToldDeparser(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(ToldParser(), ToldVerify(), ToldIngress(), ToldEgress(), ToldUpdate(), ToldDeparser()) main;
