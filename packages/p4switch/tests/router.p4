#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> len; bit<16> id; bit<3> flags; bit<13> offset;
    bit<8> ttl; bit<8> protocol; bit<16> sum; bit<32> src; bit<32> dst;
}
header udp_t { bit<16> sport; bit<16> dport; bit<16> len; bit<16> sum; }
struct headers_t { ethernet_t ethernet; ipv4_t ipv4; udp_t udp; }
struct metadata_t {}

parser P(packet_in p, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { p.extract(h.ethernet); transition select(h.ethernet.type) { 0x0800: ip; default: accept; } }
    state ip { p.extract(h.ipv4); transition select(h.ipv4.protocol) { 17: udp; default: accept; } }
    state udp { p.extract(h.udp); transition accept; }
}
control Verify(inout headers_t h, inout metadata_t m) { apply {} }
control Compute(inout headers_t h, inout metadata_t m) { apply {} }

control Router(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    counter(512, CounterType.packets_and_bytes) routed;
    register<bit<32>>(512) seen;
    action drop() { mark_to_drop(s); }
    action forward(bit<48> mac, bit<9> port) {
        h.ethernet.dst = mac;
        h.ipv4.ttl = h.ipv4.ttl - 1;
        s.egress_spec = port;
        routed.count((bit<32>)port);
    }
    action flood(bit<16> group) { s.mcast_grp = group; }
    action deny() { mark_to_drop(s); exit; }
    action permit() {}
    table route {
        key = { h.ipv4.dst: lpm @name("dst"); }
        actions = { forward; flood; drop; }
        default_action = drop();
    }
    table filter {
        key = {
            h.ipv4.src: ternary @name("src");
            h.udp.dport: range @name("dport");
            h.ipv4.protocol: optional @name("protocol");
        }
        actions = { deny; permit; }
        default_action = permit();
    }
    apply {
        bit<32> count;
        seen.read(count, (bit<32>)s.ingress_port);
        seen.write((bit<32>)s.ingress_port, count + 1);
        if (h.ipv4.isValid() && h.ipv4.ttl > 1) {
            route.apply();
            if (h.udp.isValid()) { filter.apply(); }
        } else {
            drop();
        }
    }
}
control Out(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply {} }
control Emit(packet_out p, in headers_t h) { apply { p.emit(h.ethernet); p.emit(h.ipv4); p.emit(h.udp); } }

V1Switch(P(), Verify(), Router(), Out(), Compute(), Emit()) main;
