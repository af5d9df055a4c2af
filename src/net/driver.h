/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the protocol asks of a carrier of frames: a batch out, a batch in, something to sleep on. Drivers neither
 * retry nor look inside; frames may be lost, doubled, reordered or damaged, and senders need not be who they say.
 * One thread at a time.
 */
#ifndef SN_NET_DRIVER_H
#define SN_NET_DRIVER_H

#include "core/rail.h"

struct sn_kpull;

struct sn_net_path { /* where a frame goes; the driver's business */
	uint8_t bytes[32];
	uint8_t quick[16];   /* likewise, by the short cut (quick.c), if the driver has one */
	uint32_t quick_most; /* the longest frame that may take it; 0: none does */
};

#define SN_NET_BATCH 64 /* most frames in one call */

#define SN_NET_FDS 3 /* most descriptors of a driver */

#define SN_NET_PIECES 8 /* segments of a body that a frame is gathered from; how many pay, output.c says */

enum sn_net_how { /* for a driver that tells bodies from the rest (sn_net_driver.joins) */
		  SN_OUT_PLAIN,
		  SN_OUT_BODY,	 /* a piece of a body */
		  SN_OUT_JOINED, /* likewise, and may share a packet with those before and behind it */
};

enum sn_net_quick { /* does a frame take the short cut? MAY: yes, if the driver can send it there now */
		    SN_QUICK_NO,
		    SN_QUICK_MAY,
		    SN_QUICK_ONLY,
};

struct sn_net_out { /* a frame to send: header and pieces of the body, valid until send() returns */
	struct iovec iov[1 + SN_NET_PIECES];
	uint32_t iov_count;
	uint32_t len;
	enum sn_net_how how;
	enum sn_net_quick quick;
	const struct sn_net_path *to;
};

struct sn_net_spot { /* where the bytes of one piece of a fetch belong */
	uint8_t *at;
	uint32_t len, link, pull, rdv; /* of the piece that belongs there */
	uint64_t offset;
};

struct sn_net_in { /* a frame that came, valid until the next receive() */
	uint8_t *data;
	uint32_t len;
	const struct sn_net_spot
		*spot; /* NULL; or what follows the first SN_NET_HEAD bytes stands there (it is at
			 * least that long), and data has room for it */
};

/*
 * Where the next frames would best be put. A driver that has to say where frames go before it sees them may ask: what
 * probably comes next is a train of frames of *size bytes (the last may be shorter), as many as are returned (at most
 * max). What follows the first SN_NET_HEAD bytes of frame i should go to spot[i], as far as that is long; the rest of
 * a frame that is longer, or filled up, stays where it would be without a spot. This is a guess: who asked must be
 * ready to find anything in the frames, and a driver that finds frames of another length puts them together again
 * itself.
 */
#define SN_NET_HEAD 56 /* of a DATA or PUSH frame */
struct sn_net_place {
	unsigned (*expect)(void *arg, struct sn_net_spot *spot, unsigned max, uint32_t *size);
	void *arg;
};

struct sn_net_driver {
	const char *name;
	uint32_t together; /* frames up to this long are best handed over lying side by side */
	bool joins;	   /* joins frames only where it is told that the path carries such packets */
	/*
	 * Open on the interface or address `where` (NULL or "": choose). *part is this end's address part. Negative
	 * sn_error: not available here (sn_fail says why).
	 */
	int (*open)(const char *where, void **drv, struct sn_addr_part *part);
	void (*close)(void *drv);
	/* Can this part be reached, and how? *path is filled if so. */
	bool (*resolve)(void *drv, const struct sn_addr_part *part, struct sn_net_path *path);
	/* Optional: how many leading bits of this end's address name its network. */
	unsigned (*prefix)(void *drv);
	/* Longest frame, in and out. */
	uint32_t (*mtu)(void *drv);
	/* Bytes that may be under way to this endpoint before its buffer is at risk. */
	uint64_t (*room)(void *drv);
	/* Send frames in order: returns how many are gone (a frame the system refuses for good counts as gone: lost); less
	 * than count: no room now. Never blocks. */
	unsigned (*send)(void *drv, const struct sn_net_out *frames, unsigned count);
	/* Up to max frames (at most SN_NET_BATCH); gives back the buffers of the call before. Never blocks. place: NULL
	 * when nothing is expected that has a place. */
	unsigned (*receive)(void *drv, struct sn_net_in *frames, unsigned max,
			    const struct sn_net_place *place);
	/* Optional: has something come? Kept for receive(). True, too, where only receive() can say. One call at most. */
	bool (*glance)(void *drv);
	/* Optional: it is time that the next receive() looks at whatever there is to look at; must: and so it shall. */
	void (*wide)(void *drv, bool must);
	/*
	 * Optional: a short cut beside the driver's own way, for short frames that come alone (quick.c). The part of
	 * an address by which peers find this end of it; false: there is none. And the way to a peer's, into
	 * path->quick; false: none leads there.
	 */
	bool (*quick_part)(void *drv, struct sn_addr_part *part);
	bool (*quick_path)(void *drv, const struct sn_addr_part *part, struct sn_net_path *path);
	/* Descriptors of which one polls readable when receive() has something; returns how many. */
	unsigned (*fds)(void *drv, int fd[SN_NET_FDS]);
	/* Optional: the errno with which the system refused to send the last frames, 0 if it took them. */
	int (*trouble)(void *drv);
	/* Optional: who fetches long messages for it in the kernel, or NULL. */
	struct sn_kpull *(*kernel)(void *drv);
	/* Optional: after fork, in the child: close what it must not keep open for the parent. Else fds() are closed. */
	void (*in_child)(void *drv);
	/* Report counters. */
	void (*counters)(void *drv, void (*fn)(void *arg, const char *name, uint64_t value), void *arg);
};

/*
 * Buffers of so many bytes for a socket, or as large as the system permits; returns the bytes of frames that fit the
 * one in.
 */
uint64_t sn_net_buffers(int fd, int in, int out);

extern const struct sn_net_driver sn_net_udp; /* UDP over IPv4 or IPv6: for any user */
extern const struct sn_net_driver
	sn_net_packet; /* Ethernet frames through AF_PACKET sockets: needs CAP_NET_RAW */
/* UDP, with a short cut over Ethernet for what is short; does not open where there can be no such short cut. */
extern const struct sn_net_driver sn_net_both;

#endif
