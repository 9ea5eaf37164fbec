# The cairn agent, with the CLI. `make images` builds it, with the Debian packages of `make debs` as its context.
# Run as root with hostPID and the capabilities and mounts of deploy/kubernetes/base/agent.yaml.
ARG BASE=docker.io/library/debian:bookworm-slim
FROM $BASE
ARG SOURCE_DATE_EPOCH
RUN --mount=type=bind,source=.,target=/packages /packages/install cairn cairn-agent
ENTRYPOINT ["/usr/bin/cairn-agent"]
