// The slot machine: what a PUSH, PULL or RESULT does to the slot of its chunk, and what leaves.
//
//  packet from a child          slot                              what happens                 reply
//  ---------------------------  --------------------------------  ---------------------------  ------------
//  any                          generation newer than the job's   refused                      -
//  any                          older generation, or seq+slots    store, bitmap := {child}     if complete
//  same seq, other kind         -                                 refused                      -
//  same seq, child not in       -                                 add, bitmap += child         if complete
//  same seq, child in           done                              load                         REPLAY
//  same seq, lowest child in    full, not done                    load                         UP_AGAIN
//  same seq, child in           otherwise                         refused: duplicate           -
//  any other seq                -                                 refused                      -
//
//  packet from the parent
//  RESULT, same generation, seq full, not done                    store, done := 1             DOWN
//  anything else                                                  refused                      -
//
// "If complete": at the root done := 1 and DOWN, elsewhere UP.
#ifndef P4REDUCE_SLOT
#define P4REDUCE_SLOT

#include "headers.p4"
#include "lanes.p4"
#include "refuse.p4"

#define REPLY_NONE     0
#define REPLY_UP       1   // the partial sum, to the parent
#define REPLY_UP_AGAIN 2   // the same, marked as a resend
#define REPLY_DOWN     3   // the RESULT, to every child
#define REPLY_REPLAY   4   // the RESULT, to the child that asked again

