#!/usr/bin/env python3
"""Prints a binary file as a C array: embed.py FILE NAME. Used to carry glovebox-init inside the library."""
import sys

data = open(sys.argv[1], "rb").read()
name = sys.argv[2]
print(f'#include "sandbox/launch.h"\n\nconst unsigned char {name}[] = {{')
for i in range(0, len(data), 16):
    print("    " + ", ".join(f"0x{b:02x}" for b in data[i : i + 16]) + ",")
print(f"}};\nconst size_t {name}_bytes = sizeof({name});")
