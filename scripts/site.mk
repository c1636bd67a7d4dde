# make site: README and docs as static HTML in build/site, by Sphinx in an environment of its own.

SITE_ENV := build/site-env
SITE_WANTS := scripts/site_requirements.txt

.PHONY: site
site: $(SITE_ENV)/wants
	$(Q)$(PYTHON) scripts/site_pages.py --sphinx $(SITE_ENV)/bin/python build/site

# A copy of the list stands for what is installed.
$(SITE_ENV)/wants: $(SITE_WANTS)
	$(Q)mkdir -p build; rm -rf $(SITE_ENV); \
	$(PYTHON) -m venv $(SITE_ENV) >build/site-env.log 2>&1 || { \
	  echo "make site needs Python's venv, and '$(PYTHON) -m venv' failed: install python3-venv" \
	    "(build/site-env.log has what it said)." >&2; exit 1; }
	$(Q)echo "[site] Sphinx goes into $(SITE_ENV)"
	$(Q)$(SITE_ENV)/bin/python -m pip install --quiet --no-deps --disable-pip-version-check \
	  -r $(SITE_WANTS) >>build/site-env.log 2>&1 || { \
	  echo "make site gets Sphinx with pip, once, and pip could not install it: is there a network," \
	    "or an index in PIP_INDEX_URL? (build/site-env.log has what it said.)" >&2; exit 1; }
	$(Q)cp $< $@
