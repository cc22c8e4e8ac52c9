"""Programs of XLA's compilers: made without their devices, read for work and memory."""
