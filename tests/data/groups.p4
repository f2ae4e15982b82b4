// Header stacks, unions, stacks of unions and varbit fields: one order on them for each value of `what`.
// tests/unit/p4switch/test_groups.py says what BMv2 makes of each.

#include <core.p4>
#include <v1model.p4>

header order_t {
    bit<8> what;
    bit<8> more;
}

header item_t {
    bit<8> kind;
    bit<8> value;
}

header wide_t {
    bit<8>   kind;
    bit<288> value;
}

header options_t {
    bit<8>      kind;
    bit<8>      octets;
    varbit<320> data;
    bit<8>      tail;
}

header_union either_t {
    item_t brief;
    wide_t full;
}

struct headers_t {
    order_t      order;
    item_t[3]    items;
    options_t[2] options;
    either_t[2]  unions;
}

struct metadata_t {
    bit<32> last;
}

parser GroupsParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.order);
        transition following;
    }
    state following {
        transition select(packet.lookahead<bit<8>>()) {
            1: item;
            2: option;
            3: brief;
            4: full;
            default: accept;
        }
    }
    state item {
        packet.extract(hdr.items.next);
        meta.last = hdr.items.lastIndex;
        transition select(hdr.items.last.value) {
            0: accept;
            default: following;
        }
    }
    state option {
        packet.extract(hdr.options.next, (bit<32>)packet.lookahead<bit<16>>()[7:0] << 3);
        transition following;
    }
    state brief {
        packet.extract(hdr.unions.next.brief);
        transition following;
    }
    state full {
        packet.extract(hdr.unions.next.full);
        transition following;
    }
}

control GroupsVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }
control GroupsUpdate(inout headers_t hdr, inout metadata_t meta) { apply { } }

control GroupsIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    item_t[3] copy;
    apply {
        std.egress_spec = 1;
        if (hdr.order.what == 1) { hdr.items.push_front(1); }
        if (hdr.order.what == 2) { hdr.items.pop_front(2); }
        if (hdr.order.what == 3) { hdr.unions.push_front(1); }
        if (hdr.order.what == 4) { hdr.unions.pop_front(1); }
        if (hdr.order.what == 5) {
            copy = hdr.items;
            hdr.items[0] = copy[2];
            hdr.items[2] = copy[0];
        }
        if (hdr.order.what == 6) { hdr.options.pop_front(1); }
        if (hdr.order.what == 7) {
            hdr.options[0].setInvalid();
            hdr.options[0].setValid();
        }
        if (hdr.order.what == 8 && hdr.options[0] == hdr.options[1]) { hdr.order.more = 1; }
        if (hdr.order.what == 9) { hdr.unions[1].full = hdr.unions[0].full; }
        if (hdr.order.what == 10) { hdr.unions[0] = hdr.unions[1]; }
        if (hdr.order.what == 11 && hdr.unions[0] == hdr.unions[1]) { hdr.order.more = 1; }
        if (hdr.order.what == 12) { hdr.items[hdr.order.more].value = 9; }
        if (hdr.order.what == 14) {
            if (std.parser_error == error.PacketTooShort) { hdr.order.more = 1; }
            if (std.parser_error == error.StackOutOfBounds) { hdr.order.more = 3; }
            if (std.parser_error == error.HeaderTooShort) { hdr.order.more = 4; }
            if (meta.last == 2) { hdr.order.more = hdr.order.more | 0x80; }
        }
        if (hdr.order.what == 15) { hdr.unions[0].brief.setValid(); }
        if (hdr.order.what == 16) {
            hash(hdr.order.more, HashAlgorithm.xor16, 8w0, { hdr.options[0].data, hdr.options[0].tail }, 16w256);
        }
        if (hdr.order.what == 17) { hdr.options[0].data = hdr.options[1].data; }
    }
}

control GroupsEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (hdr.order.what == 7) { hdr.order.more = (bit<8>)std.packet_length; }
        if (hdr.order.what == 13) {
            hdr.items.pop_front(1);
            hdr.order.more = (bit<8>)std.packet_length;
        }
    }
}

control GroupsDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(GroupsParser(), GroupsVerify(), GroupsIngress(), GroupsEgress(), GroupsUpdate(), GroupsDeparser()) main;
