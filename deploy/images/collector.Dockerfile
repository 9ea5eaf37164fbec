# The cairn collector on Debian 12. Build from the repository's root:
#   buildah bud -f deploy/images/collector.Dockerfile -t cairn-collector .
FROM docker.io/library/debian:bookworm-slim AS build
WORKDIR /src
COPY packages.txt ./
COPY deploy/install-packages deploy/
RUN sed '/^# -- test/,$d' packages.txt > build-packages.txt && deploy/install-packages build-packages.txt
COPY . .
RUN mkdir -p build && cp packages.txt build/packages.stamp && make build/cairn-collector

FROM docker.io/library/debian:bookworm-slim
COPY deploy/images/collector-packages.txt deploy/install-packages /tmp/
RUN /tmp/install-packages /tmp/collector-packages.txt && rm -rf /var/lib/apt/lists/* /tmp/* && \
    mkdir /data && chown 10001:10001 /data
COPY --from=build /src/build/cairn-collector /usr/bin/
USER 10001:10001
VOLUME /data
EXPOSE 7070 7171
# Add --tls-cert, --tls-key and --access, or --insecure (docs/security.md).
ENTRYPOINT ["/usr/bin/cairn-collector"]
CMD ["--data", "/data", "--grpc", "0.0.0.0:7171", "--http", "0.0.0.0:7070"]
