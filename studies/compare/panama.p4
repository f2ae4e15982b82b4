// PANAMA's marks on the pool of switchml.p4 (Gebara, Ghobadi and Costa, "In-network Aggregation for Shared Machine
// Learning Clusters", MLSys 2021): a result is the acknowledgement, and has the OR of its contributions' ECN marks.
#define MARKS
#include "switchml.p4"
