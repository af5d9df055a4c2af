/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/conf_parse.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The position of word among "a|b|c", or -1. */
static int64_t choice_index(const char *choices, const char *word)
{
	size_t len = strlen(word);
	int64_t index = 0;
	for (const char *at = choices; at; index++) {
		size_t span = strcspn(at, "|");
		if (span == len && !strncasecmp(at, word, len))
			return index;
		at = at[span] ? at + span + 1 : NULL;
	}
	return -1;
}

void sn_conf_choice_name(const char *choices, int64_t index, char *out, size_t room)
{
	const char *at = choices;
	while (index-- > 0)
		at += strcspn(at, "|") + 1;
	snprintf(out, room, "%.*s", (int)strcspn(at, "|"), at);
}

static bool parse_num(const struct sn_conf_desc *d, const char *text, int64_t *out)
{
	char *end;
	errno = 0;
	long long n = strtoll(text, &end, 10);
	if (end == text || errno)
		return false;
	if (*end && !strcmp(d->unit, "bytes")) {
		const char *suffix = "kmg";
		const char *s = strchr(suffix, tolower((unsigned char)*end));
		if (!s || __builtin_mul_overflow(n, 1LL << (10 * (s - suffix + 1)), &n))
			return false;
		end++;
	}
	*out = n;
	return !*end && n >= d->min && n <= d->max;
}

bool sn_conf_parse(const struct sn_conf_desc *d, const char *text, int64_t *out)
{
	static const char *const words[] = {"0", "1", "no", "yes", "off", "on", "false", "true"};
	switch (d->type) {
	case SN_TYPE_NUM: return parse_num(d, text, out);
	case SN_TYPE_ENUM: return (*out = choice_index(d->choices, text)) >= 0;
	case SN_TYPE_STR: *out = 0; return strlen(text) < SN_CONF_TEXT_MAX;
	case SN_TYPE_BOOL:
		for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
			if (!strcasecmp(text, words[i])) {
				*out = i & 1;
				return true;
			}
		return false;
	}
	return false;
}

void sn_conf_describe_range(const struct sn_conf_desc *d, char *out, size_t room)
{
	switch (d->type) {
	case SN_TYPE_NUM:
		snprintf(out, room, "a number%s%s from %" PRId64 " to %" PRId64 "%s", *d->unit ? " of " : "",
			 d->unit, d->min, d->max, strcmp(d->unit, "bytes") ? "" : " (suffixes k, m, g)");
		break;
	case SN_TYPE_BOOL: snprintf(out, room, "yes or no"); break;
	case SN_TYPE_ENUM: snprintf(out, room, "one of %s", d->choices); break;
	case SN_TYPE_STR: snprintf(out, room, "at most %d characters", SN_CONF_TEXT_MAX - 1); break;
	}
}
