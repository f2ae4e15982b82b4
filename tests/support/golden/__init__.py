"""The golden model: slot machine and network once more, in short pure Python, to test the P4 program against.

- The machine: `frames` (bytes), `tables` (entries), `reasons` (of refusal), `switch` (what a switch does).
- Around it: `graph` (links and routes), `trees`, `entries` (a tree as table entries), `work` (what jobs compute),
  `endpoints` (workers, parameter servers), `controller` (epochs, table writes), `network` (faults), `spoof`.
- Scenarios: `choices` (random, or hypothesis'), `scenario` (drawn), `run` (run), `checks` (properties), `soak` (many).
- What runs them: `backend` (the model alone), `p4` and `p4_entries` (the P4 program, compared at every packet).
"""
