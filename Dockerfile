# The daemon in a container:
#   docker build -t holdfast .
#   docker run -p 127.0.0.1:4653:4653 -v holdfast:/var/lib/holdfast holdfast
FROM python:3.13-slim AS build
WORKDIR /source
RUN python -m venv /opt/holdfast
COPY requirements/run.lock requirements/
RUN /opt/holdfast/bin/python -m pip install --no-cache-dir --require-hashes -r requirements/run.lock
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY src src
RUN /opt/holdfast/bin/python -m pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.13-slim
RUN useradd --system --create-home --home-dir /var/lib/holdfast --shell /usr/sbin/nologin holdfast
COPY --from=build /opt/holdfast /opt/holdfast
ENV HOLDFAST_HOME=/var/lib/holdfast/home PATH=/opt/holdfast/bin:$PATH
USER holdfast
VOLUME /var/lib/holdfast
EXPOSE 4653
HEALTHCHECK CMD holdfast status --json || exit 1
ENTRYPOINT ["holdfast"]
CMD ["up", "--host", "0.0.0.0"]
