# Every target installs what it needs by itself: Python 3.11 is enough (and Go, Java and Maven for the real parts).
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV_VERSION := 0.13.9
STAMP := $(VENV)/.installed
SITE_TOOLS := $(VENV)/docs
RELEASE_TOOLS := $(VENV)/release
PYTHONS ?= 3.12 3.13
BENCH ?= full
PYTHONS_TARGET ?= test
REAL_WORKERS ?= 6
IMAGE_PYTHON := $(shell sed -n 's/^ARG BASE=python:\([0-9.]*\).*/\1/p' Dockerfile)
CONNECTIONS := $(addprefix tests/,primitives/test_client_tls.py primitives/test_proxies.py \
  kube/test_session.py kube/test_client_config.py kube/test_credential_renewal.py kube/test_exec_plugin.py kube/test_oidc.py \
  kube/test_proxied_requests.py sinks/test_kafka_connection.py sinks/test_otlp_grpc.py sinks/test_webhook_sink.py \
  sinks/test_webhook_sink_proxy.py sinks/test_webhook_sink_trust.py usage/test_prometheus.py usage/test_prometheus_proxy.py \
  web/test_access.py cli/test_status.py)
QUICK := $(addprefix tests/,api controller eviction fit gate model plugins primitives state sweep telemetry \
  test_docstrings.py test_generated.py test_structure.py test_words.py)
STORIES := $(addprefix tests/,courses/test_courses.py replay/test_clock_steps.py replay/test_damaged.py replay/test_job_stories.py \
  replay/test_questions.py replay/test_stories.py migration/test_recorded_node_load.py plan/test_at_of_scarce_kinds.py plan/test_at_property.py plan/test_equals_run.py \
  recording/test_folding.py recording/test_set_clock.py policy_diff/test_fidelity.py \
  safety/test_day_of_disruptions.py safety/test_drawn_days.py safety/test_order_of_followers.py safety/test_safety_properties.py \
  flow/test_balance_target.py flow/test_consolidation_rests.py flow/test_hours_of_churn.py flow/test_making_room_rests.py flow/test_measured_use.py \
  flow/test_migration_histories.py flow/test_migration_kills.py flow/test_no_loops.py flow/test_safety.py \
  flow/test_sets_beside_others.py flow/test_ten_hours.py flow/test_turns.py \
  draining/test_emptying_against_solver.py draining/test_making_room_against_solver.py test_wild_plans.py \
  bench/test_parts.py bench/record/test_programmes.py)
WAITING := $(addprefix tests/,system examples kube)
unexport PYTHONDONTWRITEBYTECODE  # else each process compiles each module: half of a start, half of a collection

.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 16

$(BIN)/uv:
	@echo "makes $(VENV), and installs uv into it: a few seconds"
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

$(STAMP): requirements/dev.txt pyproject.toml reactive_desched/_version.py | $(BIN)/uv
	@echo "installs the locked dependencies into $(VENV): half a minute"
	VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --compile-bytecode --require-hashes -r requirements/dev.txt
	VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --no-deps --no-build-isolation -e .
	$(BIN)/python -m compileall -q -j 0 reactive_desched bench  # else each worker of `make test` compiles what is ours
	@touch $@

install: $(STAMP) ## create .venv and install the locked dependencies

demo: $(STAMP) ## watch the descheduler answer a simulated day (under a minute)
	$(BIN)/reactive-desched demo

format: $(STAMP) ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(STAMP) ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint ## lint, and the unit tests of what decides (under 90 s on two quiet cores)
	$(BIN)/pytest -q -n 2 $(QUICK)

test: $(STAMP) ## all that needs nothing but Python and is no story (four and a half minutes on two cores)
	$(MAKE) --jobs=2 --output-sync=target test-waiting test-computing

test-waiting: $(STAMP) ## of `make test`, the folders whose tests wait for processes and clocks more than they compute
	$(BIN)/pytest -n 5 --dist worksteal --durations 10 $(WAITING)

test-computing: $(STAMP) ## of `make test`, all the others: each worker collects them, so there is one for each core
	$(BIN)/pytest -n 2 --dist worksteal --durations 10 tests --ignore tests/e2e --ignore tests/release $(addprefix --ignore ,$(WAITING) $(STORIES))

test-deep: $(STAMP) ## the property tests with EXAMPLES=500 examples each, other ones in each run
	TIER=deep $(BIN)/pytest -q -n 2 -m hypothesis tests --ignore tests/e2e --ignore tests/release --timeout 3000

simulate: $(STAMP) ## play stories of a cluster in trouble (SEEDS=1000, FIRST=0), check what must hold, and replay each; then the tests that play stories, and those that run the programs of `make bench`
	$(BIN)/python -m tests.safety $(FIRST:%=--first %) $(SEEDS:%=--seeds %)
	$(BIN)/pytest -q -n 2 --dist worksteal --timeout 900 $(STORIES)

real-tools: $(STAMP) ## build the control plane, KWOK, Alertmanager and a collector, fetch Kafka and Prometheus, into a cache folder; install Chromium
	$(BIN)/python tools/real/build.py

$(SITE_TOOLS)/.installed: requirements/docs.txt | $(BIN)/uv
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(SITE_TOOLS)
	$(BIN)/uv pip install --quiet --python $(SITE_TOOLS)/bin/python --require-hashes -r requirements/docs.txt
	@touch $@

docs: $(SITE_TOOLS)/.installed ## build the documentation site in build/site; a broken link or anchor fails (seconds)
	NO_MKDOCS_2_WARNING=1 $(SITE_TOOLS)/bin/mkdocs build --strict 2>&1 | grep -vE "^INFO"; exit $${PIPESTATUS[0]}

