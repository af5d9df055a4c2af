/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts that the kernel keeps in files. Calls nothing of sennit's, and allocates nothing. */
#ifndef SN_BASE_SMALL_FILE_H
#define SN_BASE_SMALL_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* Its beginning, as far as there is room for it and a zero. false: it cannot be read, or is empty; the text is empty, too. */
bool sn_read_text(const char *path, char *text, size_t room);

#endif
