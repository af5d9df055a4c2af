/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of settings, and where their values come from. To add a setting: an id in conf.h and one entry here;
 * the parser, the tools and the manual page follow by themselves.
 *
 * Budget: sn_conf_num() is two loads after the first call; loading opens two files, once in a process.
 */
#include "base/conf.h"
#include "base/conf_parse.h"
#include "base/launched.h"
#include "base/log.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define CONF_WHERE_MAX	288
#define CONF_COMPLAINTS 8 /* kept while loading, as the log level may come last; more are only counted */

static const struct sn_conf_desc table[SN_CONF_COUNT] = {
	[SN_CONF_LOG] =
		{
			.name = "log",
			.type = SN_TYPE_ENUM,
			.unit = "",
			.choices = "none|error|warn|info|debug",
			.def = SN_LOG_WARN,
			.max = SN_LOG_DEBUG,
			.help = "How much is written to standard error. warn reports what costs speed or "
				"was refused and nothing else, so a healthy run is silent; info adds each "
				"decision (rail, copy method, fallback) with the figure it rests on; "
				"debug adds connections and errors returned to the caller.",
		},
	[SN_CONF_EAGER] =
		{
			.name = "eager",
			.type = SN_TYPE_NUM,
			.unit = "bytes",
			.def = 16384,
			.min = 64,
			.max = 65536,
			.help = "Largest message that is sent eagerly to a process on the same node: "
				"copied into the ring and out again, without waiting for the receiver. "
				"Longer ones are announced, or written straight into a receive that was "
				"posted first. Where a program exchanges messages of 4 KiB to 1 MB in a "
				"loop, the faster of the two is learned from the loop, whatever is set "
				"here. Of large allocations (setting heap) not more than 8192 go "
				"uninvited if you do not set it (16384 with more processes than "
				"cores). Not more than a quarter of the ring is used.",
		},
	[SN_CONF_RING] =
		{
			.name = "ring",
			.type = SN_TYPE_NUM,
			.unit = "bytes",
			.def = 2097152,
			.min = 16384,
			.max = 16777216,
			.help = "Size of the ring of shared memory from one local process to another, "
				"rounded up to a power of two; each pair has two. It holds eager messages "
				"the receiver has not read yet and is the pipe for streamed large "
				"messages. It should be larger than the second-level cache: to write a "
				"line that still lies in the receiver's costs more than to fetch it from "
				"a cache that both share. This size is for the first 4 peers of an "
				"endpoint; the next 12 get an eighth, later ones less, so that memory "
				"stays bounded on machines with many processes. With more processes than "
				"cores not more than 131072 if you do not set it: each new page costs who "
				"has the core, and the rings of those that share one share its caches.",
		},
	[SN_CONF_COPY] =
		{
			.name = "copy",
			.type = SN_TYPE_ENUM,
			.unit = "",
			.choices = "auto|read|write|stream|shared|kmod",
			.def = 0,
			.max = 5,
			.help = "How large messages between processes of one node are copied. auto: "
				"whoever comes later copies, or both sides, as the pair has learned; what "
				"the kernel refuses goes another way. read: the receiver copies from the "
				"sender's memory; write: the sender into the receiver's; stream: through "
				"the ring, which needs no permission; shared: both at once; kmod: the "
				"kernel module, where it is loaded. Under valgrind, which does not see what "
				"another process writes, read is the default. Forcing one is for "
				"measurements and "
				"for finding faults.",
		},
	[SN_CONF_CHUNK] =
		{
			.name = "chunk",
			.type = SN_TYPE_NUM,
			.unit = "bytes",
			.def = 32768,
			.min = 1024,
			.max = 1048576,
			.help = "Piece of a large message that is streamed through the ring. Sender and "
				"receiver work on two pieces at once, so a smaller one lets the receiver "
				"begin sooner, and a larger one costs fewer hand-overs. Not more than an "
				"eighth of the ring is used. sennit tune measures it.",
		},
	[SN_CONF_SINGLE_COPY] =
		{
			.name = "single_copy",
			.type = SN_TYPE_NUM,
			.unit = "bytes",
			.def = 16384,
			.min = 1024,
			.max = 1073741824,
			.help = "From this size on, one copy by the kernel was faster than a stream through "
				"the ring when sennit tune measured both. For information: each pair of "
				"processes starts from the same curves, and then learns from its own "
				"transfers. 1073741824: never.",
		},
	[SN_CONF_NONTEMPORAL] =
		{
			.name = "nontemporal",
			.type = SN_TYPE_NUM,
			.unit = "bytes",
			.def = 1073741824,
			.min = 4096,
			.max = 1073741824,
			.help = "From this size on, copies through a peer's shareable heap may bypass the "
				"cache. Whether they do, the program's own loop decides: it is measured "
				"with and without now and then. sennit tune measures from where such a "
				"copy is the faster one by itself; below, it is tried only where messages "
				"are as slow as between cores far apart. Set by hand, it is never tried "
				"below. "
				"1073741824: never.",
		},
	[SN_CONF_TUNE] =
		{
			.name = "tune",
			.type = SN_TYPE_BOOL,
			.unit = "",
			.def = 1,
			.max = 1,
			.help = "Use the thresholds that were measured on this machine (eager, chunk, "
				"single_copy, nontemporal) where nobody has set them, and let sennit run "
				"measure them, in half a second, before the first job. no: the defaults.",
		},
	[SN_CONF_SPIN] =
		{
			.name = "spin",
			.type = SN_TYPE_NUM,
			.unit = "us",
			.def = 50,
			.min = 0,
			.max = 1000000,
			.help = "How long somebody who waits polls before giving the core away. To sleep "
				"and be woken costs about 50 us on a virtual machine; spinning as long as "
				"that costs at most twice the best choice, whenever the message comes. "
				"Who was woken within a millisecond is awake so long the next times. "
				"When there are more processes than cores the core is given away at once, "
				"whatever is set here, unless all others who want it compute. 0 never spins.",
		},
	[SN_CONF_NAP] =
		{
			.name = "nap",
			.type = SN_TYPE_NUM,
			.unit = "us",
			.def = 20000,
			.min = 0,
			.max = 100000,
			.help = "Longest nap of a rank that waits in an MPI call and has found nothing "
				"for a while. What comes for it ends a nap at once; the limit is for what "
				"the MPI library waits for besides messages, which a nap delays by a "
				"quarter of the time waited at most. 20 ms use less than a hundredth of a "
				"core. Only in calls that cannot return before something comes (MPI_Recv, "
				"MPI_Wait, collectives; see shim), never in MPI_Test and the like. 0 "
				"never naps.",
		},
	[SN_CONF_HUGE] =
		{
			.name = "huge",
			.type = SN_TYPE_BOOL,
			.unit = "",
			.def = 1,
			.max = 1,
			.help = "Use huge pages, where the system's transparent huge pages are not switched "
				"off: "
				"for memory that peers may map, and for buffers that large messages use "
				"again and again, which are collapsed into them.",
		},
	[SN_CONF_HEAP] =
		{
			.name = "heap",
			.type = SN_TYPE_BOOL,
			.unit = "",
			.def = 1,
			.max = 1,
			.help = "`sennit run` loads libsennit-heap.so (LD_PRELOAD): allocations from 256 "
				"KiB on come from memory that peers may map, and are copied without the "
				"kernel.",
		},
	[SN_CONF_SHIM] =
		{
			.name = "shim",
			.type = SN_TYPE_BOOL,
			.unit = "",
			.def = 1,
			.max = 1,
			.help = "`sennit run` loads libsennit-mpi.so in front of the program (LD_PRELOAD), "
				"which notes for each MPI call, in a few nanoseconds, whether its caller "
				"can only wait, and keeps ranks that MPICH's launcher starts in one session. "
				"Without it ranks that wait yield but never sleep.",
		},
	[SN_CONF_PROGRESS] =
		{
			.name = "progress",
			.type = SN_TYPE_NUM,
			.unit = "%",
			.def = 100,
			.max = 100,
			.help = "How much of one core, over each tenth of a second, the progress thread of "
				"a process and its poller may use. It moves messages while the program "
				"computes, and "
				"sleeps while there is nothing to do or the program looks by itself: so "
				"100 does not hold it back. 0: no thread. Counters progress.thread_us and "
				"progress.held_back show its use.",
		},
	[SN_CONF_POLL] =
		{
			.name = "poll",
			.type = SN_TYPE_NUM,
			.unit = "us",
			.def = 100,
			.min = 0,
			.max = 100000,
			.help = "How long somebody goes on looking after the last thing that the progress "
				"thread found, with the lowest scheduling class, so only on a core that "
				"nobody else wants: what comes meanwhile needs no wake-up of 25 to 50 us. "
				"Where cores are wanted this stops for a while. progress limits this, too.",
		},
	[SN_CONF_LINGER] =
		{
			.name = "linger",
			.type = SN_TYPE_NUM,
			.unit = "ms",
			.def = 5000,
			.min = 0,
			.max = 600000,
			.help = "How long closing an endpoint waits until data already accepted from the "
				"application has been handed to every live peer. Only a peer that is "
				"stopped or does not call the library for that long loses data; 5 s lets "
				"a slow one finish without making a broken job hang. A peer on another "
				"host that lives is waited for until it has fetched what was sent to it and "
				"copied here, unless this is 0.",
		},
	[SN_CONF_STATS] =
		{
			.name = "stats",
			.type = SN_TYPE_BOOL,
			.unit = "",
			.def = 0,
			.max = 1,
			.help = "Print the counters that are not zero to standard error when an endpoint "
				"closes: what travelled on which rail, how it was copied, what was "
				"refused.",
		},
	[SN_CONF_PEER_TIMEOUT] =
		{
			.name = "peer_timeout",
			.type = SN_TYPE_NUM,
			.unit = "ms",
			.def = 10000,
			.min = 100,
			.max = 3600000,
			.help = "How long a peer on another node may stay silent, although it was asked, "
				"before it counts as gone and its requests fail. Death of a peer on the "
				"same node is seen at once and needs no time limit. 10 s outlasts a "
				"switch that reboots its port or a machine that swaps, and still reports "
				"a dead node before a person wonders. Raise it to stop processes in a "
				"debugger.",
		},
	[SN_CONF_NET] =
		{
			.name = "net",
			.type = SN_TYPE_STR,
			.unit = "",
			.def_str = "auto",
			.help = "What carries messages to other hosts: udp (works for every user and over "
				"every IP network) or ether (raw Ethernet frames: shorter latency, needs "
				"the network-raw capability and hosts on one Ethernet segment), each with "
				"an interface or address to use (udp:eth1, ether:eth0, udp:10.0.0.5), a "
				"list of these (udp:eth0,ether:eth1) for several rails, or off. auto "
				"takes all interfaces that are up, the fastest first: UDP on those that "
				"have an IP address, with short messages by Ethernet frames to peers in "
				"the same subnet where both are allowed to and they come through; "
				"Ethernet frames on the others where that is allowed; "
				"loopback and the bridges of container engines only if there is nothing "
				"else.",
		},
	[SN_CONF_STRATEGY] =
		{
			.name = "strategy",
			.type = SN_TYPE_STR,
			.unit = "",
			.def_str = "aggregate,split",
			.help = "How requests to other hosts are put into frames and over rails: a list, "
				"what a later one decides counts. aggregate: requests that wait while "
				"frames are under way leave together; split: short messages take the rail "
				"that has them through first, long ones go over all rails so that they "
				"finish together; fifo: one request a frame, one rail; equal: long "
				"messages in equal shares over all rails. The last two are for "
				"comparison.",
		},
	[SN_CONF_DSA] =
		{
			.name = "dsa",
			.type = SN_TYPE_STR,
			.unit = "",
			.def_str = "/dev/dsa",
			.help = "The folder with the queues of Intel's data streaming accelerator that "
				"programs may feed (accel-config makes them), or off. Messages from a "
				"buffer that the peer shares (the setting heap) may be copied by it; "
				"whether they are is learned, so it is used where it wins.",
		},
	[SN_CONF_FAULT] =
		{
			.name = "fault",
			.type = SN_TYPE_STR,
			.unit = "",
			.def_str = "",
			.help = "Faults to inject into the copies between processes of one node, for "
				"tests: a list of operation:what[@n][+] such as read:eperm@3,write:short. "
				"Operations are read, write, probe and module; what is eperm, esrch, "
				"efault, enomem, enosys or short. @3 means the third call only, @3+ from "
				"the third on, neither every call.",
		},
};

