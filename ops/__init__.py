"""Commands for people: rehearse, review, preflight, cost, submit, status, diagnose, teardown, audit.

Nothing here imports Ray or the training code: Ray is driven through its CLI and its HTTP job API.
"""
