/* SPDX-License-Identifier: BSD-3-Clause */
/* Damage detection of frames: a four-lane CRC-32C over the payload. */
#ifndef SN_NET_CHECK_H
#define SN_NET_CHECK_H

#include "base/base.h"
#include <sys/uio.h>

/*
 * The payload's check. Add pieces in order; all but the last have a multiple of 8 bytes. Cost: 8 bytes a cycle where
 * the processor has the CRC-32C instruction (x86 with SSE 4.2, ARMv8 with CRC), more where it multiplies carry-less in wide
 * registers, about 1 byte a cycle else.
 */
struct sn_check {
	uint32_t lane[4];
	unsigned next; /* lane of the next word */
};
void sn_check_start(struct sn_check *c);
void sn_check_add(struct sn_check *c, const void *bytes, size_t len);
/* All pieces, of any lengths. */
void sn_check_pieces(struct sn_check *c, const struct iovec *iov, uint32_t count);
uint32_t sn_check_end(const struct sn_check *c);
static inline uint32_t sn_check_of(const void *bytes, size_t len)
{
	struct sn_check c;
	sn_check_start(&c);
	sn_check_add(&c, bytes, len);
	return sn_check_end(&c);
}
/*
 * Of SN_CHECK_HEAD bytes and of those of a body, which go to `to`, too, where nothing of it lies, unless that is
 * NULL: the body is read once.
 */
#define SN_CHECK_HEAD 16
uint32_t sn_check_piece(const void *head, const void *bytes, size_t len, void *to);
/*
 * The ways to do so that this processor has, of which the first use takes the fastest; with one of them, for tests. NULL where
 * there is none of that number: 0 is plain C.
 */
const char *sn_check_way(unsigned way);
uint32_t sn_check_piece_by(unsigned way, const void *head, const void *bytes, size_t len, void *to);
uint32_t sn_check_by(unsigned way, const void *bytes, size_t len);

#endif
