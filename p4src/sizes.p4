// Every compile-time size, with its reason. `make p4` sets LANES; the rest may be set with -D.
#ifndef P4REDUCE_SIZES
#define P4REDUCE_SIZES

// Lanes of 32 bits in a full packet. 64 for teaching (a frame that fits a screen), 256 for speed:
// 62 bytes of headers + 1,024 bytes of lanes fit one 1,500-byte frame.
#ifndef LANES
#define LANES 64
#endif

// Lanes travel as words of 64 lanes: 2,048 bits is the widest field that p4c accepts, and one wide
// primitive costs BMv2 about as much as one narrow one.
#define LANES_PER_WORD 64
#if LANES == 64
#define FOR_EACH_WORD(DO) DO(0)
#elif LANES == 256
#define FOR_EACH_WORD(DO) DO(0) DO(1) DO(2) DO(3)
#else
#error "LANES must be 64 or 256"
#endif
#define LANE_BYTES (LANES * 4)

// Slots of a switch, shared by all jobs: a job at 100 Gb/s and 10 us of round trip wants 256.
#ifndef SLOTS
#define SLOTS 4096
#endif

// Jobs that have counters of their own: eight (type, resend) counters for each.
#define STATS_JOBS 512
#define STATS_PER_JOB 8

// Table sizes: an entry of `peer` for each tree edge of each (job, epoch), of `replica` for each child.
#define PEER_ENTRIES 8192
#define JOB_ENTRIES 1024
#define REPLICA_ENTRIES 8192
#define ROUTE_ENTRIES 16384
#define CLASS_ENTRIES 1024
#define DSCP_ENTRIES 64     // code points
#define EDGE_ENTRIES PORTS

// Of a switch: all numbers that v1model has for them.
#define PORTS 512

// Groups of jobs whose packets are put in order by their batch.
#define BATCH_GROUPS 256

// The port behind which the controller sits (BMv2: --cpu-port 510).
#define CPU_PORT 510

// UDP port of the INC protocol at switches. Not registered with IANA; in the user range.
#define INC_UDP_PORT 9400
#define INC_VERSION 1
// Of a packet with lanes narrower than 32 bits, which a program that adds them as 32 must not take.
#define INC_VERSION_NARROW 2

#endif
