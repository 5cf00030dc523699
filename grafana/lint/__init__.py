"""What pint and Grafana's dashboard-linter look for, asked of our rules and dashboards."""
