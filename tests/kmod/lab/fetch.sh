#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fetch.sh CACHE KERNEL: brings a kernel into the cache, once.
#   6.1    Debian's own: image and headers
#   6.12   the headers of backports, to compile against
#   kasan  6.1 built from Debian's source with kasan.config: KASAN, lockdep, kmemleak, DMA debugging (minutes)
. "$(dirname "$0")/common.sh"

cache=$1
kernel=$2
mkdir -p "$cache"
exec 9>"$cache/$kernel.lock"
flock 9
case $kernel in
kasan) stamp=$(sha256sum <"$lab/kasan.config") ;;
*) stamp=1 ;;
esac
[ "$(cat "$cache/$kernel/stamp" 2>/dev/null)" = "$stamp" ] && exit 0
need apt-get apt-cache dpkg-deb make gcc

# The newest version of a kind of kernel that apt knows of, such as 6.1.0-1-amd64.
version_of() {
	apt-cache "${apt_options[@]}" depends linux-headers-amd64 2>/dev/null |
		sed -n 's/^ *Depends: linux-headers-//p' | head -n 1
}

# Kernel headers as modules want them, at the place where they now are.
fetch_headers() {
	local release common kbuild
	release=$(version_of)
	[ -n "$release" ] || skip "apt knows no linux-headers-amd64"
	common=${release%-amd64}-common
	kbuild=linux-kbuild-${release%%-*}
	case $release in
	6.1.*) kbuild=linux-kbuild-6.1 ;;
	esac
	unpack_packages "$new/root" "linux-headers-$release" "linux-headers-$common" "$kbuild" "$@"
	sed -i "s#include /usr/src/#include $cache/$kernel/root/usr/src/#" "$new/root/usr/src/linux-headers-$release/Makefile"
	ln -s "root/usr/src/linux-headers-$release" "$new/build"
}

# apt's view of backports, beside the machine's own, which stays as it is.
use_backports() {
	local site codename
	site=$(apt-get indextargets --format '$(SITE) $(COMPONENT) $(RELEASE)' 'Created-By: Packages' |
		awk '$2 == "main" && $3 !~ /-/ { print $1; exit }')
	codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
	[ -n "$site" ] || skip "apt has no sources"
	mkdir -p "$new/apt/lists/partial"
	echo "deb $site $codename-backports main" >"$new/apt/sources.list"
	apt_options+=(-o Dir::State::lists="$new/apt/lists" -o Dir::Etc::sourcelist="$new/apt/sources.list"
		-o Dir::Etc::sourceparts=- -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=)
	timeout -k 5 120 apt-get -qq "${apt_options[@]}" update >"$new/apt/log" 2>&1 ||
		skip "cannot read $codename-backports ($(tail -n 1 "$new/apt/log"))"
}

build_kasan() {
	local tree log=$cache/kasan-build.log
	need flex bison bc xz perl
	unpack_packages "$new/source" linux-source-6.1
	mkdir "$new/tree"
	tar -xf "$new"/source/usr/src/linux-source-6.1.tar.xz -C "$new/tree" --strip-components=1
	rm -r "$new/source"
	tree=$new/tree
	make -C "$tree" tinyconfig >"$log" 2>&1
	cat "$lab/kasan.config" >>"$tree/.config"
	if ! { make -C "$tree" olddefconfig && nice make -C "$tree" -j"$(nproc)" bzImage modules_prepare; } >>"$log" 2>&1; then
		echo "the kernel did not build; see $log"
		exit 1
	fi
	cp "$tree/vmlinux.symvers" "$tree/Module.symvers"
	cp "$tree/arch/x86/boot/bzImage" "$new/vmlinuz"
	ln -s tree "$new/build"
}

new=$cache/$kernel.new
rm -rf "$new" "$new.deb"
mkdir -p "$new"
case $kernel in
6.1)
	fetch_headers "linux-image-$(version_of)"
	ln -s "root/boot/$(ls "$new/root/boot" | grep -m 1 '^vmlinuz-')" "$new/vmlinuz"
	;;
6.12)
	use_backports
	fetch_headers
	;;
kasan) build_kasan ;;
*)
	echo "no such kernel: $kernel"
	exit 1
	;;
esac
echo "$stamp" >"$new/stamp"
rm -rf "${cache:?}/$kernel"
mv "$new" "$cache/$kernel"
