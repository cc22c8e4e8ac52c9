"""The sheets of config/ as typed rows: devices, machines, prices."""
