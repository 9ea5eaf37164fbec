# The cairn agent on Debian 12. Build from the repository's root:
#   buildah bud -f deploy/images/agent.Dockerfile -t cairn-agent .
# Run as root with hostPID and the capabilities and mounts of deploy/kubernetes/base/agent.yaml.
FROM docker.io/library/debian:bookworm-slim AS build
WORKDIR /src
COPY packages.txt ./
COPY deploy/install-packages deploy/
RUN sed '/^# -- test/,$d' packages.txt > build-packages.txt && deploy/install-packages build-packages.txt
COPY . .
RUN mkdir -p build && cp packages.txt build/packages.stamp && make build/cairn-agent build/cairn

FROM docker.io/library/debian:bookworm-slim
COPY deploy/images/agent-packages.txt deploy/install-packages /tmp/
RUN /tmp/install-packages /tmp/agent-packages.txt && rm -rf /var/lib/apt/lists/* /tmp/*
COPY --from=build /src/build/cairn-agent /src/build/cairn /usr/bin/
ENTRYPOINT ["/usr/bin/cairn-agent"]
