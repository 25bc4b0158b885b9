"""Code of the custom resources. Each module imports boto3 and the standard library only.

A module is both a Lambda function's file and importable here, so that tests call it without AWS.
"""
