"""The baseline for `POST /api/events`: a bare Starlette endpoint that parses the same JSON and stores nothing.

python -m benchmarks.bare_http PORT
"""

from __future__ import annotations

import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


async def take(request: Request) -> JSONResponse:
    await request.json()
    return JSONResponse({"id": "evt_0", "stream": "evt_0", "seq": 1, "duplicate": False}, 201)


app = Starlette(routes=[Route("/events", take, methods=["POST"])])


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error", access_log=False)
