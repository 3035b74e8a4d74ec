# Entry point: installs missing packages and calls meson and ninja.
#
#   make           build/sonde and libsonde
#   make help      this list
#   make run       build, run real jobs under sonde, show their reports
#   make test      all tests, built with gcc; T=NAME runs one program,
#                  T="NAME --test-args=TEST" those of its tests whose names contain TEST
#   make test-sanitized  all tests under ASan and UBSan; programs whose threads interact also under TSan
#   make release-check  the long checks: all fault tests, long forms of other tests, a build without
#                  the kernel collector, fuzzing; 20 minutes
#   make truth     every figure of a run against independent truths, in every situation; prints the
#                  table of deviations; T=NAME selects cases; 5 minutes, as root
#   make coverage  measure which lines of src the tests reach; writes docs/COVERAGE.md
#   make bench     all benchmarks, compared with other tools
#   make fuzz      all fuzz targets on all cores, FUZZ_SECONDS (600) in total; keeps the inputs it finds
#   make install   with DESTDIR and PREFIX (/usr/local)
#   make format    clang-format over the tree
#   make docs      regenerate the generated parts of docs/

PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 600
BUILD := build
FUZZED := build-fuzz

.PHONY: all help run test test-sanitized release-check truth coverage bench fuzz install format docs clean

all: $(BUILD)/build.ninja
	ninja -C $(BUILD)

$(BUILD)/build.ninja:
	@packaging/dependencies build
	meson setup $(BUILD) --prefix=$(PREFIX) -Dtests=false

help:
	@sed -n 's/^#   //p' Makefile

run: all
	@packaging/demo $(BUILD)/sonde

test:
	@packaging/dependencies test
	@tests/run-suite gcc $(T)

test-sanitized:
	@packaging/dependencies test
	@tests/run-suite sanitized $(T)

release-check:
	@packaging/dependencies test
	@tests/release-check $(FUZZED) $(FUZZ_SECONDS)

truth: all
	@packaging/dependencies test
	meson configure $(BUILD) -Dtests=true
	ninja -C $(BUILD)
	@tests/truth/table $(BUILD) $(T)

coverage:
	@packaging/dependencies coverage
	@tests/coverage

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

# Keeps the results of fuzzing: $(FUZZED)/corpus, crashes and executions.json.
clean:
	rm -rf $(BUILD) build-sanitized build-tsan build-without-bpf build-coverage
	find $(FUZZED) -mindepth 1 -maxdepth 1 ! -name corpus ! -name crashes \
	    ! -name executions.json -exec rm -rf {} + 2>/dev/null || true
