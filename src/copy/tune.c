/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measured figures: reading, keeping, and making them settings.
 *
 * A file holds one class of one machine: lines "name = number", and "way.i = nanoseconds" for the curves. Its name
 * carries a hash of what the figures depend on (processor, number of cores, kernel), so that a home shared by several machines, or
 * a new kernel, does not mix them up. Not the host's name: the nodes of a cluster are alike, and each container has another,
 * which would measure anew and leave a file. It is written beside its place and renamed: readers see all
 * of it or nothing. What does not parse, or lies outside the range of its setting, counts as not measured.
 */
#include "copy/tune.h"
#include "base/base.h"
#include "base/conf.h"
#include "base/log.h"
#include "sennit/sennit.h"
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

static const char *const class_names[SN_TUNE_CLASSES] = {"near", "far"};
static const char *const way_names[SN_TUNE_WAYS] = {"ring", "stream", "kernel", "mapped", "bypass"};

static const struct {
	const char *name;
	size_t at;
	enum sn_conf_id setting; /* SN_CONF_COUNT: none */
} fields[] = {
	{"line_ns", offsetof(struct sn_tune, line_ns), SN_CONF_COUNT},
	{"eager", offsetof(struct sn_tune, eager), SN_CONF_EAGER},
	{"chunk", offsetof(struct sn_tune, chunk), SN_CONF_CHUNK},
	{"single_copy", offsetof(struct sn_tune, single_copy), SN_CONF_SINGLE_COPY},
	{"nontemporal", offsetof(struct sn_tune, nontemporal), SN_CONF_NONTEMPORAL},
};
#define FIELDS (sizeof(fields) / sizeof(fields[0]))

static struct sn_tune known[SN_TUNE_CLASSES];
static time_t known_since[SN_TUNE_CLASSES]; /* of the file */
static pthread_once_t loading = PTHREAD_ONCE_INIT, applying = PTHREAD_ONCE_INIT;

const char *sn_tune_class_name(enum sn_tune_class class)
{
	return class_names[class];
}

const char *sn_tune_way_name(enum sn_tune_way way)
{
	return way_names[way];
}

static int64_t *field_of(struct sn_tune *t, size_t i)
{
	return (int64_t *)(void *)((char *)t + fields[i].at);
}

/* ---- where ---- */

#define RULES 2 /* by which thresholds follow from curves: with others all is measured anew */

static uint64_t hash_text(uint64_t h, const char *text)
{
	for (; *text; text++)
		h = sn_mix64(h ^ (unsigned char)*text) + 0x9e3779b97f4a7c15u;
	return h;
}

static uint64_t machine(void)
{
	const struct sn_topo *t = sn_topo();
	struct utsname u;
	uint64_t h = hash_text(RULES, t->cpu_model) ^ (uint64_t)t->cpus;
	if (!uname(&u))
		h = hash_text(hash_text(h, u.release), u.version);
	return h;
}

/* The directory that holds ours: $XDG_CACHE_HOME, or ~/.cache. */
static bool cache_home(char *out, size_t room)
{
	const char *base = secure_getenv("XDG_CACHE_HOME"), *sub = "";
	if (!base || *base != '/') {
		base = secure_getenv("HOME");
		sub = "/.cache";
	}
	return base && *base == '/' && (size_t)snprintf(out, room, "%s%s", base, sub) < room;
}

bool sn_tune_path(enum sn_tune_class class, char *out, size_t room)
{
	char home[400];
	return cache_home(home, sizeof(home)) &&
	       (size_t)snprintf(out, room, "%s/sennit/tune-%016" PRIx64 "-%s", home, machine(),
				class_names[class]) < room;
}

/* ---- reading ---- */

static void take_line(struct sn_tune *t, const char *name, int64_t value)
{
	for (size_t i = 0; i < FIELDS; i++)
		if (!strcmp(name, fields[i].name))
			*field_of(t, i) = value;
	const char *dot = strchr(name, '.');
	if (!dot)
		return;
	unsigned long i = strtoul(dot + 1, NULL, 10);
	for (int way = 0; way < SN_TUNE_WAYS; way++)
		if (strlen(way_names[way]) == (size_t)(dot - name) &&
		    !strncmp(name, way_names[way], (size_t)(dot - name)) && i < SN_TUNE_SIZES)
			t->ns[way][i] = value;
	if (!strncmp(name, "chunks.", 7) && i < SN_TUNE_CHUNKS)
		t->chunk_ns[i] = value;
}

static bool plausible(struct sn_tune *t)
{
	if (t->line_ns <= 0)
		return false;
	for (size_t i = 0; i < FIELDS; i++) {
		if (fields[i].setting == SN_CONF_COUNT)
			continue;
		const struct sn_conf_desc *d = sn_conf_desc(fields[i].setting);
		if (*field_of(t, i) < d->min || *field_of(t, i) > d->max)
			return false;
	}
	return true;
}

