# SPDX-License-Identifier: BSD-3-Clause
# What is installed beside the targets' own rules: the pkg-config file. It finds its prefix from where it lies, so an
# installed tree may be moved, or stand under DESTDIR.
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH prefix_from_pc /prefix/${pc_dir} /prefix)
configure_file(cmake/sennit.pc.in ${CMAKE_BINARY_DIR}/sennit.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/sennit.pc DESTINATION ${pc_dir})
# The kernel module as source, for DKMS, with its udev rule, manual page and user header.
file(GLOB kmod_source CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kmod/*.[ch])
install(FILES ${kmod_source} kmod/Kbuild kmod/Makefile kmod/COPYING kmod/dkms.conf
        DESTINATION src/sennit-${PROJECT_VERSION})
install(FILES kmod/60-sennit.rules DESTINATION lib/udev/rules.d)
install(FILES kmod/sennit_ioctl.h kmod/sennit_limic.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sennit)
install(FILES docs/man/sennit-kmod.4 DESTINATION ${CMAKE_INSTALL_MANDIR}/man4)
