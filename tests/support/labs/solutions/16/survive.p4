// Lab 16: a dead link, solved for the student "example".
#include <core.p4>
#include <v1model.p4>

const bit<16> SUM_TYPE = 0x8fb8;
const bit<8> DOWN = 8;
const bit<8> UP = 9;
const bit<9> WATCH = 510;               // where news of links comes from
const bit<32> PORTS = 16;

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header sum_t {
    bit<8> kind; bit<8> detour;
    bit<16> port;                       // of DOWN and UP
    bit<32> seq;
}
struct headers_t { ethernet_t ethernet; sum_t sum; }
struct metadata_t {
    bit<9> first;
    bit<9> second;
}
struct news_t { bit<16> port; bit<1> down; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            SUM_TYPE: parse_sum;
            default: accept;
        }
    }
    state parse_sum { packet.extract(hdr.sum); transition accept; }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Survive(inout headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t std) {
    register<bit<1>>(PORTS) down;       // 1: the link at this port is down

    action ways(bit<9> first, bit<9> second) {
        meta.first = first;
        meta.second = second;
    }
    table way {
        key = { hdr.ethernet.dst: exact; }
        actions = { ways; NoAction; }
        default_action = NoAction();
    }

    bit<1> is_down;
    bit<1> news;

    apply {
        mark_to_drop(std);
        if (hdr.sum.isValid() && (hdr.sum.kind == DOWN || hdr.sum.kind == UP)) {
            if (std.ingress_port == WATCH && hdr.sum.port < (bit<16>)PORTS) {
                news = 0;
                if (hdr.sum.kind == DOWN) {
                    news = 1;
                }
                down.read(is_down, (bit<32>)hdr.sum.port);
                if (news != is_down) {
                    down.write((bit<32>)hdr.sum.port, news);
                    digest<news_t>(1, { hdr.sum.port, news });
                }
            }
        } else if (hdr.sum.isValid() && way.apply().hit) {
            down.read(is_down, (bit<32>)meta.first);
            if (is_down == 0 && meta.first != std.ingress_port) {
                std.egress_spec = meta.first;
            } else {
                down.read(is_down, (bit<32>)meta.second);
                if (is_down == 0 && meta.second != std.ingress_port
                    && hdr.sum.detour == 0) {
                    hdr.sum.detour = 1;
                    std.egress_spec = meta.second;
                }
            }
        }
    }
}

control Out(inout headers_t hdr, inout metadata_t meta,
            inout standard_metadata_t std) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Emit(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.ethernet); packet.emit(hdr.sum); }
}

V1Switch(Parse(), Verify(), Survive(), Out(), Compute(), Emit()) main;
