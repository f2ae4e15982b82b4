// Every way a packet can take through v1model: clones, resubmit, recirculate, multicast, truncate.
#include <core.p4>
#include <v1model.p4>

header op_t { bit<8> op; bit<8> count; bit<16> session; }
struct headers_t { op_t op; }
struct meta_t {
    @field_list(1, 2) bit<8> kept;
    @field_list(2) bit<16> rounds;
    bit<8> lost;
}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.op); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        if (s.instance_type == 6) {
            // resubmitted: m.kept and m.rounds as listed, ingress_port reset
            h.op.count = m.kept + m.lost;
            h.op.session = m.rounds + (bit<16>)s.ingress_port;
            s.egress_spec = 3;
        } else if (s.instance_type == 4) {
            h.op.session = m.rounds;
            m.rounds = m.rounds + 1;
            s.egress_spec = 4;
        } else {
            m.kept = 7; m.rounds = 9; m.lost = 5;
            s.egress_spec = 1;
            if (h.op.op == 1) { clone(CloneType.I2E, (bit<32>)h.op.session); h.op.count = 0xaa; }
            if (h.op.op == 2) { clone_preserving_field_list(CloneType.I2E, (bit<32>)h.op.session, 1); h.op.count = 0xaa; }
            if (h.op.op == 3) { resubmit_preserving_field_list(1); h.op.count = 0xaa; }
            if (h.op.op == 4) { resubmit_preserving_field_list(2); s.mcast_grp = 1; }
            if (h.op.op == 5) { truncate(6); }
            if (h.op.op == 6) { m.rounds = 100; }
            if (h.op.op == 7) { clone_preserving_field_list(CloneType.I2E, (bit<32>)h.op.session, 2); mark_to_drop(s); }
            if (h.op.op == 8) { mark_to_drop(s); s.mcast_grp = 1; }
            if (h.op.op == 9) { s.mcast_grp = 1; mark_to_drop(s); }
            if (h.op.op == 12) { s.mcast_grp = 1; truncate(6); }
            if (h.op.op == 13) { s.priority = (bit<3>)h.op.count; }
        }
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        if (s.instance_type == 1 || s.instance_type == 2) {
            h.op.op = 0x80 + (bit<8>)s.instance_type;
            h.op.count = h.op.count + m.kept;
            h.op.session = m.rounds + (bit<16>)s.egress_rid;
        } else if (h.op.op == 6 && m.rounds != 0 && h.op.count != 0) {
            h.op.count = h.op.count - 1;
            recirculate_preserving_field_list(2);
        } else if (h.op.op == 10) {
            h.op.count = 0x10;
            clone_preserving_field_list(CloneType.E2E, (bit<32>)h.op.session, 1);
            m.kept = 8;
        } else if (h.op.op == 11) {
            clone_preserving_field_list(CloneType.E2E, (bit<32>)h.op.session, 2);
            mark_to_drop(s);
        } else if (h.op.op == 14) {
            recirculate_preserving_field_list(1);
        } else if (s.instance_type == 5) {
            h.op.session = s.egress_rid;
        }
    }
}
control D(packet_out p, in headers_t h) { apply { p.emit(h.op); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
