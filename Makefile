# Builds, runs and tests the ladder. `make help` lists the targets; CONTRIBUTING.md says how the
# pieces fit. No list of rungs stands here: rules come from the files in stages/.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:
SHELL := /bin/bash
$(if $(wildcard scripts/goals.py),,$(error make runs in the folder of this Makefile: say \
  make -C $(dir $(lastword $(MAKEFILE_LIST)))))
$(if $(findstring ",$(CURDIR)),$(error $(CURDIR): ptxas takes no path with a " in it; clone to another))
comma := ,
space := $() $()

# ---- Tools --------------------------------------------------------------------------------------
ifeq ($(origin CXX),default)
  CXX := g++
endif
PYTHON ?= python3
ifndef CUDA_HOME
  NVCC_ON_PATH := $(realpath $(shell command -v nvcc 2>/dev/null))
  CUDA_HOME := $(if $(NVCC_ON_PATH),$(patsubst %/bin/nvcc,%,$(NVCC_ON_PATH)),$(or \
    $(realpath /usr/local/cuda),/usr/local/cuda))
endif
export CUDA_HOME
export PYTHONDONTWRITEBYTECODE := 1
NVCC := $(CUDA_HOME)/bin/nvcc
# folder(file, folders): the first of the toolkit's folders that has the file
folder = $(patsubst %/,%,$(dir $(firstword $(wildcard $(addsuffix /$(1),$(abspath \
  $(addprefix $(CUDA_HOME)/,$(2))))))))
CUDA_INCLUDE := $(call folder,cuda_runtime_api.h,include targets/x86_64-linux/include \
  targets/sbsa-linux/include)
CUDA_LIB := $(call folder,libcudart.so,lib64 lib targets/x86_64-linux/lib targets/sbsa-linux/lib)
MIN_NVCC := 12.8

# ---- Flags --------------------------------------------------------------------------------------
# One cicc run gives the PTX that is assembled here and embedded beside its SASS. -arch=sm_90a would
# also compile a plain compute_90, which ptxas refuses.
ARCH := -gencode 'arch=compute_90a,code=[sm_90a,compute_90a]'
# WERROR=1, as .ci/run says, makes compilers' warnings errors; ptxas' always are.
ERRORS := $(if $(filter 1,$(WERROR)),-Werror)
WARNINGS := -Wall -Wextra $(ERRORS)
# clang also compiles what nvcc makes of CUDA's headers, whose functions are mostly unused.
CLANG := $(findstring clang,$(shell $(CXX) --version 2>/dev/null))
# For nvcc, which takes no "ccache g++".
CCBIN := $(firstword $(filter-out %ccache %distcc,$(CXX)))
NVCCFLAGS := -std=c++20 -O3 -lineinfo $(ARCH) -I. -ccbin $(CCBIN) --cudart shared --no-compress \
  --expt-relaxed-constexpr $(if $(ERRORS),-Werror all-warnings) \
  -Xptxas -v,-warn-spills,-warn-lmem-usage,-Werror \
  -Xcompiler $(subst $(space),$(comma),$(strip $(WARNINGS) $(if $(CLANG),-Wno-unused-function) -fPIC))
CXXFLAGS := -std=c++20 -O2 -g -fPIC $(WARNINGS) -I. \
  $(addprefix -isystem ,$(filter-out /usr/include,$(CUDA_INCLUDE)))
# The run path is a RUNPATH, which LD_LIBRARY_PATH overrides.
LDFLAGS := -Wl,--enable-new-dtags -Wl,--as-needed \
  $(addprefix -L,$(CUDA_LIB)) $(addprefix -Wl$(comma)-rpath$(comma),$(CUDA_LIB))
LDLIBS := -lcudart -ldl -lpthread

LETTERS := $(firstword -$(MAKEFLAGS))
DRY := $(findstring n,$(LETTERS))
FORCED := $(if $(findstring B,$(LETTERS)),-B)

# Builds use every core unless the command line has a -j of its own.
ifeq ($(filter -j% --jobserver%,$(MAKEFLAGS)),)
  MAKEFLAGS += -j$(shell nproc)
endif

# V=1 shows every command. say(tool, file) says which step a compile or link is, and of how many:
# the first one asks a second make what it would do.
Q := $(if $(filter 1,$(V)),,@)
ifdef COUNT_STEPS
  say = @: a step
