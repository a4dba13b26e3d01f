"""Devices that run a network and count: simulated, emulated, remote, recorded."""
