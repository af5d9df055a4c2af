# SPDX-License-Identifier: BSD-3-Clause
# What is installed beside the targets' own rules: the pkg-config file. It finds its prefix from where it lies, so an
# installed tree may be moved, or stand under DESTDIR.
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH prefix_from_pc /prefix/${pc_dir} /prefix)
configure_file(cmake/sennit.pc.in ${CMAKE_BINARY_DIR}/sennit.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/sennit.pc DESTINATION ${pc_dir})
