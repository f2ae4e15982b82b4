// p4reduce with telemetry by digests. A build of its own: a program that sends digests costs every packet more, also
// where no port is watched (fabric/kernels/detours.py), and who reads counters need not pay for it.
#define WATCH_LINKS
#include "p4reduce.p4"
