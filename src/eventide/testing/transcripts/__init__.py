"""Transcripts: stories about event time as files that people can read and any host can run."""

from eventide.testing.transcripts.runner import run
from eventide.testing.transcripts.transcript import Transcript, TranscriptStep, load, loads, schema

__all__ = ["Transcript", "TranscriptStep", "load", "loads", "run", "schema"]
