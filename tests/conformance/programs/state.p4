// Everything that a packet can change or look up: registers of several widths, indirect and direct counters, tables
// of every match kind, every hash. Results leave in the packet.
#include <core.p4>
#include <v1model.p4>

header work_t {
    bit<8>  kind;
    bit<8>  index;
    bit<8>  port;
    bit<8>  a;
    bit<16> b;
    bit<32> c;
    bit<48> d;
    bit<7>  e;
    bit<9>  f;
}

header found_t {
    bit<8>   hits;
    bit<8>   narrow;
    bit<64>  wide;
    bit<48>  odd;
    bit<256> broad;
    bit<16>  length;
}

struct headers_t {
    work_t  work;
    found_t found;
}

struct metadata_t {
    bit<32> cell;
}

parser StateParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.work);
        transition accept;
    }
}

control StateVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }
control StateUpdate(inout headers_t hdr, inout metadata_t meta) { apply { } }

control StateIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<8>>(8) narrow;
    register<bit<64>>(8) wide;
    register<bit<37>>(8) odd;
    register<bit<256>>(4) broad;
    counter(8, CounterType.packets) packets;
    counter(8, CounterType.bytes) octets;
    counter(8, CounterType.packets_and_bytes) both;
    direct_counter(CounterType.packets_and_bytes) exact_hits;
    direct_counter(CounterType.packets_and_bytes) ternary_hits;

    action hit(bit<8> bits) {
        hdr.found.hits = hdr.found.hits | bits;
    }

    action send(bit<9> port) {
        std.egress_spec = port;
        hdr.found.hits = hdr.found.hits ^ 1;
    }

    action count(bit<32> cell, bit<8> step) {
        packets.count(cell);
        octets.count(cell + (bit<32>)step);
        both.count((bit<32>)hdr.work.index);
    }

    action add_narrow(bit<32> cell, bit<8> step) {
        bit<8> old;
        narrow.read(old, cell);
        narrow.write(cell, old + step);
        hdr.found.narrow = old;
    }

    action add_wide(bit<32> cell) {
        bit<64> old;
        wide.read(old, cell);
        wide.write(cell, (old << 1) + (bit<64>)hdr.work.d);
        hdr.found.wide = old;
    }

    action add_odd(bit<32> cell, bit<37> step) {
        bit<37> old;
        odd.read(old, cell);
        odd.write(cell, old - step);
        hdr.found.odd = (bit<48>)old;
    }

    action shift_broad(bit<32> cell) {
        bit<256> old;
        broad.read(old, cell);
        broad.write(cell, (old << 48) | (bit<256>)hdr.work.d);
        hdr.found.broad = old;
    }

    action crc16_cell() {
        hash(meta.cell, HashAlgorithm.crc16, 32w1, { hdr.work.a, hdr.work.b, hdr.work.c }, 32w6);
    }

    action crc32_cell() {
        hash(meta.cell, HashAlgorithm.crc32, 32w0, { hdr.work.e, hdr.work.f, hdr.work.d }, 32w9);
    }

    action csum_cell() {
        hash(meta.cell, HashAlgorithm.csum16, 32w2, { hdr.work.d, hdr.work.a }, 32w5);
    }

    action xor_cell() {
        hash(meta.cell, HashAlgorithm.xor16, 32w0, { hdr.work.b, hdr.work.c, hdr.work.a }, 32w8);
    }

    action identity_cell() {
        hash(meta.cell, HashAlgorithm.identity, 32w0, { hdr.work.index }, 32w11);
    }

    table by_kind {
        key = { hdr.work.kind: exact; }
        actions = { count; add_narrow; add_wide; add_odd; shift_broad; send; NoAction; }
        counters = exact_hits;
        default_action = NoAction();
        size = 64;
    }

    table by_prefix {
        key = { hdr.work.a: exact; hdr.work.c: lpm; }
        actions = { hit; send; add_wide; }
        default_action = hit(2);
        size = 64;
    }

    table by_pattern {
        key = { hdr.work.b: ternary; hdr.work.e: ternary; hdr.work.kind: exact; }
        actions = { hit; add_odd; count; send; }
        counters = ternary_hits;
        default_action = hit(4);
        size = 64;
    }

    table by_range {
        key = { hdr.work.index: range; hdr.work.f: range; hdr.work.a: ternary; hdr.work.kind: exact; }
        actions = { hit; send; add_narrow; }
        default_action = hit(8);
        size = 64;
    }

    table by_optional {
        key = { hdr.work.a: optional; std.ingress_port: optional; }
        actions = { hit; shift_broad; }
        default_action = hit(16);
        size = 64;
    }

    table by_hash {
        key = { meta.cell: exact; hdr.work.isValid(): exact; }
        actions = { hit; add_narrow; count; }
        default_action = hit(32);
        size = 64;
    }

    table choose_hash {
        key = { hdr.work.index: exact; }
        actions = { crc16_cell; crc32_cell; csum_cell; xor_cell; identity_cell; }
        const default_action = crc16_cell();
        const entries = {
            1: crc32_cell();
            2: csum_cell();
            3: xor_cell();
            4: identity_cell();
        }
    }

    apply {
        if (!hdr.work.isValid()) {
            mark_to_drop(std);
            exit;
        }
        std.egress_spec = (bit<9>)hdr.work.port[2:0];
        hdr.found.setValid();
        hdr.found.hits = 0;
        hdr.found.narrow = 0;
        hdr.found.wide = 0;
        hdr.found.odd = 0;
        hdr.found.broad = 0;
        hdr.found.length = std.packet_length[15:0];
        meta.cell = 0;
        by_kind.apply();
        if (!by_prefix.apply().hit) { by_pattern.apply(); }
        by_range.apply();
        switch (by_optional.apply().action_run) {
            shift_broad: { packets.count(1); }
        }
        choose_hash.apply();
        by_hash.apply();
        narrow.write(meta.cell, hdr.work.a);
    }
}

control StateEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<32>>(8) sent;
    direct_counter(CounterType.packets_and_bytes) port_hits;

    action add_sent(bit<32> step) {
        bit<32> old;
        sent.read(old, (bit<32>)std.egress_port);
        sent.write((bit<32>)std.egress_port, old + step);
    }

    action drop() { mark_to_drop(std); }

    table by_port {
        key = { std.egress_port: exact; }
        actions = { add_sent; drop; }
        counters = port_hits;
        default_action = add_sent(1);
        size = 16;
    }

    apply { by_port.apply(); }
}

control StateDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.found);
        packet.emit(hdr.work);
    }
}

V1Switch(StateParser(), StateVerify(), StateIngress(), StateEgress(), StateUpdate(), StateDeparser()) main;
