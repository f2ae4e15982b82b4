// What the compared systems share: headers as long as p4reduce's own, routes, the addresses of copies, ECN, and lanes that
// add without saturation. A system includes this file, and has a control that it hands to SYSTEM(...).
#ifndef COMPARE_COMMON
#define COMPARE_COMMON
#include <core.p4>
#include <v1model.p4>

// Lanes of 32 bits in a full packet: 64 (256 bytes) or 256 (1,024 bytes). Cells: of registers.
#ifndef LANES
#define LANES 256
#endif
#ifndef CELLS
#define CELLS 8192
#endif
#if LANES == 64
#define FOR_EACH_WORD(DO) DO(0)
#else
#define FOR_EACH_WORD(DO) DO(0) DO(1) DO(2) DO(3)
#endif
#define UDP_PORT 9500
#define EMPTY_BYTES 28       // of UDP: its header and the tag
#define FULL_BYTES (EMPTY_BYTES + 4 * LANES)
#define ECN_CONGESTED 3

header ethernet_t { bit<48> dst; bit<48> src; bit<16> ether_type; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<6> dscp; bit<2> ecn; bit<16> total_length; bit<16> identification; bit<3> flags;
    bit<13> fragment_offset; bit<8> ttl; bit<8> protocol; bit<16> checksum; bit<32> src; bit<32> dst;
}
header udp_t { bit<16> src_port; bit<16> dst_port; bit<16> length; bit<16> checksum; }
header tag_t {
    bit<16> job;
    bit<4>  kind;       // up or down; what else, a system says
    bit<1>  resend;
    bit<1>  ecn_echo;
    bit<1>  collision;
    bit<1>  version;    // of a slot: which of its two cells
    bit<8>  exponent;   // biased by 127; 0: all zero
    bit<16> slot;
    bit<16> unused;
    bit<32> seq;        // counts up from 1
    bit<32> next;       // block
    bit<32> bitmap;     // of workers
}
#define WORD(i) bit<2048> w##i;
header lanes_t { FOR_EACH_WORD(WORD) }
struct headers_t { ethernet_t ethernet; ipv4_t ipv4; udp_t udp; tag_t tag; lanes_t lanes; }
struct metadata_t { bit<1> congested; }

#define UP 1
#define DOWN 2

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) { 0x0800: ipv4; default: accept; }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.ihl, hdr.ipv4.protocol) { (5, 17): udp; default: accept; }
    }
    state udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst_port, hdr.udp.length) {
            (UDP_PORT, EMPTY_BYTES): empty;
            (UDP_PORT, FULL_BYTES): full;
            default: accept;
        }
    }
    state empty { packet.extract(hdr.tag); transition accept; }
    state full { packet.extract(hdr.tag); packet.extract(hdr.lanes); transition accept; }
}

#define IPV4_FIELDS { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length, \
    hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, \
    hdr.ipv4.src, hdr.ipv4.dst }
control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { verify_checksum(hdr.ipv4.isValid(), IPV4_FIELDS, hdr.ipv4.checksum, HashAlgorithm.csum16); }
}
control Compute(inout headers_t hdr, inout metadata_t meta) {
    apply { update_checksum(hdr.ipv4.isValid(), IPV4_FIELDS, hdr.ipv4.checksum, HashAlgorithm.csum16); }
}
control Emit(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet); packet.emit(hdr.ipv4); packet.emit(hdr.udp); packet.emit(hdr.tag);
        packet.emit(hdr.lanes);
    }
}

// Towards an IPv4 destination, job by job, since jobs may take different ways. Packets of others are those of job 0.
control Route(inout headers_t hdr, inout standard_metadata_t std) {
    bit<16> job = 0;
    action leave(bit<9> port) { std.egress_spec = port; }
    action nowhere() { mark_to_drop(std); }
    table route {
        key = { hdr.ipv4.dst: exact; job: exact; }
        actions = { leave; nowhere; }
        default_action = nowhere();
        size = 16384;
    }
    apply {
        if (hdr.tag.isValid()) { job = hdr.tag.job; }
        if (hdr.ipv4.isValid()) { route.apply(); } else { nowhere(); }
    }
}

control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action address(bit<32> ip) { hdr.ipv4.dst = ip; }
    table replica { key = { std.egress_rid: exact; } actions = { address; NoAction; } default_action = NoAction(); size = 8192; }
    action mark() { hdr.ipv4.ecn = ECN_CONGESTED; }
    action threshold(bit<19> frames) { meta.congested = (bit<1>)(std.enq_qdepth >= frames); }
    table settings { actions = { threshold; } default_action = threshold(64); }
    apply {
        replica.apply();
        settings.apply();
        if (meta.congested == 1 && hdr.ipv4.isValid()) { mark(); }
    }
}

// Lanes of a cell. Addition is SIMD within a register: the top bit of each lane is kept out of the sum, so that no carry
// leaves its lane (Warren, Hacker's Delight, 2nd ed., section 2-18).
#define TWICE(x, n) ((((bit<2048>)(x)) << n) | (bit<2048>)(x))
#define LANE_PATTERN(x) TWICE(TWICE(TWICE(TWICE(TWICE(TWICE(x, 32), 64), 128), 256), 512), 1024)
const bit<2048> SIGN = LANE_PATTERN(0x80000000);
const bit<2048> REST = LANE_PATTERN(0x7fffffff);
#define DECLARE_LANES(i) register<bit<2048>>(CELLS) lanes_##i;
#define STORE_LANES(i) lanes_##i.write(index, hdr.lanes.w##i);
#define LOAD_LANES(i) lanes_##i.read(hdr.lanes.w##i, index);
#define ADD_LANES(i) lanes_##i.read(held, index); \
    hdr.lanes.w##i = ((held & REST) + (hdr.lanes.w##i & REST)) ^ ((held ^ hdr.lanes.w##i) & SIGN); \
    lanes_##i.write(index, hdr.lanes.w##i);

// The packet gets the lanes of a cell, or loses its own.
#define WITH_LANES hdr.lanes.setValid(); hdr.udp.length = FULL_BYTES; hdr.ipv4.total_length = 20 + FULL_BYTES;
#define WITHOUT_LANES hdr.lanes.setInvalid(); hdr.udp.length = EMPTY_BYTES; hdr.ipv4.total_length = 20 + EMPTY_BYTES;

#define SYSTEM(ingress) V1Switch(Parse(), Verify(), ingress(), Leave(), Compute(), Emit()) main;
#endif