struct conf_value {
	_Atomic int64_t num;
	enum sn_conf_origin origin;
	char text[SN_CONF_TEXT_MAX]; /* the value in words: what sn_conf_str returns */
	char where[CONF_WHERE_MAX];
};

static struct conf_value values[SN_CONF_COUNT];
static _Atomic bool loaded;
static pthread_mutex_t conf_mutex = PTHREAD_MUTEX_INITIALIZER; /* loading and sn_conf_set */

struct complaints {
	char text[CONF_COMPLAINTS][SN_CONF_TEXT_MAX + CONF_WHERE_MAX];
	unsigned count;
};

static void complain(struct complaints *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void complain(struct complaints *c, const char *fmt, ...)
{
	if (c->count < CONF_COMPLAINTS) {
		va_list ap;
		va_start(ap, fmt);
		vsnprintf(c->text[c->count], sizeof c->text[0], fmt, ap);
		va_end(ap);
	}
	c->count++;
}

static void store(enum sn_conf_id id, int64_t num, const char *text, enum sn_conf_origin o, const char *where)
{
	const struct sn_conf_desc *d = &table[id];
	struct conf_value *v = &values[id];
	atomic_store_explicit(&v->num, num, memory_order_relaxed);
	v->origin = o;
	snprintf(v->where, sizeof v->where, "%s", where ? where : "");
	switch (d->type) {
	case SN_TYPE_NUM: snprintf(v->text, sizeof v->text, "%" PRId64, num); break;
	case SN_TYPE_BOOL: snprintf(v->text, sizeof v->text, "%s", num ? "yes" : "no"); break;
	case SN_TYPE_ENUM: sn_conf_choice_name(d->choices, num, v->text, sizeof v->text); break;
	case SN_TYPE_STR: snprintf(v->text, sizeof v->text, "%s", text); break;
	}
	if (id == SN_CONF_LOG)
		__atomic_store_n(&sn_log_level, (int)num, __ATOMIC_RELAXED);
}

static void offer(struct complaints *c, enum sn_conf_id id, const char *text, enum sn_conf_origin o,
		  const char *where)
{
	int64_t num;
	if (sn_conf_parse(&table[id], text, &num)) {
		store(id, num, text, o, where);
		return;
	}
	char range[128];
	sn_conf_describe_range(&table[id], range, sizeof range);
	if (values[id].origin == SN_ORIGIN_DEFAULT) /* or what will be measured */
		complain(c, "%s: \"%.64s\" is not %s; it is ignored", where, text, range);
	else
		complain(c, "%s: \"%.64s\" is not %s; %s stays %s", where, text, range, table[id].name,
			 values[id].text);
}

static char *trim(char *s)
{
	while (isspace((unsigned char)*s))
		s++;
	char *end = s + strlen(s);
	while (end > s && isspace((unsigned char)end[-1]))
		*--end = '\0';
	return s;
}

static int find_setting(const char *name)
{
	for (int id = 0; id < SN_CONF_COUNT; id++)
		if (!strcasecmp(table[id].name, name))
			return id;
	return -1;
}

static void load_line(struct complaints *c, char *line, enum sn_conf_origin o, const char *where)
{
	line[strcspn(line, "#")] = '\0';
	char *key = trim(line);
	if (!*key)
		return;
	char *eq = strchr(key, '=');
	if (!eq) {
		complain(c, "%s: \"%.64s\" is not of the form \"name = value\"; ignored", where, key);
		return;
	}
	*eq = '\0';
	key = trim(key);
	int id = find_setting(key);
	if (id < 0)
		complain(c, "%s: there is no setting \"%.64s\"; ignored", where, key);
	else
		offer(c, (enum sn_conf_id)id, trim(eq + 1), o, where);
}

/* In the home of another user, say, which HOME goes on naming behind su, setpriv or a container's --user. */
static bool is_out_of_reach(const char *path)
{
	char dir[256];
	snprintf(dir, sizeof dir, "%.*s", (int)(strrchr(path, '/') - path), path);
	return faccessat(AT_FDCWD, dir, X_OK, AT_EACCESS) && errno == EACCES;
}

/* A file that is not there, or cannot be known to be, is normal; one that cannot be read is reported. */
static void load_file(struct complaints *c, const char *path, enum sn_conf_origin o)
{
	FILE *f = fopen(path, "re");
	if (!f) {
		int why = errno;
		if (why != ENOENT && why != ENOTDIR && (why != EACCES || !is_out_of_reach(path)))
			complain(c, "%s: cannot be read (%s); ignored", path, strerror(why));
		return;
	}
	char line[1024], where[CONF_WHERE_MAX];
	for (unsigned number = 1; fgets(line, sizeof line, f); number++) {
		snprintf(where, sizeof where, "%.255s:%u", path, number);
		if (!strchr(line, '\n') && !feof(f)) {
			complain(c, "%s: longer than %zu characters; the rest of the file is ignored", where,
				 sizeof line - 2);
			break;
		}
		load_line(c, line, o, where);
	}
	fclose(f);
}

static void variable_name(enum sn_conf_id id, char *out, size_t room)
{
	int len = snprintf(out, room, "SENNIT_%s", table[id].name);
	for (int i = 0; i < len && out[i]; i++)
		out[i] = (char)toupper((unsigned char)out[i]);
}

static void load_environment(struct complaints *c)
{
	for (int i = 0; i < SN_CONF_COUNT; i++) {
		enum sn_conf_id id = (enum sn_conf_id)i;
		char name[64];
		variable_name(id, name, sizeof name);
		const char *value = secure_getenv(name);
		if (value)
			offer(c, id, value, SN_ORIGIN_ENV, name);
	}
}

static void load_user_file(struct complaints *c)
{
	char path[256];
	const char *base = secure_getenv("XDG_CONFIG_HOME");
	const char *sub = "";
	if (!base || *base != '/') {
		base = secure_getenv("HOME");
		sub = "/.config";
	}
	if (!base || !*base)
		return;
	if ((size_t)snprintf(path, sizeof path, "%s%s/sennit.conf", base, sub) < sizeof path)
		load_file(c, path, SN_ORIGIN_USER);
}

static void load_all(void)
{
	struct complaints c = {.count = 0};
	for (int i = 0; i < SN_CONF_COUNT; i++)
		store((enum sn_conf_id)i, table[i].def, table[i].def_str ? table[i].def_str : "",
		      SN_ORIGIN_DEFAULT, "");
	if (sn_launched_by_valgrind()) /* what a peer writes here, memcheck would take for never written */
		offer(&c, SN_CONF_COPY, "read", SN_ORIGIN_MEASURED, "this process is run by valgrind");
	load_file(&c, "/etc/sennit.conf", SN_ORIGIN_SYSTEM);
	load_user_file(&c);
	load_environment(&c);
	if (sn_log_level < SN_LOG_WARN ||
	    sn_launched().rank) /* all ranks of a node read the same: the first one complains */
		return;
	struct sn_log_site site = {
		0}; /* not shared with an earlier load: the count is bounded here already */
	for (unsigned i = 0; i < c.count && i < CONF_COMPLAINTS; i++)
		sn_log_write(&site, SN_LOG_WARN, "%s", c.text[i]);
	if (c.count > CONF_COMPLAINTS)
		sn_log_write(&site, SN_LOG_WARN, "and %u more faults in the settings",
			     c.count - CONF_COMPLAINTS);
}

static void ensure_loaded(void)
{
	if (atomic_load_explicit(&loaded, memory_order_acquire))
		return;
	pthread_mutex_lock(&conf_mutex);
	if (!atomic_load_explicit(&loaded, memory_order_relaxed)) {
		load_all();
		atomic_store_explicit(&loaded, true, memory_order_release);
	}
	pthread_mutex_unlock(&conf_mutex);
}

const struct sn_conf_desc *sn_conf_desc(enum sn_conf_id id)
{
	return &table[id];
}

int64_t sn_conf_num(enum sn_conf_id id)
{
	ensure_loaded();
	return atomic_load_explicit(&values[id].num, memory_order_relaxed);
}

const char *sn_conf_str(enum sn_conf_id id)
{
	ensure_loaded();
	return values[id].text;
}

enum sn_conf_origin sn_conf_origin(enum sn_conf_id id, const char **where)
{
	ensure_loaded();
	if (where)
		*where = values[id].where;
	return values[id].origin;
}

const char *sn_conf_origin_name(enum sn_conf_origin o)
{
	static const char *const names[] = {"default", "measured", "system", "user", "environment"};
	return (unsigned)o < sizeof names / sizeof *names ? names[o] : "unknown";
}

void sn_conf_set(enum sn_conf_id id, int64_t value, enum sn_conf_origin o, const char *where)
{
	ensure_loaded();
	const struct sn_conf_desc *d = &table[id];
	int64_t min = d->type == SN_TYPE_NUM ? d->min : 0;
	int64_t max = d->type == SN_TYPE_BOOL ? 1 : d->max;
	if (d->type == SN_TYPE_STR || value < min || value > max) {
		sn_warn("%s: %" PRId64 " is out of range for %s; it stays %s", where ? where : "calibration",
			value, d->name, values[id].text);
		return;
	}
	pthread_mutex_lock(&conf_mutex);
	if (o >= values[id].origin)
		store(id, value, "", o, where);
	pthread_mutex_unlock(&conf_mutex);
}

void sn_conf_unknown(void (*fn)(void *arg, const char *name), void *arg)
{
	for (char **e = environ; e && *e; e++) {
		if (strncmp(*e, "SENNIT_", 7) != 0)
			continue;
		char name[128];
		snprintf(name, sizeof name, "%.*s", (int)strcspn(*e, "="), *e);
		int known = 0;
		for (int id = 0; id < SN_CONF_COUNT && !known; id++) {
			char variable[64];
			variable_name((enum sn_conf_id)id, variable, sizeof variable);
			known = !strcmp(variable, name);
		}
		if (!known)
			fn(arg, name);
	}
}

void sn_conf_reload(void)
{
	atomic_store(&loaded, false);
	ensure_loaded();
}
