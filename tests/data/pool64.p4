// A pool of slots with 64 lanes that a single pass of a match-action pipeline can run: each register is accessed once.
//
// What is left out beside p4src/: generations, exponents, narrow lanes, deadlines, replays from a slot that is done. A
// slot's bitmap is read and written at once; a pair of lanes is stored by the first child, and added to by the others.
#include <core.p4>
#include <v1model.p4>

#define SLOTS 4096
#define EACH_PAIR(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) \
    X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)
#define FIELD(n) bit<64> pair_##n;
#define REGISTER(n) register<bit<64>>(SLOTS) lanes_##n;
#define ADD(n) { \
        bit<64> sum; \
        lanes_##n.read(sum, meta.slot); \
        if (meta.first == 1) { sum = hdr.inc.pair_##n; } \
        else { sum = (sum[63:32] + hdr.inc.pair_##n[63:32]) ++ (sum[31:0] + hdr.inc.pair_##n[31:0]); } \
        lanes_##n.write(meta.slot, sum); \
        hdr.inc.pair_##n = sum; \
    }

header inc_t {
    bit<32> slot;
    bit<32> child;   // one bit
    bit<16> job;
    EACH_PAIR(FIELD)
}
struct headers_t { inc_t inc; }
struct metadata_t { bit<32> slot; bit<32> seen; bit<32> now; bit<32> full; bit<1> first; bit<16> group; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start { packet.extract(hdr.inc); transition accept; }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply { } }

control Pool(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<32>>(SLOTS) bitmaps;
    EACH_PAIR(REGISTER)

    action found(bit<32> full, bit<16> group) { meta.full = full; meta.group = group; }
    table job { key = { hdr.inc.job: exact; } actions = { found; } size = 1024; }

    apply {
        meta.slot = hdr.inc.slot;
        job.apply();
        bitmaps.read(meta.seen, meta.slot);
        meta.now = meta.seen | hdr.inc.child;
        bitmaps.write(meta.slot, meta.now);
        if (meta.seen & hdr.inc.child == 0) {
            meta.first = (bit<1>)(meta.seen == 0);
            EACH_PAIR(ADD)
            if (meta.now == meta.full) { std.mcast_grp = meta.group; }
        }
    }
}

control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply { } }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply { } }
control Emit(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.inc); } }
V1Switch(Parse(), Verify(), Pool(), Leave(), Compute(), Emit()) main;
