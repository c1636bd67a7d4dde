# For editors and formatters, and what pip gets for them and for tests: compile_commands.json, one
# version of clang-format, nvdisasm.

# ---- clangd -------------------------------------------------------------------------------------
# What nvcc compiles stands there in clang's words, as its host half, which needs no device library.
# clang 16 or newer reads it. Its CUDA headers name one that CUDA 13 no longer has: here it is empty.
SOURCES = $(sort $(foreach folder,common stages tests,$(wildcard $(addprefix $(folder)/,*.cpp *.cu \
  */*.cpp */*.cu */*/*.cpp */*/*.cu))))
EDITOR_INCLUDES := $(addprefix -isystem ,build/doctest $(CUDA_INCLUDE) $(CUDA_INCLUDE)/cccl)
EDITOR_CXX := clang++ -std=c++20 -Wall -Wextra -I. -I$(NAMES) $(EDITOR_INCLUDES)
EDITOR_CUDA := $(EDITOR_CXX) -isystem build/editors -x cuda --cuda-host-only --cuda-path=$(CUDA_HOME) \
  -nocudalib -Wno-unknown-cuda-version -Wno-unknown-attributes \
  $(foreach part,MAJOR MINOR BUILD,-D__CUDACC_VER_$(part)__=0)

compile_commands.json: $(ALWAYS) | $(NAMES)/errors.inc
	@mkdir -p build/editors && touch build/editors/texture_fetch_functions.h
	@{ separator='['; for source in $(SOURCES); do \
	  case $$source in *.cu) command='$(EDITOR_CUDA)';; *) command='$(EDITOR_CXX)';; esac; \
	  printf '%s\n{"directory": "$(CURDIR)", "file": "%s", "command": "%s -c %s"}' \
	    "$$separator" $$source "$$command" $$source; separator=','; done; \
	  printf '\n]\n'; } >$(NEW); $(update)

# ---- clang-format -------------------------------------------------------------------------------
# Versions differ in what they make of the same .clang-format.
CLANG_FORMAT_VERSION := 18.1.8
FORMATTER := build/clang-format-$(CLANG_FORMAT_VERSION)
FORMAT = git ls-files -z '*.h' '*.cpp' '*.cu' '*.cuh' | \
  PYTHONPATH=$(FORMATTER) xargs -0 $(PYTHON) $(FORMATTER)/bin/clang-format
has_formatter = [ -e $(FORMATTER)/bin/clang-format ] || { echo "There is no clang-format \
$(CLANG_FORMAT_VERSION) in build/: say make clang-format, which gets it with pip." >&2; exit 1; }

.PHONY: clang-format format format-check
clang-format:
	$(Q)[ -e $(FORMATTER)/bin/clang-format ] || { $(PYTHON) -m pip install --quiet --no-deps \
	  --disable-pip-version-check --root-user-action=ignore --target $(FORMATTER) \
	  clang-format==$(CLANG_FORMAT_VERSION); }

format:
	@$(has_formatter)
	$(Q)$(FORMAT) -i

format-check:
	@$(has_formatter)
	$(Q)$(FORMAT) --dry-run -Werror

# ---- nvdisasm -----------------------------------------------------------------------------------
# For make sass-N and the tests that read SASS, where the toolkit was installed without it.
.PHONY: nvdisasm
nvdisasm:
	$(Q)[ -e build/nvdisasm/nvidia ] || { $(PYTHON) -m pip install --quiet --no-deps \
	  --disable-pip-version-check --root-user-action=ignore --target build/nvdisasm \
	  'nvidia-cuda-nvdisasm>=13.0,<14'; }
