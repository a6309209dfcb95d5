"""Transcripts: stories about event time as files that people can read and any host can run."""

from eventide.testing.transcripts.checking import schema
from eventide.testing.transcripts.running import run
from eventide.testing.transcripts.transcript import Step, Transcript, load, loads

__all__ = ["Step", "Transcript", "load", "loads", "run", "schema"]
