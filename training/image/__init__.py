"""What the training image is made of, and the check that its build ends with."""
