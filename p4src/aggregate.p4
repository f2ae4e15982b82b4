// INC packets addressed to this switch: who sent it, which slots, and where the answer goes.
#ifndef P4REDUCE_AGGREGATE
#define P4REDUCE_AGGREGATE

#include "headers.p4"
#include "refuse.p4"
#include "slot.p4"

control Aggregate(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    // Accepted packets by job, type and resend: 8 * stats + 2 * (type mod 4) + resend; ASK is 4.
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

    action inner_with_token(bit<32> generation, bit<32> base, bit<32> slots, bit<32> full, bit<16> group,
                            bit<16> stats, bit<9> parent_port, bit<48> parent_mac, bit<32> parent_ip,
                            bit<16> parent_udp, bit<24> token) {
        inner(generation, base, slots, full, group, stats, parent_port, parent_mac, parent_ip, parent_udp);
        meta.token = token;
    }

    // With a group in which a question goes beside what else leaves.
    action root_with_questions(bit<32> generation, bit<32> base, bit<32> slots, bit<32> full, bit<16> group,
                               bit<16> stats, bit<16> questions, bit<16> again) {
        root(generation, base, slots, full, group, stats);
        meta.questions = questions;
        meta.again = again;
    }

    action inner_with_questions(bit<32> generation, bit<32> base, bit<32> slots, bit<32> full, bit<16> group,
                                bit<16> stats, bit<9> parent_port, bit<48> parent_mac, bit<32> parent_ip,
                                bit<16> parent_udp, bit<24> token, bit<16> questions, bit<16> again) {
        inner(generation, base, slots, full, group, stats, parent_port, parent_mac, parent_ip, parent_udp);
        meta.token = token;
        meta.questions = questions;
        meta.again = again;
    }

    table job {
        key = {
            hdr.inc.job: exact;
            hdr.inc.epoch: exact;
        }
        actions = {
            root; inner; inner_with_token; root_with_questions; inner_with_questions; @defaultonly NoAction;
        }
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

    // Who has never seen this neighbour's packets does not know its token. Of a (job, epoch) without tokens, which has
    // the actions above, the field may hold anything.
    action child_with_token(bit<32> bit_, bit<1> lowest, bit<24> token) {
        child(bit_, lowest);
        meta.forged = (bit<1>)(hdr.inc.token != token);
    }

    // A parent's ASK has a mask in the place of its token: all that it brings about is a sum once more, or a WAIT.
    action parent_with_token(bit<24> token) {
        parent();
        meta.forged = (bit<1>)(hdr.inc.token != token && hdr.inc.type == TYPE_RESULT);
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
        actions = { child; parent; child_with_token; parent_with_token; @defaultonly stranger; }
        default_action = stranger();
        counters = peer_received;
        size = PEER_ENTRIES;
    }

    // Version and width are those of what came, or the slot machine has set them: they are the same where lanes add up.
    // Whatever the packet was, it is counted as what it came as, and leaves as a fresh one of ours: the slot speaks,
    // not the packet that happened to come last.
    action speak(bit<4> type, bit<1> has_lanes, bit<1> resend) {
        job_received.count((bit<32>)(meta.stats ++ hdr.inc.type[1:0] ++ hdr.inc.resend));
        hdr.ethernet.src        = hdr.ethernet.dst;
        hdr.ipv4.src            = hdr.ipv4.dst;
        hdr.ipv4.ttl            = 64;
        hdr.ipv4.ecn            = ECN_CAPABLE;
        hdr.ipv4.identification = meta.behind;
        hdr.udp.src_port        = INC_UDP_PORT;
        hdr.udp.checksum        = 0;
        hdr.inc.type            = type;
        hdr.inc.has_lanes       = has_lanes;
        hdr.inc.gap             = 0;
        hdr.inc.resend          = resend;
        hdr.inc.saturated       = meta.slot.saturated;
        hdr.inc.ecn_echo        = meta.slot.ecn;
        hdr.inc.count           = meta.slot.count;
        hdr.inc.exponent        = meta.slot.exponent;
        hdr.udp.length          = EMPTY_UDP_LENGTH + LANE_BYTES * (bit<16>)has_lanes;
        hdr.ipv4.total_length   = IPV4_BYTES + hdr.udp.length;
    }

    // An ASK or WAIT of our own in place of the one that came, which had no lanes either. Always a resend: first
    // transmissions are counted apart.
    action ask() {
        job_received.count((bit<32>)(meta.stats ++ hdr.inc.type[1:0] ++ hdr.inc.resend));
        hdr.ethernet.src        = hdr.ethernet.dst;
        hdr.ipv4.src            = hdr.ipv4.dst;
        hdr.ipv4.ttl            = 64;
        hdr.ipv4.ecn            = ECN_CAPABLE;
        hdr.ipv4.identification = 0;
        hdr.udp.src_port        = INC_UDP_PORT;
        hdr.udp.checksum        = 0;
        hdr.inc.gap             = 0;
        hdr.inc.resend          = 1;
        hdr.inc.saturated       = 0;
        hdr.inc.ecn_echo        = 0;
        hdr.inc.count           = meta.level;
        hdr.inc.exponent        = meta.missing[31:24];
        hdr.inc.token           = meta.missing[23:0];
    }

    // Taken in; nothing leaves yet.
    action wait() {
        job_received.count((bit<32>)(meta.stats ++ hdr.inc.type[1:0] ++ hdr.inc.resend));
        mark_to_drop(std);
    }

    action up(bit<1> resend) {
        speak(meta.pull == 1 ? (bit<4>)TYPE_PULL : TYPE_PUSH, meta.slot.has_lanes, resend);
        hdr.ethernet.dst = meta.parent_mac;
        hdr.ipv4.dst     = meta.parent_ip;
        hdr.udp.dst_port = meta.parent_udp;
        hdr.inc.token    = meta.token;
        std.egress_spec  = meta.parent_port;
    }

    // The copies get their addresses and tokens in egress, by replication id.
    action down() {
        speak(TYPE_RESULT, meta.slot.result_lanes, 0);
        std.mcast_grp = meta.group;
    }

    // The same with a question: each copy of this group is, in egress, what its receiver is to get, or none.
    action up_and_ask() {
        up(0);
        meta.asks = 1;
        std.mcast_grp = meta.questions;
    }

    action down_and_ask() {
        down();
        meta.asks = 1;
        std.mcast_grp = meta.questions;
    }

    // Taken in; the child is asked for the chunk before it.
    action ask_for_before() {
        job_received.count((bit<32>)(meta.stats ++ hdr.inc.type[1:0] ++ hdr.inc.resend));
        bit<48> mac = hdr.ethernet.src;
        bit<32> ip = hdr.ipv4.src;
        bit<16> udp = hdr.udp.src_port;
        hdr.ethernet.src        = hdr.ethernet.dst;
        hdr.ethernet.dst        = mac;
        hdr.ipv4.src            = hdr.ipv4.dst;
        hdr.ipv4.dst            = ip;
        hdr.ipv4.ttl            = 64;
        hdr.ipv4.ecn            = ECN_CAPABLE;
        hdr.udp.src_port        = INC_UDP_PORT;
        hdr.udp.dst_port        = udp;
        hdr.udp.checksum        = 0;
        hdr.inc.exponent        = meta.child[31:24];
        hdr.inc.token           = meta.child[23:0];
        std.egress_spec         = std.ingress_port;
        ASK_FOR_BEFORE
    }

    // Back to where the packet came from, with the token that it showed.
    action replay() {
        bit<48> mac = hdr.ethernet.src;
        bit<32> ip = hdr.ipv4.src;
        bit<16> udp = hdr.udp.src_port;
        speak(TYPE_RESULT, meta.slot.result_lanes, 1);
        hdr.ethernet.dst = mac;
        hdr.ipv4.dst     = ip;
        hdr.udp.dst_port = udp;
        std.egress_spec  = std.ingress_port;
    }

    action ask_sender() {
        bit<48> mac = hdr.ethernet.src;
        bit<32> ip = hdr.ipv4.src;
        bit<16> udp = hdr.udp.src_port;
        ask();
        hdr.ethernet.dst = mac;
        hdr.ipv4.dst     = ip;
        hdr.udp.dst_port = udp;
        std.egress_spec  = std.ingress_port;
    }

    action ask_parent() {
        ask();
        hdr.ethernet.dst = meta.parent_mac;
        hdr.ipv4.dst     = meta.parent_ip;
        hdr.udp.dst_port = meta.parent_udp;
        hdr.inc.token    = meta.token;
        std.egress_spec  = meta.parent_port;
    }

    action ask_children() {
        ask();
        std.mcast_grp = meta.group;
    }

    apply {
        if (meta.whole == 0) {
            meta.refused = REFUSED_MALFORMED;
        } else if (!job.apply().hit) {
            meta.refused = REFUSED_JOB;
        } else if (!peer.apply().hit) {
            meta.refused = REFUSED_PEER;
        } else if (meta.forged == 1 || hdr.inc.type == 0 || hdr.inc.type > TYPE_ASK
                   || ((hdr.inc.type == TYPE_RESULT) != (meta.from_parent == 1) && hdr.inc.type != TYPE_ASK)) {
            meta.refused = meta.forged == 1 ? (bit<8>)REFUSED_TOKEN : REFUSED_TYPE;
        } else {
            slot.apply(hdr, meta, std);
            if (meta.reply == REPLY_NONE) {
                if (meta.refused == 0) { if (meta.gap == 1) { ask_for_before(); } else { wait(); } }
            } else if (meta.reply == REPLY_DOWN) {
                if (meta.gap == 1 && meta.questions != 0) { down_and_ask(); } else { down(); }
            } else if (meta.reply == REPLY_UP) {
                if (meta.gap == 1 && meta.questions != 0) { up_and_ask(); } else { up(0); }
            }
            else if (meta.reply == REPLY_REPLAY) { replay(); }
            else if (meta.reply == REPLY_UP_AGAIN) { up(1); }
            else if (meta.reply == REPLY_ASK) { ask_sender(); }
            else if (meta.reply == REPLY_ASK_UP) { ask_parent(); }
            else { ask_children(); }
        }
    }
}

#endif
