#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""docs/protocol.md against the headers: frame types, fields with their offsets and sizes, records, numbers, drop reasons.

usage: protocol.py SOURCE
"""
import os
import re
import sys

SIZES = {"uint8_t": 1, "uint16_t": 2, "uint32_t": 4, "int32_t": 4, "uint64_t": 8,
         "u8": 1, "__le16": 2, "__le32": 4, "__le64": 8}
wrong = []


def read(*path):
    with open(os.path.join(sys.argv[1], *path), encoding="utf-8") as f:
        return f.read()


def expect(what, doc, code):
    if doc != code:
        wrong.append("%s: docs/protocol.md says %r, the code %r" % (what, doc, code))


def fields(header, name):
    """{field: (offset, size)} of a packed struct, the header's fields left out, and its size."""
    body = re.search(r"struct (?:SN_PACKED )?%s \{(.*?)\n\}" % name, header, re.S).group(1)
    found, at = {}, 0
    for line in body.splitlines():
        line = re.sub(r"/\*.*?\*/", "", line).strip()
        m = re.match(r"(?:struct sn_wire_head h|(\w+) (\w+)(?:\[(\d+)\])?);", line)
        if not m:
            continue  # the secret part of HELLO lies in a struct of its own, without padding
        size = 40 if m.group(1) is None else SIZES[m.group(1)] * int(m.group(3) or 1)
        if m.group(1):
            found[m.group(2)] = (at, size)
        at += size
    return found, at


def table(section):
    """{field: (offset, size)} of the first table of a section; a field without a size goes to the end of the frame."""
    rows = re.findall(r"^\| (\d+) \| (\d*) \| (\w*) \|", section, re.M)
    return {name or "rest": (int(offset), int(size or 0)) for offset, size, name in rows if name}


def frames(doc, header, kernel):
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", doc, re.M | re.S))
    types = dict(re.findall(r"SN_WIRE_(\w+) = (\d+),", header))
    structs = {"HELLO": "hello", "BYE": "bye", "ACK": "head", "MSG": "head", "PULL": "pull", "DATA": "data", "PUSH": "push", "PROBE": "probe",
               "SLICE": "slice"}
    seen = set()
    for title, text in sections.items():
        named = re.findall(r"([A-Z]+) \((\d+)\)", title)
        size = re.search(r": (\d+) bytes", title)
        for word, number in named:
            key = "SLICE_OF" if word == "SLICE" else word
            expect("the number of " + word, number, types.get(key))
            seen.add(key)
        if not named or named[0][0] not in structs:
            continue
        code, length = fields(header, "sn_wire_" + structs[named[0][0]])
        if size:
            expect("the length of " + named[0][0], int(size.group(1)), length)
        if structs[named[0][0]] != "head":
            expect("the fields of " + named[0][0], table(text), code)
            if named[0][0] in ("PULL", "DATA"):
                own, length_k = fields(kernel, "sn_wire_" + structs[named[0][0]])
                expect("the kernel's length of " + named[0][0], length, length_k)
                expect("the kernel's fields of " + named[0][0],
                       {k: v for k, v in code.items() if k not in ("push", "tries", "silent", "reserved")},
                       {k: v for k, v in own.items() if k != "reserved"})
    expect("the frame types", seen, {t for t in types if t != "TYPES" and not t.startswith("F_")})
    head = next(text for title, text in sections.items() if title.startswith("Frame header"))
    code, length = fields(header, "sn_wire_head")
    expect("the fields of the header", table(head), code)
    expect("the kernel's header", code, fields(kernel, "sn_wire_head")[0])


def records(doc, header, source):
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in doc.splitlines() if line.startswith("| ") and
            "| EAGER 1 |" not in line]
    names = re.search(r"^\| offset \| size \| field \|((?: \w+ \d \|)+)$", doc, re.M).group(1)
    numbers = dict(re.findall(r"(\w+) (\d)", names))
    expect("the records", numbers, dict(re.findall(r"SN_REC_(\w+) = (\d)", header)))
    heads = next(r for r in rows if r[2] == "record head")
    expect("the lengths of record heads", ["0"] + heads[3:],
           re.search(r"bytes\[\] = \{([\d, ]+)\};", source).group(1).split(", "))
    code, _ = fields(header, "sn_wire_rec")
    shown = {r[2]: (int(r[0]), int(r[1])) for r in rows if len(r) == len(heads) and r[0].isdigit()}
    expect("the fields of a record", shown, code)


def numbers(doc, texts):
    units = {"": 1, "us": 1000, "ms": 1000000}
    values = {}
    for text in texts:
        for name, value in re.findall(r"^#define (SN_\w+)\s+(?:\\\n\s*)?(.+?)(?:\s*/\*.*)?$", text, re.M):
            values[name] = value
    def number(text):
        text = re.sub(r"SN_\w+", lambda m: str(number(values[m.group(0)])), text)
        return eval(re.sub(r"(?<=\d)U?LL", "", text))  # digits, parentheses and operators by now
    rows = re.findall(r"^\| [^|]+ \| (\d+)(?: (us|ms))? \| (SN_\w+) \|$", doc, re.M)
    for value, unit, name in rows:
        if name not in values:
            wrong.append("%s: there is no such number in the code" % name)
            continue
        expect(name, int(value) * units[unit], number(values[name]))
    for name in values:
        if re.match(r"SN_WIRE_[A-Z_]+$", name) and name != "SN_WIRE_H" and name not in {r[2] for r in rows}:
            wrong.append("%s is not in the table of numbers" % name)


def main():
    doc, header, kernel = read("docs", "protocol.md"), read("src", "net", "wire.h"), read("kmod", "sennit_net.h")
    source = read("src", "net", "wire.c")
    frames(doc, header, kernel)
    records(doc, header, source)
    numbers(doc, (header, read("src", "net", "net.h"), read("src", "net", "keep.h")))
    expect("the reasons for drops", set(re.findall(r"^\| (net\.drop_\w+) \|", doc, re.M)),
           set(re.findall(r'"(net\.drop_\w+)"', source)))
    drivers = "".join(read("src", "net", name) for name in ("udp.c", "packet.c", "bulk.c"))
    for name in re.findall(r"`(net\.(?:udp|ether)_\w+)`", doc):
        if '"%s"' % name not in drivers:
            wrong.append("%s: no driver counts it" % name)
    for text in wrong:
        print("FAILED:", text)
    sys.exit(bool(wrong))


main()
