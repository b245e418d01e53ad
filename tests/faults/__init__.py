"""Faults on purpose: killed commands, flipped bits, full disks, broken photos, a service under attack."""
