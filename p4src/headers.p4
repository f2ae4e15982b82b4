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

// Copies of a multicast: to a child, to the parent, a question to a child beside its RESULT.
#define COPY_CHILD 0
#define COPY_PARENT 1
#define COPY_QUESTION 2

// A frame without lanes that asks for the chunk `before` in any case, in place of whatever leaves; all but its addresses
// and what it shows.
#define ASK_FOR_BEFORE \
    hdr.ipv4.identification = 0; \
    hdr.ipv4.total_length   = IPV4_BYTES + EMPTY_UDP_LENGTH; \
    hdr.udp.length          = EMPTY_UDP_LENGTH; \
    hdr.inc.version         = INC_VERSION; \
    hdr.inc.gap             = 1; \
    hdr.inc.type            = TYPE_ASK; \
    hdr.inc.width           = LANES_OF_32; \
    hdr.inc.late            = 0; \
    hdr.inc.resend          = 1; \
    hdr.inc.saturated       = 0; \
    hdr.inc.ecn_echo        = 0; \
    hdr.inc.has_lanes       = 0; \
    hdr.inc.count           = 0; \
    hdr.inc.seq             = meta.before; \
    hdr.lanes.setInvalid();

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
    bit<1>  gap;            // of an ASK: a later frame has come, so that only the answer itself is of use
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
    bit<16> questions;      // the group with a question beside a sum or a RESULT; 0: none
    bit<16> again;          // chunks after which one that has not come is asked for again; 0: never
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
    bit<1>  gap;            // a frame that left before this one on its link was lost
    bit<32> before;         // and was of this chunk
    bit<1>  known;          // whose slot the job has used
    bit<1>  ordered;        // no frame of the job is known to have overtaken another
    bit<16> behind;         // of a frame that leaves: how far the one before it on its link is behind it
    bit<1>  asks;           // of a multicast: one copy is a question for the chunk `before`
    // From table `replica`.
    bit<2>  copy;           // a COPY_...
    bit<32> copy_child;     // whose it is
    bit<1>  unwanted;       // this copy is dropped
    FOR_EACH_WORD(DECLARE_OVERFLOW)     // the sign bit of each lane that overflowed
    bit<8>  refused;        // a REFUSED_... reason, 0 = not refused
}

#endif
