// SwitchML: a pool of slots with two versions (Sapio et al., "Scaling Distributed Machine Learning with In-Network
// Aggregation", NSDI 2021, algorithm 3), on trees as in its section on scaling beyond a rack.
//
// A slot has two cells. A worker's packet of version v may begin anew in cell v only when all workers have the result of
// version 1 - v before, since each has sent version v in answer to it: so cell 1 - v can still answer a late one.
//
//   from a child      newer seq than the cell's          store
//                     same seq, child not in             add
//                     same seq, child in, done           the result, to this child alone
//                     same seq, child in, all are in     the partial sum, to the parent once more
//   from the parent   same seq, all are in, not done     store, done, to all children
//   anything else                                        dropped
//
// All in: at the root done, and to all children; elsewhere to the parent. The seq in a cell is an addition: links of the
// paper do not overtake, and here a copy may come a round late.
//
// With BLOCKS this is OmniReduce's aggregator with loss recovery (Fei et al., "Efficient Sparse Collective Communication
// and its application to Accelerate Distributed Deep Learning", SIGCOMM 2021, algorithm 2): packets say which block each
// worker has next, the result the nearest of all, and who has nothing in a block sends a packet without lanes.
//
// With MARKS a result says whether any contribution crossed a congested queue, as PANAMA's (panama.p4).
#include "common.p4"

control Pool(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Route() route;
    register<bit<32>>(CELLS) seqs;
    register<bit<32>>(CELLS) seen;       // children that are in
    register<bit<8>>(CELLS) exponents;   // the largest, for the next of this slot
    register<bit<1>>(CELLS) done;
    register<bit<1>>(CELLS) full;        // has lanes
#ifdef BLOCKS
    register<bit<32>>(CELLS) nexts;      // the nearest next block, whose exponent it is
#endif
#ifdef MARKS
    register<bit<1>>(CELLS) marks;
#endif
    FOR_EACH_WORD(DECLARE_LANES)

    bit<32> child = 0;
    bit<32> all = 0;
    bit<32> base = 0;
    bit<32> parent = 0;                  // its address; 0 at the root
    bit<32> self = 0;

    action contribution(bit<32> child_, bit<32> all_, bit<32> base_, bit<32> parent_, bit<32> self_, bit<16> group) {
        child = child_; all = all_; base = base_; parent = parent_; self = self_;
        std.mcast_grp = group;
    }
    action result(bit<32> all_, bit<32> base_, bit<32> parent_, bit<32> self_, bit<16> group) {
        contribution(0, all_, base_, parent_, self_, group);
    }
    // Children and the parent of each job.
    table neighbour {
        key = { hdr.ipv4.dst: exact; hdr.ipv4.src: exact; hdr.tag.job: exact; }
        actions = { contribution; result; @defaultonly NoAction; }
        default_action = NoAction();
        size = 8192;
    }

    apply {
        if (!hdr.tag.isValid() || !neighbour.apply().hit) {
            route.apply(hdr, std);
            return;
        }
        bit<32> index = base + (bit<32>)(hdr.tag.slot ++ hdr.tag.version);
        bit<32> seq;
        bit<32> in_;
        bit<8> exponent;
        bit<1> is_done;
        bit<1> has_lanes;
        bit<2048> held;
        bit<1> again = 0;                // a sum that has left before, for who lacks it
        seqs.read(seq, index);
        seen.read(in_, index);
        exponents.read(exponent, index);
        done.read(is_done, index);
        full.read(has_lanes, index);
#ifdef BLOCKS
        bit<32> nearest;
        nexts.read(nearest, index);
#endif
#ifdef MARKS
        bit<1> mark;
        marks.read(mark, index);
        bit<1> own = hdr.tag.ecn_echo | (bit<1>)(hdr.ipv4.ecn == ECN_CONGESTED);
        // A cell that begins anew forgets its marks.
        mark = child != 0 && hdr.tag.seq != seq ? own : mark | own;
#endif
        if (child == 0) {
            if (hdr.tag.kind != DOWN || hdr.tag.seq != seq || in_ != all || is_done == 1) { mark_to_drop(std); return; }
            is_done = 1;
            has_lanes = (bit<1>)hdr.lanes.isValid();
            exponent = hdr.tag.exponent;
#ifdef BLOCKS
            nearest = hdr.tag.next;
#endif
            if (has_lanes == 1) { FOR_EACH_WORD(STORE_LANES) }
        } else if (hdr.tag.kind == UP && hdr.tag.seq != seq && (hdr.tag.seq - seq)[31:31] == 0) {
            seq = hdr.tag.seq;
            in_ = child;
            exponent = hdr.tag.exponent;
            is_done = (bit<1>)(in_ == all && parent == 0);
            has_lanes = (bit<1>)hdr.lanes.isValid();
#ifdef BLOCKS
            nearest = hdr.tag.next;
#endif
            if (has_lanes == 1) { FOR_EACH_WORD(STORE_LANES) }
        } else if (hdr.tag.kind != UP || hdr.tag.seq != seq) {
            mark_to_drop(std);
            return;
        } else if ((in_ & child) == 0) {
            in_ = in_ | child;
#ifdef BLOCKS
            // The exponent is that of the nearest block, of all who have something in it.
            exponent = hdr.tag.next > nearest || (hdr.tag.next == nearest && exponent > hdr.tag.exponent)
                ? exponent : hdr.tag.exponent;
            nearest = hdr.tag.next < nearest ? hdr.tag.next : nearest;
#else
            exponent = exponent > hdr.tag.exponent ? exponent : hdr.tag.exponent;
#endif
            is_done = (bit<1>)(in_ == all && parent == 0);
            if (hdr.lanes.isValid()) {
                if (has_lanes == 0) { FOR_EACH_WORD(STORE_LANES) } else { FOR_EACH_WORD(ADD_LANES) }
                has_lanes = 1;
            }
        } else if (in_ != all) {
            mark_to_drop(std);
            return;
        } else {
            again = 1;
        }
        if (again == 0) {
            seqs.write(index, seq);
            seen.write(index, in_);
            exponents.write(index, exponent);
            done.write(index, is_done);
            full.write(index, has_lanes);
#ifdef BLOCKS
            nexts.write(index, nearest);
#endif
#ifdef MARKS
            marks.write(index, mark);
#endif
            if (in_ != all) { mark_to_drop(std); return; }
        }
        hdr.tag.resend = again;
        hdr.tag.exponent = exponent;
#ifdef BLOCKS
        hdr.tag.next = nearest;
#endif
#ifdef MARKS
        hdr.tag.ecn_echo = mark;
        hdr.ipv4.ecn = 0;
#endif
        if (has_lanes == 1) { WITH_LANES FOR_EACH_WORD(LOAD_LANES) } else { WITHOUT_LANES }
        hdr.tag.kind = is_done == 1 ? (bit<4>)DOWN : UP;
        if (is_done == 1 && again == 0) {            // to all, by the group
            hdr.ipv4.src = self;
        } else {
            std.mcast_grp = 0;
            hdr.ipv4.dst = is_done == 1 ? hdr.ipv4.src : parent;
            hdr.ipv4.src = self;
            route.apply(hdr, std);
        }
    }
}

SYSTEM(Pool)
