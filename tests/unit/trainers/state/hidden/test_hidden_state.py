"""State that training changes outside of the model is found, saved and given back."""

from typing import Any

import pytest

from tests.support.hidden_scripts import Script, resumed
from trainers.state.hidden import hidden_state

KEPT = {
    "a global, by way of a helper": """
losses = []
def remember(): losses.append(len(losses))
def step(): remember()
def result(): return losses
""",
    "a global that is bound anew": """
count = 0
def step():
    global count
    count += 1
def result(): return count
""",
    "a closure": """
def make():
    total, past = 0, {}
    def step():
        nonlocal total
        total += 2
        past[total] = 1
    return step, lambda: (total, past)
step, result = make()
""",
    "closures of one function made twice": """
def make():
    total = 0
    def more():
        nonlocal total
        total += 1
        return total
    return more
one, two = make(), make()
def step(): one(), two(), two()
def result(): return one(), two()
""",
    "an object, and one inside of it": """
class Inner:
    def __init__(self): self.values = []
class Outer:
    def __init__(self): self.inner, self.count = Inner(), 0
    def add(self):
        self.count += 1
        self.inner.values.append(self.count)
outer = Outer()
inner = outer.inner
def step(): outer.add()
def result(): return outer.count, inner.values
""",
    "slots": """
class Average:
    __slots__ = ("n", "value", "__own")
    def __init__(self): self.n = self.__own = 0
    def add(self):
        self.n += 1
        self.__own += 2
        self.value = [self.n]
    def all(self): return self.n, self.__own, self.value
average = Average()
def step(): average.add()
def result(): return average.all()
""",
    "an attribute that was not there": """
class Late:
    pass
late = Late()
def step(): late.count = getattr(late, "count", 0) + 1
def result(): return late.count
""",
    "an object made on the way": """
class Best:
    def __init__(self, value): self.value = value
best = None
def step():
    global best
    if best is None: best = Best([0])
    best.value.append(1)
def result(): return best.value
""",
    "a class": """
class Stats:
    total, names = 0, {}
    @classmethod
    def add(cls):
        cls.total += 1
        cls.names[cls.total] = 1
def step(): Stats.add()
def result(): return Stats.total, Stats.names
""",
    "a function, and its defaults": """
def step(past=[]):
    step.calls = getattr(step, "calls", 0) + 1
    past.append(step.calls)
def result(): return step.calls, step.__defaults__
""",
    "behind a partial and a decorator": """
def counted(function):
    @functools.wraps(function)
    def inner(*args):
        inner.calls += 1
        return function(*args)
    inner.calls = 0
    return inner
@counted
def add(values): values.append(1)
values = []
step = functools.partial(add, values)
def result(): return values, add.calls
""",
    "one thing under two names, made in training": """
class Item:
    def __init__(self, n): self.n, self.seen = n, []
heap, by_number, best, rows = [], {}, None, []
def step():
    global best, rows
    item = Item(-len(heap))
    heap.insert(0, item)
    by_number[item.n] = item
    best, rows = heap, [np.zeros(2)] * 2
def result():
    for item in heap: item.n += 10; item.seen.append(item.n)
    best.append(1)
    rows[0] += 1
    return len(heap), [(n, item.n, item.seen) for n, item in by_number.items()], rows
""",
    "a default and bound methods of what a list holds, too": """
log, rng, weights = [], np.random.default_rng(3), np.zeros(2)
held = [log, weights, rng]
add, draw = log.append, rng.normal
def step(values=log, array=weights):
    held.reverse()
    values.append(draw()), add(1)
    array[0] += 1
def result():
    known = [any(one is thing for one in held) for thing in (log, weights, rng)]
    return known, log, weights, draw(), step.__defaults__
""",
    "another that has not changed, under the name of one": """
first, second, count = [], [1], [0]
active = first
def step(values=second):
    global active
    count[0] += 1
    if count[0] == 2: active = second
    if count[0] > 3: active.append(len(first))
def result(): return first, second, active
""",
    "a copy of what was one with it at the start": """
weights = best = np.zeros(2)
count = [0]
def step():
    global best
    count[0] += 1
    weights[0] += 1
    if count[0] == 3: best = weights.copy()
def result(): return weights, best
""",
    "methods of generators and iterators": """
draw, tick = np.random.default_rng(3).normal, itertools.count().__next__
def step(): return draw(), tick()
def result(): return step()
""",
    "generators of random numbers": """
one, two, three = random.Random(1), np.random.default_rng(2), np.random.RandomState(3)
def step(): return one.random(), two.random(), three.rand()
def result(): return step()
""",
    "iterators": """
ticks, rates = itertools.count(), itertools.cycle([1, 2, 3])
pairs = zip(range(9), enumerate("abcdefghi"))
def step(): return next(ticks), next(rates), next(pairs)
def result(): return step()
""",
    "a queue, a counter, a set, a tuple with names": """
Point = collections.namedtuple("Point", "x y")
queue, counts, seen = collections.deque(maxlen=2), collections.Counter(), set()
point = Point(0, 0)
def step():
    global point
    queue.append(len(queue)); counts["a"] += 1; seen.add(len(seen))
    point = Point(point.x + 1, 0)
def result(): return queue, counts, seen, point.x
""",
    "a large array": """
weights = np.ones((600, 600))
def step(): weights[len(weights) // 2] *= 0.5
def result(): return weights.sum()
""",
    "tensors and variables": """
average, counter = tf.constant(1.0), tf.Variable(0.0)
held = {"a": [tf.Variable([1.0, 2.0])]}
draws = tf.random.Generator.from_seed(3)
def step():
    global average
    average = average * 0.5
    counter.assign_add(1.0)
    held["a"][0].assign(held["a"][0] * 2.0)
    draws.normal([2])
def result(): return float(average), float(counter), held["a"][0].numpy(), draws.state.numpy()
""",
    "tables": """
one = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.0)
two = tf.lookup.experimental.DenseHashTable(tf.string, tf.int64, 0, "", "-")
one.insert(tf.constant([9], tf.int64), [1.0])
def step():
    key = one.size()
    one.insert([key], [2.0])
    one.remove(tf.constant([9], tf.int64))
    two.insert([tf.strings.as_string(key)], [key])
def result():
    return [sorted(part.numpy().tolist()) for t in (one, two) for part in t.export()]
""",
    "another model, with its optimizer": """
critic = network()
data = np.ones((4, 2), "float32"), np.zeros((4, 1), "float32")
critic.compile(keras.optimizers.Adam(0.1), "mse")
critic.set_weights([np.ones((2, 1)), np.zeros(1)])
def step(): critic.train_on_batch(*data)
def result(): return [v.numpy() for v in (*critic.variables, *critic.optimizer.variables)]
""",
    "an optimizer of the script's within one that scales the loss": """
class Slow(keras.optimizers.SGD):
    def __init__(self):
        super().__init__(0.1)
        self.count, self.slow = 0, {}
    def apply(self, grads, trainable_variables=None):
        super().apply(grads, trainable_variables)
        self.count += 1
        for index, one in enumerate(self._trainable_variables):
            self.slow[index] = self.slow.get(index, 0) + one.numpy() + self.count
critic = network()
critic.compile(keras.optimizers.LossScaleOptimizer(Slow()), "mse", run_eagerly=True)
critic.set_weights([np.ones((2, 1)), np.zeros(1)])
data = np.ones((4, 2), "float32"), np.zeros((4, 1), "float32")
def step(): critic.train_on_batch(*data)
def result():
    inner = critic.optimizer.inner_optimizer
    return inner.count, [one.tolist() for one in inner.slow.values()]
""",
    "a layer's own attribute": """
class Layer(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.calls, self.past, self.by_name = 0, [], {}
    def call(self, inputs):
        self.calls += 1
        self.past.append(self.calls)
        self.by_name["last"] = self.calls
        return inputs
layer = Layer()
def step(): layer(np.ones((1, 1), "float32"))
def result(): return layer.calls, list(layer.past), dict(layer.by_name)
""",
    "variables that change places": """
held = [tf.Variable(1.0), keras.Variable(10.0)]
one, other = held
by_id = {id(one): 0}
def step():
    global one, other
    one, other = other, one
    one.assign_add(1.0)
    by_id[id(one)] = float(one)
def result():
    return [float(v) for v in (*held, one, other)], one is held[0], by_id[id(one)]
""",
    "a variable that gets a second name": """
class Pair:
    def __init__(self): self.both, self.best = [tf.Variable(1.0), tf.Variable(10.0)], None
    def add(self):
        self.best = self.both[1]
        self.best.assign_add(1.0)
pair = Pair()
def step(): pair.add()
def result(): return [float(v) for v in (*pair.both, pair.best)], pair.best is pair.both[1]
""",
    "a variable that only has another name": """
held = [tf.Variable(float(index)) for index in range(3)]
names = {}
def step():
    names.setdefault("last", held[-1]).assign_add(1.0)
    held[:] = [one for one in held if one is not names["last"]]
def result(): return [float(v) for v in held], float(names["last"])
""",
    "a variable in the place of one that has gone elsewhere": """
old = []
now = tf.Variable(1.0)
def step():
    global now
    old.append(now)
    now = tf.Variable(float(now) + 1.0)
    old[0].assign_add(0.5)
def result(): return [float(v) for v in (*old, now)]
""",
    "a row of a table": """
table, zeroth, n = np.zeros((4, 3)), None, 0
aim = table[0]
def step():
    global zeroth, aim, n
    n += 1
    zeroth, aim = aim, table[n % 4]
    aim += n
def result(): return table.tolist(), zeroth.tolist(), aim.tolist()
""",
    "a row that nothing names but a list": """
table = np.zeros((4, 3))
rows = [*table]
now, n = rows[0], 0
def step():
    global now, n
    n += 1
    now = rows[n % 4]
    now += n
def result(): return table.tolist(), now.tolist(), [one.tolist() for one in rows]
""",
    "halves of a buffer": """
class Buffer:
    def __init__(self):
        self.data = np.zeros((2, 4), "float32")
        self.head, self.tail = self.data
        self.turned = self.data.T[::-1]
    def swap(self):
        self.head, self.tail = self.tail, self.head
        self.head += 1
        self.turned[0] *= 2
buffer = Buffer()
def step(): buffer.swap()
def result(): return buffer.data.tolist(), buffer.head.tolist(), buffer.tail.tolist()
""",
    "a table that is made anew, and a row of the old one": """
table = np.ones((4, 3))
kept = table[0]
def step():
    global table
    table = table + kept[0]
    table[2] *= 2.0
def result(): return table.tolist(), kept.tolist()
""",
    "a row of a table, unchanged itself": """
table = np.ones((4, 3))
kept, other = table[0], None
def step():
    global other
    table[2] += kept[0]
    other = table[1]
def result():
    table[0] += 1.0
    other[:] = 7.0
    return table.tolist(), kept.tolist()
""",
    "a row of what is too large to be saved for it": """
table = np.ones((400, 1000))
changed = np.ones((400, 1000))
row, other = table[0], changed[0]
def step():
    global row, other
    row = table[5]
    other = changed[7]
    other += 1.0
def result():
    row[:] = 3.0
    other[:] = 4.0
    return table.sum(axis=1).tolist(), changed.sum(axis=1).tolist()
""",
}