test-real: $(STAMP) $(RELEASE_TOOLS)/.installed real-tools docs ## end-to-end tests on the real control plane and the real broker, and those of a release
	RELEASE_TOOLS=$(RELEASE_TOOLS) $(BIN)/pytest -n $(REAL_WORKERS) --dist loadfile --no-loadscope-reorder --durations 40 tests/e2e tests/release

picture: $(STAMP) real-tools ## take the pictures of the live page and of a terminal that the README shows
	PICTURE=docs/images/live-page.png $(BIN)/pytest -q tests/e2e/test_demo_page.py
	PICTURE=docs/images/terminal.svg $(BIN)/pytest -q tests/e2e/test_tutorial.py

generated: $(STAMP) ## write the pages, schemas, manifests and messages that come from code
	$(BIN)/python -m tools.write_entry_points
	$(MAKE) --silent install
	$(BIN)/python -m tools.write_reference
	$(BIN)/python -m tools.reason_meanings
	$(BIN)/python -m tools.write_schemas
	$(BIN)/python -m tools.write_event_schemas
	$(BIN)/python -m tools.write_dashboards
	$(BIN)/python -m tools.write_memory
	$(BIN)/python -m tools.write_chart
	$(BIN)/python -m tests.support.policy_messages

bench: $(STAMP) ## measure against the goals (BENCH=small: three minutes instead of fifteen)
	$(BIN)/python -m bench --size $(BENCH)

test-connections: $(STAMP) ## the tests of TLS, proxies and credentials alone
	$(BIN)/pytest -q -n 4 $(CONNECTIONS)

test-image: | $(BIN)/uv ## `make test-connections` on the Python of the image (Dockerfile): what differs between Pythons is there
	$(MAKE) --silent test-pythons PYTHONS=$(IMAGE_PYTHON) PYTHONS_TARGET=test-connections

test-pythons: | $(BIN)/uv ## `make test` on the other Pythons of PYTHONS="3.12 3.13", where this machine has or uv can fetch them
	@unset VIRTUAL_ENV; export PATH="$$PATH:$$(printf '%s:' $(HOME)/.pyenv/versions/*/bin)"; tested=; missing=; failed=; \
	for version in $(PYTHONS); do \
	  find="$(BIN)/uv python find --no-project --no-python-downloads $$version"; \
	  python=$$($$find 2> /dev/null) || { $(BIN)/uv python install --no-bin $$version && python=$$($$find); } \
	    || { missing+=" $$version"; continue; }; \
	  echo "Python $$version: $$python"; \
	  $(MAKE) --silent VENV=$(VENV)/python$$version PYTHON=$$python $(PYTHONS_TARGET) && tested+=" $$version" || failed+=" $$version"; \
	done; \
	echo "passed:$${tested:- none}; failed:$${failed:- none}; NOT TESTED, no such Python here:$${missing:- none}"; \
	[ -z "$$failed" ]

$(RELEASE_TOOLS)/.installed: requirements/release.txt | $(BIN)/uv
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(RELEASE_TOOLS)
	$(BIN)/uv pip install --quiet --python $(RELEASE_TOOLS)/bin/python --require-hashes -r requirements/release.txt
	@touch $@

test-release: $(STAMP) $(RELEASE_TOOLS)/.installed ## build, install and run what a release publishes (a minute)
	RELEASE_TOOLS=$(RELEASE_TOOLS) $(BIN)/pytest -q -n 2 --dist loadfile --durations 5 tests/release

dist: $(RELEASE_TOOLS)/.installed ## wheel, sdist, SBOM and SHA256SUMS in dist/; a licence that is not allowed fails
	$(RELEASE_TOOLS)/bin/python -m tools.release dist --uv $(BIN)/uv

version: | $(BIN)/uv ## write VERSION=0.2.0 wherever a version stands
	$(BIN)/python -m tools.release version $(VERSION)

changelog: $(RELEASE_TOOLS)/.installed ## move the fragments of changes/ into CHANGELOG.md, under VERSION=0.2.0
	$(RELEASE_TOOLS)/bin/towncrier build --yes --version $(VERSION)

release: ## check, and make in dist/ what docs/howto/release.md publishes; of committed files only
	@[ -z "$$(git status --porcelain)" ] || { git status --short; echo "commit first: a release is made of a commit"; exit 1; }
	$(MAKE) test-release dist

lock: | $(BIN)/uv ## renew the locks with hashes
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 \
	  --no-emit-index-url --no-emit-find-links --no-annotate --no-header pyproject.toml -o requirements/run.txt
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 \
	  --no-emit-index-url --no-emit-find-links --no-annotate --no-header pyproject.toml --extra aws \
	  --constraint requirements/run.txt -o requirements/aws.txt
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 \
	  --no-emit-index-url --no-emit-find-links --no-annotate --no-header pyproject.toml --extra devices \
	  --constraint requirements/run.txt -o requirements/devices.txt
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 \
	  --no-emit-index-url --no-emit-find-links --no-annotate --no-header pyproject.toml --extra otlp \
	  --constraint requirements/run.txt -o requirements/otlp.txt
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 \
	  --no-emit-index-url --no-emit-find-links --no-annotate --no-header pyproject.toml --group dev -o requirements/dev.txt
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 \
	  --no-emit-index-url --no-emit-find-links --no-annotate --no-header --group build -o requirements/build.txt
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 \
	  --no-emit-index-url --no-emit-find-links --no-annotate --no-header --group docs -o requirements/docs.txt
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 \
	  --no-emit-index-url --no-emit-find-links --no-annotate --no-header --group release -o requirements/release.txt

clean: ## remove what the targets made, except the cache of real parts
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build

.PHONY: help install demo format lint check generated docs test test-waiting test-computing test-deep simulate real-tools test-real picture bench \
  test-connections test-image test-pythons test-release dist version changelog release lock clean
