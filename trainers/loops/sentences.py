"""What is said of a loop of the script's own."""

import threading

EXACT = "exact to the bit"
UNSAVED = (
    "steps are made outside of fit (a GradientTape loop, train_on_batch): they are"
    " watched and counted, but not saved, and after a restart the script"
    " does them again ({}); `from trainers import session` saves the steps of such a loop"
)
EAGER = "they are computed eagerly: put the step into a tf.function"
TAPE = "a GradientTape is open around the call of a tf.function"
FAILED = "a call of a tf.function failed"
OURS = "they could not be recorded: {!r}"
THREADS = "another thread uses what the steps change"
RESULT = "{} returned a {}, which is not recorded"
OWN_STATE = "{} keeps state in operations that nobody can read: {}"
CALLBACKS = "{} was given callbacks"
TOO_LARGE = (
    "what the script looks at between the steps is too much to record: eight times what"
    " the variables take"
)
TOO_MANY = "there are too many kinds of calls and results"
VARIABLE = "{} is a variable whose values cannot be recorded"
LEFT_BEFORE = "in an earlier attempt the script went another way than before"
RANDOM = (
    "{} draws from TensorFlow's own random operations (tf.random.uniform, say), whose"
    " state nobody can read: what is drawn after a restart is not the same (use"
    " tf.random.stateless_* or keras.random)"
)
PYTHON = (
    "{} calls Python (tf.py_function or tf.numpy_function), which is not called again for"
    " the steps before a snapshot: what it keeps there is not as it was"
)
REPLAYS = (
    "the script runs from its top: its steps up to {} are answered from the record, and"
    " not computed again"
)
LOST = (
    "the script went another way than it did before ({}): its loop begins anew, and is"
    " not saved any more"
)
OTHER_VARIABLE = "it looked at another variable"
OTHER_CALL = "it called {}, where it was {}"
OTHER_DATA = "{} was called with other data"
OTHER_FILE = "it wrote another file"
ENDED = "it ended before"
READS = (
    "it reads {} before it writes it: what an earlier attempt left there, and not what it"
    " found at first"
)
ON_REPLICAS = (
    "the loop trains on several devices by a strategy, each of which has a state of its"
    " own; `fit` under tf.distribute.MirroredStrategy is resumed"
)
NOT_PUT_BACK = (
    "its files are not put back (files.rewind), and a replay of the loop from the top would"
    " go by what they hold"
)
ORIGINAL_LOST = (
    "{} was there before the loop, which writes it anew: a script that reads it at its top"
    " goes another way after a restart"
)
OTHER_FITS = "it made other calls of fit"
FILE_LATER = (
    "the script reads {}, which the attempt before had written again after the snapshot and"
    " this one not yet: it goes on by what was to come"
)
FILE_GONE = "{} is gone"


def is_ours() -> bool:
    """Whether the thread that asks is one of ours."""
    return threading.current_thread().name.startswith("trainwarden")
