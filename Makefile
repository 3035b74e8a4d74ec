# The front door. meson and ninja do the work; this installs what is missing and calls them.
#
#   make           build/sonde and libsonde
#   make run       build, run a real job under sonde, show its report
#   make test      the whole test suite, with gcc, and with clang under ASan and UBSan
#   make test-faults  the store killed, failed by the disk and filled up, a quarter of an hour of it
#   make bench     every benchmark, beside its peers
#   make fuzz      all fuzz targets on all cores, FUZZ_SECONDS (600) in total
#   make install   with DESTDIR and PREFIX (/usr/local)
#   make format    clang-format over the tree
#   make docs      regenerates the generated parts of docs/

PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 600
BUILD := build
SANITIZED := build-sanitized
FUZZED := build-fuzz

.PHONY: all run test test-faults bench fuzz install format docs clean

all: $(BUILD)/build.ninja
	ninja -C $(BUILD)

$(BUILD)/build.ninja:
	@packaging/dependencies build
	meson setup $(BUILD) --prefix=$(PREFIX) -Dtests=false

run: all
	@packaging/demo $(BUILD)/sonde

test:
	@packaging/dependencies test
	@tests/run-suite $(BUILD) $(SANITIZED)

test-faults:
	@packaging/dependencies test
	@tests/faults/all $(BUILD)

bench: all
	@packaging/dependencies bench
	@tests/bench/all $(BUILD)/sonde

fuzz:
	@packaging/dependencies test
	@tests/fuzz/fuzz-all $(FUZZED) $(FUZZ_SECONDS)

install: all
	meson configure $(BUILD) --prefix=$(PREFIX)
	DESTDIR=$(DESTDIR) meson install -C $(BUILD) --no-rebuild

format:
	clang-format -i $$(git ls-files '*.c' '*.h')

docs: all
	meson configure $(BUILD) -Dtests=true
	ninja -C $(BUILD) docs/generate
	cd docs && ../$(BUILD)/docs/generate

clean:
	rm -rf $(BUILD) $(SANITIZED) $(FUZZED)
