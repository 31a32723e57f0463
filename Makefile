# The two commands of the README, and what a contributor needs. `make help` lists them.
# Every target first makes sure of .venv (see .ci/make-venv.sh), so each works on its own.
#
#   make demo ARGS="--domain sort --seed 3"     options for the command itself
#   make setup PYTHON=python3.12                another interpreter

.DEFAULT_GOAL := help
.PHONY: help setup demo test lab lint format browser book voila languages bwrap clean
export PYTHON

help:
	@echo 'make demo     train the tiny policy against the sandbox, before and after, with a report'
	@echo 'make lab      open JupyterLab at the first lesson (as root: ARGS=--allow-root)'
	@echo 'make test     run the tests'
	@echo 'make setup    only create .venv, or bring it up to date (PYTHON=... chooses the Python)'
	@echo 'make lint     check the code and the lessons, changing nothing'
	@echo 'make format   format the code, and build the lessons from their sources'
	@echo 'make browser  open the lessons in JupyterLab and Chromium, as a learner does, and test them'
	@echo 'make book     run the lessons, and make a site of them and of the documentation in site/'
	@echo 'make voila    show the report of the newest run as a page (ARGS=--no-browser)'
	@echo 'make languages  add toolchains to the sandbox: TypeScript (node 24) and Go, 460 MB'
	@echo 'make bwrap    add bubblewrap, one more back end of the sandbox'
	@echo 'make clean    remove .venv, caches and built packages; runs are kept'
	@echo 'ARGS="..." is handed on: make demo ARGS="--domain sort", make test ARGS="-k sandbox"'

setup:
	@sh .ci/make-venv.sh

demo: setup
	@.venv/bin/rlkit demo $(ARGS)

test: setup
	@echo 'rlkit: running the tests'
	@.venv/bin/python -m pytest $(ARGS)

# jupytext stays out of this JupyterLab: with it, opening a notebook shows the text of its
# source and saving overwrites the source, so a learner's answers would land in notebooks/src.
lab: setup
	@.venv/bin/jupyter lab --ServerApp.jpserver_extensions="{'jupyterlab_jupytext': False}" \
		notebooks/00_start_here.ipynb $(ARGS)

lint: setup
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/rlkit lessons check

format: setup
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .
	@.venv/bin/rlkit lessons build

# Needs a Chromium of the system, and says so where there is none.
browser: setup
	@sh .ci/browser.sh $(ARGS)

# The lessons run in their fast length, with the network cut; a broken link ends it.
book: setup
	@sh .ci/add-extra.sh book
	@.venv/bin/python docs/book/make.py $(ARGS)

languages: setup
	@sh .ci/add-extra.sh languages

bwrap: setup
	@sh .ci/add-extra.sh bwrap

voila: setup
	@sh .ci/add-extra.sh voila
	@.venv/bin/voila --VoilaConfiguration.extension_denylist="['jupyterlab-jupytext']" \
		notebooks/pages/report.ipynb $(ARGS)

clean:
	rm -rf .venv build dist site .pytest_cache .ruff_cache .hypothesis
	find rlkit tests notebooks -name __pycache__ -type d -prune -exec rm -rf {} +
	find notebooks -name .ipynb_checkpoints -type d -prune -exec rm -rf {} +
