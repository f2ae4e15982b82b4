// The lanes of a slot: store a contribution, add one, or load the sum.
//
// A word holds 64 lanes of 32 bits, 128 of 16 or 256 of 8: the width is of the packet. Adding all of them at once is SIMD within a register: the top bit of
// every lane is kept out of the addition, so no carry leaves its lane, and is put back with an
// exclusive or (Warren, Hacker's Delight, 2nd ed., section 2-18). Lanes saturate at the ends of their range.
//
// Macros, so that the slot's state and its lanes are read and written in one action: BMv2 locks an action's registers
// as a whole, and every table on the way costs it more than all of a packet's lanes.
#ifndef P4REDUCE_LANES
#define P4REDUCE_LANES

#include "headers.p4"

// 64 copies of a 32-bit pattern, as one constant.
#define TWICE_32(x)  ((((bit<2048>)x) << 32)   | (bit<2048>)x)
#define TWICE_64(x)  ((TWICE_32(x) << 64)   | TWICE_32(x))
#define TWICE_128(x) ((TWICE_64(x) << 128)  | TWICE_64(x))
#define TWICE_256(x) ((TWICE_128(x) << 256) | TWICE_128(x))
#define TWICE_512(x) ((TWICE_256(x) << 512) | TWICE_256(x))
#define IN_EVERY_LANE(x) ((TWICE_512(x) << 1024) | TWICE_512(x))

const bit<2048> SIGN_32 = IN_EVERY_LANE(0x80000000);
const bit<2048> REST_32 = IN_EVERY_LANE(0x7fffffff);
const bit<2048> SIGN_16 = IN_EVERY_LANE(0x80008000);
const bit<2048> REST_16 = IN_EVERY_LANE(0x7fff7fff);
const bit<2048> SIGN_8  = IN_EVERY_LANE(0x80808080);
const bit<2048> REST_8  = IN_EVERY_LANE(0x7f7f7f7f);

#define DECLARE_LANES(i) register<bit<2048>>(SLOTS) lanes_##i;
#define STORE_WORD(i)    lanes_##i.write(meta.index, hdr.lanes.w##i);
#define LOAD_WORD(i)     lanes_##i.read(hdr.lanes.w##i, meta.index);

// a: what the slot holds; t: the sum without the top bits, whose own top bits are the carries into them. A lane
// overflows when both addends differ from t there (both have one sign, the sum the other).
#define ADD_WORD(i, SIGN, REST) \
    lanes_##i.read(a, meta.index); \
    t = (a & REST) + (hdr.lanes.w##i & REST); \
    meta.overflow_##i = (t ^ a) & (t ^ hdr.lanes.w##i) & SIGN; \
    hdr.lanes.w##i = t ^ ((a ^ hdr.lanes.w##i) & SIGN); \
    lanes_##i.write(meta.index, hdr.lanes.w##i);
#define ADD_WORD_32(i) ADD_WORD(i, SIGN_32, REST_32)
#define ADD_WORD_16(i) ADD_WORD(i, SIGN_16, REST_16)
#define ADD_WORD_8(i)  ADD_WORD(i, SIGN_8, REST_8)

// SIGN - (overflow >> REST_BITS) is 0x7f... in a lane that overflowed and 0x80... in the others; with the
// overflow bit, its low bits make a mask of the whole lane. A lane's end has the sign opposite to the wrapped sum's.
#define SATURATE_WORD(i, SIGN, REST, REST_BITS) \
    mask = ((SIGN - ((meta.overflow_##i & SIGN) >> REST_BITS)) & REST) | meta.overflow_##i; \
    hdr.lanes.w##i = (hdr.lanes.w##i & ~mask) | ((SIGN - ((hdr.lanes.w##i & SIGN) >> REST_BITS)) & mask); \
    lanes_##i.write(meta.index, hdr.lanes.w##i);
#define SATURATE_WORD_32(i) SATURATE_WORD(i, SIGN_32, REST_32, 31)
#define SATURATE_WORD_16(i) SATURATE_WORD(i, SIGN_16, REST_16, 15)
#define SATURATE_WORD_8(i)  SATURATE_WORD(i, SIGN_8, REST_8, 7)

#define OVERFLOWED(i) || meta.overflow_##i != 0
#define SOME_LANE_OVERFLOWED (false FOR_EACH_WORD(OVERFLOWED))

// The bodies of the slot machine's actions, in slot.p4.
#define STORE_LANES FOR_EACH_WORD(STORE_WORD)
#define ADD_LANES(bits) { bit<2048> a; bit<2048> t; FOR_EACH_WORD(ADD_WORD_##bits) }
#define LOAD_LANES \
    hdr.inc.version = meta.slot.width == LANES_OF_32 ? (bit<4>)INC_VERSION : INC_VERSION_NARROW; \
    hdr.inc.width = meta.slot.width; \
    hdr.lanes.setValid(); FOR_EACH_WORD(LOAD_WORD)
// Apart from adding, because it is rare and costs as much again.
#define SATURATE_LANES(bits) { bit<2048> mask; FOR_EACH_WORD(SATURATE_WORD_##bits) }

#endif
