# Golden facts: small PTX programs whose outcomes were recorded on a GPU (tests/golden/README.md).
# `make test` replays them on the PTX machine; `make golden` records them again.

GOLDEN := build/golden
RECORDED := tests/golden/recorded
GOLDEN_CASES := $(GOLDEN)/cases.txt
# What `make test` needs, besides the machine.
GOLDEN_TESTS := $(GOLDEN)/golden $(GOLDEN)/sums $(GOLDEN_CASES)
GOLDEN_PROGRAMS := $(GOLDEN)/golden $(GOLDEN)/questions $(GOLDEN)/sums

$(GOLDEN_CASES): tests/golden/generate.py tests/golden/suite.py $(wildcard tests/golden/cases/*.py)
	$(Q)$(PYTHON) $< $(GOLDEN)

$(GOLDEN_PROGRAMS): $(GOLDEN)/%: build/obj/tests/golden/%.o build/objects
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(link)

.PHONY: golden golden-questions golden-sums
golden: $(GOLDEN_CASES) $(GOLDEN)/golden
	$(Q)$(GOLDEN)/golden record $(GOLDEN) $(RECORDED)

golden-questions: $(GOLDEN)/questions
	$(Q)$(GOLDEN)/questions tests/golden/answers.md

golden-sums: $(GOLDEN)/sums
	$(Q)$(GOLDEN)/sums facts tests/golden/sums.txt
	$(Q)$(GOLDEN)/sums errors docs/results/h200.sums.json
