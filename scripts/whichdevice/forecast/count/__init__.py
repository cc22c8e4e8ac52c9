"""Count a step: its kernels and its memory, without a device and without a compiler for one."""