control Slot(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<128>>(SLOTS) slots;
    Lanes() lanes;

    action unpack(in bit<128> cell) {
        meta.slot.generation   = cell[127:96];
        meta.slot.seq          = cell[95:64];
        meta.slot.bitmap       = cell[63:32];
        meta.slot.count        = cell[31:16];
        meta.slot.exponent     = cell[15:8];
        meta.slot.pull         = cell[7:7];
        meta.slot.has_lanes    = cell[6:6];
        meta.slot.result_lanes = cell[5:5];
        meta.slot.saturated    = cell[4:4];
        meta.slot.ecn          = cell[3:3];
        meta.slot.done         = cell[2:2];
    }

    action open(bit<1> pull, bit<1> ecn) {
        meta.slot.generation   = meta.generation;
        meta.slot.seq          = hdr.inc.seq;
        meta.slot.bitmap       = meta.child;
        meta.slot.count        = hdr.inc.count;
        meta.slot.exponent     = hdr.inc.exponent;
        meta.slot.pull         = pull;
        meta.slot.has_lanes    = hdr.inc.has_lanes;
        meta.slot.result_lanes = hdr.inc.has_lanes;
        meta.slot.saturated    = hdr.inc.saturated;
        meta.slot.ecn          = ecn;
        meta.slot.done         = 0;
    }

    action merge(bit<1> ecn) {
        meta.slot.bitmap    = meta.slot.bitmap | meta.child;
        meta.slot.count     = meta.slot.count |+| hdr.inc.count;
        meta.slot.exponent  = meta.slot.exponent > hdr.inc.exponent ? meta.slot.exponent : hdr.inc.exponent;
        meta.slot.saturated = meta.slot.saturated | hdr.inc.saturated;
        meta.slot.ecn       = meta.slot.ecn | ecn;
    }

    action finish(bit<1> ecn) {
        meta.slot.count        = hdr.inc.count;
        meta.slot.exponent     = hdr.inc.exponent;
        meta.slot.result_lanes = hdr.inc.has_lanes;
        meta.slot.saturated    = meta.slot.saturated | hdr.inc.saturated;
        meta.slot.ecn          = meta.slot.ecn | ecn;
        meta.slot.done         = 1;
    }

    // The header of what leaves: the slot speaks, not the packet that happened to come last.
    action speak(bit<4> type, bit<1> has_lanes, bit<1> resend) {
        hdr.inc.type      = type;
        hdr.inc.has_lanes = has_lanes;
        hdr.inc.resend    = resend;
        hdr.inc.saturated = meta.slot.saturated;
        hdr.inc.ecn_echo  = meta.slot.ecn;
        hdr.inc.count     = meta.slot.count;
        hdr.inc.exponent  = meta.slot.exponent;
    }

    apply {
        bit<128> cell;
        bit<1> ecn = hdr.inc.ecn_echo;
        bit<1> pull = 0;
        bit<1> changed = 0;
        bit<4> up_type = TYPE_PUSH;
        meta.lane_op = LANE_NONE;
        meta.reply = REPLY_NONE;
        meta.index = meta.base + (hdr.inc.seq & (meta.slots - 1));
        if (hdr.ipv4.ecn == ECN_CONGESTED) { ecn = 1; }
        if (hdr.inc.type == TYPE_PULL) { pull = 1; up_type = TYPE_PULL; }

        slots.read(cell, meta.index);
        unpack(cell);

        if (meta.from_parent == 1) {
            if (meta.slot.generation == meta.generation && meta.slot.seq == hdr.inc.seq
                && meta.slot.bitmap == meta.full && meta.slot.done == 0) {
                finish(ecn);
                changed = 1;
                meta.reply = REPLY_DOWN;
                if (hdr.inc.has_lanes == 1) { meta.lane_op = LANE_STORE; }
            } else { meta.refused = REFUSED_RESULT; }
        } else if (meta.generation < meta.slot.generation) {
            meta.refused = REFUSED_GENERATION;
        } else if (meta.generation > meta.slot.generation || hdr.inc.seq == meta.slot.seq + meta.slots) {
            open(pull, ecn);
            changed = 1;
            if (hdr.inc.has_lanes == 1) { meta.lane_op = LANE_STORE; }
        } else if (hdr.inc.seq != meta.slot.seq) {
            meta.refused = REFUSED_SEQ;
        } else if (pull != meta.slot.pull || hdr.inc.has_lanes != meta.slot.has_lanes) {
            meta.refused = REFUSED_KIND;
        } else if ((meta.slot.bitmap & meta.child) == 0) {
            merge(ecn);
            changed = 1;
            if (hdr.inc.has_lanes == 1) { meta.lane_op = LANE_ADD; }
        } else if (meta.slot.done == 1) {
            meta.reply = REPLY_REPLAY;
            if (meta.slot.result_lanes == 1) { meta.lane_op = LANE_LOAD; }
        } else if (meta.slot.bitmap == meta.full && meta.lowest == 1) {
            meta.reply = REPLY_UP_AGAIN;
            if (meta.slot.has_lanes == 1) { meta.lane_op = LANE_LOAD; }
        } else {
            meta.refused = REFUSED_DUPLICATE;
        }

        if (meta.refused == 0) {
            lanes.apply(hdr, meta);
            if (changed == 1 && meta.reply == REPLY_NONE && meta.slot.bitmap == meta.full) {
                meta.reply = REPLY_UP;
                if (meta.root == 1) {
                    meta.reply = REPLY_DOWN;
                    meta.slot.done = 1;
                }
            }
            if (changed == 1) {
                slots.write(meta.index, meta.slot.generation ++ meta.slot.seq ++ meta.slot.bitmap
                    ++ meta.slot.count ++ meta.slot.exponent ++ meta.slot.pull ++ meta.slot.has_lanes
                    ++ meta.slot.result_lanes ++ meta.slot.saturated ++ meta.slot.ecn ++ meta.slot.done
                    ++ 2w0);
            }
            if (meta.reply == REPLY_UP) { speak(up_type, meta.slot.has_lanes, 0); }
            else if (meta.reply == REPLY_UP_AGAIN) { speak(up_type, meta.slot.has_lanes, 1); }
            else if (meta.reply == REPLY_DOWN) { speak(TYPE_RESULT, meta.slot.result_lanes, 0); }
            else if (meta.reply == REPLY_REPLAY) { speak(TYPE_RESULT, meta.slot.result_lanes, 1); }
            if (meta.reply != REPLY_NONE && hdr.inc.has_lanes == 0) { hdr.lanes.setInvalid(); }
        }
    }
}

#endif
