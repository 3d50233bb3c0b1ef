# syntax=docker/dockerfile:1
# The controller's image: docker build -t reactive-desched:0.1.0 .
# To build the same image again, and to take a newer base on purpose, name the base with its digest:
#   docker pull python:3.13-slim && docker inspect --format '{{index .RepoDigests 0}}' python:3.13-slim
#   docker build --build-arg BASE=python:3.13-slim@sha256:... .
ARG BASE=python:3.13-slim
FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/reactive-desched && python -m venv /tmp/build
# The locked dependencies first: these layers change only when the locks do.
# REQUIREMENTS=aws adds what sinks.kafka.sasl.awsIam needs, REQUIREMENTS=otlp what sinks.otlp and telemetry need,
# and REQUIREMENTS=devices what reads the CEL expressions of DeviceClasses and ResourceClaims.
ARG REQUIREMENTS=run
COPY requirements/${REQUIREMENTS}.txt requirements/build.txt /tmp/
RUN /opt/reactive-desched/bin/pip install --require-hashes --only-binary :all: -r /tmp/${REQUIREMENTS}.txt
RUN /tmp/build/bin/pip install --require-hashes --only-binary :all: -r /tmp/build.txt
# Installed as a package: plugins are found by its metadata. Nothing unlocked takes part.
COPY pyproject.toml README.md LICENSE /tmp/source/
COPY reactive_desched /tmp/source/reactive_desched
RUN /tmp/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /tmp/wheels /tmp/source \
    && /opt/reactive-desched/bin/pip install --no-deps --no-index /tmp/wheels/*.whl
RUN /opt/reactive-desched/bin/python -m compileall -q /opt/reactive-desched/lib \
    && /opt/reactive-desched/bin/pip uninstall --yes --quiet pip

FROM ${BASE}
ARG BASE
ARG VERSION=0.1.0
ARG REVISION=
ARG SOURCE=
LABEL org.opencontainers.image.title="reactive-desched" \
      org.opencontainers.image.description="A descheduler for Kubernetes that reacts to changes instead of polling" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.base.name="${BASE}"
COPY --from=build /opt/reactive-desched /opt/reactive-desched
# The command, and the name by which the manifests of the SIG descheduler start it: they run this image too.
RUN printf '#!/bin/sh\nexec python -m reactive_desched "$@"\n' > /bin/reactive-desched \
    && chmod 755 /bin/reactive-desched \
    && ln -s reactive-desched /bin/descheduler
# deploy/ makes the root file system read-only: nothing but the journal's folder is written.
ENV PATH=/opt/reactive-desched/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 10258 8081
ENTRYPOINT ["python", "-m", "reactive_desched"]