static void read_class(enum sn_tune_class class)
{
	char path[512], line[128], name[64];
	struct sn_tune t = {0};
	struct stat st;
	int64_t value;
	if (!sn_tune_path(class, path, sizeof(path)))
		return;
	FILE *f = fopen(path, "re");
	if (!f)
		return;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%63[a-z_.0-9] = %" SCNd64, name, &value) == 2)
			take_line(&t, name, value);
	bool dated = !fstat(fileno(f), &st);
	fclose(f);
	if (!dated || !plausible(&t)) {
		sn_info("%s does not hold what a measurement writes; it is not used", path);
		return;
	}
	t.measured = true;
	known[class] = t;
	known_since[class] = st.st_mtime;
}

static void load(void)
{
	for (int class = 0; class < SN_TUNE_CLASSES; class ++) {
		struct sn_tune *t = &known[class];
		for (size_t i = 0; i < FIELDS; i++)
			if (fields[i].setting != SN_CONF_COUNT)
				*field_of(t, i) = sn_conf_desc(fields[i].setting)->def;
		t->line_ns = class == SN_TUNE_NEAR ? 30 : 120;
		read_class((enum sn_tune_class) class);
	}
}

const struct sn_tune *sn_tune_of(enum sn_tune_class class)
{
	pthread_once(&loading, load);
	return &known[class];
}

bool sn_tune_known(void)
{
	return sn_tune_of(SN_TUNE_NEAR)->measured || sn_tune_of(SN_TUNE_FAR)->measured;
}

bool sn_tune_far(void)
{
	return sn_conf_num(SN_CONF_TUNE) && sn_tune_known() &&
	       known_since[SN_TUNE_FAR] > known_since[SN_TUNE_NEAR];
}

static void apply(void)
{
	if (!sn_conf_num(SN_CONF_TUNE) || !sn_tune_known())
		return;
	enum sn_tune_class class = sn_tune_far() ? SN_TUNE_FAR : SN_TUNE_NEAR;
	char where[64];
	snprintf(where, sizeof(where), "here, cores %s: a line in %" PRId64 " ns", class_names[class],
		 known[class].line_ns);
	for (size_t i = 0; i < FIELDS; i++)
		if (fields[i].setting != SN_CONF_COUNT)
			sn_conf_set(fields[i].setting, *field_of(&known[class], i), SN_ORIGIN_MEASURED,
				    where);
}

void sn_tune_apply(void)
{
	pthread_once(&applying, apply);
}

/* ---- keeping ---- */

static void write_all(FILE *f, enum sn_tune_class class, struct sn_tune *t)
{
	fprintf(f, "# sennit: what copies cost on this machine, cores %s; sennit tune measures again\n",
		class_names[class]);
	for (size_t i = 0; i < FIELDS; i++)
		fprintf(f, "%s = %" PRId64 "\n", fields[i].name, *field_of(t, i));
	for (int i = 0; i < SN_TUNE_CHUNKS; i++)
		fprintf(f, "chunks.%d = %" PRId64 "\n", i, t->chunk_ns[i]);
	for (int way = 0; way < SN_TUNE_WAYS; way++)
		for (int i = 0; i < SN_TUNE_SIZES; i++)
			if (t->ns[way][i])
				fprintf(f, "%s.%d = %" PRId64 "\n", way_names[way], i, t->ns[way][i]);
}

int sn_tune_place(void)
{
	char home[400], dir[450];
	if (!cache_home(home, sizeof(home)))
		return sn_fail(SN_ERR_UNSUPPORTED, "neither XDG_CACHE_HOME nor HOME is set");
	snprintf(dir, sizeof(dir), "%s/sennit", home);
	if ((mkdir(home, 0700) && errno != EEXIST) || (mkdir(dir, 0700) && errno != EEXIST))
		return sn_fail(SN_ERR_PERM, "%s cannot be made: %s", dir, strerror(errno));
	return access(dir, W_OK | X_OK)
		       ? sn_fail(SN_ERR_PERM, "%s cannot be written: %s", dir, strerror(errno))
		       : 0;
}

int sn_tune_save(enum sn_tune_class class, const struct sn_tune *t)
{
	char path[512], temporary[540];
	struct sn_tune copy = *t;
	int rc = sn_tune_place();
	if (rc)
		return rc;
	if (!sn_tune_path(class, path, sizeof(path)))
		return sn_fail(SN_ERR_UNSUPPORTED, "the path of the home is too long");
	snprintf(temporary, sizeof(temporary), "%s.%ld", path, (long)getpid());
	FILE *f = fopen(temporary, "we");
	if (!f)
		return sn_fail(SN_ERR_PERM, "%s cannot be written: %s", temporary, strerror(errno));
	write_all(f, class, &copy);
	if (fclose(f) || rename(temporary, path)) {
		int why = errno;
		unlink(temporary);
		return sn_fail(SN_ERR_PERM, "%s cannot be written: %s", path, strerror(why));
	}
	return 0;
}
