# What puts rewritten PTX into programs, and kernels that exist to have bugs put into them.

build/machine/libreplace_ptx.so: common/machine/interpose/replace_ptx.cpp build/flags
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(CXXFLAGS) -shared -o $(NEW) $< -ldl $(move)

KERNEL_PROGRAMS := $(patsubst tests/machine/kernels/%.cu,build/tests/kernels/%,$(wildcard \
  tests/machine/kernels/*.cu))
$(KERNEL_PROGRAMS): build/tests/kernels/%: build/obj/tests/machine/kernels/%.o build/libhost.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(link)

-include $(wildcard build/obj/tests/machine/kernels/*.d)
