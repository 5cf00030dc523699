"""The schema of the ledger, as the steps that lead to it: only ever appended to."""

MIGRATIONS = (
    """
    CREATE TABLE runs (
        id INTEGER PRIMARY KEY,
        run_id TEXT NOT NULL UNIQUE,
        job TEXT NOT NULL,
        number INTEGER NOT NULL,
        script TEXT NOT NULL,
        script_hash TEXT NOT NULL,
        seed INTEGER NOT NULL,
        spec TEXT NOT NULL,
        plan TEXT,
        state TEXT NOT NULL,
        message TEXT NOT NULL DEFAULT '',
        began_at REAL NOT NULL,
        ended_at REAL,
        UNIQUE (job, number)
    ) STRICT;
    CREATE TABLE attempts (
        run INTEGER NOT NULL REFERENCES runs (id),
        number INTEGER NOT NULL,
        began_at REAL NOT NULL,
        history TEXT NOT NULL,
        PRIMARY KEY (run, number)
    ) STRICT;
    CREATE TABLE incidents (
        id INTEGER PRIMARY KEY,
        run INTEGER NOT NULL REFERENCES runs (id),
        attempt INTEGER NOT NULL,
        at REAL NOT NULL,
        cause TEXT NOT NULL,
        because TEXT NOT NULL,
        memory TEXT,
        advice TEXT NOT NULL,
        remedy TEXT NOT NULL,
        deviations TEXT NOT NULL DEFAULT '[]',
        failed_step INTEGER,
        restored_step INTEGER,
        lost_steps INTEGER,
        downtime_seconds REAL,
        UNIQUE (run, attempt)
    ) STRICT;
    """,
    # Not only ends are incidents: one of each kind an attempt.
    """
    ALTER TABLE incidents RENAME TO incidents_1;
    CREATE TABLE incidents (
        id INTEGER PRIMARY KEY,
        run INTEGER NOT NULL REFERENCES runs (id),
        attempt INTEGER NOT NULL,
        at REAL NOT NULL,
        cause TEXT NOT NULL,
        because TEXT NOT NULL,
        memory TEXT,
        advice TEXT NOT NULL,
        remedy TEXT NOT NULL,
        deviations TEXT NOT NULL DEFAULT '[]',
        failed_step INTEGER,
        restored_step INTEGER,
        lost_steps INTEGER,
        downtime_seconds REAL,
        happened TEXT NOT NULL DEFAULT 'ended',
        UNIQUE (run, attempt, happened)
    ) STRICT;
    INSERT INTO incidents SELECT *, 'ended' FROM incidents_1;
    DROP TABLE incidents_1;
    """,
    # Remedies add up to one value; GPUs stay out of use until a person says otherwise.
    """
    ALTER TABLE runs ADD COLUMN treatment TEXT;
    UPDATE runs SET treatment = json_object('plan', json(plan)) WHERE plan IS NOT NULL;
    ALTER TABLE runs DROP COLUMN plan;
    ALTER TABLE incidents ADD COLUMN stacks TEXT NOT NULL DEFAULT '';
    CREATE TABLE quarantine (
        id INTEGER PRIMARY KEY,
        gpu TEXT NOT NULL,
        run INTEGER NOT NULL REFERENCES runs (id),
        attempt INTEGER NOT NULL,
        at REAL NOT NULL,
        because TEXT NOT NULL,
        returned_at REAL
    ) STRICT;
    """,
    "ALTER TABLE incidents ADD COLUMN autopsy TEXT",
    # A daemon: jobs that wait, files that belong to users, who did what.
    """
    ALTER TABLE runs ADD COLUMN place TEXT;
    ALTER TABLE runs ADD COLUMN budget_since INTEGER NOT NULL DEFAULT 1;
    ALTER TABLE incidents ADD COLUMN acknowledged_at REAL;
    ALTER TABLE incidents ADD COLUMN acknowledged_by TEXT;
    CREATE TABLE jobs (
        name TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        spec TEXT NOT NULL,
        source TEXT,
        wanted TEXT NOT NULL,
        fresh INTEGER NOT NULL DEFAULT 0,
        accept_changes INTEGER NOT NULL DEFAULT 0,
        submitted_at REAL NOT NULL,
        turn INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE audit (
        id INTEGER PRIMARY KEY,
        at REAL NOT NULL,
        who TEXT NOT NULL,
        did TEXT NOT NULL,
        job TEXT,
        detail TEXT NOT NULL
    ) STRICT;
    CREATE TABLE settings (
        name TEXT PRIMARY KEY,
        value TEXT NOT NULL
    ) STRICT;
    """,
    # A restart, or a start that waits for its turn, is not forgotten with the daemon.
    "ALTER TABLE jobs ADD COLUMN again INTEGER NOT NULL DEFAULT 0",
    # A job that somebody took off the list; its incidents stay.
    "ALTER TABLE runs ADD COLUMN forgotten_at REAL",
    # Histories of attempts say more than versions before this one can read: they refuse.
    "SELECT 1",
    # What came of the proof of the resume after it.
    "ALTER TABLE incidents ADD COLUMN proof TEXT",
    # The last turn is found without reading all jobs.
    "CREATE INDEX jobs_by_turn ON jobs (turn)",
    # How each attempt went, for those who look at it later; and whose a run was.
    """
    CREATE TABLE progress (
        run INTEGER NOT NULL REFERENCES runs (id),
        attempt INTEGER NOT NULL,
        seconds REAL NOT NULL,
        device_peak INTEGER,
        host_peak INTEGER,
        series TEXT NOT NULL,
        PRIMARY KEY (run, attempt)
    ) STRICT;
    ALTER TABLE runs ADD COLUMN user TEXT;
    """,
    # A process may go on after a failed step, and more than once.
    """
    ALTER TABLE incidents RENAME TO incidents_2;
    CREATE TABLE incidents (
        id INTEGER PRIMARY KEY,
        run INTEGER NOT NULL REFERENCES runs (id),
        attempt INTEGER NOT NULL,
        at REAL NOT NULL,
        cause TEXT NOT NULL,
        because TEXT NOT NULL,
        memory TEXT,
        advice TEXT NOT NULL,
        remedy TEXT NOT NULL,
        deviations TEXT NOT NULL DEFAULT '[]',
        failed_step INTEGER,
        restored_step INTEGER,
        lost_steps INTEGER,
        downtime_seconds REAL,
        happened TEXT NOT NULL DEFAULT 'ended',
        stacks TEXT NOT NULL DEFAULT '',
        autopsy TEXT,
        acknowledged_at REAL,
        acknowledged_by TEXT,
        proof TEXT,
        recovery INTEGER NOT NULL DEFAULT 0,
        UNIQUE (run, attempt, happened, recovery)
    ) STRICT;
    INSERT INTO incidents SELECT *, 0 FROM incidents_2;
    DROP TABLE incidents_2;
    """,
    # What the peak of an attempt was measured against.
    "ALTER TABLE progress ADD COLUMN device_limit INTEGER",
    # What an attempt that has ended told of its snapshots, in more records than a daemon
    # that begins has time to read again.
    """
    CREATE TABLE snapshot_totals (
        run INTEGER NOT NULL REFERENCES runs (id),
        attempt INTEGER NOT NULL,
        totals TEXT NOT NULL,
        PRIMARY KEY (run, attempt)
    ) STRICT;
    """,
    # The time between attempts, which no file of an attempt tells.
    "ALTER TABLE runs ADD COLUMN between_attempts TEXT",
    # A failed step that an attempt was allowed to go on after in its process.
    "ALTER TABLE runs ADD COLUMN offer TEXT",
    # How long a run had ended before a person let it go on.
    "ALTER TABLE runs ADD COLUMN paused_seconds REAL NOT NULL DEFAULT 0",
)
"""What leads from one schema version to the next; ``user_version`` counts them."""
