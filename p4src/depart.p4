// Egress: the addresses of RESULT copies, congestion marks, and what each link is given.
#ifndef P4REDUCE_DEPART
#define P4REDUCE_DEPART

#include "headers.p4"

control Depart(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    // INC packets sent by port and resend: 2 * port + resend.
    counter(1024, CounterType.packets_and_bytes) link_sent;
    // INC packets sent from this switch's slots, by job, type and resend: 8 * stats + 2 * (type mod 4) + resend.
    counter(STATS_JOBS * STATS_PER_JOB, CounterType.packets_and_bytes) job_sent;

    action address(bit<48> mac, bit<32> ip, bit<16> udp) {
        hdr.ethernet.dst = mac;
        hdr.ipv4.dst = ip;
        hdr.udp.dst_port = udp;
    }

    // The child's token; what leaves else is a WAIT, which has a mask there.
    action address_with_token(bit<48> mac, bit<32> ip, bit<16> udp, bit<24> token) {
        address(mac, ip, udp);
        hdr.inc.token = hdr.inc.type == TYPE_RESULT ? token : hdr.inc.token;
    }

    // Also whether this child was left out by a deadline, in whatever leaves; only a RESULT's receiver looks.
    action address_or_late(bit<48> mac, bit<32> ip, bit<16> udp, bit<24> token, bit<32> bit_) {
        address_with_token(mac, ip, udp, token);
        hdr.inc.late = (bit<1>)((meta.absent & bit_) != 0);
        meta.copy_child = bit_;
    }

    action address_question(bit<48> mac, bit<32> ip, bit<16> udp, bit<32> bit_) {
        address(mac, ip, udp);
        meta.copy = COPY_QUESTION;
        meta.copy_child = bit_;
    }

    action address_parent(bit<48> mac, bit<32> ip, bit<16> udp) {
        address(mac, ip, udp);
        meta.copy = COPY_PARENT;
    }

    // One entry for each child of each (job, epoch): two children, or child and parent, may share a port.
    table replica {
        key = { std.egress_rid: exact; }
        actions = {
            address; address_with_token; address_or_late; address_question; address_parent; @defaultonly NoAction;
        }
        default_action = NoAction();
        size = REPLICA_ENTRIES;
    }

    action ask_child() {
        hdr.inc.exponent = meta.child[31:24];
        hdr.inc.token = meta.child[23:0];
        ASK_FOR_BEFORE
    }

    action ask_parent() {
        hdr.inc.exponent = 0;
        hdr.inc.token = meta.token;
        ASK_FOR_BEFORE
    }

    apply {
        if (std.egress_port != CPU_PORT) {
            if (std.egress_rid != 0) {
                replica.apply();
                if (meta.asks == 1) {
                    if (meta.from_parent == 1) {
                        if (meta.copy == COPY_PARENT) { ask_parent(); }
                    } else if (meta.copy == COPY_QUESTION || (meta.copy == COPY_CHILD && meta.reply == REPLY_UP)) {
                        if (meta.copy_child == meta.child) { ask_child(); }
                        else { meta.unwanted = 1; }
                    }
                }
            }
            if (hdr.ipv4.isValid() && hdr.ipv4.ecn != 0 && std.enq_qdepth >= meta.ecn_threshold) {
                hdr.ipv4.ecn = ECN_CONGESTED;
            }
            if (meta.unwanted == 1) {
                mark_to_drop(std);
            } else if (hdr.inc.isValid()) {
                link_sent.count((bit<32>)(std.egress_port ++ hdr.inc.resend));
                if (meta.local == 1) {
                    job_sent.count((bit<32>)(meta.stats ++ hdr.inc.type[1:0] ++ hdr.inc.resend));
                }
            }
        }
    }
}

#endif
