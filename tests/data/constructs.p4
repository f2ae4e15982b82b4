// What v1model offers beside tables and registers: arithmetic of every kind and width, headers that come and
// go, lookahead, parser errors, hashes, checksums, exit. Results leave in the packet.
// p4c-bm2-ss --std p4-16 -o tests/data/constructs.json --p4runtime-files tests/data/constructs.p4info.txt tests/data/constructs.p4
#include <core.p4>
#include <v1model.p4>

header operands_t {
    bit<8>   kind;
    bit<8>   shift;
    bit<32>  a;
    bit<32>  b;
    int<32>  c;
    int<32>  d;
    bit<7>   e;
    bit<9>   f;
    int<5>   g;
    bit<3>   h;
    bit<128> x;
    bit<128> y;
}

header numbers_t {
    bit<32>  sum;
    bit<32>  difference;
    bit<32>  product;
    bit<32>  saturated_sum;
    bit<32>  saturated_difference;
    bit<32>  left;
    bit<32>  right;
    int<32>  signed_sum;
    int<32>  signed_saturated_sum;
    int<32>  signed_saturated_difference;
    int<32>  signed_right;
    int<32>  signed_product;
    bit<128> wide_sum;
    bit<128> wide_product;
    bit<128> wide_shift;
    bit<128> wide_logic;
    bit<16>  joined;
    bit<16>  slices;
    int<16>  extended;
    bit<8>   comparisons;
    bit<8>   choice;
}

header hashes_t {
    bit<16> crc16;
    bit<32> crc32;
    bit<16> csum16;
    bit<64> identity;
    bit<16> xor16;
    bit<32> in_range;
}

header word_t {
    bit<16> value;
}

header status_t {
    bit<32> parser_error;
    bit<8>  flags;
    bit<16> peeked;
    bit<16> length;
    bit<16> checksum;
}

struct headers_t {
    status_t   status;
    operands_t operands;
    numbers_t  numbers;
    hashes_t   hashes;
    word_t     first;
    word_t     second;
    word_t     third;
}

struct metadata_t {
    bit<16> peeked;
    bit<1>  exited;
}

error {
    TooMany,
    Forbidden
}

parser ConstructsParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.operands);
        verify(hdr.operands.kind != 0xff, error.Forbidden);
        transition select(hdr.operands.kind[7:6], hdr.operands.h) {
            (0, _): parse_words;
            (1, 0 .. 3): skip;
            (1, _): peek;
            (2, 5 &&& 5): accept;
            (2, _): parse_first;
            default: peek;
        }
    }
    state peek {
        meta.peeked = packet.lookahead<bit<16>>();
        transition select(packet.lookahead<bit<8>>()) {
            0x00 &&& 0xf0: parse_words;
            default: parse_first;
        }
    }
    state skip {
        packet.advance((bit<32>)hdr.operands.e[1:0] * 8);
        transition parse_first;
    }
    state parse_first {
        packet.extract(hdr.first);
        transition accept;
    }
    state parse_words {
        packet.extract(hdr.first);
        packet.extract(hdr.second);
        verify(hdr.first.value <= hdr.second.value, error.TooMany);
        transition select(hdr.first.value, std.ingress_port) {
            (0 .. 100, 1): parse_third;
            (_, 2): parse_third;
            default: accept;
        }
    }
    state parse_third {
        packet.extract(hdr.third);
        transition accept;
    }
}

#define CHECKED { hdr.operands.a, hdr.operands.e, hdr.operands.f, hdr.first.value }

control ConstructsVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.second.isValid(), CHECKED, hdr.second.value, HashAlgorithm.csum16);
    }
}

control ConstructsUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.status.isValid(), CHECKED, hdr.status.checksum, HashAlgorithm.csum16);
        update_checksum(hdr.third.isValid(), { hdr.operands.b, hdr.first.value }, hdr.third.value,
            HashAlgorithm.csum16);
    }
}

control ConstructsIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<32>>(8) sums;
    register<bit<128>>(3) wides;
    counter(4, CounterType.packets_and_bytes) kinds;

    action calculate() {
        hdr.numbers.setValid();
        hdr.numbers.sum = hdr.operands.a + hdr.operands.b;
        hdr.numbers.difference = hdr.operands.a - hdr.operands.b;
        hdr.numbers.product = hdr.operands.a * hdr.operands.b;
        hdr.numbers.saturated_sum = hdr.operands.a |+| hdr.operands.b;
        hdr.numbers.saturated_difference = hdr.operands.a |-| hdr.operands.b;
        hdr.numbers.left = hdr.operands.a << hdr.operands.shift;
        hdr.numbers.right = hdr.operands.a >> hdr.operands.shift;
        hdr.numbers.signed_sum = hdr.operands.c + hdr.operands.d;
        hdr.numbers.signed_saturated_sum = hdr.operands.c |+| hdr.operands.d;
        hdr.numbers.signed_saturated_difference = hdr.operands.c |-| hdr.operands.d;
        hdr.numbers.signed_right = hdr.operands.c >> hdr.operands.shift;
        hdr.numbers.signed_product = hdr.operands.c * hdr.operands.d;
        hdr.numbers.wide_sum = hdr.operands.x + hdr.operands.y;
        hdr.numbers.wide_product = hdr.operands.x * hdr.operands.y;
        hdr.numbers.wide_shift = (hdr.operands.x << hdr.operands.shift) | (hdr.operands.y >> hdr.operands.shift);
        hdr.numbers.wide_logic = (hdr.operands.x & ~hdr.operands.y) ^ (hdr.operands.x |-| hdr.operands.y);
        hdr.numbers.joined = hdr.operands.e ++ hdr.operands.f;
        hdr.numbers.slices = hdr.operands.x[100:93] ++ hdr.operands.y[7:0];
        hdr.numbers.extended = (int<16>)hdr.operands.g;
    }

    action compare() {
        hdr.numbers.comparisons =
            (bit<1>)(hdr.operands.a < hdr.operands.b) ++
            (bit<1>)(hdr.operands.c < hdr.operands.d) ++
            (bit<1>)(hdr.operands.a == hdr.operands.b) ++
            (bit<1>)(hdr.operands.c >= hdr.operands.d) ++
            (bit<1>)(hdr.operands.x > hdr.operands.y) ++
            (bit<1>)(hdr.operands.g < 0) ++
            (bit<1>)(hdr.operands.a != 0 && hdr.operands.b != 0) ++
            (bit<1>)(hdr.first == hdr.second);
        hdr.numbers.choice = hdr.operands.h > 3 ? hdr.operands.kind : (hdr.operands.h == 0 ? 8w77 : 8w33);
    }

    action digest_fields() {
        hdr.hashes.setValid();
        hash(hdr.hashes.crc16, HashAlgorithm.crc16, 16w0, { hdr.operands.a, hdr.operands.e, hdr.operands.f }, 17w65536);
        hash(hdr.hashes.crc32, HashAlgorithm.crc32, 32w0, { hdr.operands.x, hdr.operands.g, hdr.operands.h }, 33w4294967296);
        hash(hdr.hashes.csum16, HashAlgorithm.csum16, 16w0, { hdr.operands.b, hdr.first.value, hdr.operands.kind }, 17w65536);
        hash(hdr.hashes.identity, HashAlgorithm.identity, 64w0, { hdr.operands.y }, 64w0xffffffffffffffff);
        hash(hdr.hashes.xor16, HashAlgorithm.xor16, 16w0, { hdr.operands.a, hdr.operands.kind }, 17w65536);
        hash(hdr.hashes.in_range, HashAlgorithm.crc32, hdr.operands.a, { hdr.operands.b }, hdr.operands.a);
    }

    action remember() {
        bit<32> old;
        bit<128> wide;
        bit<32> index = (bit<32>)hdr.operands.h;
        sums.read(old, index);
        sums.write(index, old + hdr.operands.a);
        wides.read(wide, index);
        wides.write(index, wide ^ hdr.operands.x);
        kinds.count((bit<32>)hdr.operands.h);
        hdr.operands.b = old;
        hdr.operands.y = wide;
    }

    action shuffle() {
        hdr.second = hdr.first;
        hdr.third.setInvalid();
        hdr.first.value = hdr.first.value + 1;
    }

    action leave_early() {
        meta.exited = 1;
        exit;
    }

    action stay() { }

    table decide {
        key = { hdr.operands.kind[5:3]: exact; }
        actions = { leave_early; shuffle; remember; stay; }
        const default_action = stay();
        const entries = {
            1: leave_early();
            2: shuffle();
            3: remember();
            7: remember();
        }
    }

    apply {
        std.egress_spec = 3;
        if (std.parser_error != error.NoError && !hdr.operands.isValid()) {
            mark_to_drop(std);
            exit;
        }
        switch (decide.apply().action_run) {
            shuffle: { hdr.operands.shift = hdr.operands.shift + 1; }
            remember: { hdr.operands.shift = 5; }
        }
        if (hdr.operands.kind[0:0] == 1) {
            calculate();
            compare();
        }
        if (hdr.operands.kind[1:1] == 1) { digest_fields(); }
        if (hdr.operands.kind[2:2] == 1) {
            hdr.second.setValid();
            hdr.second.value = hdr.second.value ^ 0x00ff;
            std.mcast_grp = (bit<16>)hdr.operands.h;
        }
        log_msg("kind {} of {} bytes", { hdr.operands.kind, std.packet_length });
    }
}

control ConstructsEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        hdr.status.setValid();
        hdr.status.parser_error = 0;
        if (std.parser_error == error.PacketTooShort) { hdr.status.parser_error = 1; }
        else if (std.parser_error == error.Forbidden) { hdr.status.parser_error = 2; }
        else if (std.parser_error == error.TooMany) { hdr.status.parser_error = 3; }
        hdr.status.flags = std.checksum_error ++ meta.exited ++ 3w0 ++ std.instance_type[2:0];
        hdr.status.peeked = meta.peeked;
        hdr.status.length = std.packet_length[15:0];
        if (std.egress_rid == 9) {
            mark_to_drop(std);
        }
    }
}

control ConstructsDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.status);
        packet.emit(hdr.operands);
        packet.emit(hdr.numbers);
        packet.emit(hdr.hashes);
        packet.emit(hdr.first);
        packet.emit(hdr.second);
        packet.emit(hdr.third);
    }
}

V1Switch(ConstructsParser(), ConstructsVerify(), ConstructsIngress(), ConstructsEgress(), ConstructsUpdate(),
    ConstructsDeparser()) main;
