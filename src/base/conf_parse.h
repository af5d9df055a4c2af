/* SPDX-License-Identifier: BSD-3-Clause */
/* Values of settings in words, and back. */
#ifndef SN_CONF_PARSE_H
#define SN_CONF_PARSE_H

#include "base/conf.h"
#include <stddef.h>

#define SN_CONF_TEXT_MAX 256 /* bytes of a value in words, with its end */

/* False: the text is no value of this setting, or out of its range. */
bool sn_conf_parse(const struct sn_conf_desc *d, const char *text, int64_t *out);
/* The index-th of "a|b|c". */
void sn_conf_choice_name(const char *choices, int64_t index, char *out, size_t room);
/* "a number of bytes from 64 to 65536": what the setting would have accepted. */
void sn_conf_describe_range(const struct sn_conf_desc *d, char *out, size_t room);

#endif
