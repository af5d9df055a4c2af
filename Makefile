# SPDX-License-Identifier: BSD-3-Clause
# A thin front for CMake, Ninja and CTest.
#   make            build into build/                  make demo     the stock MPI of this machine with and without sennit
#   make check      build, run the tests               make soak     the long ones, and those that disturb the machine
#   make bench      sennit and every MPI of this machine side by side, 22 to 28 minutes (QUICK=1: 90 s; DOC=1: docs/performance.md)
#   make calls      each kind of call of MPI, over the MPI by itself and over sennit: which are slower, 10 minutes
#   make install    into PREFIX (also DESTDIR)         make uninstall   what that put there (with the same PREFIX, DESTDIR)
#   make clean      remove build/
# `demo` and `check` first install what is missing on Debian and Ubuntu (cmake/deps.sh says what, before it does).

BUILD ?= build
PREFIX ?= /usr/local
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
CMAKE_FLAGS ?=
# apt's matplotlib belongs to /usr/bin/python3, which need not be the first python3 in PATH
PYTHON_PLOT = $(shell for p in python3 /usr/bin/python3; do $$p -c 'import matplotlib' 2>/dev/null && echo $$p && exit; \
	done; echo python3)

comma := ,
# Runs tests, and says at the end what was skipped, and why.
ctest = rm -f $(BUILD)/results.xml; ctest --test-dir $(BUILD) --output-on-failure --output-junit results.xml --test-output-size-passed 1000000 $(1); \
	status=$$?; python3 tests/skips.py $(BUILD)/results.xml && exit $$status

.PHONY: all product check demo bench calls install uninstall soak clean deps
.NOTPARALLEL:

all: $(BUILD)/build.ninja
	cmake --build $(BUILD) -j $(JOBS)

# What is installed, without the tests: half as much to compile.
product: $(BUILD)/build.ninja
	cmake --build $(BUILD) -j $(JOBS) --target product

$(BUILD)/build.ninja:
	@command -v cmake >/dev/null && command -v ninja >/dev/null || \
		{ echo "cmake and ninja are needed: 'make deps' installs what is missing"; exit 1; }
	cmake -S . -B $(BUILD) -G Ninja -DCMAKE_INSTALL_PREFIX='$(PREFIX)' $(CMAKE_FLAGS)

deps:
	@sh cmake/deps.sh build check demo

check:
	@sh cmake/deps.sh build check
	cmake -S . -B $(BUILD) -G Ninja -DSENNIT_WERROR=ON $(CMAKE_FLAGS)
	$(MAKE) all
	$(call ctest,--timeout 600 -j $$((2 * $(JOBS) + 1))) # tests/CMakeLists.txt: halves of a processor

demo:
	@sh cmake/deps.sh build demo
	$(MAKE) product
	$(PYTHON_PLOT) bench/demo.py --build $(BUILD)

bench: page = $(if $(DOC),--doc docs/performance.md)
bench:
	@sh cmake/deps.sh build bench
	@sh tests/peers.sh || [ $$? -eq 77 ]
	$(MAKE) all
	$(if $(QUICK),,$(PYTHON_PLOT) bench/progress.py --build $(BUILD) --rounds 3 --least 1 --minutes 3 $(page))
	$(PYTHON_PLOT) bench/net.py --build $(BUILD) --json out/net.json $(if $(QUICK),--quick --minutes 0.5 --mtu 1500 \
		--what bare$(comma)latency,--minutes 6) $(page) || [ $$? -eq 77 ]
	$(if $(QUICK),,$(PYTHON_PLOT) bench/net_multi.py --build $(BUILD) $(page) || [ $$? -eq 77 ])
	$(PYTHON_PLOT) bench/bench.py --build $(BUILD) $(if $(QUICK),--quick,--minutes 8.5) $(page)

calls: all
	@sh tests/peers.sh || [ $$? -eq 77 ]
	python3 bench/calls.py --build $(BUILD)

soak: all
	$(call ctest,-C soak -L soak)

install: product
	cmake --install $(BUILD) --prefix '$(PREFIX)'
	@sh cmake/installed.sh record $(BUILD) '$(DESTDIR)' '$(PREFIX)'

uninstall:
	@sh cmake/installed.sh remove $(BUILD) '$(DESTDIR)' '$(PREFIX)'

clean:
	rm -rf $(BUILD)
