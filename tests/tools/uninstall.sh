#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# `make uninstall` takes away what `make install` put there, and nothing else: not what lies beside it, not what somebody has
# changed since, not what went to another place.  uninstall.sh SOURCE BUILD SANITIZERS
set -eu
source=$1 build=$2 sanitizers=$3
if [ -n "$sanitizers" ]; then
	echo "skipped: a library with a sanitizer is not for installing"
	exit 77
fi

root=$(mktemp -d)
trap 'rm -rf "$root" "$build/installed/"*"${root##*/}"*' EXIT
run() { # install or uninstall, of what is built as it is
	env -u MAKEFLAGS -u MAKEOVERRIDES make --no-print-directory -C "$source" -o product "$1" BUILD="$build" PREFIX="$2" DESTDIR="$3"
}
die() {
	echo "$*"
	find "$root" ! -type d
	exit 1
}
files() { # how many, links too, and our own folders
	find "$1" ! -type d -o -name 'sennit*' -type d | wc -l
}

run install /usr "$root/a" >/dev/null
run install "/opt/my own" "$root/b" >/dev/null
[ "$(files "$root/a")" -gt 15 ] || die "make install installed next to nothing"
[ "$(files "$root/a")" = "$(files "$root/b")" ] || die "two places have not the same files"
DESTDIR=$root/c cmake --install "$build" --prefix /usr >/dev/null # as others do, meanwhile: no concern of uninstall

# everything, of one place
run uninstall /usr "$root/a" >/dev/null
[ "$(files "$root/a")" = 0 ] || die "something is left"
[ "$(files "$root/b")" = "$(files "$root/c")" ] || die "another place's files are gone"
if run uninstall /usr "$root/a" >"$root/said" 2>&1 || ! grep -q "Nothing was installed under $root/a/usr" "$root/said"; then
	cat "$root/said"
	die "a second time it does not say that there is nothing"
fi

# what is changed, deleted, added or replaced since
base="$root/b/opt/my own"
rules=$base/lib/udev/rules.d/60-sennit.rules
[ -e "$rules" ] || die "no udev rule"
echo "# mine" >>"$rules"
rm "$base/bin/sennit"
touch "$base/include/sennit/mine.h" "$base/bin/other"
rm "$(readlink -f "$(find "$base" -name libsennit.so)")" # what its links lead to
run uninstall "/opt/my own" "$root/b" >"$root/said" || { cat "$root/said"; die "uninstall fails when files have changed"; }
grep -q "^kept.*: $rules$" "$root/said" || { cat "$root/said"; die "it does not say that the rule is kept"; }
left=$(cd "$base" && find . ! -type d -o -type l | sort | tr '\n' ' ')
[ "$left" = "./bin/other ./include/sennit/mine.h ./lib/udev/rules.d/60-sennit.rules " ] || die "left: $left"

# a newer version over an older one: what only that had goes, too
run install "/opt/my own" "$root/b" >/dev/null
echo old >"$base/bin/old"
list=$(grep -l "$base/bin/sennit$" "$build"/installed/*)
echo "$(sha256sum <"$base/bin/old" | cut -c 1-64)  $base/bin/old" >>"$list"
run install "/opt/my own" "$root/b" >/dev/null
rm "$base/include/sennit/mine.h" "$base/bin/other"
run uninstall "/opt/my own" "$root/b" >/dev/null
[ "$(files "$root/b")" = 0 ] || die "something is left of two versions"
echo "uninstalled: all of $(files "$root/c") files and folders, and nothing else"