else
  STEPS = $(eval STEPS := $(shell MAKEFLAGS= $(MAKE) -n $(FORCED) COUNT_STEPS=1 $(MAKEOVERRIDES) \
    $(MAKECMDGOALS) 2>/dev/null | grep -c '^: a step'))$(STEPS)
  step = $(eval DONE += x)$(words $(DONE))
  say = @printf '[%3d/%d] %-4s %s\n' $(step) $(STEPS) $(1) $(2)
endif

# ---- How rules write files ----------------------------------------------------------------------
# A rule writes NEW, a name that no other make uses, and ends with $(move): two makes at once never
# see half a file of each other.
NEW = $@.$$$$
move = && mv -f $(NEW) $@ || { rm -f $(NEW) $(NEW).*; exit 1; }
# update: the same for what is rewritten only if it changes.
update = if cmp -s $(NEW) $@; then rm $(NEW); else mv -f $(NEW) $@; fi
# Such files are made at every start; make -n takes them as they are.
ALWAYS := $(if $(DRY),,FORCE)

# ---- What there is ------------------------------------------------------------------------------
STAGES := stages
STAGE_FILES := $(sort $(wildcard $(STAGES)/[0-9]*_*.cu))
STEMS := $(basename $(notdir $(STAGE_FILES)))
digits = $(firstword $(subst _, ,$(1)))
number = $(patsubst 0%,%,$(1))

