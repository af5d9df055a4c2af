#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# cmake/deps.sh on machines that have some packages, and users with and without the right to install more: with stand-ins for
# dpkg-query, apt-cache, apt-get and sudo, so nothing is installed.  deps.sh SOURCE
set -eu
script=$1/cmake/deps.sh
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/bin"
for name in sh sed grep env; do ln -s "$(command -v $name)" "$dir/bin/$name"; done
stand_in() { # stand_in NAME TEXT...
	name=$1
	shift
	printf '%s\n' '#!/bin/sh' "$@" >"$dir/bin/$name"
	chmod +x "$dir/bin/$name"
}
stand_in id 'echo $USER_ID'
stand_in dpkg-query 'for p; do :; done; case " $MISSING " in *" $p "*) exit 1 ;; esac; echo "install ok installed"'
stand_in apt-cache 'case " $UNKNOWN " in *" $2 "*) ;; *) echo "  Candidate: 1" ;; esac'
stand_in apt-get 'echo "$*" >>"$SAID"; for p; do case " $BROKEN " in *" $p "*) exit 100 ;; esac; done'
stand_in sudo '[ "$MAY" = yes ] || exit 1; exec "$@"'

run() { # run STATUS MISSING: with the other variables of the caller
	: >"$dir/said"
	status=0
	MISSING=$2 SAID=$dir/said PATH=$dir/bin sh "$script" check >"$dir/out" 2>&1 || status=$?
	[ "$status" = "$1" ] || fail "exit status $status, not $1"
}
fail() {
	echo "deps: $*"
	cat "$dir/out" "$dir/said"
	exit 1
}
out() { grep -q -- "$1" "$dir/out" || fail "it does not say: $1"; }
installed() { # what the last call of apt-get asked for
	[ "$(sed -n '$s/.*--no-install-recommends//p' "$dir/said")" = "$1" ] || fail "asked apt for something else than:$1"
}

export USER_ID=0 UNKNOWN='' BROKEN='' MAY=yes
run 0 ''
cat "$dir/out" >>"$dir/said"
[ ! -s "$dir/said" ] || fail "nothing is missing"
UNKNOWN='hpcc clang-format-14'
run 0 'strace hpcc libfabric-bin clang-format-14'
out 'This distribution has no hpcc'
installed ' libfabric-bin strace'
# one that nobody needs cannot be installed: the others are
BROKEN=strace
run 0 'strace spin libfabric-bin'
installed ' libfabric-bin'
out 'could not install all'
run 0 'strace'
BROKEN=libfabric-bin
run 100 'strace libfabric-bin'
run 1 'libfabric-bin'
# without the right to install: goes on if it can, and says what to ask root for if not
USER_ID=1000 BROKEN='' MAY=no
run 0 'strace'
[ ! -s "$dir/said" ] || fail "apt-get was asked"
out 'not needed for everything: strace'
run 1 'strace libfabric-bin hpcc'
out 'sudo refuses'
out '  apt-get install --no-install-recommends libfabric-bin strace$'
run 0 'hpcc' # which is not to be had: nobody is asked for a password
rm "$dir/bin/sudo"
run 0 'strace'
run 1 'libfabric-bin'
out 'there is no sudo'
echo "deps: what is missing is asked for, by who may"
