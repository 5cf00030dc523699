"""``trainwarden check``: is this machine fit for training?"""
