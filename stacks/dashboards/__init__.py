"""What people see in Grafana: dashboards and alert rules, generated from code; no AWS in here.

`metrics` knows every metric that an expression may name. `content` is the document that the custom resource
puts into a workspace; `python -m stacks.dashboards` writes the same dashboards for any other Grafana.
"""
