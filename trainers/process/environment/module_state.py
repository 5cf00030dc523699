"""Whether a module is being imported, without touching it."""


def is_initializing(module: object) -> bool:
    """Whether the import of ``module``, of ``sys.modules``, has begun and is not over: the
    import system keeps that with its specification (``importlib._bootstrap``).

    Past what the module makes of being asked: one that ``importlib.util.LazyLoader`` loads
    at the first touch would be loaded here, maybe under another thread that does it at the
    same time (CPython gh-114763).
    """
    try:
        kept = object.__getattribute__(module, "__dict__")
    except AttributeError:  # something else that a script has put there
        return False
    return getattr(kept.get("__spec__"), "_initializing", False) is True