@pytest.mark.parametrize("what", KEPT)
def test_what_training_changes_goes_on_where_it_was(what: str) -> None:
    """Wherever the script keeps it; nothing is told, nor saved before it changes."""
    first, second, told = resumed(KEPT[what])
    assert told == []
    assert repr(second.namespace["result"]()) == repr(first.namespace["result"]())


LOST = {
    "rates": """
def made():
    while True: yield 1
rates = made()
def step(): next(rates)
""",
    "best": """
best = None
def step():
    global best
    best = network()
""",
    "text": """
import io
text = io.StringIO()
def step(): text.write("a")
""",
    "base": """
import sqlite3
base = sqlite3.connect(":memory:")
base.execute("create table a (b)")
def step(): base.execute("insert into a values (1)")
""",
    "weak": """
import weakref
class Key: pass
key, weak = Key(), weakref.WeakKeyDictionary()
def step(): weak[key] = 1
""",
    "part": """
class Foreign(dict): pass
part = Foreign()
def step(): part[1] = 2
""",
    "estimator.coef_": """
import argparse
class Holds:
    def __init__(self): self.estimator = argparse.Namespace(coef_=np.zeros(3))
holder = Holds()
def step(): holder.estimator.coef_ += 1
""",
}


@pytest.mark.parametrize("what", LOST)
def test_what_cannot_be_saved_is_named_when_it_has_changed(what: str) -> None:
    """And not before."""
    script = Script(LOST[what])
    assert script.capture()[2] == []
    script.step()
    (told,) = script.capture()[2]
    assert what.partition(".")[0] in told
    assert "cannot be saved" in told


