# Acceptance suite for LLM-training clusters.
#   make                 all executables, in build/
#   make deps            install what is missing (apt-get or dnf), or say how;  make deps campaign, make deps check
#   make config          what was found, and what each missing piece switches off
#   make check           build and run every test that this machine can run      (SAN=1: with ASan and UBSan)
#   make check-gpu       what needs a GPU: unit, command-line and sanitizer tests  (STAGES="build unit measure")
#   make campaign        the quick acceptance campaign, ends in a PASS/FAIL sheet (PLAN=scripts/plans/quick.toml)
#   make install         into PREFIX (default /usr/local)
# Variables: CUDA=0, CUDA_HOME, NVCC_GENCODE, CXX, MPICXX, DEPS_PREFIX, PREFIX, BUILD, SAN=1, DEBUG=1
SHELL := /bin/bash
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules

ifneq ($(filter deps,$(MAKECMDGOALS)),)
# Dependencies first; the other goals in a make of their own, so that it sees what was installed.
OTHER_GOALS := $(filter-out deps,$(MAKECMDGOALS))
.PHONY: deps $(OTHER_GOALS)
deps:
	@scripts/deps $(if $(filter check check-%,$(OTHER_GOALS)),--tests)
$(OTHER_GOALS): deps
	+@$(MAKE) --no-print-directory $@
else

PREFIX ?= /usr/local
PLAN ?= scripts/plans/quick.toml
VERSION := $(shell cat VERSION)
ifeq ($(origin CXX),default)
CXX := g++
endif
# One folder per kind of build, so that they do not overwrite each other.
BUILD ?= build$(if $(filter 0,$(CUDA)),/nocuda)$(if $(SAN),/san)$(if $(DEBUG),/debug)
# CUDA changes which libraries there are to load, not one line of the executables: builds with and without share objects.
OBJ ?= $(if $(filter build build/nocuda,$(BUILD)),build/obj,$(BUILD)/obj)
export CXX MPICXX CUDA CUDA_HOME DEPS_PREFIX

.DEFAULT_GOAL := all
# A configuration that lacked something is forgotten: what was missing may have been installed since.
$(shell grep -qs '^CONFIG_MISSING *:*= *[^ ]' $(BUILD)/config.mk && rm -f $(BUILD)/config.mk)
ifeq ($(filter clean distclean help format,$(MAKECMDGOALS)),)
include $(BUILD)/config.mk
endif
CONFIG_KEY := $(CXX)|$(MPICXX)|$(CUDA)|$(CUDA_HOME)|$(DEPS_PREFIX)
# Configured anew when the script or one of the variables that it reads changes.
$(BUILD)/config.key: FORCE
	@mkdir -p $(@D); echo '$(CONFIG_KEY)' | cmp -s - $@ || echo '$(CONFIG_KEY)' > $@
$(BUILD)/config.mk: scripts/configure $(BUILD)/config.key
	@scripts/configure $@
FORCE:

ifneq ($(strip $(CONFIG_MISSING)),)
ifeq ($(filter config,$(MAKECMDGOALS)),)
$(error missing:$(CONFIG_MISSING). `make deps` installs it, or prints how)
endif
endif

# ---- flags ----
WARN := -Wall -Wextra -Werror
OPT := $(if $(DEBUG),-O0 -g,-O2 -g1)
comma := ,
# Instrumented, GCC 12 takes members of std::regex's automaton for uninitialised.
SANFLAGS := $(if $(SAN),-Wno-maybe-uninitialized -fsanitize=address$(comma)undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
ifdef TSAN
SANFLAGS := -fsanitize=thread
endif
CXXFLAGS_ALL = -std=c++20 $(OPT) -fPIC -fopenmp $(WARN) $(SANFLAGS) -I. $(PREFIX_INCLUDES) $(MPI_CFLAGS) $(FMT_DEFINES) $(FMT_WARN) \
  -DTT_VERSION='"$(VERSION)"' -DCATCH2_VERSION=$(CATCH2) $(CXXFLAGS)
LIBS_ALL = $(PREFIX_LIBS) $(MPI_LIBS) $(HWLOC_LIBS) -ldl -lpthread
NVCC_GENCODE ?= $(DEFAULT_GENCODE)
NVCCFLAGS_ALL = -std=c++20 -O3 -lineinfo -ccbin $(lastword $(CXX)) --expt-relaxed-constexpr -Werror all-warnings -diag-suppress 20208 \
  -Xcompiler -fPIC,-Wall,-Wextra,-Werror,-Wno-unused-parameter -I. $(PREFIX_INCLUDES) $(CUDA_CFLAGS) $(MPI_CFLAGS) $(FMT_DEFINES) $(addprefix -Xcompiler ,$(FMT_WARN)) $(NVCC_GENCODE)

# ---- sources ----
COMMON_SRC := $(wildcard common/*.cpp)
SRC_SRC := $(filter-out %_blas.cpp %_dnnl.cpp,$(wildcard src/*/*.cpp))
BENCH_SUPPORT_SRC := $(wildcard bench/support/*.cpp)
TOOL_SRC := $(wildcard bench/*.cpp)
# Behind libtt_cuda.so and libtt_hostmath.so, loaded at run time.
CUDA_SRC := $(wildcard src/*/cuda/*.cpp)
CU_SRC := $(wildcard src/*/cuda/*.cu)
HOSTMATH_SRC := $(if $(filter 1,$(HAVE_BLAS)),$(wildcard src/*/*_blas.cpp)) $(if $(filter 1,$(HAVE_DNNL)),$(wildcard src/*/*_dnnl.cpp))
UNIT_SRC := $(wildcard verify/unit/*.cpp verify/reference/*.cpp)

obj = $(patsubst %,$(OBJ)/%.o,$(basename $(1)))
TOOLS := $(patsubst bench/%.cpp,$(BUILD)/%,$(TOOL_SRC))
COLL_NAMES := all_reduce_perf all_gather_perf reduce_scatter_perf broadcast_perf reduce_perf alltoall_perf sendrecv_perf gather_perf scatter_perf
COLL_LINKS := $(if $(wildcard bench/coll_perf.cpp),$(addprefix $(BUILD)/,$(COLL_NAMES)))
PLUGINS := $(if $(filter 1,$(HAVE_CUDA)),$(if $(CUDA_SRC)$(CU_SRC),$(BUILD)/libtt_cuda.so)) $(if $(strip $(HOSTMATH_SRC)),$(BUILD)/libtt_hostmath.so)

.PHONY: all config check check-gpu campaign install clean unit FORCE format
all: $(TOOLS) $(COLL_LINKS) $(PLUGINS)

config:
	@printf '%s\n' $(CONFIG_NOTES)
	@$(if $(strip $(CONFIG_MISSING)),echo "missing:$(CONFIG_MISSING) (make deps installs it or prints how)")

# ---- rules ----
# Compiled anew when the flags change, whichever configuration they came from.
$(OBJ)/flags: FORCE
	@mkdir -p $(@D); printf '%s\n' '$(CXX) $(subst ','\'',$(CXXFLAGS_ALL))' | cmp -s - $@ || printf '%s\n' '$(CXX) $(subst ','\'',$(CXXFLAGS_ALL))' > $@
$(OBJ)/%.o: %.cpp $(OBJ)/flags
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS_ALL) $(EXTRA) -MMD -MP -c $< -o $@
$(OBJ)/%.o: %.cu $(OBJ)/flags $(BUILD)/config.mk
	@mkdir -p $(@D)
	$(NVCC_LAUNCHER) $(NVCC) $(NVCCFLAGS_ALL) -MMD -MP -MF $(@:.o=.d) -c $< -o $@
# Tests are compiled more often than they run.
$(call obj,$(UNIT_SRC)): OPT = $(if $(DEBUG),-O0 -g,-O1 -g1)
$(call obj,$(CUDA_SRC)): EXTRA = $(CUDA_CFLAGS)
$(call obj,$(wildcard src/*/*_blas.cpp)): EXTRA = $(BLAS_CFLAGS)

