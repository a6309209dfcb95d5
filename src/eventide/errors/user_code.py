"""Where in a user's code an error was raised."""

from __future__ import annotations

from types import TracebackType

_OURS = "eventide"


def user_line(cause: BaseException) -> tuple[str, int] | None:
    """Return the file name and the line of the user's code that raised; None: no code of a user took part.

    A user's code begins at the first frame outside of Eventide. Of its file, the innermost line counts: what a library
    does below it says little to the user.
    """
    frames = list(_frames(cause.__traceback__))
    first = next((file for module, file, _ in frames if module.partition(".")[0] != _OURS), None)
    lines = [line for _, file, line in frames if file == first]
    return None if first is None else (first.replace("\\", "/").rpartition("/")[2], lines[-1])


def _frames(traceback: TracebackType | None) -> list[tuple[str, str, int]]:
    frames = []
    while traceback is not None:
        frame = traceback.tb_frame
        frames.append((str(frame.f_globals.get("__name__", "")), frame.f_code.co_filename, traceback.tb_lineno))
        traceback = traceback.tb_next
    return frames
