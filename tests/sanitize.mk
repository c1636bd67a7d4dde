# `make test SANITIZE=1`: the suites that need no GPU and run no kernel of ours, compiled once more
# with GCC's or clang's checks of addresses and of undefined behaviour. Nothing else is rebuilt.

SANITIZED := build/sanitize
SANITIZE_FLAGS := -O1 -fno-omit-frame-pointer -fsanitize=address,undefined \
  -fno-sanitize-recover=undefined
sanitized = $(patsubst build/obj/%,$(SANITIZED)/obj/%,$(1))

# What nvcc compiles is taken as it is.
SANITIZED_HOST := $(foreach object,$(filter-out %/main.o,$(HOST_OBJECTS)),$(if \
  $(wildcard $(object:build/obj/%.o=%.cu)),$(object),$(call sanitized,$(object))))
SANITIZED_MACHINE := $(call sanitized,$(MACHINE_OBJECTS))
SANITIZED_RUNTIME := $(call sanitized,$(RUNTIME_OBJECTS))
SANITIZED_GOLDEN := $(SANITIZED)/obj/tests/golden/golden.o
SANITIZED_TESTS := $(foreach suite,host machine,$(call sanitized,$(call test_objects,$(suite))))
SANITIZED_OBJECTS := $(filter $(SANITIZED)/%,$(SANITIZED_HOST) $(SANITIZED_MACHINE) \
  $(SANITIZED_RUNTIME) $(SANITIZED_GOLDEN) $(SANITIZED_TESTS))
SANITIZED_LIBS := $(addprefix $(SANITIZED)/machine/,$(CUDART_SONAME) libcuda.so.1)
SANITIZED_PROGRAMS := $(addprefix $(SANITIZED)/,host machine_test golden)

$(SANITIZED_OBJECTS): build/flags $(MACHINE_FLAGS) tests/sanitize.mk
$(SANITIZED_OBJECTS): | build/doctest/doctest/doctest.h $(NAMES)/errors.inc

$(SANITIZED)/obj/common/machine/%.o: common/machine/%.cpp
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)$(call compile,$(MACHINE_CXXFLAGS) -I$(NAMES) \
	  $(addprefix -isystem ,$(filter-out /usr/include,$(CUDA_INCLUDE))) $(SANITIZE_FLAGS))

$(SANITIZED)/obj/%.o: %.cpp
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)$(call compile,$(CXXFLAGS) -isystem build/doctest $(SANITIZE_FLAGS))

$(SANITIZED)/libhost.a: $(SANITIZED_HOST) build/objects
	$(Q)ar rcs $(NEW) $(filter %.o,$^) $(move)

$(SANITIZED)/host: $(call sanitized,$(call test_objects,host)) $(SANITIZED)/libhost.a
$(SANITIZED)/machine_test: $(call sanitized,$(call test_objects,machine)) $(SANITIZED_MACHINE) \
  $(SANITIZED)/obj/common/machine/runtime/fatbin.o | $(MACHINE_PROGRAMS)
$(SANITIZED)/golden: $(SANITIZED_GOLDEN) $(GOLDEN_CASES)
$(SANITIZED_PROGRAMS): build/objects
	$(call say,LINK,$@)
	$(Q)$(call link,$(SANITIZE_FLAGS))

$(SANITIZED)/machine/$(CUDART_SONAME): $(SANITIZED_MACHINE) $(SANITIZED_RUNTIME) $(NAMES)/stubs.o
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CXX) $(SANITIZE_FLAGS) -shared -o $(NEW) $^ -Wl,-soname,$(CUDART_SONAME) -Wl,-Bsymbolic \
	  -Wl,--version-script=$(NAMES)/exports.map @$(NAMES)/aliases.rsp -ldl -lpthread $(move)

$(SANITIZED)/machine/libcuda.so.1: $(SANITIZED)/machine/$(CUDART_SONAME)
	$(Q)$(CXX) -shared -o $(NEW) -Wl,-soname,libcuda.so.1 -Wl,--no-as-needed $< \
	  -Wl,-rpath,'$$ORIGIN' $(move)

-include $(SANITIZED_OBJECTS:.o=.d)
