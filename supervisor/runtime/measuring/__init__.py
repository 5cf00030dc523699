"""A script that is started to be measured: estimated, certified, tried in other ways."""
