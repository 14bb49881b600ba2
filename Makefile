# A thin front of meson. `make run` and `make test` install the Debian packages
# they need where they may; see tools/install-deps.
#
#   BUILD, TEST_BUILD   build directories: the release, and the one with asserts
#   SETUP, TEST_SETUP   further arguments to their `meson setup`
#   TEST                arguments to `meson test`, e.g. TEST='--suite unit'
#   PREFIX, DESTDIR     where `make install` installs to
#   DBH_TEST_SCALE      how much the tests do (tests/README.md)

BUILD = build
TEST_BUILD = build-test
SETUP =
TEST_SETUP =
TEST =
PREFIX = /usr/local

# Where Debian's linker and pkg-config look; meson knows only with dpkg-dev.
MULTIARCH = $(shell cc -print-multiarch 2>/dev/null)
LIBDIR = $(if $(MULTIARCH),--libdir=lib/$(MULTIARCH))
RELEASE = --buildtype=release -Dtests=false --prefix=$(PREFIX) $(LIBDIR)

all: need-run build

build: $(BUILD)/build.ninja
	ninja -C $(BUILD)

run: deps-run
	@$(MAKE) --no-print-directory build
	@tools/run-demo $(BUILD)/frontends/cli/dropbehind

test: deps-test
	@$(MAKE) --no-print-directory $(TEST_BUILD)/build.ninja
	ninja -C $(TEST_BUILD)
	@tools/run-tests $(TEST_BUILD) $(TEST)

install: need-run build
ifneq ($(origin PREFIX),file)
	meson configure --prefix=$(PREFIX) $(BUILD)
	ninja -C $(BUILD)
endif
	meson install -C $(BUILD) --no-rebuild
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi

clean:
	rm -rf $(BUILD) $(TEST_BUILD) build-ci-*

$(BUILD)/build.ninja:
	meson setup $(RELEASE) $(SETUP) $(BUILD)

$(TEST_BUILD)/build.ninja:
	meson setup $(TEST_SETUP) $(TEST_BUILD)

need-run:
	@tools/install-deps --check run

deps-run:
	@tools/install-deps run

deps-test:
	@tools/install-deps test

# meson and ninja use the processors.
.NOTPARALLEL:
.PHONY: all build run test install clean need-run deps-run deps-test
