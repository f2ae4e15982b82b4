// The slot machine: what a PUSH, PULL or RESULT does to the slot of its chunk, and what leaves.
//
//  packet from a child          slot                              what happens                 reply
//  ---------------------------  --------------------------------  ---------------------------  ------------
//  any                          generation newer than the job's   refused                      -
//  PUSH, PULL                   older generation, or seq+slots    store, bitmap := {child}     if complete
//  PUSH, PULL, same seq         other kind                        refused                      -
//  PUSH, same seq, not in       lanes of another width            refused: kind                -
//  PUSH, PULL, same seq         child not in                      add, bitmap += child         if complete
//  PUSH, PULL, same seq         child in or closed out, done      load                         REPLAY
//  PUSH, PULL, same seq         child closed out, not done        refused: late                -
//  PUSH, PULL, same seq         lowest of who is in, full         load                         UP_AGAIN
//  PUSH, PULL, same seq         child in, otherwise               refused: duplicate           -
//  ASK                          older generation, or seq+slots    -                            ASK
//  ASK, same seq                child not in                      -                            ASK
//  ASK, same seq                done, and its RESULT is lost      load                         REPLAY
//  ASK, same seq                done, and it is on its way        -                            SENT
//  ASK for a gap, same seq      child in, not done                -                            -
//  ASK, same seq                lowest of who is in, full         -                            ASK_UP
//  marked late, same seq        child in, overdue                 close                        as if complete
//  ASK, same seq                otherwise                         -                            WAIT
//  any other seq                -                                 refused                      -
//
//  packet from the parent
//  RESULT, same generation, seq full, not done                    store, done := 1             DOWN
//  RESULT marked late           as for a PUSH, not done           store, close all out, done   DOWN
//  ASK, same generation, seq    full, not done                    load                         UP_AGAIN
//  SENT, same generation, seq   full, not done                    -                            ASK_UP
//  WAIT, same generation, seq   full, not done                    -                            WAIT_DOWN
//  anything else                                                  refused                      -
//
// "If complete": at the root done := 1 and DOWN, elsewhere UP. But for a close, ASK and WAIT write no slot: what they
// bring about, a RESULT or a partial sum once more, is what its receiver takes once. A WAIT is an ASK whose `count` says
// how many switches up the contribution is in, from 1 on; 0 asks for it.
//
// Each PUSH, PULL and RESULT says in `ipv4.identification` how far the chunk of the frame before it on its link is
// behind its own (modulo 2^16; 0: it does not say). Links keep the order of frames: if that chunk's frame is not in, it is
// lost, and the receiver asks for it at once, beside whatever else it does. A RESULT that is sent again says what it said
// the first time, so that of frames that were lost in a row one tells of the other. Questions and what they bring may be
// lost, too: a frame also makes its receiver look at the chunk `again` before it, longer ago than a question takes.
//
// RESULTs are numbered in the order in which they leave. A child that lacks one says which came last. Links keep the
// order of frames, so a RESULT is lost if one with a higher number has come. Otherwise it may still wait in the queue of
// the link, and a second copy would make the queue longer. The answer SENT has no lanes, and waits behind the RESULT in
// the same queue: if it comes first, the RESULT is lost, and its receiver asks again with `count` 0.
//
// A chunk is overdue when its job has an entry in table `deadline`, it was opened longer ago than that says, and each of
// the missing took part in the chunk an eighth of the slots before it, or in one that is done of those in between: that
// leaves no child behind for longer than slots hold its results (docs/protocol.md). Of those in between some are looked
// at, at distances that double, so that one operation with all in it is enough for the next. Closing sets the missing children's bits, so that the slot is full and nothing is added
// any more; register `closings` remembers whose they were. All of it is off the way of a job without a deadline.
//
// Every case is one action that reads and writes all it needs: BMv2 pays for each table, condition and assignment on a
// packet's way, far more than for its lanes.
#ifndef P4REDUCE_SLOT
#define P4REDUCE_SLOT

#include "headers.p4"
#include "lanes.p4"
#include "refuse.p4"

#define REPLY_NONE     0
#define REPLY_UP       1   // the partial sum, to the parent
#define REPLY_UP_AGAIN 2   // the same, marked as a resend
#define REPLY_DOWN     3   // the RESULT, to every child
#define REPLY_REPLAY   4   // the RESULT, to the child that asked
#define REPLY_ASK      5   // an ASK or WAIT, to the child that asked
#define REPLY_ASK_UP   6   // an ASK, to the parent
#define REPLY_ASK_DOWN 7   // the parent's WAIT, to every child
#define REPLY_OVERDUE  8   // none yet: that depends on the deadline