HOST_OBJECTS := $(patsubst %,build/obj/%.o,$(basename $(sort $(wildcard common/host/*.cpp \
  common/host/*.cu))))
STAGE_OBJECTS := $(STEMS:%=build/obj/stages/%.o)
PROGRAM_ONLY := $(addprefix build/obj/common/host/,main.o cli.o bench.o energy.o)
LIB_OBJECTS := $(filter-out $(PROGRAM_ONLY),$(HOST_OBJECTS))
STAGE_PROGRAMS := $(foreach stem,$(STEMS),build/stage-$(call digits,$(stem)))
PROGRAMS := build/ladder build/libladder.so $(STAGE_PROGRAMS)
HASHES := build/ptx/hashes.json

test_objects = $(patsubst %,build/obj/%.o,$(basename $(sort $(wildcard tests/$(1)/*.cpp \
  tests/$(1)/*.cu))))
TEST_SUITES := host codegen machine rungs calls gpu
TEST_OBJECTS := $(foreach folder,$(TEST_SUITES) support,$(call test_objects,$(folder)))
TEST_PROGRAMS := $(TEST_SUITES:%=build/tests/%)

include common/machine/machine.mk
include common/machine/interpose/interpose.mk
include tests/golden/golden.mk
include common/limits/limits.mk
include tests/seam/seam.mk
include tests/sanitize.mk
include scripts/maps/maps.mk
include scripts/editors.mk
include common/serve/serve.mk
include scripts/programs.mk
include scripts/site.mk

# Make's variables become the programs' options, those of the command line only: an environment
# often has an N or a DATA of its own.
quoted = '$(subst ','\'',$(1))'
option = $(if $(filter command,$(origin $(1))),--$(2)=$(call quoted,$($(1))))
OPTIONS = $(strip $(call option,M,m) $(call option,N,n) $(call option,K,k) \
  $(call option,VARIANT,variant) $(call option,DATA,data) $(call option,SEED,seed) \
  $(call option,GRID,grid) $(call option,WORKSPACE,workspace) $(call option,TYPE,type) \
  $(call option,LAYOUT,layout) $(call option,SCALES,scales) $(call option,BITS,bits) \
  $(call option,GROUPS,groups) $(call option,ROWS,rows) $(call option,KIND,kind) \
  $(call option,ACT,act) $(call option,ADD,add))

given = $(filter command,$(origin $(1)))
# A switch is 1, or 0 as if it were not there.
on = $(if $(call given,$(1)),$(filter 1,$($(1))))
$(foreach name,V WERROR SANITIZE FORCE PICKS REQUIRE_GPU,$(if $(call given,$(name)),$(if \
  $(filter-out 0 1,$($(name))),$(error $(name)=$($(name)): it must be 1$(comma) or 0 for off))))

SANITIZED_ONLY := $(filter 1,$(SANITIZE))
$(if $(SANITIZED_ONLY),$(if $(call on,REQUIRE_GPU),$(error REQUIRE_GPU=1: no suite of SANITIZE=1 \
  uses a GPU; leave it out)))

# instead(name, what there is in its place)
instead = $(if $(filter command,$(origin $(1))),$(error $(1)=$($(1)): there is no $(1) here; say $(2)))
$(call instead,SHAPE,M= N= K=$(comma) as in M=256 N=512 K=640)
$(call instead,POLICY,MACHINE_POLICY=eager$(comma) lazy or random)
$(call instead,STAGE,make stage-$(STAGE))
$(call instead,NVCC,CUDA_HOME=$(comma) the folder that has bin/nvcc)
$(call instead,DTYPE,TYPE=$(comma) as in make stage-13 TYPE=fp16)

# Make takes any name; one that nothing here reads would do nothing, and one of the Makefile's own
# would change what it builds. Programs read MACHINE_ and LADDER_, and packagers set FLAGS.
READ := $(EXPLORE_KEYS) CC PYTHON COUNT_STEPS $(patsubst %=,%,$(shell sed -n \
  '/^define HELP/,/^endef/p' Makefile | grep -oE '\b[A-Z][A-Z_]*='))
# hint(name, names): the nearest of these
hint = $(patsubst %,did you mean %? ,$(shell $(PYTHON) -c \
  'import difflib, sys; print(*difflib.get_close_matches(sys.argv[1], sys.argv[2:], 1, 0.75))' \
  $(call quoted,$(1)) $(2) 2>/dev/null))
# known(name, in upper case)
known = $(if $(filter-out $(1),$(2)),$(error $(1)=$($(1)): variables are in upper case here, as in \
  $(2)=$($(1))))$(if $(filter-out $(READ) MACHINE_% LADDER_% %FLAGS,$(1)),$(error $(1)=$($(1)): \
  there is no $(1) here; $(call hint,$(1),$(READ))make help lists what there is))
$(foreach name,$(.VARIABLES),$(if $(filter command,$(origin $(name))),$(call \
  known,$(name),$(shell echo $(call quoted,$(name)) | tr a-z A-Z))))

# What measures does so on a Hopper; without one, say it before a compiler starts.
MEASURING := $(filter limits golden bench counters energy times serve-table \
  $(if $(call on,PICKS),,sweep),$(MAKECMDGOALS))
ifneq ($(MEASURING),)
  ifeq ($(DRY),)
    NO_GPU := $(shell $(PYTHON) scripts/doctor.py --no-gpu)
    $(if $(NO_GPU),$(error make $(firstword $(MEASURING)) runs on a GPU of compute capability 9.0 \
      and there is none: $(NO_GPU)))
  endif
endif

# All but these goals run scripts.
ifneq ($(filter-out help clean,$(or $(MAKECMDGOALS),help)),)
  ifneq ($(shell '$(PYTHON)' -c 'import sys; print(sys.version_info >= (3, 9))' 2>/dev/null || :),True)
    $(error $(PYTHON) is no Python of 3.9 or newer: install one$(comma) or say make PYTHON=...)
  endif
endif

# What a script says, for a sentence that make itself ends. Where the environment names a locale that is
# not installed, bash says so at every start, and a PYTHON may be a script of bash.
SAYING := 2>&1 | sed -e '/: warning: setlocale: /d' -e '$$s/\.$$//'

# refuse(script, names): stops with what the script says of names that it does not know, before a
# compiler starts.
refuse = $(if $(strip $(2)),$(call stop_with,$(shell $(PYTHON) scripts/$(1).py --known \
  $(foreach name,$(2),$(call quoted,$(name))) $(SAYING))))
stop_with = $(if $(1),$(error $(1)))
goals = $(patsubst $(1)-%,%,$(filter $(1)-%,$(MAKECMDGOALS)))
$(call refuse,run_tests,$(if $(filter test,$(MAKECMDGOALS)),$(SUITES) $(if \
  $(SANITIZED_ONLY),--sanitized)))
$(call refuse,mutations,$(call goals,failure))
$(call refuse,exercises,$(call goals,exercise))

# ---- Help ---------------------------------------------------------------------------------------
define HELP
make ladder        builds every rung, runs and checks it, prints one table
make stage-N       the same for rung N, one row a variant, then what to read and run next;
                   from rung 13 on the tiles that it chooses from run by VARIANT=
                   [M= N= K= VARIANT= DATA=normal|uniform|ints|zeros|index SEED= GRID= WORKSPACE=0]
                   [rung 13: TYPE=bf16|bf16_fp32|bf16_fp16|fp16|fp16_fp32|fp16_bf16|tf32|tf32_bf16|
                    tf32_fp16 LAYOUT=TN|NN|NT|TT]
                   [rung 14: TYPE=e4m3|s8 SCALES=blocks|tensor]
                   [rung 15: BITS=8|4]
                   [rung 16: TYPE=bf16|e4m3 GROUPS=8 ROWS=equal|unequal|sparse|one
                    KIND=contiguous|masked]
                   [rung 17: ACT=none|relu|gelu|gelu_tanh|silu|swiglu TYPE=bf16|bf16_fp32
                   ADD=bias|bias_c|c|nothing]
make stage-0       what is expected to be the fastest for a shape, of all rungs [the same]
make test          everything that this machine can test [REQUIRE_GPU=1 DOCTEST_DIR=]
                   [SUITES="machine lazy ...": only these]
                   [SANITIZE=1: host, machine, golden, or SUITES of these, under address and
                    undefined sanitizers]
make test-docs     every exercise of the pages: does its answer print what it says? 10 minutes
make bench         the measurement, resumable, into docs/results/ [ROWS=]
make sweep         configurations of all rungs at many shapes, and how far stage 0's pick is off, into
                   docs/results/
                   [SHAPES=tuning,heldout REGIME=burst|sustained FORCE=1 PICKS=1]
make counters      what Nsight Compute counts of each variant, into docs/results/ [ROWS= FORCE=1]
make limits        the ceilings of this GPU, measured with small kernels, into docs/results/ [ROWS=]
make energy        where the joules go, by experiment, into docs/results/ [EXPERIMENT= ROUNDS=]
make times         what the changes of exercises cost, into docs/results/
make tables        every table and plot from docs/results/
make figures       the pages' figures, drawn from what the code computes
make explore WHAT=swizzle   where the kernels put each element; descriptor, fragment, raster and more
make diff-N        what rung N changed against the rung that it has grown from
make ptx-N sass-N  the kernel's PTX and SASS, with source lines [VARIANT=]
make trace-N       a timeline of who waited on what, Perfetto JSON and SVG [VARIANT= M= N= K= GRID=]
make mutations     bugs put into the rungs, and how the PTX machine reports each
make failure-NAME  one of them, explained
make leave-out-N   the rung without each of its fences, barriers, waits and arrivals, one at a time, on the
                   PTX machine: what is noticed [VARIANT= M= N= K= GRID= TYPE= ...]
make exercise-N.M  exercise M of page N: makes the change of its answer in a copy and runs it
make list          the rungs, and the names that failure-NAME and exercise-N.M take
make ncu-N         Nsight Compute on one launch of the kernel [VARIANT= M= N= K=]
make sanitize-N    compute-sanitizer: memcheck, racecheck and synccheck [VARIANT= M= N= K=]
make doctor        what will work on this machine and what will not, each with the fix
make lib           build/libladder.so with the C API of common/host/ladder.h
make programs      programs that call it, of docs/your_program.md, into build/programs
make serve-table   times the projections of five models beside cuBLASLt into docs/results/
make install       libladder.so, ladder.h and ptx-machine into PREFIX=, by default /usr/local [DESTDIR=];
                   install-machine: ptx-machine alone
make machine       the PTX machine, for build/ptx-machine PROGRAM
make machine-bench how fast it is here
make isa           docs/isa.md, which instructions it runs
make golden        what a GPU does with single instructions, recorded for make test; needs a GPU;
                   golden-questions and golden-sums ask more
make format        formats the sources, format-check only looks, clang-format gets the formatter
make nvdisasm      gets nvdisasm with pip, into build/, for make sass-N and tests that read SASS
make compile_commands.json  for clangd and editors
make site          README and docs as static HTML in build/site; gets Sphinx with pip, into build/
make clean         removes build/

Rungs: $(STEMS)
V=1 shows the commands; CUDA_HOME= picks a toolkit, CXX= a host compiler; WERROR=1 makes its
warnings errors.
Programs exit 0: ok, 1: wrong result, 2: usage or refused input, 3: no usable device, 4: hang.
Make reports a program's exit code as "Error N" and exits 2 itself.
endef
export HELP

.PHONY: help list ladder bench sweep counters limits energy times tables doctor lib install mutations machine-bench test test-docs clean FORCE
help:
	@echo "$$HELP"

list:
	@printf '%s\n' 'make stage-N, diff-N, trace-N and more, N one of:' '$(STEMS)' \
	  '' 'make failure-NAME, NAME one of:'
	@$(PYTHON) scripts/mutations.py --list
	@printf '%s\n' '' 'make exercise-N.M, N.M one of:'
	@$(PYTHON) scripts/exercises.py --list
	@printf '%s\n' '' 'make stage-N names the variants of rung N, make help all that there is to make.'

# ---- Toolkit check and rebuild on changed flags -------------------------------------------------
# build/flags holds the compilers' versions and command lines, one a line; it is rewritten, and
# everything rebuilt, when one changes. The gate's test compiles its own files by the third.
define COMMANDS
$(NVCC) $(NVCCFLAGS)
$(CXX) $(CXXFLAGS)
$(LDFLAGS) $(LDLIBS)
endef
export COMMANDS

.PHONY: tools-are-there
tools-are-there:
	@{ mkdir -p build && test -w build; } 2>/dev/null || { echo "build/ cannot be written: allow it," \
	  "or move away what is called build" >&2; exit 1; }
	@$(CXX) --version >/dev/null 2>&1 || { echo "No C++ compiler $(CXX): install g++ 11 to 14 or" \
	  "clang 16 to 19, or say make CXX=..." >&2; exit 1; }

build/flags: $(ALWAYS) | build/objects tools-are-there $(MACHINE_FLAGS)
	@mkdir -p build
	@version=$$('$(NVCC)' --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\), \(.*\)/\1 \2/p'); \
	if [ -z "$$version" ]; then \
	  echo "No nvcc at $(NVCC): install CUDA $(MIN_NVCC) or newer, or say make CUDA_HOME=..." >&2; \
	  exit 1; \
	fi; \
	oldest=$$(printf '%s\n' $(MIN_NVCC) "$${version%% *}" | sort -V | head -1); \
	if [ "$$oldest" != $(MIN_NVCC) ]; then \
	  echo "$(NVCC) is $${version%% *}: CUDA $(MIN_NVCC) or newer is needed" \
	    "(PTX ISA 8.6); say make CUDA_HOME=..." >&2; \
	  exit 1; \
	fi; \
	printf '%s\n' "nvcc $$version" "$$($(CXX) --version | head -1)" "$$COMMANDS" >$(NEW); \
	$(update)

# build/objects names what is linked, so that a stage file that goes away goes from the programs.
build/objects: $(ALWAYS) | tools-are-there
	@mkdir -p build
	@echo '$(HOST_OBJECTS) $(STAGE_OBJECTS) $(TEST_OBJECTS)' >$(NEW); $(update)

FORCE:

# ---- Compile ------------------------------------------------------------------------------------
GATE := $(PYTHON) scripts/nvcc_gate.py
# gate(source, object, what PTX, cubin and log are called but for the extension)
gate = $(GATE) $(1) $(2) $(3) -- $(NVCC) $(NVCCFLAGS)
# compile(flags): a C++ file and its dependencies
compile = $(CXX) $(1) -MMD -MP -MT $@ -MF $(NEW).d -c $< -o $(NEW) \
  && mv -f $(NEW).d $(basename $@).d $(move)

build/obj/stages/%.o: $(STAGES)/%.cu build/flags scripts/nvcc_gate.py
	$(call say,NVCC,$<)
	$(Q)$(call gate,$<,$@,build/ptx/$*)

build/obj/%.o: %.cu build/flags scripts/nvcc_gate.py
	$(call say,NVCC,$<)
	$(Q)$(call gate,$<,$@,build/obj/$*) $(if $(filter tests/%,$<),-isystem build/doctest)

build/obj/%.o: %.cpp build/flags
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(call compile,$(CXXFLAGS) $(if $(filter tests/%,$<),-isystem build/doctest))

$(HASHES): $(STAGE_OBJECTS) build/objects scripts/kernel_hashes.py \
    $(addprefix scripts/lib/,closure.py fingerprints.py ptx.py)
	$(Q)$(PYTHON) scripts/kernel_hashes.py $(STEMS:%=build/ptx/%.ptx) >$(NEW) $(move)

-include $(wildcard build/obj/*/*.d build/obj/*/*/*.d)

# ---- Link ---------------------------------------------------------------------------------------
# link(more flags)
link = $(CXX) -o $(NEW) $(filter %.o %.a,$^) $(LDFLAGS) $(1) $(LDLIBS) $(move)

build/ladder: $(HOST_OBJECTS) $(STAGE_OBJECTS) build/objects
	$(call say,LINK,$@)
	$(Q)$(link)

# The version script keeps every name but those of the C API inside.
LADDER_MAP := common/host/ladder.map
build/libladder.so: $(LIB_OBJECTS) $(STAGE_OBJECTS) $(LADDER_MAP) build/objects
	$(call say,LINK,$@)
	$(Q)$(call link,-shared -Wl$(comma)-soname$(comma)libladder.so -Wl$(comma)--no-undefined \
	  -Wl$(comma)--version-script=$(LADDER_MAP))

# An archive, so that host tests pull in only what they name.
build/libhost.a: $(filter-out build/obj/common/host/main.o,$(HOST_OBJECTS)) build/objects
	$(Q)ar rcs $(NEW) $(filter %.o,$^) $(move)

$(TEST_PROGRAMS): build/tests/%: build/objects
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(link)
$(foreach suite,$(TEST_SUITES),$(eval build/tests/$(suite): $(call test_objects,$(suite))))
$(TEST_OBJECTS): | build/doctest/doctest/doctest.h
build/tests/host: build/libhost.a
build/tests/machine: $(MACHINE_OBJECTS)
# They run rungs, and use more than the library exports, so they have its objects: both at once would
# register the rungs twice. What two of them run on the PTX machine runs on a GPU too.
RUNG_TESTS := build/tests/gpu build/tests/rungs build/tests/calls
$(RUNG_TESTS): $(call test_objects,support) $(LIB_OBJECTS) $(STAGE_OBJECTS)
build/tests/gpu: $(filter-out %/main.o,$(call test_objects,rungs) $(call test_objects,calls))

build/doctest/doctest/doctest.h:
	$(Q)DOCTEST_DIR='$(DOCTEST_DIR)' scripts/doctest.sh build/doctest $(CCBIN)

# ---- One set of targets a rung ------------------------------------------------------------------
PER_STAGE := stage diff ptx sass trace ncu sanitize leave-out
TOOLS := $(PYTHON) scripts/kernel_tools.py

# rules(stem, digits, number)
define rules
build/stage-$(2): $(HOST_OBJECTS) build/obj/stages/$(1).o build/objects
	$$(call say,LINK,$$@)
	$$(Q)$$(link)

.PHONY: $(PER_STAGE:%=%-$(2)) $(PER_STAGE:%=%-$(3))
stage-$(2): build/stage-$(2) $(MACHINE_WITHOUT_GPU)
	$$(Q)build/stage-$(2) $$(OPTIONS)
diff-$(2):
	$$(Q)$$(PYTHON) scripts/diff.py $(STAGES)/$(1).cu
ptx-$(2): build/stage-$(2)
	$$(Q)$$(TOOLS) ptx build/stage-$(2) build/ptx/$(1).ptx $$(OPTIONS)
sass-$(2): build/stage-$(2)
	$$(Q)$$(TOOLS) sass build/stage-$(2) build/ptx/$(1).cubin $$(OPTIONS)
trace-$(2): build/stage-$(2) machine build/machine/libreplace_ptx.so
	$$(Q)$$(PYTHON) scripts/trace.py build/stage-$(2) build/ptx/$(1).ptx build/trace/$(2) $$(OPTIONS)
ncu-$(2): build/stage-$(2)
	$$(Q)$$(TOOLS) ncu build/stage-$(2) $$(OPTIONS)
sanitize-$(2): build/stage-$(2)
	$$(Q)$$(TOOLS) sanitize build/stage-$(2) $$(OPTIONS)
leave-out-$(2): build/stage-$(2) machine
	$$(Q)$$(PYTHON) scripts/leave_out.py $(3) $$(OPTIONS)
endef
# alias(digits, number)
define alias
$(foreach verb,$(PER_STAGE),$(eval $(verb)-$(2): $(verb)-$(1)))
endef
$(foreach stem,$(STEMS),$(eval $(call rules,$(stem),$(call digits,$(stem)),$(call \
  number,$(call digits,$(stem))))))
$(foreach pad,$(sort $(foreach stem,$(STEMS),$(filter 0%,$(call digits,$(stem))))),$(call \
  alias,$(pad),$(call number,$(pad))))

# Of all rungs the one that is expected to be the fastest.
.PHONY: stage-0 stage-00
stage-0 stage-00: build/ladder $(MACHINE_WITHOUT_GPU)
	$(Q)build/ladder --stage=0 $(OPTIONS)

# A rule for each verb: one for all would make stage-0 on the way to diff-0.
define no_rung
$(1)-%:
	@printf '%s\n' $$(call quoted,There is no rung $$*. The rungs are:) >&2; printf '  %s\n' $$(STEMS) >&2; exit 2
endef
$(foreach verb,$(PER_STAGE),$(eval $(call no_rung,$(verb))))

# ---- The rest -----------------------------------------------------------------------------------
ladder: $(PROGRAMS) $(HASHES) $(MACHINE_WITHOUT_GPU)
	$(Q)build/ladder $(OPTIONS)

bench: build/ladder $(HASHES)
	$(Q)$(PYTHON) scripts/bench.py $(call option,ROWS,rows)

# PICKS=1 measures nothing and needs no GPU, but then the PTX machine.
sweep: build/ladder $(HASHES) $(if $(call on,PICKS),machine)
	$(Q)$(PYTHON) scripts/sweep.py $(call option,SHAPES,shapes) $(call option,REGIME,regime) \
	  $(if $(call on,FORCE),--force) $(if $(call on,PICKS),--picks)

counters: build/ladder $(STAGE_PROGRAMS) $(HASHES)
	$(Q)$(PYTHON) scripts/counters.py $(call option,ROWS,rows) \
	  $(if $(call on,FORCE),--force)

energy: build/ladder $(HASHES)
	$(Q)$(PYTHON) scripts/energy.py $(call option,EXPERIMENT,experiment) \
	  $(call option,ROUNDS,rounds)

times: build/ladder $(STAGE_PROGRAMS) $(HASHES)
	$(Q)$(PYTHON) scripts/exercise_times.py

tables:
	$(Q)$(PYTHON) scripts/tables.py
	$(Q)$(PYTHON) scripts/serve_table.py --tables
	$(Q)$(PYTHON) scripts/moe_table.py

doctor:
	$(Q)$(PYTHON) scripts/doctor.py --nvcc '$(NVCC)' --cxx '$(CCBIN)' \
	  --cuda-lib '$(or $(CUDA_LIB),$(CUDA_HOME)/lib64)'

lib: build/libladder.so

# The library and its header, below PREFIX; DESTDIR is where a package is put together.
PREFIX ?= /usr/local
INSTALLED := $(DESTDIR)$(PREFIX)
$(if $(filter install install-machine,$(MAKECMDGOALS)),$(if $(filter /%,$(firstword $(PREFIX))),, \
  $(error PREFIX=$(PREFIX): it must begin with /$(comma) as $(abspath .)/installed does)))
install: build/libladder.so
	$(Q)install -d '$(INSTALLED)/lib' '$(INSTALLED)/include'
	$(Q)install -m 755 build/libladder.so '$(INSTALLED)/lib/'
	$(Q)install -m 644 common/host/ladder.h '$(INSTALLED)/include/'

mutations: $(STAGE_PROGRAMS) $(KERNEL_PROGRAMS) machine
	$(Q)$(PYTHON) scripts/mutations.py

failure-%: $(STAGE_PROGRAMS) $(KERNEL_PROGRAMS) machine
	$(Q)$(PYTHON) scripts/mutations.py --show $*

# Where an exercise's answer is tried: a copy of the tree below build/.
exercise-%: build/ladder $(STAGE_PROGRAMS) machine
	$(Q)$(PYTHON) scripts/exercises.py --show $*

test-docs: build/ladder $(STAGE_PROGRAMS) machine
	$(Q)$(PYTHON) scripts/exercises.py

machine-bench: $(STAGE_PROGRAMS) machine
	$(Q)$(PYTHON) scripts/machine_bench.py

ifneq ($(SANITIZED_ONLY),)
test: $(SANITIZED_PROGRAMS) $(SANITIZED_LIBS)
	$(Q)$(PYTHON) scripts/run_tests.py --sanitized $(SUITES)
else
test: $(PROGRAMS) $(TEST_PROGRAMS) $(KERNEL_PROGRAMS) $(GOLDEN_TESTS) $(HASHES) machine \
    $(ISA) build/machine/libreplace_ptx.so $(TEST_NEEDS)
	$(Q)REVISION="$${REVISION:-$$(git describe --always --dirty 2>/dev/null)}" \
	  $(PYTHON) scripts/run_tests.py $(SUITES)
endif

clean:
	rm -rf build

# What runs on the GPU runs alone: of several goals, each waits for the one before it.
ON_GPU := $(filter ladder bench serve-table sweep counters limits energy times test stage-% ncu-% sanitize-%,$(MAKECMDGOALS))
define in_order
$(if $(earlier),$(eval $(1): | $(earlier)))$(eval earlier := $(1))
endef
$(foreach goal,$(ON_GPU),$(call in_order,$(goal)))

# A goal that is neither a target nor a file is refused, with the nearest target.
TARGETS := $(shell sed -nE 's/^([a-z][a-z0-9_. -]*):([^=].*)?$$/\1/p' \
  Makefile $(filter %.mk,$(MAKEFILE_LIST)) | grep -v '^make ')
TAKING := $(PER_STAGE:%=%-N) failure-NAME exercise-N.M
no_goal = $(call stop_with,$(shell $(PYTHON) scripts/goals.py -- $(call quoted,$(1)) $(TARGETS) \
  $(TAKING) $(SAYING)))
THERE := $(TARGETS) FORCE Makefile $(filter-out %-,$(filter $(addsuffix -%,$(PER_STAGE) failure \
  exercise),$(MAKECMDGOALS)))
$(foreach goal,$(filter-out $(THERE),$(MAKECMDGOALS)),$(if \
  $(findstring /,$(goal))$(wildcard $(goal)),,$(call no_goal,$(goal))))

# takers_NAME: the goals that read a variable. To others it would do nothing, and what is empty
# would be everything.
$(foreach name,M N K VARIANT DATA SEED GRID WORKSPACE TYPE LAYOUT SCALES BITS GROUPS ROWS KIND ACT \
  ADD,$(eval takers_$(name) := ladder $(filter-out diff-%,$(PER_STAGE:%=%-%))))
$(foreach name,$(EXPLORE_KEYS),$(eval takers_$(name) += explore))
takers_ROWS += bench counters limits
takers_SHAPES := sweep
takers_REGIME := sweep
takers_PICKS := sweep
takers_FORCE := sweep counters
takers_EXPERIMENT := energy
takers_ROUNDS := energy
takers_SUITES := test
takers_SANITIZE := test
takers_REQUIRE_GPU := test
listed = $(subst $(space),$(comma) ,$(subst %,N,$(strip $(1))))
# What these goals read.
OF_GOALS = $(foreach name,$(patsubst takers_%,%,$(filter takers_%,$(.VARIABLES))),$(if $(filter \
  $(takers_$(name)),$(MAKECMDGOALS)),$(name)))
# taken(name)
taken = $(if $(filter $(takers_$(1)),$(or $(MAKECMDGOALS),help)),$(if $($(1)),,$(error $(1)= is \
  empty: say $(1)=...$(comma) or leave it out)),$(error $(1)=$($(1)): make \
  $(or $(MAKECMDGOALS),help) reads no $(1); $(call hint,$(1),$(OF_GOALS))it is for make $(call \
  listed,$(takers_$(1)))))
$(foreach name,$(patsubst takers_%,%,$(filter takers_%,$(.VARIABLES))),$(if \
  $(call given,$(name)),$(call taken,$(name))))
