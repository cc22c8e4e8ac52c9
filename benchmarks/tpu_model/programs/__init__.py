"""One file a published program: `work(devices, row)` describes it for the compiler, with shapes only."""
