// A tree over hops that lose nothing, as SHARP's (Graham et al., "Scalable Hierarchical Aggregation Protocol (SHArP)",
// COMHPC 2016; streaming aggregation, ISC 2020). Each contribution comes once, so a slot has one cell, keeps no result,
// and is free as soon as its sum has left: no child can ask for it again.
#include "common.p4"

control Tree(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Route() route;
    register<bit<32>>(CELLS) seen;       // children that are in
    register<bit<8>>(CELLS) exponents;
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
        hdr.ipv4.src = self;
        if (child == 0) { return; }      // a result, to all below
        bit<32> index = base + (bit<32>)hdr.tag.slot;
        bit<32> in_;
        bit<8> exponent;
        bit<2048> held;
        seen.read(in_, index);
        exponents.read(exponent, index);
        exponent = in_ == 0 || hdr.tag.exponent > exponent ? hdr.tag.exponent : exponent;
        if (hdr.lanes.isValid()) {
            if (in_ == 0) { FOR_EACH_WORD(STORE_LANES) } else { FOR_EACH_WORD(ADD_LANES) }
        }
        in_ = in_ | child;
        seen.write(index, in_ == all ? 0 : in_);
        exponents.write(index, exponent);
        hdr.tag.exponent = exponent;
        if (in_ != all) {
            mark_to_drop(std);
        } else if (parent != 0) {
            std.mcast_grp = 0;
            hdr.ipv4.dst = parent;
            route.apply(hdr, std);
        } else {
            hdr.tag.kind = DOWN;
        }
    }
}

SYSTEM(Tree)
