"""`holdfast demo`: a short demonstration with a real daemon, application and webhook receiver."""
