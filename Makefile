# The front door. `make serve` and `make test` are all a newcomer needs; both install what is missing (Debian packages, as root or with sudo).
MESON_ARGS ?=
SERVE_ARGS ?=
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

BUILD_PACKAGES := gcc libc6-dev meson ninja-build pkg-config python3 libseccomp-dev libmd-dev \
	libjansson-dev libyaml-dev python3-dev libpcre2-dev libsqlite3-dev zlib1g-dev libssl-dev \
	libcurl4-openssl-dev libpq-dev libpg-query-dev libprotobuf-c-dev
TEST_PACKAGES := $(BUILD_PACKAGES) python3-pytest python3-pytest-xdist python3-pytest-timeout libcmocka-dev clang-format clang-tidy \
	python3-numpy python3-pandas python3-matplotlib nodejs git perl g++ util-linux \
	qemu-system-x86 busybox-static cpio systemd procps \
	python3-jsonschema python3-yaml sqlite3 openssl curl postgresql opensmtpd
FUZZ_PACKAGES := $(BUILD_PACKAGES) clang libclang-rt-14-dev
BENCH_PACKAGES := $(BUILD_PACKAGES) bubblewrap

.PHONY: all build serve test bench fuzz mutants format install clean

all: build

# Installs the packages of the list that are not there yet; asks nothing, and does nothing when all are there.
define need
	@missing=$$(for p in $(1); do dpkg-query -W -f '$${db:Status-Status}\n' $$p 2>/dev/null | grep -qx installed || echo $$p; done); \
	if [ -n "$$missing" ]; then echo "installing:" $$missing; \
	$(SUDO) apt-get update -qq && $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; fi
endef

build:
	$(call need,$(BUILD_PACKAGES))
	@[ -f build/build.ninja ] || meson setup build $(MESON_ARGS)
	@ninja -C build

# In the foreground, as the user who asks for it. An ordinary user needs a cgroup to divide: that of the session if it is theirs,
# else one that their systemd makes, else root's. SERVE_ARGS are options of `glovebox serve`.
serve: build
	@set -- build/glovebox serve $(SERVE_ARGS); \
	scope="systemd-run --user --scope --quiet --collect -p Delegate=yes"; \
	if [ "$$(id -u)" = 0 ]; then exec "$$@"; \
	elif why=$$("$$@" --check 2>&1); then exec "$$@"; \
	elif $$scope "$$@" --check >/dev/null 2>&1; then exec $$scope "$$@"; fi; \
	echo "$$why"; echo "Starting it with sudo; call it with sudo as well."; exec sudo "$$@"

test:
	$(call need,$(TEST_PACKAGES))
	@$(SUDO) tests/run
	@[ -z "$(SUDO)" ] || $(SUDO) chown -R $$(id -u):$$(id -g) build build-test build-asan

mutants:
	$(call need,$(TEST_PACKAGES))
	@$(SUDO) tests/mutants

# Ten minutes for every fuzz target, side by side; SECONDS= for another time.
SECONDS ?= 600
fuzz:
	$(call need,$(FUZZ_PACKAGES))
	@tests/fuzz/run all $(SECONDS)

bench: build
	$(call need,$(BENCH_PACKAGES))
	@bench/run

format:
	$(call need,clang-format)
	@git ls-files '*.c' '*.h' | xargs clang-format -i

install: build
	@meson install -C build

clean:
	rm -rf build build-test build-asan
