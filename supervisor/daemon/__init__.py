"""The daemon of a training box: many jobs of many users in one loop.

``managed_job``    one job: its row, its life (``core.jobs.managed.job_lifecycle``), its run
``launcher_factory``   how and where the jobs of a user run: by systemd, or as our own children
``run_starter``   from a job to a driven run: begun, resumed, or found running
``scheduler``        all jobs of this machine: whose turn it is, what runs, what has ended
``api_service``       what people may ask of the box, and who may
``job_files``   the jobs that stand in files
``routes``   what comes over the control socket, as calls of the box: a table of routes
``bodies``     what may be sent with a request
``openapi``     a route, and the OpenAPI document of many, with the ``json_schema`` of answers
``daemon``       its turns, its signals, and what it tells systemd
"""
