#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Install the Debian or Ubuntu packages that a group of targets needs and that are missing: deps.sh build|bench|check|demo ...
# Says what it is going to install first. A package marked with ? is left out, and said so, where the distribution lacks
# it: the tests that need it then skip themselves.
set -eu

packages() {
	case $1 in
	build) echo "gcc libc6-dev cmake ninja-build pkg-config libfabric-dev libcmocka-dev" ;;
	demo) echo "openmpi-bin libopenmpi-dev python3 python3-matplotlib" ;;
	bench) echo "openmpi-bin libopenmpi-dev python3 python3-venv python3-matplotlib? mpich? libmpich-dev? iproute2? git" ;;
	check) echo "openmpi-bin libopenmpi-dev libfabric-bin python3 python3-venv strace? valgrind? binutils iproute2?
		mpich? libmpich-dev? hpcc? netpipe-openmpi? netpipe-mpich2? python3-mpi4py? util-linux clang? clang-format-14? libclang-rt-14-dev? libclang-rt-dev?
		clang-tidy-14? cppcheck? spin? lammps? musl-tools?
		qemu-system-x86? qemu-system-arm? gcc-12-aarch64-linux-gnu? gcc-aarch64-linux-gnu?
		libc6-dev-arm64-cross? busybox-static? cpio? kmod? dkms? gcc-12? flex? bison? bc? pahole? libelf-dev? libssl-dev? xz-utils? zstd?" ;;
	*) echo "deps.sh: unknown group '$1' (build, bench, check, demo)" >&2; exit 2 ;;
	esac
}

installed() {
	dpkg-query -W -f '${Status}\n' "$1" 2>/dev/null | grep -q 'install ok installed'
}

wanted=
for group; do
	list=$(packages "$group") || exit 2
	wanted="$wanted $list"
done

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
	echo "This is not Debian or Ubuntu: nothing is installed here. What they call$(printf ' %s' $wanted | tr -d '?') is needed."
	exit 0
fi

missing= optional=
for package in $wanted; do
	name=${package%\?}
	case " $missing $optional " in *" $name "*) continue ;; esac
	installed "$name" && continue
	if [ "$name" = "$package" ]; then missing="$missing $name"; else optional="$optional $name"; fi
done
[ -n "$missing$optional" ] || exit 0

echo "Missing here:$missing$optional"
needed=$missing

# Without the right to install: enough to go on with what there is?
without_root() {
	if [ -z "$needed" ]; then
		echo "Not installed, and not needed for everything:$optional"
		exit 0
	fi
	echo "These packages are missing, and this user may not install them ($1). As root, run:" >&2
	echo "  apt-get install --no-install-recommends$needed$optional" >&2
	exit 1
}

as_root=
[ "$(id -u)" -eq 0 ] || as_root=sudo

# Once, and not before something is to be done: sudo may ask for a password, and may be there for others only.
allowed=
ask_root() {
	[ -n "$allowed" ] || [ -z "$as_root" ] || {
		command -v sudo >/dev/null || without_root "there is no sudo"
		sudo true || without_root "sudo refuses"
	}
	allowed=yes
}

candidate() {
	apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: //p' | grep -v '(none)' || true
}

update() {
	ask_root
	echo "Asking apt what this distribution has (${as_root:+$as_root }apt-get update)"
	$as_root apt-get -q -o DPkg::Lock::Timeout=300 update >/dev/null ||
		echo "apt-get update failed; going on with the lists at hand" >&2
}

install() {
	echo "Installing now (${as_root:+$as_root }apt-get install --no-install-recommends): $*"
	$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends "$@"
}

updated=
if [ -z "$(candidate libc6-dev)" ]; then # a bare machine has no lists at all
	update
	updated=yes
fi
wanted=$optional optional=
for name in $wanted; do
	if [ -n "$(candidate "$name")" ]; then
		optional="$optional $name"
	else
		echo "This distribution has no $name; tests that need it will be skipped"
	fi
done
missing=$needed$optional
[ -n "$missing" ] || exit 0
[ -n "$updated" ] || update
install $missing && exit 0
# One that cannot be installed here, beside what is there, takes the others with it.
[ "$needed" = "$missing" ] && exit 1
echo "apt-get could not install all of them (above); those that nothing needs are left out, and tests that need them skipped"
[ -z "$needed" ] || install $needed
