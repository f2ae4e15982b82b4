// The wire format: docs/protocol.md has the same table, workers/wire.py the same fields, and
// tests/unit/workers/test_wire_matches_p4.py holds the three together.
#ifndef P4REDUCE_HEADERS
#define P4REDUCE_HEADERS

#include "sizes.p4"

#define ETHERTYPE_IPV4 0x0800
#define IP_PROTOCOL_UDP 17

// Codes of the field `width`.
#define LANES_OF_32 0
#define LANES_OF_16 1
#define LANES_OF_8 2

#define TYPE_PUSH 1
#define TYPE_PULL 2
#define TYPE_RESULT 3
#define TYPE_ASK 4

// `count` of an ASK to a child: the RESULT has been sent, and is on its way as far as this switch knows.
#define RESULT_SENT 0xffff

#define ETHERNET_BYTES 14
#define IPV4_BYTES 20
#define UDP_BYTES 8
#define INC_BYTES 20
#define EMPTY_UDP_LENGTH (UDP_BYTES + INC_BYTES)
#define LANES_UDP_LENGTH (UDP_BYTES + INC_BYTES + LANE_BYTES)

// Explicit congestion notification, RFC 3168.
#define ECN_CAPABLE 2
#define ECN_CONGESTED 3

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<6>  dscp;
    bit<2>  ecn;
    bit<16> total_length;
    bit<16> identification;
    bit<3>  flags;
    bit<13> fragment_offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header udp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> length;
    bit<16> checksum;
}

header inc_t {
    bit<4>  version;
    bit<4>  type;
    bit<1>  unused;
    bit<2>  width;          // of its lanes: 0 is 32 bits, 1 is 16, 2 is 8; not 0 in version 2 only
    bit<1>  late;           // of a RESULT: nothing of its receiver's is in it; else: the chunk may be closed
    bit<1>  resend;         // not the first time that this sender sends this packet
    bit<1>  saturated;      // some lane hit the end of its range: the sum is not exact
    bit<1>  ecn_echo;       // some contribution crossed a congested queue
    bit<1>  has_lanes;      // LANES words of 32 bits follow
    bit<16> job;
    bit<16> epoch;
    // Contributions of workers in this packet. Of an ASK to the parent: how much higher than `seq` that of the latest
    // RESULT is that has come; 0: send the RESULT in any case. Of an ASK to a child: how many switches up its
    // contribution is in, or RESULT_SENT; 0: send the contribution.
    bit<16> count;
    bit<32> seq;            // chunk sequence number of the job, goes on across epochs
    bit<32> iteration;      // training iteration: chooses the priority
    // Of an ASK downwards these two are one field, the children that are awaited.
    bit<8>  exponent;       // block floating point: the largest exponent, biased by 127
    bit<24> token;          // what a child and its parent show each other; 0 where they have none
}

#define DECLARE_WORD(i) bit<2048> w##i;
header lanes_t {
    FOR_EACH_WORD(DECLARE_WORD)
}

// What a refused packet is sent to the controller with.
@controller_header("packet_in")
header packet_in_t {
    bit<9>  ingress_port;
    bit<7>  padding;
    bit<8>  reason;
}

struct headers_t {
    packet_in_t packet_in;
    ethernet_t  ethernet;
    ipv4_t      ipv4;
    udp_t       udp;
    inc_t       inc;
    lanes_t     lanes;
}

// A slot's state as it is packed into one 128-bit register cell; most significant first.
struct slot_t {
    bit<32> generation;
    bit<32> seq;
    bit<32> bitmap;         // children whose contribution is in
    bit<16> count;
    bit<8>  exponent;
    bit<1>  pull;           // opened by PULL, else by PUSH
    bit<1>  has_lanes;      // contributions carry lanes
    bit<1>  result_lanes;   // the cached RESULT carries lanes
    bit<1>  saturated;
    bit<1>  ecn;
    bit<1>  done;           // the RESULT is cached
    bit<2>  width;          // of the lanes, as in the header
}

#define DECLARE_OVERFLOW(i) bit<2048> overflow_##i;

struct metadata_t {
    // From table `settings`.
    bit<19> ecn_threshold;
    bit<32> sample_mask;
    // From table `local_address`.
    bit<1>  local;
    // From table `job`.
    bit<1>  root;
    bit<32> generation;
    bit<32> base;
    bit<32> slots;
    bit<32> full;
    bit<16> group;
    bit<16> stats;
    bit<9>  parent_port;
    bit<48> parent_mac;
    bit<32> parent_ip;
    bit<16> parent_udp;
    bit<24> token;          // to show to the parent
    // From table `peer`.
    bit<1>  from_parent;
    bit<1>  lowest;
    bit<32> child;
    bit<1>  forged;         // the sender's token is wrong
    // From the parser.
    bit<1>  whole;          // an INC packet of this build, with all its bytes and no others
    // Decided in the slot machine.
    bit<32> index;
    slot_t  slot;
    bit<1>  pull;
    bit<1>  ecn;
    bit<4>  reply;
    bit<16> level;          // of an ASK that leaves: how many switches up the sender's contribution is in
    bit<32> missing;        // and which children are awaited there
    bit<32> absent;         // children whose contributions the chunk has been closed without
    bit<1>  overdue;        // it may be
    bit<1>  lost;           // the RESULT of the chunk that is asked for is not on its way
    FOR_EACH_WORD(DECLARE_OVERFLOW)     // the sign bit of each lane that overflowed
    bit<8>  refused;        // a REFUSED_... reason, 0 = not refused
}

#endif
