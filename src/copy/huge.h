/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Huge pages for large buffers that are seen again. Half the time of a kernel copy on 4 KiB pages is spent walking them; on
 * huge pages it runs at twice the speed. So the parts of 2 MiB of a buffer that large messages use again and again are
 * collapsed into huge pages (MADV_COLLAPSE, Linux 6.1): their contents stay, and nothing else of the program changes.
 *
 * Only after SN_HUGE_AFTER uses, since one collapse costs as much as copying the 2 MiB a dozen times, and at most one for
 * each message. Not where the system's transparent huge pages are switched off ("never"), nor with the setting huge=no.
 *
 * Budget: for a message below 2 MiB nothing; above, a look into a small table for each 2 MiB, and now and then one system
 * call. One thread at a time (the endpoint's lock) uses a table.
 */
#ifndef SN_COPY_HUGE_H
#define SN_COPY_HUGE_H

#include <stdint.h>
#include <sys/uio.h>

#define SN_HUGE_BYTES (UINT64_C(2) << 20)
#define SN_HUGE_AFTER 64
#define SN_HUGE_AGAIN 4096 /* uses after which it is asked again: other memory may stand there now */
#define SN_HUGE_SLOTS 1024

struct sn_huge {
	struct {
		uint64_t region; /* address / 2 MiB, plus 1 */
		uint32_t uses;
	} at[SN_HUGE_SLOTS];
	uint64_t collapsed, refused; /* counters */
	int8_t allowed;		     /* 0: not asked yet */
};

/* A large message uses these bytes of this process. */
void sn_huge_seen(struct sn_huge *h, const struct iovec *iov, uint32_t count);

#endif
