// What a controller sets up for v1model: meters, action selectors, digests, parser value sets.
#include <core.p4>
#include <v1model.p4>

header op_t { bit<8> op; bit<8> index; bit<16> key; bit<8> color; bit<8> extra; }
header pair_t { bit<4> a; bit<12> b; }
struct headers_t { op_t op; pair_t pair; }
struct meta_t { bit<2> direct_color; bit<8> color; }
struct report_t { bit<16> key; bit<9> port; bit<8> index; }

struct key_t { @match(exact) bit<4> a; @match(exact) bit<12> b; }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    @name("ops") value_set<bit<8>>(4) ops;
    @name("pairs") value_set<key_t>(2) pairs;
    state start {
        p.extract(h.op);
        transition select(h.op.op) {
            0x20: pair;
            ops: pair;
            default: accept;
        }
    }
    state pair {
        p.extract(h.pair);
        transition select(h.pair.a, h.pair.b) {
            pairs: marked;
            default: accept;
        }
    }
    state marked { m.color = 0x77; transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    meter(4, MeterType.packets) packets;
    meter(4, MeterType.bytes) octets;
    direct_meter<bit<2>>(MeterType.packets) entry_meter;
    action_selector(HashAlgorithm.crc16, 32w16, 32w16) selector;
    action_profile(8) profile;

    action send(bit<9> port, bit<8> extra) { s.egress_spec = port; h.op.extra = extra; }
    action drop() { mark_to_drop(s); }
    action metered(bit<9> port) { entry_meter.read(m.direct_color); s.egress_spec = port; }

    table direct {
        key = { h.op.index: exact; }
        actions = { metered; NoAction; }
        meters = entry_meter;
        default_action = NoAction();
    }
    table choose {
        key = { h.op.index: exact; h.op.key: selector; h.op.color: selector; }
        actions = { send; drop; NoAction; }
        implementation = selector;
    }
    table profiled {
        key = { h.op.key: ternary; }
        actions = { send; drop; NoAction; }
        implementation = profile;
    }
    apply {
        s.egress_spec = 1;
        if (h.op.op == 1) { packets.execute_meter((bit<32>)h.op.index, m.color); h.op.color = m.color; }
        if (h.op.op == 2) { octets.execute_meter((bit<32>)h.op.index, m.color); h.op.color = m.color; }
        if (h.op.op == 3) { direct.apply(); h.op.color = (bit<8>)m.direct_color; }
        if (h.op.op == 4) { if (!choose.apply().hit) { h.op.extra = 0xee; } }
        if (h.op.op == 5) { profiled.apply(); }
        if (h.op.op == 6) { digest<report_t>(1, {h.op.key, s.ingress_port, h.op.index}); }
        if (h.pair.isValid()) { h.op.color = m.color; h.op.extra = 1; }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