def test_what_grew_too_large_is_told_with_its_first_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It grows on, and the same news with another figure at each snapshot is none."""
    monkeypatch.setattr(hidden_state, "MOST_BYTES", 2 << 20)
    script = Script("""
hoard = []
def step(): hoard.append(np.ones((3 << 20) // 8))
""")
    script.step()
    (told,) = script.capture()[2]
    assert "hoard, which takes 3 MiB" in told
    script.step()
    assert script.capture()[2] == [told]


def test_what_only_passes_is_not_told() -> None:
    """Functions, files, threads and locks are made again."""
    script = Script("""
with open(__import__("os").devnull) as closed: pass
file = lock = shown = None
def step():
    global file, lock, shown
    file, lock, shown = closed, threading.Lock(), lambda: 1
""")
    script.step()
    state, _, told = script.capture()
    assert told == []
    assert state["values"] == {}


SHY = """
class Shy:
    def __getattribute__(self, name):
        if shy and name == "__dict__": raise RuntimeError("not now")
        return object.__getattribute__(self, name)
shy, it, count = %s, Shy(), 0
def step():
    global count, shy
    count, shy = count + 1, True
    it.count = count
"""


@pytest.mark.parametrize("at_once", [True, False])
def test_what_cannot_be_looked_at_is_told_and_ends_nothing(*, at_once: bool) -> None:
    """Attributes of a script may do anything: when they are marked, or later."""
    script = Script(SHY % at_once)
    script.step()
    for _ in range(2):
        state, tensors, (told,) = script.capture()
        assert (state["values"], tensors) == ({}, [])
        assert "not now" in told
    assert script.hidden.variables() == []


def test_what_is_gone_at_the_restart_is_told() -> None:
    """A name of a class that is another now."""
    first = Script("class A:\n    n = 0\ndef step():\n    A.n += 1")
    second = Script("def step(): pass")
    first.step()
    state, _, _ = first.capture()
    (told,) = second.restore({hidden_state.KEY: state}, [])
    assert told == hidden_state.GONE.format("A.n")


def test_what_an_earlier_version_saved_is_given_back() -> None:
    """Of each callback, by the names of globals and closures."""
    script = Script("""
seen = []
def make():
    total = 0
    def step():
        nonlocal total
        total += len(seen)
        return total
    return step
step = make()
""")
    old: dict[str, Any] = {
        "callbacks": [{"outside": {"seen": [1, 2], "make.<locals>.step/total": 40}}]
    }
    assert script.restore(old, []) == []
    assert script.step() == 42


WITHOUT_DATA = """
bad, seen, log, times = 0, 0, [], tf.Variable(0)
def step(zeros=False):
    global bad, seen
    seen += 1
    if zeros:
        bad += 1
        log.append(bad)
        times.assign_add(1)
"""


def test_what_a_step_without_data_changes() -> None:
    """It may go another way than those that were saved: what is plain is put back, what
    the snapshot has is given back after it, and the rest is told."""
    first, second = Script(WITHOUT_DATA), Script(WITHOUT_DATA)
    first.step()
    state, tensors, _ = first.capture()
    kept = {hidden_state.KEY: state}
    with second.running():
        told = second.hidden.keep_while(
            lambda: second.namespace["step"](zeros=True), kept
        )
    assert second.namespace["bad"] == 0
    assert [one.partition(" changes ")[2].partition(",")[0] for one in told] == [
        "times",
        "log",
    ]
    assert second.restore(kept, tensors) == []
    assert second.namespace["seen"] == 1
