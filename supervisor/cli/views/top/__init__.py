"""``trainwarden top`` on a terminal: keys, a view of all jobs, pages, and what draws them.

``key_input``    bytes of a terminal to keys
``top_view``     what is looked at, and what a key makes of it: a value to a value
``job_listing``  which jobs are listed, in which order
``job_columns``  the table of jobs, in the width there is
``job_details``  the page of one job; ``log_lines``: that of its log
``top_frame``    all of it as the lines of a screen
``raw_terminal`` a terminal whose keys come one by one, given back whatever happens
``top_screen``   the loop between them: keys and news in, frames out
"""
