# One image for web, worker and the one-off commands: docker-compose.yml says which.
FROM python:3.13-slim

ARG UV_VERSION=0.13.8
RUN pip install --no-cache-dir "uv==${UV_VERSION}" \
    && useradd --uid 10001 --create-home --shell /usr/sbin/nologin taskhub \
    && install -d -o taskhub -g taskhub /data

ENV UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy UV_NO_CACHE=1 UV_PYTHON_DOWNLOADS=never \
    PATH=/app/.venv/bin:$PATH PYTHONUNBUFFERED=1 \
    TASKHUB_DATA_DIR=/data

WORKDIR /app
# Dependencies first: they change less often than the code. The exact versions stand in pyproject.toml.
COPY pyproject.toml README.md ./
RUN uv sync --no-dev
COPY manage.py ./
COPY taskhub taskhub
COPY templates templates
COPY static static

USER taskhub
EXPOSE 8000
ENTRYPOINT ["python", "manage.py"]
CMD ["web", "--host", "0.0.0.0"]
