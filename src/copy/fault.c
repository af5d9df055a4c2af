/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/conf.h"
#include "base/launched.h"
#include "base/log.h"
#include "copy/cma.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define RULES	    16
#define SHORT_BYTES 4097
#define SHORT_CODE  (-1)

struct rule {
	enum sn_fault_op op;
	int what;	      /* an errno, or SHORT_CODE */
	uint64_t from, until; /* calls, counted from 1 */
};

static struct rule rules[RULES];
static unsigned rule_count;
static _Atomic uint64_t calls[SN_FAULT_OPS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool word(const char **at, const char *name)
{
	size_t n = strlen(name);
	if (strncmp(*at, name, n))
		return false;
	*at += n;
	return true;
}

static bool parse_rule(const char **at, struct rule *r)
{
	static const struct {
		const char *name;
		int code;
	} whats[] = {{"eperm", EPERM},	 {"esrch", ESRCH},   {"efault", EFAULT},
		     {"enomem", ENOMEM}, {"enosys", ENOSYS}, {"short", SHORT_CODE}};
	static const char *const ops[SN_FAULT_OPS] = {"read:", "write:", "probe:", "module:"};
	unsigned op = 0, what = 0;
	while (op < SN_FAULT_OPS && !word(at, ops[op]))
		op++;
	while (what < sizeof(whats) / sizeof(*whats) && !word(at, whats[what].name))
		what++;
	if (op == SN_FAULT_OPS || what == sizeof(whats) / sizeof(*whats))
		return false;
	*r = (struct rule){(enum sn_fault_op)op, whats[what].code, 1, UINT64_MAX};
	if (**at == '@') {
		char *end;
		if ((*at)[1] < '0' || (*at)[1] > '9')
			return false;
		r->from = r->until = strtoull(*at + 1, &end, 10);
		*at = end;
		if (**at == '+') {
			r->until = UINT64_MAX;
			++*at;
		}
	}
	return **at == ',' || **at == '\0';
}

bool sn_fault_set(const char *list)
{
	rule_count = 0;
	for (unsigned i = 0; i < SN_FAULT_OPS; i++)
		calls[i] = 0;
	for (const char *at = list ? list : ""; *at; at += *at == ',') {
		if (rule_count == RULES || !parse_rule(&at, &rules[rule_count])) {
			rule_count = 0;
			return false;
		}
		rule_count++;
	}
	return true;
}

static void load(void)
{
	const char *list = sn_conf_str(SN_CONF_FAULT);
	if (*list && !sn_fault_set(list) && !sn_launched().rank) /* all ranks read the same */
		sn_warn("fault: \"%s\" is not a list of operation:what[@n][+]; no faults are injected", list);
}

int sn_fault_inject(enum sn_fault_op op, uint64_t *limit)
{
	pthread_once(&once, load);
	if (sn_likely(!rule_count))
		return 0;
	uint64_t call = ++calls[op];
	int error = 0;
	for (unsigned i = 0; i < rule_count; i++) {
		const struct rule *r = &rules[i];
		if (r->op != op || call < r->from || call > r->until)
			continue;
		if (r->what == SHORT_CODE)
			*limit = SN_MIN_OF(*limit, SHORT_BYTES);
		else
			error = r->what;
	}
	return error;
}
