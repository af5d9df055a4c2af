#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# In the emulated machine: MPI programs under `sennit run` with the module loaded. See mpi.sh.
export PATH=/opt/sennit/bin:/usr/bin:/usr/sbin:/sbin:/bin HOME=/tmp SENNIT_TUNE=no
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

fail() {
	echo "FAIL: $*"
	exit 1
}

counter() {
	sed -n "s/^$1 *//p" /sys/kernel/debug/sennit/counters
}

# job WHAT COMMAND...: a job of the program, which must say that every byte was right.
job() {
	local what=$1 said
	shift
	said=$("$@" 2>&1) || fail "$what: status $?: $said"
	case $said in
	*"every byte right"*) ;;
	*) fail "$what said: $said" ;;
	esac
}

# Two ranks on the node. The heap that peers map would come before the module, so it is switched off.
on_the_node() {
	local copies=$(counter copies) bytes=$(counter copy_bytes)
	export SENNIT_HEAP=no
	job "on the node" sennit run -q -- mpirun -n 2 /opt/program
	copies=$(($(counter copies) - copies))
	bytes=$(($(counter copy_bytes) - bytes))
	echo "  on the node: $copies copies of $bytes bytes by the module"
	[ $copies -gt 0 ] && [ $bytes -gt 300000 ] || fail "the module has copied nothing"
	if [ -x /usr/bin/NPopenmpi ]; then
		copies=$(counter copies)
		cd /tmp && sennit run -q -- mpirun -n 2 NPopenmpi -i -l 200000 -u 900000 -p 0 >np.log 2>&1 || fail "NetPIPE: $(cat np.log)"
		[ "$(grep -c "Integrity check passed" np.log)" -gt 3 ] || fail "NetPIPE said: $(cat np.log)"
		echo "  NetPIPE: $(($(counter copies) - copies)) copies by the module"
		[ "$(counter copies)" -gt "$copies" ] || fail "the module has copied nothing for NetPIPE"
	fi
}

# A user who may not open the device: it goes another way, and sennit says why.
not_allowed() {
	local copies=$(counter copies) said
	chmod 600 /dev/sennit
	said=$(su user -c "sennit info" 2>&1)
	case $said in
	*"module "*"ermission denied"*) ;;
	*) fail "sennit info does not say that the device may not be opened: $said" ;;
	esac
	echo "$said" | sed -n 's/^module */  not allowed: /p'
	job "without the device" su user -c "sennit run -q -- mpirun -n 2 /opt/program"
	[ "$(counter copies)" = "$copies" ] || fail "the module was used by who may not"
	chmod 666 /dev/sennit
}

# Two hosts: network namespaces with names of their own, joined by two wires; the login is an agent that enters one.
between_hosts() {
	local bytes=$(counter net_bytes) pulls=$(counter net_pulls) host
	mkdir -p /var/run/netns
	/opt/ip netns add a && /opt/ip netns add b || fail "no network namespaces"
	for wire in 0 1; do
		/opt/ip link add "eth$wire" netns a mtu 9000 type veth peer name "eth$wire" netns b mtu 9000 || fail "no veth"
	done
	for host in a b; do
		/opt/ip netns exec $host /opt/ip link set lo up
		/opt/ip netns exec $host /opt/ip link set eth0 up
		/opt/ip netns exec $host /opt/ip link set eth1 up
	done
	/opt/ip netns exec a /opt/ip addr add 10.7.0.1/24 dev eth0
	/opt/ip netns exec b /opt/ip addr add 10.7.0.2/24 dev eth0
	printf '127.0.0.1 localhost\n10.7.0.1 a\n10.7.0.2 b\n' >/etc/hosts
	export SENNIT_NET=ether:eth0,ether:eth1
	job "between hosts" /opt/ip netns exec a unshare --uts sh -c 'hostname a; exec "$@"' a \
		sennit run -q -- mpirun --mca oob_tcp_if_include eth0 -H a:1,b:1 -n 2 /opt/program
	bytes=$(($(counter net_bytes) - bytes))
	pulls=$(($(counter net_pulls) - pulls))
	echo "  between hosts: $pulls fetches of $bytes bytes by the module"
	[ $pulls -gt 0 ] && [ $bytes -gt 1000000 ] || fail "the module has fetched nothing"
	/opt/ip netns del a
	/opt/ip netns del b
}

# `sennit top` shows what the kernel counts.
shown() {
	local said shown
	said=$(sennit top -n 1) || fail "sennit top: $said"
	shown=$(echo "$said" | awk '$1 == "copies" { print $2 }')
	[ "$shown" = "$(counter copies)" ] || fail "sennit top does not show $(counter copies) copies: $said"
	echo "  sennit top: $shown copies"
}

# The login, which Open MPI wants to see even where it starts nothing elsewhere.
cat >/opt/login <<'END'
#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec /opt/ip netns exec $host unshare --uts sh -c 'hostname '$host'; exec sh -c "$0"' "$*"
END
chmod 755 /opt/login
export OMPI_MCA_plm_rsh_agent=/opt/login
hostname lab
ifconfig lo up
on_the_node
not_allowed
between_hosts
shown
