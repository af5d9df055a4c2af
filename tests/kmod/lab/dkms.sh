#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# dkms.sh CACHE KERNEL SOURCE: DKMS builds the module from its folder (installed or not), in trees of its own.
. "$(dirname "$0")/common.sh"

cache=$1
kernel=$2
source=$3
need dkms modinfo
[ "$(id -u)" = 0 ] || skip "dkms wants root"
[ -e "$cache/$kernel/build" ] || skip "kernel $kernel is not in the cache"

headers=$(readlink -f "$cache/$kernel/build")
release=${headers##*/linux-headers-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' "$source/dkms.conf")
mkdir -p "$work"/{dkms,src,modules}
cp -r "$source" "$work/src/sennit-$version"
options=(--dkmstree "$work/dkms" --sourcetree "$work/src" --installtree "$work/modules" -m sennit -v "$version")
nice dkms add "${options[@]}" >/dev/null
if ! nice dkms build "${options[@]}" -k "$release/x86_64" --kernelsourcedir "$headers" >"$work/log" 2>&1; then
	cat "$work/log" "$work"/dkms/sennit/"$version"/build/make.log 2>/dev/null
	exit 1
fi
built=$(find "$work/dkms" -name 'sennit.ko*')
[ -n "$built" ] || { echo "DKMS built nothing"; exit 1; }
[ "$(modinfo -F version "$built")" = "$version" ] || { echo "the module's version is not $version"; exit 1; }
echo "built ${built##*/} $version for $release"
