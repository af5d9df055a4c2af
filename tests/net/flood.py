#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Frames that nobody should accept, at one endpoint: flood.py DRIVER [SECONDS]

Runs in the namespace of the other host. Listens to the real frames on eth0 and sends, to the endpoint whose address comes on
standard input once this says that it listens, until another line comes: random bytes, random bytes behind a right-looking header, and real frames cut, changed, aimed elsewhere or said twice.
The key in the address is not used: whoever has it may send. Prints how many it sent.

With SECONDS, all that was heard until the address came is sent there for that time, unchanged, again and again.
"""
import random
import select
import socket
import struct
import sys
import time

ETHERTYPE, BODIES = 0x88B6, 0x88B5
DATA, PUSH = 7, 11
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
        if kind == BODIES:  # the first, if several are joined
            return frame[42:42 + (struct.unpack("!I", frame[26:30])[0] or len(frame))]
        return frame[16:] if kind == ETHERTYPE else None
    if kind != 0x0800 or frame[23] != 17 or host not in (None, frame[30:34]):
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


class Mouth:
    """Sends to the endpoint with this address."""

    def __init__(self, driver, address, mac):
        part = dict(parts(address))
        self.host = b""
        if driver == "ether":
            self.head = part[4][:6] + mac + struct.pack("!H", ETHERTYPE) + part[4][6:8]
            self.body_head = part[4][:6] + mac + struct.pack("!HB21xH4x", BODIES, 0x45, struct.unpack("!H", part[4][6:8])[0])
            self.out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            self.out.bind(("eth0", 0))
        else:
            self.host, port = part[2][:4], struct.unpack("!H", part[2][4:6])[0]
            self.head = self.body_head = b""
            self.out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.out.connect((socket.inet_ntoa(self.host), port))

    def say(self, body):
        of_bodies = len(body) > 1 and body[1] in (DATA, PUSH)
        try:
            self.out.send((self.body_head if of_bodies else self.head) + body)
            return 1
        except OSError:
            time.sleep(0.001)
            return 0


def listen():
    ear = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    ear.bind(("eth0", 0))
    ear.setblocking(False)
    return ear


def heard_by(ear, driver, host=None):
    """A protocol frame that left this host, or None. host: only what went there by IP."""
    try:
        frame, where = ear.recvfrom(65536)
    except BlockingIOError:
        return None
    real = payload_of(driver, frame, host) if where[2] == OUTGOING else None
    return real if real and len(real) < 1472 else None


def told():
    return select.select([sys.stdin], [], [], 0)[0]


def flood(driver):
    rnd = random.Random(1)
    ear = listen()
    print("listening", flush=True)
    mouth = Mouth(driver, bytes.fromhex(sys.stdin.readline()), ear.getsockname()[4])
    heard, count = [], 0
    while not told():
        real = heard_by(ear, driver, mouth.host)
        if real:
            heard = heard[-200:] + [real]
        for _ in range(20):
            count += mouth.say(spoiled(heard, rnd))
    return count


def replay(driver, seconds):
    ear = listen()
    print("listening", flush=True)
    heard = []
    while not told():
        select.select([sys.stdin, ear], [], [])
        real = heard_by(ear, driver)
        if real and len(heard) < 50000:
            heard.append(real)
    mouth = Mouth(driver, bytes.fromhex(sys.stdin.readline()), ear.getsockname()[4])
    print("replaying", flush=True)
    count, end = 0, time.monotonic() + seconds
    while time.monotonic() < end and heard:
        count += mouth.say(heard[count % len(heard)])
        if count % 20 == 0:  # so that what is meant for the endpoint comes through
            time.sleep(0.0005)
    return count


def main():
    driver, *seconds = sys.argv[1:]
    print(replay(driver, float(seconds[0])) if seconds else flood(driver), flush=True)


main()
