# The web page of limner: docs/serve_team.md says how to run it.
FROM python:3.13-slim AS build
COPY . /limner
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /dist /limner

FROM python:3.13-slim
# The home is also the place of the answers, of trained systems and of compiled code, so that one volume has them all.
RUN useradd --create-home --home-dir /data limner
RUN --mount=type=bind,from=build,source=/dist,target=/dist \
    --mount=type=bind,source=constraints.txt,target=/constraints.txt \
    pip install --no-cache-dir -c /constraints.txt "$(echo /dist/limner-*.whl)[web,store,onnx]"
USER limner
WORKDIR /data
VOLUME /data
EXPOSE 8765
HEALTHCHECK --start-period=60s CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8765/login', timeout=20)"]
ENTRYPOINT ["limner", "serve", "--team", "--host", "0.0.0.0", "--store", "/data/answers.db"]
CMD ["scenes"]
