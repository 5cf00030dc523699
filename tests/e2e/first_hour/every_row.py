"""What somebody gets wrong in their first hour, and the answer that they should get.

They have read the README and nothing else. Each row was written as they would like to read
it, before it was tried: ``says`` is the sentence, ``do`` what to do next. What holds for
every answer is asked in ``test_first_hour``.
"""

from tests.e2e.first_hour.answer_rows import (
    asking_rows,
    daemon_rows,
    failing_rows,
    notify_rows,
    page_rows,
    terminal_rows,
    tool_rows,
)
from tests.e2e.first_hour.file_rows import project_rows, spec_rows, state_rows
from tests.e2e.first_hour.first_hour_row import FirstHourRow
from tests.e2e.first_hour.typed_rows import (
    command_rows,
    interpreter_rows,
    module_rows,
    name_rows,
    option_rows,
    script_rows,
    value_rows,
)

ROWS: tuple[FirstHourRow, ...] = (
    *command_rows(),
    *option_rows(),
    *script_rows(),
    *module_rows(),
    *interpreter_rows(),
    *value_rows(),
    *name_rows(),
    *spec_rows(),
    *project_rows(),
    *state_rows(),
    *asking_rows(),
    *page_rows(),
    *daemon_rows(),
    *notify_rows(),
    *tool_rows(),
    *failing_rows(),
    *terminal_rows(),
)
