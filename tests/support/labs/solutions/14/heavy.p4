// Lab 14: heavy jobs, solved for the student "example".
#include <core.p4>
#include <v1model.p4>

const bit<16> LOAD_TYPE = 0x8d26;
const bit<32> CELLS0 = 23;
const bit<32> CELLS1 = 29;
const bit<32> CELLS2 = 31;
const bit<32> LIMIT = 66000;
const bit<8> PUSH = 1;
const bit<8> ASK = 2;
const bit<9> UP = 9;

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header load_t {
    bit<8> kind; bit<8> heavy; bit<32> job; bit<32> amount; bit<32> estimate;
}
struct headers_t { ethernet_t ethernet; load_t load; }
struct metadata_t {}
struct heavy_t { bit<32> job; bit<32> estimate; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            LOAD_TYPE: parse_load;
            default: accept;
        }
    }
    state parse_load { packet.extract(hdr.load); transition accept; }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Count(inout headers_t hdr, inout metadata_t meta,
              inout standard_metadata_t std) {
    register<bit<32>>(CELLS0) row0;
    register<bit<32>>(CELLS1) row1;
    register<bit<32>>(CELLS2) row2;

    bit<32> cell0;
    bit<32> cell1;
    bit<32> cell2;
    bit<32> count0;
    bit<32> count1;
    bit<32> count2;
    bit<32> before;

    action least(out bit<32> found) {
        found = count0;
        if (count1 < found) { found = count1; }
        if (count2 < found) { found = count2; }
    }

    apply {
        if (!hdr.load.isValid() || (hdr.load.kind != PUSH && hdr.load.kind != ASK)) {
            mark_to_drop(std);
        } else {
            hash(cell0, HashAlgorithm.crc32, 32w0, { hdr.load.job }, CELLS0);
            hash(cell1, HashAlgorithm.crc32, 32w0, { hdr.load.job }, CELLS1);
            hash(cell2, HashAlgorithm.crc32, 32w0, { hdr.load.job }, CELLS2);
            row0.read(count0, cell0);
            row1.read(count1, cell1);
            row2.read(count2, cell2);
            least(before);
            if (hdr.load.kind == PUSH) {
                count0 = count0 |+| hdr.load.amount;
                count1 = count1 |+| hdr.load.amount;
                count2 = count2 |+| hdr.load.amount;
                row0.write(cell0, count0);
                row1.write(cell1, count1);
                row2.write(cell2, count2);
            }
            least(hdr.load.estimate);
            hdr.load.heavy = 0;
            if (hdr.load.estimate >= LIMIT) {
                hdr.load.heavy = 1;
                if (before < LIMIT) {
                    digest<heavy_t>(1, { hdr.load.job, hdr.load.estimate });
                }
            }
            std.egress_spec = UP;
            if (hdr.load.kind == ASK) {
                std.egress_spec = std.ingress_port;
            }
        }
    }
}

control Out(inout headers_t hdr, inout metadata_t meta,
            inout standard_metadata_t std) { apply {} }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Emit(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.ethernet); packet.emit(hdr.load); }
}

V1Switch(Parse(), Verify(), Count(), Out(), Compute(), Emit()) main;
