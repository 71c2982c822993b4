"""REST and the web page of Holdfast inside a FastAPI application, behind the application's own login.

    uvicorn mounted_fastapi:app

Then open http://127.0.0.1:8000/enter and http://127.0.0.1:8000/holdfast/.
"""

import os
from pathlib import Path

from fastapi import FastAPI, Request, Response

from holdfast import Event, Outbox

DATABASE = Path(os.environ.get("SHOP_DB", "shop.db")).absolute()

outbox = Outbox(f"sqlite:///{DATABASE}")
outbox.migrate()
app = FastAPI(lifespan=outbox.lifespan)


@outbox.on("order.*")
async def pack(event: Event) -> None:
    """A durable handler. It runs in this process, together with the page."""


def may(request: Request) -> set[str] | None:
    """The scopes of a visitor, by your own login. None: the visitor sees nothing."""
    return {"ada": {"read", "operate"}, "bob": {"read"}}.get(request.cookies.get("user", ""))


app.mount("/holdfast", outbox.asgi(auth=may))


@app.get("/enter")
def enter(response: Response, user: str = "ada") -> str:
    """Stands for your own login."""
    response.set_cookie("user", user, httponly=True, samesite="strict")
    return f"Welcome, {user}."
