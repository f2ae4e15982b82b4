// ATP: aggregators that are found by hashing, packet by packet, and a parameter server for what finds none (Lao et al., "ATP:
// In-network Aggregation for Multi-tenant Learning", NSDI 2021, section 4). Workers send to the server; the switch of a
// worker's rack adds up what comes from its workers, that of the server's rack what comes from racks.
//
//   contribution   aggregator free                   store, drop
//                  of this (job, seq), not in yet    add; all in, or sent again: on to the server
//                  of this (job, seq), in            sent again: what there is, on to the server; else drop
//                  of another, or sent again         on to the server as it is, marked as collided
//   result         of this (job, seq)                free; to all below
//
// What is sent again frees the aggregator: from then on the server alone knows who is in. A packet that collided once is
// not added up further on. An addition: an aggregator of the same job that is `reach` behind is free, too. A copy that a
// link had delayed may have taken it when its chunk was long done, and no packet would ever free it.
#include "common.p4"

control Hashed(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Route() route;
    register<bit<16>>(CELLS) jobs;       // 0: free
    register<bit<32>>(CELLS) seqs;
    register<bit<32>>(CELLS) bitmaps;    // of workers
    register<bit<1>>(CELLS) marks;       // some contribution met a congested queue
    register<bit<32>>(2) used;           // aggregators in use, now and at most
    FOR_EACH_WORD(DECLARE_LANES)

    bit<32> all = 0;
    bit<32> reach = 0;
    bit<32> self = 0;
    bit<1> down = 0;

    action gather(bit<32> all_, bit<32> reach_, bit<32> self_) { all = all_; reach = reach_; self = self_; }
    action spread(bit<16> group, bit<32> self_) { down = 1; std.mcast_grp = group; self = self_; }
    // By where it is from: workers and lower switches of a job; and its server.
    table source {
        key = { hdr.ipv4.src: exact; hdr.tag.job: exact; hdr.tag.kind: exact; }
        actions = { gather; spread; @defaultonly NoAction; }
        default_action = NoAction();
        size = 8192;
    }

    apply {
        if (!hdr.tag.isValid() || hdr.tag.collision == 1 || !source.apply().hit) {
            route.apply(hdr, std);
            return;
        }
        bit<32> index = (bit<32>)hdr.tag.slot;
        bit<16> job;
        bit<32> seq;
        bit<32> bitmap;
        bit<1> mark;
        bit<32> now;
        bit<32> most;
        bit<2048> held;
        jobs.read(job, index);
        seqs.read(seq, index);
        used.read(now, 0);
        bit<1> same = (bit<1>)(job == hdr.tag.job && seq == hdr.tag.seq);
        if (down == 1) {
            if (hdr.ipv4.dst != self) {  // for another switch, or for a worker alone
                std.mcast_grp = 0;
                route.apply(hdr, std);
            } else if (same == 1) {
                jobs.write(index, 0);
                used.write(0, now - 1);
            }
            return;
        }
        bitmaps.read(bitmap, index);
        marks.read(mark, index);
        bit<1> own = hdr.tag.ecn_echo | (bit<1>)(hdr.ipv4.ecn == ECN_CONGESTED);
        bit<1> free = (bit<1>)(job == 0 || (job == hdr.tag.job && seq != hdr.tag.seq && hdr.tag.seq - seq >= reach
            && (hdr.tag.seq - seq)[31:31] == 0));
        if (same == 1 && (bitmap & hdr.tag.bitmap) == 0) {
            bitmap = bitmap | hdr.tag.bitmap;
            mark = mark | own;
            FOR_EACH_WORD(ADD_LANES)
            bitmaps.write(index, bitmap);
            marks.write(index, mark);
            if (bitmap != all && hdr.tag.resend == 0) { mark_to_drop(std); return; }
        } else if (same == 1 && (bitmap & hdr.tag.bitmap) == hdr.tag.bitmap) {
            if (hdr.tag.resend == 0) { mark_to_drop(std); return; }
            FOR_EACH_WORD(LOAD_LANES)
        } else if (free == 1 && hdr.tag.resend == 0) {
            if (hdr.tag.bitmap != all) {
                jobs.write(index, hdr.tag.job);
                seqs.write(index, hdr.tag.seq);
                bitmaps.write(index, hdr.tag.bitmap);
                marks.write(index, own);
                FOR_EACH_WORD(STORE_LANES)
                if (job == 0) {
                    used.write(0, now + 1);
                    used.read(most, 1);
                    used.write(1, now + 1 > most ? now + 1 : most);
                }
                mark_to_drop(std);
                return;
            }
            bitmap = all;
            mark = own;
        } else {
            hdr.tag.collision = 1;
            hdr.tag.ecn_echo = own;
            route.apply(hdr, std);
            return;
        }
        if (hdr.tag.resend == 1 && same == 1) {
            jobs.write(index, 0);
            used.write(0, now - 1);
        }
        hdr.tag.bitmap = bitmap;
        hdr.tag.ecn_echo = mark;
        hdr.ipv4.ecn = 0;
        hdr.ipv4.src = self;
        route.apply(hdr, std);
    }
}

SYSTEM(Hashed)
