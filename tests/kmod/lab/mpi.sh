#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# mpi.sh CACHE KERNEL BUILD: real MPI programs on a kernel with the module. Open MPI as this machine has it is copied into the
# emulated machine's memory, with what it needs, sennit from the build folder, and a program that checks every byte;
# mpi_guest.sh runs it there.
. "$(dirname "$0")/common.sh"

cache=$1
kernel=$2
build=$3
need mpicc.openmpi mpirun.openmpi orted ip ldd ldconfig
plugins=$(ldd "$(command -v orted)" | sed -n 's/.*libopen-rte.so.* => \(.*\) (.*/\1/p')
plugins=$(echo "$(dirname "$(readlink -f "${plugins:-/}")")"/openmpi/lib/openmpi*)
[ -d "$plugins" ] || skip "Open MPI's plugins are not where Debian has them"
[ -e "$plugins/mca_mtl_ofi.so" ] || skip "this Open MPI was built without libfabric"

make_tree
mkdir -p "$tree"/opt/sennit/{bin,lib} "$tree"/{etc,root,run,var/run/netns}
cp "$build/bin/sennit" "$tree/opt/sennit/bin/"
cp "$build"/lib/libsennit-{fi,mpi,heap}.so "$tree/opt/sennit/lib/"
mpicc.openmpi -O2 -o "$tree/opt/program" "$root/tests/kmod/mpi_program.c" || skip "mpicc does not compile"
bring_programs "$(command -v mpirun.openmpi)" "$(command -v orted)"
bring_programs "$(readlink -f "$(command -v ip)")" && mv "$tree$(readlink -f "$(command -v ip)")" "$tree/opt/ip" # busybox has one of that name
ln -s mpirun.openmpi "$tree$(dirname "$(command -v mpirun.openmpi)")/mpirun"
# Without those for hardware that is not there, whose libraries are large.
bring_programs $(ls "$plugins"/mca_*.so | grep -v -E '_(ucx|openib|psm|psm2|slurm|romio[0-9]*)\.so')
bring_libraries "$tree/opt/program" "$tree"/opt/sennit/lib/*.so
! netpipe=$(command -v NPopenmpi) || bring_programs "$netpipe"
pmix=$(ldd "$plugins"/mca_pmix_ext*.so | sed -n 's/.*libpmix.so.* => \(.*\) (.*/\1/p')
pmix=${pmix:+$(dirname "$(readlink -f "$pmix")")} # its own plugins and texts lie beside it
for folder in /etc/openmpi /usr/share/openmpi ${pmix:+"$pmix/pmix" "${pmix%/lib}/share"}; do
	[ ! -d "$folder" ] || { mkdir -p "$tree$folder" && cp -Lr "$folder/." "$tree$folder/"; }
done
echo "127.0.0.1 localhost lab" >"$tree/etc/hosts"
# Some libraries lie beside the usual folders.
find "$tree" -name '*.so*' -not -path '*/etc/*' -printf '%h\n' | sort -u | sed -e "s#^$tree##" -e '/openmpi[0-9]*$/d' >"$tree/etc/ld.so.conf"
ldconfig -r "$tree"

status=0
"$lab/boot.sh" -r "$tree" "$cache" "$kernel" "$lab/mpi_guest.sh" || status=$?
exit $status
