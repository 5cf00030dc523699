"""The daemon of a training box: many jobs of many users in one loop.

``entries``    one job as the daemon has it in mind
``quarters``   how and where the jobs of a user run: by systemd, or as our own children
``starting``   from a job to a driven run: begun, resumed, or found running
``box``        all jobs of this machine: whose turn it is, what runs, what has ended
``desk``       what people may ask of the box, and who may
``jobfiles``   the jobs that stand in files
``gpus``       the GPUs as people are shown them
``requests``   what comes over the control socket, as calls of the box: a table of routes
``bodies``     what may be sent with a request
``routes``     a route, and the OpenAPI document of many, with the ``shapes`` of answers
``loop``       waits, and lets every run advance
"""
