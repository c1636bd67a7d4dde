# build/maps prints the index maps of common/tile as the kernels compute them: figures are drawn from
# it and `make explore` explains it. scripts/maps/device stands in for the wrappers that common/block
# uses, so that it is compiled for the host.

build/maps: scripts/maps/maps.cpp scripts/maps/maps.mk build/flags
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) -std=c++20 -O1 $(WARNINGS) -Wno-unknown-pragmas -Iscripts/maps/device -I. \
	  -MMD -MP -MT $@ -MF build/maps.d -o $(NEW) $< $(move)

-include build/maps.d
TEST_NEEDS += build/maps

.PHONY: figures explore
figures: build/maps build/ladder build/stage-10 machine
	$(Q)$(PYTHON) scripts/figures.py

EXPLORE_KEYS := WHAT SPAN ROWS BITS MAJOR BYTES MN BK START OF LANE M N BM BN GROUP CLUSTER CTAS DEPTH \
  STEPS TILES STEPS_EACH CLUSTERS SHARE WARP
explore: build/maps
	$(Q)$(PYTHON) scripts/explore.py $(foreach key,$(EXPLORE_KEYS),$(call option,$(key),$(key)))
