# recalld with its default store: one binary, one SQLite file under /data. deploy/compose.yaml runs two of it on a PostgreSQL and a Redis.
#
#   docker build -t recalld .
#   docker run -p 127.0.0.1:7077:7077 -v recalld:/data -e RECALLD_API_KEY="$(openssl rand -hex 32)" recalld

FROM rust:1-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cargo build --release --locked && strip target/release/recalld

FROM debian:bookworm-slim
RUN useradd --system --uid 7077 --home-dir /data recalld && install -d -o recalld -g recalld -m 700 /data
COPY --from=build /src/target/release/recalld /usr/local/bin/recalld
USER recalld
VOLUME /data
EXPOSE 7077
# Inside a container the server must listen on all addresses, so it refuses to start without RECALLD_API_KEY.
ENV RECALLD_DATA=/data/recalld.db RECALLD_LISTEN=0.0.0.0:7077
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=3s CMD ["recalld", "doctor", "--quiet"]
ENTRYPOINT ["recalld"]
CMD ["serve"]
