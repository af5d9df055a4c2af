#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What is installed is whole: under DESTDIR, a program builds with pkg-config and runs, the command finds its provider and
# the manual pages are there. The program is the one printed in docs/capi.md.  install.sh SOURCE BUILD CC SANITIZERS
set -eu
source=$1 build=$2 cc=$3 sanitizers=$4
if [ -n "$sanitizers" ]; then
	echo "skipped: a library with a sanitizer is not for installing"
	exit 77
fi
if ! command -v pkg-config >/dev/null; then
	echo "skipped: pkg-config is not installed"
	exit 77
fi

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
DESTDIR=$root cmake --install "$build" --prefix /usr >/dev/null

pc=$(find "$root" -name sennit.pc)
[ -n "$pc" ] || { echo "sennit.pc was not installed"; exit 1; }
export PKG_CONFIG_PATH="${pc%/*}"
# pkg-config leaves out -I/usr/include as the compiler knows it; with our prefix it must be there
flags=$(pkg-config --cflags --libs sennit)
version=$(pkg-config --modversion sennit)

sed -n '/^```c example$/,/^```$/p' "$source/docs/capi.md" | sed '1d;$d' >"$root/example.c"
[ -s "$root/example.c" ] || { echo "docs/capi.md has no example"; exit 1; }
$cc -std=c17 -Wall -Wextra -Werror -o "$root/example" "$root/example.c" $flags
libdir=$(pkg-config --variable=libdir sennit)
LD_LIBRARY_PATH=$libdir timeout 60 "$root/example"
LD_LIBRARY_PATH=$libdir ldd "$root/example" | grep -q "libsennit.so.0 => $root" ||
	{ echo "the example did not run on the installed library"; exit 1; }

cat >"$root/mx.c" <<'END'
#include <mx_extensions.h>
int main(void) { return mx_init() || mx_finalize(); }
END
$cc -Wall -Wextra -Werror -I"$root/usr/include" -o "$root/mx" "$root/mx.c" -L"$libdir" -lmyriexpress
LD_LIBRARY_PATH=$libdir timeout 60 "$root/mx" || { echo "a program for MX does not run on the installed library"; exit 1; }

sennit=$root/usr/bin/sennit
[ "$("$sennit" --version)" = "sennit $version" ] || { echo "the installed command says another version"; exit 1; }
"$sennit" run --dry-run -- true >"$root/dry"
grep -q "export FI_PROVIDER_PATH=$root/" "$root/dry" || { cat "$root/dry"; echo "the provider was not found"; exit 1; }
for page in man1/sennit.1 man3/libsennit.3; do
	[ -s "$root/usr/share/man/$page" ] || { echo "no manual page $page"; exit 1; }
done
grep -q '^\.SH SETTINGS' "$root/usr/share/man/man1/sennit.1" && grep -q SENNIT_EAGER "$root/usr/share/man/man1/sennit.1" ||
	{ echo "sennit.1 does not list the settings"; exit 1; }
[ -e "$root/usr/include/sennit/sennit.h" ] || { echo "no sennit.h"; exit 1; }
sed -n 's/^\(SN_API\|static inline\) .*[ *]\(sn_[a-z_]*\)(.*/\2/p' "$root/usr/include/sennit/sennit.h" >"$root/functions"
[ "$(wc -l <"$root/functions")" -gt 30 ] || { echo "the functions of sennit.h were not found"; exit 1; }
while read -r function; do
	grep -q "[ *]$function(" "$root/usr/share/man/man3/libsennit.3" || { echo "libsennit.3 lacks $function"; exit 1; }
done <"$root/functions"
for language in c c++; do # the header also stands alone, in either language
	printf '#include <%s>\n' sennit/sennit.h mx_extensions.h >"$root/alone"
	$cc -x $language -fsyntax-only -Wall -Wextra -I"$root/usr/include" "$root/alone" 2>"$root/errors" ||
		{ [ $language = c++ ] && grep -q 'cc1plus' "$root/errors"; } || { cat "$root/errors"; exit 1; }
done
echo "installed: $(find "$root/usr" -type f -o -type l | wc -l) files, example and command run"
