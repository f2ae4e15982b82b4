"""The golden model: the protocol in short, pure Python. Tests compare the P4 program with it, packet by packet.

- The switch: `frames` (packets and their bytes), `tables` (entries), `reasons` (of refusal), `switch` (its behaviour).
- Its surroundings: `graph` (links and routes), `trees`, `entries` (table entries of a tree), `work` (chunks and sums),
  `endpoints` (workers, parameter servers), `controller` (epochs, table writes), `network` (links with faults), `spoof`
  (packets that a switch must refuse).
- Scenarios: `choices` (sources of random choices), `scenario` (draws one), `run` (runs one), `checks` (properties that
  must hold), `witness` (whose contributions are in a sum), `strategies` (for hypothesis), `soak` (runs many).
- Switches under test: `backend` (the model alone), `p4` and `p4_entries` (the P4 program beside the model).
"""
