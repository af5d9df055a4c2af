/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * srun hands the whole environment to its ranks, unless its option --export or the variable SLURM_EXPORT_ENV names what to hand
 * on. Batch jobs of `sbatch --export=NONE` have that variable. The programs would then run, without sennit and without a word.
 */
#include "plan.h"
#include "tool.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* A word more of a list with commas; list: freed. */
static char *longer(char *list, const char *word)
{
	char *more = *list ? sn_tool_printf("%s,%s", list, word) : sn_tool_strdup(word);
	free(list);
	return more;
}

/* Does the list name this variable ("NAME" or "NAME=VALUE")? */
static bool names(const char *list, const char *name)
{
	size_t n = strlen(name);
	for (const char *p = list; p; p = strchr(p, ',')) {
		p += *p == ',';
		if (strncmp(p, name, n) == 0 && (!p[n] || p[n] == ',' || p[n] == '='))
			return true;
	}
	return false;
}

static char *with_those_of_the_plan(const struct sn_plan *p, char *list)
{
	for (unsigned i = 0; i < p->env_count; i++)
		if (!names(list, p->env[i].name))
			list = longer(list, p->env[i].name);
	for (char **e = environ; *e; e++) {
		char *name = sn_tool_printf("%.*s", (int)strcspn(*e, "="), *e);
		if (strncmp(name, "SENNIT_", 7) == 0 && !names(list, name))
			list = longer(list, name);
		free(name);
	}
	return list;
}

/*
 * What --export says, and what sennit sets; a new string. NONE is nothing else than a list of none. The list may set LD_PRELOAD
 * itself, and wins over the environment, with ALL as well: profilers are often named so.
 */
static char *exported(const struct sn_plan *p, const char *given)
{
	static const char preload[] = "LD_PRELOAD=";
	const size_t n = sizeof(preload) - 1;
	char *words = sn_tool_strdup(given), *list = sn_tool_strdup(""), *rest;
	bool all = false;
	for (char *word = strtok_r(words, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
		char *both = p->in_front && strncmp(word, preload, n) == 0
				     ? sn_tool_printf("%s%s:%s", preload, p->in_front, word + n)
				     : NULL;
		all |= strcasecmp(word, "ALL") == 0;
		if (strcasecmp(word, "NONE") != 0)
			list = longer(list, both ? both : word);
		free(both);
	}
	free(words);
	return all ? list : with_those_of_the_plan(p, list);
}

/* NIL, of later versions, is a wish for no environment whatever. */
static bool may_be_longer(const char *given)
{
	return *given && strcasecmp(given, "NIL") != 0;
}

static void replace(const struct sn_plan *p, char **word, size_t head)
{
	if (!may_be_longer(*word + head))
		return;
	char *list = exported(p, *word + head), *new = sn_tool_printf("%.*s%s", (int)head, *word, list);
	free(list);
	free(*word);
	*word = new;
}

static bool is_program(const char *word)
{
	char *found = *word == '-' ? NULL : sn_tool_which(word);
	free(found);
	return found != NULL;
}

/*
 * srun's own options, which end where the first program's name stands; a colon begins those of another program. An option's
 * value that happens to be a program's name ends them too early: then what the user wrote stays as it is.
 */
static void in_options(const struct sn_plan *p, char **words)
{
	static const char option[] = "--export";
	const size_t n = sizeof(option) - 1;
	bool own = true;
	for (; *words; words++) {
		own = strcmp(*words, ":") == 0 || (own && !is_program(*words));
		if (!own || strncmp(*words, option, n) != 0)
			continue;
		if ((*words)[n] == '=')
			replace(p, words, n + 1);
		else if (!(*words)[n] && words[1])
			replace(p, ++words, 0);
	}
}

void sn_plan_for_srun(struct sn_plan *p)
{
	const char *slash = strrchr(p->argv[0], '/'), *given = getenv("SLURM_EXPORT_ENV");
	if (strcmp(slash ? slash + 1 : p->argv[0], "srun") == 0)
		in_options(p, p->argv + 1);
	if (!given || !may_be_longer(given) || p->env_count == SN_PLAN_ENV_MAX)
		return;
	char *list = exported(p, given);
	p->env[p->env_count++] = (struct sn_plan_env){.name = "SLURM_EXPORT_ENV", .value = list};
}