$(BUILD)/libtt.a: $(call obj,$(COMMON_SRC) $(SRC_SRC) $(BENCH_SUPPORT_SRC))
	@rm -f $@
	ar rcs $@ $^
$(TOOLS): $(BUILD)/%: $(OBJ)/bench/%.o $(BUILD)/libtt.a
	$(CXX) $(SANFLAGS) -fopenmp -o $@ $^ $(LIBS_ALL) -Wl,-rpath,'$$ORIGIN:$$ORIGIN/../lib'
$(COLL_LINKS): $(BUILD)/coll_perf
	ln -sf coll_perf $@
$(BUILD)/libtt_cuda.so: $(call obj,$(CUDA_SRC) $(CU_SRC)) $(BUILD)/libtt.a
	$(CXX) $(SANFLAGS) -shared -o $@ $^ $(CUDA_LIBPATH) -lcudart_static -lcublasLt -lnccl -ldl -lrt -lpthread $(LIBS_ALL) \
	  -Wl,--exclude-libs,ALL -Wl,-z,defs $(if $(SANFLAGS),-Wl$(comma)-z$(comma)undefs)
$(BUILD)/libtt_hostmath.so: $(call obj,$(HOSTMATH_SRC)) $(BUILD)/libtt.a
	$(CXX) $(SANFLAGS) -fopenmp -shared -o $@ $^ $(PREFIX_LIBS) $(BLAS_LIBS) $(DNNL_LIBS) $(MPI_LIBS) -ldl -Wl,--exclude-libs,ALL
$(BUILD)/unit: $(call obj,$(UNIT_SRC)) $(BUILD)/libtt.a
	$(CXX) $(SANFLAGS) -fopenmp -o $@ $^ $(LIBS_ALL) $(CATCH2_LIBS) -Wl,-rpath,'$$ORIGIN'
unit: $(BUILD)/unit all
	$(BUILD)/unit

check-gpu:
	scripts/check-gpu $(STAGES)
check: all $(BUILD)/unit
	verify/run --build $(BUILD) $(if $(SAN),--san) $(CHECK_ARGS)
campaign: all
	scripts/campaign --build $(BUILD) $(PLAN)
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib $(DESTDIR)$(PREFIX)/share/train-tests
	install $(TOOLS) $(DESTDIR)$(PREFIX)/bin
	$(foreach l,$(notdir $(COLL_LINKS)),ln -sf coll_perf $(DESTDIR)$(PREFIX)/bin/$(l);)
	$(if $(strip $(PLUGINS)),install $(PLUGINS) $(DESTDIR)$(PREFIX)/lib)
	install scripts/campaign $(DESTDIR)$(PREFIX)/bin
	install -d $(DESTDIR)$(PREFIX)/share/train-tests/campaign_lib
	install -m 644 scripts/campaign_lib/*.py $(DESTDIR)$(PREFIX)/share/train-tests/campaign_lib
	cp -r VERSION scripts/plans $(wildcard verify/baselines) slurm docs/record.schema.json $(DESTDIR)$(PREFIX)/share/train-tests/
format:
	clang-format -i $$(git ls-files '*.cpp' '*.h' '*.cu' '*.cuh')
clean:
	rm -rf build

-include $(shell find $(OBJ) -name '*.d' 2>/dev/null)
endif
