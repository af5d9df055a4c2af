#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What `make install` put where, so that `make uninstall` takes exactly that away.
#   installed.sh record BUILD DESTDIR PREFIX   after an installation: its files and their sums, beside those of earlier ones
#   installed.sh remove BUILD DESTDIR PREFIX   removes them; what somebody has changed since stays, and is named
set -eu
verb=$1 build=$2 root=${3%/}$4
record=$build/installed/$(printf %s "$root" | tr / %)

case $verb in
record)
	mkdir -p "$build/installed"
	touch "$record"
	sed "s|^|${3%/}|" "$build/install_manifest.txt" | xargs -d '\n' sha256sum -- >"$record.new"
	# a file that an earlier version had and this one has not is still ours
	awk 'FNR == NR { new[substr($0, 67)] = 1; print; next } !(substr($0, 67) in new)' "$record.new" "$record" >"$record.all"
	mv "$record.all" "$record"
	rm "$record.new"
	;;
remove)
	if [ ! -s "$record" ]; then
		echo "Nothing was installed under $root from $build, or 'make clean' took the list; for another place, name it as" \
			"'make install' was told (PREFIX, DESTDIR). 'make install' makes the list anew."
		ls "$build/installed" 2>/dev/null | tr % / | sed 's/^/from here: /'
		exit 1
	fi >&2
	ours=$record.ours kept=$record.kept
	: >"$ours" >"$kept"
	# All of them before the first goes: of a link it is the sum of what it leads to, or nothing if that was deleted.
	while read -r sum file; do
		if [ "$(cat "$file" 2>/dev/null | sha256sum)" = "$sum  -" ] || { [ -L "$file" ] && [ ! -e "$file" ]; }; then
			echo "$file" >>"$ours"
		elif [ -e "$file" ]; then
			echo "$sum  $file" >>"$kept"
			echo "kept, because it is not what was installed: $file"
		fi
	done <"$record"
	xargs -d '\n' rm -fv -- <"$ours"
	# folders that are ours alone, once nothing is in them
	sed -n 's|\(.*/sennit[^/]*\)/[^/]*$|\1|p' "$ours" | sort -u | xargs -r -d '\n' rmdir --ignore-fail-on-non-empty --
	mv "$kept" "$record"
	rm "$ours"
	[ -s "$record" ] || rm "$record"
	;;
esac
