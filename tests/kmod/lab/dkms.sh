#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# dkms.sh CACHE KERNEL SOURCE: DKMS builds the module from its folder (installed or not), in trees of its own. The kernel's module
# was built before (build.sh), with more warnings: of the same source its objects are taken, and not compiled again. What
# is tested is DKMS's own: its settings, that the folder has all that is needed, linking, and what is installed.
. "$(dirname "$0")/common.sh"

cache=$1
kernel=$2
source=$3
need dkms modinfo
[ "$(id -u)" = 0 ] || skip "dkms wants root"
[ -e "$cache/$kernel/build" ] || skip "kernel $kernel is not in the cache"
SENNIT_BUILT=$(readlink -f "$cache/$kernel/mod/kmod")
export SENNIT_BUILT
[ -e "$SENNIT_BUILT/main.o" ] || skip "the module is not built for $kernel"

headers=$(readlink -f "$cache/$kernel/build")
release=${headers##*/linux-headers-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' "$source/dkms.conf")
mkdir -p "$work"/{dkms,src,modules}
cp -r "$source" "$work/src/sennit-$version"
# The compiler by the name that the kernel's build has for it.
SENNIT_CC=$(command -v "$(sed -n '1s/.*:= *\([^ ]*\) .*/\1/p' "$SENNIT_BUILT/.main.o.cmd")")
export SENNIT_CC
mkdir "$work/bin"
cat >"$work/bin/${SENNIT_CC##*/}" <<'END'
#!/bin/sh
for word; do
	case $word in
	-Wp,-MMD,*) needs=${word#-Wp,-MMD,} ;;
	*.o) object=$word ;;
	*.c) source=$word ;;
	esac
done
built=$SENNIT_BUILT/${source##*/}
[ -n "$needs" ] && cmp -s "$source" "$built" && [ "${object##*/}" = "$(basename "$source" .c).o" ] || exec "$SENNIT_CC" "$@"
echo "$object: $source" >"$needs"
exec cp "${built%.c}.o" "$object"
END
chmod +x "$work/bin/${SENNIT_CC##*/}"
PATH=$work/bin:$PATH
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
