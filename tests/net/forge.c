/* SPDX-License-Identifier: BSD-3-Clause */
#include "forge.h"

struct node *a, *b;
struct sn_net_link *at_a, *at_b;
union forged f;

void forge_begin(uint8_t type, uint32_t len)
{
	memset(&f, 0, sizeof(f));
	sn_wire_start(&f.h, type, len, (uint32_t)at_a->peer_session);
	f.h.seq = htole32(at_a->tx_next);
	f.h.ack = htole32(at_a->rx_next);
}

void forge_seal(const struct sn_sip_key *key)
{
	f.h.check = htole32(sn_check_of(f.bytes + sizeof(f.h), le16toh(f.h.len) - sizeof(f.h)));
	f.h.mac = htole64(sn_auth_mac(key, &f.h));
}

void forge_deliver_to(const struct node *to)
{
	sim_inject(to->slot, f.bytes, le16toh(f.h.len), 0);
}

void forge_deliver(void)
{
	forge_deliver_to(b);
}

void forge_sealed(void)
{
	forge_seal(&at_a->tx_key);
	forge_deliver();
}

void forge_hello(uint8_t type)
{
	struct sn_addr_part part = sim_part(a->slot, 0);

	forge_begin(type, sizeof(f.hello));
	f.h.link = 0;
	f.hello.session = htole64(at_a->session);
	f.hello.id = htole64(a->ids.id);
	f.hello.mtu = htole32(MTU);
	f.hello.part_type = part.type;
	f.hello.part_len = htole16(part.len);
	memcpy(f.hello.secret.part, part.bytes, part.len);
	memcpy(f.hello.secret.key, a->ids.key, sizeof(a->ids.key));
	f.hello.addr_len = (uint8_t)sn_core_address((const struct sn_ep *)a, f.hello.secret.addr);
}

void forge_hello_sealed(void)
{
	struct sn_sip_key key;

	sn_auth_hello_key(&key, b->ids.key);
	sn_auth_mask(&key, &f.hello);
	forge_seal(&key);
	forge_deliver();
}

void forge_msg(const void *payload, uint32_t len)
{
	forge_begin(SN_WIRE_MSG, (uint32_t)sizeof(f.h) + len);
	f.h.seq = htole32(at_b->rx_next);
	memcpy(f.bytes + sizeof(f.h), payload, len);
	forge_sealed();
}
