#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Frames that nobody should accept, at one endpoint: flood.py DRIVER HEX-ADDRESS SECONDS

Runs in the namespace of the other host. Listens to the real frames on eth0 and sends, to the endpoint whose address is
given, random bytes, random bytes behind a right-looking header, and real frames cut, changed, aimed elsewhere or said twice.
The key in the address is not used: whoever has it may send. Prints how many it sent.
"""
import random
import socket
import struct
import sys
import time

ETHERTYPE = 0x88B6
OUTGOING = 4


def parts(address):
    at = 24
    while at < address[3]:
        yield address[at], address[at + 2:at + 2 + address[at + 1]]
        at += 2 + address[at + 1]


def payload_of(driver, frame, host):
    """The protocol frame in a packet heard on the wire, or None."""
    kind = struct.unpack("!H", frame[12:14])[0]
    if driver == "ether":
        return frame[16:] if kind == ETHERTYPE else None
    if kind != 0x0800 or frame[23] != 17 or frame[30:34] != host:
        return None
    return frame[14 + (frame[14] & 15) * 4 + 8:]


def spoiled(heard, rnd):
    kind = rnd.randrange(6)
    if kind == 0 or not heard:
        return rnd.randbytes(rnd.randrange(1400))
    if kind == 1:
        body = rnd.randbytes(rnd.randrange(40, 1400))
        return struct.pack("<BBHI", 1, rnd.randrange(1, 12), len(body), rnd.getrandbits(32)) + body[8:]
    real = bytearray(rnd.choice(heard))
    if kind == 2:
        return bytes(real[:rnd.randrange(len(real))])
    if kind == 3:
        real[rnd.randrange(len(real))] ^= 1 << rnd.randrange(8)
    elif kind == 4:
        real[4:8] = rnd.randbytes(4)
    return bytes(real)  # kind 5: once more, as it was


def main():
    driver, address, seconds = sys.argv[1], bytes.fromhex(sys.argv[2]), float(sys.argv[3])
    rnd = random.Random(1)
    ear = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    ear.bind(("eth0", 0))
    ear.setblocking(False)
    part = dict(parts(address))
    host = b""
    if driver == "ether":
        mac, port = part[4][:6], part[4][6:8]
        head = mac + ear.getsockname()[4] + struct.pack("!H", ETHERTYPE) + port
        out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        out.bind(("eth0", 0))
        send = lambda body: out.send(head + body)  # noqa: E731
    else:
        host, port = part[2][:4], struct.unpack("!H", part[2][4:6])[0]
        out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        out.connect((socket.inet_ntoa(host), port))
        send = out.send
    heard, count, end = [], 0, time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            frame, where = ear.recvfrom(65536)
            real = payload_of(driver, frame, host) if where[2] == OUTGOING else None
            if real and len(real) < 1472:
                heard = heard[-200:] + [real]
        except BlockingIOError:
            pass
        for _ in range(20):
            try:
                send(spoiled(heard, rnd))
                count += 1
            except OSError:
                time.sleep(0.001)
    print(count)


main()