// The chunk a part of the slots before: slots >> shift.
#define EARLIER(shift) \
    seq = hdr.inc.seq - (meta.slots >> shift); \
    slots.read(earlier, meta.base + (seq & (meta.slots - 1))); \
    closings.read(before, meta.base + (seq & (meta.slots - 1)));
#define TOOK_PART(shift) \
    EARLIER(shift) \
    meta.overdue = meta.overdue | ((bit<1>)(earlier[127:64] == meta.generation ++ seq) & earlier[2:2] \
        & (bit<1>)((before[79:48] & missing) == 0));

control Slot(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<128>>(SLOTS) slots;
    // Of each slot: the children that its chunk was closed without (32 bits), and when it was opened (48, microseconds).
    register<bit<80>>(SLOTS) closings;
    register<bit<32>>(1) results;       // RESULTs made here, of all jobs
    register<bit<32>>(SLOTS) numbers;   // of each slot that is done: which of them its RESULT was
    register<bit<16>>(SLOTS) behind;    // and how far the RESULT before it was behind
    // Of a job, at its first slot: generation, iteration and seq of what it sent to its parent last, and to its children.
    register<bit<96>>(SLOTS) last_up;
    register<bit<96>>(SLOTS) last_down;
    register<bit<32>>(SLOTS) overtaken; // of a job, at its first slot: the generation in which its frames overtook each other
    FOR_EACH_WORD(DECLARE_LANES)

    // Reads the slot, and what else the cases below go by.
    action look() {
        bit<128> cell;
        meta.index = meta.base + (hdr.inc.seq & (meta.slots - 1));
        slots.read(cell, meta.index);
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
        meta.slot.width        = cell[1:0];
        meta.pull = (bit<1>)(hdr.inc.type == TYPE_PULL);
        meta.ecn = (bit<1>)(hdr.ipv4.ecn == ECN_CONGESTED) | hdr.inc.ecn_echo;
    }

    action keep() {
        slots.write(meta.index, meta.slot.generation ++ meta.slot.seq ++ meta.slot.bitmap ++ meta.slot.count
            ++ meta.slot.exponent ++ meta.slot.pull ++ meta.slot.has_lanes ++ meta.slot.result_lanes
            ++ meta.slot.saturated ++ meta.slot.ecn ++ meta.slot.done ++ meta.slot.width);
    }

    action refuse(bit<8> reason) {
        meta.refused = reason;
    }

    // What follows from a contribution: nothing yet, the sum up, or at the root the RESULT down.
    action contributed() {
        meta.slot.done = (bit<1>)(meta.slot.bitmap == meta.full) & meta.root;
        meta.reply = meta.slot.bitmap != meta.full ? REPLY_NONE : (meta.slot.done == 1 ? (bit<4>)REPLY_DOWN : REPLY_UP);
        keep();
    }

    action open() {
        meta.slot.generation   = meta.generation;
        meta.slot.seq          = hdr.inc.seq;
        meta.slot.bitmap       = meta.child;
        meta.slot.count        = hdr.inc.count;
        meta.slot.exponent     = hdr.inc.exponent;
        meta.slot.pull         = meta.pull;
        meta.slot.has_lanes    = hdr.inc.has_lanes;
        meta.slot.result_lanes = hdr.inc.has_lanes;
        meta.slot.width        = hdr.inc.width;
        meta.slot.saturated    = hdr.inc.saturated;
        meta.slot.ecn          = meta.ecn;
        closings.write(meta.index, (bit<80>)std.ingress_global_timestamp);
        contributed();
    }

    action open_lanes() {
        open();
        STORE_LANES
    }

    action merge() {
        meta.slot.bitmap    = meta.slot.bitmap | meta.child;
        meta.slot.count     = meta.slot.count |+| hdr.inc.count;
        meta.slot.exponent  = meta.slot.exponent > hdr.inc.exponent ? meta.slot.exponent : hdr.inc.exponent;
        meta.slot.saturated = meta.slot.saturated | hdr.inc.saturated;
        meta.slot.ecn       = meta.slot.ecn | meta.ecn;
        contributed();
    }

    action merge_lanes() {
        merge();
        ADD_LANES(32)
    }

    action merge_lanes_of_16() {
        merge();
        ADD_LANES(16)
    }

    action merge_lanes_of_8() {
        merge();
        ADD_LANES(8)
    }

    // Who is left out of the chunk, if it has been closed.
    action recall() {
        bit<80> cell;
        closings.read(cell, meta.index);
        meta.absent = cell[79:48];
    }

    // Who speaks for all is the lowest child that is in.
    action recall_lowest() {
        recall();
        bit<32> present = meta.full & ~meta.absent;
        meta.lowest = meta.absent == 0 ? meta.lowest : (bit<1>)(meta.child == (present & (~present + 1)));
    }

    action finish() {
        recall();
        meta.slot.count        = hdr.inc.count;
        meta.slot.exponent     = hdr.inc.exponent;
        meta.slot.result_lanes = hdr.inc.has_lanes;
        meta.slot.width        = hdr.inc.width;
        meta.slot.saturated    = meta.slot.saturated | hdr.inc.saturated;
        meta.slot.ecn          = meta.slot.ecn | meta.ecn;
        meta.slot.done         = 1;
        meta.reply             = REPLY_DOWN;
        keep();
    }

    action finish_lanes() {
        finish();
        STORE_LANES
    }

    // The parent has closed the chunk without anything of ours, whether we have something or nothing.
    action close_out() {
        closings.write(meta.index, meta.full ++ 48w0);
        meta.slot.generation   = meta.generation;
        meta.slot.seq          = hdr.inc.seq;
        meta.slot.bitmap       = meta.full;
        meta.slot.pull         = 0;
        meta.slot.has_lanes    = hdr.inc.has_lanes;
        meta.slot.saturated    = 0;
        meta.slot.ecn          = 0;
    }

    action finish_without() {
        close_out();
        finish();
    }

    action finish_without_lanes() {
        close_out();
        finish_lanes();
    }

    // The deadline has passed for whoever is missing.
    action close() {
        meta.absent = meta.full & ~meta.slot.bitmap;
        closings.write(meta.index, meta.absent ++ 48w0);
        meta.slot.bitmap = meta.full;
        meta.pull = meta.slot.pull;
        contributed();
    }

    action close_lanes() {
        close();
        LOAD_LANES
    }

    // Microseconds after a chunk was opened from which on it is closed without those who are missing: if these were in
    // the chunk an eighth of the slots before, or it is of another generation; or in a later one that is done.
    action allow(bit<48> after) {
        bit<80> cell;
        bit<80> before;
        bit<128> earlier;
        bit<32> seq;
        bit<32> missing = meta.full & ~meta.slot.bitmap;
        EARLIER(3)
        meta.overdue = (bit<1>)(earlier[127:96] != meta.generation) | (bit<1>)((before[79:48] & missing) == 0);
        TOOK_PART(4)
        TOOK_PART(5)
        TOOK_PART(6)
        TOOK_PART(7)
        closings.read(cell, meta.index);
        meta.overdue = meta.overdue & (bit<1>)(std.ingress_global_timestamp - cell[47:0] >= after);
    }

    table deadline {
        key = {
            hdr.inc.job: exact;
            hdr.inc.epoch: exact;
        }
        actions = { allow; @defaultonly NoAction; }
        default_action = NoAction();
        size = JOB_ENTRIES;
    }

    action number() {
        bit<32> latest;
        results.read(latest, 0);
        latest = latest + 1;
        results.write(0, latest);
        numbers.write(meta.index, latest);
        bit<96> last;
        last_down.read(last, meta.base);
        last_down.write(meta.base, meta.generation ++ hdr.inc.iteration ++ hdr.inc.seq);
        meta.behind = meta.questions != 0 && last[95:32] == meta.generation ++ hdr.inc.iteration
            ? hdr.inc.seq[15:0] - last[15:0] : 0;
        behind.write(meta.index, meta.behind);
    }

    action number_up() {
        bit<96> last;
        last_up.read(last, meta.base);
        last_up.write(meta.base, meta.generation ++ hdr.inc.iteration ++ hdr.inc.seq);
        meta.behind = meta.questions != 0 && last[95:32] == meta.generation ++ hdr.inc.iteration
            ? hdr.inc.seq[15:0] - last[15:0] : 0;
    }

    // Whether a contribution of this child is not in, or the RESULT of a full slot.
    action look_at_before() {
        bit<128> cell;
        slots.read(cell, meta.base + (meta.before & (meta.slots - 1)));
        bit<1> here = (bit<1>)(cell[127:64] == meta.generation ++ meta.before);
        bit<1> later = (bit<1>)(cell[127:64] == meta.generation ++ (meta.before + meta.slots));
        meta.known = (bit<1>)(cell[127:96] == meta.generation);
        meta.gap = meta.from_parent == 1
            ? here & ~cell[2:2] & (bit<1>)(cell[63:32] == meta.full)
            : ~later & ~(here & (bit<1>)((cell[63:32] & meta.child) != 0));
    }

    // A frame that was not sent again meets what has come already: it was late, not lost, and something was asked for
    // in vain (or a link duplicates frames). The job asks for no gaps any more.
    action note_overtaken() {
        overtaken.write(meta.base, meta.generation);
    }

    action recall_overtaken() {
        bit<32> cell;
        overtaken.read(cell, meta.base);
        meta.ordered = (bit<1>)(cell != meta.generation);
    }

    action look_for_gap() {
        meta.before = hdr.inc.seq - (bit<32>)(int<32>)(int<16>)hdr.ipv4.identification;
        look_at_before();
    }

    action look_further_back() {
        meta.before = hdr.inc.seq - (bit<32>)meta.again;
        look_at_before();
        meta.gap = meta.gap & meta.known;
    }

    // Whether the RESULT of the latest chunk that the child has left after that of the chunk it asks for.
    action look_for_result() {
        bit<128> cell;
        bit<32> later;
        bit<32> asked;
        bit<32> seq = hdr.inc.seq + (bit<32>)(int<32>)(int<16>)hdr.inc.count;
        bit<32> place = meta.base + (seq & (meta.slots - 1));
        slots.read(cell, place);
        numbers.read(later, place);
        numbers.read(asked, meta.index);
        later = asked - later;
        meta.lost = (bit<1>)(hdr.inc.count == 0)
            | ((bit<1>)(cell[127:64] == meta.generation ++ seq) & cell[2:2] & later[31:31]);
    }

    // Whoever was closed out is told so.
    action replay() {
        recall();
        behind.read(meta.behind, meta.index);
        meta.reply = REPLY_REPLAY;
        hdr.inc.late = (bit<1>)((meta.absent & meta.child) != 0);
        hdr.inc.version = INC_VERSION;
        hdr.inc.width = LANES_OF_32;
        hdr.lanes.setInvalid();
    }

    action replay_lanes() {
        recall();
        behind.read(meta.behind, meta.index);
        meta.reply = REPLY_REPLAY;
        hdr.inc.late = (bit<1>)((meta.absent & meta.child) != 0);
        LOAD_LANES
    }

    action again() {
        meta.reply = REPLY_UP_AGAIN;
        meta.pull = meta.slot.pull;
    }

    action again_lanes() {
        again();
        LOAD_LANES
    }

    action tell(bit<4> reply, bit<16> level, bit<32> missing) {
        meta.reply = reply;
        meta.level = level;
        meta.missing = missing;
    }

    action saturate() {
        SATURATE_LANES(32)
        meta.slot.saturated = 1;
        keep();
    }

    action saturate_of_16() {
        SATURATE_LANES(16)
        meta.slot.saturated = 1;
        keep();
    }

    action saturate_of_8() {
        SATURATE_LANES(8)
        meta.slot.saturated = 1;
        keep();
    }

    apply {
        look();
        if (hdr.inc.type >= TYPE_RESULT) {
            if (hdr.inc.type == TYPE_ASK && hdr.inc.has_lanes == 1) {
                refuse(REFUSED_KIND);
            } else if (meta.from_parent == 1) {
                if (hdr.inc.type == TYPE_RESULT && hdr.inc.late == 1) {
                    if (meta.generation < meta.slot.generation || (meta.generation == meta.slot.generation
                        && hdr.inc.seq != meta.slot.seq + meta.slots
                        && (hdr.inc.seq != meta.slot.seq || meta.slot.done == 1))) { refuse(REFUSED_RESULT); }
                    else if (hdr.inc.has_lanes == 1) { finish_without_lanes(); }
                    else { finish_without(); }
                } else if (meta.slot.generation != meta.generation || meta.slot.seq != hdr.inc.seq
                    || meta.slot.bitmap != meta.full || meta.slot.done == 1) { refuse(REFUSED_RESULT); }
                else if (hdr.inc.type == TYPE_ASK) {
                    if (hdr.inc.count == RESULT_SENT) {
                        tell(REPLY_ASK_UP, 0, 0);
                    } else if (hdr.inc.count != 0) {
                        tell(REPLY_ASK_DOWN, hdr.inc.count |+| 1, hdr.inc.exponent ++ hdr.inc.token);
                    }
                    else if (meta.slot.has_lanes == 1) { again_lanes(); }
                    else { again(); }
                }
                else if (hdr.inc.has_lanes == 1) { finish_lanes(); }
                else { finish(); }
            } else if (meta.generation < meta.slot.generation) {
                refuse(REFUSED_GENERATION);
            } else if (meta.generation != meta.slot.generation || hdr.inc.seq == meta.slot.seq + meta.slots) {
                tell(REPLY_ASK, 0, meta.full);
            } else if (hdr.inc.seq != meta.slot.seq) {
                refuse(REFUSED_SEQ);
            } else if ((meta.slot.bitmap & meta.child) == 0) {
                tell(REPLY_ASK, 0, meta.full & ~meta.slot.bitmap);
            } else if (meta.slot.done == 1) {
                look_for_result();
                if (meta.lost == 0) { tell(REPLY_ASK, RESULT_SENT, 0); }
                else if (meta.slot.result_lanes == 1) { replay_lanes(); }
                else { replay(); }
            } else if (hdr.inc.gap == 1) {
                meta.reply = REPLY_NONE;
            } else if (meta.slot.bitmap == meta.full) {
                recall_lowest();
                if (meta.lowest == 1) { tell(REPLY_ASK_UP, hdr.inc.count, 0); }
            } else if (hdr.inc.late == 1) {
                tell(REPLY_OVERDUE, 1, meta.full & ~meta.slot.bitmap);
            } else {
                tell(REPLY_ASK, 1, meta.full & ~meta.slot.bitmap);
            }
        } else if (meta.generation < meta.slot.generation) {
            refuse(REFUSED_GENERATION);
        } else if (meta.generation != meta.slot.generation || hdr.inc.seq == meta.slot.seq + meta.slots) {
            if (hdr.inc.has_lanes == 1) { open_lanes(); } else { open(); }
        } else if (hdr.inc.seq != meta.slot.seq) {
            refuse(REFUSED_SEQ);
        } else if (meta.pull != meta.slot.pull || hdr.inc.has_lanes != meta.slot.has_lanes) {
            refuse(REFUSED_KIND);
        } else if ((meta.slot.bitmap & meta.child) == 0) {
            if (hdr.inc.has_lanes == 0) {
                merge();
            } else if (hdr.inc.width != meta.slot.width) {
                refuse(REFUSED_KIND);
            } else if (hdr.inc.width == LANES_OF_32) {
                merge_lanes();
                if SOME_LANE_OVERFLOWED { saturate(); }
            } else if (hdr.inc.width == LANES_OF_16) {
                merge_lanes_of_16();
                if SOME_LANE_OVERFLOWED { saturate_of_16(); }
            } else {
                merge_lanes_of_8();
                if SOME_LANE_OVERFLOWED { saturate_of_8(); }
            }
        } else if (meta.slot.done == 1) {
            if (meta.slot.result_lanes == 1) { replay_lanes(); } else { replay(); }
        } else {
            recall_lowest();
            if ((meta.absent & meta.child) != 0) { refuse(REFUSED_LATE); }
            else if (meta.slot.bitmap == meta.full && meta.lowest == 1) {
                if (hdr.inc.has_lanes == 1) { again_lanes(); } else { again(); }
            } else if (hdr.inc.late == 1 && meta.slot.bitmap != meta.full) {
                tell(REPLY_OVERDUE, 0, 0);
            } else {
                refuse(REFUSED_DUPLICATE);
            }
        }
        if (meta.reply == REPLY_OVERDUE) {
            deadline.apply();
            if (meta.overdue == 1) {
                if (meta.slot.has_lanes == 1) { close_lanes(); } else { close(); }
            } else if (hdr.inc.type == TYPE_ASK) {
                meta.reply = REPLY_ASK;
            } else {
                meta.reply = REPLY_NONE;
                refuse(REFUSED_DUPLICATE);
            }
        }
        if (meta.reply == REPLY_DOWN) { number(); }
        else if (meta.reply == REPLY_UP || meta.reply == REPLY_UP_AGAIN) { number_up(); }
        if (meta.questions != 0 && hdr.ipv4.identification != 0 && hdr.inc.type != TYPE_ASK) {
            if (hdr.inc.resend == 0 && (meta.refused == REFUSED_DUPLICATE || meta.reply == REPLY_REPLAY
                || (meta.refused == REFUSED_RESULT && meta.slot.done == 1 && meta.slot.generation == meta.generation
                    && meta.slot.seq == hdr.inc.seq))) { note_overtaken(); }
            else { recall_overtaken(); }
            if (meta.ordered == 1 && (meta.refused == 0 || meta.refused == REFUSED_DUPLICATE)) {
                look_for_gap();
                if (meta.gap == 0 && meta.again != 0 && hdr.inc.resend == 0) { look_further_back(); }
                if (meta.gap == 1) { meta.refused = 0; }
            }
        }
    }
}

#endif
