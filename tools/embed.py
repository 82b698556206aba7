#!/usr/bin/env python3
"""Prints a file as a C array: embed.py FILE NAME HEADER, where HEADER declares NAME and NAME_bytes."""
import sys

data = open(sys.argv[1], "rb").read()
name = sys.argv[2]
print(f'#include "{sys.argv[3]}"\n\nconst unsigned char {name}[] = {{')
for i in range(0, len(data), 16):
    print("    " + ", ".join(f"0x{b:02x}" for b in data[i : i + 16]) + ",")
print(f"}};\nconst size_t {name}_bytes = sizeof({name});")
