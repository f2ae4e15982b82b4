// Lab 15: the slow link, solved for the student "example".
#include <core.p4>
#include <v1model.p4>

const bit<16> TEL_TYPE = 0x8e15;
const bit<16> ME = 14270;                 // this switch's number
const bit<8> ROOM = 4;

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header tel_t {
    bit<16> type;                       // the frame's own EtherType
    bit<8> count;                       // of records
    bit<32> worst_us; bit<16> worst_by;
}
header hop_t { bit<16> switch_; bit<32> time_us; }
struct headers_t { ethernet_t ethernet; tel_t tel; hop_t[4] hops; }
struct metadata_t { bit<8> left; }
struct slow_t { bit<16> by; bit<32> us; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            TEL_TYPE: parse_tel;
            default: accept;
        }
    }
    state parse_tel {
        packet.extract(hdr.tel);
        meta.left = hdr.tel.count;
        transition select(meta.left) {
            0: accept;
            default: parse_hop;
        }
    }
    state parse_hop {
        packet.extract(hdr.hops.next);
        meta.left = meta.left - 1;
        transition select(meta.left) {
            0: accept;
            default: parse_hop;
        }
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Tell(inout headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    action to(bit<9> port) { std.egress_spec = port; }
    table way {
        key = { hdr.ethernet.dst: exact; }
        actions = { to; NoAction; }
        default_action = NoAction();
    }
    action begin() {
        hdr.tel.setValid();
        hdr.tel.type = hdr.ethernet.type;
        hdr.tel.count = 0;
        hdr.tel.worst_us = 0;
        hdr.tel.worst_by = 0;
        hdr.ethernet.type = TEL_TYPE;
    }
    table source {                      // ports of workers that send
        key = { std.ingress_port: exact; }
        actions = { begin; NoAction; }
        default_action = NoAction();
    }
    action end() {
        digest<slow_t>(1, { hdr.tel.worst_by, hdr.tel.worst_us });
        hdr.ethernet.type = hdr.tel.type;
        hdr.tel.setInvalid();
        hdr.hops[0].setInvalid();
        hdr.hops[1].setInvalid();
        hdr.hops[2].setInvalid();
        hdr.hops[3].setInvalid();
    }
    table sink {                        // ports of workers that receive
        key = { std.egress_spec: exact; }
        actions = { end; NoAction; }
        default_action = NoAction();
    }

    bit<32> now;
    bit<32> gap;

    apply {
        if (std.parser_error != error.NoError || !way.apply().hit) {
            mark_to_drop(std);
        } else {
            if (!hdr.tel.isValid()) {
                source.apply();
            }
            if (hdr.tel.isValid()) {
                now = (bit<32>)std.ingress_global_timestamp;
                if (hdr.tel.count > 0) {
                    gap = now - hdr.hops[0].time_us;
                    if (gap > hdr.tel.worst_us) {
                        hdr.tel.worst_us = gap;
                        hdr.tel.worst_by = ME;
                    }
                }
                hdr.hops.push_front(1);
                hdr.hops[0].setValid();
                hdr.hops[0].switch_ = ME;
                hdr.hops[0].time_us = now;
                if (hdr.tel.count < ROOM) {
                    hdr.tel.count = hdr.tel.count + 1;
                }
                sink.apply();
            }
        }
    }
}

control Out(inout headers_t hdr, inout metadata_t meta,
            inout standard_metadata_t std) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Emit(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.tel);
        packet.emit(hdr.hops);
    }
}

V1Switch(Parse(), Verify(), Tell(), Out(), Compute(), Emit()) main;
