// INC packets addressed to this switch: who sent it, which slots, and where the answer goes.
#ifndef P4REDUCE_AGGREGATE
#define P4REDUCE_AGGREGATE

#include "headers.p4"
#include "refuse.p4"
#include "slot.p4"

control Aggregate(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    // Accepted packets by job, type and resend: 8 * stats + 2 * type + resend.
    counter(STATS_JOBS * STATS_PER_JOB, CounterType.packets_and_bytes) job_received;
    direct_counter(CounterType.packets_and_bytes) peer_received;
    Slot() slot;

    action root(bit<32> generation, bit<32> base, bit<32> slots, bit<32> full, bit<16> group, bit<16> stats) {
        meta.root = 1;
        meta.generation = generation;
        meta.base = base;
        meta.slots = slots;
        meta.full = full;
        meta.group = group;
        meta.stats = stats;
    }

    action inner(bit<32> generation, bit<32> base, bit<32> slots, bit<32> full, bit<16> group, bit<16> stats,
                 bit<9> parent_port, bit<48> parent_mac, bit<32> parent_ip, bit<16> parent_udp) {
        meta.root = 0;
        meta.generation = generation;
        meta.base = base;
        meta.slots = slots;
        meta.full = full;
        meta.group = group;
        meta.stats = stats;
        meta.parent_port = parent_port;
        meta.parent_mac = parent_mac;
        meta.parent_ip = parent_ip;
        meta.parent_udp = parent_udp;
    }

    table job {
        key = {
            hdr.inc.job: exact;
            hdr.inc.epoch: exact;
        }
        actions = { root; inner; @defaultonly NoAction; }
        default_action = NoAction();
        size = JOB_ENTRIES;
    }

    action child(bit<32> bit_, bit<1> lowest) {
        meta.from_parent = 0;
        meta.child = bit_;
        meta.lowest = lowest;
        peer_received.count();
    }

    action parent() {
        meta.from_parent = 1;
        peer_received.count();
    }

    action stranger() {
        peer_received.count();
    }

    // A sender is known by where its packet came in, never by what it says of itself.
    table peer {
        key = {
            std.ingress_port: exact;
            hdr.ipv4.src: exact;
            hdr.inc.job: exact;
            hdr.inc.epoch: exact;
        }
        actions = { child; parent; @defaultonly stranger; }
        default_action = stranger();
        counters = peer_received;
        size = PEER_ENTRIES;
    }

    // From this switch to a next hop: whatever the packet was, it leaves as a fresh one of ours.
    action readdress() {
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ipv4.src = hdr.ipv4.dst;
        hdr.ipv4.ttl = 64;
        hdr.ipv4.ecn = ECN_CAPABLE;
        hdr.ipv4.identification = 0;
        hdr.udp.checksum = 0;
    }

    action to_parent() {
        readdress();
        hdr.ethernet.dst = meta.parent_mac;
        hdr.ipv4.dst = meta.parent_ip;
        hdr.udp.src_port = INC_UDP_PORT;
        hdr.udp.dst_port = meta.parent_udp;
        std.egress_spec = meta.parent_port;
    }

    // The copies get their addresses in egress, by replication id.
    action to_children() {
        readdress();
        hdr.udp.src_port = INC_UDP_PORT;
        std.mcast_grp = meta.group;
    }

    action to_sender() {
        bit<48> mac = hdr.ethernet.src;
        bit<32> ip = hdr.ipv4.src;
        bit<16> udp = hdr.udp.src_port;
        readdress();
        hdr.ethernet.dst = mac;
        hdr.ipv4.dst = ip;
        hdr.udp.src_port = INC_UDP_PORT;
        hdr.udp.dst_port = udp;
        std.egress_spec = std.ingress_port;
    }

    action set_lengths(bit<16> udp_length) {
        hdr.udp.length = udp_length;
        hdr.ipv4.total_length = IPV4_BYTES + udp_length;
    }

    apply {
        bit<16> expected = EMPTY_UDP_LENGTH;
        if (hdr.inc.has_lanes == 1) { expected = LANES_UDP_LENGTH; }
        // Bytes after the datagram may only be Ethernet's padding to 60, which INC frames never need.
        if (!hdr.inc.isValid() || std.parser_error != error.NoError || hdr.inc.version != INC_VERSION
            || hdr.udp.length != expected || hdr.ipv4.total_length != IPV4_BYTES + expected
            || std.packet_length != (bit<32>)(ETHERNET_BYTES + IPV4_BYTES + expected)
            || hdr.lanes.isValid() != (hdr.inc.has_lanes == 1)) {
            meta.refused = REFUSED_MALFORMED;
        } else if (!job.apply().hit) {
            meta.refused = REFUSED_JOB;
        } else if (!peer.apply().hit) {
            meta.refused = REFUSED_PEER;
        } else if (meta.from_parent == 1 && hdr.inc.type != TYPE_RESULT) {
            meta.refused = REFUSED_TYPE;
        } else if (meta.from_parent == 0 && hdr.inc.type != TYPE_PUSH && hdr.inc.type != TYPE_PULL) {
            meta.refused = REFUSED_TYPE;
        } else {
            bit<32> stat = (bit<32>)(meta.stats ++ hdr.inc.type[1:0] ++ hdr.inc.resend);
            slot.apply(hdr, meta, std);
            if (meta.refused == 0) {
                job_received.count(stat);
                if (hdr.lanes.isValid()) { set_lengths(LANES_UDP_LENGTH); }
                else { set_lengths(EMPTY_UDP_LENGTH); }
                if (meta.reply == REPLY_UP || meta.reply == REPLY_UP_AGAIN) { to_parent(); }
                else if (meta.reply == REPLY_DOWN) { to_children(); }
                else if (meta.reply == REPLY_REPLAY) { to_sender(); }
                else { mark_to_drop(std); }     // taken in; nothing leaves yet
            }
        }
    }
}

#endif
