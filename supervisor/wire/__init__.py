"""The formats shared by the supervisor and the training process.

Both sides may live in different Python environments, and either may die at any
moment, so they talk through files that stand for themselves. This package is the one
part of ``supervisor`` that ``trainers`` imports; it uses the standard library only.

``directive``      what the supervisor asks of one attempt, written before it starts
``page``           the telemetry page: a mapped file, where the attempt is right now
``event_file``     the append-only event file: what happened in the attempt
``records``        what is left at the end: the crash report and the exit record
``memory_answer``  who holds what, on request
``manifest``       what a snapshot says of itself; ``seal``: its hashes
``paths``          where each of these lies
``files``          writing a file so that a crash leaves the old or the new one
"""
