"""Puts models and data sets on the shared file system: once, whole, and under their name only when whole.

    python -m training.staging --root /shared hf://VisGym/visgym_model/mixed_qwen3vl=models/visgym/mixed_qwen3vl

`sources` says where files come from (the Hugging Face hub, S3), `transfer` fetches, resumes and verifies,
`manifest` records what is there. A folder that has a manifest is complete: the manifest is written last.
"""
