"""The receiver: what an agent's command line runs for each of its events, as `python3 -I -S receiver.py --agent NAME`.

It keeps the event in the spool, pokes the daemon and leaves with 0, whatever happens: nothing here may change what the
agent does. A script is compiled at every start, so this one only fetches the compiled `intake.py` beside it.
"""

import posix
import sys

if __name__ == "__main__":
    try:
        from _frozen_importlib_external import SourceFileLoader

        loader = SourceFileLoader("intake", __file__[: -len("receiver.py")] + "intake.py")
        intake = {"__name__": "intake"}
        exec(loader.get_code("intake"), intake)  # type: ignore[arg-type]  # noqa: S102
        intake["run"](sys.argv[1:])  # type: ignore[operator]
    finally:
        posix._exit(0)
