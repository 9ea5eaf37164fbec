# The cairn collector, with the CLI. `make images` builds it, with the Debian packages of `make debs` as its context.
ARG BASE=docker.io/library/debian:bookworm-slim
FROM $BASE
ARG SOURCE_DATE_EPOCH
RUN --mount=type=bind,source=.,target=/packages /packages/install cairn cairn-collector && \
    mkdir /data && chown 10001:10001 /data
USER 10001:10001
VOLUME /data
EXPOSE 7070 7171
# Add --tls-cert, --tls-key and --access, or --insecure (docs/security.md).
ENTRYPOINT ["/usr/bin/cairn-collector"]
CMD ["--data", "/data", "--grpc", "0.0.0.0:7171", "--http", "0.0.0.0:7070"]
