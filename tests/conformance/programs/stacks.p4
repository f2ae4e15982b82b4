// Header stacks: parser loops with next, last and lastIndex, push_front and pop_front, whole stacks assigned, elements
// made valid and invalid, an index that only the packet knows.
#include <core.p4>
#include <v1model.p4>

header order_t {
    bit<8> what;
    bit<8> count;
    bit<8> index;
    bit<8> port;
}

header tag_t {
    bit<15> value;
    bit<1>  bottom;
}

header seen_t {
    bit<32> parser_error;
    bit<16> last;
    bit<8>  last_index;
    bit<8>  valid;
    bit<16> chosen;
}

struct headers_t {
    seen_t   seen;
    order_t  order;
    tag_t[4] tags;
    tag_t[4] others;
}

struct metadata_t {
    bit<16> last;
    bit<8>  last_index;
}

parser StacksParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.order);
        transition select(hdr.order.what[7:7]) {
            1: parse_tags;
            default: accept;
        }
    }
    state parse_tags {
        packet.extract(hdr.tags.next);
        meta.last = (bit<16>)hdr.tags.last.value;
        meta.last_index = (bit<8>)hdr.tags.lastIndex;
        transition select(hdr.tags.last.bottom, hdr.tags.last.value) {
            (1, 0x100 .. 0x7fff): parse_other;
            (1, _): accept;
            default: parse_tags;
        }
    }
    state parse_other {
        packet.extract(hdr.others.next);
        transition select(packet.lookahead<bit<8>>()) {
            0 &&& 0xfe: parse_other;
            default: accept;
        }
    }
}

control StacksVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }
control StacksUpdate(inout headers_t hdr, inout metadata_t meta) { apply { } }

control StacksIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action push_one() {
        hdr.tags.push_front(1);
        hdr.tags[0].setValid();
        hdr.tags[0].value = (bit<15>)hdr.order.count;
        hdr.tags[0].bottom = 0;
    }
    action push_three() {
        hdr.tags.push_front(3);
    }
    action pop_one() { hdr.tags.pop_front(1); }
    action pop_two() { hdr.others.pop_front(2); }
    action copy() { hdr.others = hdr.tags; }
    action swap() {
        tag_t kept = hdr.tags[0];
        hdr.tags[0] = hdr.tags[1];
        hdr.tags[1] = kept;
    }
    action fill() {
        hdr.tags[3].setValid();
        hdr.tags[3] = { 15w0x1234, 1w1 };
    }
    action cut() { hdr.tags[1].setInvalid(); }
    action nothing() { }

    table work {
        key = { hdr.order.what[3:0]: exact; }
        actions = { push_one; push_three; pop_one; pop_two; copy; swap; fill; cut; nothing; }
        const default_action = nothing();
        const entries = {
            1: push_one();
            2: push_three();
            3: pop_one();
            4: pop_two();
            5: copy();
            6: swap();
            7: fill();
            8: cut();
        }
    }

    table again {
        key = { hdr.order.count[3:0]: exact; }
        actions = { push_one; push_three; pop_one; pop_two; copy; swap; fill; cut; nothing; }
        default_action = nothing();
        size = 16;
    }

    apply {
        if (!hdr.order.isValid()) {
            mark_to_drop(std);
            exit;
        }
        std.egress_spec = (bit<9>)(hdr.order.port & 7);
        work.apply();
        again.apply();
        hdr.seen.setValid();
        hdr.seen.last = meta.last;
        hdr.seen.last_index = meta.last_index;
        hdr.seen.parser_error = 0;
        if (std.parser_error == error.StackOutOfBounds) { hdr.seen.parser_error = 1; }
        else if (std.parser_error == error.PacketTooShort) { hdr.seen.parser_error = 2; }
        else if (std.parser_error != error.NoError) { hdr.seen.parser_error = 3; }
        hdr.seen.valid = 0;
        hdr.seen.chosen = 0;
        if (hdr.tags[0].isValid() && hdr.tags[1].isValid()) {
            bit<8> index = hdr.order.index & 1;
            hdr.seen.chosen = (bit<16>)hdr.tags[index].value;
            hdr.tags[index].value = hdr.tags[index].value ^ 0x55;
        }
        if (hdr.tags[0].isValid()) { hdr.seen.valid = hdr.seen.valid | 1; }
        if (hdr.tags[1].isValid()) { hdr.seen.valid = hdr.seen.valid | 2; }
        if (hdr.tags[2].isValid()) { hdr.seen.valid = hdr.seen.valid | 4; }
        if (hdr.tags[3].isValid()) { hdr.seen.valid = hdr.seen.valid | 8; }
        if (hdr.others[0].isValid()) { hdr.seen.valid = hdr.seen.valid | 16; }
        if (hdr.others[3].isValid()) { hdr.seen.valid = hdr.seen.valid | 128; }
    }
}

control StacksEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { }
}

control StacksDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.seen);
        packet.emit(hdr.order);
        packet.emit(hdr.tags);
        packet.emit(hdr.others);
    }
}

V1Switch(StacksParser(), StacksVerify(), StacksIngress(), StacksEgress(), StacksUpdate(), StacksDeparser()) main;
