# The review page of one project: docs/elsewhere.md
FROM python:3.11-slim

# The package index of PyTorch's build without GPU libraries, which its installation page names; all else comes from the usual one
ARG TORCH_INDEX=""
WORKDIR /opt/tagtrace
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN if [ -n "$TORCH_INDEX" ]; then pip install --no-cache-dir --no-deps --constraint constraints.txt --index-url "$TORCH_INDEX" torch; fi \
    && pip install --no-cache-dir --constraint constraints.txt ".[fast,review]" \
    && useradd --create-home --uid 1000 reviewer

USER reviewer
WORKDIR /project
EXPOSE 8321
ENTRYPOINT ["tagtrace", "review", "/project", "--host", "0.0.0.0", "--allow-remote", "--port", "8321", "--no-browser"]
