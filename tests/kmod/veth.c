// SPDX-License-Identifier: BSD-3-Clause
/* See veth.h. The lab's machine has no tool that can do it. */
#include "veth.h"
#include "kt.h"
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sys/socket.h>

struct request {
	struct nlmsghdr head;
	struct ifinfomsg info;
	char room[512];
};

static struct rtattr *begin(struct request *r, unsigned short type)
{
	struct rtattr *a = (void *)((char *)r + NLMSG_ALIGN(r->head.nlmsg_len));

	a->rta_type = type;
	a->rta_len = RTA_LENGTH(0);
	r->head.nlmsg_len = NLMSG_ALIGN(r->head.nlmsg_len) + RTA_LENGTH(0);
	return a;
}

static void end(struct request *r, struct rtattr *a)
{
	a->rta_len = (unsigned short)((char *)r + r->head.nlmsg_len - (char *)a);
}

static void put(struct request *r, unsigned short type, const void *value, size_t len)
{
	struct rtattr *a = begin(r, type);

	memcpy(RTA_DATA(a), value, len);
	r->head.nlmsg_len += RTA_ALIGN(len);
	a->rta_len = (unsigned short)RTA_LENGTH(len);
}

static void ask(struct request *r)
{
	struct {
		struct nlmsghdr head;
		struct nlmsgerr error;
	} answer;
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);

	KT_CHECK(fd >= 0);
	r->head.nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
	KT_CHECK(send(fd, r, r->head.nlmsg_len, 0) == (ssize_t)r->head.nlmsg_len);
	KT_CHECK(recv(fd, &answer, sizeof(answer), MSG_TRUNC) > 0);
	errno = -answer.error.error;
	KT_CHECK(answer.head.nlmsg_type == NLMSG_ERROR && answer.error.error == 0);
	close(fd);
}

static struct request request(unsigned short type)
{
	return (struct request){
		.head = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)), .nlmsg_type = type},
		.info = {.ifi_family = AF_UNSPEC}};
}

void kt_veth_make(const char *name, const char *peer, pid_t where, unsigned mtu)
{
	struct request r = request(RTM_NEWLINK);
	unsigned pid = (unsigned)where;

	r.head.nlmsg_flags = NLM_F_CREATE | NLM_F_EXCL;
	put(&r, IFLA_IFNAME, name, strlen(name) + 1);
	put(&r, IFLA_MTU, &mtu, sizeof(mtu));
	struct rtattr *info = begin(&r, IFLA_LINKINFO);
	put(&r, IFLA_INFO_KIND, "veth", 4);
	struct rtattr *data = begin(&r, IFLA_INFO_DATA), *other = begin(&r, VETH_INFO_PEER);
	r.head.nlmsg_len += sizeof(struct ifinfomsg);
	put(&r, IFLA_IFNAME, peer, strlen(peer) + 1);
	put(&r, IFLA_MTU, &mtu, sizeof(mtu));
	put(&r, IFLA_NET_NS_PID, &pid, sizeof(pid));
	end(&r, other);
	end(&r, data);
	end(&r, info);
	ask(&r);
	kt_link_up(name);
}

static void set_link(const char *name, unsigned flags)
{
	struct request r = request(RTM_NEWLINK);

	r.info.ifi_index = (int)if_nametoindex(name);
	r.info.ifi_flags = flags;
	r.info.ifi_change = IFF_UP;
	ask(&r);
}

void kt_link_up(const char *name)
{
	set_link(name, IFF_UP);
}

void kt_link_down(const char *name)
{
	set_link(name, 0);
}

void kt_link_move(const char *name, pid_t where)
{
	struct request r = request(RTM_NEWLINK);
	unsigned pid = (unsigned)where;

	r.info.ifi_index = (int)if_nametoindex(name);
	put(&r, IFLA_NET_NS_PID, &pid, sizeof(pid));
	ask(&r);
}

void kt_link_delete(const char *name)
{
	struct request r = request(RTM_DELLINK);

	r.info.ifi_index = (int)if_nametoindex(name);
	ask(&r);
}

unsigned kt_link_index(const char *name, unsigned char mac[6])
{
	struct ifreq req = {0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	KT_CHECK(fd >= 0);
	strncpy(req.ifr_name, name, sizeof(req.ifr_name) - 1);
	KT_CHECK(ioctl(fd, 0x8927 /* SIOCGIFHWADDR */, &req) == 0);
	memcpy(mac, req.ifr_hwaddr.sa_data, 6);
	close(fd);
	return if_nametoindex(name);
}
